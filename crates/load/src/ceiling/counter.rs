//! Counts request ends in a byte stream, as fast as the machine compares memory.
//!
//! A pipelined batch is mostly one request repeated. If the first request is a known one and the rest repeats it, two memory comparisons
//! prove how many ends there are. Everything else is searched.

use memchr::memmem;

const END: &[u8] = b"\r\n\r\n";

/// Finds request ends; remembers the last request so that the same bytes need no search.
#[derive(Default)]
pub(super) struct Counter {
    /// Bytes whose only request end is at their end.
    known: Vec<u8>,
}

/// The last bytes after the last request end: a part of an end that continues in the next read.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tail {
    bytes: [u8; 3],
    len: u8,
}

impl Counter {
    /// The length of the first request in `data`, if its end is there.
    pub(super) fn first_end(&mut self, data: &[u8]) -> Option<usize> {
        if !self.known.is_empty() && data.starts_with(&self.known) {
            return Some(self.known.len());
        }
        let length = memmem::find(data, END)? + END.len();
        self.known.clear();
        self.known.extend_from_slice(data.get(..length)?);
        Some(length)
    }

    /// How many requests end in `data`, which follows the bytes in `tail`.
    pub(super) fn count(&mut self, tail: &mut Tail, data: &[u8]) -> usize {
        let crossing = tail.end_in(data);
        let mut rest = data.get(crossing.unwrap_or(0)..).unwrap_or_default();
        let mut count = usize::from(crossing.is_some());
        if let Some(length) = self.first_end(rest) {
            let repeated = repetitions(rest, length);
            count += repeated;
            rest = rest.get(repeated * length..).unwrap_or_default();
            if rest.len() >= END.len() {
                count += search(&mut rest);
            }
            *tail = Tail::default();
        } else if crossing.is_some() {
            *tail = Tail::default();
        }
        tail.keep(rest);
        count
    }
}

/// How many times the first `length` bytes are repeated at the start of `data`, by one comparison: all or one.
fn repetitions(data: &[u8], length: usize) -> usize {
    let whole = data.len() / length;
    match (
        data.get(length..whole * length),
        data.get(..(whole - 1) * length),
    ) {
        (Some(later), Some(earlier)) if later == earlier => whole,
        _ => 1,
    }
}

/// Counts ends one by one; `rest` becomes what follows the last.
fn search(rest: &mut &[u8]) -> usize {
    let mut count = 0;
    let mut after_last = 0;
    for at in memmem::find_iter(rest, END) {
        count += 1;
        after_last = at + END.len();
    }
    *rest = rest.get(after_last..).unwrap_or_default();
    count
}

impl Tail {
    /// How many bytes of `data` complete a request end that started in the tail.
    fn end_in(&self, data: &[u8]) -> Option<usize> {
        let kept = usize::from(self.len);
        if kept == 0 {
            return None;
        }
        let mut joined = [0; 6];
        let fresh = data.len().min(3);
        joined
            .get_mut(..kept)?
            .copy_from_slice(self.bytes.get(..kept)?);
        joined
            .get_mut(kept..kept + fresh)?
            .copy_from_slice(data.get(..fresh)?);
        let at = joined
            .get(..kept + fresh)?
            .windows(END.len())
            .position(|four| four == END)?;
        Some(at + END.len() - kept)
    }

    /// Appends `data` and keeps the last three bytes.
    fn keep(&mut self, data: &[u8]) {
        for &byte in data.iter().skip(data.len().saturating_sub(3)) {
            if let Some(free) = self.bytes.get_mut(usize::from(self.len)) {
                *free = byte;
                self.len += 1;
            } else {
                let [_, second, third] = self.bytes;
                self.bytes = [second, third, byte];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(stream: &[u8]) -> usize {
        memmem::find_iter(stream, END).count()
    }

    #[test]
    fn every_cut_of_a_stream_counts_the_same() {
        let streams: [&[u8]; 6] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET",
            b"GET / HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n\r",
            b"\r\n\r\r\n\r\n\n\r\n\r\n",
            b"\r\r\n\r\n\r\n\r\n\r\nA\r\n\r\nA\r\n\r\n",
        ];
        for stream in streams {
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let mut counter = Counter::default();
                    let mut tail = Tail::default();
                    let cuts = [&stream[..first], &stream[first..second], &stream[second..]];
                    let count: usize = cuts.iter().map(|part| counter.count(&mut tail, part)).sum();
                    assert_eq!(count, naive(stream), "{stream:?} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn single_bytes_count_the_same() {
        let stream = b"GET / HTTP/1.1\r\nA: b\r\n\r\n".repeat(3);
        let mut counter = Counter::default();
        let mut tail = Tail::default();
        let parts = stream.chunks(1);
        assert_eq!(
            parts
                .map(|part| counter.count(&mut tail, part))
                .sum::<usize>(),
            3
        );
    }

    #[test]
    fn a_batch_whose_last_request_differs_is_counted() {
        let mut stream = b"GET /a HTTP/1.1\r\n\r\n".repeat(20);
        stream.extend_from_slice(b"GET /longer HTTP/1.1\r\n\r\nGET /");
        let mut counter = Counter::default();
        assert_eq!(counter.count(&mut Tail::default(), &stream), 21);
        assert_eq!(counter.count(&mut Tail::default(), &stream), 21);
    }
}
