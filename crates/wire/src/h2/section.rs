//! Checks the fields of one block and writes them as the lines of a section (RFC 9113 8.1 to 8.3).
//!
//! A refused block is decoded to its end, so that the table stays in step, and what it contains is dropped, except for the method of a
//! request: without it, nobody knows whether the response may have content.

pub(super) mod request;
pub(super) mod response;
pub(super) mod trailer;

use super::block::{BlockError, BlockLimits};
use super::hpack::{Line, size_of_line, size_of_lines};
use super::kind::Kind;

/// Where something is in the text.
pub(super) type Part = (usize, usize);

/// What differs between requests, responses and trailers.
pub(super) trait Role {
    /// Takes a pseudo-header field whose value is `part` of the text.
    fn pseudo(
        &mut self,
        kind: Kind,
        part: Part,
        text: &[u8],
        limits: &BlockLimits,
    ) -> Result<(), BlockError>;

    /// All pseudo-header fields are known; what replaces them in the text is written.
    fn begin(&mut self, text: &mut Vec<u8>) -> Result<(), BlockError>;

    /// Where the method of a request is in the text, which starts with it if `has_begun`.
    fn method(&self, _text: &[u8], _has_begun: bool) -> Part {
        (0, 0)
    }

    /// Takes the field line at the end of the text.
    fn field(&mut self, kind: Kind, line: FieldAt, text: &mut Vec<u8>) -> Result<(), BlockError>;

    /// All fields are known.
    fn end(&mut self, text: &mut Vec<u8>) -> Result<(), BlockError>;
}

/// A line at the end of the text.
#[derive(Clone, Copy)]
pub(super) struct FieldAt {
    pub(super) start: usize,
    pub(super) name_len: usize,
}

impl FieldAt {
    /// The value, between the colon with its space and the line end.
    #[inline]
    pub(super) fn value(self, text: &[u8]) -> Part {
        let from = self.start + self.name_len + ": ".len();
        (from, text.len().saturating_sub("\r\n".len()))
    }
}

/// The section of one block.
pub(super) struct Section<'a, R> {
    role: R,
    text: &'a mut Vec<u8>,
    limits: &'a BlockLimits,
    size_left: usize,
    lines_left: usize,
    /// A field that is not a pseudo-header field has been reached.
    has_begun: bool,
    refused: Option<BlockError>,
    /// Length of the method that is kept at the start of the text of a refused request; 0 before it is known.
    kept: usize,
}

/// A malformed message.
#[cold]
pub(super) fn malformed(reason: &'static str) -> BlockError {
    BlockError::Malformed(reason)
}

impl<'a, R: Role> Section<'a, R> {
    /// An empty section.
    pub(super) fn new(role: R, limits: &'a BlockLimits, text: &'a mut Vec<u8>) -> Section<'a, R> {
        text.clear();
        Section {
            role,
            text,
            limits,
            size_left: limits.section_bytes_max,
            lines_left: limits.lines_max,
            has_begun: false,
            refused: None,
            kept: 0,
        }
    }

    /// Drops everything but the method: the block is only decoded.
    pub(super) fn refuse(&mut self, why: BlockError) {
        if self.refused.is_none() {
            self.refused = Some(why);
            let method = self.role.method(self.text, self.has_begun);
            self.keep(method);
        }
        self.text.truncate(self.kept);
    }

    fn keep(&mut self, method: Part) {
        if method.0 <= method.1 && method.1 <= self.text.len() {
            self.text.copy_within(method.0..method.1, 0);
            self.kept = method.1 - method.0;
        }
    }

    /// Where literals are decoded to.
    #[inline]
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        self.text
    }

    /// Called before each field.
    #[inline]
    pub(super) fn before(&mut self, is_pseudo: bool) {
        if self.has_begun != is_pseudo {
            return;
        }
        if is_pseudo {
            self.refuse(malformed(
                "A pseudo-header field follows a field, or is given more than once.",
            ));
            return;
        }
        if self.refused.is_none()
            && let Err(why) = self.role.begin(self.text)
        {
            self.refuse(why);
        }
        self.has_begun = true;
    }

    /// Adds lines of plain fields; returns false if they must be added one by one.
    #[inline]
    pub(super) fn add_plain(&mut self, lines: &[u8], count: usize) -> bool {
        let size = size_of_lines(lines.len(), count);
        let fits = count <= self.lines_left && size <= self.size_left;
        if !fits || !self.has_begun || self.refused.is_some() {
            return false;
        }
        self.lines_left -= count;
        self.size_left -= size;
        self.text.extend_from_slice(lines);
        true
    }

    /// Adds a line of a table.
    #[inline]
    pub(super) fn add(&mut self, line: Line<'_>) {
        if line.kind != Kind::Plain || !self.add_plain(line.bytes, 1) {
            self.add_special(line);
        }
    }

    fn add_special(&mut self, line: Line<'_>) {
        self.before(line.kind.is_pseudo());
        if self.refused.is_none() || line.kind == Kind::Method {
            let start = self.text.len();
            self.text.extend_from_slice(line.bytes);
            self.take(start, line.name_len, line.kind);
        }
    }

    /// Takes the line that has been appended to the text at `start`.
    #[inline]
    pub(super) fn take(&mut self, start: usize, name_len: usize, kind: Kind) {
        let line = FieldAt { start, name_len };
        if self.refused.is_some() {
            if kind == Kind::Method && self.kept == 0 {
                self.keep(line.value(self.text));
            }
            self.text.truncate(self.kept);
        } else if let Err(why) = self.check(kind, line) {
            self.refuse(why);
        }
    }

    fn check(&mut self, kind: Kind, line: FieldAt) -> Result<(), BlockError> {
        if let Kind::Malformed(flaw) = kind {
            return Err(malformed(flaw.reason()));
        }
        let size = size_of_line(self.text.len() - line.start);
        let size_left = self.size_left.checked_sub(size);
        if kind.is_pseudo() {
            let value = line.value(self.text);
            self.role.pseudo(kind, value, self.text, self.limits)?;
        } else {
            self.lines_left = self.lines_left.checked_sub(1).ok_or(BlockError::TooLarge)?;
        }
        self.size_left = size_left.ok_or(BlockError::TooLarge)?;
        if !kind.is_pseudo() {
            self.role.field(kind, line, self.text)?;
        }
        Ok(())
    }

    /// Begins a section whose pseudo-header fields, of this size, have been written to the text together.
    #[inline]
    pub(super) fn begin_written(&mut self, size: usize) -> &mut R {
        self.has_begun = true;
        self.size_left -= size.min(self.size_left);
        &mut self.role
    }

    /// The limits.
    #[inline]
    pub(super) fn limits(&self) -> &'a BlockLimits {
        self.limits
    }

    /// Ends the section.
    pub(super) fn end(mut self) -> Result<R, BlockError> {
        self.before(false);
        if self.refused.is_none()
            && let Err(why) = self.role.end(self.text)
        {
            self.refuse(why);
        }
        match self.refused {
            None => Ok(self.role),
            Some(why) => Err(why),
        }
    }
}
