//! When a request is started, and what happens to one that has to wait.
//!
//! A request is decoded when it arrives, because what follows it may open windows. It is started at once, unless the socket is full, an
//! earlier request waits, too many files are open, or responses wait: `pipelined_exchanges_max` complete ones that together have
//! `send_buffer_bytes_max`. Fewer do not stop it, because a client that reads one of them slowly has to get others meanwhile. Neither do
//! responses that are streamed, as their applications wait. Until it is started it has its head ([`Taker::Start`]), and its content up to the
//! window of its stream.

use net::memory::is_short;
use wire::h2::{ErrorCode, ReceiveWindow, State, Violation, frame};
use wire::{BodyLength, RequestHead};

use super::H2;
use super::holding::note_begun;
use super::request::{Known, New, record};
use super::stream::{Encoding, Stream};
use crate::app::head::{Head, OwnedHead};
use crate::app::{App, Content};
use crate::context::REQUEST_SPARE_BYTES;
use crate::exchange::Exchange;
use crate::exchange::content::{Inbound, Taker};
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::response::NO_MEMORY;

/// If the records of streams need more than this to grow, there is no memory for that of a request that is refused either.
const GROWTH_BYTES_MAX: usize = 128 * 1024;

/// What was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Started {
    Nothing,
    Some,
    /// The connection has used its turn.
    TurnUsed,
}

impl H2 {
    /// Whether a request that has just arrived may be started.
    #[inline]
    pub(super) fn may_start<A: App>(&self, turn: &Turn<'_, A>) -> bool {
        !turn.link.is_full()
            && (self.streams.is_empty()
                || self.has_room(turn) && !self.streams.iter().any(Stream::is_ready))
    }

    /// Whether the responses that the connection holds allow another one.
    pub(super) fn has_room<A: App>(&self, turn: &Turn<'_, A>) -> bool {
        let limits = &turn.context.limits;
        let bytes_max = limits.send_buffer_bytes_max;
        let (mut bytes, mut count, mut files) = (0, 0, 0);
        for stream in &self.streams {
            let unsent = stream.unsent_bytes() as u64;
            if unsent > 0 && stream.exchange.is_ended() {
                bytes += unsent;
                count += 1;
            }
            files += u64::from(stream.exchange.out.has_file());
        }
        let is_little = bytes < bytes_max || count < limits.pipelined_exchanges_max;
        let is_written = turn.context.responder.out.len() as u64 >= bytes_max;
        is_little && !is_written && files < turn.context.files_max
    }

    /// Keeps a request until it may be started.
    #[cold]
    pub(super) fn defer<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
    ) {
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        let exchange = Exchange {
            record: record(turn, Some(head), (0, 0)),
            ..Exchange::new(id, turn.now_ms(), turn.context.bounds.handler_timeout_ms)
        };
        let windows = (new.send_window, self.new_receive_window(turn));
        let state = State::opened(new.is_last);
        let encoding = Encoding::new(head.method == wire::Method::Head);
        let mut stream = Stream::new(new.stream, state, exchange, encoding, windows);
        let taker = Taker::Start(OwnedHead::of(Head::of(head)));
        let mut inbound = Inbound::new(taker, false, turn.context);
        inbound.is_complete = new.is_last;
        stream.inbound = Some(Box::new(inbound));
        stream.owed_bytes = owed_bytes(head);
        stream.priority = self.initial_priority(new.stream, head);
        self.streams.push(stream);
        note_begun(turn.context, head.consumed);
    }

    /// Refuses a request for which there is no memory.
    #[cold]
    pub(super) fn refuse_for_memory<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        growth_bytes: usize,
    ) -> Result<usize, Violation> {
        turn.context
            .note_shortage(REQUEST_SPARE_BYTES + growth_bytes);
        if growth_bytes > GROWTH_BYTES_MAX {
            let (code, reason) = (ErrorCode::REFUSED_STREAM, "no memory");
            return Err(Violation::of_stream(new.stream, code, reason));
        }
        self.refuse(turn, new, Known::Head(head), (503, NO_MEMORY));
        Ok(0)
    }

    /// Starts requests that wait, in the order of their streams or of the client's priorities, as long as there is room for their responses.
    pub(super) fn start_ready<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Started {
        let mut started = Started::Nothing;
        while !turn.link.is_full()
            && let Some(index) = self.first_ready()
            && self.has_room(turn)
        {
            if !turn.context.is_guarded || self.may_call(turn, index) {
                self.start_or_refuse(turn, index);
                // That of this request, and of no other.
                turn.context.admission.waited_ms = 0;
            }
            started = Started::Some;
            let context = &mut *turn.context;
            if context.share.is_used_by_request(&mut context.clock) {
                return Started::TurnUsed;
            }
        }
        started
    }

    /// Starts a request that waited, if there is memory for it.
    pub(super) fn start_or_refuse<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        match is_short(REQUEST_SPARE_BYTES) {
            true => {
                turn.context.note_shortage(REQUEST_SPARE_BYTES);
                self.refuse_content(turn, index, (503, NO_MEMORY));
            }
            false => self.start(turn, index),
        }
    }

    /// Calls the application for a request that waited.
    fn start<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let mut stream = self.streams.remove(index);
        let Some(mut inbound) = stream.inbound.take() else {
            return;
        };
        let was_collected = inbound.is_collected();
        let (total_bytes, is_complete) = (inbound.total_bytes(), inbound.is_complete);
        turn.context.bounds = inbound.bounds();
        let Some((head, held)) = inbound.take_call() else {
            return;
        };
        let Some(read) = head.read() else {
            // It was parsed before, so this is an error of ours; without a reset its client would wait for ever.
            return frame::push_reset(self.out(turn), stream.id, ErrorCode::INTERNAL_ERROR);
        };
        let head = read.parsed();
        let new = New {
            stream: stream.id,
            is_last: is_complete,
            send_window: stream.send_window,
            priority: Some(stream.priority),
        };
        let content = match is_complete {
            true => Content::Whole(&held),
            false => Content::Later,
        };
        let id = stream.exchange.id;
        let outcome = self.call_application(turn, new, (head, content), id);
        let framed_bytes = turn.context.responder.frames.framed_bytes;
        self.send_window.use_up(framed_bytes);
        self.flood.sent(framed_bytes);
        self.called(turn, new, (head, content), id, outcome);
        if !is_complete
            && let Some(index) = self.index_of(stream.id)
            && let Some(called) = self.streams.get_mut(index)
        {
            called.receive_window = stream.receive_window;
            called.owed_bytes = stream.owed_bytes;
            self.continue_content(turn, index, held, total_bytes);
        }
        if was_collected {
            self.give_withheld_windows(turn);
        }
    }

    /// Passes on the content that had arrived when the request was started.
    fn continue_content<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        held: Vec<u8>,
        total_bytes: u64,
    ) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(inbound) = &mut stream.inbound else {
            return;
        };
        let bytes = held.len() as u32;
        inbound.continue_from(held, total_bytes, turn.context);
        let is_discarded = inbound.is_discarded();
        if inbound.is_collected() {
            self.give_window_of_call(turn, index, bytes);
        } else if is_discarded && bytes > 0 {
            self.give_stream_window(index, bytes, turn.context);
        }
    }

    /// The window of a stream that is opened. Until the client has acknowledged this side's settings, it may send as much as the protocol's
    /// default allows (RFC 9113 section 6.9.3).
    pub(super) fn new_receive_window<A: App>(&self, turn: &Turn<'_, A>) -> ReceiveWindow {
        let size = turn.context.limits.h2_window_bytes();
        match self.settings_are_acknowledged {
            true => ReceiveWindow::new(size),
            false => ReceiveWindow::granted(size, size.max(wire::h2::settings::WINDOW_BYTES)),
        }
    }
}

/// The announced length of the content; `None` if it ends with its stream.
pub(super) fn owed_bytes(head: &RequestHead<'_>) -> Option<u64> {
    match head.body_length {
        BodyLength::Known(length) => Some(length),
        BodyLength::None => Some(0),
        BodyLength::Chunked => None,
    }
}
