//! RFC 7541: integers, strings, and the two tables.
//!
//! What the fields mean is not decided here.

pub(super) mod huffman;
pub(super) mod integer;
pub(super) mod static_table;
pub(super) mod table;

/// Bytes that an entry of a table counts for, besides its name and value (RFC 7541 4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;
/// Bytes of the text of a line besides its name and value: a colon, a space, and the line end.
pub(super) const LINE_OVERHEAD: usize = ": \r\n".len();
/// The size of a table until a setting changes it (RFC 9113 6.5.2).
pub(super) const TABLE_BYTES_DEFAULT: usize = 4096;

/// The size of a field whose line has this many bytes, as a table and a limit count it.
#[inline]
pub(super) fn size_of_line(line_bytes: usize) -> usize {
    size_of_lines(line_bytes, 1)
}

/// The size of some fields whose lines have together this many bytes.
#[inline]
pub(super) fn size_of_lines(bytes: usize, count: usize) -> usize {
    bytes + count * (ENTRY_OVERHEAD - LINE_OVERHEAD)
}

/// A field as the text of a line: `name: value` and a line end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) name_len: usize,
    pub(super) kind: super::kind::Kind,
}

impl<'a> Line<'a> {
    #[inline]
    pub(super) fn name(self) -> &'a [u8] {
        self.bytes.get(..self.name_len).unwrap_or_default()
    }

    /// The value; a line has one.
    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let from = self.name_len + ": ".len();
        let to = self.bytes.len().saturating_sub("\r\n".len());
        self.bytes.get(from..to).unwrap_or_default()
    }
}
