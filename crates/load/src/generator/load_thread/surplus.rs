//! After the load: reads what still arrives, because a server may have sent more responses than there were requests.
//!
//! If a response is sent twice, or before its request, every later one on its connection is taken for the response to another request. That
//! shows only when a response arrives that nobody waits for. Nothing is sent or counted any more; such a response invalidates the earlier
//! ones of its connection.

use std::io;

use net::{Events, precise_ns};

use super::LoadThread;

/// How long nothing must have arrived, when every request has its response.
const QUIET_NS: u64 = 50_000_000;
/// How long to wait for that.
const SURPLUS_NS_MAX: u64 = 250_000_000;

impl LoadThread {
    /// Waits for responses that are on their way, and for those that nobody asked for.
    ///
    /// # Errors
    /// If the poller fails.
    pub(super) fn await_surplus(&mut self, events: &mut Events) -> io::Result<()> {
        self.is_over = true;
        self.tally.end();
        // No connection is opened, and no request becomes due.
        self.target = 0;
        self.due_ns = u64::MAX;
        let mut quiet_since_ns = precise_ns();
        let end_ns = quiet_since_ns.saturating_add(SURPLUS_NS_MAX);
        while !self.common.board.is_stopped() {
            self.now_ns = precise_ns();
            let until_ns = match self.under_way {
                0 => end_ns.min(quiet_since_ns.saturating_add(QUIET_NS)),
                _ => end_ns,
            };
            if self.now_ns >= until_ns {
                break;
            }
            let wait_ms = match self.unread.is_empty() {
                true => (until_ns - self.now_ns).div_ceil(1_000_000),
                false => 0,
            };
            self.poller.wait(events, Some(wait_ms))?;
            if events.get(0).is_some() || !self.unread.is_empty() {
                quiet_since_ns = precise_ns();
            }
            self.serve_all(events);
        }
        Ok(())
    }
}
