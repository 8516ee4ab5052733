//! Numbers that one process counts and another one reads, without locks, messages or files.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::shared::{PAGE_NUMBERS, Page, shared};

/// A page of numbers, created before the process that counts is forked. Only one thread may change a number at a time: it is read and
/// written back, which is one instruction without a lock. Any process may read them at any time; what it reads of several numbers is not
/// of one moment.
#[derive(Clone, Copy)]
pub struct Numbers(&'static [AtomicU64; PAGE_NUMBERS]);

impl Numbers {
    /// How many there are.
    pub const COUNT: usize = PAGE_NUMBERS;

    /// As many zeros. They exist as long as the process, so those that are no longer used are [cleared](Numbers::clear) and used again.
    ///
    /// # Errors
    /// If the process or the system has no memory left.
    pub fn new() -> io::Result<Numbers> {
        let pages: &'static [Page] = shared(1)?;
        pages
            .first()
            .map(|page| Numbers(&page.0))
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Adds to a number.
    #[inline(always)]
    pub fn add(self, index: usize, count: u64) {
        if let Some(number) = self.0.get(index) {
            number.store(number.load(Relaxed).wrapping_add(count), Relaxed);
        }
    }

    /// Subtracts from a number.
    #[inline]
    pub fn subtract(self, index: usize, count: u64) {
        self.add(index, count.wrapping_neg());
    }

    /// Adds to a number that several threads change, with an atomic instruction; `count` may be the difference to a smaller number.
    #[inline]
    pub fn add_from_any(self, index: usize, count: u64) {
        if let Some(number) = self.0.get(index) {
            number.fetch_add(count, Relaxed);
        }
    }

    /// A number as it is now.
    #[inline]
    pub fn get(self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |number| number.load(Relaxed))
    }

    /// Replaces a number.
    #[inline]
    pub fn set(self, index: usize, value: u64) {
        if let Some(number) = self.0.get(index) {
            number.store(value, Relaxed);
        }
    }

    /// The numbers as they are now.
    pub fn read(self) -> Vec<u64> {
        self.0.iter().map(|number| number.load(Relaxed)).collect()
    }

    /// Sets all to zero, after the process that counted has ended.
    pub fn clear(self) {
        self.0.iter().for_each(|number| number.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_set_and_cleared() {
        let numbers = Numbers::new().unwrap();
        numbers.add(3, 5);
        numbers.subtract(3, 2);
        numbers.add_from_any(3, 4);
        numbers.add_from_any(3, 3u64.wrapping_sub(7));
        numbers.set(Numbers::COUNT - 1, u64::MAX);
        numbers.add(Numbers::COUNT, 1);
        let read = numbers.read();
        assert_eq!((read.len(), read[3]), (Numbers::COUNT, numbers.get(3)));
        assert_eq!((numbers.get(3), numbers.get(Numbers::COUNT)), (3, 0));
        assert_eq!(read.iter().filter(|number| **number != 0).count(), 2);
        numbers.clear();
        assert!(numbers.read().iter().all(|number| *number == 0));
    }

    #[test]
    fn pages_are_separate() {
        let (one, other) = (Numbers::new().unwrap(), Numbers::new().unwrap());
        one.add(0, 1);
        assert_eq!((one.read()[0], other.read()[0]), (1, 0));
    }
}
