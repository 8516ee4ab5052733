//! What one connection may do before others have their turn.
//!
//! A share is counted in requests, bytes and time. Time is what matters, but reading the clock for each request would cost more than
//! parsing some of them: it is read after the 2nd, 4th, 8th and each further 16th request of a turn. So a turn of slow requests ends
//! after 10 ms and one request, and one in which they become slow after at most 15 more.

use net::Clock;

/// How long a turn may last.
pub(crate) const TURN_MS: u64 = 10;
/// Requests of one turn: a read brings at most some 3,600.
const REQUESTS_MAX: u32 = 1024;
/// Response bytes of one turn.
const BYTES_MAX: usize = 1 << 20;
/// The clock is read after as many requests at the latest.
const UNCLOCKED_MAX: u32 = 16;

/// What is left of a turn.
#[derive(Debug, Default)]
pub(crate) struct Share {
    began_ms: u64,
    requests: u32,
    bytes: usize,
    is_used: bool,
}

impl Share {
    /// A turn begins.
    #[inline]
    pub(crate) fn begin(&mut self, now_ms: u64) {
        *self = Share {
            began_ms: now_ms,
            ..Share::default()
        };
    }

    /// A request was begun. True when the turn is over, unless nothing waits behind the request.
    #[inline]
    pub(crate) fn count_request(&mut self, clock: &mut Clock) -> bool {
        self.requests += 1;
        let is_clocked =
            self.requests.is_power_of_two() || self.requests.is_multiple_of(UNCLOCKED_MAX);
        if self.requests > 1 && is_clocked {
            let is_late = clock.tick().saturating_sub(self.began_ms) >= TURN_MS;
            self.is_used |= is_late || self.requests >= REQUESTS_MAX;
        }
        self.is_used
    }

    /// Bytes were sent.
    #[inline]
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.is_used |= self.bytes >= BYTES_MAX;
    }

    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }
}
