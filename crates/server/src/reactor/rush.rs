//! A rush of short connections, such as those of clients that connect anew for each request.
//!
//! Spreading them gains nothing. They end soon, and waking another worker for each costs more than serving it (bench: churn). A worker with
//! short connections may therefore have more connections than its siblings, in proportion to their number.

/// A connection that lasts less than this is short.
const SHORT_MS: u64 = 100;
/// How long ended connections are counted before the count is used.
const WINDOW_MS: u64 = 100;
/// For this many short connections in a window, a worker may have one more than its siblings. If the next ones stay open, the worker keeps
/// that many more. A few dozen reconnecting clients cause none.
const SHARE: u32 = 8;

/// Short connections of one worker.
#[derive(Default)]
pub(super) struct Rush {
    /// When each connection was accepted, by key.
    accepted_ms: Vec<u64>,
    began_ms: u64,
    /// Short connections that ended in the current window, and in the previous one.
    ended: u32,
    ended_before: u32,
    /// How many more connections than its siblings the worker may have now.
    credit: u32,
}

impl Rush {
    /// Counts a new connection.
    pub(super) fn opened(&mut self, key: usize, now_ms: u64) {
        if self.accepted_ms.len() <= key {
            self.accepted_ms.resize(key + 1, 0);
        }
        if let Some(accepted_ms) = self.accepted_ms.get_mut(key) {
            *accepted_ms = now_ms;
        }
    }

    /// Counts a connection that would have been left to another worker.
    pub(super) fn exceed(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }

    /// Counts a closed connection.
    pub(super) fn closed(&mut self, key: usize, now_ms: u64) {
        let accepted_ms = self.accepted_ms.get(key).copied().unwrap_or_default();
        if now_ms.saturating_sub(accepted_ms) > SHORT_MS {
            return;
        }
        if now_ms >= self.began_ms + WINDOW_MS {
            self.ended_before = if self.is_recent(now_ms) {
                self.ended
            } else {
                0
            };
            (self.began_ms, self.ended) = (now_ms, 0);
        }
        self.ended = self.ended.saturating_add(1);
        // Two for each, so that credit is left although each is followed by another one.
        let most = self.ended.max(self.ended_before) / SHARE;
        self.credit = (self.credit + 2).min(most);
    }

    /// Whether the next connection is likely to be short too.
    pub(super) fn is_on(&self, now_ms: u64) -> bool {
        self.credit > 0 && self.is_recent(now_ms)
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms < self.began_ms + 2 * WINDOW_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_MS: u64 = 1_000_000;

    /// The state after `count` consecutive short connections.
    fn after_short_ones(count: u32) -> Rush {
        let mut rush = Rush::default();
        for _ in 0..count {
            rush.opened(0, BEGAN_MS);
            rush.closed(0, BEGAN_MS);
        }
        rush
    }

    fn surplus_now(rush: &mut Rush, now_ms: u64) -> u32 {
        let gone = (0..).take_while(|_| {
            let is_on = rush.is_on(now_ms);
            rush.exceed();
            is_on
        });
        gone.count() as u32
    }

    #[test]
    fn the_more_short_connections_the_more_may_follow() {
        for (count, most) in [(0, 0), (7, 0), (8, 1), (80, 10), (8000, 1000)] {
            assert_eq!(surplus_now(&mut after_short_ones(count), BEGAN_MS), most);
        }
    }

    #[test]
    fn connections_that_stayed_for_a_while_do_not_count() {
        let mut rush = Rush::default();
        (0..100).for_each(|key| rush.opened(key, BEGAN_MS));
        (0..100).for_each(|key| rush.closed(key, BEGAN_MS + SHORT_MS + 1));
        assert!(!rush.is_on(BEGAN_MS + SHORT_MS + 1));
    }

    #[test]
    fn a_rush_ends_with_time() {
        let mut rush = after_short_ones(800);
        let late_ms = BEGAN_MS + 2 * WINDOW_MS;
        assert!(rush.is_on(late_ms - 1));
        assert!(!rush.is_on(late_ms));
        // Connections of long ago do not count again.
        rush.opened(0, late_ms);
        rush.closed(0, late_ms);
        assert!(!rush.is_on(late_ms));
    }

    #[test]
    fn the_window_before_counts_while_the_next_begins() {
        let mut rush = after_short_ones(800);
        let next_ms = BEGAN_MS + WINDOW_MS;
        assert_eq!(surplus_now(&mut rush, next_ms), 100);
        for _ in 0..50 {
            rush.opened(0, next_ms);
            rush.closed(0, next_ms);
        }
        assert_eq!(surplus_now(&mut rush, next_ms), 100);
    }
}
