//! Memory shared by processes: each publishes a few words, without locks or messages.
//!
//! [`crate::Siblings`], [`crate::Numbers`], [`crate::Ranking`] and [`crate::Rates`] give the words their meaning.

pub(crate) mod numbers;
pub(crate) mod ranking;
pub(crate) mod rates;
pub(crate) mod siblings;

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The words of one process. On a cache line of its own (two, as processors fetch them in pairs), so that writing does not slow the others
/// down.
#[repr(C, align(128))]
pub(crate) struct Words {
    pub(crate) state: AtomicU32,
    pub(crate) open: AtomicU32,
    pub(crate) asked_ms: AtomicU64,
}

/// Numbers in a page.
pub(crate) const PAGE_NUMBERS: usize = 512;

/// A page of memory, which only one process writes to.
#[repr(C, align(128))]
pub(crate) struct Page(pub(crate) [AtomicU64; PAGE_NUMBERS]);

/// A bucket of [`crate::Rates`].
#[repr(C, align(16))]
pub(crate) struct Bucket {
    /// The hash of its key; 0 if it was never used.
    pub(crate) key: AtomicU64,
    pub(crate) full_at_ns: AtomicU64,
}

/// Words of a title in a [`Place`].
pub(crate) const TITLE_WORDS: usize = 27;

/// A place of [`crate::Ranking`], which only one process writes to.
#[repr(C, align(128))]
pub(crate) struct Place {
    /// Odd while it is written.
    pub(crate) version: AtomicU64,
    pub(crate) count: AtomicU64,
    pub(crate) total_ns: AtomicU64,
    pub(crate) last_ms: AtomicU64,
    pub(crate) since_ms: AtomicU64,
    pub(crate) title: [AtomicU64; TITLE_WORDS],
}

impl Place {
    pub(crate) fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let first = [&self.version, &self.count, &self.total_ns];
        let times = [&self.last_ms, &self.since_ms];
        first.into_iter().chain(times).chain(&self.title)
    }
}

/// What consists of atomic integers only, so that all zero is a valid value. Implemented in this file alone.
pub(crate) trait Atomic {}

impl Atomic for Words {}
impl Atomic for Page {}
impl Atomic for Place {}
impl Atomic for Bucket {}

/// Creates memory that this process shares with those that it forks from now on: `count` times `T`, all zero. It exists as long as the
/// process.
///
/// # Errors
/// If the process or the system has no memory left.
#[allow(
    unsafe_code,
    reason = "there is no other way to share memory between processes"
)]
pub(crate) fn shared<T: Atomic>(count: usize) -> io::Result<&'static [T]> {
    let bytes = count.saturating_mul(size_of::<T>()).max(1);
    let (access, sharing) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: the kernel chooses an unused address.
    let address = unsafe { mmap_anonymous(null_mut(), bytes, access, sharing) }?;
    // SAFETY: the memory has that length, is aligned to a page, never unmapped, and only accessed as atomic integers, in this process and
    // the others. All zero is a valid value of those ([`Atomic`]).
    Ok(unsafe { std::slice::from_raw_parts(address.cast(), count) })
}
