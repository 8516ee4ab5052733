//! Requests in the order of the mix on one connection, whose responses come in the same order.

use std::collections::VecDeque;

use super::connection::Stamp;
use super::mix::Mix;

/// The requests of a connection that have no response yet, and how much of them is sent.
#[derive(Default)]
pub(super) struct Batch {
    /// Requests without a response yet, oldest first.
    pub(super) stamps: VecDeque<Stamp>,
    /// Where the bytes that the socket has not accepted start in the mix.
    unsent_from: usize,
    /// The position in the mix at which the last batch ends.
    end: u32,
}

impl Batch {
    /// For a new socket.
    pub(super) fn reset(&mut self) {
        self.stamps.clear();
        self.unsent_from = 0;
        self.end = 0;
    }

    /// The bytes that the socket has not accepted.
    #[inline]
    pub(super) fn unsent<'a>(&self, mix: &'a Mix) -> &'a [u8] {
        mix.bytes(self.unsent_from, mix.offset(self.end))
    }

    /// The socket has accepted more bytes.
    #[inline]
    pub(super) fn note_sent(&mut self, count: usize) {
        self.unsent_from += count;
    }

    /// The position in the mix of the request whose response is next.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.stamps.front().map_or(0, |it| it.position)
    }

    /// Makes `count` requests from a position of the mix the batch to be sent.
    pub(super) fn assign(&mut self, mix: &Mix, position: u32, count: u32) {
        self.unsent_from = mix.offset(position);
        self.end = position + count;
    }

    /// Sets the send time of requests whose first byte is not sent yet.
    pub(super) fn restamp(&mut self, mix: &Mix, now_ns: u64) {
        let late = mix.starting_from(self.unsent_from, self.end);
        let Some(last) = self.stamps.back_mut() else {
            return;
        };
        if late >= last.count {
            last.sent_ns = now_ns;
        } else if late > 0 {
            last.count -= late;
            let stamp = Stamp {
                sent_ns: now_ns,
                position: last.position + last.count,
                count: late,
                ..*last
            };
            self.stamps.push_back(stamp);
        }
    }

    /// Sets the send time of all requests without a response.
    pub(super) fn restamp_all(&mut self, now_ns: u64) {
        for stamp in &mut self.stamps {
            stamp.sent_ns = now_ns;
        }
    }

    /// How many of the `outstanding` requests are completely sent.
    #[inline]
    pub(super) fn complete(&self, mix: &Mix, outstanding: u32) -> u32 {
        match self.unsent(mix).is_empty() {
            true => outstanding,
            false => outstanding.saturating_sub(self.incomplete(mix)),
        }
    }

    /// How many outstanding requests are not completely sent.
    pub(super) fn incomplete(&self, mix: &Mix) -> u32 {
        mix.ending_after(self.unsent_from, self.end)
    }
}
