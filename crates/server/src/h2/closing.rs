//! The ends of streams before their time, and the end of the connection.

use wire::h2::{ErrorCode, ReceiveWindow, Scope, Violation, frame};

use super::websocket::Carried;
use super::{H2, Leaving, RESET_REMEMBERED, RESETS_REPEATED, Reading, Reset};
use crate::app::{Abort, App};
use crate::exchange::{Progress, Unfinished};
use crate::link::{Fate, Turn};
use crate::mailbox::Command;
use crate::response::{Response, STOPPING};

/// The payload of the PING that follows the announcement of the end.
const LEAVING_PING: [u8; 8] = *b"leaving.";

impl H2 {
    /// Ends what a violation concerns.
    #[cold]
    pub(super) fn violated<A: App>(&mut self, turn: &mut Turn<'_, A>, violation: Violation) {
        match violation.scope {
            Scope::Stream(stream) => self.reset_stream(turn, stream, violation),
            Scope::Connection => self.fail(turn, violation),
        }
    }

    /// Ends a stream because its peer violated the protocol, or it is one too many.
    fn reset_stream<A: App>(&mut self, turn: &mut Turn<'_, A>, id: u32, violation: Violation) {
        if violation.code == ErrorCode::PROTOCOL_ERROR {
            turn.context.refusals.add(400, violation.reason);
        }
        frame::push_reset(self.out(turn), id, violation.code);
        match self.index_of(id) {
            Some(index) => {
                self.remember_reset(index);
                self.drop_stream(turn, index, Abort::Disconnected);
            }
            None => {
                let window = self.new_receive_window(turn);
                self.remember(id, window);
            }
        }
        if violation.code != ErrorCode::REFUSED_STREAM || self.knows_better(turn) {
            self.count_reset(turn);
        } else if let Err(violation) = self.count_idle(turn) {
            self.fail(turn, violation);
        }
    }

    /// Resets a stream by a decision of this side, which is not one of its client's resets.
    pub(super) fn end_stream<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        code: ErrorCode,
    ) {
        if let Some(stream) = self.streams.get(index) {
            let id = stream.id;
            frame::push_reset(self.out(turn), id, code);
            self.remember_reset(index);
            self.drop_stream(turn, index, Abort::Disconnected);
        }
    }

    /// Whether a client that opens a stream which is refused knows that it would be. It does not before it has seen the limit, nor when this
    /// side leaves, has no memory, or waits for handlers of streams that are over: such streams are not its resets.
    fn knows_better<A: App>(&self, turn: &Turn<'_, A>) -> bool {
        let has_too_many = self.streams.len() as u64 >= turn.context.limits.h2_streams_max;
        self.settings_are_acknowledged && self.leaving == Leaving::No && has_too_many
    }

    /// The client resets a stream: its handler is cancelled.
    pub(super) fn client_reset<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: u32,
    ) -> Result<(), Violation> {
        if let Some(index) = self.index_of(id) {
            self.drop_stream(turn, index, Abort::Disconnected);
        }
        // A request whose response was complete before its reset was served in vain too. Some clients repeat a reset.
        if self.reset_by_client.contains(&id) {
            return self.count_idle(turn);
        }
        if self.reset_by_client.len() >= RESETS_REPEATED {
            self.reset_by_client.pop_front();
        }
        self.reset_by_client.push_back(id);
        self.count_reset(turn);
        Ok(())
    }

    fn count_reset<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let (limits, now_ms) = (&turn.context.limits, turn.now_ms());
        if !self.flood.reset(limits, now_ms) && !matches!(self.reading, Reading::Closing) {
            let reason = "too many streams end before their responses";
            self.fail(
                turn,
                Violation::of_connection(ErrorCode::ENHANCE_YOUR_CALM, reason),
            );
        }
    }

    /// Ends the connection because of an error.
    #[cold]
    pub(super) fn fail<A: App>(&mut self, turn: &mut Turn<'_, A>, violation: Violation) {
        if matches!(self.reading, Reading::Closing) {
            return;
        }
        turn.context.refusals.add_h2(violation.reason);
        self.abandon_streams(turn, Abort::Disconnected);
        let last = self.last_served();
        frame::push_goaway(self.out(turn), last, violation.code, violation.reason);
        self.stop_reading();
        self.leaving = Leaving::Final { last };
    }

    pub(super) fn stop_reading(&mut self) {
        self.reading = Reading::Closing;
        self.input = Vec::new();
        self.waits_for_turn = false;
    }

    /// Notifies every handler still working for this connection that it has ended.
    pub(crate) fn abandon<A: App>(&mut self, turn: &mut Turn<'_, A>, why: Abort) -> Fate {
        let is_owed = turn.link.is_full() || !self.streams.is_empty();
        self.abandon_streams(turn, why);
        match is_owed {
            true => Fate::Reset,
            false => Fate::Close,
        }
    }

    fn abandon_streams<A: App>(&mut self, turn: &mut Turn<'_, A>, why: Abort) {
        while !self.streams.is_empty() {
            self.abandon_stream(turn, 0, why);
        }
    }

    /// Drops a stream, whose handler is notified if it is running. If its content was held, others may send.
    pub(super) fn drop_stream<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, why: Abort) {
        self.abandon_stream(turn, index, why);
        self.give_withheld_windows(turn);
    }

    fn abandon_stream<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, why: Abort) {
        if index >= self.streams.len() {
            return;
        }
        let mut stream = self.streams.remove(index);
        self.remove(turn, usize::MAX);
        if stream.inbound.as_ref().is_some_and(|it| it.is_queued) {
            turn.context.leave_queue(turn.link.id, Some(stream.id));
        }
        let exchange = &mut stream.exchange;
        let is_called = !stream
            .inbound
            .as_ref()
            .is_some_and(|inbound| inbound.is_for_call());
        let is_open = matches!(stream.carried.as_deref(), Some(Carried::Open { .. }));
        if !exchange.is_ended() && is_called && !is_open {
            self.handlers.abort(turn, exchange.id, why);
            exchange.keep_deadline(turn.app, turn.context);
        }
        H2::lose_websocket(&mut self.handlers, turn, &mut stream);
        let exchange = &mut stream.exchange;
        let mut record = std::mem::take(&mut exchange.record);
        record.abandon(false);
        turn.context.complete(record);
    }

    /// Drops the record of a stream that was truncated, whose end is written.
    pub(super) fn forget<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        self.remember_reset(index);
        self.drop_stream(turn, index, Abort::Disconnected);
    }

    /// Remembers a stream that is reset while its client may still send to it.
    pub(super) fn remember_reset(&mut self, index: usize) {
        if let Some(stream) = self.streams.get(index)
            && stream.state.takes_content()
        {
            let (id, window) = (stream.id, stream.receive_window);
            self.remember(id, window);
        }
    }

    fn remember(&mut self, stream: u32, window: ReceiveWindow) {
        if self.reset.len() >= RESET_REMEMBERED {
            self.reset.pop_front();
        }
        self.reset.push_back(Reset { stream, window });
    }

    /// Whether this side has reset a stream.
    pub(super) fn has_reset(&self, stream: u32) -> bool {
        self.reset.iter().any(|reset| reset.stream == stream)
    }

    /// DATA for a stream that is not open. What was under way when this side reset the stream is within its window; nothing pays for more, nor
    /// for a frame without content that says the same again.
    pub(super) fn data_after_reset<A: App>(
        &mut self,
        turn: &Turn<'_, A>,
        id: u32,
        (window_bytes, is_empty, is_last): (u32, bool, bool),
    ) -> Result<(), Violation> {
        let Some(reset) = self.reset.iter_mut().find(|reset| reset.stream == id) else {
            let reason = "DATA after the end of the stream";
            return Err(Violation::of_stream(id, ErrorCode::STREAM_CLOSED, reason));
        };
        let is_under_way = reset.window.receive(window_bytes);
        match is_under_way && !(is_empty && is_last) {
            true => Ok(()),
            false => self.count_idle(turn),
        }
    }

    /// The client opens no more streams, and waits for those that it has.
    pub(super) fn client_leaves<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if !self.leaving.is_final() {
            self.say_last(turn);
        }
    }

    /// Announces that no more streams are accepted soon (RFC 9113 section 6.8).
    pub(super) fn announce_leaving<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let out = self.out(turn);
        frame::push_goaway(out, frame::STREAM_MAX, ErrorCode::NO_ERROR, "");
        frame::push_ping(out, LEAVING_PING);
        self.leaving = Leaving::Announced {
            since_ms: turn.now_ms(),
        };
    }

    /// The client has seen the announcement.
    pub(super) fn pong<A: App>(&mut self, turn: &mut Turn<'_, A>, data: [u8; 8]) {
        if data == LEAVING_PING && matches!(self.leaving, Leaving::Announced { .. }) {
            self.say_last(turn);
        }
    }

    /// Accepts no further stream.
    pub(super) fn say_last<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let last = self.last_served();
        frame::push_goaway(self.out(turn), last, ErrorCode::NO_ERROR, "");
        self.leaving = Leaving::Final { last };
    }

    /// The last stream that is served. What a GOAWAY has said of it does not grow (RFC 9113 section 6.8): streams that were opened since then
    /// were refused.
    fn last_served(&self) -> u32 {
        match self.leaving {
            Leaving::Final { last } => last,
            Leaving::No | Leaving::Announced { .. } => self.opened.last(),
        }
    }

    /// Responds with 503 to every request whose response has not started. Everything else is given up: its stream is reset.
    pub(crate) fn stop<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        unfinished: &mut Unfinished,
    ) -> Fate {
        let before = *unfinished;
        let was_full = turn.link.is_full();
        let (mut complete, mut refused) = (Vec::new(), Vec::new());
        let ids: Vec<u32> = self.streams.iter().map(|stream| stream.id).collect();
        for id in ids {
            let Some(index) = self.index_of(id) else {
                continue;
            };
            let Some(stream) = self.streams.get(index) else {
                continue;
            };
            match stream.exchange.progress {
                // A WebSocket has no response that could be truncated.
                Progress::Pushed | Progress::Done if stream.carried.is_some() => {}
                Progress::Done => complete.push(id),
                Progress::Cut => {}
                Progress::Waiting => {
                    unfinished.refused += 1;
                    refused.push(id);
                    self.refuse_for_stop(turn, index);
                }
                Progress::Pushed | Progress::Pulled => {
                    unfinished.cut += 1;
                    self.cut_for_stop(turn, index);
                }
            }
        }
        self.drain_websockets(turn);
        if !self.leaving.is_final() {
            self.say_last(turn);
        }
        self.emit_first_of(turn, &refused);
        self.send_written(turn);
        let is_unsent = |id: &&u32| {
            let stream = self.index_of(**id).and_then(|at| self.streams.get(at));
            // Its end may be in a frame that waits for the socket.
            stream.is_some_and(|stream| !stream.state.has_ended())
        };
        unfinished.cut += complete.iter().filter(is_unsent).count() as u64;
        if was_full && *unfinished == before {
            // A response whose end waits for the socket has no record any more.
            unfinished.cut += 1;
        }
        while !self.streams.is_empty() {
            self.cut_for_stop(turn, 0);
        }
        if !turn.context.responder.out.is_empty() {
            // Does not wait until it arrives.
            let _ = turn.link.flush(turn.context, false);
        }
        self.abandon(turn, Abort::Disconnected)
    }

    /// Moves the short responses of these streams to the send buffer, before the long ones of others.
    fn emit_first_of<A: App>(&mut self, turn: &mut Turn<'_, A>, ids: &[u32]) {
        if turn.link.is_full() {
            return;
        }
        self.out(turn);
        for id in ids {
            if let Some(index) = self.index_of(*id) {
                self.emit_from(turn, index);
            }
        }
    }

    fn refuse_for_stop<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get(index) else {
            return;
        };
        let id = stream.exchange.id;
        let inbound = stream.inbound.as_ref();
        if !inbound.is_some_and(|inbound| inbound.is_for_call()) {
            self.handlers.abort(turn, id, Abort::Disconnected);
        }
        let response = Response::error(503, STOPPING);
        self.respond(turn, index, Command::Respond(response));
    }

    /// Gives a stream up, of whose response the client has not got everything.
    fn cut_for_stop<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        if let Some(stream) = self.streams.get(index) {
            // A client may drop a whole response after any other code (RFC 9113 section 8.1).
            let code = match stream.encoding.has_ended {
                true => ErrorCode::NO_ERROR,
                false => ErrorCode::CANCEL,
            };
            let id = stream.id;
            frame::push_reset(self.out(turn), id, code);
        }
        self.drop_stream(turn, index, Abort::Disconnected);
    }
}
