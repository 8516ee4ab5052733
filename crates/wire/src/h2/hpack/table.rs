//! The dynamic table (RFC 7541 2.3.2, 4): lines in the order of their insertion.
//!
//! An entry is the text of a line. Its terminators and this table's own record of it take less than the 32 bytes that an entry counts for
//! besides its name and value, so the memory held is bounded by the table's size. Nothing is allocated before the first insertion.

use std::collections::VecDeque;

use super::size_of_line;

/// The text grows in steps of this many bytes.
const STEP: usize = 256;

/// Lines, each with a tag.
#[derive(Debug)]
pub(in crate::h2) struct Table<T> {
    /// The lines, the oldest first; those before the first entry have been evicted.
    text: Vec<u8>,
    /// The newest is the last.
    entries: VecDeque<Entry<T>>,
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    start: u32,
    len: u32,
    tag: T,
}

impl<T: Copy> Table<T> {
    pub(in crate::h2) const fn new(size_max: usize) -> Table<T> {
        Table {
            text: Vec::new(),
            entries: VecDeque::new(),
            size: 0,
            size_max,
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    pub(in crate::h2) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Allocated memory in bytes.
    pub(in crate::h2) fn held_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry<T>>()
    }

    /// The entry of this age: 0 is the newest.
    #[inline]
    pub(in crate::h2) fn get(&self, age: usize) -> Option<(&[u8], T)> {
        let position = self.entries.len().checked_sub(age)?.checked_sub(1)?;
        let entry = self.entries.get(position)?;
        let text = self.text.get(entry.start as usize..)?;
        Some((text.get(..entry.len as usize)?, entry.tag))
    }

    /// The lines of the entry of this age and of up to `max - 1` newer ones, as long as `goes_on`, in one piece; returns also their number.
    #[inline]
    pub(in crate::h2) fn run(
        &self,
        age: usize,
        max: usize,
        goes_on: impl Fn(T) -> bool,
    ) -> (&[u8], usize) {
        let Some(position) = self.entries.len().checked_sub(age + 1) else {
            return (b"", 0);
        };
        let (front, back) = self.entries.as_slices();
        let entries = match position.checked_sub(front.len()) {
            None => front.get(position..),
            Some(position) => back.get(position..),
        };
        let entries = entries.unwrap_or_default();
        let count = entries.iter().take(max);
        let count = count.take_while(|entry| goes_on(entry.tag)).count();
        let text = match entries.get(..count) {
            Some([first, .., last]) => first.start..last.start + last.len,
            Some([only]) => only.start..only.start + only.len,
            _ => 0..0,
        };
        let text = self.text.get(text.start as usize..text.end as usize);
        (text.unwrap_or_default(), count)
    }

    /// The tags, from the newest entry.
    pub(in crate::h2) fn tags(&self) -> impl Iterator<Item = T> {
        self.entries.iter().rev().map(|entry| entry.tag)
    }

    /// Inserts a line, and evicts the oldest ones for it; a line larger than the table only evicts (RFC 7541 4.4).
    pub(in crate::h2) fn insert(&mut self, line: &[u8], tag: T) {
        let size = size_of_line(line.len());
        if size > self.size_max {
            self.entries.clear();
            self.text.clear();
            self.size = 0;
            return;
        }
        self.evict(self.size_max - size);
        self.make_room(line.len());
        self.entries.push_back(Entry {
            start: self.text.len() as u32,
            len: line.len() as u32,
            tag,
        });
        self.text.extend_from_slice(line);
        self.size += size;
    }

    /// Changes the size that the table may have (RFC 7541 4.3); at 0, its memory is freed.
    pub(in crate::h2) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
        if size_max == 0 {
            *self = Table::new(0);
        }
    }

    #[inline]
    fn evict(&mut self, size_max: usize) {
        while self.size > size_max
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= size_of_line(entry.len as usize);
        }
    }

    /// Makes room for a line without moving it: removes what has been evicted if that is enough, or else the text grows.
    #[inline]
    fn make_room(&mut self, line_bytes: usize) {
        if self.text.capacity() - self.text.len() < line_bytes {
            self.compact(line_bytes);
        }
    }

    fn compact(&mut self, line_bytes: usize) {
        let evicted = self
            .entries
            .front()
            .map_or(self.text.len(), |oldest| oldest.start as usize);
        self.text.drain(..evicted);
        for entry in &mut self.entries {
            entry.start -= evicted as u32;
        }
        let needed = self.text.len() + line_bytes;
        let capacity = self.text.capacity();
        // A part remains free, so that not every insertion moves the text.
        if needed > capacity - capacity / 4 && capacity < self.size_max {
            let grown = (needed + needed / 4).next_multiple_of(STEP);
            let grown = grown.min(self.size_max).max(needed);
            self.text.reserve_exact(grown - self.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &Table<usize>) -> Vec<(String, usize)> {
        let line = |age| {
            table
                .get(age)
                .map(|(line, tag)| (line.escape_ascii().to_string(), tag))
        };
        (0..=table.len()).map_while(line).collect()
    }

    #[test]
    fn the_newest_entry_comes_first_and_the_oldest_is_evicted() {
        let mut table = Table::new(3 * 34);
        for (line, tag) in [
            (b"a: 1\r\n", 1),
            (b"b: 2\r\n", 2),
            (b"c: 3\r\n", 3),
            (b"d: 4\r\n", 4),
        ] {
            table.insert(line, tag);
        }
        let expected = [("d: 4\\r\\n", 4), ("c: 3\\r\\n", 3), ("b: 2\\r\\n", 2)];
        let expected: Vec<_> = expected.map(|(line, tag)| (line.to_owned(), tag)).into();
        assert_eq!(lines(&table), expected);
        assert_eq!(table.tags().collect::<Vec<_>>(), [4, 3, 2]);
        table.set_size_max(2 * 34 + 33);
        assert_eq!(lines(&table), expected[..2]);
        table.insert(&[b'x'; 200], 5);
        assert_eq!(lines(&table), []);
        table.set_size_max(0);
        assert_eq!(table.held_bytes(), 0);
    }

    #[test]
    fn it_equals_a_list_and_holds_no_more_than_its_size() {
        let mut model: Vec<(Vec<u8>, usize)> = Vec::new();
        let mut table = Table::new(4096);
        assert_eq!(table.held_bytes(), 0);
        for tag in 0..20_000 {
            // Short lines, long ones, and some that evict everything.
            let len = 4 + (tag * 7919 % 97) * (tag / 100 % 44);
            let line: Vec<u8> = (0..len).map(|at| (at + tag) as u8).collect();
            table.insert(&line, tag);
            model.insert(0, (line, tag));
            let sizes = model.iter().map(|(line, _)| size_of_line(line.len()));
            let fitting = sizes.scan(0, |sum, size| {
                *sum += size;
                (*sum <= 4096).then_some(())
            });
            model.truncate(fitting.count());
            assert_eq!(table.len(), model.len());
            for (age, (line, tag)) in model.iter().enumerate() {
                assert_eq!(table.get(age), Some((&line[..], *tag)));
            }
            assert_eq!(table.get(model.len()), None);
            let entries = table.entries.capacity() * size_of::<Entry<usize>>();
            assert!(
                table.held_bytes() - entries <= 4096,
                "{}",
                table.held_bytes()
            );
        }
    }
}
