//! Memory through which the records of all sessions of a thread pass.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use rustls::unbuffered::{EncodeError, EncodeTlsData, EncryptError, WriteTraffic};

use super::sealing::{self, Encryption, HEADER_BYTES, OVERHEAD_BYTES, Place};
use crate::memory::{NoMemory, reserve_exact};

/// Room for the records of the longest part of a content that is encrypted at once, however short they are.
const OUTPUT_BYTES: usize = 152 * 1024;
/// Room for the longest record, and for some of rustls' own, if none of it is used for content.
const ASIDE_BYTES: usize = 17 * 1024;
/// More memory than this is freed after use.
const KEPT_BYTES_MAX: usize = 160 * 1024;

thread_local! {
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Output> = const { RefCell::new(Output { bytes: Vec::new(), used: 0, aside: Vec::new() }) };
}

/// Memory that content is copied to.
pub(crate) trait Room {
    /// Its length.
    fn room_bytes(&self) -> usize;
    /// Copies `bytes`, which fit, to `at`.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

impl Room for [u8] {
    #[inline]
    fn room_bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Room for [MaybeUninit<u8>] {
    fn room_bytes(&self) -> usize {
        self.len()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(places) = self.get_mut(at..at + bytes.len()) {
            for (place, byte) in places.iter_mut().zip(bytes) {
                place.write(*byte);
            }
        }
    }
}

/// Records to be sent. Its memory is initialized once and then reused.
pub(super) struct Output {
    bytes: Vec<u8>,
    used: usize,
    /// What rustls writes of records that [`sealing`] has written to `bytes`: records of its own that precede them, and a header.
    aside: Vec<u8>,
}

impl Output {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Appends what `write` puts into the room that it is given, which has to grow if it returns the length that it needs. Returns whether
    /// it wrote anything.
    ///
    /// # Errors
    /// If there is no memory for that.
    fn write(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
    ) -> Result<bool, NoMemory> {
        let mut result = write(self.bytes.get_mut(self.used..).unwrap_or_default());
        if let Err(required) = result {
            self.make_room(required)?;
            result = write(self.bytes.get_mut(self.used..).unwrap_or_default());
        }
        let count = result.unwrap_or(0);
        self.used += count;
        Ok(count > 0)
    }

    /// Appends one record with `content`.
    ///
    /// # Errors
    /// If there is no memory for it. What was written before is lost too.
    pub(super) fn encrypt<D>(
        &mut self,
        traffic: &mut WriteTraffic<'_, D>,
        content: &[u8],
        encryption: Encryption,
    ) -> Result<bool, NoMemory> {
        match encryption {
            Encryption::Ordinary => self.write(|room| written(traffic.encrypt(content, room))),
            Encryption::IntoPlace => {
                let count = self.seal(content, |aside| written(traffic.encrypt(content, aside)))?;
                Ok(count > 0)
            }
        }
    }

    /// Has `encrypt` write the record of `content` in its place. What it writes to the room that it is given is records of rustls' own that
    /// precede this one, and the header of an empty record.
    fn seal(
        &mut self,
        content: &[u8],
        mut encrypt: impl FnMut(&mut [u8]) -> Result<usize, usize>,
    ) -> Result<usize, NoMemory> {
        let record_bytes = content.len() + OVERHEAD_BYTES;
        self.make_room(record_bytes)?;
        lengthen(&mut self.aside, ASIDE_BYTES)?;
        let start = self.used;
        let mut place = Place {
            bytes: std::mem::take(&mut self.bytes),
            used: start,
        };
        let mut result = sealing::into_place(&mut place, || encrypt(&mut self.aside));
        if let Err(required) = result {
            lengthen(&mut self.aside, required)?;
            result = sealing::into_place(&mut place, || encrypt(&mut self.aside));
        }
        (self.bytes, self.used) = (place.bytes, place.used);
        let count = result.unwrap_or(0);
        let own_bytes = match self.used > start {
            true => count.saturating_sub(HEADER_BYTES),
            false => count,
        };
        if own_bytes > 0 {
            self.insert(start, own_bytes)?;
        }
        Ok(count)
    }

    /// Moves the first bytes of what was written aside to `start`, before the record there.
    #[cold]
    fn insert(&mut self, start: usize, count: usize) -> Result<(), NoMemory> {
        self.make_room(count)?;
        self.bytes.copy_within(start..self.used, start + count);
        let room = self.bytes.get_mut(start..start + count);
        if let (Some(room), Some(own)) = (room, self.aside.get(..count)) {
            room.copy_from_slice(own);
        }
        self.used += count;
        Ok(())
    }

    /// Makes room for `count` more bytes.
    fn make_room(&mut self, count: usize) -> Result<(), NoMemory> {
        let required = self.used + count;
        match required <= self.bytes.len() {
            true => Ok(()),
            false => lengthen(&mut self.bytes, OUTPUT_BYTES.max(required)),
        }
    }

    /// Appends a record that announces the end.
    pub(super) fn close<D>(&mut self, traffic: &mut WriteTraffic<'_, D>) -> Result<bool, NoMemory> {
        self.write(|room| written(traffic.queue_close_notify(room)))
    }

    /// Appends a record of rustls' own.
    pub(super) fn encode<D>(&mut self, data: &mut EncodeTlsData<'_, D>) -> Result<(), NoMemory> {
        self.write(|room| encoded(data.encode(room))).map(|_| ())
    }
}

/// Lends memory for received records.
///
/// # Errors
/// If it has to grow and there is no memory for that.
pub(super) fn with_records<T>(
    bytes: usize,
    read: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, NoMemory> {
    RECORDS.with_borrow_mut(|records| {
        lengthen(records, bytes)?;
        Ok(read(records.get_mut(..bytes).unwrap_or_default()))
    })
}

/// Makes memory at least `bytes` long.
fn lengthen(memory: &mut Vec<u8>, bytes: usize) -> Result<(), NoMemory> {
    if let Some(more @ 1..) = bytes.checked_sub(memory.len()) {
        reserve_exact(memory, more)?;
        memory.resize(bytes, 0);
    }
    Ok(())
}

/// Lends memory for records to be sent.
pub(super) fn with_output<T>(write: impl FnOnce(&mut Output) -> T) -> T {
    OUTPUT.with_borrow_mut(|output| {
        output.used = 0;
        let written = write(output);
        if output.bytes.len() > KEPT_BYTES_MAX {
            output.bytes = Vec::new();
        }
        written
    })
}

/// The result of a write of rustls: the length, or the room that it needs.
fn written(result: Result<usize, EncryptError>) -> Result<usize, usize> {
    match result {
        Err(EncryptError::InsufficientSize(error)) => Err(error.required_size),
        Err(EncryptError::EncryptExhausted) => Ok(0),
        Ok(count) => Ok(count),
    }
}

/// As [`written`], for records of rustls' own.
fn encoded(result: Result<usize, EncodeError>) -> Result<usize, usize> {
    match result {
        Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
        Err(EncodeError::AlreadyEncoded) => Ok(0),
        Ok(count) => Ok(count),
    }
}
