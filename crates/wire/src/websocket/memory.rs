//! Memory for messages, whose lengths the peer or the application decides: without it there is an error, and the process continues.

use core::hint::black_box;

/// There is no memory for so many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NoMemory(pub usize);

impl core::fmt::Display for NoMemory {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "no memory for {} bytes", self.0)
    }
}

impl core::error::Error for NoMemory {}

/// Makes room for exactly so many more octets at the end of a buffer. Without memory for them the buffer is as before.
pub type Reserve = fn(&mut Vec<u8>, usize) -> Result<(), NoMemory>;

/// Takes what the system gives. A server that has to keep some memory for everything else has a [`Reserve`] of its own.
///
/// # Errors
/// If there is no memory.
pub fn reserve_exact(buffer: &mut Vec<u8>, more: usize) -> Result<(), NoMemory> {
    buffer.try_reserve_exact(more).map_err(|_| NoMemory(more))
}

/// Makes room for `more` octets and, as the buffer is likely to grow again, for as many as it has; but not for more than `most`, which is
/// not less than `more`.
pub(super) fn grow(
    buffer: &mut Vec<u8>,
    more: usize,
    most: usize,
    reserve: Reserve,
) -> Result<(), NoMemory> {
    if more <= buffer.capacity() - buffer.len() {
        return Ok(());
    }
    let ample = more.max(buffer.len()).min(most);
    reserve(buffer, ample).or_else(|_| reserve(buffer, more))
}

/// Checks that there is memory for something that panics without it.
pub(super) fn check_room(bytes: usize, reserve: Reserve) -> Result<(), NoMemory> {
    let mut room = Vec::new();
    reserve(&mut room, bytes)?;
    // Keeps the compiler from removing an unused allocation.
    black_box(room.as_mut_ptr());
    Ok(())
}
