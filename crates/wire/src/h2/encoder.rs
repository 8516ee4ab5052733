//! Encodes header blocks (RFC 7541 6), in both roles.
//!
//! What an application repeats is one octet: a line that was inserted is found by its bytes as the application wrote them, before anything
//! is read of it. `policy` says which lines are inserted.

mod policy;

use super::hpack::table::Table;
use super::hpack::{TABLE_BYTES_DEFAULT, huffman, integer, static_table};
use crate::encode::push_decimal;
use crate::field::connection_field::connection_field;
use crate::field::{FieldLine, field_lines};
use crate::grammar::LF;
use crate::scan;
use policy::{Indexing, Seen};

/// More of the peer's table is not used.
const TABLE_BYTES_MAX: usize = TABLE_BYTES_DEFAULT;
/// The index of the newest entry of the dynamic table.
const FIRST_DYNAMIC: usize = static_table::TABLE.len() + 1;
/// Index of `content-length` in the static table.
const CONTENT_LENGTH: usize = 28;
/// Index of the first `:status`.
const STATUS: usize = 8;

/// The encoder of one connection; allocates nothing before the first block that inserts into the table.
#[derive(Debug)]
pub struct Encoder {
    /// Lines as the application wrote them, and their hashes.
    table: Table<u32>,
    /// For the low bits of a hash, the low bits of the number of the last insertion with such a one.
    slots: [u8; SLOTS],
    /// Number of insertions.
    inserted: u32,
    seen: Seen,
    /// The smallest table size since the last block, if the size has changed (RFC 7541 4.2).
    size_update: Option<usize>,
    generation: u64,
}

const SLOTS: usize = 64;

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for a peer that has not sent its settings yet.
    pub const fn new() -> Encoder {
        Encoder {
            table: Table::new(TABLE_BYTES_MAX),
            slots: [0; SLOTS],
            inserted: 0,
            seen: Seen::new(),
            size_update: None,
            generation: 0,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE in bytes; at most 4096 are used. The next block starts with a size update if that changes
    /// anything (RFC 7541 4.2).
    pub fn set_table_bytes_max(&mut self, bytes: usize) {
        let size = bytes.min(TABLE_BYTES_MAX);
        if size == self.table.size_max() {
            return;
        }
        self.table.set_size_max(size);
        self.size_update = Some(self.size_update.map_or(size, |smallest| smallest.min(size)));
        self.generation += 1;
    }

    /// Changes whenever the table does: a block that was encoded without a change may be sent again while this stays the same.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Allocated memory in bytes.
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    /// Appends a response's header block. `status` is from 100 to 999.
    ///
    /// Each of `sections` is field lines as HTTP/1 has them. Names are written in lower case, and what is specific to HTTP/1 is left out:
    /// `Connection`, `Keep-Alive`, `Proxy-Connection`, `Transfer-Encoding` and `Upgrade` (RFC 9113 8.2.2).
    pub fn response(
        &mut self,
        status: u16,
        sections: &[&[u8]],
        content_length: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        self.update_size(out);
        self.status(status, out);
        if let Some(length) = content_length {
            integer::push(out, 0x00, 0x0f, CONTENT_LENGTH);
            let at = out.len();
            out.push(0);
            push_decimal(out, length);
            // At most 20 digits.
            let digits = out.len() - at - 1;
            if let Some(octet) = out.get_mut(at) {
                *octet = digits as u8;
            }
        }
        for section in sections {
            self.section(section, out);
        }
    }

    /// Appends a trailer section's header block; see [`Encoder::response`].
    pub fn trailers(&mut self, section: &[u8], out: &mut Vec<u8>) {
        self.update_size(out);
        self.section(section, out);
    }

    /// Appends a request's header block, as a client. The pseudo-header fields are written as they are; see [`Encoder::response`] for
    /// the fields. `scheme` and `path` are empty for CONNECT (RFC 9113 8.5).
    pub fn request(
        &mut self,
        method: &[u8],
        scheme: &[u8],
        authority: &[u8],
        path: &[u8],
        section: &[u8],
        out: &mut Vec<u8>,
    ) {
        self.update_size(out);
        for (name, value) in [
            (&b":method"[..], method),
            (b":scheme", scheme),
            (b":authority", authority),
            (b":path", path),
        ] {
            if value.is_empty() {
                continue;
            }
            let line = [name, b": ", value, b"\r\n"].concat();
            match static_table::index_of_line(&line) {
                Some(index) => integer::push(out, 0x80, 0x7f, index),
                None => self.line(&line, out),
            }
        }
        self.section(section, out);
    }

    /// RFC 7541 4.2: the smallest size since the last block, then the final one.
    #[inline]
    fn update_size(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.size_update.take() {
            let size = self.table.size_max();
            if smallest < size {
                integer::push(out, 0x20, 0x1f, smallest);
            }
            integer::push(out, 0x20, 0x1f, size);
        }
    }

    #[inline]
    fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => STATUS,
            204 => STATUS + 1,
            206 => STATUS + 2,
            304 => STATUS + 3,
            400 => STATUS + 4,
            404 => STATUS + 5,
            500 => STATUS + 6,
            _ => return self.other_status(status, out),
        };
        integer::push(out, 0x80, 0x7f, index);
    }

    fn other_status(&mut self, status: u16, out: &mut Vec<u8>) {
        let mut line = *b":status: 000\r\n";
        for (digit, unit) in line[9..12].iter_mut().zip([100, 10, 1]) {
            *digit += (status / unit % 10) as u8;
        }
        self.line(&line, out);
    }

    #[inline]
    fn section(&mut self, section: &[u8], out: &mut Vec<u8>) {
        let mut rest = section;
        while let Some(end) = memchr::memchr(LF, rest) {
            let (line, after) = rest.split_at(end + 1);
            self.line(line, out);
            rest = after;
        }
    }

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let hash = policy::hash(line);
        let slot = self.slots[hash as usize % SLOTS];
        let age = (self.inserted as u8).wrapping_sub(slot);
        if !self.push_if_same(usize::from(age), hash, line, out) {
            self.new_line(line, hash, out);
        }
    }

    /// Appends the index of the entry of this age, if that is `line`.
    #[inline]
    fn push_if_same(&self, age: usize, hash: u32, line: &[u8], out: &mut Vec<u8>) -> bool {
        let is_it = self
            .table
            .get(age)
            .is_some_and(|(known, its)| its == hash && scan::is_same(known, line));
        if is_it {
            integer::push(out, 0x80, 0x7f, FIRST_DYNAMIC + age);
        }
        is_it
    }

    /// Appends a line that its slot does not have.
    #[inline(never)]
    fn new_line(&mut self, line: &[u8], hash: u32, out: &mut Vec<u8>) {
        let Some(field) = parse(line) else {
            return;
        };
        if connection_field(field.name).is_some_and(|index| index != 0) {
            return;
        }
        let name = Name::of(field.name);
        let indexing = policy::indexing(&name, field.value);
        if indexing != Indexing::Never
            && indexing != Indexing::Without
            && self.push_if_elsewhere(line, hash, out)
        {
            return;
        }
        let indexing = self.decide(indexing, &field, hash);
        match indexing {
            Indexing::Never => push_literal(0x10, 0x0f, &name, field.value, out),
            Indexing::Always => {
                push_literal(0x40, 0x3f, &name, field.value, out);
                self.table.insert(line, hash);
                self.inserted = self.inserted.wrapping_add(1);
                self.slots[hash as usize % SLOTS] = self.inserted as u8;
                self.generation += 1;
            }
            _ => push_literal(0x00, 0x0f, &name, field.value, out),
        }
    }

    /// The slot of a line may belong to another one now.
    fn push_if_elsewhere(&mut self, line: &[u8], hash: u32, out: &mut Vec<u8>) -> bool {
        let Some(age) = self.table.tags().position(|its| its == hash) else {
            return false;
        };
        self.slots[hash as usize % SLOTS] = (self.inserted as u8).wrapping_sub(age as u8);
        self.push_if_same(age, hash, line, out)
    }

    /// Whether to insert this line now.
    fn decide(&mut self, indexing: Indexing, field: &FieldLine<'_>, hash: u32) -> Indexing {
        let size = field.name.len() + field.value.len() + super::hpack::ENTRY_OVERHEAD;
        // The table counts a line as if it were spelled this way.
        let is_plain =
            field.bytes.len() == field.name.len() + field.value.len() + super::hpack::LINE_OVERHEAD;
        let fits = is_plain && size <= self.table.size_max() / 4 * 3;
        match indexing {
            Indexing::Always | Indexing::IfRepeated if !fits => Indexing::Without,
            Indexing::IfRepeated if self.seen.is_repeated(hash) => Indexing::Always,
            Indexing::IfRepeated => Indexing::Without,
            decided => decided,
        }
    }
}

/// A line's name and value. `:status` is also one.
fn parse(line: &[u8]) -> Option<FieldLine<'_>> {
    if let Some(pseudo) = line.strip_prefix(b":") {
        let name_len = 1 + memchr::memchr(b':', pseudo)?;
        let value = line.get(name_len + 2..)?.strip_suffix(b"\r\n")?;
        return Some(FieldLine {
            bytes: line,
            name: line.get(..name_len)?,
            value,
        });
    }
    field_lines(line).next_line()
}

/// A field name, as far as it is in the static table.
enum Name<'a> {
    /// Its index.
    Static(usize),
    /// As the application wrote it.
    Other(&'a [u8]),
}

/// No name in the static table is longer.
const STATIC_NAME_BYTES_MAX: usize = 27;

impl Name<'_> {
    fn of(name: &[u8]) -> Name<'_> {
        let mut lower = [0; STATIC_NAME_BYTES_MAX];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return Name::Other(name);
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match static_table::index_of(lower) {
            Some(index) => Name::Static(usize::from(index)),
            None => Name::Other(name),
        }
    }
}

fn push_literal(first: u8, mask: u8, name: &Name<'_>, value: &[u8], out: &mut Vec<u8>) {
    match name {
        Name::Static(index) => integer::push(out, first, mask, *index),
        Name::Other(name) => {
            out.push(first);
            push_string(&name.to_ascii_lowercase(), out);
        }
    }
    push_string(value, out);
}

/// Appends a string literal, in the Huffman code if that is shorter (RFC 7541 5.2).
fn push_string(text: &[u8], out: &mut Vec<u8>) {
    let encoded_len = huffman::encoded_len(text);
    if encoded_len < text.len() {
        integer::push(out, 0x80, 0x7f, encoded_len);
        huffman::encode(text, out);
    } else {
        integer::push(out, 0x00, 0x7f, text.len());
        out.extend_from_slice(text);
    }
}
