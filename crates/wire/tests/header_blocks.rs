//! Runs the header blocks of `vectors/`: those given as octets as they are, those given as fields in every representation. In each of
//! them the result must be the same, and after a refused block the table must still be in step.

mod files;

use std::collections::HashSet;

use serde::Deserialize;
use wire::h2::{BlockError, BlockLimits, Decoder};

#[derive(Deserialize)]
struct File {
    block: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    #[serde(default)]
    role: Role,
    #[serde(default = "announced")]
    announced: usize,
    #[serde(default)]
    acknowledged: bool,
    #[serde(default = "section_bytes_max")]
    section_bytes_max: usize,
    #[serde(default = "lines_max")]
    lines_max: usize,
    #[serde(default = "target_bytes_max")]
    target_bytes_max: usize,
    sent: Vec<Sent>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    #[default]
    Request,
    Response,
    Trailers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    hex: Option<String>,
    fields: Option<Vec<String>>,
    text: Option<String>,
    refused: Option<String>,
    entries: Option<usize>,
}

fn announced() -> usize {
    4096
}

fn section_bytes_max() -> usize {
    32_768
}

fn lines_max() -> usize {
    100
}

fn target_bytes_max() -> usize {
    8_192
}

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let octet = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("an octet")
    };
    digits.chunks(2).map(octet).collect()
}

/// `name: value`, where the name may start with a colon.
fn split(field: &str) -> (&[u8], &[u8]) {
    let at = field.find(": ").expect("a colon and a space");
    (&field.as_bytes()[..at], &field.as_bytes()[at + 2..])
}

/// An integer with a prefix of these bits.
fn push_integer(block: &mut Vec<u8>, first: u8, mask: u8, number: usize) {
    if number < usize::from(mask) {
        return block.push(first | number as u8);
    }
    block.push(first | mask);
    let mut rest = number - usize::from(mask);
    while rest >= 128 {
        block.push(rest as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// A block of literals; `first` is the representation of those with a new name.
fn literals(fields: &[String], first: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields.iter().map(|field| split(field)) {
        block.push(first);
        for string in [name, value] {
            push_integer(&mut block, 0, 0x7f, string.len());
            block.extend_from_slice(string);
        }
    }
    block
}

/// A block of indices of the newest entries, the oldest of them first.
fn indices(count: usize) -> Vec<u8> {
    let mut block = Vec::new();
    for age in (0..count).rev() {
        push_integer(&mut block, 0x80, 0x7f, 62 + age);
    }
    block
}

fn table_size(fields: &[String]) -> usize {
    let sizes = fields.iter().map(|field| field.len() - 2 + 32);
    sizes.sum()
}

/// The text of a decoded block: that of a response starts with the status. Of a refused one, what remains of the text.
fn decode(
    decoder: &mut Decoder,
    case: &Case,
    block: &[u8],
) -> Result<String, (BlockError, String)> {
    let limits = BlockLimits {
        section_bytes_max: case.section_bytes_max,
        lines_max: case.lines_max,
        target_bytes_max: case.target_bytes_max,
    };
    // What the buffer contains has no influence.
    let mut text = b"before".to_vec();
    let status = match case.role {
        Role::Request => decoder.request(block, &limits, &mut text).map(|()| None),
        Role::Trailers => decoder.trailers(block, &limits, &mut text).map(|()| None),
        Role::Response => decoder.response(block, &limits, &mut text).map(Some),
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    match status {
        Ok(Some(status)) => Ok(format!("{status} {text}")),
        Ok(None) => Ok(text),
        Err(error) => Err((error, text)),
    }
}

/// A request that gets a response needs its method, wherever in the block it is.
fn check_method(case: &Case, sent: &Sent, error: BlockError, text: &str) {
    let gets_response = matches!(
        error,
        BlockError::TooLarge | BlockError::TargetTooLong | BlockError::UnknownProtocol
    );
    if let (Role::Request, true, Some(fields)) = (case.role, gets_response, &sent.fields) {
        let method = fields.iter().find_map(|it| it.strip_prefix(":method: "));
        assert_eq!(text, method.unwrap_or_default(), "{}", case.id);
    }
}

fn check(case: &Case, sent: &Sent, found: Result<String, (BlockError, String)>, way: &str) {
    let found = found.map_err(|(error, text)| {
        check_method(case, sent, error, &text);
        match error {
            BlockError::Compression => "compression",
            BlockError::Malformed(reason) => {
                assert!(reason.ends_with('.') && error.to_string() == reason);
                "malformed"
            }
            BlockError::TooLarge => "too large",
            BlockError::TargetTooLong => "target too long",
            BlockError::UnknownProtocol => "unknown protocol",
        }
    });
    let expected = match (&sent.text, &sent.refused) {
        (Some(text), None) => Ok(text.clone()),
        (None, Some(refused)) => Err(refused.as_str()),
        _ => panic!("{}: text or refused", case.id),
    };
    assert_eq!(found, expected, "{} ({way})", case.id);
    if let (Role::Request, Ok(head)) = (case.role, &found)
        && !head.starts_with("CONNECT ")
    {
        check_head(case, head);
    }
}

/// The text of a request is a head, and is not one that could have come from the network.
fn check_head(case: &Case, head: &str) {
    let parsed = wire::parse_decoded_request(head.as_bytes(), true, None).expect("a head");
    assert!(head.starts_with(&format!(
        "{} {} ",
        parsed.method_name.escape_ascii(),
        parsed.target.escape_ascii().to_string().replace('\\', "")
    )));
    assert_eq!(parsed.consumed, head.len(), "{}", case.id);
    assert!(parsed.host.is_some_and(|host| !host.is_empty()));
    let from_network = wire::parse_request(head.as_bytes(), &wire::HeadLimits::default());
    let kind = from_network.expect_err("refused").kind;
    assert_eq!(kind, wire::ErrorKind::UnsupportedVersion, "{}", case.id);
}

fn decoder(case: &Case) -> Decoder {
    let mut decoder = Decoder::new(case.announced);
    assert_eq!(decoder.held_bytes(), 0);
    if case.acknowledged {
        decoder.settings_acknowledged();
    }
    decoder
}

/// Entries of the table, counted with indices that change nothing.
fn entries(decoder: &mut Decoder) -> usize {
    let mut block = Vec::new();
    let is_there = |age: &usize| {
        block.clear();
        push_integer(&mut block, 0x80, 0x7f, 62 + age);
        decoder.skip(&block).is_ok()
    };
    (0..).take_while(is_there).count()
}

fn check_octets(case: &Case) {
    let mut decoder = decoder(case);
    for sent in &case.sent {
        let block = octets(sent.hex.as_deref().expect("hex"));
        check(case, sent, decode(&mut decoder, case, &block), "octets");
        if let Some(expected) = sent.entries {
            assert_eq!(entries(&mut decoder), expected, "{}", case.id);
        }
    }
}

fn check_fields(case: &Case, sent: &Sent, fields: &[String]) {
    let mut decoder = decoder(case);
    for (way, first) in [("without indexing", 0x00), ("never indexed", 0x10)] {
        let found = decode(&mut decoder, case, &literals(fields, first));
        check(case, sent, found, way);
        assert_eq!(entries(&mut decoder), 0, "{}", case.id);
    }
    assert!(table_size(fields) <= 4096, "{}", case.id);
    let inserting = literals(fields, 0x40);
    for (way, block) in [("inserted", inserting), ("indexed", indices(fields.len()))] {
        let found = decode(&mut decoder, case, &block);
        check(case, sent, found, way);
        assert_eq!(entries(&mut decoder), fields.len(), "{}", case.id);
    }
    // The names of the entries, the last of which stays the same.
    let mut block = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        push_integer(&mut block, 0x00, 0x0f, 61 + fields.len() - index);
        let value = split(field).1;
        push_integer(&mut block, 0, 0x7f, value.len());
        block.extend_from_slice(value);
    }
    check(case, sent, decode(&mut decoder, case, &block), "named");
}

fn cases() -> Vec<Case> {
    let files: Vec<File> = files::read(&["rfc7541", "rfc9113"]);
    files.into_iter().flat_map(|file| file.block).collect()
}

#[test]
fn every_block_has_its_result_in_every_representation() {
    let cases = cases();
    assert!(cases.len() >= 150, "only {} cases found", cases.len());
    for case in &cases {
        if case.sent.iter().all(|sent| sent.hex.is_some()) {
            check_octets(case);
            continue;
        }
        for sent in &case.sent {
            check_fields(case, sent, sent.fields.as_deref().expect("fields"));
        }
    }
}

#[test]
fn every_case_is_well_formed() {
    let mut ids = HashSet::new();
    for case in cases() {
        assert!(ids.insert(case.id.clone()), "{} is there twice", case.id);
        assert!(case.clause.starts_with("RFC "), "{}", case.id);
        assert!(case.why.ends_with(['.', ')']), "{}", case.id);
    }
}
