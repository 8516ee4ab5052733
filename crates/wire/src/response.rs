//! The head of a response: the client's half, used by the load generator.
//!
//! ```text
//! status-line = HTTP-version SP status-code SP [ reason-phrase ] CRLF     RFC 9112 4
//! ```

use crate::error::{ErrorKind, ProtocolError, Stop};
use crate::field::{list_members, parse_section};
use crate::framing;
use crate::grammar::{CR, CRLF, LF, SP};
use crate::limits::{HeadLimits, window};
use crate::method::Version;
use crate::scan;

/// The head of one response, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The head, from the version to the end of the empty line.
    pub bytes: &'a [u8],
    /// Bytes of the input used; the length of `bytes`.
    pub consumed: usize,
    /// The status code, from 100 to 999.
    pub status: u16,
    /// The version as which the response is treated.
    pub version: Version,
    /// The reason phrase, which has no meaning (RFC 9112 4).
    pub reason: &'a [u8],
    /// All field lines, each with its CRLF, without the empty line; see [`crate::field_lines`].
    pub field_section: &'a [u8],
    /// How the content is delimited.
    pub body_length: ResponseBodyLength,
    /// Whether the connection is usable after the message body (RFC 9112 9.3).
    pub persistent: bool,
}

/// How a response's body is delimited (RFC 9112 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseBodyLength {
    /// Never any content: rule 1, the response to HEAD and 1xx, 204 and 304.
    None,
    /// This many bytes: rule 6.
    Known(u64),
    /// The chunked coding delimits itself: rule 4.
    Chunked,
    /// All bytes until the server closes: rules 4 and 8.
    UntilClose,
}

/// The result for the bytes received so far.
#[derive(Clone, Copy, Debug)]
pub enum ResponseProgress<'a> {
    /// One complete head.
    Complete(ResponseHead<'a>),
    /// Valid so far and within the limits; more is needed.
    Incomplete,
}

/// Parses the response head at the start of `input`; `request_is_head` says that it responds to a
/// HEAD request.
///
/// The contract is that of [`crate::parse_request`]. An interim response is a head like any other.
///
/// # Errors
/// The response is malformed; the connection cannot be used any more.
#[inline]
pub fn parse_response<'a>(
    input: &'a [u8],
    limits: &HeadLimits,
    request_is_head: bool,
) -> Result<ResponseProgress<'a>, ProtocolError> {
    match response_head(input, limits, request_is_head) {
        Ok(head) => Ok(ResponseProgress::Complete(head)),
        Err(Stop::Incomplete) => Ok(ResponseProgress::Incomplete),
        Err(Stop::Refused(kind, at)) => Err(ProtocolError { kind, at }),
    }
}

#[inline]
fn response_head<'a>(
    input: &'a [u8],
    limits: &HeadLimits,
    request_is_head: bool,
) -> Result<ResponseHead<'a>, Stop> {
    let line_window = window(input, limits.request_line_bytes_max);
    let line = status_line(line_window).map_err(|stop| {
        over_limit(
            stop,
            line_window,
            limits.request_line_bytes_max,
            ErrorKind::InvalidStatusLine,
        )
    })?;
    let fields = input.get(line.len..).unwrap_or_default();
    let section_window = window(fields, limits.header_section_bytes_max);
    let mut control = Control::default();
    let section_len = parse_section(
        section_window,
        section_window.len(),
        limits.field_lines_max,
        |name, value| control.read(line.version, name, value),
    )
    .map_err(|stop| {
        let max = limits.header_section_bytes_max;
        over_limit(stop, section_window, max, ErrorKind::HeaderSectionTooLarge).shifted(line.len)
    })?;
    let consumed = line.len + section_len + CRLF.len();
    let body_length = control.body_length(line.status, request_is_head);
    Ok(ResponseHead {
        bytes: input.get(..consumed).unwrap_or_default(),
        consumed,
        status: line.status,
        version: line.version,
        reason: line.reason,
        field_section: fields.get(..section_len).unwrap_or_default(),
        body_length,
        persistent: control.persistent(line.version)
            && body_length != ResponseBodyLength::UntilClose,
    })
}

/// A part that fills its window without an end exceeds its limit.
#[cold]
fn over_limit(stop: Stop, window: &[u8], max: usize, kind: ErrorKind) -> Stop {
    match stop {
        Stop::Incomplete if window.len() > max.saturating_add(1) => Stop::Refused(kind, max),
        stop => stop,
    }
}

struct StatusLine<'a> {
    version: Version,
    status: u16,
    reason: &'a [u8],
    len: usize,
}

/// Parses the status line; if the reason phrase is missing, its space may be missing too, as many servers send it.
#[inline]
fn status_line(bytes: &[u8]) -> Result<StatusLine<'_>, Stop> {
    const START: usize = b"HTTP/1.1 200".len();
    let refused = |at| Err(Stop::Refused(ErrorKind::InvalidStatusLine, at));
    let Some(start) = bytes.first_chunk::<START>() else {
        return Err(partial_status_line(bytes));
    };
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        minor,
        SP,
        digits @ ..,
    ] = start
    else {
        return refused(0);
    };
    if !minor.is_ascii_digit() || !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return refused(0);
    }
    let status = digits
        .iter()
        .fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let rest = bytes.get(START..).unwrap_or_default();
    let after_reason = scan::skip_field_value(rest);
    let reason_len = rest.len() - after_reason.len();
    match after_reason {
        [CR, LF, ..] => {}
        [] | [CR] => return Err(Stop::Incomplete),
        _ => return refused(START + reason_len),
    }
    let reason = match rest.get(..reason_len).unwrap_or_default() {
        [] => &[],
        [SP, reason @ ..] => reason,
        _ => return refused(START),
    };
    let version = if *minor == b'0' {
        Version::Http10
    } else {
        Version::Http11
    };
    Ok(StatusLine {
        version,
        status,
        reason,
        len: START + reason_len + CRLF.len(),
    })
}

#[cold]
fn partial_status_line(bytes: &[u8]) -> Stop {
    let fits = |(byte, expected): (&u8, &u8)| match expected {
        b'd' => byte.is_ascii_digit(),
        _ => byte == expected,
    };
    if bytes.iter().zip(b"HTTP/1.d ddd").all(fits) {
        Stop::Incomplete
    } else {
        Stop::Refused(ErrorKind::InvalidStatusLine, 0)
    }
}

/// What the field lines say about the message itself.
#[derive(Default)]
struct Control {
    content_length: Option<u64>,
    transfer_encoding: bool,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Control {
    #[inline]
    fn read(&mut self, version: Version, name: &[u8], value: &[u8]) -> Result<(), ErrorKind> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.transfer_encoding(version, value)
            }
            _ => Ok(()),
        }
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
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
        if self.transfer_encoding {
            return Err(ErrorKind::ContentLengthWithTransferEncoding);
        }
        self.content_length = Some(framing::content_length(value)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, version: Version, value: &[u8]) -> Result<(), ErrorKind> {
        if version == Version::Http10 {
            return Err(ErrorKind::TransferEncodingInHttp10);
        }
        if self.content_length.is_some() {
            return Err(ErrorKind::ContentLengthWithTransferEncoding);
        }
        if self.transfer_encoding {
            return Err(ErrorKind::DuplicateTransferEncoding);
        }
        self.transfer_encoding = true;
        self.chunked = framing::transfer_codings(value)?.chunked;
        Ok(())
    }

    /// The rules of RFC 9112 6.3 in their order.
    #[inline]
    fn body_length(&self, status: u16, request_is_head: bool) -> ResponseBodyLength {
        if request_is_head || !crate::has_content(status) {
            return ResponseBodyLength::None;
        }
        match self.content_length {
            _ if self.chunked => ResponseBodyLength::Chunked,
            _ if self.transfer_encoding => ResponseBodyLength::UntilClose,
            Some(bytes) => ResponseBodyLength::Known(bytes),
            None => ResponseBodyLength::UntilClose,
        }
    }

    fn persistent(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}
