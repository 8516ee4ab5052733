//! What is to be considered of a head before it is used, and the id that a server has given it.
//!
//! A head with an id has it in its last field line, so that everything that reads fields finds it, and the server itself without a search.

use super::RequestHead;
use crate::grammar::{CRLF, LF, trim_ows};

/// What is to be considered of a head; nothing of most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Notes(u8);

const FORWARDED: u8 = 1;
const IDENTIFIED: u8 = 2;
const LOST_UPGRADE: u8 = 4;

impl Notes {
    /// What the parser has noticed.
    #[inline]
    pub(crate) const fn of_parser(is_forwarded: bool, lost_upgrade: bool) -> Notes {
        Notes(is_forwarded as u8 | ((lost_upgrade as u8) << 2))
    }

    /// The same of a head whose last field line has the request's id.
    #[must_use]
    pub const fn identified(self) -> Notes {
        Notes(self.0 | IDENTIFIED)
    }

    /// Whether there is any.
    #[inline]
    pub const fn is_any(self) -> bool {
        self.0 != 0
    }

    /// Whether the head has a [`crate::ForwardingField`], in either spelling.
    #[inline]
    pub const fn is_forwarded(self) -> bool {
        self.0 & FORWARDED != 0
    }

    /// Whether the head has a Sec-WebSocket-Key, but does not ask for WebSocket: what it said of that was lost on its way.
    #[inline]
    pub const fn has_lost_upgrade(self) -> bool {
        self.0 & LOST_UPGRADE != 0
    }

    /// Whether its last field line has the request's id.
    #[inline]
    pub const fn is_identified(self) -> bool {
        self.0 & IDENTIFIED != 0
    }
}

impl<'a> RequestHead<'a> {
    /// The field line with the request's id, and its CRLF.
    pub fn id_line(&self) -> Option<&'a [u8]> {
        match self.notes.is_identified() {
            true => Some(last_line(self.field_section)),
            false => None,
        }
    }

    /// The request's id.
    pub fn request_id(&self) -> Option<&'a [u8]> {
        self.id_line().map(value_of)
    }
}

/// The last line of a field section, with its CRLF; empty if there is none.
pub fn last_line(section: &[u8]) -> &[u8] {
    let lines = section.strip_suffix(CRLF).unwrap_or_default();
    let start = memchr::memrchr(LF, lines).map_or(0, |end| end + 1);
    section.get(start..).unwrap_or_default()
}

/// The value of a field line.
pub fn value_of(line: &[u8]) -> &[u8] {
    let colon = memchr::memchr(b':', line).map_or(line.len(), |at| at + 1);
    let value = line.get(colon..).unwrap_or_default();
    trim_ows(value.strip_suffix(CRLF).unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use crate::{HeadLimits, Progress, parse_request};

    #[test]
    fn an_id_is_the_value_of_the_last_line() {
        for (head, line, id) in [
            (
                "GET / HTTP/1.1\r\nHost: a\r\nX-Id: b \r\n\r\n",
                "X-Id: b \r\n",
                "b",
            ),
            ("GET / HTTP/1.0\r\nX-Id:b\r\n\r\n", "X-Id:b\r\n", "b"),
            ("GET / HTTP/1.0\r\n\r\n", "", ""),
        ] {
            let parsed = parse_request(head.as_bytes(), &HeadLimits::default());
            let Ok(Progress::Complete(mut parsed)) = parsed else {
                panic!("{parsed:?}");
            };
            assert_eq!((parsed.id_line(), parsed.request_id()), (None, None));
            assert!(!parsed.notes.is_any());
            parsed.notes = parsed.notes.identified();
            assert!(parsed.notes.is_any() && !parsed.notes.is_forwarded());
            assert_eq!(parsed.id_line(), Some(line.as_bytes()));
            assert_eq!(parsed.request_id(), Some(id.as_bytes()));
        }
    }
}
