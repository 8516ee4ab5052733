//! Parses a connection's input and starts its requests, in order, as far as they may run.

use net::memory::{append, is_short};
use wire::{BodyLength, Progress as Parsed, RequestHead};

use super::content::Incoming;
use super::queue::{Encoding, Queued};
use super::{Ending, For, H1, Reading};
use crate::app::head::{Head, OwnedHead};
use crate::app::{Abort, App, Content, Outcome};
use crate::context::waiting::Grant;
use crate::context::{Context, REQUEST_SPARE_BYTES};
use crate::exchange::content::{DISCARD_BYTES_MAX, Taker};
use crate::exchange::output::Output;
use crate::exchange::{Exchange, Progress};
use crate::id::ExchangeId;
use crate::link::{Broken, Link, Turn};
use crate::responder::{Delimiter, Framing};
use crate::response::{CONTENT_TOO_LONG, NO_MEMORY, Response};

/// May precede a request, and starts none: old clients send one after content (RFC 9112 section 2.2). It stays in the input, so that the
/// parser refuses a second one.
const EMPTY_LINE: &[u8] = b"\r\n";

impl H1 {
    #[inline]
    pub(super) fn feed<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &[u8]) {
        if self.input.is_empty() {
            let used = self.advance(turn, data);
            let rest = data.get(used..).unwrap_or_default();
            if append(&mut self.input, rest).is_err() {
                self.input_lacks_memory(turn, rest);
            }
            return;
        }
        let was_cut_in_line_end = self.input.ends_with(b"\r");
        if append(&mut self.input, data).is_err() {
            return self.input_lacks_memory(turn, data);
        }
        let skips_parsing = matches!(self.reading, Reading::Head)
            && !was_cut_in_line_end
            && !wire::worth_parsing(data)
            && wire::within_limits(&self.input, &turn.context.head_limits).is_ok();
        if !skips_parsing {
            self.resume(turn);
        }
    }

    /// There is no memory for input that has to wait, after what waits already.
    #[cold]
    fn input_lacks_memory<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &[u8]) {
        if let Reading::Content(_) = &self.reading {
            return self.content_lacks_memory(turn);
        }
        turn.context.note_shortage(data.len());
        if self.waits_for_place() {
            // It gets the response.
            turn.context.leave_queue(turn.link.id, None);
        }
        let is_head = match self.input.is_empty() {
            true => is_head_method(data),
            false => is_head_method(&self.input),
        };
        self.refuse(turn, Refused::Unread { is_head }, 503, NO_MEMORY);
    }

    /// Continues with input that waited.
    pub(super) fn resume<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let (since_ms, was_head) = (self.since_ms, matches!(self.reading, Reading::Head));
        if matches!(self.reading, Reading::Head | Reading::Waiting(_)) {
            self.reading = Reading::Idle;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.advance(turn, &input);
        if was_head && used == 0 {
            // The timeout of a head is absolute.
            self.since_ms = since_ms;
        }
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves `data` from its start as far as possible. Returns the number of bytes used. Starts in `Idle` (or in a state that reads no
    /// head).
    #[inline]
    fn advance<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &[u8]) -> usize {
        let mut rest = data;
        while !rest.is_empty() {
            match &mut self.reading {
                Reading::Idle => {
                    if !self.head(turn, &mut rest) {
                        break;
                    }
                    self.yield_turn(turn, rest);
                }
                Reading::Content(_) => {
                    if !self.content(turn, &mut rest) {
                        break;
                    }
                    self.stop_after_content(turn, rest);
                }
                Reading::Head
                | Reading::Waiting(_)
                | Reading::Handshake(_)
                | Reading::Upgraded(_) => break,
                Reading::Closing(ending) => {
                    if matches!(ending, Ending::Announced | Ending::Read) {
                        *ending = Ending::Unread;
                    }
                    rest = &[];
                }
            }
        }
        if matches!(self.reading, Reading::Idle) && !rest.is_empty() && rest != EMPTY_LINE {
            self.reading = Reading::Head;
            self.since_ms = turn.now_ms();
        }
        data.len() - rest.len()
    }

    /// After a request: leaves the rest to another turn if the connection has used its share of this one, or sends if there is much to
    /// send.
    #[inline]
    fn yield_turn<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &[u8]) {
        let context = &mut *turn.context;
        let is_used = context.share.is_used_by_request(&mut context.clock);
        let is_much = context.responder.out.len() as u64 >= context.limits.send_buffer_bytes_max;
        if is_used || is_much {
            self.pause(turn, rest, is_much);
        }
    }

    /// As [`H1::yield_turn`], when a content may have ended and its request has been called.
    #[inline(never)]
    fn stop_after_content<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &[u8]) {
        if self.waits_for_request() {
            let context = &mut *turn.context;
            let is_much =
                context.responder.out.len() as u64 >= context.limits.send_buffer_bytes_max;
            if context.share.is_used(&mut context.clock) || is_much {
                self.pause(turn, rest, is_much);
            }
        }
    }

    #[cold]
    fn pause<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &[u8], is_much: bool) {
        if is_much {
            self.send_now(turn);
        }
        if rest.is_empty() || !self.waits_for_request() {
            return;
        }
        if turn.link.is_full() {
            self.reading = Reading::Waiting(For::Socket);
        } else if !is_much || turn.context.share.is_sent() {
            self.reading = Reading::Waiting(For::Turn);
        }
    }

    /// Sends within a batch what has been written. What runs next detects a broken connection.
    fn send_now<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if turn.link.flush(turn.context, false) == Err(Broken) {
            self.stop_reading(Ending::Cut);
        }
    }

    /// Sends a response after which the application continues to work, or lets it wait for those of the pass's next events, and lets the
    /// application continue.
    fn finish_call<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let since_ms = turn.now_ms();
        let responder = &mut turn.context.responder;
        let can_wait = responder.framing.persistent && !turn.link.has_ended();
        let waits = can_wait && responder.batch.has_company(responder.out.len(), since_ms);
        if !waits {
            self.send_now(turn);
            turn.context.responder.batch.send_now();
        }
        turn.app.response_written(&mut turn.context.responder);
        turn.context.metrics.call_ended(); // its time is not the next request's
        if waits {
            turn.context.clock.tick();
            let now_ms = turn.now_ms();
            let batch = &mut turn.context.responder.batch;
            batch.has_waited_for_end(since_ms, now_ms);
        }
        if turn.context.responder.sent_bytes > 0 {
            turn.link.was_sent_in_call(turn.context);
        }
    }

    /// Parses a head and starts its exchange. Returns false if the exchange has to wait; `rest` is unchanged then.
    #[inline]
    fn head<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &mut &[u8]) -> bool {
        let context = &mut *turn.context;
        match &wire::parse_request_with(rest, &context.head_limits, &mut context.memo) {
            Ok(Parsed::Complete(head)) => {
                if !self.queue.is_empty() && !self.may_overtake(turn, head) {
                    self.reading = Reading::Waiting(For::Exchange);
                    return false;
                }
                let after = rest.get(head.consumed..).unwrap_or_default();
                let used = match head.notes.is_any() | turn.context.is_guarded {
                    false => self.begin(turn, head, after),
                    true => match self.begin_guarded(turn, head, after) {
                        Some(used) => used,
                        None => return false,
                    },
                };
                *rest = after.get(used..).unwrap_or_default();
                true
            }
            Ok(Parsed::Incomplete) => false,
            Err(error) => {
                let (status, reason) = (error.kind.status(), error.kind.reason());
                self.refuse(turn, Refused::Malformed(rest), status, reason);
                *rest = &[];
                true
            }
        }
    }

    /// Whether a request may run concurrently with others: all are safe, it has no content, neither their number nor their memory
    /// exceeds the limits, and the budget is not nearly used up.
    fn may_overtake<A: App>(&self, turn: &Turn<'_, A>, head: &RequestHead<'_>) -> bool {
        let limits = &turn.context.limits;
        let has_room = self.window.has_room(self.queue.len(), limits);
        let is_safe =
            head.method.is_safe() && head.body_length == BodyLength::None && !head.asks_websocket;
        // Pending responses may be as long as earlier ones.
        let waiting_bytes = || -> u64 {
            let length = |queued: &Queued| match queued.exchange.progress {
                Progress::Waiting => turn.context.long_response_bytes,
                _ => queued.exchange.out.held_bytes() as u64,
            };
            self.queue.iter().map(length).sum::<u64>() + turn.link.held_bytes() as u64
        };
        let may_begin = has_room
            && is_safe
            // Its response would wait, and nothing ends that before the budget is exceeded.
            && !turn.context.budget.is_pressed()
            && self.queue.iter().all(Queued::may_be_overtaken)
            && waiting_bytes() < limits.send_buffer_bytes_max;
        // One that is refused calls nothing.
        may_begin || turn.context.admission.grant == Some(Grant::Refuse)
    }

    /// Passes a request to the application. Returns how many of the bytes `after` it were its content.
    ///
    /// A part of both callers: nearly all requests take the way of the first one (bench: calls.py).
    #[inline(always)]
    pub(super) fn begin<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> usize {
        if is_short(REQUEST_SPARE_BYTES) {
            turn.context.note_shortage(REQUEST_SPARE_BYTES);
            self.refuse(turn, Refused::Head(head), 503, NO_MEMORY);
            return after.len();
        }
        if turn.context.budget.is_pressed() && self.exceeds_budget(turn, head) {
            return 0;
        }
        if head.asks_websocket && self.handshake(turn, head) {
            return 0;
        }
        match head.body_length {
            BodyLength::None => {
                self.call(turn, head, Content::Whole(b""));
                0
            }
            BodyLength::Known(length) if length > turn.context.bounds.body_bytes_max => {
                self.refuse(turn, Refused::Head(head), 413, CONTENT_TOO_LONG);
                after.len()
            }
            BodyLength::Known(length) => match content_in(after, length) {
                Some(content) => {
                    self.call(turn, head, Content::Whole(content));
                    content.len()
                }
                None => self.begin_with_content(turn, head, after),
            },
            BodyLength::Chunked => self.begin_with_content(turn, head, after),
        }
    }

    /// Passes a request on whose content has not arrived.
    #[inline]
    fn begin_with_content<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> usize {
        let mut sent;
        let head = match head.expects_continue && !after.is_empty() {
            true => {
                sent = *head;
                // Its client did not wait.
                sent.expects_continue = false;
                &sent
            }
            false => head,
        };
        self.call(turn, head, Content::Later);
        0
    }

    #[inline]
    pub(super) fn call<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
        content: Content<'_>,
    ) {
        let context = &mut *turn.context;
        let is_persistent = head.persistent && !context.is_draining();
        let goes_on = is_persistent && (content != Content::Later || is_discardable(head));
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: context.next_sequence(),
        };
        let mut start = context.responder.out.len();
        let framing = Framing::of(head, goes_on);
        let is_next = self.queue.is_empty() && content != Content::Later;
        if !is_next && start > 0 {
            start = send_earlier(turn.link, context);
        }
        let responder = &mut context.responder;
        responder.call_begins(framing, is_next && !turn.link.is_full());
        let said = (&context.proxies, &mut context.forwarded);
        let request = turn.link.request(said, responder, head, (content, id));
        if let Some(slow) = &context.slow {
            slow.call_begins(id, request.head);
        }
        let outcome = turn.app.call(&request, responder);
        let is_usual = responder.is_usual && outcome == Outcome::Responded;
        let is_usual = is_usual && content != Content::Later && self.queue.is_empty();
        if is_usual && (!context.is_recorded || context.is_only_counted(head)) {
            self.since_ms = context.clock.now_ms();
            return;
        }
        // Nothing has read the clock during the call.
        let began_ms = context.clock.now_ms();
        let framing = context.responder.framing;
        let (status, is_open) = (context.responder.status, context.responder.is_open);
        let (content_bytes, delimiter) =
            (context.responder.content_bytes, context.responder.delimiter);
        if context.responder.sent_bytes > 0 {
            start = start.saturating_sub(context.responder.sent_bytes);
            turn.link.was_sent_in_call(context);
        }
        let lacks_memory = context.note_lacked_response();
        let is_whole = matches!(outcome, Outcome::Responded | Outcome::RespondedEarly) && !is_open;
        let is_plain = is_whole && status != 0 && content != Content::Later;
        if is_plain && self.queue.is_empty() {
            self.responded(turn, began_ms, (head, content), (status, content_bytes));
            if !framing.persistent && delimiter == Delimiter::End {
                turn.link.guard_until_sent(&turn.context.responder.out);
            }
            if outcome == Outcome::RespondedEarly {
                self.finish_call(turn);
            }
            if !framing.persistent {
                self.stop_reading(Ending::after(head));
            }
            return;
        }
        // The handler's time starts now, not when the batch did.
        context.clock.tick();
        let taken = context.take_out(start);
        let is_lost = taken.is_err();
        let sent = (status, content_bytes);
        let record = turn.record_call(began_ms, (head, content), sent, false);
        let queued = Queued {
            exchange: Exchange {
                out: Output::new(taken.unwrap_or_default()),
                lent_bytes: content.lent_bytes(head.consumed),
                record,
                ..Exchange::new(id, turn.now_ms(), turn.context.bounds.handler_timeout_ms)
            },
            encoding: Encoding { framing, delimiter },
            is_safe: head.method.is_safe(),
        };
        let left = (outcome, status != 0, is_open);
        self.called(turn, queued, left, (head, content, is_persistent));
        self.truncate_started(turn, id, (lacks_memory, is_lost));
    }

    /// Truncates a response that has started, if there was no memory to continue it. If what was written of it `is_lost`, a complete one too.
    fn truncate_started<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        (lacks_memory, is_lost): (bool, bool),
    ) {
        if !lacks_memory && !is_lost {
            return;
        }
        let Some(last) = self.queue.back_mut().filter(|last| last.exchange.id == id) else {
            return;
        };
        match last.exchange.progress {
            Progress::Pushed | Progress::Pulled => turn.abort(id, Abort::Refused),
            Progress::Done if is_lost => {}
            Progress::Waiting | Progress::Done | Progress::Cut => return,
        }
        last.exchange.cut();
    }

    /// Adds a response that was complete when the call returned.
    #[inline]
    fn responded<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        began_ms: u64,
        (head, content): (&RequestHead<'_>, Content<'_>),
        sent: (u16, u64),
    ) {
        self.since_ms = turn.now_ms();
        if turn.context.is_recorded {
            let record = turn.record_call(began_ms, (head, content), sent, true);
            // A call may take any time.
            turn.context.clock.tick();
            turn.context.complete(record);
        }
    }

    /// Handles every outcome except a response that is complete at once (there may be one, with its content left open): queues the exchange
    /// and decides who takes its content.
    fn called<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        mut queued: Queued,
        (outcome, has_responded, is_open): (Outcome, bool, bool),
        (head, content, is_persistent): (&RequestHead<'_>, Content<'_>, bool),
    ) {
        let Queued {
            exchange, encoding, ..
        } = &mut queued;
        if turn.context.mailbox.has_output() {
            // Posted output is sent before the next request is called.
            turn.context.share.use_up();
        }
        let mut taker = Taker::Nobody;
        match outcome {
            Outcome::ReadContent if content == Content::Later => {
                taker = Taker::Call(OwnedHead::of(Head::of(head)))
            }
            Outcome::Pending => {
                exchange.out.tail().clear();
                encoding.framing.persistent = is_persistent;
                taker = Taker::unasked(exchange.id);
            }
            Outcome::Streaming if has_responded => exchange.progress = Progress::Pulled,
            Outcome::Begun if is_open && content != Content::Later => {
                exchange.progress = Progress::Pushed;
                exchange.awaits_writable = true;
            }
            Outcome::Responded if is_open => exchange.cut(),
            Outcome::Responded if has_responded => exchange.progress = Progress::Done,
            // The application broke its contract: the response is missing.
            _ => {
                exchange.out.tail().clear();
                encoding.framing.persistent &= is_persistent;
                queued.respond(&mut turn.context.responder, &Response::failure());
            }
        }
        let goes_on = queued.encoding.framing.persistent;
        let is_call = matches!(taker, Taker::Call(_));
        if content == Content::Later && (goes_on || !matches!(taker, Taker::Nobody)) {
            if is_call && head.expects_continue {
                turn.context.responder.out.extend_from_slice(wire::CONTINUE);
            }
            let owes_continue = head.expects_continue && !is_call;
            let incoming = Incoming::new(
                head.body_length,
                taker,
                owes_continue,
                is_persistent,
                turn.context,
            );
            self.reading = Reading::Content(Box::new(incoming));
        } else if !goes_on {
            self.stop_reading(match content {
                Content::Later => Ending::Unread,
                Content::Whole(_) => Ending::after(head),
            });
        }
        if queued.ends_with_connection() {
            turn.link.guard(true);
        }
        if !is_call {
            if turn.link.is_half_closed() && !queued.exchange.is_ended() {
                match turn.link.seems_gone() && self.open_exchanges().next().is_some() {
                    true => turn.app.peer_ended(queued.exchange.id),
                    false => turn.link.watch_departure_anew(turn.context.clock.now_ms()),
                }
            }
            self.queue.push_back(queued);
        }
    }

    /// Sends an error response in its place in the order, and reads nothing more.
    #[cold]
    pub(super) fn refuse<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        refused: Refused<'_>,
        status: u16,
        reason: &str,
    ) {
        let response = Response::error(status, reason);
        self.refuse_with(turn, refused, reason, &response);
    }

    /// As [`H1::refuse`], with a response of more than status and reason.
    #[cold]
    pub(super) fn refuse_with<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        refused: Refused<'_>,
        reason: &str,
        response: &Response,
    ) {
        self.stop_reading(Ending::Unread);
        let (head, is_head) = match refused {
            Refused::Head(head) => (Some(head), head.method == wire::Method::Head),
            Refused::Malformed(received) => (None, is_head_method(received)),
            Refused::Unread { is_head } => (None, is_head),
        };
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        let mut queued = Queued {
            exchange: Exchange {
                record: turn.record(turn.now_ms(), head, (0, 0)),
                ..Exchange::new(id, turn.now_ms(), turn.context.bounds.handler_timeout_ms)
            },
            encoding: Encoding::of_refusal(is_head),
            is_safe: false,
        };
        if let Refused::Malformed(received) = refused {
            queued.exchange.record.malformed(received);
        }
        turn.context.refusals.add(response.status, reason);
        queued.respond(&mut turn.context.responder, response);
        self.queue.push_back(queued);
    }
}

/// Sends the earlier responses before a call whose own response waits elsewhere: they must not wait for it. Returns what is left to be
/// sent, which is nothing.
#[cold]
fn send_earlier(link: &mut Link, context: &mut Context) -> usize {
    // What runs next detects a broken connection.
    let _ = link.flush(context, false);
    0
}

/// What is known of a refused request.
#[derive(Clone, Copy)]
pub(super) enum Refused<'a> {
    /// Its head.
    Head(&'a RequestHead<'a>),
    /// What was received of its head, which is malformed.
    Malformed(&'a [u8]),
    /// Its head could not be parsed, except for the method: the response to HEAD has no content (RFC 9110 section 9.3.2).
    Unread { is_head: bool },
}

/// The content of `length` bytes, if all of it has arrived.
pub(super) fn content_in(after: &[u8], length: u64) -> Option<&[u8]> {
    after.get(..usize::try_from(length).ok()?)
}

/// Whether the request that starts with `bytes` is a HEAD, even if the rest is malformed.
pub(super) fn is_head_method(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(EMPTY_LINE).unwrap_or(bytes);
    bytes.starts_with(b"HEAD ")
}

pub(super) fn is_discardable(head: &RequestHead<'_>) -> bool {
    let is_short =
        matches!(head.body_length, BodyLength::Known(length) if length <= DISCARD_BYTES_MAX);
    is_short && !head.expects_continue
}
