//! The field lines of the previous request, so that equal ones need not be read again.
//!
//! Clients send the same field lines with every request of a connection. Comparing them costs a tenth of reading them. What is remembered
//! depends only on the bytes.
//!
//! It remembers the lines up to the first that is not known to be harmless ([`crate::field::harmless`]), because the duration of a comparison
//! would reveal one client's lines to another. No line that frames content is harmless, so the framing is not kept here.

pub mod remembered;

use crate::grammar::CRLF;
use crate::head::{BeforePrivate, Control};
use crate::scan::is_same;

/// The rest is read each time: limits what a worker keeps.
const SECTION_BYTES_MAX: usize = 4096;

/// Field lines and the state read from them. Use one memo with one set of limits only.
#[derive(Clone, Debug, Default)]
pub struct SectionMemo {
    /// Whole lines from the start of a section; empty when nothing is remembered.
    bytes: Vec<u8>,
    lines: usize,
    is_http10: bool,
    host: Option<(usize, usize)>,
    close: bool,
    keep_alive: bool,
    accepts_trailers: bool,
    is_forwarded: bool,
}

/// What a whole remembered section says.
pub(crate) struct Recalled<'a> {
    pub(crate) field_section: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) is_persistent: bool,
    pub(crate) accepts_trailers: bool,
    pub(crate) is_forwarded: bool,
}

impl SectionMemo {
    /// A memo that remembers nothing yet.
    pub const fn new() -> SectionMemo {
        SectionMemo {
            bytes: Vec::new(),
            lines: 0,
            is_http10: false,
            host: None,
            close: false,
            keep_alive: false,
            accepts_trailers: false,
            is_forwarded: false,
        }
    }

    /// Fills `control` if `fields` starts with the remembered lines; returns what follows them.
    #[inline]
    pub(crate) fn recall<'a>(
        &self,
        fields: &'a [u8],
        control: &mut Control<'a>,
    ) -> Option<&'a [u8]> {
        let (section, rest) = fields.split_at_checked(self.bytes.len())?;
        if section.is_empty()
            || !is_same(section, &self.bytes)
            || control.is_http10 != self.is_http10
        {
            return None;
        }
        control.lines = self.lines;
        control.remembered_bytes = section.len();
        control.host = self.host.and_then(|(from, to)| section.get(from..to));
        control.close = self.close;
        control.keep_alive = self.keep_alive;
        control.accepts_trailers = self.accepts_trailers;
        control.is_forwarded = self.is_forwarded;
        Some(rest)
    }

    /// What the remembered lines say, if they are the whole section that `fields` starts with, and name a host.
    #[inline(always)]
    pub(crate) fn recall_whole<'a>(
        &self,
        fields: &'a [u8],
        is_http10: bool,
    ) -> Option<Recalled<'a>> {
        let (field_section, rest) = fields.split_at_checked(self.bytes.len())?;
        let is_whole = rest.first_chunk() == Some(CRLF) && is_http10 == self.is_http10;
        if !is_whole || !is_same(field_section, &self.bytes) {
            return None;
        }
        let (from, to) = self.host?;
        Some(Recalled {
            field_section,
            host: field_section.get(from..to)?,
            is_persistent: !self.close && (!is_http10 || self.keep_alive),
            accepts_trailers: self.accepts_trailers,
            is_forwarded: self.is_forwarded,
        })
    }

    /// Remembers the allowed part of `section`, which was read into `control`.
    #[inline]
    pub(crate) fn keep(&mut self, section: &[u8], control: &Control<'_>) {
        let end = match &control.before_private {
            // The name is a part of the section: it was read from there.
            Some(line) => (line.name.as_ptr() as usize).wrapping_sub(section.as_ptr() as usize),
            None => section.len(),
        };
        if end > control.remembered_bytes {
            self.keep_lines(section.get(..end).unwrap_or_default(), control);
        }
    }

    fn keep_lines(&mut self, section: &[u8], control: &Control<'_>) {
        self.bytes.clear();
        if section.len() > SECTION_BYTES_MAX {
            return;
        }
        self.bytes.extend_from_slice(section);
        let said = control.before_private.unwrap_or(BeforePrivate {
            name: b"",
            lines: control.lines,
            host: control.host,
            close: control.close,
            keep_alive: control.keep_alive,
            accepts_trailers: control.accepts_trailers,
            is_forwarded: control.is_forwarded,
        });
        self.lines = said.lines;
        self.is_http10 = control.is_http10;
        self.host = said.host.and_then(|host| {
            let from = (host.as_ptr() as usize).checked_sub(section.as_ptr() as usize)?;
            Some((from, from + host.len()))
        });
        self.close = said.close;
        self.keep_alive = said.keep_alive;
        self.accepts_trailers = said.accepts_trailers;
        self.is_forwarded = said.is_forwarded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadLimits, Progress, ProtocolError, parse_request, parse_request_with};

    /// Everything that was parsed.
    fn summary(parsed: &Result<Progress<'_>, ProtocolError>) -> String {
        format!("{parsed:?}")
    }

    #[test]
    fn a_remembered_section_has_the_result_of_a_read_one() {
        let limits = HeadLimits::default();
        let mut memo = SectionMemo::new();
        let heads: [&[u8]; 32] = [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r",
            b"POST /x/y?z=?&/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
            b"GET http://b/ HTTP/1.0\r\nHost:\r\nConnection: keep-alive\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nCookie: c\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nCookie: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nCookie: d\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nHost: a\r\n\r\n",
            b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: y\r\n\r\nabc",
            b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            b"GET / HTTP/1.1\r\nCookie: d\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nAccept: b\r\nCookie: d\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nAccept: b\r\nCookie: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nCookie: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nCookie: e\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nCookie: e\r\nTE: trailers\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: b\r\nCookie: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: b\r\n\r\n",
        ];
        // The second one of each pair is recalled, as far as it may be.
        for head in heads.iter().chain(&heads).flat_map(|head| [head, head]) {
            let read = summary(&parse_request(head, &limits));
            let remembered = summary(&parse_request_with(head, &limits, &mut memo));
            assert_eq!(remembered, read, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn only_what_is_harmless_is_remembered() {
        let limits = HeadLimits::default();
        for (line, is_kept) in [
            ("Accept: */*", true),
            ("sec-fetch-mode: navigate", true),
            ("Content-Length: 3", false),
            ("Transfer-Encoding: chunked", false),
            ("Expect: 100-continue", false),
            ("cookie: a=b", false),
            ("Authorization: Basic eA==", false),
            ("Proxy-Authorization: Basic eA==", false),
            ("X-Api-Key: 0123456789", false),
            ("Referer: http://a/?token=b", false),
        ] {
            let mut memo = SectionMemo::new();
            let before = "Host: a\r\nAccept-Language: b\r\n";
            let head = format!("GET / HTTP/1.1\r\n{before}{line}\r\nUser-Agent: d\r\n\r\n");
            for _ in 0..2 {
                assert!(parse_request_with(head.as_bytes(), &limits, &mut memo).is_ok());
                let remembered = if is_kept {
                    format!("{before}{line}\r\nUser-Agent: d\r\n")
                } else {
                    before.to_owned()
                };
                assert_eq!(memo.bytes, remembered.as_bytes());
            }
        }
    }

    #[test]
    fn nothing_is_remembered_of_a_section_that_starts_with_what_is_not_harmless() {
        let limits = HeadLimits::default();
        let mut memo = SectionMemo::new();
        let head = b"GET / HTTP/1.1\r\nX-Api-Key: a\r\nHost: a\r\n\r\n";
        assert!(parse_request_with(head, &limits, &mut memo).is_ok());
        assert_eq!(memo.bytes, b"");
    }
}
