//! Whether a peer that has ended its sending side is still there.
//!
//! A client that is gone and one that only sends no more look the same: all that arrives is a FIN. But the kernel of one that is gone resets
//! the connection when something is sent to it, and that of the other acknowledges it. So a peer that goes on acknowledging is there; one
//! that has nothing left to acknowledge, and was sent nothing for a while, is taken to be gone.

/// How long a peer is waited for. A response that is complete by then is sent whole in any case; and whoever waits for the end of a client
/// still learns of it within a second.
pub(crate) const DOUBT_MS: u64 = 500;

/// So many looks in a row may find that the peer owes an acknowledgement and gives none: half a minute of a bad network, or of a client on
/// a UNIX socket that does not read.
const OWED_LOOKS_MAX: u32 = 60;

/// What is known of a peer that sends no more.
pub(super) struct Departure {
    /// Bytes that the peer had acknowledged when it was last looked at.
    acknowledged: i64,
    /// Looks since it last acknowledged something.
    looks: u32,
    /// When to look next; never, once the peer has been found gone.
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

    /// Judges by what has been acknowledged by now. `is_owed` when something is still to be.
    /// True when the peer has just been found gone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_there_as_long_as_it_acknowledges_something() {
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
    fn a_peer_that_owes_an_acknowledgement_is_not_waited_for_without_end() {
        let mut departure = Departure::new(0, 0);
        let mut looks = 0;
        while !departure.check(0, true, departure.check_ms()) {
            looks += 1;
        }
        assert_eq!(looks + 1, OWED_LOOKS_MAX);
    }
}
