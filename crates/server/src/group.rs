//! Answers that wait for each other, to leave one after the other.
//!
//! The application's code and the kernel's way of sending are both larger than what the processor keeps at hand: taking turns, each pushes
//! the other out. A few calls in a row and then as many sends cost up to a tenth less (bench: keep-alive, asgi, wsgi). For that an answer
//! waits until a tick of the clock is over, and for the call that is then under way. Where calls take long, that is much for nothing: so
//! after such a wait none waits for some time.

use net::Clock;

/// More would gain little, and the first of them waits for all.
pub(crate) const ANSWERS_MAX: usize = 8;
/// What a connection has to send beyond this leaves at once: it gains nothing, and is not worth copying.
const WAITING_BYTES_MAX: usize = 2048;

/// An answer that has waited so long has waited for a slow call, and so would others.
const SLOW_MS: u64 = 20;
/// How long none waits then.
const REST_MS: u64 = 1000;

/// Answers that are written and have not left.
#[derive(Default)]
pub(crate) struct Group {
    is_open: bool,
    bytes: Vec<u8>,
    /// The connections they belong to, each with where its bytes end.
    ends: Vec<(u32, usize)>,
    began_ms: u64,
    rests_until_ms: u64,
}

impl Group {
    /// From now on answers may wait.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// Takes what a connection has to send, if that may wait; then `out` is empty.
    #[inline]
    pub(crate) fn takes(&mut self, connection: u32, out: &mut Vec<u8>) -> bool {
        if !self.is_open || out.len() > WAITING_BYTES_MAX {
            return false;
        }
        if self.ends.is_empty() {
            self.began_ms = Clock::tick_ms();
            if self.began_ms < self.rests_until_ms {
                return false;
            }
        }
        self.bytes.append(out);
        self.ends.push((connection, self.bytes.len()));
        true
    }

    /// Whether it has to leave now.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let now_ms = Clock::tick_ms();
        if now_ms.saturating_sub(self.began_ms) >= SLOW_MS {
            self.rests_until_ms = now_ms + REST_MS;
        }
        self.ends.len() >= ANSWERS_MAX || now_ms != self.began_ms
    }

    /// It leaves: until it is opened again, nothing waits. Gives whose turn is the `index`-th, and puts what it sends into `out`.
    pub(crate) fn leave(&mut self, index: usize, out: &mut Vec<u8>) -> Option<u32> {
        self.is_open = false;
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before)?.1,
            None => 0,
        };
        let Some((connection, end)) = self.ends.get(index).copied() else {
            self.ends.clear();
            self.bytes.clear();
            return None;
        };
        out.extend_from_slice(self.bytes.get(start..end).unwrap_or_default());
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(group: &mut Group) -> Vec<(u32, Vec<u8>)> {
        let leave = |index| {
            let mut out = Vec::new();
            let connection = group.leave(index, &mut out)?;
            Some((connection, out))
        };
        (0..).map_while(leave).collect()
    }

    #[test]
    fn a_full_group_is_due_and_leaves_in_order() {
        let mut group = Group::default();
        group.open();
        for connection in 0..ANSWERS_MAX as u32 {
            let mut out = vec![b'x'; connection as usize + 1];
            assert!(group.takes(connection, &mut out) && out.is_empty());
        }
        assert!(group.is_due());
        let expected = (0..8u32).map(|it| (it, vec![b'x'; it as usize + 1]));
        assert!(left(&mut group).into_iter().eq(expected));
        assert!(!group.is_due());
    }

    #[test]
    fn behind_a_slow_call_none_waits_for_some_time() {
        let mut group = Group::default();
        group.open();
        assert!(group.takes(1, &mut b"first".to_vec()));
        let taken_ms = Clock::tick_ms();
        while Clock::tick_ms() < taken_ms + SLOW_MS {
            std::hint::spin_loop();
        }
        assert!(group.is_due());
        assert_eq!(left(&mut group).len(), 1);
        group.open();
        assert!(!group.takes(2, &mut b"second".to_vec()));
        group.rests_until_ms = Clock::tick_ms();
        assert!(group.takes(3, &mut b"third".to_vec()));
    }

    #[test]
    fn the_first_answer_waits_no_longer_than_to_the_next_tick() {
        let mut group = Group::default();
        group.open();
        assert!(group.takes(7, &mut b"answer".to_vec()));
        let taken_ms = Clock::tick_ms();
        while Clock::tick_ms() == taken_ms {
            std::hint::spin_loop();
        }
        assert!(group.is_due());
        assert_eq!(left(&mut group), [(7, b"answer".to_vec())]);
    }

    #[test]
    fn long_answers_and_those_outside_of_a_pass_do_not_wait() {
        let mut group = Group::default();
        assert!(!group.takes(1, &mut b"outside".to_vec()));
        group.open();
        let mut long = vec![b'x'; WAITING_BYTES_MAX + 1];
        assert!(!group.takes(1, &mut long) && long.len() == WAITING_BYTES_MAX + 1);
        assert!(left(&mut group).is_empty());
        assert!(!group.takes(1, &mut b"closed".to_vec()));
    }
}
