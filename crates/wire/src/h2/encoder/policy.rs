//! Which lines are inserted into the peer's table.
//!
//! An insertion evicts others. So fields whose values rarely repeat are not inserted, nor those of unknown names until they do.

use super::Name;

/// How a literal field is represented (RFC 7541 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Indexing {
    /// Inserted.
    Always,
    /// Inserted once it has been seen before.
    IfRepeated,
    /// Not inserted.
    Without,
    /// Not inserted by any recipient either: it may be a secret (RFC 7541 7.1.3).
    Never,
}

/// What the name says.
pub(super) fn indexing(name: &Name<'_>, value: &[u8]) -> Indexing {
    match name {
        Name::Other(_) if value.is_empty() => Indexing::Without,
        Name::Other(_) => Indexing::IfRepeated,
        Name::Static(index) => match index {
            // authorization, proxy-authorization, set-cookie.
            23 | 49 | 55 => Indexing::Never,
            // :path, age, content-length, content-range, etag, expires, if-modified-since, if-none-match, last-modified, location, range.
            4 | 21 | 28 | 30 | 34 | 36 | 40 | 41 | 44 | 46 | 50 => Indexing::Without,
            _ => Indexing::Always,
        },
    }
}

/// The hash of a line: of its length, start, middle and end, because that is where lines differ.
#[inline]
pub(super) fn hash(line: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let middle = line.get(line.len() / 2..).unwrap_or_default();
    let (Some(first), Some(last)) = (line.first_chunk(), line.last_chunk()) else {
        return line.iter().fold(0, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
    };
    let middle = middle.first_chunk().unwrap_or(last);
    let (first, middle, last) = (
        u64::from_le_bytes(*first),
        u64::from_le_bytes(*middle),
        u64::from_le_bytes(*last),
    );
    let mixed = (first ^ line.len() as u64).wrapping_mul(MULTIPLIER) ^ middle.rotate_left(23);
    let mixed = (mixed.rotate_left(29) ^ last).wrapping_mul(MULTIPLIER);
    (mixed >> 32) as u32
}

/// How many hashes are remembered.
const SEEN: usize = 8;

/// The hashes of the last lines that were not inserted.
#[derive(Debug)]
pub(super) struct Seen {
    hashes: [u32; SEEN],
    next: u8,
}

impl Seen {
    pub(super) const fn new() -> Seen {
        Seen {
            hashes: [0; SEEN],
            next: 0,
        }
    }

    /// Whether the hash is among the last ones; it is from now on.
    pub(super) fn is_repeated(&mut self, hash: u32) -> bool {
        if self.hashes.contains(&hash) {
            return true;
        }
        self.hashes[usize::from(self.next) % SEEN] = hash;
        self.next = self.next.wrapping_add(1);
        false
    }
}
