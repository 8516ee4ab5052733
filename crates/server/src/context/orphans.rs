//! Handlers that outlive their clients: the time to start their responses still ends.
//!
//! A connection reminds of the deadlines of its exchanges. When one ends, those of the handlers that go on are kept here, so that clients
//! cannot accumulate handlers by leaving.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::ExchangeId;

/// So many are kept at least before those that have ended are left out.
const KEPT_MIN: usize = 64;

/// A handler whose client has left. In the order of the deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Orphan {
    pub(crate) deadline_ms: u64,
    pub(crate) id: ExchangeId,
    /// The time that it had.
    pub(crate) after_ms: u64,
}

/// Those of one worker.
#[derive(Default)]
pub(crate) struct Orphans {
    kept: BinaryHeap<Reverse<Orphan>>,
    /// At this number, those that have ended are left out.
    full_at: usize,
}

impl Orphans {
    /// Keeps one. `owes_response` says of the others whether they are still needed.
    pub(crate) fn add(&mut self, orphan: Orphan, owes_response: impl Fn(ExchangeId) -> bool) {
        if self.kept.len() >= self.full_at.max(KEPT_MIN) {
            self.kept.retain(|Reverse(it)| owes_response(it.id));
            self.full_at = 2 * self.kept.len();
        }
        self.kept.push(Reverse(orphan));
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How long until the first deadline.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        let Reverse(first) = self.kept.peek()?;
        Some(first.deadline_ms.saturating_sub(now_ms))
    }

    /// Takes one whose time is over.
    pub(crate) fn take_late(&mut self, now_ms: u64) -> Option<Orphan> {
        if self.wait_ms(now_ms)? > 0 {
            return None;
        }
        self.kept.pop().map(|Reverse(orphan)| orphan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(sequence: u64, deadline_ms: u64) -> Orphan {
        Orphan {
            deadline_ms,
            id: ExchangeId {
                connection: 0,
                sequence,
            },
            after_ms: 1,
        }
    }

    #[test]
    fn they_are_taken_in_the_order_of_their_deadlines() {
        let mut orphans = Orphans::default();
        assert_eq!(orphans.wait_ms(0), None);
        for (sequence, deadline_ms) in [(0, 30), (1, 10), (2, 20)] {
            orphans.add(orphan(sequence, deadline_ms), |_| true);
        }
        assert_eq!(orphans.wait_ms(4), Some(6));
        assert_eq!(orphans.take_late(9), None);
        let late: Vec<u64> = std::iter::from_fn(|| orphans.take_late(20))
            .map(|it| it.id.sequence)
            .collect();
        assert_eq!(late, [1, 2]);
        assert_eq!(orphans.wait_ms(50), Some(0));
    }

    #[test]
    fn those_that_have_ended_are_left_out() {
        let mut orphans = Orphans::default();
        for sequence in 0..100_000 {
            orphans.add(orphan(sequence, 1000), |id| id.sequence + 100 > sequence);
            assert!(orphans.kept.len() <= 200, "{}", orphans.kept.len());
        }
        // Those that run are all kept.
        let mut orphans = Orphans::default();
        (0..1000).for_each(|sequence| orphans.add(orphan(sequence, 1000), |_| true));
        assert_eq!(orphans.kept.len(), 1000);
    }
}
