//! Decodes header blocks (RFC 7541 3, 6), in both roles.

mod control_data;

use super::block::{BlockError, BlockLimits};
use super::hpack::table::Table;
use super::hpack::{Line, TABLE_BYTES_DEFAULT, huffman, integer, static_table};
use super::kind::Kind;
use super::section::request::Request;
use super::section::response::Response;
use super::section::trailer::Trailer;
use super::section::{Role, Section};

/// The octet of the newest entry's index.
const FIRST_DYNAMIC: u8 = 0x80 + static_table::TABLE.len() as u8 + 1;

/// Octets that literals of a block may have beyond twice its length, which no Huffman code reaches. More come from the table: a name of
/// 4,000 octets that is inserted again takes two octets of the block, and decoding a refused one goes on to its end.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// What the table keeps of a line besides its text.
#[derive(Clone, Copy, Debug)]
struct Tag {
    name_len: u32,
    kind: Kind,
}

/// The decoder of one connection; allocates nothing before the peer's first block that inserts into the table.
#[derive(Debug)]
pub struct Decoder {
    table: Table<Tag>,
    /// What SETTINGS_HEADER_TABLE_SIZE announces.
    announced: usize,
    /// The largest size that the peer may choose now.
    allowed: usize,
    /// The next block must start with a size update.
    needs_size_update: bool,
    generation: u64,
}

/// A block that cannot be decoded.
struct Undecodable;

impl From<Undecodable> for BlockError {
    fn from(_: Undecodable) -> BlockError {
        BlockError::Compression
    }
}

impl Decoder {
    /// A decoder for a peer to which SETTINGS_HEADER_TABLE_SIZE is announced with this value, in bytes.
    ///
    /// The peer may use the default of 4096 until it has acknowledged a smaller one: see [`Decoder::settings_acknowledged`].
    pub fn new(table_bytes_max: usize) -> Decoder {
        Decoder {
            table: Table::new(TABLE_BYTES_DEFAULT),
            announced: table_bytes_max,
            allowed: table_bytes_max.max(TABLE_BYTES_DEFAULT),
            needs_size_update: false,
            generation: 0,
        }
    }

    /// Changes whenever the table does: while it stays the same, a block that changed nothing has the same meaning again.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The peer has acknowledged our settings, so a table size below the default applies now (RFC 7541 4.2, RFC 9113 4.3.1).
    pub fn settings_acknowledged(&mut self) {
        self.allowed = self.announced;
        self.needs_size_update = self.table.size_max() > self.allowed;
    }

    /// Allocated memory in bytes.
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    /// Decodes a request's header block into the text of a head, which replaces what `head` contains:
    /// `GET /path?query HTTP/2.0`, `Host: authority`, the other fields, and the empty line.
    ///
    /// The order of the fields is the client's. Host comes first if it is that of `:authority`; a Host that repeats it is left out.
    /// Cookie crumbs are one line. [`crate::parse_decoded_request`] reads it.
    ///
    /// # Errors
    /// Why the request, or the connection, must be refused. `head` has no meaning then, except after an error that has a status, when
    /// it is the method, or empty if the block has none.
    pub fn request(
        &mut self,
        block: &[u8],
        limits: &BlockLimits,
        head: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        let mut section = Section::new(Request::default(), limits, head);
        let mut rest = block;
        self.size_updates(&mut rest)?;
        let rest = self.control_data(rest, &mut section);
        self.fields(rest, &mut section)?;
        section.end().map(|_| ())
    }

    /// Decodes a trailer section into field lines, which replace what `section` contains. It ends without an empty line.
    ///
    /// # Errors
    /// Why the message, or the connection, must be refused. `section` has no meaning then.
    pub fn trailers(
        &mut self,
        block: &[u8],
        limits: &BlockLimits,
        section: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        let mut section = Section::new(Trailer, limits, section);
        self.decode(block, &mut section)?;
        section.end().map(|_| ())
    }

    /// Decodes a response's header block, as a client: returns the status, from 100 to 999 and not 101; the field lines replace what
    /// `section` contains. It ends without an empty line.
    ///
    /// # Errors
    /// Why the response, or the connection, must be refused. `section` has no meaning then.
    pub fn response(
        &mut self,
        block: &[u8],
        limits: &BlockLimits,
        section: &mut Vec<u8>,
    ) -> Result<u16, BlockError> {
        let mut section = Section::new(Response::default(), limits, section);
        self.decode(block, &mut section)?;
        section.end().map(|response| response.status)
    }

    /// Decodes a block of which only the changes of the table matter.
    ///
    /// # Errors
    /// [`BlockError::Compression`] only.
    pub fn skip(&mut self, block: &[u8]) -> Result<(), BlockError> {
        const NONE: BlockLimits = BlockLimits {
            section_bytes_max: 0,
            lines_max: 0,
            target_bytes_max: 0,
        };
        let mut text = Vec::new();
        let mut section = Section::new(Trailer, &NONE, &mut text);
        section.refuse(BlockError::TooLarge);
        self.decode(block, &mut section)?;
        Ok(())
    }

    fn decode<R: Role>(
        &mut self,
        block: &[u8],
        section: &mut Section<'_, R>,
    ) -> Result<(), Undecodable> {
        let mut rest = block;
        self.size_updates(&mut rest)?;
        self.fields(rest, section)
    }

    #[inline]
    fn fields<R: Role>(
        &mut self,
        fields: &[u8],
        section: &mut Section<'_, R>,
    ) -> Result<(), Undecodable> {
        let mut rest = fields;
        let mut literal_bytes_left = COPIED_BYTES_MAX + 2 * fields.len();
        while let [first, tail @ ..] = rest {
            rest = tail;
            if *first >= FIRST_DYNAMIC && self.run(*first, &mut rest, section) {
                continue;
            }
            if first & 0x80 != 0 {
                let index = integer::read(*first, 0x7f, &mut rest).ok_or(Undecodable)?;
                section.add(self.line(index)?);
            } else {
                let written = self.literal(*first, &mut rest, section)?;
                let left = literal_bytes_left.checked_sub(written);
                literal_bytes_left = left.ok_or(Undecodable)?;
            }
        }
        Ok(())
    }

    /// RFC 7541 6.3; anywhere else in the block an update is an error (4.2).
    #[inline]
    fn size_updates(&mut self, rest: &mut &[u8]) -> Result<(), Undecodable> {
        match rest.first() {
            Some(0x20..=0x3f) => self.update_size(rest),
            _ if self.needs_size_update => Err(Undecodable),
            _ => Ok(()),
        }
    }

    #[cold]
    fn update_size(&mut self, rest: &mut &[u8]) -> Result<(), Undecodable> {
        // Two can be needed (RFC 7541 4.2), but some encoders send each change.
        while let [first @ 0x20..=0x3f, tail @ ..] = *rest {
            *rest = tail;
            let size = integer::read(*first, 0x1f, rest).ok_or(Undecodable)? as usize;
            if size > self.allowed {
                return Err(Undecodable);
            }
            self.table.set_size_max(size);
        }
        self.needs_size_update = false;
        self.generation += 1;
        Ok(())
    }

    /// Adds plain fields that were inserted one after the other and are indexed in the same order: they are copied in one piece. `first` and
    /// the start of `rest` are indices of one octet. Returns false if the first must be added otherwise.
    #[inline]
    fn run<R: Role>(&self, first: u8, rest: &mut &[u8], section: &mut Section<'_, R>) -> bool {
        if first == u8::MAX {
            return false;
        }
        // From older entries to newer ones, indices count down.
        let expected = (0..first).rev();
        let following = rest.iter().zip(expected);
        let following = following.take_while(|(index, expected)| *index == expected);
        let max = 1 + following.count();
        let age = usize::from(first - FIRST_DYNAMIC);
        let (lines, count) = self.table.run(age, max, |tag| tag.kind == Kind::Plain);
        if count == 0 || !section.add_plain(lines, count) {
            return false;
        }
        *rest = rest.get(count - 1..).unwrap_or_default();
        true
    }

    /// The line of an index (RFC 7541 2.3.3).
    #[inline]
    fn line(&self, index: u32) -> Result<Line<'_>, Undecodable> {
        let index = (index as usize).checked_sub(1).ok_or(Undecodable)?;
        if let Some(entry) = static_table::TABLE.get(index) {
            return Ok(entry.line());
        }
        let age = index - static_table::TABLE.len();
        let (bytes, tag) = self.table.get(age).ok_or(Undecodable)?;
        Ok(Line {
            bytes,
            name_len: tag.name_len as usize,
            kind: tag.kind,
        })
    }

    /// A literal field (RFC 7541 6.2): decoded to the end of the text, and from there inserted. Returns the octets of its line.
    fn literal<R: Role>(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        section: &mut Section<'_, R>,
    ) -> Result<usize, Undecodable> {
        let (is_inserted, mask) = match first {
            0x40.. => (true, 0x3f),
            0x20..0x40 => return Err(Undecodable),
            _ => (false, 0x0f),
        };
        let index = integer::read(first, mask, rest).ok_or(Undecodable)?;
        let named = match index {
            0 => None,
            _ => Some(self.line(index)?),
        };
        section.before(match named {
            Some(line) => line.bytes.first() == Some(&b':'),
            None => starts_with_colon(rest),
        });
        let text = section.text();
        let start = text.len();
        match named {
            Some(line) => text.extend_from_slice(line.name()),
            None => push_string(rest, text)?,
        }
        let name_len = text.len() - start;
        text.extend_from_slice(b": ");
        let value_at = text.len();
        push_string(rest, text)?;
        let name = text.get(start..start + name_len).unwrap_or_default();
        let value = text.get(value_at..).unwrap_or_default();
        let kind = match named {
            Some(line) => Kind::of_named(line.kind, name, value),
            None => Kind::of(name, value),
        };
        text.extend_from_slice(b"\r\n");
        if is_inserted {
            let name_len = name_len as u32;
            let line = text.get(start..).unwrap_or_default();
            self.table.insert(line, Tag { name_len, kind });
            self.generation += 1;
        }
        let line_bytes = text.len() - start;
        section.take(start, name_len, kind);
        Ok(line_bytes)
    }
}

/// Whether the string at the start of `rest` starts with a colon. A string of 127 octets or more is no pseudo-header field.
#[inline]
fn starts_with_colon(rest: &[u8]) -> bool {
    match rest {
        [0x01..=0x7e, first, ..] => *first == b':',
        // The code of the colon has seven bits.
        [0x81..=0xfe, first, ..] => first >> 1 == 0x5c,
        _ => false,
    }
}

/// Appends the string literal at the start of `rest` (RFC 7541 5.2).
#[inline]
fn push_string(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Undecodable> {
    let [first, tail @ ..] = *rest else {
        return Err(Undecodable);
    };
    *rest = tail;
    let len = integer::read(*first, 0x7f, rest).ok_or(Undecodable)?;
    let (string, after) = rest.split_at_checked(len as usize).ok_or(Undecodable)?;
    *rest = after;
    if first & 0x80 == 0 {
        text.extend_from_slice(string);
        return Ok(());
    }
    huffman::decode(string, text).ok_or(Undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BlockLimits = BlockLimits {
        section_bytes_max: 32_768,
        lines_max: 100,
        target_bytes_max: 8000,
    };

    /// What follows an octet 0x7f in the length of a string (RFC 7541 5.1).
    fn push_length(block: &mut Vec<u8>, length: usize) {
        let mut rest = length - 127;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 0x80);
            rest /= 128;
        }
        block.push(rest as u8);
    }

    /// A name of 4,000 octets with an empty value, and the octets that insert it again with each pair.
    fn repeated(times: usize) -> Vec<u8> {
        let mut block = vec![0x40, 0x7f];
        push_length(&mut block, 4000);
        block.extend([b'a'; 4000]);
        block.push(0);
        block.extend([0x7e, 0].repeat(times));
        block
    }

    #[test]
    fn a_block_is_not_decoded_to_its_end_whatever_that_costs() {
        let mut text = Vec::new();
        for (times, expected) in [
            (200, Err(BlockError::TooLarge)),
            (8000, Err(BlockError::Compression)),
        ] {
            let mut decoder = Decoder::new(4096);
            assert_eq!(
                decoder.trailers(&repeated(times), &LIMITS, &mut text),
                expected
            );
            let mut skipping = Decoder::new(4096);
            let skipped = skipping.skip(&repeated(times));
            assert_eq!(skipped.is_err(), times == 8000);
            for insertions in [decoder.generation(), skipping.generation()] {
                assert!(insertions <= 280, "{insertions}");
            }
        }
    }

    #[test]
    fn a_block_of_any_length_may_have_literals_of_its_own() {
        let limits = BlockLimits {
            section_bytes_max: usize::MAX,
            ..LIMITS
        };
        let value = vec![b'v'; 4 << 20];
        let mut block = vec![0x00, 0x01, b'n', 0x7f];
        push_length(&mut block, value.len());
        block.extend(&value);
        let mut text = Vec::new();
        assert_eq!(
            Decoder::new(4096).trailers(&block, &limits, &mut text),
            Ok(())
        );
        assert_eq!(text.len(), "n: \r\n".len() + value.len());
    }
}
