//! The memory of a worker that has nothing to do: what was freed goes back to the system.
//!
//! The allocator keeps what lies below any block that is in use, however much that is: forty uploads that end at once leave hundreds of
//! megabytes. Giving them back takes tens of milliseconds, so it is done in a rest only, and for a hundredth of the time at most.

use std::time::{Duration, Instant};

use net::Rest;

use crate::ffi::allocator;

/// Freed memory that each arena of the allocator keeps for the next content.
const KEPT_BYTES: i32 = 8 << 20;
/// Only the first is given back from entirely; the others keep that much of it each.
const ARENAS: i32 = 2;
/// Freed memory that has to come together before it is given back.
const FREED_BYTES_MIN: i64 = 16 << 20;
/// The time that giving back takes is one part of so many.
const TIME_PARTS: u32 = 100;
/// How long at least from one giving back to the next: the pages are faulted in again when they are needed again.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// What a worker knows of its memory.
pub(crate) struct Memory {
    rest: Rest,
    /// Resident bytes that were not in use when they were fewest: code, the interpreter's small objects, and what cannot be given back.
    floor_bytes: i64,
    /// When a loop that is not ours began to wait, and how long it may.
    wait: Option<(Instant, Option<u64>)>,
}

impl Memory {
    /// Sets the allocator up. Called before threads are started.
    pub(crate) fn new() -> Memory {
        allocator::keep_freed(KEPT_BYTES);
        allocator::share_arenas(ARENAS);
        Memory {
            rest: Rest::default(),
            floor_bytes: unused_bytes().unwrap_or_default(),
            wait: None,
        }
    }

    /// How long a wait may last that is to end in `wait_ms`.
    #[inline]
    pub(crate) fn limit(&self, wait_ms: Option<u64>) -> Option<u64> {
        self.rest.limit(wait_ms)
    }

    /// A wait is over that was to end in `wait_ms`: freed memory is given back if nothing happened and the time has come. Not to be called
    /// with the interpreter held, unless `wait_ms` is 0.
    #[inline]
    pub(crate) fn waited(&mut self, wait_ms: Option<u64>, is_quiet: bool) {
        if self.rest.waited(wait_ms, is_quiet) {
            self.give_back();
        }
    }

    /// A loop that is not ours is about to wait for `wait_ms` at most. Gives how long it may.
    pub(crate) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        self.wait = Some((Instant::now(), wait_ms));
        self.limit(wait_ms)
    }

    /// A loop that is not ours has waited. True when [`Memory::give_back`] is to be called. It may have been at work all the time, which
    /// nobody knows here.
    pub(crate) fn wait_ends(&mut self) -> bool {
        let Some((began, wait_ms)) = self.wait.take() else {
            return false;
        };
        let limit_ms = self.limit(wait_ms).unwrap_or(u64::MAX);
        let is_quiet = began.elapsed() >= Duration::from_millis(limit_ms);
        self.rest.waited(wait_ms, is_quiet)
    }

    /// Gives freed memory back if there is enough of it. Not to be called with the interpreter held.
    #[cold]
    pub(crate) fn give_back(&mut self) {
        let began = Instant::now();
        let Some(unused_before) = unused_bytes() else {
            return;
        };
        let mut unused = unused_before;
        let mut pause_min = Duration::ZERO;
        if unused_before - self.floor_bytes >= FREED_BYTES_MIN {
            allocator::give_back();
            unused = unused_bytes().unwrap_or(unused_before);
            // What is left cannot be given back: it is no reason for another attempt.
            self.floor_bytes = unused;
            pause_min = PAUSE_MIN;
        }
        self.floor_bytes = self.floor_bytes.min(unused);
        self.rest
            .resume_after((began.elapsed() * TIME_PARTS).max(pause_min));
    }
}

/// Resident bytes of no file that the allocator does not count as used; more may be counted than are resident. None where the kernel does
/// not say.
fn unused_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let resident_kib: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let used = i64::try_from(allocator::used_bytes()).ok()?;
    Some(resident_kib * 1024 - used)
}
