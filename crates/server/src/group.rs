//! Answers that wait for each other, to leave one after the other.
//!
//! The application's code and the kernel's way of sending are both larger than what the processor keeps at hand: taking turns, each pushes
//! the other out. A few calls in a row and then as many sends cost up to a tenth less (bench: keep-alive, asgi, wsgi). For that an answer
//! waits no longer than the rest of its group needs, and not beyond the next tick of the clock.

use net::Clock;

/// More would gain little, and the first of them waits for all.
pub(crate) const ANSWERS_MAX: usize = 8;
/// What a connection has to send beyond this leaves at once: it gains nothing, and is not worth copying.
const WAITING_BYTES_MAX: usize = 2048;

/// Answers that are written and have not left.
#[derive(Default)]
pub(crate) struct Group {
    is_open: bool,
    bytes: Vec<u8>,
    /// The connections they belong to, each with where its bytes end.
    ends: Vec<(u32, usize)>,
    began_ms: u64,
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
        }
        self.bytes.append(out);
        self.ends.push((connection, self.bytes.len()));
        true
    }

    /// Whether it has to leave now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        match self.ends.len() {
            0 => false,
            ANSWERS_MAX.. => true,
            _ => Clock::tick_ms() != self.began_ms,
        }
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
