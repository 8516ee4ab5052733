//! What an HTTP/1 connection does while the budget of memory is nearly used up.

use wire::{BodyLength, RequestHead};

use super::content::Incoming;
use super::input::{Refused, is_head_method};
use super::queue::Queued;
use super::{For, H1, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::context::budget::{BUDGET, Holder};
use crate::exchange::Progress;
use crate::link::{Fate, Link, Turn};
use crate::pace::arrival_rate;
use crate::response::SLOW;

impl Incoming {
    /// Whether more of it is read.
    fn may_be_read(&self, context: &Context) -> bool {
        self.takes_more(context)
            && (!context.budget.is_pressed()
                || self.inbound.is_admitted(self.rest_bytes(), context))
    }
}

impl H1 {
    /// Whether the socket is to be read from.
    #[inline]
    pub(crate) fn takes_input(&self, link: &Link, context: &Context) -> bool {
        match &self.reading {
            Reading::Idle | Reading::Head => !link.is_full(),
            // What has arrived before the peer's end shows whether it is complete, or can be dropped.
            Reading::Content(incoming) if link.is_half_closed() => incoming.takes_more(context),
            Reading::Content(incoming) => incoming.may_be_read(context),
            Reading::Waiting(_)
            | Reading::Handshake(_)
            | Reading::Upgraded(_)
            | Reading::Closing(_) => false,
        }
    }

    /// Refuses a request for which the server would hold more than is admitted while the budget is nearly used up.
    #[cold]
    pub(super) fn exceeds_budget<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
    ) -> bool {
        let is_admitted = self.is_admitted(turn.context, head);
        if !is_admitted {
            let (status, reason) = turn.context.budget_refusal();
            self.refuse(turn, Refused::Head(head), status, reason);
        }
        !is_admitted
    }

    fn is_admitted(&self, context: &Context, head: &RequestHead<'_>) -> bool {
        let content_bytes = match head.body_length {
            _ if head.asks_websocket => return false,
            BodyLength::Chunked => return false,
            // It is refused for its length.
            BodyLength::Known(length) if length > context.bounds.body_bytes_max => return true,
            BodyLength::Known(length) => length,
            BodyLength::None => 0,
        };
        let own_bytes = (head.consumed + size_of::<Queued>()) as u64;
        let begun = self.queue.iter().map(|it| it.exchange.request_bytes());
        let begun_bytes: usize = begun.map(|bytes| bytes + size_of::<Queued>()).sum();
        context
            .budget
            .admits_request(own_bytes.saturating_add(content_bytes), begun_bytes as u64)
    }

    /// Stops the time of content that is not read now, and runs it otherwise.
    pub(crate) fn hold_back(&mut self, context: &Context) {
        if let Reading::Content(incoming) = &mut self.reading {
            let waits = !incoming.inbound.is_complete && !incoming.may_be_read(context);
            let is_withheld = waits && incoming.inbound.is_collected();
            incoming.inbound.withhold(is_withheld, context);
        }
    }

    pub(crate) fn is_held_back(&self) -> bool {
        // What a handler has not asked for may be read again too.
        matches!(&self.reading, Reading::Content(_))
    }

    /// Why it holds memory, if it can be ended for that. What handlers have not taken, and requests that wait, count only if it holds much.
    pub(crate) fn holder(&self, link: &Link, is_much: bool) -> Option<Holder> {
        match &self.reading {
            _ if link.is_full() => Some(Holder::Peer),
            Reading::Head => Some(Holder::Peer),
            Reading::Waiting(_) if is_much => Some(Holder::Peer),
            Reading::Content(incoming) if incoming.inbound.is_of_peer() => Some(Holder::Peer),
            Reading::Content(incoming)
                if is_much && (incoming.inbound.is_unasked() || !self.input.is_empty()) =>
            {
                Some(Holder::Handler)
            }
            _ if is_much && self.has_waiting_response() => Some(Holder::Handler),
            _ => None,
        }
    }

    /// Whether a response waits for an earlier one.
    fn has_waiting_response(&self) -> bool {
        let mut waiting = self.queue.iter().skip(1);
        waiting.any(|queued| !queued.exchange.out.is_empty())
    }

    /// Ends what makes it hold memory.
    pub(crate) fn end_holding<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            return self.abandon(turn, Abort::Disconnected);
        }
        match &self.reading {
            Reading::Content(incoming)
                if incoming.inbound.is_of_peer()
                    || incoming.inbound.is_unasked()
                    || !self.input.is_empty() =>
            {
                self.refuse_content(turn, 503, BUDGET);
            }
            Reading::Head | Reading::Waiting(_) => {
                if matches!(self.reading, Reading::Waiting(For::Place)) {
                    turn.context.leave_queue(turn.link.id, None);
                }
                // What has begun before it gets its responses.
                let is_head = is_head_method(&self.input);
                self.refuse(turn, Refused::Unread { is_head }, 503, BUDGET);
            }
            _ if self.has_waiting_response() => return self.abandon(turn, Abort::Disconnected),
            _ => {}
        }
        self.settle(turn)
    }

    /// How many bytes per second arrive of a request, if nothing but its client is waited for.
    pub(crate) fn arrival_rate(&self, now_ms: u64) -> Option<u64> {
        match &self.reading {
            Reading::Head if self.queue.is_empty() => arrival_rate(
                self.input.len() as u64,
                now_ms.saturating_sub(self.since_ms),
            ),
            Reading::Content(incoming) if self.queue.iter().all(|it| waits_for(it, incoming)) => {
                incoming.inbound.arrival_rate(now_ms)
            }
            _ => None,
        }
    }

    /// Refuses the request that arrives, and ends the connection without waiting for its peer.
    #[cold]
    pub(crate) fn end_slow<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if matches!(self.reading, Reading::Content(_)) {
            self.refuse_content(turn, 503, SLOW);
        } else {
            let is_head = is_head_method(&self.input);
            self.refuse(turn, Refused::Unread { is_head }, 503, SLOW);
        }
        self.emit(turn);
        if !turn.context.responder.out.is_empty() {
            // Does not wait until it arrives.
            let _ = turn.link.flush(turn.context, false);
        }
        self.abandon(turn, Abort::Disconnected)
    }

    /// Since when it has waited for a request, if it does.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        let is_idle = matches!(self.reading, Reading::Idle) && self.queue.is_empty();
        is_idle.then_some(self.since_ms)
    }
}

/// Whether an exchange is that of the handler which waits for the content, and has not started to respond.
fn waits_for(queued: &Queued, incoming: &Incoming) -> bool {
    let is_reader = incoming.inbound.is_read_by(queued.exchange.id);
    is_reader && queued.exchange.progress == Progress::Waiting
}
