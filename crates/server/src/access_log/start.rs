//! What a line reports of the start of a response: when it was, and the application's fields.

use std::sync::Arc;

use net::{Clock, precise_ns};

/// What of the start of a response a format has, besides its time by a coarse clock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    /// Its time by a precise clock.
    pub(super) is_precise: bool,
    /// The names of fields, in lower case.
    pub(super) names: Arc<[String]>,
}

/// What is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) ms: u64,
    /// 0 if the format needs no precise clock.
    pub(super) ns: u64,
    fields: Option<Box<Values>>,
}

/// The values of the fields that are wanted, one after the other.
#[derive(Clone, Debug, Default)]
struct Values {
    texts: Vec<u8>,
    ends: Vec<u32>,
}

impl Start {
    /// The response starts now, with these lines of the application's.
    pub(super) fn now(wanted: &Wanted, lines: &[u8]) -> Start {
        let has_fields = !wanted.names.is_empty();
        Start {
            ms: Clock::tick_ms(),
            ns: if wanted.is_precise { precise_ns() } else { 0 },
            fields: has_fields.then(|| Box::new(Values::of(&wanted.names, lines))),
        }
    }

    /// The value of a field, by its place; empty if there is none.
    pub(super) fn field(&self, place: usize) -> &[u8] {
        let values = self.fields.as_ref();
        values.map_or(&[], |values| values.value(place))
    }

    /// Memory held, in bytes, besides its own.
    pub(super) fn held_bytes(&self) -> usize {
        self.fields.as_ref().map_or(0, |values| {
            size_of::<Values>()
                + values.texts.capacity()
                + values.ends.capacity() * size_of::<u32>()
        })
    }
}

impl Values {
    fn of(names: &[String], lines: &[u8]) -> Values {
        let mut values = Values::default();
        for wanted in names {
            let start = values.texts.len();
            for (name, value) in wire::field_lines(lines) {
                if !name.eq_ignore_ascii_case(wanted.as_bytes()) {
                    continue;
                }
                if values.texts.len() > start {
                    values.texts.extend_from_slice(b", "); // RFC 9110 section 5.3
                }
                values.texts.extend_from_slice(value);
            }
            values.ends.push(values.texts.len() as u32);
        }
        values
    }

    fn value(&self, place: usize) -> &[u8] {
        let end = |place: usize| self.ends.get(place).map_or(0, |end| *end as usize);
        let start = place.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(place)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_response_are_kept_by_their_places() {
        let wanted = Wanted {
            names: ["a", "b", "c"].map(String::from).into(),
            ..Wanted::default()
        };
        let start = Start::now(&wanted, b"C: 3\r\nA: 1\r\nx: 9\r\na:2\r\n");
        let fields = [0, 1, 2, 3].map(|place| start.field(place));
        assert_eq!(fields, [&b"1, 2"[..], b"", b"3", b""]);
        assert!(start.ns == 0 && start.held_bytes() > 0);
    }

    #[test]
    fn without_fields_only_the_time_is_kept() {
        let start = Start::now(&Wanted::default(), b"A: 1\r\n");
        assert_eq!((start.field(0), start.held_bytes()), (&b""[..], 0));
    }
}
