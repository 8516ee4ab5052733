//! Memory that processes share: one word each for what they say to each other, no locks, no messages.
//!
//! Read [`crate::Siblings`], which gives the words their meaning.

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// What one process says to the others. A cache line of its own (two, as processors fetch them in pairs): who writes here disturbs nobody.
#[repr(C, align(128))]
pub(crate) struct Words {
    pub(crate) state: AtomicU32,
    pub(crate) open: AtomicU32,
    pub(crate) asked_ms: AtomicU64,
}

/// Makes memory that this process shares with those that it forks from now on: `count` times [`Words`], all zero. It stays for as long as
/// the process lives.
///
/// # Errors
/// When the process or the system has no memory left.
#[allow(
    unsafe_code,
    reason = "memory is shared between processes in no other way"
)]
pub(crate) fn shared_words(count: usize) -> io::Result<&'static [Words]> {
    let bytes = count.saturating_mul(size_of::<Words>()).max(1);
    let (access, sharing) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: the kernel chooses an address that nothing lies at.
    let address = unsafe { mmap_anonymous(null_mut(), bytes, access, sharing) }?;
    // SAFETY: the memory is as long as that, aligned to a page, never unmapped, and only reached as atomic integers, in this process and
    // the others. All zero is a valid value of those.
    Ok(unsafe { std::slice::from_raw_parts(address.cast(), count) })
}
