//! The head of a request: everything up to and including the empty line.
//!
//! The parser reads each byte once and in order. If a prefix of the input is refused, the whole input is refused for the same reason, so
//! it does not matter how the network splits it.

pub mod notes;
mod protocol;
mod request_line;
mod rewriting;
mod target;

use crate::error::{ErrorKind, ProtocolError, Stop};
use crate::field::{harmless::is_harmless_field, list_members, parse_section};
use crate::forwarded::ForwardingField;
use crate::framing::{self, BodyLength};
use crate::grammar::{CR, CRLF, LF, SP, trim_ows};
use crate::host;
use crate::limits::{HeadLimits, METHOD_BYTES_MAX, window};
use crate::memo::SectionMemo;
use crate::method::{Method, Version};
use crate::scan;
use protocol::{Decoded, Http1, Protocol};
use request_line::RequestLine;
pub use rewriting::rewritten;

/// The head of one request, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The head, from the first byte of the method to the end of the empty line.
    pub bytes: &'a [u8],
    /// Bytes of the input used: `bytes` and the empty line that may precede it (RFC 9112 2.2).
    pub consumed: usize,
    /// The method (RFC 9112 3.1).
    pub method: Method,
    /// The method as received.
    pub method_name: &'a [u8],
    /// The request target as received (RFC 9112 3.2).
    pub target: &'a [u8],
    /// The target's path: `/` if an absolute-form target has none, `*` in asterisk-form and of
    /// OPTIONS for an authority alone.
    pub path: &'a [u8],
    /// The target's query, after the first `?`.
    pub query: Option<&'a [u8]>,
    /// The authority of an absolute-form target; it replaces Host (RFC 9112 3.2.2), see
    /// [`crate::effective_field_section`].
    pub authority: Option<&'a [u8]>,
    /// The value of Host; HTTP/1.0 requests may lack it (RFC 9112 3.2).
    pub host: Option<&'a [u8]>,
    /// The version the request is treated as (RFC 9112 2.3).
    pub version: Version,
    /// All field lines, each with its CRLF, without the empty line; see [`crate::field_lines`].
    pub field_section: &'a [u8],
    /// How the content is delimited (RFC 9112 6.3).
    pub body_length: BodyLength,
    /// Whether another request may follow on the connection (RFC 9112 9.3).
    pub persistent: bool,
    /// Whether the client waits for a 100 response before it sends the content (RFC 9110 10.1.1).
    ///
    /// Never set for HTTP/1.0, nor for a request without content.
    pub expects_continue: bool,
    /// Whether the client accepts a trailer section: TE names `trailers` (RFC 9110 10.1.4).
    ///
    /// Whether Connection lists TE, as it should, is not checked: that is for intermediaries.
    pub accepts_trailers: bool,
    /// Whether the client asks for WebSocket: Upgrade names it, and Connection lists Upgrade (RFC 6455 4.1). Never set for HTTP/1.0 (RFC 9110 7.8).
    pub asks_websocket: bool,
    /// What is to be considered before it is used; nothing of most heads.
    pub notes: notes::Notes,
}

/// The result for the bytes received so far.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// One complete head.
    Complete(RequestHead<'a>),
    /// Valid so far and within the limits; more is needed.
    Incomplete,
}

/// Parses the request head at the start of `input`.
///
/// Keeps no state: after [`Progress::Incomplete`] call it again with all the bytes, when [`worth_parsing`] says that the result may differ.
/// Cost: one pass, no allocation, no copy.
///
/// # Errors
/// The request must be refused with the status of the error's kind, and the connection closed.
#[inline]
pub fn parse_request<'a>(
    input: &'a [u8],
    limits: &HeadLimits,
) -> Result<Progress<'a>, ProtocolError> {
    match input {
        [CR, ..] => after_empty_line(input, limits),
        _ => request_head(input, limits, None, &Http1),
    }
}

/// Like [`parse_request`], and faster when the field section equals that of the previous request.
///
/// # Errors
/// As [`parse_request`].
#[inline]
pub fn parse_request_with<'a>(
    input: &'a [u8],
    limits: &HeadLimits,
    memo: &mut SectionMemo,
) -> Result<Progress<'a>, ProtocolError> {
    match input {
        [CR, ..] => after_empty_line(input, limits),
        _ => request_head(input, limits, Some(memo), &Http1),
    }
}

/// Parses a head that [`crate::h2::Decoder::request`] has written, or a copy of it; `has_content` says that the stream did not end with
/// it. Nothing else must be passed to this function: the limits have been applied.
///
/// The content has no length, or a known one: then the stream must contain as many bytes (RFC 9113 8.1.1). A length of 0 is no content.
///
/// # Errors
/// The request must be refused. With status 400, it is malformed (RFC 9113 8.1.1); other statuses are the response to it.
pub fn parse_decoded_request<'a>(
    head: &'a [u8],
    has_content: bool,
    memo: Option<&mut SectionMemo>,
) -> Result<RequestHead<'a>, ProtocolError> {
    const DECODED: HeadLimits = HeadLimits {
        request_line_bytes_max: usize::MAX,
        header_section_bytes_max: usize::MAX,
        field_lines_max: usize::MAX,
    };
    match request_head(head, &DECODED, memo, &Decoded { has_content })? {
        Progress::Complete(head) => Ok(head),
        Progress::Incomplete => Err(ProtocolError {
            kind: ErrorKind::InvalidVersion,
            at: 0,
        }),
    }
}

/// Whether parsing again may have another result after [`Progress::Incomplete`].
///
/// `new` are the bytes received since, and those before do not end in CR. What is to be refused is refused at the next line end at the latest.
/// Parsing at control bytes alone avoids quadratic time for single bytes. If this returns false, [`within_limits`] is the check that remains.
pub fn worth_parsing(new: &[u8]) -> bool {
    !scan::skip_field_value(new).is_empty()
}

/// Checks only the sizes of a partial head to which no line end has been added since it was parsed.
///
/// # Errors
/// The method, the request line or the header section is larger than its limit.
pub fn within_limits(partial_head: &[u8], limits: &HeadLimits) -> Result<(), ProtocolError> {
    let line_max = limits.request_line_bytes_max;
    let section_max = limits.header_section_bytes_max;
    let start = if partial_head.starts_with(CRLF) {
        CRLF.len()
    } else {
        0
    };
    let bytes = partial_head.get(start..).unwrap_or_default();
    if let Some(method) = bytes.get(..=METHOD_BYTES_MAX)
        && !method.contains(&SP)
    {
        return parse_request(partial_head, limits).map(|_| ());
    }
    if bytes.len() <= line_max.min(section_max) {
        return Ok(());
    }
    let window = window(bytes, line_max);
    match memchr::memchr(LF, window) {
        None if window.len() > line_max.saturating_add(1) => Err(ProtocolError {
            kind: ErrorKind::RequestLineTooLong,
            at: start + line_max,
        }),
        None => Ok(()),
        Some(end) if bytes.len() - (end + 1) > section_max.saturating_add(1) => {
            Err(ProtocolError {
                kind: ErrorKind::HeaderSectionTooLarge,
                at: partial_head.len(),
            })
        }
        Some(_) => Ok(()),
    }
}

/// Parses a head without an empty line before it.
///
/// A part of each caller, because only a head that is not recalled pays for a call (bench: request, serve).
#[inline(always)]
fn request_head<'a, P: Protocol>(
    input: &'a [u8],
    limits: &HeadLimits,
    memo: Option<&mut SectionMemo>,
    protocol: &P,
) -> Result<Progress<'a>, ProtocolError> {
    let line_window = window(input, limits.request_line_bytes_max);
    let line = match protocol.request_line(line_window) {
        Ok(line) => line,
        Err(stop) => return request_line_stop(stop, line_window, limits),
    };
    if let Some(memo) = &memo
        && let Some(head) = recalled_head(input, &line, memo, protocol.unframed())
    {
        return Ok(Progress::Complete(head));
    }
    read_head(input, limits, memo, protocol, &line)
}

/// The head of a usual request, if its whole field section is remembered.
///
/// Nothing that frames content is remembered, nor what is read of it only with content, so little is left to set: this
/// takes two thirds of the instructions of [`read_head`] (bench: request, serve).
#[inline(always)]
fn recalled_head<'a>(
    input: &'a [u8],
    line: &RequestLine,
    memo: &SectionMemo,
    body_length: BodyLength,
) -> Option<RequestHead<'a>> {
    let (request_line, fields) = input.split_at_checked(line.len)?;
    let recalled = memo.recall_whole(fields, line.version == Version::Http10)?;
    let (method_name, from_method_end) = request_line.split_at_checked(line.method_len)?;
    let target = from_method_end.get(1..)?.get(..line.target_len)?;
    let (path, query) = target::split_origin_form(target, line.path_len)?;
    let consumed = line.len + recalled.field_section.len() + CRLF.len();
    Some(RequestHead {
        bytes: input.get(..consumed)?,
        consumed,
        method: line.method,
        method_name,
        target,
        path,
        query,
        authority: None,
        host: Some(recalled.host),
        version: line.version,
        field_section: recalled.field_section,
        body_length,
        persistent: recalled.is_persistent,
        expects_continue: false,
        accepts_trailers: recalled.accepts_trailers,
        asks_websocket: false,
        notes: notes::Notes::of_parser(recalled.is_forwarded, false),
    })
}

/// Parses what follows the request line.
#[inline(never)]
fn read_head<'a, P: Protocol>(
    input: &'a [u8],
    limits: &HeadLimits,
    mut memo: Option<&mut SectionMemo>,
    protocol: &P,
    line: &RequestLine,
) -> Result<Progress<'a>, ProtocolError> {
    let fields = input.get(line.len..).unwrap_or_default();
    let mut control = Control::new(line.version == Version::Http10);
    let is_whole = |rest: &&[u8]| rest.first_chunk() == Some(CRLF);
    let recalled = match &memo {
        Some(memo) => memo.recall(fields, &mut control),
        None => None,
    };
    let section_len = match recalled {
        Some(rest) if is_whole(&rest) => control.remembered_bytes,
        _ => match field_section(fields, limits, memo.is_some(), &mut control) {
            Ok(len) => {
                if let Some(memo) = &mut memo {
                    memo.keep(&fields[..len], &control);
                }
                len
            }
            Err(stop) => return field_section_stop(stop, fields, line.len, limits),
        },
    };
    // In range here and below: the parsers measured these lengths in this input.
    let (method_name, from_method_end) = input.split_at(line.method_len);
    let target = &from_method_end[1..][..line.target_len];
    let parts = target::split(line.method, target, line.path_len);
    if let Err(kind) = control.check(parts.authority.is_some()) {
        return Err(ProtocolError { kind, at: 0 });
    }
    let body_length = match protocol.body_length(&control) {
        Ok(body_length) => body_length,
        Err(kind) => return Err(ProtocolError { kind, at: 0 }),
    };
    let consumed = line.len + section_len + CRLF.len();
    let asks_websocket = protocol.asks_websocket(&control, &fields[..section_len]);
    let lost_upgrade = control.websocket.has_key && !asks_websocket;
    Ok(Progress::Complete(RequestHead {
        bytes: &input[..consumed],
        consumed,
        method: line.method,
        method_name,
        target,
        path: parts.path,
        query: parts.query,
        authority: parts.authority,
        host: control.host,
        version: line.version,
        field_section: &fields[..section_len],
        body_length,
        persistent: control.persistent(),
        expects_continue: control.expects_continue && body_length != BodyLength::None,
        accepts_trailers: control.accepts_trailers,
        asks_websocket,
        notes: notes::Notes::of_parser(control.is_forwarded, lost_upgrade),
    }))
}

/// Reads the part of the field section that is not remembered into `control`; returns the length of
/// the section.
#[inline]
fn field_section<'a>(
    fields: &'a [u8],
    limits: &HeadLimits,
    is_remembered: bool,
    control: &mut Control<'a>,
) -> Result<usize, Stop> {
    let window = window(fields, limits.header_section_bytes_max);
    // After what was remembered, if anything was.
    let mut rest = window.get(control.remembered_bytes..).unwrap_or(window);
    if control.lines == 0
        && let Some((host, after_host)) = host::usual_host_line(window)
        && limits.field_lines_max > 0
    {
        control.host = Some(host);
        control.lines = 1;
        rest = after_host;
    }
    let lines_left = limits.field_lines_max.saturating_sub(control.lines);
    parse_section(rest, window.len(), lines_left, |name, value| {
        if is_remembered && control.before_private.is_none() {
            control.keep_state(name);
        }
        control.read(name, value)
    })
}

/// What the field lines say about the message itself.
pub(crate) struct Control<'a> {
    pub(crate) is_http10: bool,
    pub(crate) host: Option<&'a [u8]>,
    content_length: Option<u64>,
    chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    expects_continue: bool,
    pub(crate) accepts_trailers: bool,
    websocket: protocol::Handshake,
    pub(crate) is_forwarded: bool,
    /// Number of lines read.
    pub(crate) lines: usize,
    /// How much of the section was remembered.
    pub(crate) remembered_bytes: usize,
    /// The state before the first line that must not be remembered.
    pub(crate) before_private: Option<BeforePrivate<'a>>,
}

/// The state before a line, and that line's name.
#[derive(Clone, Copy)]
pub(crate) struct BeforePrivate<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) lines: usize,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) accepts_trailers: bool,
    pub(crate) is_forwarded: bool,
}

impl<'a> Control<'a> {
    #[inline]
    fn new(is_http10: bool) -> Control<'a> {
        Control {
            is_http10,
            host: None,
            content_length: None,
            chunked: false,
            close: false,
            keep_alive: false,
            expects_continue: false,
            accepts_trailers: false,
            websocket: protocol::Handshake::default(),
            is_forwarded: false,
            lines: 0,
            remembered_bytes: 0,
            before_private: None,
        }
    }

    /// Reads one field line, if its field matters here.
    #[inline]
    fn read(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), ErrorKind> {
        self.lines += 1;
        match name.len() {
            2 if name.eq_ignore_ascii_case(b"te") => {
                let mut codings = list_members(value);
                self.accepts_trailers |=
                    codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
                Ok(())
            }
            4 if name.eq_ignore_ascii_case(b"host") => self.host(trim_ows(value)),
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.websocket.read_upgrade(value);
                Ok(())
            }
            6 | 14 | 17 => self.read_framing(name, value),
            9 | 15 | 16 | 18 => {
                self.is_forwarded |= ForwardingField::of(name).is_some();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads a line that is about the content, if it is one of those.
    fn read_framing(&mut self, name: &[u8], value: &[u8]) -> Result<(), ErrorKind> {
        self.is_forwarded |= ForwardingField::of(name).is_some();
        match name.len() {
            6 if name.eq_ignore_ascii_case(b"expect") => self.expect(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            17 => {
                self.websocket.has_key |= name.eq_ignore_ascii_case(b"sec-websocket-key");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps the state of the lines so far, if one of that name is the first that must not be remembered.
    ///
    /// A function of its own, so that a section that is recalled does not pay for it (bench: request, serve).
    #[inline(never)]
    fn keep_state(&mut self, name: &'a [u8]) {
        if is_harmless_field(name) {
            return;
        }
        self.before_private = Some(BeforePrivate {
            name,
            lines: self.lines,
            host: self.host,
            close: self.close,
            keep_alive: self.keep_alive,
            accepts_trailers: self.accepts_trailers,
            is_forwarded: self.is_forwarded,
        });
    }

    fn host(&mut self, value: &'a [u8]) -> Result<(), ErrorKind> {
        if self.host.is_some() {
            return Err(ErrorKind::DuplicateHost);
        }
        if !value.is_empty() && !host::is_host(value) {
            return Err(ErrorKind::InvalidHost);
        }
        self.host = Some(value);
        Ok(())
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        if self.is_http10 {
            return Ok(());
        }
        if !trim_ows(value).eq_ignore_ascii_case(b"100-continue") {
            return Err(ErrorKind::UnknownExpectation);
        }
        self.expects_continue = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        // The usual value, if the field is sent at all.
        if value == b" keep-alive" {
            self.keep_alive = true;
            return Ok(());
        }
        for option in list_members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        Ok(())
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        if self.content_length.is_some() {
            return Err(ErrorKind::DuplicateContentLength);
        }
        if self.chunked {
            return Err(ErrorKind::ContentLengthWithTransferEncoding);
        }
        self.content_length = Some(framing::content_length(value)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        if self.is_http10 {
            return Err(ErrorKind::TransferEncodingInHttp10);
        }
        if self.chunked {
            return Err(ErrorKind::DuplicateTransferEncoding);
        }
        if self.content_length.is_some() {
            return Err(ErrorKind::ContentLengthWithTransferEncoding);
        }
        framing::request_transfer_encoding(value)?;
        self.chunked = true;
        Ok(())
    }

    /// Checks what depends on all lines (RFC 9112 3.2).
    #[inline]
    fn check(&self, target_has_authority: bool) -> Result<(), ErrorKind> {
        match self.host {
            None if !self.is_http10 => Err(ErrorKind::MissingHost),
            Some([]) if target_has_authority => Err(ErrorKind::EmptyHost),
            _ => Ok(()),
        }
    }

    #[inline]
    fn body_length(&self) -> BodyLength {
        match self.content_length {
            _ if self.chunked => BodyLength::Chunked,
            None | Some(0) => BodyLength::None,
            Some(bytes) => BodyLength::Known(bytes),
        }
    }

    /// RFC 9112 9.3: "close" ends the connection, HTTP/1.1 keeps it, HTTP/1.0 keeps it on request.
    #[inline]
    fn persistent(&self) -> bool {
        !self.close && (!self.is_http10 || self.keep_alive)
    }
}

/// Parses a head that the one permitted empty line precedes (RFC 9112 2.2).
#[cold]
fn after_empty_line<'a>(
    input: &'a [u8],
    limits: &HeadLimits,
) -> Result<Progress<'a>, ProtocolError> {
    let rest = match input {
        [CR, LF, rest @ ..] => rest,
        [] | [CR] => return Ok(Progress::Incomplete),
        _ => {
            return Err(ProtocolError {
                kind: ErrorKind::BareCr,
                at: 0,
            });
        }
    };
    match request_head(rest, limits, None, &Http1) {
        Ok(Progress::Complete(mut head)) => {
            head.consumed += CRLF.len();
            Ok(Progress::Complete(head))
        }
        Ok(Progress::Incomplete) => Ok(Progress::Incomplete),
        Err(error) => Err(ProtocolError {
            at: error.at + CRLF.len(),
            ..error
        }),
    }
}

/// A request line that fills its window without an end is too long.
#[cold]
fn request_line_stop<'a>(
    stop: Stop,
    window: &[u8],
    limits: &HeadLimits,
) -> Result<Progress<'a>, ProtocolError> {
    let max = limits.request_line_bytes_max;
    match stop {
        Stop::Incomplete if window.len() > max.saturating_add(1) => Err(ProtocolError {
            kind: ErrorKind::RequestLineTooLong,
            at: max,
        }),
        stop => stop.into_result(Progress::Incomplete),
    }
}

/// A field section that fills its window without an end is too large.
#[cold]
fn field_section_stop<'a>(
    stop: Stop,
    fields: &[u8],
    at: usize,
    limits: &HeadLimits,
) -> Result<Progress<'a>, ProtocolError> {
    let max = limits.header_section_bytes_max;
    match stop {
        Stop::Incomplete if fields.len() > max.saturating_add(1) => Err(ProtocolError {
            kind: ErrorKind::HeaderSectionTooLarge,
            at: at + max,
        }),
        stop => stop.shifted(at).into_result(Progress::Incomplete),
    }
}
