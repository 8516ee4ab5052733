//! A WebSocket that owns its connection, after a 101 of HTTP/1.1.

use net::Received;
use net::memory::append;
use wire::websocket::CloseCode;

use super::{Ending, Pause, STOPPING, WebSocket};
use crate::app::App;
use crate::context::Context;
use crate::context::budget::{BUDGET, Holder};
use crate::exchange::Unfinished;
use crate::id::ExchangeId;
use crate::link::{Broken, Delivery, Fate, Link, Turn, Unread};
use crate::mailbox::Command;

/// A WebSocket over a link: a part of the record of its connection, and no larger than that of HTTP/1.1 with its queue.
pub(crate) struct Upgraded {
    pub(crate) websocket: WebSocket,
    /// Input that could not be used yet; None if there is none.
    #[allow(
        clippy::box_collection,
        reason = "most WebSockets have none, and hold 8 bytes instead of 24"
    )]
    input: Option<Box<Vec<u8>>>,
}

impl Upgraded {
    /// `input` arrived with the handshake.
    pub(crate) fn new(websocket: WebSocket, input: Vec<u8>) -> Upgraded {
        Upgraded {
            websocket,
            input: (!input.is_empty()).then(|| Box::new(input)),
        }
    }

    /// Serves what was read.
    #[inline]
    pub(crate) fn received<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        received: &Received,
        buffer: &mut [u8],
    ) -> Fate {
        match received {
            Received::Bytes(count) => {
                let data = buffer.get_mut(..*count).unwrap_or_default();
                self.feed(turn, data);
            }
            Received::Blocked => return Fate::Open,
            Received::End | Received::Broken(_) => return self.abandon(turn),
        }
        self.settle(turn)
    }

    #[inline]
    fn feed<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &mut [u8]) {
        let used = match self.input {
            None => self.serve(turn, data),
            Some(_) => 0,
        };
        let rest = data.get(used..).unwrap_or_default();
        if !rest.is_empty() {
            self.keep(turn, rest);
        }
    }

    /// Keeps input for later.
    #[cold]
    fn keep<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &[u8]) {
        let mut input = self.input.take().unwrap_or_default();
        if append(&mut input, rest).is_err() {
            turn.context.note_shortage(rest.len());
            self.websocket.break_off(turn.context);
        }
        self.input = (!input.is_empty()).then_some(input);
    }

    /// Serves `data` from its start as far as possible. Returns the number of bytes used.
    #[inline]
    fn serve<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &mut [u8]) -> usize {
        while self.websocket.has_unsent() && !turn.link.is_full() {
            // What runs next detects a broken connection.
            if self.websocket.send_shared(turn) != Ok(false) {
                continue;
            }
            self.websocket.emit(turn.context);
            if self.websocket.has_unsent() {
                let _ = turn.link.flush(turn.context, false);
            }
        }
        let is_first = !self.websocket.has_unsent() && !turn.link.is_full();
        let (used, pause) = self.websocket.receive(turn, data, is_first);
        self.websocket.waits_for_turn = pause == Pause::Turn && used < data.len();
        if !is_first {
            self.websocket.absorb(turn.context);
        }
        used
    }

    /// Continues with what waited for this turn.
    pub(crate) fn proceed<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        self.websocket.waits_for_turn = false;
        self.settle(turn)
    }

    /// The socket accepts bytes again.
    pub(crate) fn writable<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.resume(turn.context, false) == Err(Broken) {
            return self.abandon(turn);
        }
        self.settle(turn)
    }

    /// Executes a command that the application posted. Nothing is sent before [`Upgraded::settle`].
    pub(crate) fn obey<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        command: Command,
    ) {
        if id == self.websocket.id {
            self.websocket.obey(turn, command);
        }
    }

    /// Serves input that waited, and sends what is ready.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() && !turn.context.responder.out.is_empty() {
            // It precedes what waits. What runs next detects a broken connection.
            let _ = turn.link.flush(turn.context, false);
        }
        if self.input.is_some() && self.takes_more(turn.link, turn.context) {
            self.resume(turn);
        }
        let context = &mut *turn.context;
        if context.responder.out.is_empty() && context.responder.batch.holds(turn.link.id) {
            // What was written earlier is sent first, at the latest at the end of the pass.
            return Fate::Open;
        }
        let is_plain = !self.websocket.has_unsent() && self.input.is_none();
        if is_plain && !turn.link.is_full() && self.websocket.ending().is_none() {
            let now_ms = context.clock.now_ms();
            let responder = &mut context.responder;
            let is_taken = !responder.out.is_empty()
                && responder
                    .batch
                    .takes(turn.link.id, &mut responder.out, now_ms);
            if is_taken {
                return Fate::Open;
            }
        }
        self.send(turn)
    }

    #[cold]
    fn resume<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let Some(mut input) = self.input.take() else {
            return;
        };
        let used = self.serve(turn, &mut input);
        if used < input.len() {
            input.drain(..used);
            self.input = Some(input);
        }
    }

    /// Sends what is ready. Returns the fate of the connection.
    fn send<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        loop {
            if !turn.context.responder.out.is_empty()
                && turn.link.flush(turn.context, false) == Err(Broken)
            {
                return self.abandon(turn);
            }
            if turn.link.is_full() {
                return self.fate(turn);
            }
            if !self.websocket.has_unsent() {
                break;
            }
            if turn.context.share.is_sent() {
                return Fate::Again;
            }
            match self.websocket.send_shared(turn) {
                Ok(true) => {}
                Ok(false) => self.websocket.emit(turn.context),
                Err(Broken) => return self.abandon(turn),
            }
        }
        self.websocket.notify_writer(turn);
        self.fate(turn)
    }

    /// The fate of a connection that can send no more now.
    fn fate<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        self.websocket.report_lack(turn);
        match self.websocket.ending() {
            Some(Ending::Broken) => return self.abandon(turn),
            Some(_) if turn.link.is_full() || self.websocket.has_unsent() => self.drop_input(),
            Some(ending) => {
                let has_unread = ending == Ending::Unread || self.input.is_some();
                return Fate::End(match has_unread {
                    true => Unread::Some,
                    false => Unread::Nothing,
                });
            }
            None if self.websocket.waits_for_turn => return Fate::Again,
            None => {}
        }
        Fate::Open
    }

    fn drop_input(&mut self) {
        self.input = None;
    }

    /// Sends what has been written, and requests another turn.
    pub(crate) fn send_written<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.context.responder.batch.holds(turn.link.id) {
            return Fate::Again;
        }
        // What runs next detects a broken connection.
        if turn.link.is_full() {
            let _ = turn.link.resume(turn.context, false);
        }
        while !turn.link.is_full() && self.websocket.has_unsent() && !turn.context.share.is_sent() {
            if self.websocket.send_shared(turn) == Ok(false) {
                self.websocket.emit(turn.context);
                let _ = turn.link.flush(turn.context, false);
            }
        }
        Fate::Again
    }

    pub(crate) fn has_file(&self) -> bool {
        false
    }

    /// Whether it has read more than it could use, so that the application may be called in its turn.
    pub(crate) fn has_unused_input(&self) -> bool {
        self.input.is_some() && self.websocket.takes_input()
    }

    /// Whether the next input is served as soon as it is read.
    #[inline]
    pub(crate) fn waits_for_message(&self, link: &Link) -> bool {
        self.input.is_none()
            && self.websocket.takes_input()
            && !link.is_full()
            && !self.websocket.has_unsent()
    }

    /// Whether the socket is to be read from.
    #[inline]
    pub(crate) fn takes_input(&self, link: &Link, context: &Context) -> bool {
        self.input.is_none() && self.takes_more(link, context)
    }

    /// Whether it can use input now: a peer that does not read what it is sent has to stop sending eventually.
    #[inline]
    fn takes_more(&self, link: &Link, context: &Context) -> bool {
        self.websocket.takes_input()
            && !self.websocket.waits_for_turn
            && (!link.is_full()
                || self.unsent_bytes(link) as u64 <= context.limits.send_buffer_bytes_max)
            && (!context.budget.is_pressed() || link.is_half_closed() || self.is_admitted(context))
    }

    /// Whether more is read while the budget is nearly used up: a message that has begun if it may be long only if there is room.
    #[cold]
    fn is_admitted(&self, context: &Context) -> bool {
        let begun_bytes = self.websocket.message_bytes() as u64;
        let message_bytes_max = context.limits.websocket_message_bytes_max;
        begun_bytes == 0
            || context
                .budget
                .admits(message_bytes_max.saturating_sub(begun_bytes))
    }

    /// How many bytes wait for the socket.
    pub(crate) fn unsent_bytes(&self, link: &Link) -> usize {
        self.websocket.unsent_bytes() + link.unsent_bytes()
    }

    /// The server drains: the client is asked to leave.
    pub(crate) fn drain<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let (code, reason) = STOPPING;
        self.websocket.close_because(turn, code, reason);
        self.settle(turn)
    }

    /// The server stops.
    pub(crate) fn stop<A: App>(&mut self, turn: &mut Turn<'_, A>, _: &mut Unfinished) -> Fate {
        let (code, reason) = STOPPING;
        self.websocket.close_because(turn, code, reason);
        self.send_written(turn);
        self.abandon(turn)
    }

    /// The connection has ended.
    pub(crate) fn abandon<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let is_owed = turn.link.is_full() || self.websocket.has_unsent();
        self.websocket.lost(turn);
        turn.context.clear_out();
        match is_owed {
            true => Fate::Reset,
            false => Fate::Close,
        }
    }

    /// When the connection has to act; `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline_ms(&self, link: &Link, context: &Context) -> u64 {
        let is_read = self.takes_input(link, context);
        let own_ms = self.websocket.deadline_ms(context, is_read);
        own_ms.min(link.delivery_check_ms())
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let now_ms = turn.now_ms();
        if turn.link.delivery_check_ms() <= now_ms
            && turn.link.check_delivery(turn.context) == Delivery::Stuck
        {
            return self.abandon(turn);
        }
        let is_read = self.takes_input(turn.link, turn.context);
        let is_due = self.websocket.deadline_ms(turn.context, is_read) <= now_ms;
        if is_due && !self.websocket.expire(turn) {
            return Fate::Close;
        }
        self.settle(turn)
    }

    /// Why it holds memory, if it can be ended for that. Messages that the application has not taken count only if it holds much.
    pub(crate) fn holder(&self, link: &Link, is_much: bool) -> Option<Holder> {
        let has_part = self.websocket.message_bytes() > 0;
        match has_part || self.websocket.has_unsent() || link.is_full() {
            true => Some(Holder::Peer),
            false => (is_much && self.input.is_some()).then_some(Holder::Handler),
        }
    }

    /// Ends it because of what it makes the server hold.
    #[cold]
    pub(crate) fn end_holding<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() || self.websocket.has_unsent() {
            return self.abandon(turn);
        }
        let code = CloseCode::TRY_AGAIN_LATER;
        self.websocket.cut_off(turn, code, BUDGET);
        self.settle(turn)
    }

    /// Memory held, in bytes.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let input = self.input.as_ref();
        let input = input.map_or(0, |input| size_of::<Vec<u8>>() + input.capacity());
        input + self.websocket.held_bytes()
    }
}
