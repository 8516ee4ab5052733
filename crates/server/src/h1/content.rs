//! The content of the request being read, from its coding on the wire to its taker.

use std::mem::MaybeUninit;

use wire::{BodyDecoder, BodyLength, Decoded, ProtocolError, RequestHead};

use super::input::Refused;
use super::queue::Queued;
use super::{Ending, For, H1, Reading, record_abandoned};
use crate::app::{Abort, App, Content};
use crate::context::Context;
use crate::exchange::Progress;
use crate::exchange::content::{DISCARD_BYTES_MAX, Handed, Held, Inbound, Part, Taker};
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::response::{CONTENT_TOO_LONG, NO_MEMORY, Response};

/// Content in HTTP/1 framing.
pub(super) struct Incoming {
    decoder: BodyDecoder,
    pub(super) inbound: Inbound,
    /// Whether another request may follow.
    pub(super) is_persistent: bool,
}

/// The result of more input.
#[derive(PartialEq, Eq, Debug)]
enum Fed {
    /// Input was held, as much as there was or as is allowed.
    Held,
    /// The content exceeds the limit.
    TooLong,
    /// There is no memory for it.
    NoMemory,
}

impl Incoming {
    pub(super) fn new(
        body_length: BodyLength,
        taker: Taker,
        owes_continue: bool,
        is_persistent: bool,
        context: &Context,
    ) -> Incoming {
        Incoming {
            decoder: BodyDecoder::new(body_length),
            inbound: Inbound::new(taker, owes_continue, context),
            is_persistent,
        }
    }

    /// Decodes `input` as far as it may be held.
    fn feed(&mut self, input: &mut &[u8], context: &Context) -> Result<Fed, ProtocolError> {
        while !self.inbound.is_complete {
            // The end of a known length takes no more bytes, so no later event would detect it.
            if !self.inbound.takes_more(context) && self.decoder.remaining() != Some(0) {
                return Ok(Fed::Held);
            }
            match self.decoder.decode(input)? {
                Decoded::Content(part) => match self.inbound.hold(part, context) {
                    Held::Yes => {}
                    Held::TooLong => return Ok(Fed::TooLong),
                    Held::NoMemory => return Ok(Fed::NoMemory),
                },
                Decoded::NeedMore => return Ok(Fed::Held),
                Decoded::End => self.inbound.is_complete = true,
            }
        }
        Ok(Fed::Held)
    }

    /// The next part of a content of known length that goes straight to its waiting handler.
    fn feed_directly<'a>(&mut self, input: &mut &'a [u8], context: &Context) -> Option<&'a [u8]> {
        let owed = self.decoder.remaining()?;
        if !self.inbound.has_reader_waiting() || !self.inbound.goes_directly(owed) {
            return None;
        }
        let Ok(Decoded::Content(part)) = self.decoder.decode(input) else {
            return None;
        };
        self.count_passed(part.len(), context);
        Some(part)
    }

    fn count_passed(&mut self, bytes: usize, context: &Context) {
        let is_complete = self.decoder.remaining() == Some(0);
        self.inbound.count_passed(bytes, is_complete, context);
    }

    pub(super) fn takes_more(&self, context: &Context) -> bool {
        self.inbound.takes_more(context)
    }

    /// How much may follow.
    pub(super) fn rest_bytes(&self) -> u64 {
        let most = || self.inbound.allowed_bytes();
        self.decoder.remaining().unwrap_or_else(most)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.inbound.held_bytes() + size_of::<Incoming>() - size_of::<Inbound>()
    }

    /// The application's memory for the next part.
    pub(super) fn room<'a, A: App>(
        &self,
        context: &Context,
        app: &'a mut A,
    ) -> Option<&'a mut [MaybeUninit<u8>]> {
        self.inbound.room(self.decoder.remaining()?, context, app)
    }

    /// Whether the rest is known to be short enough to be discarded.
    fn is_discardable(&self) -> bool {
        let is_short = |rest| rest <= DISCARD_BYTES_MAX;
        let is_certain = !self.inbound.owes_continue;
        self.inbound.is_complete || (is_certain && self.decoder.remaining().is_some_and(is_short))
    }
}

impl H1 {
    /// Takes more of a content. Returns false if no more can be taken now.
    pub(super) fn content<A: App>(&mut self, turn: &mut Turn<'_, A>, rest: &mut &[u8]) -> bool {
        let Reading::Content(incoming) = &mut self.reading else {
            return false;
        };
        if let Some(part) = incoming.feed_directly(rest, turn.context) {
            self.hand_over(turn, Part::Received(part));
            return true;
        }
        match incoming.feed(rest, turn.context) {
            Ok(Fed::Held) => {
                self.hand_over(turn, Part::Held);
                match &self.reading {
                    Reading::Content(incoming) => incoming.takes_more(turn.context),
                    _ => true,
                }
            }
            Ok(Fed::TooLong) => {
                *rest = &[];
                self.refuse_content(turn, 413, CONTENT_TOO_LONG);
                true
            }
            Ok(Fed::NoMemory) => {
                *rest = &[];
                self.content_lacks_memory(turn);
                true
            }
            Err(error) => {
                *rest = &[];
                self.refuse_content(turn, error.kind.status(), error.kind.reason());
                true
            }
        }
    }

    /// Content was read into the application's memory.
    pub(crate) fn filled<A: App>(&mut self, turn: &mut Turn<'_, A>, bytes: usize) {
        if let Reading::Content(incoming) = &mut self.reading {
            incoming.decoder.skip(bytes as u64);
            incoming.count_passed(bytes, turn.context);
            self.hand_over(turn, Part::InRoom(bytes));
        }
    }

    /// Passes content to its taker, and stops reading it when it is complete and taken.
    fn hand_over<A: App>(&mut self, turn: &mut Turn<'_, A>, part: Part<'_>) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let inbound = &mut incoming.inbound;
        let lent_bytes = match inbound.is_read_whole() {
            true => inbound.waiting_bytes(),
            false => 0,
        };
        let handed = inbound.hand_over(part, turn.context, turn.app);
        if handed == Handed::Refused {
            return self.content_lacks_memory(turn);
        }
        if !inbound.is_for_call()
            && let Some(reader) = self.queue.back_mut()
        {
            reader.exchange.record.received(inbound.total_bytes());
            if handed == Handed::ToReader {
                reader.exchange.lend(lent_bytes);
                reader.exchange.started_ms = turn.context.clock.now_ms();
            }
        }
        if !inbound.is_over(handed) {
            return;
        }
        if turn.context.is_guarded && inbound.is_for_call() && !self.may_call(turn) {
            return;
        }
        self.call_collected(turn);
    }

    /// Calls the application with a content that is complete, if it is to be called, and reads the next request.
    pub(super) fn call_collected<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let inbound = &mut incoming.inbound;
        let call = inbound.take_call();
        turn.context.bounds = inbound.bounds();
        let is_persistent = incoming.is_persistent;
        self.content_is_over(turn, is_persistent);
        if let Some((head, content)) = call
            && let Some(head) = head.read()
        {
            turn.context.repeats_request();
            self.call(turn, head.parsed(), Content::Whole(&content));
        }
    }

    /// Reads the next request, if one may follow.
    pub(super) fn content_is_over<A: App>(&mut self, turn: &Turn<'_, A>, is_persistent: bool) {
        match is_persistent {
            // Within a batch, `input` is empty; the caller that serves the batch holds the following bytes.
            true if self.input.is_empty() => {
                self.reading = Reading::Idle;
                self.since_ms = turn.now_ms();
            }
            true => self.reading = Reading::Waiting(For::Exchange),
            false => self.reading = Reading::Closing(Ending::Read),
        }
    }

    /// Refuses the request whose content there is no memory for.
    #[cold]
    pub(super) fn content_lacks_memory<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if let Reading::Content(incoming) = &self.reading {
            let bytes = incoming.inbound.total_bytes() as usize;
            turn.context.note_shortage(bytes);
        }
        self.refuse_content(turn, 503, NO_MEMORY);
    }

    /// Refuses the request whose content is being read.
    #[cold]
    pub(super) fn refuse_content<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        status: u16,
        reason: &str,
    ) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let inbound = &mut incoming.inbound;
        if std::mem::take(&mut inbound.is_queued) {
            turn.context.leave_queue(turn.link.id, None);
        }
        if let Some((head, _)) = inbound.take_call() {
            turn.context.repeats_request();
            let read = head.read();
            let refused = match &read {
                Some(head) => Refused::Head(head.parsed()),
                None => Refused::Unread { is_head: false },
            };
            return self.refuse(turn, refused, status, reason);
        }
        let reader = match self.queue.back_mut() {
            Some(last) if inbound.is_read_by(last.exchange.id) => last,
            // Its request already has a response.
            _ => return self.stop_reading(Ending::Unread),
        };
        turn.context.refusals.add(status, reason);
        truncate_reader(reader, turn, status, reason);
        self.stop_reading(Ending::Unread);
    }

    /// The peer ended its side inside a content: the handler is notified, and what is owed is still sent.
    pub(super) fn content_was_truncated<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let Reading::Content(incoming) = &self.reading else {
            return;
        };
        if incoming.inbound.is_complete {
            return;
        }
        let is_cut = |last: &Queued| {
            incoming.inbound.is_read_by(last.exchange.id) && !last.exchange.is_ended()
        };
        let mut ending = Ending::Read;
        if self.queue.back().is_some_and(is_cut)
            && let Some(mut cut) = self.queue.pop_back()
        {
            turn.abort(cut.exchange.id, Abort::Disconnected);
            cut.exchange.keep_deadline(turn.app, turn.context);
            if cut.ends_with_connection() {
                ending = Ending::Cut;
            }
            record_abandoned(turn.context, &mut cut, false);
        }
        self.record_abandoned_call(turn);
        self.stop_reading(ending);
    }

    /// Records a request whose call waited for content that will not arrive, or for a place that its client does not need any more.
    #[cold]
    pub(super) fn record_abandoned_call<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if !turn.context.is_recorded {
            return;
        }
        if let Reading::Content(incoming) = &mut self.reading
            && let Some((head, _)) = incoming.inbound.take_call()
            && let Some(head) = head.read()
        {
            self.record_abandoned_head(turn, head.parsed());
        }
        let input = std::mem::take(&mut self.input);
        if let Some(head) = self.head_that_waits(&input, turn.context) {
            self.record_abandoned_head(turn, &head);
        }
        self.input = input;
    }

    fn record_abandoned_head<A: App>(&self, turn: &mut Turn<'_, A>, head: &RequestHead<'_>) {
        let mut record = turn.record(turn.now_ms(), Some(head), (0, 0));
        record.abandon(true);
        turn.context.complete(record);
    }

    /// Whether a handler waits for its peer. If so, the peer's time runs and not the handler's.
    pub(super) fn reader_waits(&self) -> bool {
        matches!(&self.reading, Reading::Content(incoming) if incoming.inbound.has_reader_waiting())
    }

    /// Whether the last request's content has been read, or the rest is short enough to be discarded.
    pub(super) fn is_content_settled(&self) -> bool {
        match &self.reading {
            Reading::Content(incoming) => incoming.is_discardable(),
            Reading::Idle
            | Reading::Head
            | Reading::Waiting(_)
            | Reading::Handshake(_)
            | Reading::Upgraded(_) => true,
            Reading::Closing(_) => false,
        }
    }

    /// A handler asks for the next part of its content, or for all that follows.
    pub(super) fn read_more<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        asker: ExchangeId,
        whole: bool,
    ) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let inbound = &mut incoming.inbound;
        let ahead_bytes = inbound.ahead_bytes();
        if !inbound.ask(asker, whole, turn.context) {
            return;
        }
        if whole && let Some(Queued { exchange, .. }) = self.queue.back_mut() {
            exchange.lend(ahead_bytes);
        }
        let has_content = inbound.holds_some() || !self.input.is_empty();
        if std::mem::take(&mut inbound.owes_continue)
            && !has_content
            && let Some(Queued { exchange, .. }) = self.queue.back_mut()
            && exchange.progress == Progress::Waiting
        {
            exchange.out.tail().extend_from_slice(wire::CONTINUE);
        }
        self.hand_over(turn, Part::Held);
        if !self.input.is_empty() {
            self.continue_content(turn);
        }
    }

    /// Takes content that waits in the input. A request after it starts in the turn of the connection, like every call.
    fn continue_content<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let mut input = std::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        while !rest.is_empty() && self.content(turn, &mut rest) {}
        let used = input.len() - rest.len();
        input.drain(..used);
        if input.is_empty() {
            return;
        }
        match self.reading {
            Reading::Idle => self.reading = Reading::Waiting(For::Exchange),
            Reading::Closing(Ending::Announced | Ending::Read) => {
                return self.stop_reading(Ending::Unread);
            }
            Reading::Closing(_) => return,
            _ => {}
        }
        self.input = input;
    }

    /// Discards the content of a request whose response is complete.
    pub(super) fn release_content<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        ended: ExchangeId,
        is_persistent: bool,
    ) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        if !incoming.inbound.is_read_by(ended) {
            return;
        }
        incoming.inbound.release(true, turn.context);
        let (is_complete, goes_on) = (
            incoming.inbound.is_complete,
            incoming.is_persistent && is_persistent,
        );
        match (goes_on, is_complete) {
            (false, true) => self.reading = Reading::Closing(Ending::Read),
            (false, false) => self.reading = Reading::Closing(Ending::Unread),
            (true, true) => self.content_is_over(turn, true),
            (true, false) => {}
        }
    }
}

/// Ends the exchange whose content cannot be read, with a response if it has none.
fn truncate_reader<A: App>(reader: &mut Queued, turn: &mut Turn<'_, A>, status: u16, reason: &str) {
    match reader.exchange.progress {
        Progress::Waiting => {
            turn.abort(reader.exchange.id, Abort::Refused);
            reader.encoding.framing.persistent = false;
            let response = Response::error(status, reason);
            reader.respond(&mut turn.context.responder, &response);
        }
        Progress::Pushed | Progress::Pulled => {
            turn.abort(reader.exchange.id, Abort::Refused);
            reader.exchange.cut();
        }
        Progress::Done | Progress::Cut => {}
    }
}
