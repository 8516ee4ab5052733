//! The request line (RFC 9112 3).
//!
//! ```text
//! request-line = method SP request-target SP HTTP-version CRLF
//! ```
//!
//! Bytes are checked in the order of arrival, so a prefix of a line never gets another verdict than the whole line.

use super::target;
use crate::error::{ErrorKind, Stop};
use crate::grammar::{CR, LF, SP, is_tchar};
use crate::limits::METHOD_BYTES_MAX;
use crate::method::{Method, Version};
use crate::scan;

/// A parsed request line: the lengths of its parts.
pub(crate) struct RequestLine {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) method_len: usize,
    /// Bytes of the target, which follows the method after one space.
    pub(crate) target_len: usize,
    /// Bytes of the target before its query.
    pub(crate) path_len: usize,
    /// Bytes of the whole line including its CRLF.
    pub(crate) len: usize,
}

/// Parses the request line at the start of `window`.
///
/// A part of each caller, to which the lengths are passed in registers (bench: head, short).
#[inline(always)]
pub(crate) fn parse(window: &[u8]) -> Result<RequestLine, Stop> {
    parse_with(window, version)
}

/// Parses the request line of a decoded head of HTTP/2. No client can send such a line: [`parse`] refuses its version.
pub(crate) fn parse_decoded(window: &[u8]) -> Result<RequestLine, Stop> {
    parse_with(window, |window, from_version| {
        match from_version.split_first_chunk() {
            Some((b"HTTP/2.0\r\n", rest)) => Ok((Version::Http2, window.len() - rest.len())),
            _ => Err(Stop::Refused(ErrorKind::InvalidVersion, 0)),
        }
    })
}

#[inline(always)]
fn parse_with(
    window: &[u8],
    version: impl Fn(&[u8], &[u8]) -> Result<(Version, usize), Stop>,
) -> Result<RequestLine, Stop> {
    let (method, from_target) = method(window)?;
    let method_len = window.len() - from_target.len() - 1;
    let mut rest = scan::skip_path(from_target);
    let path_len = from_target.len() - rest.len();
    if let [b'?', query @ ..] = rest {
        rest = scan::skip_query(query);
    }
    let target_len = from_target.len() - rest.len();
    let [SP, from_version @ ..] = rest else {
        return Err(target_stop(rest, method_len + 1 + target_len));
    };
    if from_target.first() != Some(&b'/') {
        let target = from_target.get(..target_len).unwrap_or_default();
        if let Err(kind) = target::split_other_form(method, target, path_len) {
            return Err(Stop::Refused(kind, method_len + 1));
        }
    }
    let (version, len) = version(window, from_version)?;
    Ok(RequestLine {
        method,
        version,
        method_len,
        target_len,
        path_len,
        len,
    })
}

/// The method, and the bytes after the space that follows it.
#[inline]
fn method(bytes: &[u8]) -> Result<(Method, &[u8]), Stop> {
    // Compared as numbers: a pattern would be compared byte by byte (bench: head, short).
    if let Some((start, rest)) = bytes.split_first_chunk()
        && start == b"GET "
    {
        return Ok((Method::Get, rest));
    }
    other_method(bytes)
}

/// The version, and the length of the line that it ends.
#[inline]
fn version(window: &[u8], from_version: &[u8]) -> Result<(Version, usize), Stop> {
    if let Some((start, rest)) = from_version.split_first_chunk()
        && start == b"HTTP/1.1\r\n"
    {
        return Ok((Version::Http11, window.len() - rest.len()));
    }
    other_version(from_version, window.len() - from_version.len())
}

#[inline(never)]
fn other_method(bytes: &[u8]) -> Result<(Method, &[u8]), Stop> {
    let window = bytes.get(..=METHOD_BYTES_MAX).unwrap_or(bytes);
    let len = window.len() - scan::skip_class(window, is_tchar).len();
    if len > METHOD_BYTES_MAX {
        return Err(Stop::Refused(ErrorKind::MethodTooLong, len));
    }
    let (name, rest) = bytes.split_at(len);
    let rest = match rest {
        [SP, rest @ ..] if len > 0 => rest,
        [LF, ..] => return Err(Stop::Refused(ErrorKind::BareLf, len)),
        [_, ..] => return Err(Stop::Refused(ErrorKind::InvalidMethod, len)),
        [] => return Err(Stop::Incomplete),
    };
    match Method::from_bytes(name) {
        Method::Connect => Err(Stop::Refused(ErrorKind::ConnectRefused, 0)),
        method => Ok((method, rest)),
    }
}

/// Why a space does not end the target.
#[cold]
fn target_stop(rest: &[u8], at: usize) -> Stop {
    let kind = match rest {
        [] => return Stop::Incomplete,
        [b'#', ..] => ErrorKind::FragmentInTarget,
        [LF, ..] => ErrorKind::BareLf,
        // A line without a version is a request of HTTP/0.9.
        [CR, ..] => ErrorKind::InvalidVersion,
        _ => ErrorKind::InvalidTarget,
    };
    Stop::Refused(kind, at)
}

/// Parses any version except a complete HTTP/1.1, at offset `at` of the line. Returns the version and the length of the line (RFC 9112
/// 2.3):
/// ```text
/// HTTP-version = HTTP-name "/" DIGIT "." DIGIT
/// HTTP-name    = %s"HTTP"
/// ```
#[cold]
fn other_version(bytes: &[u8], at: usize) -> Result<(Version, usize), Stop> {
    const PATTERN: &[u8; 10] = b"HTTP/d.d\r\n";
    for (index, expected) in PATTERN.iter().enumerate() {
        let byte = bytes.get(index).ok_or(Stop::Incomplete)?;
        let fits = if *expected == b'd' {
            byte.is_ascii_digit()
        } else {
            byte == expected
        };
        if !fits {
            return Err(Stop::Refused(version_error(index, *byte), at + index));
        }
        // The version is complete: decide on it before the line is complete.
        if index == 7 && bytes.get(5) != Some(&b'1') {
            let unknown = bytes.get(5) > Some(&b'1');
            let kind = if unknown {
                ErrorKind::UnsupportedVersion
            } else {
                ErrorKind::InvalidVersion
            };
            return Err(Stop::Refused(kind, at + 5));
        }
    }
    let is_minor_0 = bytes.get(7) == Some(&b'0');
    let version = if is_minor_0 {
        Version::Http10
    } else {
        Version::Http11
    };
    Ok((version, at + PATTERN.len()))
}

fn version_error(index: usize, byte: u8) -> ErrorKind {
    match (index, byte) {
        (9, _) => ErrorKind::BareCr,
        (_, LF) => ErrorKind::BareLf,
        _ => ErrorKind::InvalidVersion,
    }
}
