//! Who owes the next move on an HTTP/2 connection, until when, and what happens if it is late.
//!
//! | state | owes | until | then |
//! | --- | --- | --- | --- |
//! | link full, or its bytes under way | peer | its pace (`write_timeout_ms`, `response_rate_bytes_per_s_min`) | reset |
//! | no stream, no part of a frame | peer | `keep_alive_timeout_ms` since the last stream, whatever other frames arrive | the first step of leaving |
//! | preface, part of a frame, part of a header block | peer | `header_timeout_ms`, for content also its time at `body_rate_bytes_per_s_min`, or its pace if there is no rate | GOAWAY, closed |
//! | content that is waited for, while no other such content arrives | peer | its pace (`body_grace_ms`, `body_rate_bytes_per_s_min`, `body_pause_ms_max`) | 408, or the stream is reset |
//! | content that nobody takes, after its response | peer | the same, and `lingering_ms_max` | the stream is reset |
//! | content of a response, and a window is closed | peer | its pace (`write_timeout_ms`) | the stream is reset |
//! | an exchange `Waiting`, its handler not waiting for the peer | application | `handler_timeout_ms` | 503, unless the application reports that it has started |
//! | an exchange `Pushed`, `Pulled`, or `Waiting` and started | application | no limit | |
//! | a WebSocket | see `websocket/liveness.rs`; without pings it has no limit | | closed as a WebSocket, or the stream is reset |
//! | a request that waits to be started | this side, or the peer, by the lines above for responses | | |
//! | draining, GOAWAY not sent or announced | this side | now; `Context::draining_idle_ms` | the next step of leaving |
//! | `waits_for_turn` | the reactor | its next pass | |

use wire::h2::{ErrorCode, Violation, frame};

use super::handlers::guarded;
use super::stream::Stream;
use super::websocket::websocket_deadline_ms;
use super::{H2, Leaving, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::exchange::Progress;
use crate::exchange::content::Taker;
use crate::link::{Delivery, Fate, Link, Turn};
use crate::mailbox::Command;
use crate::response::Response;
use crate::timeouts::Timeouts;

/// When something of a stream is late; `u64::MAX` for never.
type Deadline = fn(&H2, &Stream, &Context) -> u64;

/// What was late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Late {
    /// What was sent may not have arrived: it is time to check.
    Delivery,
    /// The next step of leaving.
    Leaving,
    /// A request.
    Request,
    /// The rest of the preface, a frame or a header block.
    Frame,
    /// Content of a request.
    Content,
    /// A response, or its start.
    Handler,
    /// Room in a window.
    Window,
    /// What the client of a WebSocket owes.
    WebSocket,
}

impl H2 {
    /// When the connection has to act; `u64::MAX` for never.
    pub(crate) fn deadline_ms(&self, link: &Link, context: &Context) -> u64 {
        self.next(link, context).0
    }

    /// The earliest deadline and what it is for.
    fn next(&self, link: &Link, context: &Context) -> (u64, Late) {
        let timeouts = &context.timeouts;
        let is_idle = self.streams.is_empty() && !link.is_full();
        let is_partial = !self.input.is_empty() || !matches!(self.reading, Reading::Frames);
        let (mut request_ms, mut frame_ms) = (u64::MAX, u64::MAX);
        match self.reading {
            Reading::Closing => {}
            _ if self.waits_for_turn || self.has_many_frames(link) => {}
            _ if is_partial => frame_ms = self.frame_deadline_ms(context),
            _ => {}
        }
        // Neither frames that open no stream nor parts of one keep the connection open.
        let waits_for_request = matches!(self.reading, Reading::Frames | Reading::Block(_));
        if is_idle && waits_for_request && self.leaving == Leaving::No {
            request_ms = Timeouts::end_ms(self.idle_since_ms, timeouts.keep_alive_timeout_ms);
        }
        let first = |deadline: Deadline| {
            let deadlines = self.streams.iter();
            let deadlines = deadlines.map(|stream| deadline(self, stream, context));
            deadlines.min().unwrap_or(u64::MAX)
        };
        let all = [
            (link.delivery_check_ms(), Late::Delivery),
            (self.leaving_ms(context), Late::Leaving),
            (request_ms, Late::Request),
            (frame_ms, Late::Frame),
            (first(content_deadline_ms), Late::Content),
            (first(handler_deadline_ms), Late::Handler),
            (first(window_deadline_ms), Late::Window),
            (first(carried_deadline_ms), Late::WebSocket),
        ];
        all.into_iter().min().unwrap_or((u64::MAX, Late::Delivery))
    }

    /// When the rest of the preface, of a frame or of a header block has to be there. Content has the time that it takes at its minimum rate
    /// too.
    fn frame_deadline_ms(&self, context: &Context) -> u64 {
        let timeouts = &context.timeouts;
        let content_ms = match (&self.reading, frame::partial_data(&self.input)) {
            (Reading::Frames, Some(partial)) => timeouts.content_ms_max(partial.payload_bytes),
            _ => 0,
        };
        let content_ms = match content_ms == u64::MAX && self.arriving_stream().is_none() {
            // Neither a rate nor the pace of its content limits it.
            true => 0,
            false => content_ms,
        };
        Timeouts::end_ms(self.since_ms, timeouts.header_timeout_ms).saturating_add(content_ms)
    }

    fn leaving_ms(&self, context: &Context) -> u64 {
        if matches!(self.reading, Reading::Closing) {
            return u64::MAX;
        }
        match (context.draining_since_ms, self.leaving) {
            (Some(since_ms), Leaving::No) => since_ms,
            (_, Leaving::Announced { since_ms }) => {
                since_ms.saturating_add(context.draining_idle_ms)
            }
            (None, Leaving::No) | (_, Leaving::Final { .. }) => u64::MAX,
        }
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        match self.next(turn.link, turn.context).1 {
            Late::Delivery => match turn.link.check_delivery(turn.context) {
                Delivery::Stuck => return self.abandon(turn, Abort::Disconnected),
                Delivery::Complete if self.streams.is_empty() => {
                    self.idle_since_ms = turn.now_ms();
                }
                Delivery::Complete | Delivery::UnderWay => {}
            },
            Late::Leaving => match self.leaving {
                Leaving::No => self.announce_leaving(turn),
                Leaving::Announced { .. } | Leaving::Final { .. } => self.say_last(turn),
            },
            Late::Request => self.announce_leaving(turn),
            Late::Frame => self.fail(
                turn,
                Violation::of_connection(ErrorCode::NO_ERROR, "a frame took too long"),
            ),
            Late::Content => self.end_late_content(turn),
            Late::Handler => self.end_late_handlers(turn),
            Late::Window => self.end_blocked_streams(turn),
            Late::WebSocket => self.expire_websockets(turn),
        }
        self.settle(turn)
    }

    fn end_late_content<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        let late = self.late(turn.context, now_ms, content_deadline_ms);
        // Others that could not receive content meanwhile are not late with it.
        self.has_arrived(turn.context);
        for id in late {
            let Some(index) = self.index_of(id) else {
                continue;
            };
            let has_response = self
                .streams
                .get(index)
                .is_some_and(|stream| stream.exchange.is_ended());
            if has_response {
                self.end_stream(turn, index, ErrorCode::NO_ERROR);
            } else {
                self.refuse_content(turn, index, (408, "The content arrived too slowly."));
            }
        }
    }

    /// Responds for every handler that has exceeded its time and has not started to respond.
    fn end_late_handlers<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        for id in self.late(turn.context, now_ms, handler_deadline_ms) {
            let Some(index) = self.index_of(id) else {
                continue;
            };
            let Some(stream) = self.streams.get_mut(index) else {
                continue;
            };
            let exchange = &mut stream.exchange;
            exchange.has_begun = guarded(|| turn.app.has_begun(exchange.id)).unwrap_or(false);
            if exchange.has_begun {
                continue;
            }
            let (id, after_ms) = (exchange.id, exchange.handler_timeout_ms);
            let why = Abort::HandlerTimeout { after_ms };
            self.handlers.abort(turn, id, why);
            let response = Response::error(503, "The request took too long.");
            self.respond(turn, index, Command::Respond(response));
        }
    }

    /// Ends streams whose client has kept a window closed for too long.
    fn end_blocked_streams<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        for id in self.late(turn.context, now_ms, window_deadline_ms) {
            if let Some(index) = self.index_of(id) {
                self.end_stream(turn, index, ErrorCode::CANCEL);
            }
        }
    }

    /// The streams that a deadline has passed for.
    fn late(&self, context: &Context, now_ms: u64, deadline: Deadline) -> Vec<u32> {
        let is_late = |stream: &&Stream| deadline(self, stream, context) <= now_ms;
        self.streams
            .iter()
            .filter(is_late)
            .map(|it| it.id)
            .collect()
    }
}

/// While content of one stream arrives, that of others cannot: the whole frame has a deadline. Content that nobody reads is due only when the
/// response has been sent, for `lingering_ms_max` at most.
fn content_deadline_ms(h2: &H2, stream: &Stream, context: &Context) -> u64 {
    let Some(inbound) = &stream.inbound else {
        return u64::MAX;
    };
    let is_responding = stream.exchange.is_ended() && !stream.encoding.has_ended;
    if is_responding || h2.arriving_stream().is_some_and(|id| id != stream.id) {
        return u64::MAX;
    }
    match inbound.taker {
        Taker::Nobody if !inbound.is_complete => {
            let end_ms = inbound.discarding_end_ms(context);
            inbound.deadline_ms(context).min(end_ms)
        }
        _ => inbound.deadline_ms(context),
    }
}

fn handler_deadline_ms(_: &H2, stream: &Stream, _: &Context) -> u64 {
    let exchange = &stream.exchange;
    let waits_for_peer = stream
        .inbound
        .as_ref()
        .is_some_and(|inbound| inbound.has_reader_waiting() || inbound.is_for_call());
    match exchange.progress == Progress::Waiting && !exchange.has_begun && !waits_for_peer {
        true => exchange.handler_deadline_ms(),
        false => u64::MAX,
    }
}

fn carried_deadline_ms(_: &H2, stream: &Stream, context: &Context) -> u64 {
    websocket_deadline_ms(stream, context)
}

fn window_deadline_ms(_: &H2, stream: &Stream, _: &Context) -> u64 {
    let pace = stream.pace.as_ref();
    pace.map_or(u64::MAX, |pace| pace.end_ms(u64::MAX))
}
