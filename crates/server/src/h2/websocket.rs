//! WebSockets on streams (RFC 8441): an extended CONNECT opens one, DATA frames carry its octets in both directions.
//!
//! | carried | event | then |
//! | --- | --- | --- |
//! | `Offered` | the application accepts | the response 200; `Open` |
//! | `Offered` | the application refuses, or is late | the stream ends as any other |
//! | `Offered` | the peer ends the stream | nothing, until the application decides |
//! | `Offered` | there is no memory for what arrives | the stream is reset |
//! | `Open` | the WebSocket has ended ([`crate::websocket`]), and everything is sent | END_STREAM |
//! | `Open` | the peer has ended the stream | the WebSocket is lost once it has used what arrived, as after the end of a connection |
//! | `Open` | the stream is reset | the WebSocket is lost |
//!
//! A window opens when the WebSocket has used what arrived: an application that has enough stops its stream, and no other.

use wire::h2::{ErrorCode, State, frame};
use wire::websocket::CloseCode;
use wire::{BodyLength, RequestHead};

use super::H2;
use super::handlers::{Handlers, guarded};
use super::request::{New, record};
use super::stream::{Encoding, Stream};
use crate::app::head::Head;
use crate::app::websocket::{Offer, Opening};
use crate::app::{App, Content};
use crate::context::Context;
use crate::exchange::{Exchange, Progress};
use crate::id::ExchangeId;
use crate::limits::{AHEAD_BYTES, SHORT_MESSAGE_BYTES};
use crate::link::Turn;
use crate::mailbox::Command;
use crate::response::Response;
use crate::websocket::opening::{Handshake, Refused, check_h2};
use crate::websocket::{Ending, Pause, STOPPING, WebSocket};

const NOT_TAKEN: &str = "This application takes no WebSockets here.";
/// A WebSocket that uses so many octets at once receives long messages, or many: half of a frame of DATA.
const LONG_READ_BYTES: usize = 8192;

const HAS_CONTENT: &str = "a WebSocket handshake has no content";

/// What a stream carries instead of a request's content.
#[allow(
    clippy::large_enum_variant,
    reason = "each is in a box of its own, and nearly all are open"
)]
pub(super) enum Carried {
    /// The application has not decided. What arrives waits.
    Offered {
        handshake: Handshake,
        input: Vec<u8>,
    },
    Open {
        websocket: WebSocket,
        /// Input that could not be used yet.
        input: Vec<u8>,
    },
}

impl Carried {
    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let own = match self {
            Carried::Offered { input, .. } => input.capacity(),
            Carried::Open { websocket, input } => input.capacity() + websocket.held_bytes(),
        };
        own + size_of::<Carried>()
    }

    pub(super) fn websocket(&mut self) -> Option<&mut WebSocket> {
        match self {
            Carried::Offered { .. } => None,
            Carried::Open { websocket, .. } => Some(websocket),
        }
    }
}

impl H2 {
    /// An extended CONNECT for WebSocket.
    #[cold]
    pub(super) fn handshake<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
    ) -> Result<Handshake, Refused> {
        if !turn.app.takes_websocket(&Head::of(head)) {
            return Err(Refused::new(501, NOT_TAKEN));
        }
        if new.is_last || head.body_length != BodyLength::Chunked {
            return Err(Refused::new(400, HAS_CONTENT));
        }
        if turn.context.budget.is_pressed() {
            let (status, reason) = turn.context.budget_refusal();
            return Err(Refused::new(status, reason));
        }
        check_h2(head, &turn.context.websockets)?.counted(turn, head)
    }

    /// Passes a valid handshake to the application.
    #[cold]
    pub(super) fn offer<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        handshake: Handshake,
    ) {
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        let said = (&turn.context.proxies, &mut turn.context.forwarded);
        let responder = &mut turn.context.responder;
        let content = Content::Whole(b"");
        let request = turn.link.request(said, responder, head, (content, id));
        let offer = Offer {
            field_section: head.field_section,
        };
        responder.message_begins(false);
        let app = &mut *turn.app;
        let is_called = guarded(|| app.websocket(&request, &offer, responder)).is_some();
        let now_ms = turn.context.clock.tick();
        let exchange = Exchange {
            record: record(turn, Some(head), (0, 0)),
            ..Exchange::new(id, now_ms, turn.context.bounds.handler_timeout_ms)
        };
        let windows = (new.send_window, self.new_receive_window(turn));
        let (state, encoding) = (State::opened(false), Encoding::new(false));
        let mut stream = Stream::new(new.stream, state, exchange, encoding, windows);
        stream.priority = self.initial_priority(new.stream, head);
        // Its messages are used as they arrive, and may never end: others must not wait for that.
        stream.priority.is_incremental = true;
        stream.carried = Some(Box::new(Carried::Offered {
            handshake,
            input: Vec::new(),
        }));
        self.streams.push(stream);
        if !is_called {
            let index = self.streams.len() - 1;
            self.respond(turn, index, Command::Respond(Response::failure()));
        }
    }

    /// Executes a command for a stream with a handshake or a WebSocket. Returns the command if it is one for any exchange.
    pub(super) fn obey_websocket<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        command: Command,
    ) -> Option<Command> {
        let stream = self.streams.get_mut(index)?;
        match (stream.carried.as_deref_mut(), command) {
            (Some(Carried::Open { websocket, .. }), command) => {
                websocket.obey(turn, command);
                None
            }
            (Some(Carried::Offered { .. }), Command::Open(opening)) => {
                self.accept(turn, index, &opening);
                None
            }
            (_, command) => Some(command),
        }
    }

    /// The application accepts.
    fn accept<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, opening: &Opening) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(Carried::Offered { handshake, input }) = stream.carried.as_deref_mut() else {
            return;
        };
        if stream.exchange.progress != Progress::Waiting {
            return;
        }
        let id = stream.exchange.id;
        let mut websocket = WebSocket::new(id, handshake, turn.context);
        let fields = handshake.fields(opening);
        let input = std::mem::take(input);
        if turn.context.is_draining() {
            let (code, reason) = STOPPING;
            websocket.close_because(turn, code, reason);
        }
        stream.carried = Some(Box::new(Carried::Open { websocket, input }));
        let response = Response {
            status: 200,
            fields,
            ..Response::default()
        };
        self.respond(turn, index, Command::BeginOpen(response));
        // As over HTTP/1.1, its line in the log is that of its handshake.
        if let Some(stream) = self.streams.get_mut(index) {
            let record = std::mem::take(&mut stream.exchange.record);
            turn.context.complete(record);
        }
    }

    /// Octets arrive on a stream that carries a WebSocket.
    pub(super) fn carry<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, content: &[u8]) {
        let stream = self.streams.get_mut(index);
        let Some(carried) = stream.and_then(|stream| stream.carried.as_deref_mut()) else {
            return;
        };
        let (Carried::Offered { input, .. } | Carried::Open { input, .. }) = carried;
        if net::memory::append(input, content).is_err() {
            turn.context.note_shortage(content.len());
            match carried.websocket() {
                Some(websocket) => websocket.break_off(turn.context),
                None => return self.lacks_memory_for(turn, index),
            }
        }
        self.serve_websocket(turn, index);
    }

    /// There is no memory for octets that wait for the application's decision: what follows them would be invalid.
    #[cold]
    fn lacks_memory_for<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        self.end_stream(turn, index, ErrorCode::INTERNAL_ERROR);
    }

    /// Ends the WebSocket of a stream if incomplete messages of all streams are longer than one may be: a connection holds no more than one
    /// of HTTP/1.1 does.
    fn limit_messages<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let bytes = |stream: &Stream| match stream.carried.as_deref() {
            Some(Carried::Open { websocket, .. }) => websocket.message_bytes(),
            Some(Carried::Offered { .. }) | None => 0,
        };
        let here = self.streams.get(index).map_or(0, bytes);
        if here <= SHORT_MESSAGE_BYTES {
            return;
        }
        let all: usize = self.streams.iter().map(bytes).sum();
        let all_max = turn.context.websockets.limits.message_bytes_max + SHORT_MESSAGE_BYTES;
        if here == all || all <= all_max {
            return;
        }
        if let Some(stream) = self.streams.get_mut(index)
            && let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket)
        {
            let reason = "the connection receives too many long messages at the same time";
            let frames = std::mem::take(&mut turn.context.responder.out);
            let _ = guarded(|| websocket.cut_off(turn, CloseCode::TRY_AGAIN_LATER, reason));
            websocket.drain_to(turn.context, stream.exchange.out.tail());
            turn.context.responder.out = frames;
        }
    }

    /// Serves the WebSockets that have something to do. Input that waits is served one stream after the other, until the connection's turn
    /// is over; the next turn continues there.
    pub(super) fn serve_websockets<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let count = self.streams.len();
        let first = self.websocket_of.min(count);
        for index in (first..count).chain(0..first) {
            if self.is_carried(index) {
                let was_over = self.waits_for_turn;
                self.serve_websocket(turn, index);
                if self.waits_for_turn && !was_over {
                    self.websocket_of = index + 1;
                }
            }
        }
    }

    /// Whether input of a WebSocket that has waited for room can be served now that some has been sent.
    pub(super) fn may_serve_websockets(&self, context: &Context) -> bool {
        let may_serve = |stream: &Stream| match stream.carried.as_deref() {
            Some(Carried::Open { websocket, input }) => {
                !input.is_empty() && websocket.takes_input() && has_room(stream, context)
            }
            Some(Carried::Offered { .. }) | None => false,
        };
        !self.waits_for_turn && self.streams.iter().any(may_serve)
    }

    /// Whether a stream carries a WebSocket, or the handshake of one.
    pub(super) fn is_carried(&self, index: usize) -> bool {
        let stream = self.streams.get(index);
        stream.is_some_and(|stream| stream.carried.is_some())
    }

    /// Leaves what WebSockets have to send to the output of their streams, without calling the application.
    pub(super) fn flush_websockets<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let frames = std::mem::take(&mut turn.context.responder.out);
        for stream in &mut self.streams {
            if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket)
                && stream.exchange.progress == Progress::Pushed
            {
                websocket.drain_to(turn.context, stream.exchange.out.tail());
            }
        }
        turn.context.responder.out = frames;
    }

    /// Serves input that waits on a stream, and leaves what is to be sent to its output.
    fn serve_websocket<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let has_room = has_room(stream, turn.context);
        let Some(Carried::Open { websocket, input }) = stream.carried.as_deref_mut() else {
            return;
        };
        if stream.exchange.progress != Progress::Pushed {
            return;
        }
        let frames = std::mem::take(&mut turn.context.responder.out);
        let (mut used, mut is_broken) = (0, false);
        websocket.drain_to(turn.context, stream.exchange.out.tail());
        let may_receive = has_room && !self.waits_for_turn;
        if may_receive && websocket.takes_input() && !input.is_empty() {
            let mut data = std::mem::take(input);
            match guarded(|| websocket.receive(turn, &mut data, false)) {
                Some((count, pause)) => {
                    used = count;
                    self.waits_for_turn |= pause == Pause::Turn;
                }
                None => is_broken = true,
            }
            data.drain(..used);
            if !data.is_empty() {
                *input = data;
            }
            websocket.pass_on(turn.context, stream.exchange.out.tail());
            websocket.drain_to(turn.context, stream.exchange.out.tail());
        }
        is_broken |= guarded(|| websocket.report_lack(turn)).is_none();
        turn.context.responder.out = frames;
        stream.exchange.awaits_writable |= websocket.takes_writable_notice();
        if used >= LONG_READ_BYTES {
            self.widen(index);
        }
        if used > 0 {
            self.open_stream_window(index, used as u32);
            // This may end it, and nothing else may have to be done for its connection.
            self.limit_messages(turn, index);
        }
        self.note_ending(turn, index, is_broken);
    }

    /// Ends the stream of a WebSocket that has ended, or the WebSocket of a stream that its peer has ended.
    fn note_ending<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, is_broken: bool) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket) else {
            return;
        };
        let ending = websocket.ending();
        if is_broken || ending == Some(Ending::Broken) {
            let _ = guarded(|| websocket.lost(turn));
            stream.exchange.cut();
        } else if ending.is_some() {
            stream.exchange.progress = Progress::Done;
        } else if !stream.state.takes_content() {
            H2::end_websocket(&mut self.handlers, turn, stream);
        }
    }

    /// Lets the client of a WebSocket that reads much send further ahead, so that long messages take fewer round trips. One of a connection may,
    /// until its stream is over.
    fn widen(&mut self, index: usize) {
        let is_free = |id: u32| self.index_of(id).is_none();
        if self.websocket_ahead.is_none_or(is_free)
            && let Some(stream) = self.streams.get_mut(index)
            && stream.state.takes_content()
        {
            self.websocket_ahead = Some(stream.id);
            stream.receive_window.grow(AHEAD_BYTES);
        }
    }

    /// The peer has ended a stream. A WebSocket that it carries is lost, unless input still waits, which may hold a close frame.
    pub(super) fn end_websocket<A: App>(
        handlers: &mut Handlers,
        turn: &mut Turn<'_, A>,
        stream: &mut Stream,
    ) {
        if let Some(Carried::Open { input, .. }) = stream.carried.as_deref()
            && input.is_empty()
        {
            H2::lose_websocket(handlers, turn, stream);
        }
    }

    /// A stream that carries a WebSocket is over.
    pub(super) fn lose_websocket<A: App>(
        handlers: &mut Handlers,
        turn: &mut Turn<'_, A>,
        stream: &mut Stream,
    ) {
        if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket) {
            let _ = guarded(|| websocket.lost(turn));
            handlers.note_end(turn.app, stream.exchange.id);
            if stream.exchange.progress == Progress::Pushed {
                stream.exchange.progress = Progress::Done;
            }
        }
    }

    /// The server drains: the clients of all WebSockets are asked to leave.
    pub(crate) fn drain_websockets<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let (code, reason) = STOPPING;
        for stream in &mut self.streams {
            if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket) {
                let _ = guarded(|| websocket.close_because(turn, code, reason));
            }
        }
    }

    /// Acts on the deadlines of WebSockets that have passed.
    pub(super) fn expire_websockets<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        let mut given_up = Vec::new();
        for stream in &mut self.streams {
            if websocket_deadline_ms(stream, turn.context) > now_ms {
                continue;
            }
            if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket)
                && guarded(|| websocket.expire(turn)) != Some(true)
            {
                given_up.push(stream.id);
            }
        }
        for id in given_up {
            if let Some(index) = self.index_of(id) {
                self.end_stream(turn, index, ErrorCode::CANCEL);
            }
        }
    }

    /// Ends the client's side of a stream whose WebSocket has ended, so that nothing more arrives.
    pub(super) fn end_carried<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get(index) else {
            return;
        };
        if stream.carried.is_some() {
            // The client may have ended it.
            self.handlers.note_end(turn.app, stream.exchange.id);
        }
        if stream.carried.is_some() && stream.state.takes_content() {
            let out = &mut turn.context.responder.out;
            frame::push_reset(out, stream.id, ErrorCode::NO_ERROR);
            self.remember_reset(index);
        }
    }
}

impl Stream {
    /// The link has taken what was written for it.
    #[inline]
    pub(super) fn websocket_was_sent(&mut self, context: &Context) {
        let has_unsent = self.has_unsent();
        if let Some(websocket) = self.carried.as_deref_mut().and_then(Carried::websocket)
            && !has_unsent
            && !websocket.has_unsent()
        {
            websocket.was_sent(context);
        }
    }
}

/// Whether so little waits to be sent that the WebSocket of an open stream may be passed more messages.
fn has_room(stream: &Stream, context: &Context) -> bool {
    stream.exchange.progress == Progress::Pushed
        && stream.unsent_bytes() as u64 <= context.limits.send_buffer_bytes_max
}

/// When the WebSocket of a stream has to act; `u64::MAX` for never.
pub(super) fn websocket_deadline_ms(stream: &Stream, context: &Context) -> u64 {
    match stream.carried.as_deref() {
        Some(Carried::Open { websocket, input }) => {
            let is_read = input.is_empty() && !stream.has_unsent();
            websocket.deadline_ms(context, is_read)
        }
        Some(Carried::Offered { .. }) | None => u64::MAX,
    }
}
