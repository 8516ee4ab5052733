//! The time, read once per event and stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// Monotonic milliseconds and wall-clock seconds as of the last reading.
///
/// It reads the kernel's coarse clocks, which take a few nanoseconds: their resolution of some milliseconds is far below every timeout.
#[derive(Clone, Debug)]
pub struct Clock {
    now_ms: u64,
    unix_s: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Kernel,
    /// Milliseconds, set by the owner.
    Manual(Arc<AtomicU64>),
}

impl Source {
    #[inline]
    fn now_ms(&self) -> u64 {
        match self {
            Source::Kernel => {
                let monotonic = clock_gettime(ClockId::MonotonicCoarse);
                monotonic.tv_sec as u64 * 1000 + monotonic.tv_nsec as u64 / 1_000_000
            }
            Source::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }

    fn unix_s(&self) -> u64 {
        match self {
            Source::Kernel => clock_gettime(ClockId::RealtimeCoarse).tv_sec.max(0) as u64,
            Source::Manual(_) => self.now_ms() / 1000,
        }
    }
}

impl Clock {
    /// A clock that shows the kernel's time.
    pub fn new() -> Clock {
        Clock::of(Source::Kernel)
    }

    /// A clock that shows `now_ms`, also as the time since 1970: for tests that control the time.
    pub fn manual(now_ms: Arc<AtomicU64>) -> Clock {
        Clock::of(Source::Manual(now_ms))
    }

    fn of(source: Source) -> Clock {
        Clock {
            now_ms: source.now_ms(),
            unix_s: source.unix_s(),
            source,
        }
    }

    /// Reads both clocks. Returns true if the wall-clock second changed (a rendered date is stale then).
    pub fn refresh(&mut self) -> bool {
        self.tick();
        let unix_s = self.source.unix_s();
        let changed = unix_s != self.unix_s;
        self.unix_s = unix_s;
        changed
    }

    /// Reads the monotonic clock. Returns the new value of [`Clock::now_ms`].
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.now_ms = self.source.now_ms();
        self.now_ms
    }

    /// What [`Clock::now_ms`] of a kernel clock would be after a reading now.
    #[inline]
    pub fn tick_ms() -> u64 {
        Source::Kernel.now_ms()
    }

    /// Milliseconds since an unknown start; never goes back.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Seconds since 1970-01-01 UTC.
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Nanoseconds of the precise monotonic clock, for measuring.
pub fn precise_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
