//! What is known of one client from outside: what it did when. The application judges the server's calls by it.

use crate::render::Mark;
use crate::schedule::Conversation;

/// What one client has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) is_tcp: bool,
    pub(crate) opened_ms: u64,
    /// It exceeded the connection limit when it connected.
    pub(crate) is_surplus: bool,
    /// Bytes that it sent, or would have sent if the server had read.
    pub(crate) offered: usize,
    /// When `offered` grew, and to what.
    offers: Vec<(usize, u64)>,
    pub(crate) half_closed_ms: Option<u64>,
    pub(crate) has_vanished: bool,
    /// It reads everything that arrives.
    pub(crate) is_attentive: bool,
    /// It has done so from the beginning.
    pub(crate) was_attentive: bool,
    /// When it had last read everything.
    pub(crate) caught_up_ms: u64,
    /// The longest time between two such moments.
    pub(crate) longest_stall_ms: u64,
    /// When it saw the server's end.
    pub(crate) ended_ms: Option<u64>,
    pub(crate) was_reset: bool,
    /// The application panicked while this connection was served.
    pub(crate) has_panicked: bool,
    pub(crate) drained_ms: Option<u64>,
}

impl Facts {
    pub(crate) fn new(conversation: &Conversation, now_ms: u64) -> Facts {
        Facts {
            is_tcp: conversation.is_tcp,
            opened_ms: now_ms,
            caught_up_ms: now_ms,
            is_attentive: conversation.is_attentive,
            was_attentive: conversation.is_attentive,
            ..Facts::default()
        }
    }

    pub(crate) fn offer(&mut self, bytes: usize, now_ms: u64) {
        self.offered += bytes;
        self.offers.push((self.offered, now_ms));
    }

    /// When the client had offered so many bytes.
    pub(crate) fn offered_ms(&self, bytes: usize) -> Option<u64> {
        let reached = self.offers.iter().find(|(offered, _)| *offered >= bytes);
        reached.map(|(_, at_ms)| *at_ms)
    }

    /// How long it took, or has taken until now, from offering `from` bytes to offering `to` bytes.
    pub(crate) fn took_ms(&self, from: usize, to: usize, now_ms: u64) -> u64 {
        let from_ms = self.offered_ms(from).unwrap_or(now_ms);
        self.offered_ms(to)
            .unwrap_or(now_ms)
            .saturating_sub(from_ms)
    }

    /// The client has read everything.
    pub(crate) fn caught_up(&mut self, now_ms: u64) {
        self.longest_stall_ms = self.stalled_ms(now_ms);
        self.caught_up_ms = now_ms;
    }

    /// From now on the client reads everything that arrives.
    pub(crate) fn become_attentive(&mut self, now_ms: u64) {
        self.longest_stall_ms = self.stalled_ms(now_ms);
        self.is_attentive = true;
    }

    /// The longest time for which the client has not read what had arrived.
    pub(crate) fn stalled_ms(&self, now_ms: u64) -> u64 {
        if self.is_tcp && !self.was_attentive {
            // The server does not see at once what a client reads from its kernel's buffer.
            return now_ms.saturating_sub(self.opened_ms);
        }
        match self.is_attentive {
            true => self.longest_stall_ms,
            false => self
                .longest_stall_ms
                .max(now_ms.saturating_sub(self.caught_up_ms)),
        }
    }

    pub(crate) fn has_offered_all(&self, mark: &Mark) -> bool {
        self.offered >= mark.end
    }
}
