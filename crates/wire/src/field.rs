//! Field lines: parsing them once, and iterating over parsed ones.
//!
//! ```text
//! field-line = field-name ":" OWS field-value OWS CRLF     RFC 9112 5
//! ```

pub mod connection_field;
pub mod harmless;

use crate::error::{ErrorKind, Stop};
use crate::grammar::{CR, CRLF, HTAB, LF, SP, is_field_value_byte, is_tchar, is_token, trim_ows};
use crate::scan;

/// Parses the field lines at the start of `rest`, which is the end of a window of `window_len`
/// bytes, up to the empty line. Calls `on_line` with each name, and with its value including the
/// OWS around it.
///
/// Returns where in the window the empty line starts.
#[inline]
pub(crate) fn parse_section<'a>(
    mut rest: &'a [u8],
    window_len: usize,
    field_lines_max: usize,
    mut on_line: impl FnMut(&'a [u8], &'a [u8]) -> Result<(), ErrorKind>,
) -> Result<usize, Stop> {
    let mut lines_left = field_lines_max;
    while rest.first_chunk() != Some(CRLF) {
        let at = window_len - rest.len();
        if lines_left == 0 {
            return Err(no_line_left(rest, at));
        }
        lines_left -= 1;
        let Some((name, value, tail)) = parse_line(rest) else {
            return Err(line_stop(rest, at));
        };
        on_line(name, value).map_err(|kind| Stop::Refused(kind, at))?;
        rest = tail;
    }
    Ok(window_len - rest.len())
}

/// Name and value of the field line at the start of `bytes`, and what follows the line; None unless
/// it is complete and well-formed.
///
/// The end of the line is searched from the start of the line, not from its colon. So the search
/// does not depend on the length of the name, and the processor can start on the next line
/// meanwhile (bench: head, browser).
#[inline]
fn parse_line(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let after_line = scan::skip_field_value(bytes);
    let [CR, LF, rest @ ..] = after_line else {
        return None;
    };
    let [b':', from_value @ ..] = after_field_name(bytes) else {
        return None;
    };
    let name = bytes.get(..bytes.len() - from_value.len() - 1)?;
    if name.is_empty() {
        return None;
    }
    let value = from_value.get(..from_value.len() - after_line.len())?;
    Some((name, value, rest))
}

/// The bytes after the token at the start of `bytes`.
#[inline]
fn after_field_name(bytes: &[u8]) -> &[u8] {
    let rest = scan::skip_letters(bytes);
    match rest {
        [b':', ..] => rest,
        _ => scan::skip_class(rest, is_tchar),
    }
}

/// Only the empty line may follow.
#[cold]
fn no_line_left(bytes: &[u8], at: usize) -> Stop {
    match bytes {
        [] | [CR] => Stop::Incomplete,
        _ => Stop::Refused(ErrorKind::TooManyFieldLines, at),
    }
}

/// Why there is neither a complete field line nor an empty line at the start of `bytes`.
#[cold]
fn line_stop(bytes: &[u8], at: usize) -> Stop {
    let after_name = scan::skip_class(bytes, is_tchar);
    let name_len = bytes.len() - after_name.len();
    let after_value = match after_name {
        [b':', after_colon @ ..] if name_len > 0 => scan::skip_field_value(after_colon),
        [] => return Stop::Incomplete,
        [CR] if name_len == 0 => return Stop::Incomplete,
        [byte, ..] => return Stop::Refused(name_error(*byte, name_len, at), at + name_len),
    };
    let kind = match after_value {
        [] | [CR] => return Stop::Incomplete,
        [CR, ..] => ErrorKind::BareCr,
        [LF, ..] => ErrorKind::BareLf,
        _ => ErrorKind::InvalidFieldValue,
    };
    Stop::Refused(kind, at + bytes.len() - after_value.len())
}

/// Why a token of this length at the start of a line, followed by this byte, is not a field name.
fn name_error(byte: u8, name_len: usize, line_at: usize) -> ErrorKind {
    match byte {
        LF => ErrorKind::BareLf,
        CR if name_len == 0 => ErrorKind::BareCr,
        CR => ErrorKind::MissingColon,
        SP | HTAB if name_len > 0 => ErrorKind::WhitespaceBeforeColon,
        SP | HTAB if line_at == 0 => ErrorKind::LeadingWhitespace,
        SP | HTAB => ErrorKind::ObsoleteLineFolding,
        _ => ErrorKind::InvalidFieldName,
    }
}

/// A field line that a parser of this crate accepted.
#[derive(Clone, Copy, Debug)]
pub struct FieldLine<'a> {
    /// The line with its end, as received.
    pub bytes: &'a [u8],
    /// The field name as received.
    pub name: &'a [u8],
    /// The field value without the OWS around it.
    pub value: &'a [u8],
}

/// Iterates over the field lines of a section that a parser of this crate accepted.
#[derive(Clone, Copy, Debug)]
pub struct FieldLines<'a> {
    rest: &'a [u8],
}

impl<'a> FieldLines<'a> {
    /// The next line, and where in memory it is.
    #[inline]
    pub fn next_line(&mut self) -> Option<FieldLine<'a>> {
        let (name, value, rest) = parse_line(self.rest)?;
        let end = self.rest.len() - rest.len();
        let bytes = self.rest.get(..end)?;
        self.rest = rest;
        Some(FieldLine {
            bytes,
            name,
            value: trim_ows(value),
        })
    }

    /// Skips `line` if that is the next one, byte for byte. The time depends on how much of it matches: see [`crate::field::harmless`].
    #[inline]
    pub(crate) fn skip(&mut self, line: &[u8]) -> bool {
        let Some((start, rest)) = self.rest.split_at_checked(line.len()) else {
            return false;
        };
        let is_next = scan::is_same(start, line);
        if is_next {
            self.rest = rest;
        }
        is_next
    }

    /// The remaining lines, as received.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether no line remains.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for FieldLines<'a> {
    /// A field name as received, and its value without the OWS around it.
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (name, value, rest) = parse_line(self.rest)?;
        self.rest = rest;
        Some((name, trim_ows(value)))
    }
}

/// Iterates over the field lines of a `field_section` that [`crate::parse_request`] or
/// [`crate::parse_response`] accepted, in the order received.
pub fn field_lines(field_section: &[u8]) -> FieldLines<'_> {
    FieldLines {
        rest: field_section,
    }
}

/// Whether the bytes may be emitted as a field name: `field-name = token` (RFC 9110 5.1).
pub fn is_field_name(name: &[u8]) -> bool {
    is_token(name)
}

/// Whether the bytes may be emitted as a field value (RFC 9110 5.5).
///
/// CR, LF, NUL and every other control byte but HTAB are refused; bytes from 0x80 on are allowed.
pub fn is_field_value(value: &[u8]) -> bool {
    value.iter().copied().all(is_field_value_byte)
}

/// The members of a list-valued field (RFC 9110 5.6.1), without OWS and empty members.
///
/// A quoted string that contains a comma is returned in pieces, none of which equals a token.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(trim_ows)
        .filter(|member| !member.is_empty())
}
