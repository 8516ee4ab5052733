//! The usual start of a request's block, after size updates, read at once: the four pseudo-header fields as indices of one octet, in any order, of which
//! `:path` may be a literal that is not inserted.
//!
//! Nothing here refuses anything. A block that starts otherwise, or with something that is wrong, is decoded field by field instead.

use super::{Decoder, push_string};
use crate::h2::hpack::{ENTRY_OVERHEAD, integer};
use crate::h2::kind::{Kind, is_origin_form};
use crate::h2::section::Section;
use crate::h2::section::request::Request;

/// `:path`, the first of two, as a literal that is not inserted and one that never is.
const PATH: [u8; 2] = [0x04, 0x14];

/// Bytes of their names.
const NAMES: usize = ":method:scheme:authority:path".len();
/// Room for a head is made once.
const USUAL_HEAD_BYTES: usize = 512;

/// The values that have been found; those that have not are empty, which no valid one is.
#[derive(Default)]
struct Found<'a> {
    method: &'a [u8],
    scheme: &'a [u8],
    authority: &'a [u8],
    path: &'a [u8],
    /// `path` is a string literal.
    is_literal: bool,
}

impl Decoder {
    /// Reads the pseudo-header fields at the start of the block and writes what they are to the section; returns what follows them.
    /// Returns the whole block if that is not possible.
    #[inline]
    pub(super) fn control_data<'b>(
        &self,
        block: &'b [u8],
        section: &mut Section<'_, Request>,
    ) -> &'b [u8] {
        let (found, read) = self.find(block);
        let written = found.and_then(|found| found.write(section));
        if written.is_some()
            && let Some(rest) = block.get(read..)
        {
            return rest;
        }
        section.text().clear();
        block
    }

    /// What the block starts with, and its octets.
    #[inline]
    fn find<'a>(&'a self, block: &'a [u8]) -> (Option<Found<'a>>, usize) {
        let mut found = Found::default();
        let mut rest = block;
        for _ in 0..4 {
            let [first, tail @ ..] = rest else {
                break;
            };
            if PATH.contains(first) {
                let Some(len) = string_len(tail) else {
                    return (None, 0);
                };
                let (string, tail) = tail.split_at(len);
                (found.path, found.is_literal) = (string, true);
                rest = tail;
                continue;
            }
            if !(0x81..0xff).contains(first) {
                break;
            }
            let Ok(line) = self.line(u32::from(first & 0x7f)) else {
                return (None, 0);
            };
            let known = match line.kind {
                Kind::Method => &mut found.method,
                Kind::Scheme => &mut found.scheme,
                Kind::Authority => &mut found.authority,
                Kind::Path => &mut found.path,
                _ => break,
            };
            *known = line.value();
            rest = tail;
        }
        (Some(found), block.len() - rest.len())
    }
}

/// Octets of the string literal at the start of `rest`, which has as many.
#[inline]
fn string_len(rest: &[u8]) -> Option<usize> {
    let mut tail = rest.get(1..)?;
    let len = integer::read(*rest.first()?, 0x7f, &mut tail)? as usize;
    let len = len.checked_add(rest.len() - tail.len())?;
    (len <= rest.len()).then_some(len)
}

impl Found<'_> {
    /// Writes the start of the head. None if a field is missing, or something may have to be refused; what has been written is wrong then.
    #[inline]
    fn write(self, section: &mut Section<'_, Request>) -> Option<()> {
        let are_known = !self.method.is_empty() && !self.scheme.is_empty();
        let have_place = !self.authority.is_empty() && !self.path.is_empty();
        if !are_known || !have_place || self.method == b"CONNECT" {
            return None;
        }
        let limits = section.limits();
        let text = section.text();
        text.reserve(USUAL_HEAD_BYTES);
        text.extend_from_slice(self.method);
        text.push(b' ');
        let from = text.len();
        if self.is_literal {
            push_string(&mut { self.path }, text).ok()?;
        } else {
            text.extend_from_slice(self.path);
        }
        let target = text.get(from..).unwrap_or_default();
        let target_bytes = target.len();
        let is_valid = !self.is_literal || is_origin_form(target);
        let values = self.method.len() + self.scheme.len() + self.authority.len() + target_bytes;
        let size = values + NAMES + 4 * ENTRY_OVERHEAD;
        let fits = target_bytes <= limits.target_bytes_max && size <= limits.section_bytes_max;
        if !is_valid || !fits {
            return None;
        }
        let is_https = self.scheme.len() == "https".len();
        let request = Request::written(is_https, self.authority, section.text());
        *section.begin_written(size) = request;
        Some(())
    }
}
