//! The literals of an application's routes, found by their bytes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// From literals to numbers.
///
/// The hash is not keyed: a peer looks literals up but never adds one, so it can make no chain longer.
#[derive(Clone, Default)]
pub(crate) struct LiteralMap {
    /// The index of an entry by its hash; one whose hash is taken has the next free number.
    places: HashMap<u64, usize, BuildHasherDefault<Identity>>,
    entries: Vec<(Box<[u8]>, usize)>,
}

impl LiteralMap {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of a literal.
    #[inline]
    pub(crate) fn get(&self, literal: &[u8]) -> Option<usize> {
        let mut place = hash(literal);
        loop {
            let (own, number) = self.entries.get(*self.places.get(&place)?)?;
            if wire::is_same(own, literal) {
                return Some(*number);
            }
            place = place.wrapping_add(1);
        }
    }

    /// The number of a literal, which is `number` if it is new.
    pub(crate) fn get_or_insert(&mut self, literal: &[u8], number: usize) -> usize {
        if let Some(number) = self.get(literal) {
            return number;
        }
        let mut place = hash(literal);
        while self.places.contains_key(&place) {
            place = place.wrapping_add(1);
        }
        self.places.insert(place, self.entries.len());
        self.entries.push((literal.into(), number));
        number
    }
}

#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        hash = mixed(hash, u64::from_le_bytes(*chunk));
        rest = tail;
    }
    let tail = rest
        .iter()
        .fold(0, |tail, &byte| tail << 8 | u64::from(byte));
    hash = mixed(hash, tail);
    hash ^ hash >> 32
}

#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    // The multiplier is 2^64 divided by the golden ratio, the usual choice for multiplicative hashing.
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The keys are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    #[inline]
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_and_only_they() {
        let mut map = LiteralMap::default();
        assert!(map.is_empty() && map.get(b"").is_none());
        let literals: Vec<String> = (0..3000)
            .map(|number| "/a".repeat(number % 30) + &number.to_string())
            .collect();
        for (number, literal) in literals.iter().enumerate() {
            assert_eq!(map.get_or_insert(literal.as_bytes(), number), number);
            assert_eq!(map.get_or_insert(literal.as_bytes(), usize::MAX), number);
        }
        for (number, literal) in literals.iter().enumerate() {
            assert_eq!(map.get(literal.as_bytes()), Some(number));
            assert_eq!(map.get(format!("{literal}/").as_bytes()), None);
        }
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut map = LiteralMap::default();
        // One literal stands where the other one would.
        map.places.insert(hash(b"/b"), 0);
        map.entries.push((b"/a"[..].into(), 7));
        assert_eq!(map.get(b"/b"), None);
        assert_eq!(map.get_or_insert(b"/b", 8), 8);
        assert_eq!(map.get(b"/b"), Some(8));
    }
}
