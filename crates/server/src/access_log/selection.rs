//! Which requests have a line: a random share of them, or those that failed or were slow.

use std::cell::Cell;

/// From this status on, a response is an error: the client's, or the server's.
const ERROR_MIN: u16 = 400;
/// One in as many parts is the unit of a share.
const PARTS: f64 = 4_294_967_296.0;

/// Which requests have a line in the access log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Selection {
    /// The share of requests that are considered at all, from 0 to 1.
    pub share: f64,
    /// Those whose status is an error.
    pub errors: bool,
    /// Those that took at least so many milliseconds.
    pub slow_ms: Option<u64>,
}

impl Default for Selection {
    /// All requests.
    fn default() -> Selection {
        Selection {
            share: 1.0,
            errors: false,
            slow_ms: None,
        }
    }
}

/// A selection with what it needs to draw requests.
pub(super) struct Draws {
    selection: Selection,
    /// A draw below this is in the share.
    parts: u64,
    /// Of xorshift64 (Marsaglia, 2003); never 0. A pattern in the requests cannot coincide with it, as it could with every hundredth.
    state: Cell<u64>,
}

impl Draws {
    /// `seed` differs between workers.
    pub(super) fn new(selection: Selection, seed: u64) -> Draws {
        Draws {
            selection,
            parts: (selection.share * PARTS) as u64,
            state: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    /// Draws whether the next request is considered.
    pub(super) fn is_drawn(&self) -> bool {
        if self.selection.share >= 1.0 {
            return true;
        }
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        (state >> 32) < self.parts
    }

    /// Whether a request with this outcome has a line.
    pub(super) fn selects(&self, status: u16, took_ms: u64) -> bool {
        let Selection {
            errors, slow_ms, ..
        } = self.selection;
        let is_all = !errors && slow_ms.is_none();
        is_all
            || (errors && status >= ERROR_MIN)
            || slow_ms.is_some_and(|slow_ms| took_ms >= slow_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_drawn() {
        for (share, range) in [
            (0.0, 0..=0),
            (0.01, 800..=1200),
            (0.5, 49_000..=51_000),
            (1.0, 100_000..=100_000),
        ] {
            for seed in [0, 1, 4711] {
                let selection = Selection {
                    share,
                    ..Selection::default()
                };
                let draws = Draws::new(selection, seed);
                let drawn = (0..100_000).filter(|_| draws.is_drawn()).count();
                assert!(range.contains(&drawn), "{share}: {drawn}");
            }
        }
    }

    #[test]
    fn errors_and_slow_requests_are_selected() {
        let selects = |errors, slow_ms| {
            let selection = Selection {
                errors,
                slow_ms,
                ..Selection::default()
            };
            let draws = Draws::new(selection, 1);
            [(200, 9), (399, 10), (400, 0), (499, 0), (503, 10)]
                .map(|(status, took_ms)| draws.selects(status, took_ms))
        };
        assert_eq!(selects(false, None), [true; 5]);
        assert_eq!(selects(true, None), [false, false, true, true, true]);
        assert_eq!(selects(false, Some(10)), [false, true, false, false, true]);
        assert_eq!(selects(true, Some(10)), [false, true, true, true, true]);
    }
}
