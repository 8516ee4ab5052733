//! The content of requests: windows, takers, and the end.

use wire::h2::{ErrorCode, Violation, frame};

use super::handlers::guarded;
use super::request::malformed;
use super::{Arriving, H2, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::exchange::Progress;
use crate::exchange::content::{Handed, Held, Part};
use crate::limits::AHEAD_BYTES;
use crate::link::Turn;
use crate::mailbox::Command;
use crate::response::{CONTENT_TOO_LONG, NO_MEMORY, Response};

impl H2 {
    /// A part of a content arrives.
    pub(super) fn data<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: u32,
        content: &[u8],
        (window_bytes, is_last): (u32, bool),
    ) -> Result<(), Violation> {
        self.has_arrived(turn.context);
        self.opened.check(id)?;
        if !self.receive_window.receive(window_bytes) {
            let reason = "more content than the connection's window allows";
            return Err(Violation::of_connection(
                ErrorCode::FLOW_CONTROL_ERROR,
                reason,
            ));
        }
        self.give_connection_window(turn, window_bytes);
        let Some(index) = self.index_of(id) else {
            return self.data_after_reset(turn, id, (window_bytes, content.is_empty(), is_last));
        };
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        if !stream.state.takes_content() {
            return Err(closed(id));
        }
        if !stream.receive_window.receive(window_bytes) {
            let reason = "more content than the stream's window allows";
            return Err(Violation::of_stream(
                id,
                ErrorCode::FLOW_CONTROL_ERROR,
                reason,
            ));
        }
        if let Some(owed) = &mut stream.owed_bytes {
            *owed = owed
                .checked_sub(content.len() as u64)
                .ok_or(malformed(id, "the content is longer than announced"))?;
        }
        if !content.is_empty() {
            self.flood.progress();
        }
        let padding_bytes = window_bytes.saturating_sub(content.len() as u32);
        if padding_bytes > 0 {
            self.open_stream_window(index, padding_bytes);
        }
        match self.is_carried(index) {
            true => self.carry(turn, index, content),
            false => self.take_content(turn, index, content),
        }
        match (is_last, self.index_of(id)) {
            (true, Some(index)) => self.content_ended(turn, index),
            _ => Ok(()),
        }
    }

    /// Counts the part of a DATA frame that has arrived: the rate of content is that of its octets, whatever the length of its frames.
    pub(super) fn note_arriving(&mut self, context: &Context) {
        let is_next = matches!(self.reading, Reading::Frames) && !self.waits_for_turn;
        let Some(partial) = is_next.then(|| frame::partial_data(&self.input)).flatten() else {
            self.arriving = None;
            return;
        };
        let stream = self
            .index_of(partial.stream)
            .and_then(|at| self.streams.get_mut(at));
        let Some(inbound) = stream.and_then(|stream| stream.inbound.as_mut()) else {
            self.arriving = None;
            return;
        };
        inbound.note_arriving(u64::from(partial.content_bytes), context);
        if inbound.is_waited_for() {
            self.arriving.get_or_insert(Arriving {
                stream: partial.stream,
                since_ms: context.clock.now_ms(),
                lasts_ms_max: context.timeouts.content_ms_max(partial.payload_bytes),
            });
        }
    }

    /// The stream whose content is arriving, if the pace of that content runs. Otherwise nothing would limit how long the frame takes.
    pub(super) fn arriving_stream(&self) -> Option<u32> {
        let id = self.arriving?.stream;
        let stream = self.streams.get(self.index_of(id)?)?;
        let inbound = stream.inbound.as_ref()?;
        inbound.is_waited_for().then_some(id)
    }

    /// A DATA frame is complete, or will not be. While it arrived, no other stream could receive content. Others have more time, but no more
    /// than the frame takes at the minimum rate.
    pub(super) fn has_arrived(&mut self, context: &Context) {
        let Some(arriving) = self.arriving.take() else {
            return;
        };
        let to_ms = arriving.since_ms.saturating_add(arriving.lasts_ms_max);
        let to_ms = to_ms.min(context.clock.now_ms());
        for stream in &mut self.streams {
            if let Some(inbound) = &mut stream.inbound
                && stream.id != arriving.stream
            {
                inbound.extend(arriving.since_ms, to_ms);
            }
        }
    }

    /// Holds a part, passes it to its handler, or discards it.
    fn take_content<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, content: &[u8]) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(inbound) = &mut stream.inbound else {
            return;
        };
        let is_direct = inbound.goes_directly(content.len() as u64) && inbound.has_reader_waiting();
        if is_direct {
            inbound.count_passed(content.len(), false, turn.context);
            return self.hand_over(turn, index, Part::Received(content));
        }
        let is_discarded = inbound.is_discarded();
        let is_for_whole = inbound.is_for_call() || inbound.is_read_whole();
        if is_for_whole && !turn.context.budget.has_room(content.len()) {
            // Its window was given before. What it fills may be a handler's next, which is not ended.
            let refusal = turn.context.budget_refusal();
            return self.refuse_part(turn, index, content.len(), refusal);
        }
        match inbound.hold(content, turn.context) {
            Held::Yes | Held::TooLong if is_discarded => {
                if inbound.may_discard(turn.context) {
                    self.give_stream_window(index, content.len() as u32, turn.context);
                }
            }
            Held::Yes => {
                if inbound.is_collected() {
                    self.give_window_of_call(turn, index, content.len() as u32);
                }
                self.hand_over(turn, index, Part::Held);
            }
            Held::TooLong => {
                self.refuse_part(turn, index, content.len(), (413, CONTENT_TOO_LONG));
            }
            Held::NoMemory => {
                turn.context.note_shortage(content.len());
                self.refuse_part(turn, index, content.len(), (503, NO_MEMORY));
            }
        }
    }

    /// Passes content to its taker.
    fn hand_over<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, part: Part<'_>) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(inbound) = &mut stream.inbound else {
            return;
        };
        let bytes = match part {
            Part::Held => inbound.waiting_bytes(),
            Part::Received(part) => part.len(),
            Part::InRoom(bytes) => bytes,
        };
        let was_whole = inbound.is_read_whole();
        let handed = guarded(|| inbound.hand_over(part, turn.context, turn.app));
        let Some(handed) = handed else {
            self.handler_panicked(turn, index);
            return self.content_was_held(turn, was_whole);
        };
        let is_over = inbound.is_over(handed);
        stream.exchange.record.received(inbound.total_bytes());
        match handed {
            Handed::Refused => {
                turn.context.note_shortage(bytes);
                self.refuse_part(turn, index, bytes, (503, NO_MEMORY));
                return self.content_was_held(turn, was_whole);
            }
            Handed::ToReader if was_whole => {
                stream.exchange.started_ms = turn.context.clock.now_ms();
                stream.exchange.lend(bytes);
                self.content_is_over(index);
                return self.give_withheld_windows(turn);
            }
            Handed::ToReader | Handed::Ahead => {
                stream.exchange.started_ms = turn.context.clock.now_ms();
                self.give_stream_window(index, bytes as u32, turn.context);
            }
            Handed::Kept => {}
        }
        if is_over {
            self.content_is_over(index);
        }
    }

    /// A content is not held any more. If its handler waited for all of it, others may send.
    fn content_was_held<A: App>(&mut self, turn: &Turn<'_, A>, was_whole: bool) {
        if was_whole {
            self.give_withheld_windows(turn);
        }
    }

    /// The peer has sent the whole content.
    pub(super) fn content_ended<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
    ) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        if stream.owed_bytes.is_some_and(|owed| owed > 0) {
            return Err(malformed(
                stream.id,
                "the content is shorter than announced",
            ));
        }
        stream.state.peer_ends();
        H2::end_websocket(&mut self.handlers, turn, stream);
        if let Some(inbound) = &mut stream.inbound {
            inbound.is_complete = true;
            self.hand_over(turn, index, Part::Held);
        }
        Ok(())
    }

    /// The content is complete and taken.
    fn content_is_over(&mut self, index: usize) {
        // A request that was not started is started with its content.
        if let Some(stream) = self.streams.get_mut(index)
            && !stream.inbound.as_ref().is_some_and(|it| it.is_for_call())
        {
            stream.inbound = None;
        }
    }

    /// A handler asks for the next part of its content, or for all that follows.
    pub(super) fn read_more<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, whole: bool) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let (id, asker) = (stream.id, stream.exchange.id);
        let is_waiting = stream.exchange.progress == Progress::Waiting;
        let Some(inbound) = &mut stream.inbound else {
            return;
        };
        let (was_whole, ahead_bytes) = (inbound.is_read_whole(), inbound.ahead_bytes());
        if !inbound.ask(asker, whole, turn.context) {
            return;
        }
        let bytes = inbound.waiting_bytes() as u32;
        if whole {
            stream.exchange.lend(ahead_bytes);
        }
        let owes_continue = std::mem::take(&mut inbound.owes_continue);
        if owes_continue && !inbound.holds_some() && is_waiting {
            self.push_continue(id);
        }
        match (was_whole, whole) {
            (false, true) => self.give_window_of_call(turn, index, bytes),
            (true, false) => self.take_back_window(index, bytes, turn.context),
            _ => {}
        }
        self.hand_over(turn, index, Part::Held);
        if was_whole && !whole {
            self.give_withheld_windows(turn);
        }
    }

    /// The window of so many bytes was given, or withheld, when they were held for a handler that waited for all of its content. Now it reads
    /// in parts, and the window is given with each of them.
    fn take_back_window(&mut self, index: usize, bytes: u32, context: &Context) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        stream.receive_window.stop_withholding();
        stream.receive_window.take_back(bytes);
        if let Some(inbound) = &mut stream.inbound {
            inbound.withhold(false, context);
        }
    }

    /// Ends the exchange whose content cannot be read, with a response if it has none.
    #[cold]
    pub(super) fn refuse_content<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        (status, reason): (u16, &str),
    ) {
        turn.context.refusals.add(status, reason);
        self.give_up(turn, index, Response::error(status, reason));
    }

    /// As [`H2::refuse_content`], because of a part that has arrived and is not held: its window opens, so that the rest can be discarded.
    #[cold]
    fn refuse_part<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        part_bytes: usize,
        refusal: (u16, &str),
    ) {
        self.refuse_content(turn, index, refusal);
        self.give_stream_window(index, part_bytes as u32, turn.context);
    }

    /// The application has panicked in a call for one stream: only that stream ends.
    #[cold]
    pub(super) fn handler_panicked<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        self.give_up(turn, index, Response::failure());
    }

    /// Ends an exchange, with this response if it has none.
    pub(super) fn give_up<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        response: Response,
    ) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let id = stream.exchange.id;
        let progress = stream.exchange.progress;
        if let Some(inbound) = &mut stream.inbound
            && std::mem::take(&mut inbound.is_queued)
        {
            turn.context.leave_queue(turn.link.id, Some(stream.id));
        }
        let inbound = stream.inbound.as_ref();
        let is_called = !inbound.is_some_and(|inbound| inbound.is_for_call());
        self.release_content(turn, index);
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        match progress {
            Progress::Waiting => {
                if is_called {
                    self.handlers.abort(turn, id, Abort::Refused);
                }
                self.respond(turn, index, Command::Respond(response));
            }
            Progress::Pushed | Progress::Pulled => {
                if stream.carried.is_none() {
                    self.handlers.abort(turn, id, Abort::Refused);
                }
                stream.exchange.cut();
            }
            Progress::Done | Progress::Cut => {}
        }
    }

    /// Discards the content of a request that has its response, or will not be read. The window opens for what was held.
    pub(super) fn release_content<A: App>(&mut self, turn: &Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let Some(inbound) = &mut stream.inbound else {
            return;
        };
        if inbound.is_discarded() {
            return;
        }
        let (was_collected, mut held_bytes) = (inbound.is_collected(), inbound.waiting_bytes());
        if was_collected {
            // Their window was given, or is withheld.
            stream.receive_window.stop_withholding();
            held_bytes = 0;
        }
        inbound.release(false, turn.context);
        if (held_bytes > 0 || was_collected) && inbound.may_discard(turn.context) {
            self.give_stream_window(index, held_bytes as u32, turn.context);
        }
        if was_collected {
            self.give_withheld_windows(turn);
        }
    }

    /// Content of the connection is not held any more, as far as its window is concerned: streams have windows of their own.
    fn give_connection_window<A: App>(&mut self, turn: &mut Turn<'_, A>, bytes: u32) {
        if let Some(increment) = self.receive_window.take(bytes) {
            frame::push_window_update(self.out(turn), 0, increment);
        }
    }

    /// As [`H2::give_connection_window`], for content that was received with its request.
    pub(super) fn take_connection_window<A: App>(&mut self, turn: &mut Turn<'_, A>, bytes: u32) {
        // It is smaller than the window.
        let _ = self.receive_window.receive(bytes);
        self.give_connection_window(turn, bytes);
    }

    /// Whether no stream has the larger window of which a connection has one.
    fn is_nobody_ahead(&self, context: &Context) -> bool {
        let index = self.ahead_of.and_then(|id| self.index_of(id));
        let Some(stream) = index.and_then(|index| self.streams.get(index)) else {
            return true;
        };
        let Some(inbound) = &stream.inbound else {
            return true;
        };
        let window_bytes = context.limits.h2_window_bytes() as usize;
        !stream.state.takes_content() && inbound.waiting_bytes() <= window_bytes
    }

    /// Content of a stream is not held any more. If no other stream is ahead of its handler, this one may be.
    pub(super) fn give_stream_window(&mut self, index: usize, bytes: u32, context: &Context) {
        let is_free = self.is_nobody_ahead(context) && !context.budget.is_pressed();
        if let Some(stream) = self.streams.get_mut(index)
            && stream.inbound.is_some()
            && stream.state.takes_content()
        {
            let is_long = stream
                .owed_bytes
                .is_none_or(|owed| owed > u64::from(AHEAD_BYTES) / 4);
            if is_free && is_long {
                self.ahead_of = Some(stream.id);
                stream.receive_window.grow(AHEAD_BYTES);
            }
        }
        self.open_stream_window(index, bytes);
    }

    /// What arrived on a stream is not held any more: content, padding, or octets of a WebSocket.
    pub(super) fn open_stream_window(&mut self, index: usize, bytes: u32) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        if stream.state.takes_content()
            && let Some(increment) = stream.receive_window.take(bytes)
        {
            frame::push_window_update(&mut self.frames, stream.id, increment);
        }
    }
}

#[cold]
fn closed(stream: u32) -> Violation {
    let reason = "DATA after the end of the stream";
    Violation::of_stream(stream, ErrorCode::STREAM_CLOSED, reason)
}
