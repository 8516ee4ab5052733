//! What an exchange has written and its link has not sent yet: bytes, and parts of files between them.

use std::collections::VecDeque;

use net::memory::{NoMemory, reserve};

use crate::response::FilePart;

/// What is reserved for the parts that usually follow a long one before it is sent, so that it is not copied again: the application may be
/// this far ahead.
const FOLLOWING_BYTES_MAX: usize = 128 * 1024;

/// Reserves memory for a part of `bytes` at the end of `tail`.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn reserve_for_parts(tail: &mut Vec<u8>, bytes: usize) -> Result<(), NoMemory> {
    if tail.is_empty() && reserve(tail, bytes + bytes.min(FOLLOWING_BYTES_MAX)).is_ok() {
        return Ok(());
    }
    reserve(tail, bytes)
}

/// Bytes and parts of files, in sending order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The bytes before the first file.
    bytes: Vec<u8>,
    /// Each file with the bytes after it. Part of the first file may already have been sent.
    files: VecDeque<(FilePart, Vec<u8>)>,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>) -> Output {
        Output {
            bytes,
            files: VecDeque::new(),
        }
    }

    /// The buffer for bytes that are sent after everything else.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        match self.files.back_mut() {
            Some((_, after)) => after,
            None => &mut self.bytes,
        }
    }

    /// Appends a part of a file.
    pub(crate) fn push_file(&mut self, part: FilePart) {
        self.files.push_back((part, Vec::new()));
    }

    /// Takes the bytes that are next, with their buffer, so that an idle stream holds no memory.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The next part of a file, once the bytes before it have been taken.
    pub(crate) fn file(&mut self) -> Option<&mut FilePart> {
        self.files.front_mut().map(|(part, _)| part)
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let files = self.files.capacity() * size_of::<(FilePart, Vec<u8>)>();
        let after: usize = self.files.iter().map(|(_, after)| after.capacity()).sum();
        self.bytes.capacity() + files + after
    }

    /// Bytes in memory that are not sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let after: usize = self.files.iter().map(|(_, after)| after.len()).sum();
        self.bytes.len() + after
    }

    /// Bytes of files that are not sent.
    pub(crate) fn file_bytes(&self) -> u64 {
        let bytes = |sum: u64, (part, _): &(FilePart, Vec<u8>)| sum.saturating_add(part.length);
        self.files.iter().fold(0, bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.files.is_empty()
    }

    pub(crate) fn has_file(&self) -> bool {
        !self.files.is_empty()
    }

    /// Closes the first file, which has been sent. The bytes after it are next.
    pub(crate) fn end_file(&mut self) {
        let Some((_, mut after)) = self.files.pop_front() else {
            return;
        };
        match self.bytes.is_empty() {
            true => self.bytes = after,
            false => self.bytes.append(&mut after),
        }
    }

    /// Closes all files and drops the bytes after them.
    pub(crate) fn drop_files(&mut self) {
        self.files = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn part(length: u64) -> FilePart {
        FilePart {
            file: File::open("/dev/null").expect("it is everywhere").into(),
            offset: 0,
            length,
        }
    }

    #[test]
    fn bytes_and_files_keep_their_order() {
        let mut output = Output::new(b"a".into());
        output.tail().push(b'b');
        output.push_file(part(1));
        output.tail().push(b'c');
        output.push_file(part(2));
        output.push_file(part(3));
        output.tail().push(b'd');
        for (bytes, length) in [("ab", 1), ("c", 2), ("", 3)] {
            assert_eq!(output.take_bytes(), bytes.as_bytes());
            assert_eq!(output.file().map(|part| part.length), Some(length));
            output.end_file();
        }
        assert!(!output.has_file());
        output.tail().push(b'e');
        assert_eq!(output.take_bytes(), b"de");
    }

    #[test]
    fn what_follows_a_dropped_file_is_dropped_too() {
        let mut output = Output::new(b"a".into());
        output.push_file(part(1));
        output.tail().push(b'b');
        output.drop_files();
        assert!(!output.has_file());
        assert_eq!(output.take_bytes(), b"a");
        assert!(output.take_bytes().is_empty());
    }

    #[test]
    fn what_is_taken_leaves_no_room() {
        let mut output = Output::new(vec![0; 100_000]);
        assert_eq!(output.take_bytes().len(), 100_000);
        assert_eq!(output.tail().capacity(), 0);
    }
}
