//! A rush of connections that end as soon as they have come, such as those of clients that connect anew for each request.
//!
//! They are no load to be spread: the next ones will have ended soon too, and to wake another worker for each costs more than to serve it
//! (bench: churn). So a worker that has seen such ones may have more connections than its siblings, but not more of them than have ended.

/// A connection that ends so soon after it was accepted is short.
const SHORT_MS: u64 = 100;
/// How long an end counts.
const LATELY_MS: u64 = 100;
/// How many ends are no rush yet: a few clients that come again must be spread.
const FEW: u32 = 8;
/// How many more count: as many connections more than its siblings a worker may have, should the next ones stay.
const MOST: u32 = 64;

/// What one worker knows of its short connections.
#[derive(Default)]
pub(super) struct Rush {
    /// When each connection was accepted, by its key.
    accepted_ms: Vec<u64>,
    /// Those that ended, less those that were accepted in their place.
    ended: u32,
    last_ms: u64,
}

impl Rush {
    /// Counts a connection in; `open` are there with it.
    pub(super) fn opened(&mut self, key: usize, open: usize, now_ms: u64) {
        if self.accepted_ms.len() <= key {
            self.accepted_ms.resize(key + 1, 0);
        }
        if let Some(accepted_ms) = self.accepted_ms.get_mut(key) {
            *accepted_ms = now_ms;
        }
        // One that is alone needs no reason to be here.
        self.ended = self.ended.saturating_sub(u32::from(open > 1));
    }

    /// Counts a connection out.
    pub(super) fn closed(&mut self, key: usize, now_ms: u64) {
        let accepted_ms = self.accepted_ms.get(key).copied().unwrap_or_default();
        if now_ms.saturating_sub(accepted_ms) > SHORT_MS {
            return;
        }
        if !self.is_recent(now_ms) {
            self.ended = 0;
        }
        self.ended = (self.ended + 1).min(FEW + MOST);
        self.last_ms = now_ms;
    }

    /// Whether the next connection is likely to be short too.
    pub(super) fn is_on(&self, now_ms: u64) -> bool {
        self.ended > FEW && self.is_recent(now_ms)
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.last_ms) <= LATELY_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_MS: u64 = 1_000_000;

    /// So many connections that came and ended, one after another.
    fn after_short_ones(count: usize) -> Rush {
        let mut rush = Rush::default();
        for _ in 0..count {
            rush.opened(0, 1, BEGAN_MS);
            rush.closed(0, BEGAN_MS);
        }
        rush
    }

    #[test]
    fn few_short_connections_are_no_rush() {
        assert!(!after_short_ones(0).is_on(BEGAN_MS));
        assert!(!after_short_ones(8).is_on(BEGAN_MS));
        assert!(after_short_ones(9).is_on(BEGAN_MS));
    }

    #[test]
    fn connections_that_stayed_for_a_while_are_none_either() {
        let mut rush = Rush::default();
        (0..100).for_each(|key| rush.opened(key, 1, BEGAN_MS));
        (0..100).for_each(|key| rush.closed(key, BEGAN_MS + SHORT_MS + 1));
        assert!(!rush.is_on(BEGAN_MS + SHORT_MS + 1));
    }

    #[test]
    fn a_rush_ends_with_time_and_with_connections_that_stay() {
        let rush = after_short_ones(1000);
        assert!(rush.is_on(BEGAN_MS + LATELY_MS));
        assert!(!rush.is_on(BEGAN_MS + LATELY_MS + 1));

        let mut rush = after_short_ones(1000);
        let stay = (2..1000).find(|open| {
            rush.opened(*open, *open, BEGAN_MS);
            !rush.is_on(BEGAN_MS)
        });
        assert_eq!(stay, Some(1 + MOST as usize));
    }

    #[test]
    fn what_ended_long_ago_does_not_come_back() {
        let mut rush = after_short_ones(1000);
        let later_ms = BEGAN_MS + 10 * LATELY_MS;
        rush.opened(0, 1, later_ms);
        rush.closed(0, later_ms);
        assert!(!rush.is_on(later_ms));
    }
}
