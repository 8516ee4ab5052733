//! Whether a peer that has ended its sending side is still present.
//!
//! A client that is gone looks like one that only sends no more: both send a FIN. When something is sent to them, the kernel of the first
//! resets the connection, and the kernel of the second acknowledges it. A peer that keeps acknowledging is therefore present. One that has
//! nothing to acknowledge, and was sent nothing for a while, is assumed to be gone.

use super::Link;

/// Time before a silent peer counts as gone. A response that is complete by then is sent whole in any case, and an application that waits
/// for its client's end is notified within a second.
pub(crate) const DOUBT_MS: u64 = 500;

/// Maximum consecutive checks in which the peer owes an acknowledgement: half a minute of a bad network, or of a client on a UNIX socket
/// that does not read.
const OWED_LOOKS_MAX: u32 = 60;

/// State of a peer that sends no more.
pub(super) struct Departure {
    /// Bytes that the peer had acknowledged at the last check.
    acknowledged: i64,
    /// Checks since it last acknowledged something.
    looks: u32,
    /// Time of the next check; never, once the peer is gone.
    check_ms: u64,
}

impl Departure {
    pub(super) fn new(acknowledged: i64, now_ms: u64) -> Departure {
        Departure {
            acknowledged,
            looks: 0,
            check_ms: now_ms + DOUBT_MS,
        }
    }

    pub(super) fn check_ms(&self) -> u64 {
        self.check_ms
    }

    pub(super) fn is_complete(&self) -> bool {
        self.check_ms == u64::MAX
    }

    /// Evaluates `acknowledged`. `is_owed` if an acknowledgement is outstanding. Returns true when the peer is first detected to be gone.
    pub(super) fn check(&mut self, acknowledged: i64, is_owed: bool, now_ms: u64) -> bool {
        if self.is_complete() || now_ms < self.check_ms {
            return false;
        }
        self.looks = match acknowledged > self.acknowledged {
            true => 0,
            false => self.looks + 1,
        };
        let is_there = self.looks == 0 || is_owed && self.looks < OWED_LOOKS_MAX;
        self.acknowledged = acknowledged;
        self.check_ms = match is_there {
            true => now_ms + DOUBT_MS,
            false => u64::MAX,
        };
        !is_there
    }
}

impl Link {
    /// When to check whether a peer that sends no more is still present; never, if that is known or not in doubt.
    pub(crate) fn departure_check_ms(&self) -> u64 {
        self.departure
            .as_ref()
            .map_or(u64::MAX, |departure| departure.check_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_present_while_it_acknowledges_something() {
        let mut departure = Departure::new(10, 1000);
        assert_eq!(departure.check_ms(), 1500);
        assert!(!departure.check(11, false, 1500));
        assert!(!departure.check(11, true, 2000));
        assert_eq!(departure.check_ms(), 2500);
        assert!(!departure.is_complete());
        assert!(departure.check(11, false, 2500));
        assert!(departure.is_complete());
        assert!(!departure.check(12, false, 9000));
    }

    #[test]
    fn a_peer_that_owes_an_acknowledgement_is_given_up_eventually() {
        let mut departure = Departure::new(0, 0);
        let mut looks = 0;
        while !departure.check(0, true, departure.check_ms()) {
            looks += 1;
        }
        assert_eq!(looks + 1, OWED_LOOKS_MAX);
    }
}
