//! Who owes the next move on an HTTP/1 connection, until when, and what happens if it is late.
//!
//! | state | owes | until | then |
//! | --- | --- | --- | --- |
//! | link full, or its bytes under way | peer | its pace (`write_timeout_ms`, `response_rate_bytes_per_s_min`) | reset |
//! | `Idle`, no exchange | peer | `keep_alive_timeout_ms` after it has received the last response | closed, unless a request has arrived |
//! | `Head`, link not full | peer | `header_timeout_ms` | 408 |
//! | `Content` that is waited for | peer | its pace (`body_grace_ms`, `body_rate_bytes_per_s_min`, `body_pause_ms_max`) | 408, or closed if the response has been sent |
//! | an exchange `Waiting`, its handler not waiting for the peer | application | `handler_timeout_ms` | 503, unless the application reports that it has started |
//! | an exchange `Pushed`, `Pulled`, or `Waiting` and started | application | no limit | |
//! | the same, and the peer has ended its side | application | `write_timeout_ms` | truncated |
//! | an exchange that is not ended, and the peer has ended its side | peer | 500 ms without an acknowledgement (`link/departure.rs`) | the application is notified |
//! | `Waiting(For::Turn)` | the reactor | its next pass | |
//! | `Waiting(For::Place)`, or `Content` that is complete and waits for one | other requests | `queue_timeout_ms` (`reactor/queue.rs`) | 503 |
//!
//! A connection is in no other state after its turn. Before the first byte and after the last one, the connection itself waits
//! (`connection.rs`).

use super::content::Incoming;
use super::input::{Refused, is_head_method};
use super::{Ending, H1, Queued, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::exchange::{Exchange, Progress};
use crate::link::{Delivery, Fate, Link, Turn, Unread};
use crate::response::Response;
use crate::timeouts::Timeouts;

/// What was late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Late {
    /// What was sent may not have arrived: it is time to check.
    Delivery,
    /// A request.
    Request,
    /// The rest of a head.
    Head,
    /// Content.
    Content,
    /// A response, or its start.
    Handler,
    /// More of a response to a peer that sends no more and may be gone.
    Part,
    /// A sign that a peer which sends no more is still present.
    Departure,
}

impl H1 {
    /// When the connection has to act; `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline_ms(&self, link: &Link, context: &Context) -> u64 {
        match self.reading {
            // The state after nearly every event.
            Reading::Idle if self.queue.is_empty() && link.delivery_check_ms() == u64::MAX => {
                self.idle_deadline_ms(context)
            }
            _ => self.next(link, context).0,
        }
    }

    #[inline]
    fn idle_deadline_ms(&self, context: &Context) -> u64 {
        let deadline = Timeouts::end_ms(self.since_ms, context.timeouts.keep_alive_timeout_ms);
        match context.draining_since_ms {
            Some(since) => deadline.min(since.max(self.since_ms) + context.draining_idle_ms),
            None => deadline,
        }
    }

    /// The earliest deadline and what it is for.
    fn next(&self, link: &Link, context: &Context) -> (u64, Late) {
        let delivery_ms = link.delivery_check_ms();
        let request_ms = match self.reading {
            Reading::Idle if self.queue.is_empty() && !link.is_full() => {
                self.idle_deadline_ms(context)
            }
            _ => u64::MAX,
        };
        let head_ms = match self.reading {
            Reading::Head if !link.is_full() => {
                Timeouts::end_ms(self.since_ms, context.timeouts.header_timeout_ms)
            }
            _ => u64::MAX,
        };
        let content_ms = match &self.reading {
            Reading::Content(incoming) => content_deadline_ms(incoming, context),
            _ => u64::MAX,
        };
        let all = [
            (delivery_ms, Late::Delivery),
            (request_ms, Late::Request),
            (head_ms, Late::Head),
            (content_ms, Late::Content),
            (self.handler_deadline_ms(), Late::Handler),
            (self.part_deadline_ms(link, context), Late::Part),
            (self.departure_deadline_ms(link), Late::Departure),
        ];
        all.into_iter().min().unwrap_or((u64::MAX, Late::Delivery))
    }

    fn handler_deadline_ms(&self) -> u64 {
        if self.reader_waits() {
            return u64::MAX;
        }
        let waiting = self.queue.iter().filter(|queued| is_waiting(queued));
        let deadlines = waiting.map(|queued| queued.exchange.handler_deadline_ms());
        deadlines.min().unwrap_or(u64::MAX)
    }

    /// Only sending would show whether a peer that has ended its side is still present.
    fn part_deadline_ms(&self, link: &Link, context: &Context) -> u64 {
        let is_open = |front: &Queued| {
            let exchange = &front.exchange;
            exchange.progress == Progress::Pushed || exchange.has_begun && is_unsent(exchange)
        };
        match link.is_half_closed() && !link.is_full() && self.queue.front().is_some_and(is_open) {
            true => Timeouts::end_ms(link.moved_ms(), context.timeouts.write_timeout_ms),
            false => u64::MAX,
        }
    }

    fn departure_deadline_ms(&self, link: &Link) -> u64 {
        match link.departure_check_ms() {
            u64::MAX => u64::MAX,
            _ if self.open_exchanges().next().is_none() && !self.waits_for_place() => u64::MAX,
            check_ms => check_ms,
        }
    }

    /// Notifies the running handlers if their client seems to be gone.
    fn check_departure<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if turn.link.check_departure(turn.context.clock.now_ms()) {
            self.open_exchanges()
                .for_each(|exchange| turn.app.peer_ended(exchange.id));
            if self.waits_for_place() {
                // Nobody waits for its response.
                self.give_up_place(turn);
                self.stop_reading(Ending::Unread);
            }
        }
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        match self.next(turn.link, turn.context).1 {
            Late::Delivery => match turn.link.check_delivery(turn.context) {
                Delivery::Stuck => return self.abandon(turn, Abort::Disconnected),
                // The peer has received everything now, and the time for its next request starts.
                Delivery::Complete if matches!(self.reading, Reading::Idle) => {
                    self.since_ms = turn.now_ms();
                }
                Delivery::Complete => {}
                Delivery::UnderWay => {}
            },
            Late::Request => match self.late_request(turn) {
                Fate::Open => {}
                fate => return fate,
            },
            Late::Head => {
                let is_head = is_head_method(&self.input);
                let refused = Refused::Unread { is_head };
                self.refuse(turn, refused, 408, "The header section took too long.");
            }
            Late::Content => self.refuse_content(turn, 408, "The content arrived too slowly."),
            Late::Handler => self.end_late_handlers(turn),
            Late::Part => return self.abandon(turn, Abort::Disconnected),
            Late::Departure => self.check_departure(turn),
        }
        self.settle(turn)
    }

    /// No request was read in time. The time starts when the client has received the previous response. A request that has arrived is served.
    fn late_request<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let was_complete = !turn.link.is_arriving();
        match turn.link.check_delivery(turn.context) {
            Delivery::Complete if was_complete && !turn.link.will_read() => {
                Fate::End(Unread::Possible)
            }
            Delivery::Complete | Delivery::UnderWay => {
                self.since_ms = turn.now_ms();
                Fate::Open
            }
            Delivery::Stuck => Fate::Reset,
        }
    }

    /// Responds for every handler that has exceeded its time and has not started to respond.
    fn end_late_handlers<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        let is_late = |queued: &&mut Queued| {
            is_waiting(queued) && queued.exchange.handler_deadline_ms() <= now_ms
        };
        let mut is_any = false;
        for queued in self.queue.iter_mut().filter(is_late) {
            queued.exchange.has_begun = turn.app.has_begun(queued.exchange.id);
            is_any |= !queued.exchange.has_begun;
        }
        if !is_any {
            return;
        }
        // Their responses are the last ones.
        self.read_no_request(turn);
        for queued in self.queue.iter_mut().filter(is_late) {
            let after_ms = queued.exchange.handler_timeout_ms;
            let why = Abort::HandlerTimeout { after_ms };
            turn.abort(queued.exchange.id, why);
            queued.encoding.framing.persistent = false;
            let response = Response::error(503, "The request took too long.");
            queued.respond(&mut turn.context.responder, &response);
        }
    }
}

/// Whether its handler has not started to respond.
fn is_waiting(queued: &Queued) -> bool {
    is_unsent(&queued.exchange) && !queued.exchange.has_begun
}

fn is_unsent(exchange: &Exchange) -> bool {
    exchange.progress == Progress::Waiting
}

fn content_deadline_ms(incoming: &Incoming, context: &Context) -> u64 {
    incoming.inbound.deadline_ms(context)
}
