//! The literals of an application's routes, looked up by their bytes.

/// Maps literals to numbers: a hash table with open addressing.
///
/// The hash is not keyed. Peers look literals up but never add one, so they cannot lengthen a chain.
#[derive(Clone, Default)]
pub(crate) struct LiteralMap {
    /// A power of two, at most half of them used; none while the map is empty.
    slots: Vec<Option<Slot>>,
    taken: usize,
}

#[derive(Clone)]
struct Slot {
    hash: u64,
    literal: Box<[u8]>,
    number: usize,
}

impl LiteralMap {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The number of a literal.
    #[inline(always)]
    pub(crate) fn get(&self, literal: &[u8]) -> Option<usize> {
        let hash = hash(literal);
        let mut place = hash as usize;
        loop {
            place &= self.slots.len().wrapping_sub(1);
            let slot = self.slots.get(place)?.as_ref()?;
            if slot.hash == hash && wire::is_same(&slot.literal, literal) {
                return Some(slot.number);
            }
            place += 1;
        }
    }

    /// The number of a literal; a new one gets `number`.
    pub(crate) fn get_or_insert(&mut self, literal: &[u8], number: usize) -> usize {
        if let Some(number) = self.get(literal) {
            return number;
        }
        if self.slots.len() <= 2 * self.taken + 1 {
            let slots = vec![None; self.slots.len().max(4) * 2];
            let before = std::mem::replace(&mut self.slots, slots);
            before.into_iter().flatten().for_each(|slot| self.put(slot));
        }
        self.taken += 1;
        self.put(Slot {
            hash: hash(literal),
            literal: literal.into(),
            number,
        });
        number
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len().wrapping_sub(1);
        let from = slot.hash as usize;
        let free = (0..self.slots.len())
            .map(|step| from.wrapping_add(step) & mask)
            .find(|place| self.slots.get(*place).is_some_and(Option::is_none));
        if let Some(free) = free.and_then(|place| self.slots.get_mut(place)) {
            *free = Some(slot);
        }
    }
}

#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    // The last word may overlap the one before, so that no single bytes remain.
    let end = match bytes.last_chunk::<8>() {
        Some(end) => u64::from_le_bytes(*end),
        None => short(bytes),
    };
    for word in bytes.as_chunks::<8>().0 {
        hash = mixed(hash, u64::from_le_bytes(*word));
    }
    hash = mixed(hash, end);
    hash ^ hash >> 32
}

/// A number that is different for different literals of the same length, up to seven bytes.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    if let (Some(start), Some(end)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*start)) << 32 | u64::from(u32::from_le_bytes(*end));
    }
    match *bytes {
        [byte] => u64::from(byte),
        [one, two] => u64::from(one) << 8 | u64::from(two),
        [one, two, three] => u64::from(one) << 16 | u64::from(two) << 8 | u64::from(three),
        _ => 0,
    }
}

#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    // The multiplier is 2^64 divided by the golden ratio, the usual choice for multiplicative hashing.
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
    fn literals_with_the_same_hash_are_distinguished() {
        let mut map = LiteralMap::default();
        map.get_or_insert(b"/a", 7);
        // Another literal with the hash of "/b" occupies its slot.
        let impostor = Slot {
            hash: hash(b"/b"),
            literal: b"/c"[..].into(),
            number: 9,
        };
        map.put(impostor);
        assert_eq!(map.get(b"/b"), None);
        assert_eq!(map.get_or_insert(b"/b", 8), 8);
        assert_eq!((map.get(b"/a"), map.get(b"/b")), (Some(7), Some(8)));
    }
}
