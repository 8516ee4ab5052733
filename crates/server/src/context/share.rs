//! What one connection may do before others have their turn.
//!
//! A share is limited by requests, bytes and time. Time matters most, but reading the clock for each request would cost more than parsing
//! some of them. It is read after the 2nd, 6th, 18th and each further 16th request of a turn. A turn of requests that take equally long
//! therefore ends after 10 to 30 ms (or two requests). If requests become slow, it ends after at most 15 more.

use net::Clock;

/// Maximum duration of a turn.
pub const TURN_MS: u64 = 10;
/// Maximum requests of one turn. One read yields at most about 3,600.
const REQUESTS_MAX: u32 = 1024;
/// Maximum response bytes of one turn.
const BYTES_MAX: usize = 1 << 20;
/// Requests before the clock is first read. The next interval is at most that many requests again.
const FIRST: u32 = 2;
const UNCLOCKED_MAX: u32 = 16;

/// What is left of a turn.
#[derive(Debug, Default)]
pub(crate) struct Share {
    began_ms: u64,
    /// Requests until the clock is read.
    unclocked: u32,
    /// Requests that will have started by then.
    requests: u32,
    bytes: usize,
}

impl Share {
    /// A turn starts.
    #[inline]
    pub(crate) fn begin(&mut self, now_ms: u64) {
        *self = Share {
            began_ms: now_ms,
            unclocked: FIRST,
            requests: FIRST,
            bytes: 0,
        };
    }

    /// A request was started. Returns true if the turn is over.
    #[inline]
    pub(crate) fn is_used_by_request(&mut self, clock: &mut Clock) -> bool {
        self.unclocked = self.unclocked.wrapping_sub(1);
        self.unclocked == 0 && self.is_used(clock)
    }

    /// Reads the clock. Returns true if the turn is over.
    #[inline(never)]
    pub(crate) fn is_used(&mut self, clock: &mut Clock) -> bool {
        self.unclocked = (self.requests * 2).min(UNCLOCKED_MAX);
        self.requests += self.unclocked;
        let is_late = clock.tick().saturating_sub(self.began_ms) >= TURN_MS;
        is_late || self.requests > REQUESTS_MAX || self.is_sent()
    }

    /// Ends the turn with the request that has just begun.
    #[cold]
    pub(crate) fn use_up(&mut self) {
        (self.unclocked, self.requests) = (1, REQUESTS_MAX);
    }

    /// Whether [`Share::use_up`] ended the turn, or its requests are too many.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.requests >= REQUESTS_MAX
    }

    /// When the turn ends.
    #[inline]
    pub(crate) fn ends_ms(&self) -> u64 {
        self.began_ms + TURN_MS
    }

    /// Whether the clock has not moved since the turn began.
    #[inline]
    pub(crate) fn has_taken_no_time(&self) -> bool {
        Clock::tick_ms() == self.began_ms
    }

    /// Whether the byte limit is reached.
    pub(crate) fn is_sent(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// Bytes that were sent.
    #[inline]
    pub(crate) fn sent_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes were sent.
    #[inline]
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Requests that start in a turn when each takes `each_ms` from number `from` on.
    fn requests(each_ms: u64, from: u64) -> u64 {
        let now_ms = Arc::new(AtomicU64::new(1000));
        let mut clock = Clock::manual(Arc::clone(&now_ms));
        let mut share = Share::default();
        share.begin(clock.now_ms());
        (1..)
            .find(|&count| {
                let took_ms = if count > from { each_ms } else { 0 };
                now_ms.fetch_add(took_ms, Ordering::Relaxed);
                share.is_used_by_request(&mut clock)
            })
            .unwrap_or(0)
    }

    #[test]
    fn a_turn_ends_by_time_soon_and_by_count_at_last() {
        assert_eq!(requests(5, 0), 2);
        assert_eq!(requests(3, 0), 6);
        assert_eq!(requests(1, 0), 18);
        assert_eq!(requests(5, 18), 34);
        assert!((1000..=1040).contains(&requests(0, 0)));
    }
}
