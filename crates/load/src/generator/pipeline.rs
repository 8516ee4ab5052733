//! HTTP/1 on one connection: requests in the order of the mix, and their responses in the same order.

use std::collections::VecDeque;

use super::checker::Response;
use super::connection::Stamp;
use super::mix::Mix;

/// The requests of a connection that have no response yet, and how much of them is sent.
pub(super) struct Pipeline {
    pub(super) response: Response,
    /// Requests without a response yet, oldest first.
    pub(super) stamps: VecDeque<Stamp>,
    /// Where the bytes that the socket has not accepted start in the mix.
    pub(super) unsent_from: usize,
    /// The position in the mix at which the last batch ends.
    pub(super) batch_end: u32,
}

impl Pipeline {
    pub(super) fn new() -> Pipeline {
        Pipeline {
            response: Response::new(),
            stamps: VecDeque::new(),
            unsent_from: 0,
            batch_end: 0,
        }
    }

    /// For a new socket.
    pub(super) fn reset(&mut self) {
        self.response = Response::new();
        self.stamps.clear();
        self.unsent_from = 0;
        self.batch_end = 0;
    }

    /// The bytes that the socket has not accepted.
    pub(super) fn unsent<'a>(&self, mix: &'a Mix) -> &'a [u8] {
        mix.bytes(self.unsent_from, mix.offset(self.batch_end))
    }

    /// The position in the mix of the request whose response is next.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.stamps.front().map_or(0, |it| it.position)
    }

    /// Makes `count` requests from a position of the mix the batch to be sent.
    pub(super) fn assign(&mut self, mix: &Mix, position: u32, count: u32) {
        self.unsent_from = mix.offset(position);
        self.batch_end = position + count;
    }

    /// Sets the send time of requests whose first byte is not sent yet.
    pub(super) fn restamp(&mut self, mix: &Mix, now_ns: u64) {
        let late = mix.starting_from(self.unsent_from, self.batch_end);
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
        mix.ending_after(self.unsent_from, self.batch_end)
    }
}
