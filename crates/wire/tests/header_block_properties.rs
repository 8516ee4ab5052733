//! What holds for every header block, whatever a peer sends or an application writes.
//!
//! `PROPTEST_CASES=1000000 cargo test --release -p bolide-wire --test header_block_properties` searches for hours instead of a moment.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::h2::{BlockError, BlockLimits, Decoder, Encoder};
use wire::{BodyLength, ErrorKind};

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 2_000,
    lines_max: 20,
    target_bytes_max: 100,
};
const NO_LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: usize::MAX,
    lines_max: usize::MAX,
    target_bytes_max: usize::MAX,
};

/// What a table of this size may hold: its entries and the records of them, which grow in steps.
fn held_max(announced: usize) -> usize {
    announced.max(4096) * 3 / 2 + 64
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "accept",
            "server",
            "date",
            "x-a",
            "cookie",
            "host",
            "te",
            "content-length",
            "etag",
            "upgrade"
        ])
        .prop_map(String::from),
        select(vec![
            ":method",
            ":scheme",
            ":authority",
            ":path",
            ":status",
            ":protocol",
            ":"
        ])
        .prop_map(String::from),
        "[a-z0-9!#$-]{1,12}",
        "[ -~]{0,6}",
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        select(vec![
            "GET",
            "OPTIONS",
            "CONNECT",
            "https",
            "http",
            "a",
            "/",
            "/index.html",
            "*",
            "a:443",
            "trailers",
            "3",
            "200",
            ""
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        "[ -~]{0,40}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..60),
    ]
}

/// A part of a block.
#[derive(Clone, Debug)]
enum Part {
    Indexed(u8),
    Literal(u8, String, Vec<u8>),
    Named(u8, u8, Vec<u8>),
    Size(u8),
    Octets(Vec<u8>),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        12 => select((1..=8).chain(58..=72).collect::<Vec<u8>>()).prop_map(Part::Indexed),
        6 => (select(vec![0x00, 0x10, 0x40]), name(), value()).prop_map(|(first, name, value)| Part::Literal(first, name, value)),
        6 => (select(vec![0x00, 0x10, 0x40]), 1..15_u8, value()).prop_map(|(first, index, value)| Part::Named(first, index, value)),
        1 => (0..31_u8).prop_map(Part::Size),
        1 => vec(any::<u8>(), 1..8).prop_map(Part::Octets),
    ]
}

fn push_string(block: &mut Vec<u8>, string: &[u8]) {
    // All strings are shorter than 127.
    block.push(string.len() as u8);
    block.extend_from_slice(string);
}

fn block(parts: &[Part]) -> Vec<u8> {
    let mut block = Vec::new();
    for part in parts {
        match part {
            Part::Indexed(index) => block.push(0x80 | index),
            Part::Literal(first, name, value) => {
                block.push(*first);
                push_string(&mut block, name.as_bytes());
                push_string(&mut block, value);
            }
            Part::Named(first, index, value) => {
                block.push(first | index);
                push_string(&mut block, value);
            }
            Part::Size(size) => block.push(0x20 | size),
            Part::Octets(octets) => block.extend_from_slice(octets),
        }
    }
    block
}

/// The same fields with the method as a literal: such a block is decoded field by field. Random octets may swallow what follows them.
fn with_literal_method(parts: &[Part]) -> Vec<Part> {
    let mut are_fields = true;
    let replaced = |part: &Part| {
        are_fields &= !matches!(part, Part::Octets(_));
        match part {
            Part::Indexed(2) if are_fields => Part::Named(0x00, 2, b"GET".to_vec()),
            Part::Indexed(3) if are_fields => Part::Named(0x00, 2, b"POST".to_vec()),
            part => part.clone(),
        }
    };
    parts.iter().map(replaced).collect()
}

/// A block, and the same with a literal method.
fn blocks() -> impl Strategy<Value = Vec<[Vec<u8>; 2]>> {
    let authority = Part::Named(0x40, 1, b"a".to_vec());
    let usual = [2, 7, 4].map(Part::Indexed).into_iter().chain([authority]);
    let usual: Vec<Part> = usual.collect();
    let again: Vec<Part> = [2, 62, 7, 4].map(Part::Indexed).into();
    let started = vec(part(), 0..8).prop_map(move |parts| [&again[..], &parts].concat());
    let parts = prop_oneof![
        4 => vec(part(), 0..12),
        2 => started,
        2 => Just(usual),
        1 => vec(any::<u8>(), 0..40).prop_map(|octets| vec![Part::Octets(octets)]),
    ];
    let both = parts.prop_map(|parts| [block(&parts), block(&with_literal_method(&parts))]);
    vec(both, 1..8)
}

/// What a decoder's table has: for each entry, the result of a trailer section that consists of it.
fn table(decoder: &mut Decoder) -> Vec<(Result<(), BlockError>, Vec<u8>)> {
    let entry = |index: u8| {
        let mut text = Vec::new();
        let found = decoder.trailers(&[0x80 | index], &NO_LIMITS, &mut text);
        (found != Err(BlockError::Compression)).then_some((found, text))
    };
    (62..=126).map_while(entry).collect()
}

/// The head of an accepted request is one head, of as many lines as it should have.
fn check_head(head: &[u8]) -> Result<(), TestCaseError> {
    prop_assert!(head.len() <= LIMITS.section_bytes_max + 40);
    let end = empty_line(head);
    prop_assert_eq!(end, Some(head.len() - 4), "{}", head.escape_ascii());
    for has_content in [false, true] {
        match wire::parse_decoded_request(head, has_content, None) {
            Ok(parsed) => {
                prop_assert_eq!(parsed.consumed, head.len());
                prop_assert!(parsed.host.is_some_and(|host| !host.is_empty()));
                prop_assert!(parsed.target.len() <= LIMITS.target_bytes_max);
                prop_assert!(has_content || parsed.body_length == BodyLength::None);
                prop_assert!(
                    wire::field_lines(parsed.field_section).count() <= LIMITS.lines_max + 1
                );
            }
            Err(error) => prop_assert!(
                matches!(
                    error.kind,
                    ErrorKind::ConnectRefused
                        | ErrorKind::MethodTooLong
                        | ErrorKind::UnknownExpectation
                ) || !has_content && error.kind == ErrorKind::ContentLengthWithoutContent,
                "{:?}: {}",
                error,
                head.escape_ascii()
            ),
        }
    }
    prop_assert!(wire::parse_request(head, &wire::HeadLimits::default()).is_err());
    Ok(())
}

/// Where the first empty line starts.
fn empty_line(head: &[u8]) -> Option<usize> {
    head.windows(4).position(|window| window == b"\r\n\r\n")
}

fn is_connection_field(name: &[u8]) -> bool {
    wire::connection_field(name).is_some_and(|index| wire::CONNECTION_FIELDS[index] != "te")
}

/// The reason is for people, and may name another of several mistakes.
fn without_reason(found: Result<(), BlockError>) -> Result<(), BlockError> {
    found.map_err(|error| match error {
        BlockError::Malformed(_) => BlockError::Malformed(""),
        error => error,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing panics or passes a limit; and whether the block is decoded in one go, field by field or only for its table, the results are the same.
    #[test]
    fn every_way_to_decode_has_the_same_result(blocks in blocks()) {
        let mut decoders = [(); 4].map(|()| Decoder::new(4096));
        let [whole, by_field, skipping, trailing] = &mut decoders;
        let (mut head, mut same, mut text) = (Vec::new(), Vec::new(), Vec::new());
        for [block, same_block] in &blocks {
            let found = whole.request(block, &LIMITS, &mut head);
            let same_found = by_field.request(same_block, &LIMITS, &mut same);
            prop_assert_eq!(without_reason(same_found), without_reason(found));
            let skipped = skipping.skip(block);
            let is_undecodable = found == Err(BlockError::Compression);
            prop_assert_eq!(skipped.is_err(), is_undecodable);
            let trailers = trailing.trailers(block, &LIMITS, &mut text);
            prop_assert_eq!(trailers == Err(BlockError::Compression), is_undecodable);
            prop_assert!(whole.held_bytes() <= held_max(4096), "{}", whole.held_bytes());
            if is_undecodable {
                break;
            }
            if found.is_ok() {
                prop_assert_eq!(&head, &same);
                check_head(&head)?;
            }
            let entries = table(whole);
            prop_assert_eq!(&table(skipping), &entries);
            prop_assert_eq!(&table(trailing), &entries);
        }
    }

    /// What is encoded is decoded, whatever the table's size is and however lines are spelled.
    #[test]
    fn an_encoded_section_is_decoded(
        sections in vec((vec(("[A-Za-z][A-Za-z0-9-]{0,14}|server|Date|X-Long", "[!-~]([ -~]{0,60}[!-~])?|a{100,300}|"), 0..6), proptest::option::of(select(vec![0, 33, 100, 300, 1000, 4096, 70_000])), any::<bool>()), 1..30)
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        let (mut decoded, mut block) = (Vec::new(), Vec::new());
        for (fields, size, is_again) in &sections {
            if let Some(size) = size {
                encoder.set_table_bytes_max(*size);
            }
            let mut section = Vec::new();
            let mut expected = b"content-length: 7\r\n".to_vec();
            for (name, value) in fields {
                section.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                let lower = name.to_ascii_lowercase();
                if !is_connection_field(lower.as_bytes()) && lower != "te" && lower != "host" && lower != "content-length" {
                    expected.extend_from_slice(format!("{lower}: {value}\r\n").as_bytes());
                } else {
                    section.truncate(section.len() - name.len() - value.len() - 4);
                }
            }
            let generation = encoder.generation();
            block.clear();
            encoder.response(302, &[&section, b"Connection: close\r\n"], Some(7), &mut block);
            let is_unchanged = encoder.generation() == generation;
            // A block without a change may be sent again.
            for _ in 0..=usize::from(*is_again && is_unchanged && size.is_none()) {
                prop_assert_eq!(decoder.response(&block, &NO_LIMITS, &mut decoded), Ok(302));
                prop_assert_eq!(decoded.escape_ascii().to_string(), expected.escape_ascii().to_string());
            }
            prop_assert!(encoder.held_bytes() <= held_max(4096));
        }
    }

    /// A client's request is the head that the server reads.
    #[test]
    fn an_encoded_request_is_decoded(path in "/[!-\"$-~]{0,50}", repeats in 1..4_usize, value in "[!-~]{1,50}") {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for _ in 0..repeats {
            let (mut block, mut head) = (Vec::new(), Vec::new());
            let section = format!("X-A: {value}\r\n");
            encoder.request(b"PUT", b"https", b"a:81", path.as_bytes(), section.as_bytes(), &mut block);
            prop_assert_eq!(decoder.request(&block, &NO_LIMITS, &mut head), Ok(()));
            let expected = format!("PUT {path} HTTP/2.0\r\nHost: a:81\r\nx-a: {value}\r\n\r\n");
            prop_assert_eq!(head, expected.into_bytes());
        }
    }
}
