//! The id of a request: the one that a trusted proxy has given it, or a new one.
//!
//! A new id has the form of a random UUID (RFC 9562 section 5.4) without hyphens, which other servers and middlewares generate and accept: 74
//! random bits that a worker draws when it starts, and a count of 48 bits, spread so that consecutive ids differ in many digits.

use net::random_octets;
use wire::RequestHead;

/// More octets of a proxy's id are not accepted.
const ID_BYTES_MAX: usize = 128;
/// An odd number (the golden ratio of 48 bits): multiplying by it maps counts to counts, each to another.
const SPREAD: u64 = 0x9e37_79b9_7f4b;
const COUNT_BITS: u32 = 48;
const COUNT: u128 = (1 << COUNT_BITS) - 1;
/// Version 4 and variant 10 of RFC 9562, and the bits that they occupy.
const FORM: u128 = 0x4 << 76 | 0b10 << 62;
const FORM_BITS: u128 = 0xf << 76 | 0b11 << 62;
/// Digits of an id.
const DIGITS: usize = 32;

/// The settings about ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestIdConfig {
    /// The name of the field, which must be valid.
    pub field_name: String,
    /// Responses have it too.
    pub is_sent: bool,
}

/// What gives requests their ids.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// The name of the field, with a colon and a space.
    prefix: Vec<u8>,
    /// The random bits of all ids of this worker.
    random: u128,
    count: u64,
    /// The field line of the request that was identified last.
    line: Vec<u8>,
}

impl RequestIds {
    pub(crate) fn new(config: RequestIdConfig) -> RequestIds {
        let random = u128::from_ne_bytes(random_octets());
        RequestIds::with_random(&config.field_name, random)
    }

    fn with_random(field_name: &str, random: u128) -> RequestIds {
        RequestIds {
            prefix: format!("{field_name}: ").into(),
            random: random & !FORM_BITS & !COUNT | FORM,
            count: (random & COUNT) as u64,
            line: Vec::new(),
        }
    }

    fn name(&self) -> &[u8] {
        self.prefix.strip_suffix(b": ").unwrap_or_default()
    }

    /// Whether this is the name of the field, or would be for a framework that confuses underscores with hyphens.
    pub(crate) fn is_spelled(&self, name: &[u8]) -> bool {
        wire::is_spelled(name, self.name())
    }

    /// Makes the field line of a request: with the id that it has, if that `is_trusted` and valid, otherwise with a new one.
    pub(crate) fn identify(&mut self, head: &RequestHead<'_>, is_trusted: bool) {
        let given = match is_trusted {
            true => self.given(head),
            false => None,
        };
        self.line.clear();
        self.line.extend_from_slice(&self.prefix);
        match given {
            Some(id) => self.line.extend_from_slice(id),
            None => self.push_next(),
        }
        self.line.extend_from_slice(b"\r\n");
    }

    /// The field line of the request that was identified last, with its CRLF.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The id that a request has, if there is exactly one, and it is valid.
    fn given<'a>(&self, head: &RequestHead<'a>) -> Option<&'a [u8]> {
        let mut lines = wire::field_lines(head.field_section)
            .filter(|(name, _)| name.eq_ignore_ascii_case(self.name()));
        let (_, id) = lines.next()?;
        (lines.next().is_none() && is_valid(id)).then_some(id)
    }

    fn push_next(&mut self) {
        self.count = self.count.wrapping_add(1);
        let spread = u128::from(self.count.wrapping_mul(SPREAD)) & COUNT;
        let id = self.random | spread;
        for digit in (0..DIGITS).rev() {
            let value = (id >> (digit * 4)) as usize & 0xf;
            self.line.push(b"0123456789abcdef"[value]);
        }
    }
}

/// Whether an id can be in every log and header as it is.
fn is_valid(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~:/+=@;".contains(byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wire::{HeadLimits, Progress, parse_request};

    use super::*;

    fn line(ids: &mut RequestIds, fields: &str, is_trusted: bool) -> String {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let parsed = parse_request(text.as_bytes(), &HeadLimits::default());
        let Ok(Progress::Complete(head)) = parsed else {
            panic!("{parsed:?}");
        };
        ids.identify(&head, is_trusted);
        String::from_utf8(ids.line().to_vec()).unwrap()
    }

    fn ids() -> RequestIds {
        RequestIds::with_random("X-Request-ID", u128::MAX)
    }

    #[test]
    fn an_id_has_the_form_of_a_random_uuid_and_occurs_once() {
        let mut ids = ids();
        let mut seen = HashSet::new();
        for _ in 0..10_000 {
            let line = line(&mut ids, "", true);
            let id = line
                .strip_prefix("X-Request-ID: ")
                .and_then(|rest| rest.strip_suffix("\r\n"));
            let id = id.unwrap().to_owned();
            assert!(
                id.len() == DIGITS && id.starts_with("ffffffffffff4fffbfff"),
                "{id}"
            );
            assert!(seen.insert(id));
        }
    }

    #[test]
    fn workers_differ_in_their_random_bits() {
        let new = || {
            RequestIds::new(RequestIdConfig {
                field_name: "A".into(),
                is_sent: false,
            })
        };
        let (one, other) = (new(), new());
        assert_ne!(one.random, other.random);
        for ids in [one, other] {
            assert_eq!(ids.random & (FORM_BITS | COUNT), FORM);
        }
    }

    #[test]
    fn only_one_valid_id_of_a_trusted_peer_is_taken() {
        let long = "x".repeat(ID_BYTES_MAX);
        for id in [
            "a",
            "Root=1-67891233-abcdef012345678912345678;Self=1",
            &long,
        ] {
            let fields = format!("x-request-id:  {id} \r\n");
            let expected = format!("X-Request-ID: {id}\r\n");
            assert_eq!(line(&mut ids(), &fields, true), expected);
            assert_ne!(line(&mut ids(), &fields, false), expected);
        }
        let longer = "x".repeat(ID_BYTES_MAX + 1);
        for id in ["", "a b", "a\"", "a\\", "a,b", "a<b", "\u{e4}", &longer] {
            let fields = format!("X-Request-ID: {id}\r\n");
            let found = line(&mut ids(), &fields, true);
            assert!(
                found.starts_with("X-Request-ID: ffffffffffff4"),
                "{id}: {found}"
            );
        }
        for fields in [
            "X-Request-ID: a\r\nX-Request-ID: a\r\n",
            "X_Request_ID: a\r\n",
        ] {
            let found = line(&mut ids(), fields, true);
            assert!(found.starts_with("X-Request-ID: ffffffffffff4"), "{found}");
        }
    }

    #[test]
    fn the_field_is_recognized_in_every_spelling() {
        for (name, is_spelled) in [
            ("x-request-id", true),
            ("X_REQUEST-Id", true),
            ("X-Request-I", false),
            ("X+Request+ID", false),
        ] {
            assert_eq!(ids().is_spelled(name.as_bytes()), is_spelled, "{name}");
        }
    }
}
