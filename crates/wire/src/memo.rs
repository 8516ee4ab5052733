//! The field section of the request before, so that one that is the same need not be read again.
//!
//! Clients send the same field lines with every request of a connection. Comparing them costs a
//! tenth of reading them. What is remembered depends on nothing but the bytes.
//!
//! Not remembered: sections that frame a content, which are rarely the same twice, and sections
//! with credentials, so that how long a comparison takes tells no client about another's.

use crate::head::Control;
use crate::method::Version;
use crate::scan::is_same;

/// Longer sections are read each time: bounds what a worker keeps.
const SECTION_BYTES_MAX: usize = 4096;

/// One field section and what it says. Use one memo with one set of limits only.
#[derive(Clone, Debug, Default)]
pub struct SectionMemo {
    /// All field lines and the empty line; empty when nothing is remembered.
    bytes: Vec<u8>,
    is_http10: bool,
    host: Option<(usize, usize)>,
    close: bool,
    keep_alive: bool,
}

impl SectionMemo {
    /// A memo that remembers nothing yet.
    pub const fn new() -> SectionMemo {
        SectionMemo {
            bytes: Vec::new(),
            is_http10: false,
            host: None,
            close: false,
            keep_alive: false,
        }
    }

    /// Fills `control` if `fields` begins with the section that is remembered; gives its length
    /// without the empty line.
    #[inline]
    pub(crate) fn recall<'a>(&self, fields: &'a [u8], control: &mut Control<'a>) -> Option<usize> {
        let section = fields.get(..self.bytes.len())?;
        let is_http10 = control.version == Version::Http10;
        if section.is_empty() || !is_same(section, &self.bytes) || is_http10 != self.is_http10 {
            return None;
        }
        control.host = self.host.and_then(|(from, to)| section.get(from..to));
        control.close = self.close;
        control.keep_alive = self.keep_alive;
        Some(section.len() - 2)
    }

    /// Remembers `section` (with its empty line), which was read into `control`.
    pub(crate) fn keep(&mut self, section: &[u8], control: &Control<'_>) {
        self.bytes.clear();
        if control.frames_content() || control.has_credentials || section.len() > SECTION_BYTES_MAX
        {
            return;
        }
        self.bytes.extend_from_slice(section);
        self.is_http10 = control.version == Version::Http10;
        self.host = control.host.and_then(|host| {
            // The value is a part of the section: it was read from there.
            let from = (host.as_ptr() as usize).checked_sub(section.as_ptr() as usize)?;
            Some((from, from + host.len()))
        });
        self.close = control.close;
        self.keep_alive = control.keep_alive;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadLimits, Progress, ProtocolError, parse_request, parse_request_with};

    type Summary = Result<Option<(Vec<u8>, Option<Vec<u8>>, bool, usize)>, ProtocolError>;

    fn summary(parsed: Result<Progress<'_>, ProtocolError>) -> Summary {
        parsed.map(|progress| match progress {
            Progress::Incomplete => None,
            Progress::Complete(head) => Some((
                head.field_section.to_vec(),
                head.host.map(<[u8]>::to_vec),
                head.persistent,
                head.consumed,
            )),
        })
    }

    #[test]
    fn a_remembered_section_says_what_a_read_one_says() {
        let limits = HeadLimits::default();
        let mut memo = SectionMemo::new();
        let heads: [&[u8]; 12] = [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r",
            b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
            b"GET http://b/ HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
        ];
        for head in heads.iter().chain(&heads) {
            let read = summary(parse_request(head, &limits));
            let remembered = summary(parse_request_with(head, &limits, &mut memo));
            assert_eq!(remembered, read, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn content_and_credentials_are_not_remembered() {
        let limits = HeadLimits::default();
        for (line, is_kept) in [
            ("Accept: */*", true),
            ("Content-Length: 3", false),
            ("Transfer-Encoding: chunked", false),
            ("Expect: 100-continue", false),
            ("cookie: a=b", false),
            ("Authorization: Basic eA==", false),
            ("Proxy-Authorization: Basic eA==", false),
        ] {
            let mut memo = SectionMemo::new();
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
            assert!(parse_request_with(head.as_bytes(), &limits, &mut memo).is_ok());
            assert_eq!(!memo.bytes.is_empty(), is_kept, "{line}");
        }
    }
}
