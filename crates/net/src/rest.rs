//! When a reactor is idle: the time for work that takes some milliseconds and can be postponed.
//!
//! Does not know that work. A reactor that has had no event for a while rests. One that is hardly ever idle for that long rests in ever
//! shorter waits, so that light but steady work does not postpone it for good.

use std::time::Duration;

use crate::clock::Clock;

/// How long nothing must happen, for the first waits since the last rest.
const QUIET_MS: u64 = 128;
/// Number of waits that halve it ...
const WAITS_PER_HALF: u32 = 1024;
/// ... and how often: down to 32 ms. A busy reactor has no wait of that length.
const HALVES_MAX: u32 = 2;

/// Statistics of a reactor's waits.
#[derive(Debug, Default)]
pub struct Rest {
    /// Waits ended by an event since the last rest. Without one there is no reason to rest.
    waits: u32,
    quiet_ms: u64,
    not_before_ms: u64,
}

impl Rest {
    /// The maximum duration of a wait that is to end in `wait_ms` (`None`: when something happens).
    #[inline]
    pub fn limit(&self, wait_ms: Option<u64>) -> Option<u64> {
        if self.waits == 0 {
            return wait_ms;
        }
        Some(wait_ms.map_or(self.quiet_ms, |ms| ms.min(self.quiet_ms)))
    }

    /// A wait that was to end in `wait_ms` is over; `is_quiet` if nothing happened in it. Returns true if the reactor rests: it then calls
    /// [`Rest::resume_after`].
    #[inline]
    pub fn waited(&mut self, wait_ms: Option<u64>, is_quiet: bool) -> bool {
        if is_quiet && self.limit(wait_ms) != wait_ms {
            return self.is_due(Clock::tick_ms());
        }
        self.waits = self.waits.saturating_add(1);
        self.quiet_ms = QUIET_MS >> (self.waits / WAITS_PER_HALF).min(HALVES_MAX);
        false
    }

    /// Sets the minimum time until the next rest.
    pub fn resume_after(&mut self, pause: Duration) {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.not_before_ms = Clock::tick_ms().saturating_add(pause_ms);
    }

    #[cold]
    fn is_due(&mut self, now_ms: u64) -> bool {
        let left_ms = self.not_before_ms.saturating_sub(now_ms);
        if left_ms > 0 {
            self.quiet_ms = left_ms;
            return false;
        }
        self.waits = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reactor_rests_once_after_something_happened() {
        let mut rest = Rest::default();
        assert_eq!(rest.limit(None), None);
        assert!(!rest.waited(None, false));
        assert_eq!(rest.limit(None), Some(QUIET_MS));
        assert_eq!(rest.limit(Some(5000)), Some(QUIET_MS));
        assert!(rest.waited(None, true));
        assert_eq!(rest.limit(None), None);
        assert_eq!(rest.limit(Some(5000)), Some(5000));
    }

    #[test]
    fn a_wait_that_ends_by_itself_is_not_a_rest() {
        let mut rest = Rest::default();
        rest.waited(None, false);
        for wait_ms in [0, 10, QUIET_MS] {
            assert_eq!(rest.limit(Some(wait_ms)), Some(wait_ms));
            assert!(!rest.waited(Some(wait_ms), true));
        }
    }

    #[test]
    fn steady_work_makes_shorter_waits_a_rest() {
        let mut rest = Rest::default();
        let mut limits: Vec<u64> = (0..10 * WAITS_PER_HALF)
            .filter_map(|_| {
                rest.waited(None, false);
                rest.limit(None)
            })
            .collect();
        limits.dedup();
        assert_eq!(limits, [128, 64, 32]);
        assert!(rest.waited(None, true));
        rest.waited(None, false);
        assert_eq!(rest.limit(None), Some(QUIET_MS));
    }

    #[test]
    fn a_rest_that_is_too_early_is_postponed() {
        let mut rest = Rest::default();
        rest.resume_after(Duration::from_secs(60));
        rest.waited(None, false);
        assert!(!rest.waited(None, true));
        let limit_ms = rest.limit(None).unwrap();
        assert!((50_000..=60_000).contains(&limit_ms), "{limit_ms}");
        rest.waited(None, false);
        assert_eq!(rest.limit(None), Some(QUIET_MS));
        assert!(!rest.is_due(rest.not_before_ms - 1));
        assert_eq!(rest.limit(None), Some(1));
        assert!(rest.is_due(rest.not_before_ms));
    }
}
