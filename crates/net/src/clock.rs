//! The time, read once per event and then only looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// Monotonic milliseconds and wall-clock seconds as of the last reading.
///
/// The kernel's coarse clocks are read (no counter access, a few nanoseconds): their grain of some milliseconds is far below every timeout.
#[derive(Clone, Debug)]
pub struct Clock {
    now_ms: u64,
    unix_s: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Kernel,
    /// Milliseconds, set by somebody else.
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

    /// A clock that shows what `now_ms` holds, also as the time since 1970: for tests that decide what time it is.
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

    /// Reads both clocks. True when the wall-clock second changed (then a rendered date is stale).
    pub fn refresh(&mut self) -> bool {
        self.tick();
        let unix_s = self.source.unix_s();
        let changed = unix_s != self.unix_s;
        self.unix_s = unix_s;
        changed
    }

    /// Reads the monotonic clock. Gives what [`Clock::now_ms`] shows from now on.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.now_ms = self.source.now_ms();
        self.now_ms
    }

    /// What [`Clock::now_ms`] of a clock of the kernel's would be after a reading now.
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
