//! What a line reports about a request, kept until its response is complete.

use std::sync::Arc;

use net::{Peer, TlsDetails};
use wire::Version;

use super::format::{LogFormat, NAMES_MAX, is_token};
use super::start::{Start, Wanted};
use crate::app::head::Head;

/// Method, target, id.
const TEXTS_OF_ALL: usize = 3;
/// These, and the fields of the request.
const TEXTS_MAX: usize = TEXTS_OF_ALL + NAMES_MAX;
/// Room for the values of fields that is allocated with the others.
const VALUES_BYTES: usize = 192;

/// What is kept of the request line of a refused request.
const REFUSED_LINE_BYTES_MAX: usize = 8192;

/// When a request began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Began {
    /// The call of the application, by the clock of the timeouts.
    pub(crate) ms: u64,
    /// The turn of its connection, by a precise clock if the format needs it.
    pub(crate) turn_ns: u64,
}

/// One request. Its texts share one allocation.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(super) client: Peer,
    pub(super) version: Option<Version>,
    pub(super) tls: Option<Arc<TlsDetails>>,
    pub(super) began: Began,
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
    /// Content of the request that has arrived.
    pub(crate) received_bytes: u64,
    /// How long it has waited for its turn.
    pub(crate) waited_ms: u64,
    /// What of the response's start is kept.
    wanted: Wanted,
    /// None before it.
    pub(super) start: Option<Start>,
    texts: Vec<u8>,
    ends: [u32; TEXTS_MAX],
}

impl LogRecord {
    /// `head` is `None` for a request that was refused before it was understood.
    pub(crate) fn new(
        format: &LogFormat,
        client: Peer,
        head: Option<Head<'_>>,
        began: Began,
    ) -> LogRecord {
        let mut record = LogRecord {
            client,
            version: head.map(Head::version),
            tls: None,
            began,
            status: 0,
            content_bytes: 0,
            received_bytes: 0,
            waited_ms: 0,
            wanted: format.wanted.clone(),
            start: None,
            texts: Vec::new(),
            ends: [0; TEXTS_MAX],
        };
        if let Some(head) = head {
            record.copy(format, head);
        }
        record
    }

    fn copy(&mut self, format: &LogFormat, head: Head<'_>) {
        let (method, target) = (head.method_name(), head.target());
        self.texts = Vec::with_capacity(method.len() + target.len() + VALUES_BYTES);
        let mut ends = self.ends.iter_mut();
        let id = match format.has_request_id {
            true => head.request_id().unwrap_or_default(),
            false => "",
        };
        let texts: [&[u8]; TEXTS_OF_ALL] = [method, target, id.as_bytes()];
        for (text, end) in texts.into_iter().zip(ends.by_ref()) {
            self.texts.extend_from_slice(text);
            *end = self.texts.len() as u32;
        }
        let section = head.field_section();
        for (wanted, end) in format.names.iter().zip(ends) {
            let start = self.texts.len();
            for (name, value) in section.lines() {
                if !name.eq_ignore_ascii_case(wanted.as_bytes()) {
                    continue;
                }
                if self.texts.len() > start {
                    self.texts.extend_from_slice(b", "); // RFC 9110 section 5.3
                }
                self.texts.extend_from_slice(value);
            }
            *end = self.texts.len() as u32;
        }
    }

    /// Keeps the request line of a head that is malformed, as far as it can be read: a target that is too long is cut off.
    #[cold]
    pub(crate) fn copy_request_line(&mut self, received: &[u8]) {
        let received = received.strip_prefix(b"\r\n").unwrap_or(received);
        let is_cut = received.len() > REFUSED_LINE_BYTES_MAX;
        let received = received.get(..REFUSED_LINE_BYTES_MAX).unwrap_or(received);
        let end = received.iter().position(|byte| *byte == b'\n');
        let line = received.get(..end.unwrap_or(received.len()));
        let line = line.unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let (method, target) = (parts.next(), parts.next().unwrap_or_default());
        let method = method.unwrap_or_default();
        let version = parts.next().unwrap_or_default();
        let is_line = version.starts_with(b"HTTP/") || (is_cut && version.is_empty());
        if !is_token(method) || target.is_empty() || !is_line {
            return;
        }
        self.version = [Version::Http10, Version::Http11]
            .into_iter()
            .find(|each| each.name().as_bytes() == version);
        self.texts = [method, target].concat();
        let all = self.texts.len() as u32;
        self.ends = [all; TEXTS_MAX];
        if let Some(first) = self.ends.first_mut() {
            *first = method.len() as u32;
        }
    }

    /// The response starts, with these lines of the application's.
    pub(crate) fn begin(&mut self, status: u16, content_bytes: u64, lines: &[u8]) {
        (self.status, self.content_bytes) = (status, content_bytes);
        self.start = Some(Start::now(&self.wanted, lines));
    }

    fn text(&self, index: usize) -> &[u8] {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let start = index.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(index)).unwrap_or_default()
    }

    /// The method as sent; empty if the request was not understood, as the following.
    pub(super) fn method(&self) -> &[u8] {
        self.text(0)
    }

    pub(super) fn target(&self) -> &[u8] {
        self.text(1)
    }

    /// The request's id; empty without one.
    pub(super) fn request_id(&self) -> &[u8] {
        self.text(2)
    }

    /// The values of a field of the request, by its place in the format; empty if there is none.
    pub(super) fn field(&self, place: usize) -> &[u8] {
        self.text(TEXTS_OF_ALL + place)
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let start_bytes = self.start.as_ref().map_or(0, |start| start.held_bytes());
        size_of::<LogRecord>() + self.texts.capacity() + start_bytes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record with these values of fields.
    pub(in super::super) fn record(target: &[u8], values: &[&[u8]]) -> LogRecord {
        let mut record = LogRecord {
            client: Peer::Internet(([192, 0, 2, 1], 4711).into()),
            version: Some(Version::Http11),
            tls: None,
            began: Began {
                ms: 1000,
                turn_ns: 5_000_000,
            },
            status: 200,
            content_bytes: 13,
            received_bytes: 7,
            waited_ms: 5,
            wanted: Wanted::default(),
            start: None,
            texts: Vec::new(),
            ends: [0; TEXTS_MAX],
        };
        let texts = [b"GET", target, b"i-1"]
            .into_iter()
            .chain(values.iter().copied());
        for (text, end) in texts.zip(&mut record.ends) {
            record.texts.extend_from_slice(text);
            *end = record.texts.len() as u32;
        }
        record
    }

    #[test]
    fn texts_are_told_apart() {
        let record = record(b"/", &[b"", b"b", b""]);
        assert_eq!((record.method(), record.target()), (&b"GET"[..], &b"/"[..]));
        let fields = [0, 1, 2].map(|place| record.field(place));
        assert_eq!(fields, [&b""[..], b"b", b""]);
        assert_eq!(record.field(99), b"");
    }
}
