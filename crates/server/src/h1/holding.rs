//! What an HTTP/1 connection does while the budget of memory is nearly used up.

use wire::RequestHead;

use super::content::Incoming;
use super::input::{Refused, is_head_method};
use super::queue::Queued;
use super::{H1, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::context::budget::BUDGET;
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

    /// Refuses a request that would make the server hold more, if the budget is nearly used up.
    #[inline]
    pub(super) fn is_pressed<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
    ) -> bool {
        let budget = &turn.context.budget;
        let is_pressed = match head.asks_websocket {
            true => budget.is_pressed(),
            false => !budget.admits_new(head.body_length),
        };
        if is_pressed {
            let (status, reason) = turn.context.budget_refusal();
            self.refuse(turn, Refused::Head(head), status, reason);
        }
        is_pressed
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

    /// Whether it is the peer that makes it hold memory: by sending a part of something, or by not reading.
    pub(crate) fn is_held_by_peer(&self, link: &Link) -> bool {
        let is_sent = match &self.reading {
            Reading::Content(incoming) => {
                incoming.inbound.is_collected() && !incoming.inbound.is_complete
            }
            Reading::Head => true,
            _ => false,
        };
        is_sent || link.is_full()
    }

    /// Ends what the peer makes it hold.
    pub(crate) fn end_holding<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            return self.abandon(turn, Abort::Disconnected);
        }
        match &self.reading {
            Reading::Content(_) => self.refuse_content(turn, 503, BUDGET),
            Reading::Head => {
                let is_head = is_head_method(&self.input);
                self.refuse(turn, Refused::Unread { is_head }, 503, BUDGET);
            }
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
