//! Fallible allocation for input of peers and for output that they do not read.
//!
//! Rust aborts the process if an allocation fails. Everything that a peer can make large is therefore allocated here, and a failure affects
//! only that peer. Allocations fail only because of a limit of the process (RLIMIT_AS, RLIMIT_DATA) or of the system (`vm.overcommit_memory
//! = 2`). At the memory limit of a container, the kernel kills the process instead.

use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

use crate::clock::Clock;

/// Memory that a large allocation leaves free for everything else: the response, the interpreter, and the line in the log.
const SPARE_BYTES: usize = 4 << 20;
/// A smaller allocation leaves less free, and knows of a limit only if it was noticed before.
const LARGE_BYTES_MIN: usize = 4096;
/// Memory that a small allocation leaves free. Less than [`SPARE_BYTES`], so that long content does not keep others from being served.
const SMALL_SPARE_BYTES: usize = 1 << 20;
/// Maximum growth of a buffer beyond what it needs, if memory is limited.
const STEP_BYTES_MAX: usize = 1 << 20;

/// Whether memory was limited when that was last checked.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);

/// There is no memory for this many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory(pub usize);

impl fmt::Display for NoMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no memory for {} bytes", self.0)
    }
}

impl std::error::Error for NoMemory {}

impl From<NoMemory> for io::Error {
    fn from(lack: NoMemory) -> io::Error {
        io::Error::new(io::ErrorKind::OutOfMemory, lack)
    }
}

impl NoMemory {
    /// The shortage that an error of a transport reports, if it does.
    pub fn of(error: &io::Error) -> Option<NoMemory> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// How much a buffer that has to grow gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    /// More than it needs, because it is likely to grow again.
    Ample,
    Exact,
}

/// Reserves capacity for `more` bytes.
///
/// # Errors
/// If there is no memory for them; the buffer is unchanged.
#[inline]
pub fn reserve(buffer: &mut Vec<u8>, more: usize) -> Result<(), NoMemory> {
    match more <= buffer.capacity() - buffer.len() {
        true => Ok(()),
        false => grow(buffer, more, Growth::Ample),
    }
}

/// As [`reserve`], for a buffer that is to hold no more memory than it needs.
///
/// # Errors
/// As [`reserve`].
pub fn reserve_exact(buffer: &mut Vec<u8>, more: usize) -> Result<(), NoMemory> {
    match more <= buffer.capacity() - buffer.len() {
        true => Ok(()),
        false => grow(buffer, more, Growth::Exact),
    }
}

/// Reserves a place in a queue whose length peers decide.
///
/// # Errors
/// If there is no memory for it; the queue is unchanged.
pub fn reserve_place<T>(queue: &mut VecDeque<T>) -> Result<(), NoMemory> {
    check_growth::<T>(queue.len(), queue.capacity())?;
    let bytes = size_of::<T>();
    queue.try_reserve(1).map_err(|_| NoMemory(bytes))
}

/// As [`reserve_place`], for a list.
///
/// # Errors
/// As [`reserve_place`].
#[inline]
pub fn reserve_entry<T>(list: &mut Vec<T>) -> Result<(), NoMemory> {
    if list.len() < list.capacity() {
        return Ok(());
    }
    check_growth::<T>(list.len(), list.capacity())?;
    let bytes = size_of::<T>();
    list.try_reserve(1).map_err(|_| NoMemory(bytes))
}

/// Checks that there is memory for one more entry of a collection, which cannot be refused memory.
///
/// # Errors
/// If it has to grow and there is not enough.
pub fn check_growth<T>(length: usize, capacity: usize) -> Result<(), NoMemory> {
    if length < capacity {
        return Ok(());
    }
    // Growth doubles it, and its entries are copied.
    let bytes = capacity.max(1).saturating_mul(2 * size_of::<T>());
    match is_short(bytes.saturating_add(SMALL_SPARE_BYTES)) {
        true => Err(NoMemory(bytes)),
        false => Ok(()),
    }
}

fn grow(buffer: &mut Vec<u8>, more: usize, growth: Growth) -> Result<(), NoMemory> {
    let is_large = more >= LARGE_BYTES_MIN || buffer.len() >= LARGE_BYTES_MIN;
    let (is_limited, spare_bytes) = match is_large {
        true => (notice_limit(), SPARE_BYTES),
        false => (IS_LIMITED.load(Ordering::Relaxed), SMALL_SPARE_BYTES),
    };
    if !is_limited {
        let reserved = match growth {
            Growth::Ample => buffer.try_reserve(more),
            Growth::Exact => buffer.try_reserve_exact(more),
        };
        return reserved.map_err(|_| NoMemory(more));
    }
    // Doubling a large buffer would fail although there is enough memory.
    let step = match growth {
        Growth::Ample => more.max(buffer.len().min(STEP_BYTES_MAX)),
        Growth::Exact => more,
    };
    for bytes in [step, more] {
        if can_have(bytes.saturating_add(spare_bytes)) && buffer.try_reserve_exact(bytes).is_ok() {
            return Ok(());
        }
    }
    Err(NoMemory(more))
}

/// Appends bytes to a buffer.
///
/// # Errors
/// As [`reserve`].
#[inline]
pub fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NoMemory> {
    reserve(buffer, bytes.len())?;
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// A copy of bytes.
///
/// # Errors
/// As [`reserve`].
#[inline]
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>, NoMemory> {
    let mut copy = Vec::new();
    append(&mut copy, bytes)?;
    Ok(copy)
}

/// Whether `bytes` can be allocated elsewhere, so that enough is left.
#[inline]
pub fn is_there(bytes: usize) -> bool {
    !notice_limit() || can_have(bytes.saturating_add(SPARE_BYTES))
}

/// Whether less than `bytes` is left, so that nothing new is to be started.
///
/// Cost: a load if memory was not limited when that was last noticed; otherwise an allocation.
#[inline]
pub fn is_short(bytes: usize) -> bool {
    IS_LIMITED.load(Ordering::Relaxed) && !can_have(bytes)
}

/// Whether the system may refuse memory, as far as that was noticed.
#[inline]
pub fn may_be_refused() -> bool {
    IS_LIMITED.load(Ordering::Relaxed)
}

fn can_have(bytes: usize) -> bool {
    let mut block: Vec<u8> = Vec::new();
    let is_there = block.try_reserve_exact(bytes).is_ok();
    // Keeps the compiler from removing an unused allocation.
    black_box(block.as_mut_ptr());
    is_there
}

/// Checks whether the system may refuse memory, for small allocations and [`is_short`] too. The limit of the address space can be set from
/// outside (prlimit) while the process runs. That of data, and how the machine commits memory, are read once.
///
/// Cost: a reading of the coarse clock, and a system call once per tick of it. A stream allocates several times per pass, and a limit that
/// is set within a tick does not have to be known in the same one.
pub fn notice_limit() -> bool {
    static NOTICED_MS: AtomicU64 = AtomicU64::new(u64::MAX);
    let now_ms = Clock::tick_ms();
    if NOTICED_MS.load(Ordering::Relaxed) == now_ms {
        return IS_LIMITED.load(Ordering::Relaxed);
    }
    let is_limited = is_limited();
    IS_LIMITED.store(is_limited, Ordering::Relaxed);
    NOTICED_MS.store(now_ms, Ordering::Relaxed);
    is_limited
}

/// Whether the system may refuse memory now.
fn is_limited() -> bool {
    static IS_ALWAYS: OnceLock<bool> = OnceLock::new();
    let has_limit = |resource| getrlimit(resource).current.is_some();
    has_limit(Resource::As)
        || *IS_ALWAYS.get_or_init(|| {
            let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
            has_limit(Resource::Data) || overcommit.is_ok_and(|text| text.starts_with('2'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_and_changes_nothing() {
        let mut buffer = b"abc".to_vec();
        let much = isize::MAX as usize - 3;
        assert_eq!(reserve(&mut buffer, much), Err(NoMemory(much)));
        assert_eq!(buffer, b"abc");
        assert!(!can_have(much));
    }

    #[test]
    fn an_exact_buffer_holds_what_it_needs() {
        let mut buffer = vec![0; 100];
        assert_eq!(reserve_exact(&mut buffer, 5000), Ok(()));
        assert_eq!(buffer.capacity(), 5100);
        let much = isize::MAX as usize - 100;
        assert_eq!(reserve_exact(&mut buffer, much), Err(NoMemory(much)));
        assert_eq!(buffer.len(), 100);
    }

    #[test]
    fn an_error_of_a_transport_tells_how_much_was_missing() {
        let error = io::Error::from(NoMemory(7));
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(NoMemory::of(&error), Some(NoMemory(7)));
        assert_eq!(NoMemory::of(&io::ErrorKind::OutOfMemory.into()), None);
    }

    #[test]
    fn a_queue_grows_by_places() {
        let mut queue = VecDeque::new();
        for id in 0..1000 {
            assert_eq!(reserve_place(&mut queue), Ok(()));
            assert!(queue.capacity() > queue.len());
            queue.push_back(id);
        }
    }

    #[test]
    fn a_list_grows_by_entries() {
        let mut list = Vec::new();
        for id in 0..1000 {
            assert_eq!(reserve_entry(&mut list), Ok(()));
            assert!(list.capacity() > list.len());
            list.push(id);
        }
        assert_eq!(check_growth::<u64>(list.len(), list.capacity()), Ok(()));
    }

    #[test]
    fn what_can_be_had_is_there() {
        let mut buffer = Vec::new();
        assert_eq!(append(&mut buffer, &[b'x'; 10_000]), Ok(()));
        assert_eq!(copy(&buffer), Ok(vec![b'x'; 10_000]));
        assert!(is_there(10_000));
        assert!(!is_short(10_000));
    }
}
