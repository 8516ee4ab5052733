//! Every limit of the message grammar: name with its unit, value, and why.
//!
//! Limits on content and on time belong to the server, not here.

use crate::grammar::CRLF;

/// Limits on one message's head.
///
/// These are plain values; the server declares what an operator may set, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the request line (or status line) without its CRLF; a longer one gets 414.
    ///
    /// RFC 9112 3 recommends at least 8000.
    pub request_line_bytes_max: usize,
    /// Bytes of all field lines together, each with its CRLF; more get 431.
    pub header_section_bytes_max: usize,
    /// Number of field lines; more get 431.
    pub field_lines_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits {
            request_line_bytes_max: 8_192,
            header_section_bytes_max: 32_768,
            field_lines_max: 100,
        }
    }
}

/// Bytes of a method name; a longer one gets 501 (RFC 9112 3).
///
/// The longest registered name has 17 bytes.
pub const METHOD_BYTES_MAX: usize = 32;

/// Bytes of chunk extensions in one message body, including delimiters; more get 413.
///
/// RFC 9112 7.1.1 recommends a limit: without one, a peer can send kilobytes of extension per byte of
/// content (CVE-2023-39326).
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 16 * 1024;

/// The largest chunk size; a larger one gets 400 (RFC 9112 7.1: guard against overflow).
///
/// No real chunk comes near, and sums of two such sizes still fit in 64 bits.
pub const CHUNK_SIZE_MAX: u64 = i64::MAX as u64;

/// Bytes of one trailer section, each field line with its CRLF; more get 431.
pub const TRAILER_SECTION_BYTES_MAX: u32 = 8 * 1024;

/// Number of trailer field lines; more get 431.
pub const TRAILER_FIELD_LINES_MAX: u32 = 32;

/// The bytes that a part of at most `max` bytes and its CRLF may take.
///
/// Parsing within this window makes the result independent of how much more has arrived.
#[inline]
pub(crate) fn window(bytes: &[u8], max: usize) -> &[u8] {
    bytes.get(..max.saturating_add(CRLF.len())).unwrap_or(bytes)
}
