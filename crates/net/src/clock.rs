//! The time, read once per pass and then only looked at.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic milliseconds and wall-clock seconds as of the last [`Clock::refresh`].
///
/// The coarse clocks are read (no counter access, a few nanoseconds): their grain of some milliseconds is far below every timeout.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now_ms: u64,
    unix_s: u64,
}

impl Clock {
    /// A clock that shows the present.
    pub fn new() -> Clock {
        let mut clock = Clock {
            now_ms: 0,
            unix_s: 0,
        };
        clock.refresh();
        clock
    }

    /// Reads both clocks. True when the wall-clock second changed (then a rendered date is stale).
    pub fn refresh(&mut self) -> bool {
        self.now_ms = Clock::tick_ms();
        let unix_s = clock_gettime(ClockId::RealtimeCoarse).tv_sec.max(0) as u64;
        let changed = unix_s != self.unix_s;
        self.unix_s = unix_s;
        changed
    }

    /// What `now_ms` would be after a refresh now.
    #[inline]
    pub fn tick_ms() -> u64 {
        let monotonic = clock_gettime(ClockId::MonotonicCoarse);
        monotonic.tv_sec as u64 * 1000 + monotonic.tv_nsec as u64 / 1_000_000
    }

    /// Milliseconds since an unknown start; never goes back.
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
