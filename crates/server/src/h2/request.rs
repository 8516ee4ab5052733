//! Decodes requests and passes them to the application.

use std::panic::{AssertUnwindSafe, catch_unwind};

use net::memory::is_short;
use wire::h2::{
    BlockError, BlockLimits, ErrorCode, FRAME_BYTES_MAX, Frame, Parsed, Priority, SendWindow,
    State, Violation, frame,
};
use wire::{BodyLength, RequestHead};

use super::handlers::guarded;
use super::holding::note_begun;
use super::input::compression;
use super::start::owed_bytes;
use super::stream::{Encoding, Stream};
use super::{H2, Leaving};
use crate::app::head::{Head, OwnedHead};
use crate::app::{Abort, App, Content, Outcome};
use crate::context::record::Record;
use crate::context::{Context, REQUEST_SPARE_BYTES};
use crate::exchange::content::{Inbound, Taker};
use crate::exchange::output::Output;
use crate::exchange::{Exchange, Progress};
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::mailbox::Command;
use crate::responder::{Framing, Responder};
use crate::response::{CONTENT_TOO_LONG, Response};

const SECTION_TOO_LARGE: &str = "The header section is larger than this server accepts.";
const TARGET_TOO_LONG: &str = "The request target is longer than this server accepts.";
const UNKNOWN_PROTOCOL: &str = "Extended CONNECT is for WebSocket only.";

/// A stream that is opened, before it has a record.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) stream: u32,
    /// The request has no content that is still to arrive.
    pub(super) is_last: bool,
    pub(super) send_window: SendWindow,
    /// What is known of it already.
    pub(super) priority: Option<Priority>,
}

/// What is known of a request that is refused.
#[derive(Clone, Copy)]
pub(super) enum Known<'a> {
    Head(&'a RequestHead<'a>),
    /// Its head was not parsed.
    Method(&'a [u8]),
}

impl H2 {
    /// A complete header block: a request, or the trailer section of one. Returns how much of `after` was used too.
    #[inline]
    pub(super) fn header_block<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        (stream, is_last): (u32, bool),
        block: &[u8],
        after: &[u8],
    ) -> Result<usize, Violation> {
        if stream > self.opened.last() {
            let new = New {
                stream,
                is_last,
                send_window: SendWindow::new(self.client.window_bytes),
                priority: None,
            };
            return self.request(turn, new, block, after);
        }
        if let Some(index) = self.index_of(stream) {
            return self.trailers(turn, index, is_last, block).map(|()| 0);
        }
        if self.has_reset(stream) {
            // Sent before the client has seen the reset.
            self.decoder.skip(block).map_err(compression)?;
            return self.count_idle(turn).map(|()| 0);
        }
        self.opened.open(stream).map(|()| 0)
    }

    #[inline]
    fn request<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        block: &[u8],
        after: &[u8],
    ) -> Result<usize, Violation> {
        self.opened.open(new.stream)?;
        let is_refused = match self.leaving {
            Leaving::Final { .. } => true,
            Leaving::No | Leaving::Announced { .. } => !self.has_place(turn),
        };
        if is_refused {
            return self.refuse_stream(turn, new.stream, block);
        }
        self.flood.request();
        turn.context.metrics.stream_opened();
        let limits = block_limits(turn.context);
        let mut text = std::mem::take(&mut turn.context.decoded_head);
        let decoded = self.decoder.request(block, &limits, &mut text);
        let used = match decoded {
            Ok(()) => self.decoded(turn, new, &text, after),
            Err(BlockError::Compression) => Err(compression(())),
            Err(BlockError::Malformed(reason)) => {
                // It has a line and is counted, as over HTTP/1, although its stream is reset.
                let record = record(turn, None, (400, 0));
                turn.context.complete(record);
                Err(malformed(new.stream, reason))
            }
            Err(BlockError::TooLarge) => {
                self.refuse(turn, new, Known::Method(&text), (431, SECTION_TOO_LARGE));
                Ok(0)
            }
            Err(BlockError::TargetTooLong) => {
                self.refuse(turn, new, Known::Method(&text), (414, TARGET_TOO_LONG));
                Ok(0)
            }
            Err(BlockError::UnknownProtocol) => {
                self.refuse(turn, new, Known::Method(&text), (501, UNKNOWN_PROTOCOL));
                Ok(0)
            }
        };
        turn.context.decoded_head = text;
        let context = &mut *turn.context;
        let is_much = context.responder.out.len() as u64 >= context.limits.send_buffer_bytes_max;
        if context.share.is_used_by_request(&mut context.clock) || is_much {
            self.waits_for_turn = true;
        }
        used
    }

    /// Whether one more stream may be opened. A client may reset as many as are allowed and open others, before the handlers notice it.
    #[inline]
    pub(super) fn has_place<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let limits = &turn.context.limits;
        let places = limits.h2_streams_max;
        let running_max = places.saturating_add(limits.h2_resets_max);
        let open = self.streams.len() as u64;
        if open + self.handlers.count() >= running_max && self.handlers.count() > 0 {
            self.handlers.forget_ended(turn.app);
        }
        open < places && open + self.handlers.count() < running_max
    }

    #[cold]
    fn refuse_stream<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        stream: u32,
        block: &[u8],
    ) -> Result<usize, Violation> {
        self.decoder.skip(block).map_err(compression)?;
        Err(Violation::of_stream(
            stream,
            ErrorCode::REFUSED_STREAM,
            match turn.context.is_draining() {
                true => "the server is stopping",
                false => "too many concurrent streams",
            },
        ))
    }

    /// Serves a request whose head was decoded.
    #[inline]
    fn decoded<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        text: &[u8],
        after: &[u8],
    ) -> Result<usize, Violation> {
        let memo = Some(&mut turn.context.memo);
        let head = match wire::parse_decoded_request(text, !new.is_last, memo) {
            Ok(head) => head,
            Err(error) => {
                let refusal = (error.kind.status(), error.kind.reason());
                let method = text.split(|byte| *byte == b' ').next();
                let known = Known::Method(method.unwrap_or_default());
                self.refuse(turn, new, known, refusal);
                return Ok(0);
            }
        };
        match head.notes.is_any() | turn.context.is_guarded {
            false => self.begin(turn, new, &head, after),
            true => self.begin_guarded(turn, new, &head, after),
        }
    }

    /// Starts a request, if nothing is against it.
    #[inline(always)]
    pub(super) fn begin<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> Result<usize, Violation> {
        let growth_bytes = self.growth_bytes();
        if is_short(REQUEST_SPARE_BYTES + growth_bytes) {
            return self.refuse_for_memory(turn, new, head, growth_bytes);
        }
        if turn.context.budget.is_pressed() && self.exceeds_budget(turn, new, head, after) {
            return Ok(0);
        }
        if head.asks_websocket {
            match self.handshake(turn, new, head) {
                Ok(handshake) => self.offer(turn, new, head, handshake),
                Err(refused) => {
                    let response = refused.response();
                    self.refuse_with(turn, new, Known::Head(head), refused.reason, response);
                }
            }
            return Ok(0);
        }
        match head.body_length {
            BodyLength::None if new.is_last && self.may_start(turn) => {
                self.call(turn, new, head, Content::Whole(b""));
                Ok(0)
            }
            BodyLength::Known(length) if length > turn.context.bounds.body_bytes_max => {
                self.refuse(turn, new, Known::Head(head), (413, CONTENT_TOO_LONG));
                Ok(0)
            }
            _ if !self.may_start(turn) => {
                self.defer(turn, new, head);
                Ok(0)
            }
            _ => match H2::whole_content(new.stream, head, after, turn.context) {
                Some((content, used)) => {
                    let whole = New {
                        is_last: true,
                        ..new
                    };
                    self.take_connection_window(turn, content.len() as u32);
                    self.call(turn, whole, head, Content::Whole(content));
                    Ok(used)
                }
                None => {
                    self.call(turn, new, head, Content::Later);
                    Ok(0)
                }
            },
        }
    }

    /// What the records of streams need to grow: growth doubles them, and they are copied.
    pub(super) fn growth_bytes(&self) -> usize {
        match self.streams.len() < self.streams.capacity() {
            true => 0,
            false => 2 * self.streams.capacity() * size_of::<Stream>(),
        }
    }

    /// The content, if the frame after HEADERS contains all of it, and the length of that frame.
    ///
    /// Content that a limit or the window does not allow is left to the way of content in parts.
    pub(super) fn whole_content<'a>(
        id: u32,
        head: &RequestHead<'_>,
        after: &'a [u8],
        context: &Context,
    ) -> Option<(&'a [u8], usize)> {
        let window_bytes = u64::from(context.limits.h2_window_bytes());
        let bytes_max = context.bounds.body_bytes_max.min(window_bytes);
        let Ok(Parsed::Frame(frame, used)) = wire::h2::parse(after, FRAME_BYTES_MAX) else {
            return None;
        };
        match frame {
            Frame::Data {
                stream,
                content,
                window_bytes,
                is_last: true,
            } if stream == id
                && window_bytes as usize == content.len()
                && u64::from(window_bytes) <= bytes_max =>
            {
                let is_announced = match head.body_length {
                    BodyLength::Known(length) => length == content.len() as u64,
                    BodyLength::Chunked => true,
                    BodyLength::None => content.is_empty(),
                };
                is_announced.then_some((content, used))
            }
            _ => None,
        }
    }

    /// Calls the application.
    #[inline]
    fn call<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        content: Content<'_>,
    ) {
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        let outcome = self.call_application(turn, new, (head, content), id);
        let context = &mut *turn.context;
        let frames = &context.responder.frames;
        self.send_window.use_up(frames.framed_bytes);
        self.flood.sent(frames.framed_bytes);
        let is_over = outcome == Ok(Outcome::Responded) && frames.has_ended;
        if is_over && new.is_last && context.responder.is_usual {
            self.idle_since_ms = context.clock.now_ms();
            let status = context.responder.status;
            if context.is_recorded && (status != 200 || !context.is_only_counted(head)) {
                let sent = (status, context.responder.content_bytes);
                let record = turn.record_call(turn.now_ms(), (head, content), sent, true);
                turn.context.complete(record);
            }
            return;
        }
        self.called(turn, new, (head, content), id, outcome);
    }

    /// The application's result, or an error if it has panicked.
    #[inline]
    pub(super) fn call_application<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        (head, content): (&RequestHead<'_>, Content<'_>),
        id: ExchangeId,
    ) -> Result<Outcome, ()> {
        self.out(turn);
        let responder = &mut turn.context.responder;
        let is_next = content != Content::Later && !turn.link.is_full();
        responder.call_begins(Framing::of(head, true), is_next);
        let frames = &mut responder.frames;
        std::mem::swap(&mut frames.encoder, &mut self.encoder);
        frames.stream = new.stream;
        frames.window_bytes = match turn.link.is_full() || self.has_unsent_content() {
            true => 0,
            false => new
                .send_window
                .available()
                .min(self.send_window.available()),
        };
        frames.payload_bytes_max = self.client.payload_bytes_max;
        frames.framed_bytes = 0;
        frames.has_ended = false;
        let said = (&turn.context.proxies, &mut turn.context.forwarded);
        let request = turn.link.request(said, responder, head, (content, id));
        if let Some(slow) = &turn.context.slow {
            slow.call_begins(id, request.head);
        }
        let app = &mut *turn.app;
        let called = catch_unwind(AssertUnwindSafe(|| app.call_stream(&request, responder)));
        std::mem::swap(&mut responder.frames.encoder, &mut self.encoder);
        called.map_err(|_| ())
    }

    /// Whether content of other streams waits for its turn: what is written now must not overtake it for ever.
    fn has_unsent_content(&self) -> bool {
        !self.streams.is_empty() && self.streams.iter().any(Stream::has_unsent)
    }

    /// Handles every outcome except a response that is complete at once: the stream gets a record.
    pub(super) fn called<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        (head, content): (&RequestHead<'_>, Content<'_>),
        id: ExchangeId,
        outcome: Result<Outcome, ()>,
    ) {
        let context = &mut *turn.context;
        if context.responder.sent_bytes > 0 {
            turn.link.was_sent_in_call(context);
        }
        let lacks_memory = context.note_lacked_response();
        if context.mailbox.has_output() {
            // Posted output is sent before the next request is called.
            self.waits_for_turn = true;
        }
        let Responder {
            status,
            is_open,
            content_bytes,
            delimiter,
            frames,
            ..
        } = &mut context.responder;
        let (status, is_open, sent_bytes) = (*status, *is_open, *content_bytes);
        let mut encoding = Encoding::new(head.method == wire::Method::Head);
        encoding.delimiter = *delimiter;
        encoding.has_ended = frames.has_ended;
        let mut send_window = new.send_window;
        send_window.use_up(frames.framed_bytes);
        let written = std::mem::take(&mut frames.content);
        let now_ms = context.clock.tick();
        let sent = (status, sent_bytes);
        let record = turn.record_call(turn.now_ms(), (head, content), sent, false);
        let mut exchange = Exchange {
            out: Output::new(written),
            lent_bytes: content.lent_bytes(head.consumed),
            record,
            ..Exchange::new(id, now_ms, turn.context.bounds.handler_timeout_ms)
        };
        let is_failure = !settle_outcome(&mut exchange, outcome, (status, is_open, content));
        let taker = match outcome {
            Ok(Outcome::ReadContent) if content == Content::Later => {
                exchange.record.forget_call();
                Taker::Call(OwnedHead::of(Head::of(head)))
            }
            Ok(Outcome::Pending) => Taker::unasked(id),
            _ => Taker::NobodyYet,
        };
        if lacks_memory && matches!(exchange.progress, Progress::Pushed | Progress::Pulled) {
            self.handlers.abort(turn, id, Abort::Refused);
            exchange.cut();
        }
        let windows = (send_window, self.new_receive_window(turn));
        let state = State::opened(new.is_last);
        let mut stream = Stream::new(new.stream, state, exchange, encoding, windows);
        let priority = new.priority;
        stream.priority = priority.unwrap_or_else(|| self.initial_priority(new.stream, head));
        if content == Content::Later {
            let is_call = matches!(taker, Taker::Call(_));
            let owes_continue = head.expects_continue && !is_call;
            stream.inbound = Some(Box::new(Inbound::new(taker, owes_continue, turn.context)));
            stream.owed_bytes = owed_bytes(head);
            if head.expects_continue && is_call {
                self.push_continue(new.stream);
            }
        }
        note_begun(turn.context, stream.exchange.request_bytes());
        // Streams that were opened later come after it.
        let index = self.streams.partition_point(|it| it.id < stream.id);
        self.streams.insert(index, stream);
        if is_failure {
            self.respond(turn, index, Command::Respond(Response::failure()));
        }
        if outcome == Ok(Outcome::RespondedEarly) {
            self.send_early(turn);
        }
    }

    /// Sends a response after which the application continues to work.
    #[cold]
    fn send_early<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        self.emit(turn);
        // What runs next detects a broken connection.
        let _ = turn.link.flush(turn.context, false);
        turn.context.responder.batch.send_now();
        // The stream has its response.
        let _ = guarded(|| turn.app.response_written(&mut turn.context.responder));
        turn.context.metrics.call_ended(); // its time is not the next request's
    }

    /// Asks the client for the content that it announced.
    pub(super) fn push_continue(&mut self, stream: u32) {
        let (encoder, bytes_max) = (&mut self.encoder, self.client.payload_bytes_max);
        frame::push_headers(&mut self.frames, stream, false, bytes_max, |out| {
            encoder.response(100, &[], None, out);
        });
    }

    /// Sends an error response to a request that is not passed on. Its content is discarded.
    #[cold]
    pub(super) fn refuse<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        known: Known<'_>,
        (status, reason): (u16, &str),
    ) {
        let response = Response::error(status, reason);
        self.refuse_with(turn, new, known, reason, response);
    }

    /// Responds without the application, with a response of its own. The content that may follow is dropped.
    #[cold]
    pub(super) fn refuse_with<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        known: Known<'_>,
        reason: &str,
        response: Response,
    ) {
        let (head, is_head) = match known {
            Known::Head(head) => (Some(head), head.method == wire::Method::Head),
            Known::Method(method) => (None, method == b"HEAD"),
        };
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        turn.context.refusals.add(response.status, reason);
        let exchange = Exchange {
            record: record(turn, head, (0, 0)),
            ..Exchange::new(id, turn.now_ms(), turn.context.bounds.handler_timeout_ms)
        };
        let windows = (new.send_window, self.new_receive_window(turn));
        let state = State::opened(new.is_last);
        let encoding = Encoding::new(is_head);
        let mut stream = Stream::new(new.stream, state, exchange, encoding, windows);
        if !new.is_last {
            let inbound = Inbound::new(Taker::NobodyYet, false, turn.context);
            stream.inbound = Some(Box::new(inbound));
        }
        self.streams.push(stream);
        self.respond(turn, self.streams.len() - 1, Command::Respond(response));
    }

    /// The trailer section of a request: it ends the content, and its fields are dropped.
    fn trailers<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        is_last: bool,
        block: &[u8],
    ) -> Result<(), Violation> {
        let limits = block_limits(turn.context);
        let mut section = std::mem::take(&mut turn.context.decoded_head);
        let decoded = self.decoder.trailers(block, &limits, &mut section);
        turn.context.decoded_head = section;
        let Some(stream) = self.streams.get(index) else {
            return Ok(());
        };
        let id = stream.id;
        let reason = match decoded {
            Err(BlockError::Compression) => return Err(compression(())),
            _ if !stream.state.takes_content() => {
                let reason = "HEADERS after the end of the stream";
                return Err(Violation::of_stream(id, ErrorCode::STREAM_CLOSED, reason));
            }
            Err(BlockError::Malformed(reason)) => reason,
            Err(BlockError::TooLarge | BlockError::TargetTooLong | BlockError::UnknownProtocol) => {
                "a trailer section is too large"
            }
            Ok(()) if !is_last => "a second header section that does not end the stream",
            Ok(()) => return self.content_ended(turn, index),
        };
        Err(malformed(id, reason))
    }
}

/// Records how far a response is after a call. Returns false if it is missing: the application broke its contract, or panicked.
fn settle_outcome(
    exchange: &mut Exchange,
    outcome: Result<Outcome, ()>,
    (status, is_open, content): (u16, bool, Content<'_>),
) -> bool {
    match outcome {
        Ok(Outcome::ReadContent) if content == Content::Later => {}
        Ok(Outcome::Pending) => {}
        Ok(Outcome::Streaming) if status != 0 => exchange.progress = Progress::Pulled,
        Ok(Outcome::Begun) if is_open && content != Content::Later => {
            exchange.progress = Progress::Pushed;
            exchange.awaits_writable = true;
        }
        Ok(Outcome::Responded | Outcome::RespondedEarly) if status != 0 && !is_open => {
            exchange.progress = Progress::Done;
        }
        _ if status != 0 => exchange.cut(),
        _ => return false,
    }
    true
}

#[cold]
pub(super) fn malformed(stream: u32, reason: &'static str) -> Violation {
    Violation::of_stream(stream, ErrorCode::PROTOCOL_ERROR, reason)
}

fn block_limits(context: &Context) -> BlockLimits {
    BlockLimits {
        section_bytes_max: context.limits.header_section_bytes_max as usize,
        lines_max: context.limits.field_lines_max as usize,
        target_bytes_max: context.limits.request_line_bytes_max as usize,
    }
}

/// What is to be recorded of a request.
pub(super) fn record<A: App>(
    turn: &Turn<'_, A>,
    head: Option<&RequestHead<'_>>,
    sent: (u16, u64),
) -> Record {
    turn.record(turn.now_ms(), head, sent)
}
