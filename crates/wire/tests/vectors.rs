//! Runs the cases of HTTP/1 in `vectors/` three ways: whole, split (into single bytes, and in two at every byte), and
//! followed by another request. However the bytes arrive, the result must be the same.

mod files;

use std::collections::HashSet;

use serde::Deserialize;
use wire::{
    BodyDecoder, BodyLength, Decoded, ErrorKind, HeadLimits, Progress, RequestHead, field_lines,
    parse_request, within_limits, worth_parsing,
};

#[derive(Deserialize)]
struct File {
    case: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    send: Octets,
    status: Vec<u16>,
    #[serde(default)]
    interim: Vec<u16>,
    close: bool,
    #[serde(default)]
    requests: Vec<Request>,
    #[serde(default)]
    half_close: bool,
    #[serde(default = "yes")]
    live: bool,
    #[serde(default = "yes")]
    wire: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    method: String,
    target: Octets,
    #[serde(default)]
    content: Octets,
    persistent: bool,
    authority: Option<String>,
    #[serde(default)]
    expects_continue: bool,
    #[serde(default)]
    asks_websocket: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Octets {
    One(String),
    Pieces(Vec<Piece>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Repeat { text: String, times: usize },
    Hex { hex: String },
}

impl Default for Octets {
    fn default() -> Self {
        Octets::One(String::new())
    }
}

impl Octets {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Octets::One(text) => ascii(text).to_vec(),
            Octets::Pieces(pieces) => pieces.iter().flat_map(Piece::bytes).collect(),
        }
    }
}

impl Piece {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Piece::Text(text) => ascii(text).to_vec(),
            Piece::Repeat { text, times } => ascii(text).repeat(*times),
            Piece::Hex { hex } => {
                assert!(hex.len().is_multiple_of(2), "hex {hex}");
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
                (0..hex.len()).step_by(2).map(byte).collect()
            }
        }
    }
}

fn ascii(text: &str) -> &[u8] {
    assert!(
        text.is_ascii(),
        "bytes from 0x80 on must be written in hex: {text:?}"
    );
    text.as_bytes()
}

/// One request as an application would see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    method: Vec<u8>,
    target: Vec<u8>,
    content: Vec<u8>,
    persistent: bool,
    authority: Option<Vec<u8>>,
    expects_continue: bool,
    asks_websocket: bool,
}

impl Seen {
    fn new(head: &RequestHead<'_>) -> Seen {
        check_invariants(head);
        Seen {
            method: head.method_name.to_vec(),
            target: head.target.to_vec(),
            content: Vec::new(),
            persistent: head.persistent,
            authority: head.authority.or(head.host).map(<[u8]>::to_vec),
            expects_continue: head.expects_continue,
            asks_websocket: head.asks_websocket,
        }
    }
}

/// Invariants of every head, whatever the case tests.
fn check_invariants(head: &RequestHead<'_>) {
    assert!(head.bytes.starts_with(head.method_name));
    assert!(head.bytes.ends_with(b"\r\n\r\n"));
    assert!(head.consumed == head.bytes.len() || head.consumed == head.bytes.len() + 2);
    assert_ne!(head.body_length, BodyLength::Known(0));
    let mut lines = Vec::new();
    for (name, value) in field_lines(head.field_section) {
        assert!(wire::is_field_name(name) && wire::is_field_value(value));
        lines.extend_from_slice(name);
        lines.push(b':');
        lines.extend_from_slice(value);
        lines.extend_from_slice(b"\r\n");
    }
    let without_white_space = |bytes: &[u8]| -> Vec<u8> {
        bytes
            .iter()
            .copied()
            .filter(|byte| !b" \t".contains(byte))
            .collect()
    };
    assert_eq!(
        without_white_space(&lines),
        without_white_space(head.field_section)
    );
    if head.target.starts_with(b"/") {
        let mut target = head.path.to_vec();
        target.extend(
            head.query
                .iter()
                .flat_map(|query| [b"?".as_slice(), query].concat()),
        );
        assert_eq!(target, head.target);
    }
}

/// Acts as the server: buffers what is incomplete, decodes content, stops when it must.
#[derive(Default)]
struct Receiver {
    /// Bytes of a head that was incomplete when last parsed.
    partial_head: Vec<u8>,
    /// The request whose content is being received.
    receiving: Option<(BodyDecoder, Seen)>,
    seen: Vec<Seen>,
    refused: Option<ErrorKind>,
    closed: bool,
}

impl Receiver {
    fn receive(&mut self, new: &[u8]) {
        let mut input = new;
        while !input.is_empty() && !self.closed {
            if self.receiving.is_some() {
                self.receive_content(&mut input);
            } else {
                input = self.receive_head(input);
            }
        }
    }

    /// Takes bytes of a head and returns those after it.
    fn receive_head<'a>(&mut self, new: &'a [u8]) -> &'a [u8] {
        let limits = HeadLimits::default();
        let known = self.partial_head.len();
        self.partial_head.extend_from_slice(new);
        let result = if known == 0 || worth_parsing(new) {
            parse_request(&self.partial_head, &limits)
        } else {
            within_limits(&self.partial_head, &limits).map(|()| Progress::Incomplete)
        };
        match result {
            Ok(Progress::Incomplete) => &[],
            Ok(Progress::Complete(head)) => {
                let rest = &new[head.consumed - known..];
                self.receiving = Some((BodyDecoder::new(head.body_length), Seen::new(&head)));
                self.partial_head.clear();
                // A request without content ends with its head.
                self.receive_content(&mut &b""[..]);
                rest
            }
            Err(error) => {
                assert!(error.at <= self.partial_head.len());
                self.refuse(error.kind);
                &[]
            }
        }
    }

    fn receive_content(&mut self, input: &mut &[u8]) {
        let Some((decoder, seen)) = &mut self.receiving else {
            return;
        };
        loop {
            match decoder.decode(input) {
                Ok(Decoded::Content(content)) => {
                    assert!(!content.is_empty());
                    seen.content.extend_from_slice(content);
                }
                Ok(Decoded::NeedMore) => {
                    assert!(input.is_empty());
                    return;
                }
                Ok(Decoded::End) => break,
                Err(error) => return self.refuse(error.kind),
            }
        }
        self.seen
            .extend(self.receiving.take().map(|(_, seen)| seen));
        self.closed = self.seen.last().is_some_and(|seen| !seen.persistent);
    }

    fn refuse(&mut self, kind: ErrorKind) {
        self.refused = Some(kind);
        self.closed = true;
    }

    fn is_waiting(&self) -> bool {
        !self.closed && (self.receiving.is_some() || !self.partial_head.is_empty())
    }

    /// A request whose client waits before it sends the content.
    fn interim(&self) -> Vec<u16> {
        match &self.receiving {
            Some((_, seen)) if seen.expects_continue && !self.closed => vec![100],
            _ => Vec::new(),
        }
    }
}

/// Checks that the receiver saw what the case expects.
fn check(case: &Case, receiver: &Receiver, after: &[Seen], way: &str) {
    let id = &case.id;
    let expected: Vec<Seen> = case
        .requests
        .iter()
        .map(expected_request)
        .chain(after.iter().cloned())
        .collect();
    assert_eq!(
        receiver.seen.len(),
        expected.len(),
        "{id} ({way}): {:?}",
        receiver.refused
    );
    for (seen, expected) in receiver.seen.iter().zip(&expected) {
        let any_authority = Seen {
            authority: seen.authority.clone(),
            ..expected.clone()
        };
        let expected = if expected.authority.is_some() {
            expected
        } else {
            &any_authority
        };
        assert_eq!(seen, expected, "{id} ({way})");
    }
    let mut status = vec![200; receiver.seen.len()];
    status.extend(receiver.refused.map(ErrorKind::status));
    let mut expected_status = case.status.clone();
    expected_status.extend(after.iter().map(|_| 200));
    assert_eq!(
        status, expected_status,
        "{id} ({way}): {:?}",
        receiver.refused
    );
    assert_eq!(receiver.interim(), case.interim, "{id} ({way})");
    let unfinished = receiver.is_waiting() && case.half_close;
    assert_eq!(receiver.closed || unfinished, case.close, "{id} ({way})");
}

fn expected_request(request: &Request) -> Seen {
    Seen {
        method: request.method.as_bytes().to_vec(),
        target: request.target.bytes(),
        content: request.content.bytes(),
        persistent: request.persistent,
        authority: request
            .authority
            .as_ref()
            .map(|authority| authority.as_bytes().to_vec()),
        expects_continue: request.expects_continue,
        asks_websocket: request.asks_websocket,
    }
}

/// Inputs up to this size are also cut in two at every byte, which takes quadratic time.
const CUT_BYTES_MAX: usize = 3_000;

fn check_three_ways(case: &Case) {
    let bytes = case.send.bytes();
    let received = |pieces: &[&[u8]]| {
        let mut receiver = Receiver::default();
        pieces.iter().for_each(|piece| receiver.receive(piece));
        receiver
    };
    check(case, &received(&[&bytes]), &[], "whole");
    let single_bytes: Vec<&[u8]> = bytes.chunks(1).collect();
    check(case, &received(&single_bytes), &[], "byte by byte");
    if bytes.len() <= CUT_BYTES_MAX {
        for at in 0..bytes.len() {
            let (first, second) = bytes.split_at(at);
            check(
                case,
                &received(&[first, second]),
                &[],
                &format!("cut at {at}"),
            );
        }
        check_prefixes(case, &bytes);
    }
    check_with_request_after(case, &bytes);
}

/// A prefix is incomplete, or has exactly the result of the whole.
fn check_prefixes(case: &Case, bytes: &[u8]) {
    let limits = HeadLimits::default();
    let whole = parse_request(bytes, &limits);
    for len in 0..bytes.len() {
        match (parse_request(&bytes[..len], &limits), &whole) {
            (Ok(Progress::Incomplete), _) => {}
            (Ok(Progress::Complete(prefix)), Ok(Progress::Complete(head))) => {
                assert_eq!(prefix.bytes, head.bytes, "{} up to {len}", case.id);
            }
            (Err(prefix), Err(error)) => assert_eq!(prefix, *error, "{} up to {len}", case.id),
            (prefix, _) => panic!("{} up to {len}: {prefix:?}, then {whole:?}", case.id),
        }
    }
}

/// Every vector with each byte replaced in turn. Pieces may be refused later than the whole,
/// because bytes that end no line wait for one that does, but for no other reason.
#[test]
fn a_changed_byte_is_judged_alike_in_whole_and_in_pieces() {
    let replacements = b"\0\t\n\r \":;,0/a%\x7f\x80";
    for case in cases() {
        let bytes = case.send.bytes();
        for at in 0..bytes.len().min(200) {
            for replacement in replacements {
                let mut changed = bytes[..bytes.len().min(400)].to_vec();
                changed[at] = *replacement;
                check_pieces(&changed);
            }
        }
    }
}

fn check_pieces(bytes: &[u8]) {
    let mut whole = Receiver::default();
    whole.receive(bytes);
    let mut pieces = Receiver::default();
    bytes.chunks(1).for_each(|piece| pieces.receive(piece));
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(whole.seen, pieces.seen, "{text:?}");
    if !pieces.is_waiting() {
        assert_eq!(whole.refused, pieces.refused, "{text:?}");
        assert_eq!(whole.closed, pieces.closed, "{text:?}");
    }
}

/// Bytes after a valid message are left for the next one; after an invalid one they do not matter.
fn check_with_request_after(case: &Case, bytes: &[u8]) {
    if case.half_close || !case.interim.is_empty() {
        return;
    }
    let mut after = Vec::new();
    if !case.close {
        after.push(Seen {
            method: b"GET".to_vec(),
            target: b"/after".to_vec(),
            content: Vec::new(),
            persistent: true,
            authority: Some(b"after".to_vec()),
            expects_continue: false,
            asks_websocket: false,
        });
    }
    let mut receiver = Receiver::default();
    let request = b"GET /after HTTP/1.1\r\nHost: after\r\n\r\n".as_slice();
    receiver.receive(&[bytes, request].concat());
    check(case, &receiver, &after, "followed by a request");
}

fn cases() -> Vec<Case> {
    let files: Vec<File> = files::read(&["rfc9110", "rfc9112"]);
    files.into_iter().flat_map(|file| file.case).collect()
}

#[test]
fn every_vector_holds_however_its_bytes_arrive() {
    let cases = cases();
    assert!(cases.len() >= 500, "only {} cases found", cases.len());
    cases
        .iter()
        .filter(|case| case.wire)
        .for_each(check_three_ways);
}

#[test]
fn every_vector_is_well_formed() {
    let mut ids = HashSet::new();
    let mut sends = HashSet::new();
    for case in cases() {
        assert!(ids.insert(case.id.clone()), "{} is there twice", case.id);
        assert!(
            sends.insert(case.send.bytes()),
            "{} sends what another case sends",
            case.id
        );
        assert!(
            case.clause.starts_with("RFC "),
            "{}: {}",
            case.id,
            case.clause
        );
        assert!(case.why.ends_with(['.', ')']), "{}: {}", case.id, case.why);
        assert!(case.live || case.wire, "{} is never run", case.id);
        let good = case
            .status
            .iter()
            .take_while(|status| **status == 200)
            .count();
        assert_eq!(good, case.requests.len(), "{}", case.id);
        assert!(
            case.status.len() <= good + 1,
            "{}: nothing follows an error",
            case.id
        );
    }
}
