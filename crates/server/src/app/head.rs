//! The head of a request, independent of the protocol: method, target, authority and fields.
//!
//! Nothing is copied or decoded before it is needed. It wraps what the parser found, in a head of HTTP/1 or in the text of a decoded one of
//! HTTP/2; only this file and the protocols know that. [`Head`] is borrowed from the receive buffer, [`OwnedHead`] is a copy that is parsed as a whole later, and [`LazyHead`] is a copy of which only
//! single parts are read, or none.

use std::borrow::Cow;
use std::sync::Arc;

use wire::{
    BodyLength, FieldLines, HeadLimits, Method, Progress, RequestHead, SectionMemo, Version,
};

/// For a head that the server has accepted: its limits have been applied.
const ANY_HEAD: HeadLimits = HeadLimits {
    request_line_bytes_max: usize::MAX,
    header_section_bytes_max: usize::MAX,
    field_lines_max: usize::MAX,
};

/// The head of a request, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a>(&'a RequestHead<'a>);

impl<'a> Head<'a> {
    #[inline]
    pub(crate) fn of(head: &'a RequestHead<'a>) -> Head<'a> {
        Head(head)
    }

    /// The method (RFC 9110 section 9).
    #[inline]
    pub fn method(self) -> Method {
        self.0.method
    }

    /// The method's name as received.
    #[inline]
    pub fn method_name(self) -> &'a [u8] {
        self.0.method_name
    }

    /// The request target as received.
    #[inline]
    pub fn target(self) -> &'a [u8] {
        self.0.target
    }

    /// The target's path, never empty; `*` if the request is for the server as a whole.
    #[inline]
    pub fn path(self) -> &'a [u8] {
        self.0.path
    }

    /// The target's query, without the `?`.
    #[inline]
    pub fn query(self) -> Option<&'a [u8]> {
        self.0.query
    }

    /// The authority that the request is for (RFC 9110 section 7.1): the target's, else the value of Host.
    #[inline]
    pub fn authority(self) -> Option<&'a [u8]> {
        self.0.authority.or(self.0.host)
    }

    /// The version that the request is treated as.
    #[inline]
    pub fn version(self) -> Version {
        self.0.version
    }

    /// The fields. The authority of the target, if it has one, replaces Host.
    ///
    /// Cost: a copy of the section in that case, else nothing.
    #[inline]
    pub fn field_section(self) -> FieldSection<'a> {
        let section = wire::effective_field_section(self.0.field_section, self.0.authority);
        FieldSection(section)
    }

    /// The id of the request, in visible ASCII, if the server gives requests ids.
    #[inline]
    pub fn request_id(self) -> Option<&'a str> {
        let id = self.0.request_id()?;
        str::from_utf8(id).ok()
    }

    /// The field line that sends it.
    pub(crate) fn id_line(self) -> Option<&'a [u8]> {
        self.0.id_line()
    }

    /// Whether the request has content.
    #[inline]
    pub fn has_content(self) -> bool {
        self.0.body_length != BodyLength::None
    }

    /// The length of the content, if the client announced it; 0 without content.
    pub fn content_length(self) -> Option<u64> {
        match self.0.body_length {
            BodyLength::None => Some(0),
            BodyLength::Known(bytes) => Some(bytes),
            BodyLength::Chunked => None,
        }
    }

    /// Whether the client waits for a 100 response before it sends the content (RFC 9110 section 10.1.1).
    #[inline]
    pub fn expects_continue(self) -> bool {
        self.0.expects_continue
    }

    /// Whether the client accepts a trailer section (RFC 9110 section 10.1.4).
    #[inline]
    pub fn accepts_trailers(self) -> bool {
        self.0.accepts_trailers
    }

    /// The position of the path in the head; None if the target does not contain it.
    #[inline]
    pub fn place_of_path(self) -> Span {
        span_of(self.0, self.0.path)
    }
}

/// The fields of a head, in the order received.
#[derive(Debug)]
pub struct FieldSection<'a>(Cow<'a, [u8]>);

impl FieldSection<'_> {
    /// The field lines.
    #[inline]
    pub fn lines(&self) -> FieldLines<'_> {
        wire::field_lines(&self.0)
    }
}

/// The position of a part in a head; the same in a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// A part of this part.
    #[inline]
    pub fn within(self, start: u32, end: u32) -> Span {
        Span {
            start: self.start + start,
            end: self.start + end,
        }
    }
}

/// The position of `part`, which is inside the head's bytes.
fn span_of(head: &RequestHead<'_>, part: &[u8]) -> Span {
    let offset = (part.as_ptr() as usize).wrapping_sub(head.bytes.as_ptr() as usize);
    if offset > head.bytes.len() {
        // Not part of the head: the parser's constant for an empty path or asterisk.
        return Span::default();
    }
    Span {
        start: offset as u32,
        end: (offset + part.len()) as u32,
    }
}

/// How a copy is parsed.
#[derive(Clone, Copy, Debug, Default)]
enum Origin {
    /// The bytes as received.
    #[default]
    Http1,
    /// The text of a decoded header block. It does not say by itself whether content follows.
    Http2 { has_content: bool },
}

impl Origin {
    #[inline]
    fn of(head: &RequestHead<'_>) -> Origin {
        match head.version {
            Version::Http2 => Origin::of_decoded(head),
            Version::Http10 | Version::Http11 => Origin::Http1,
        }
    }

    /// Apart, so that HTTP/1 does not compute it.
    #[cold]
    fn of_decoded(head: &RequestHead<'_>) -> Origin {
        Origin::Http2 {
            has_content: head.body_length != BodyLength::None,
        }
    }

    /// Parses a copy. It always is valid.
    fn parse<'a>(self, bytes: &'a [u8], memo: Option<&mut SectionMemo>) -> Option<RequestHead<'a>> {
        let parsed = match (self, memo) {
            (Origin::Http2 { has_content }, memo) => {
                return wire::parse_decoded_request(bytes, has_content, memo).ok();
            }
            (Origin::Http1, None) => wire::parse_request(bytes, &ANY_HEAD),
            (Origin::Http1, Some(memo)) => wire::parse_request_with(bytes, &ANY_HEAD, memo),
        };
        match parsed {
            Ok(Progress::Complete(head)) => Some(head),
            _ => None,
        }
    }
}

/// A copy of a head, to be read later. Its clones share the bytes.
#[derive(Clone, Debug)]
pub struct OwnedHead {
    bytes: Arc<[u8]>,
    origin: Origin,
    /// Its last field line has its id.
    is_identified: bool,
}

/// What a reader of copies remembers of the previous one.
#[derive(Debug, Default)]
pub struct HeadMemo(SectionMemo);

/// A copy that has been parsed.
#[derive(Debug)]
pub struct ReadHead<'a>(RequestHead<'a>);

impl OwnedHead {
    /// Copies a head.
    pub fn of(head: Head<'_>) -> OwnedHead {
        OwnedHead {
            bytes: head.0.bytes.into(),
            origin: Origin::of(head.0),
            is_identified: head.0.notes.is_identified(),
        }
    }

    /// Keeps the text of another head than `head`, which is of the same protocol and content. It `is_identified` if its last field line has
    /// the id of the request.
    pub(crate) fn of_text(text: Vec<u8>, head: Head<'_>, is_identified: bool) -> OwnedHead {
        OwnedHead {
            bytes: text.into(),
            origin: Origin::of(head.0),
            is_identified,
        }
    }

    /// Parses the head again. It always is valid.
    pub(crate) fn read(&self) -> Option<ReadHead<'_>> {
        let parsed = self.origin.parse(&self.bytes, None);
        parsed.map(|head| self.noted(head))
    }

    /// Parses the head again; it always is valid. `memo` keeps what the next head may share with it.
    pub fn read_with(&self, memo: &mut HeadMemo) -> Option<ReadHead<'_>> {
        let parsed = self.origin.parse(&self.bytes, Some(&mut memo.0));
        parsed.map(|head| self.noted(head))
    }

    fn noted<'a>(&self, mut head: RequestHead<'a>) -> ReadHead<'a> {
        if self.is_identified {
            head.notes = head.notes.identified();
        }
        ReadHead(head)
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> ReadHead<'a> {
    /// The head.
    pub fn head(&'a self) -> Head<'a> {
        Head(&self.0)
    }

    /// The parser's result.
    pub(crate) fn parsed(&'a self) -> &'a RequestHead<'a> {
        &self.0
    }
}

/// A copy of a head that is parsed when the first part is read. Its memory is reused.
#[derive(Debug, Default)]
pub struct LazyHead {
    bytes: Vec<u8>,
    origin: Origin,
    /// The spans are those of this head.
    is_parsed: bool,
    /// Of this head, or of one before it. Most heads are never parsed again, and hold 8 bytes instead of 52.
    spans: Option<Box<Spans>>,
}

/// The positions of the parts of a head.
#[derive(Clone, Copy, Debug, Default)]
struct Spans {
    method: Span,
    path: Span,
    /// The path is not in the head; it is `*`.
    is_asterisk: bool,
    query: Option<Span>,
    authority: Span,
    /// The target has an authority, which replaces Host.
    is_absolute: bool,
    fields: Span,
    version: Version,
}

impl Spans {
    fn of(head: &RequestHead<'_>) -> Spans {
        let span = |part| span_of(head, part);
        let authority = head.authority.or(head.host);
        Spans {
            method: span(head.method_name),
            path: span(head.path),
            is_asterisk: head.path == b"*",
            query: head.query.map(span),
            authority: authority.map_or(Span::default(), span),
            is_absolute: head.authority.is_some(),
            fields: span(head.field_section),
            version: head.version,
        }
    }
}

impl LazyHead {
    /// Replaces the previous head.
    #[inline]
    pub fn copy(&mut self, head: Head<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(head.0.bytes);
        self.origin = Origin::of(head.0);
        self.is_parsed = false;
    }

    /// The method's name as received.
    pub fn method_name(&mut self) -> &[u8] {
        let span = self.spans().method;
        self.slice(span)
    }

    /// As [`Head::path`].
    pub fn path(&mut self) -> &[u8] {
        let spans = self.spans();
        match self.slice(spans.path) {
            b"" if spans.is_asterisk => b"*",
            b"" => b"/",
            path => path,
        }
    }

    /// The target's query; empty without one.
    pub fn query(&mut self) -> &[u8] {
        let span = self.spans().query.unwrap_or_default();
        self.slice(span)
    }

    /// As [`Head::authority`]; empty without one.
    pub fn authority(&mut self) -> &[u8] {
        let span = self.spans().authority;
        self.slice(span)
    }

    /// As [`Head::version`].
    pub fn version(&mut self) -> Version {
        self.spans().version
    }

    /// As [`Head::field_section`].
    pub fn field_section(&mut self) -> FieldSection<'_> {
        let spans = self.spans();
        let authority = spans.is_absolute.then(|| self.slice(spans.authority));
        let section = wire::effective_field_section(self.slice(spans.fields), authority);
        FieldSection(section)
    }

    /// A part of the head that was copied.
    #[inline]
    pub fn slice(&self, span: Span) -> &[u8] {
        self.bytes
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// Capacity in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn spans(&mut self) -> Spans {
        let spans = self.spans.get_or_insert_default();
        if !self.is_parsed {
            let head = self.origin.parse(&self.bytes, None);
            **spans = head.as_ref().map(Spans::of).unwrap_or_default();
            self.is_parsed = true;
        }
        **spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> RequestHead<'_> {
        match wire::parse_request(bytes, &ANY_HEAD) {
            Ok(Progress::Complete(head)) => head,
            other => panic!("{other:?}"),
        }
    }

    const ABSOLUTE: &[u8] = b"POST http://b:81/c?d HTTP/1.0\r\nHost: a\r\nE: f\r\n\r\n";

    #[test]
    fn a_copy_equals_the_original() {
        let (mut lazy, mut memo) = (LazyHead::default(), HeadMemo::default());
        for bytes in [
            &b"GET /a?b HTTP/1.1\r\nHost: c\r\nD: e\r\n\r\n"[..],
            ABSOLUTE,
            b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            b"OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\r\nGET / HTTP/1.0\r\n\r\n",
        ] {
            let parsed = parsed(bytes);
            let head = Head::of(&parsed);
            lazy.copy(head);
            let owned = OwnedHead::of(head);
            for read in [owned.read(), owned.read_with(&mut memo)] {
                let read = read.expect("a head");
                assert_eq!(read.head().target(), head.target());
            }
            assert_eq!(lazy.method_name(), head.method_name());
            assert_eq!(lazy.path(), head.path());
            assert_eq!(lazy.query(), head.query().unwrap_or_default());
            assert_eq!(lazy.authority(), head.authority().unwrap_or_default());
            assert_eq!(lazy.version(), head.version());
            let lines = lazy.field_section().lines().rest().to_vec();
            assert_eq!(lines, head.field_section().lines().rest());
        }
    }

    #[test]
    fn a_copy_of_a_decoded_head_keeps_whether_it_has_content() {
        let (mut lazy, mut memo) = (LazyHead::default(), HeadMemo::default());
        for (field, has_content, length) in [
            ("a: b", false, Some(0)),
            ("a: b", true, None),
            ("content-length: 0", false, Some(0)),
            ("content-length: 0", true, Some(0)),
            ("content-length: 7", true, Some(7)),
        ] {
            let text = format!("PUT /a?b HTTP/2.0\r\nHost: c\r\n{field}\r\n\r\n");
            let parsed = wire::parse_decoded_request(text.as_bytes(), has_content, None);
            let parsed = parsed.expect("a head");
            let head = Head::of(&parsed);
            assert_eq!(head.content_length(), length, "{field}");
            assert_eq!(head.version(), Version::Http2);
            let owned = OwnedHead::of(head);
            for read in [owned.read(), owned.read_with(&mut memo)] {
                let read = read.expect("a head");
                assert_eq!(read.head().content_length(), length, "{field}");
                assert_eq!(read.head().has_content(), head.has_content());
                assert_eq!(read.head().version(), Version::Http2);
            }
            lazy.copy(head);
            assert_eq!(lazy.version(), Version::Http2);
            assert_eq!(lazy.query(), b"b");
            let lines = lazy.field_section().lines().rest().to_vec();
            assert_eq!(lines, format!("Host: c\r\n{field}\r\n").as_bytes());
        }
    }

    #[test]
    fn the_authority_of_a_target_replaces_host() {
        let parsed = parsed(ABSOLUTE);
        let head = Head::of(&parsed);
        assert_eq!(head.authority(), Some(&b"b:81"[..]));
        let section = head.field_section();
        let lines: Vec<_> = section.lines().collect();
        assert_eq!(lines, [(&b"Host"[..], &b"b:81"[..]), (b"E", b"f")]);
    }

    #[test]
    fn the_length_of_a_content_is_known_or_not() {
        for (field, length, has_content) in [
            ("A: b", Some(0), false),
            ("Content-Length: 0", Some(0), false),
            ("Content-Length: 7", Some(7), true),
            ("Transfer-Encoding: chunked", None, true),
        ] {
            let bytes = format!("PUT / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
            let parsed = parsed(bytes.as_bytes());
            let head = Head::of(&parsed);
            let found = (head.content_length(), head.has_content());
            assert_eq!(found, (length, has_content), "{field}");
        }
    }

    #[test]
    fn a_part_of_the_path_is_found_in_a_copy() {
        let parsed = parsed(b"\r\nGET /users/42 HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = Head::of(&parsed);
        let mut lazy = LazyHead::default();
        lazy.copy(head);
        assert_eq!(lazy.slice(head.place_of_path().within(7, 9)), b"42");
        assert_eq!(lazy.slice(Span::default().within(7, 1_000_000)), b"");
    }
}
