//! Returns the freed memory of an idle worker to the system.
//!
//! The allocator keeps everything below the topmost block in use, however much that is: forty uploads that end at once leave hundreds of
//! megabytes. Returning them takes tens of milliseconds, so it is done only in a rest, and for at most a hundredth of the time.

use std::time::{Duration, Instant};

use net::Rest;

use crate::ffi::allocator;

/// Freed memory that each arena of the allocator keeps for the next content.
const KEPT_BYTES: i32 = 8 << 20;
/// Only the first arena returns everything; the others keep that much each.
const ARENAS: i32 = 2;
/// Minimum freed memory before it is returned.
const FREED_BYTES_MIN: i64 = 16 << 20;
/// Returning memory takes at most one in this many parts of the time.
const TIME_PARTS: u32 = 100;
/// Minimum time between two returns: the pages are faulted in again when they are needed.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The state of a worker's memory.
pub(crate) struct Memory {
    rest: Rest,
    /// Minimum of the resident bytes not in use: code, the interpreter's small objects, and what cannot be returned.
    floor_bytes: i64,
    /// When a foreign loop started to wait, and how long it may.
    wait: Option<(Instant, Option<u64>)>,
}

impl Memory {
    /// Configures the allocator. Called before threads are started.
    pub(crate) fn new() -> Memory {
        allocator::keep_freed(KEPT_BYTES);
        allocator::share_arenas(ARENAS);
        Memory {
            rest: Rest::default(),
            floor_bytes: unused_bytes().unwrap_or_default(),
            wait: None,
        }
    }

    /// The maximum duration of a wait that is to end in `wait_ms`.
    #[inline]
    pub(crate) fn limit(&self, wait_ms: Option<u64>) -> Option<u64> {
        self.rest.limit(wait_ms)
    }

    /// A wait that was to end in `wait_ms` is over: returns freed memory if nothing happened and it is time to. Not to be called with the
    /// interpreter held, unless `wait_ms` is 0.
    #[inline]
    pub(crate) fn waited(&mut self, wait_ms: Option<u64>, is_quiet: bool) {
        if self.rest.waited(wait_ms, is_quiet) {
            self.give_back();
        }
    }

    /// A foreign loop is about to wait for at most `wait_ms`. Returns how long it may.
    pub(crate) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        self.wait = Some((Instant::now(), wait_ms));
        self.limit(wait_ms)
    }

    /// A foreign loop has waited. Returns true if [`Memory::give_back`] is to be called. The loop may have been busy all the time, which is
    /// not known here.
    pub(crate) fn wait_ends(&mut self) -> bool {
        let Some((began, wait_ms)) = self.wait.take() else {
            return false;
        };
        let limit_ms = self.limit(wait_ms).unwrap_or(u64::MAX);
        let is_quiet = began.elapsed() >= Duration::from_millis(limit_ms);
        self.rest.waited(wait_ms, is_quiet)
    }

    /// Returns freed memory to the system if there is enough of it. Not to be called with the interpreter held.
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
            // The rest cannot be returned: it is no reason for another attempt.
            self.floor_bytes = unused;
            pause_min = PAUSE_MIN;
        }
        self.floor_bytes = self.floor_bytes.min(unused);
        self.rest
            .resume_after((began.elapsed() * TIME_PARTS).max(pause_min));
    }
}

/// Anonymous resident bytes that the allocator does not count as used; more may be counted than are resident. None if the kernel does not
/// report them.
fn unused_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let resident_kib: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let used = i64::try_from(allocator::used_bytes()).ok()?;
    Some(resident_kib * 1024 - used)
}
