//! Whose content may be sent, of those that are held until they are complete: to call the application, or for a handler that takes it whole.
//!
//! Beyond the windows of their streams, they have one content of the greatest length and [`CALLS_BYTES_MAX`] together. A window is given if
//! all of them can still become complete, one after the other (the banker's algorithm): each has what those before it release. So a
//! client that is slow has what it has sent, and keeps nothing else from the others, and there is always one that may send.

use wire::h2::frame;

use super::H2;
use super::stream::Stream;
use crate::app::App;
use crate::context::Context;
use crate::limits::CALLS_BYTES_MAX;
use crate::link::Turn;

/// A content that is held until it is complete, in bytes beyond the window of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    /// What has arrived, or may be sent.
    given: u64,
    /// What else it needs.
    rest: u64,
}

impl Claim {
    /// That of a stream, if its content is held until it is complete.
    fn of(stream: &Stream) -> Option<Claim> {
        let inbound = stream.inbound.as_ref().filter(|it| it.is_collected())?;
        let to_come = match inbound.is_complete {
            true => 0,
            false => stream.owed_bytes.unwrap_or(inbound.allowed_bytes()),
        };
        let window = &stream.receive_window;
        let promised = window.promised().min(to_come);
        let held = inbound.waiting_bytes() as u64;
        Some(Claim {
            given: (held + promised).saturating_sub(window.size()),
            rest: to_come - promised,
        })
    }

    fn with(self, bytes: u64) -> Claim {
        let bytes = bytes.min(self.rest);
        Claim {
            given: self.given + bytes,
            rest: self.rest - bytes,
        }
    }
}

/// Whether there is room for what all have, and all can become complete, one after the other.
fn is_safe(claims: &mut [Claim], bytes_max: u64) -> bool {
    claims.sort_unstable_by_key(|claim| claim.rest);
    let given: u64 = claims.iter().map(|claim| claim.given).sum();
    let Some(mut free) = bytes_max.checked_sub(given) else {
        return false;
    };
    claims.iter().all(|claim| {
        let fits = claim.rest <= free;
        free += claim.given;
        fits
    })
}

/// Whether one of these may be given so many bytes more, if all can become complete before.
fn is_safe_with(claims: &mut [Claim], at: usize, bytes: u64, bytes_max: u64) -> bool {
    let Some(claim) = claims.get_mut(at) else {
        return true;
    };
    let rest = claim.rest;
    *claim = claim.with(bytes);
    let bytes = rest - claim.rest;
    let given: u64 = claims.iter().map(|claim| claim.given).sum();
    // It can become complete before the others.
    let is_first = (given - bytes).saturating_add(rest) <= bytes_max;
    is_first || is_safe(claims, bytes_max)
}

impl H2 {
    /// Content was added to what is held until it is complete.
    pub(super) fn give_window_of_call<A: App>(
        &mut self,
        turn: &Turn<'_, A>,
        index: usize,
        bytes: u32,
    ) {
        let may_send = self.may_send(index, bytes, turn.context);
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        if may_send {
            stream.receive_window.stop_withholding();
            if let Some(inbound) = &mut stream.inbound {
                inbound.withhold(false, turn.context);
            }
            self.give_stream_window(index, bytes, turn.context);
            return;
        }
        self.has_withheld = true;
        stream.receive_window.withhold(bytes);
        let is_closed = !stream.receive_window.is_open();
        if let Some(inbound) = &mut stream.inbound {
            inbound.withhold(is_closed, turn.context);
        }
    }

    /// Content that was held is gone, or more may be held: those that wait may send, the shortest rest first.
    pub(crate) fn give_withheld_windows<A: App>(&mut self, turn: &Turn<'_, A>) {
        while self.has_withheld {
            let Some(index) = self.next_withheld() else {
                self.has_withheld = false;
                return;
            };
            if !self.may_send(index, 0, turn.context) {
                return;
            }
            let Some(stream) = self.streams.get_mut(index) else {
                return;
            };
            let Some(increment) = stream.receive_window.give() else {
                return;
            };
            frame::push_window_update(&mut self.frames, stream.id, increment);
            if let Some(inbound) = &mut stream.inbound {
                inbound.withhold(false, turn.context);
            }
        }
    }

    fn next_withheld(&self) -> Option<usize> {
        let rest = |(index, stream): (usize, &Stream)| {
            let is_waiting = stream.receive_window.withheld() > 0 && stream.state.takes_content();
            Some((Claim::of(stream).filter(|_| is_waiting)?.rest, index))
        };
        let least = self.streams.iter().enumerate().filter_map(rest).min();
        least.map(|(_, index)| index)
    }

    /// Whether the window of a stream may be given for what it withholds and so many bytes more.
    fn may_send(&mut self, index: usize, bytes: u32, context: &Context) -> bool {
        let Some(stream) = self.streams.get(index) else {
            return true;
        };
        if Claim::of(stream).is_none() {
            return true;
        }
        if !stream.is_admitted(context) {
            return false;
        }
        let bytes = u64::from(bytes) + stream.receive_window.withheld();
        let (mut count, mut given, mut longest) = (0, 0, context.limits.body_bytes_max);
        for claim in self.streams.iter().filter_map(Claim::of) {
            count += 1;
            given += claim.given;
            // The limit of a route may be greater than the server's.
            longest = longest.max(claim.given.saturating_add(claim.rest));
        }
        let bytes_max = longest.saturating_add(CALLS_BYTES_MAX as u64);
        // What others have counted on stays, until they have gone.
        let counted_on = if count > 1 {
            self.collected_bytes_max
        } else {
            0
        };
        self.collected_bytes_max = bytes_max.max(counted_on);
        if given.saturating_add(bytes) <= CALLS_BYTES_MAX as u64 {
            return true;
        }
        let before = self.streams.iter().take(index);
        let at = before.filter_map(Claim::of).count();
        let mut claims: Vec<Claim> = self.streams.iter().filter_map(Claim::of).collect();
        is_safe_with(&mut claims, at, bytes, self.collected_bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const LONGEST: u64 = 1000;
    const BYTES_MAX: u64 = LONGEST + 100;
    const WINDOW: u64 = 64;

    fn given(claims: &[Claim]) -> u64 {
        claims.iter().map(|claim| claim.given).sum()
    }

    /// Gives a window, if that is safe.
    fn give(claims: &mut [Claim], at: usize, bytes: u64) -> bool {
        let may_send = is_safe_with(&mut claims.to_vec(), at, bytes, BYTES_MAX);
        if may_send && let Some(claim) = claims.get_mut(at) {
            *claim = claim.with(bytes);
        }
        may_send
    }

    /// All that are left send as much as they may, until all are complete.
    fn all_finish(mut claims: Vec<Claim>) -> bool {
        while !claims.is_empty() {
            let mut has_moved = false;
            for at in 0..claims.len() {
                has_moved |= claims[at].rest > 0 && give(&mut claims, at, WINDOW);
            }
            let before = claims.len();
            claims.retain(|claim| claim.rest > 0);
            if !has_moved && claims.len() == before {
                return false;
            }
        }
        true
    }

    proptest! {
        /// In whatever order they come, send and end.
        #[test]
        fn there_is_always_one_that_may_send(
            moves in vec((0..4_u8, 0..1000_usize, 1..=LONGEST), 1..200)
        ) {
            let mut claims: Vec<Claim> = Vec::new();
            for (what, which, bytes) in moves {
                let at = which % claims.len().max(1);
                match what {
                    0 => claims.push(Claim { given: 0, rest: bytes }),
                    1 if !claims.is_empty() => drop(claims.remove(at)),
                    _ => drop(give(&mut claims, at, bytes.min(WINDOW))),
                }
                prop_assert!(given(&claims) <= BYTES_MAX);
                prop_assert!(is_safe(&mut claims.clone(), BYTES_MAX));
            }
            prop_assert!(all_finish(claims));
        }

        /// What is free is enough for it, so nobody who is slow makes it wait.
        #[test]
        fn what_fits_is_given(rests in vec(1..=LONGEST, 1..40), bytes in 1..WINDOW) {
            let rests = rests.into_iter();
            let mut claims: Vec<Claim> = rests.map(|rest| Claim { given: 0, rest }).collect();
            for at in 0..claims.len() {
                give(&mut claims, at, bytes);
            }
            let rest = BYTES_MAX - given(&claims);
            claims.push(Claim { given: 0, rest });
            let last = claims.len() - 1;
            prop_assert!(give(&mut claims, last, WINDOW));
        }
    }

    #[test]
    fn two_that_need_more_than_there_is_are_not_both_begun() {
        let mut claims = vec![
            Claim {
                given: 0,
                rest: LONGEST
            };
            2
        ];
        assert!(give(&mut claims, 0, 500));
        assert!(give(&mut claims, 1, 100));
        assert!(!give(&mut claims, 1, 1));
        assert!(give(&mut claims, 0, 500));
        claims.remove(0);
        assert!(give(&mut claims, 0, 900));
        assert_eq!(
            claims,
            [Claim {
                given: LONGEST,
                rest: 0
            }]
        );
    }
}
