//! The content of the request that is being read: who takes it, how much may be held, how slow it may be.

use std::mem::MaybeUninit;

use wire::{BodyDecoder, BodyLength, Decoded, Progress as Parsed, ProtocolError};

use super::answers::CONTENT_TOO_LONG;
use super::{Connection, Reading};
use crate::app::{Abort, App, Content, ExchangeId};
use crate::exchange::{Exchange, Progress};
use crate::timeouts::Timeouts;
use crate::worker::{Core, ROOM_BYTES_MAX};

/// Unread content that is read and thrown away to keep a connection; longer than that, closing is cheaper for both sides.
pub(super) const DISCARD_BYTES_MAX: u64 = 65_536;

/// Less than this is read into the worker's buffer with whatever follows: copying it costs little, and asking for memory something.
const ROOM_BYTES_MIN: u64 = 16_384;

/// Who takes a content.
pub(super) enum Taker {
    /// The application, called when all of it is there; the bytes of the request's head are kept for that call.
    Call(Box<[u8]>),
    /// A handler that asks for it part by part.
    Exchange { id: ExchangeId, wants: bool },
    /// Nobody: the request is answered.
    Nobody,
}

impl Taker {
    /// The head of the request that was to be called with its content.
    fn take_head(&mut self) -> Option<Box<[u8]>> {
        match std::mem::replace(self, Taker::Nobody) {
            Taker::Call(bytes) => Some(bytes),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A content on its way in.
pub(super) struct Incoming {
    decoder: BodyDecoder,
    pub(super) taker: Taker,
    /// Decoded and not yet taken.
    pub(super) content: Vec<u8>,
    /// Decoded so far.
    total_bytes: u64,
    pub(super) is_complete: bool,
    /// The peer waits for a 100 (Continue) before it sends.
    pub(super) owes_continue: bool,
    /// Whether another request may follow it.
    pub(super) is_persistent: bool,
    /// Start of the current wait for the peer; `None` while we do not want to read.
    waits_since_ms: Option<u64>,
    /// Sum of the waits before.
    waited_ms: u64,
    /// The taker has a part that it has not asked for: nothing more is read until it asks.
    pub(super) is_ahead: bool,
}

/// What more input did.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Fed {
    /// More is needed.
    Incomplete,
    /// The content is complete.
    Complete,
    /// More is held than the taker wants: pause.
    Full,
    /// It is longer than the limit.
    TooLong,
}

/// Where the content is that is handed over.
#[derive(Clone, Copy)]
enum Held<'a> {
    /// In [`Incoming`].
    Kept,
    /// In the receive buffer.
    Part(&'a [u8]),
    /// So many bytes of the application's own memory.
    Room(usize),
}

impl Incoming {
    pub(super) fn new(
        body_length: BodyLength,
        taker: Taker,
        owes_continue: bool,
        is_persistent: bool,
    ) -> Incoming {
        Incoming {
            decoder: BodyDecoder::new(body_length),
            taker,
            content: Vec::new(),
            total_bytes: 0,
            is_complete: false,
            owes_continue,
            is_persistent,
            waits_since_ms: None,
            waited_ms: 0,
            is_ahead: false,
        }
    }

    /// Decodes `input` as far as it may be held.
    pub(super) fn feed(
        &mut self,
        input: &mut &[u8],
        bytes_max: u64,
        buffer_bytes_max: u64,
    ) -> Result<Fed, ProtocolError> {
        while !self.is_complete {
            // The end of a known length costs no more bytes, so nobody would come back for it.
            if self.is_full(buffer_bytes_max) && self.decoder.remaining() != Some(0) {
                return Ok(Fed::Full);
            }
            match self.decoder.decode(input)? {
                Decoded::Content(part) => {
                    self.total_bytes += part.len() as u64;
                    if self.total_bytes > bytes_max {
                        return Ok(Fed::TooLong);
                    }
                    if !matches!(self.taker, Taker::Nobody) {
                        self.content.extend_from_slice(part);
                    }
                }
                Decoded::NeedMore => return Ok(Fed::Incomplete),
                Decoded::End => self.is_complete = true,
            }
        }
        Ok(Fed::Complete)
    }

    /// The exchange that takes just the next bytes of a content of known length, and how many are owed. They can go to it without being
    /// kept here.
    fn owed_directly(&self, bytes_max: u64) -> Option<(ExchangeId, u64)> {
        let Taker::Exchange { id, .. } = self.taker else {
            return None;
        };
        let owed = self.decoder.remaining().filter(|&owed| owed > 0)?;
        let is_within = self.total_bytes.saturating_add(owed) <= bytes_max;
        (self.content.is_empty() && is_within).then_some((id, owed))
    }

    /// The next part of a content that goes to its taker directly.
    fn feed_directly<'a>(&mut self, input: &mut &'a [u8], bytes_max: u64) -> Option<&'a [u8]> {
        let is_waited_for = matches!(self.taker, Taker::Exchange { wants: true, .. });
        self.owed_directly(bytes_max).filter(|_| is_waited_for)?;
        let Ok(Decoded::Content(part)) = self.decoder.decode(input) else {
            return None;
        };
        self.took(part.len());
        Some(part)
    }

    /// Content went to its taker directly.
    fn took(&mut self, bytes: usize) {
        self.total_bytes += bytes as u64;
        self.is_complete = self.decoder.remaining() == Some(0);
    }

    /// Only a handler that reads part by part is given time to fetch what is held.
    fn is_full(&self, buffer_bytes_max: u64) -> bool {
        matches!(self.taker, Taker::Exchange { .. })
            && self.content.len() as u64 >= buffer_bytes_max
    }

    /// True when the peer is waited for: somebody wants content that is not there.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_complete
            && match self.taker {
                Taker::Exchange { wants, .. } => wants,
                Taker::Call(_) | Taker::Nobody => true,
            }
    }

    /// Whether the rest is short and certain enough to be thrown away.
    pub(super) fn is_discardable(&self) -> bool {
        self.is_complete
            || (!self.owes_continue
                && self
                    .decoder
                    .remaining()
                    .is_some_and(|rest| rest <= DISCARD_BYTES_MAX))
    }

    /// Keeps the sum of the time we waited for the peer.
    pub(super) fn clock(&mut self, now_ms: u64) {
        match (self.is_wanted(), self.waits_since_ms) {
            (true, None) => self.waits_since_ms = Some(now_ms),
            (false, Some(since)) => {
                self.waited_ms += now_ms.saturating_sub(since);
                self.waits_since_ms = None;
            }
            _ => {}
        }
    }

    /// When the minimum rate is missed if nothing more comes.
    pub(super) fn deadline_ms(&self, timeouts: &Timeouts) -> u64 {
        let Some(since) = self.waits_since_ms else {
            return u64::MAX;
        };
        if timeouts.body_rate_bytes_per_s_min == 0 || timeouts.body_grace_ms == 0 {
            return u64::MAX;
        }
        let earned = self.total_bytes.saturating_mul(1000) / timeouts.body_rate_bytes_per_s_min;
        let allowed = timeouts.body_grace_ms.saturating_add(earned);
        since.saturating_add(allowed.saturating_sub(self.waited_ms))
    }
}

impl Connection {
    /// Takes more of a content.
    pub(super) fn content<A: App>(&mut self, core: &mut Core, app: &mut A, rest: &mut &[u8]) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        if let Some(part) = incoming.feed_directly(rest, core.limits.body_bytes_max) {
            return self.hand_over_from(core, app, Held::Part(part));
        }
        match incoming.feed(
            rest,
            core.limits.body_bytes_max,
            core.limits.content_buffer_bytes_max,
        ) {
            Ok(Fed::Incomplete | Fed::Complete) => {}
            Ok(Fed::Full) => self.is_blocked = true,
            Ok(Fed::TooLong) => {
                *rest = &[];
                return self.refuse_content(core, app, 413, CONTENT_TOO_LONG);
            }
            Err(error) => {
                *rest = &[];
                return self.refuse_content(core, app, error.kind.status(), error.kind.reason());
            }
        }
        self.hand_over(core, app);
    }

    /// Gives content to whom it belongs, and ends its reading when it is complete and taken.
    pub(super) fn hand_over<A: App>(&mut self, core: &mut Core, app: &mut A) {
        self.hand_over_from(core, app, Held::Kept);
    }

    /// Memory of the application's for content that somebody waits for, or will take next.
    pub(super) fn content_room<'a, A: App>(
        &self,
        core: &Core,
        app: &'a mut A,
    ) -> Option<&'a mut [MaybeUninit<u8>]> {
        let Reading::Content(incoming) = &self.reading else {
            return None;
        };
        let (id, owed) = incoming.owed_directly(core.limits.body_bytes_max)?;
        if owed < ROOM_BYTES_MIN || !self.input.is_empty() || incoming.is_ahead {
            return None;
        }
        // What nobody has asked for is no more than may be held.
        let most = match incoming.is_wanted() {
            true => ROOM_BYTES_MAX as u64,
            false => core.limits.content_buffer_bytes_max,
        };
        app.content_room(id, usize::try_from(owed.min(most)).ok()?)
    }

    /// Content was read into the application's memory.
    pub(super) fn content_was_read<A: App>(&mut self, core: &mut Core, app: &mut A, bytes: usize) {
        if let Reading::Content(incoming) = &mut self.reading {
            incoming.decoder.skip(bytes as u64);
            incoming.took(bytes);
            self.hand_over_from(core, app, Held::Room(bytes));
        }
    }

    fn hand_over_from<A: App>(&mut self, core: &mut Core, app: &mut A, held: Held<'_>) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let is_complete = incoming.is_complete;
        match &mut incoming.taker {
            Taker::Exchange { id, wants } => {
                let bytes = match held {
                    Held::Kept => incoming.content.len(),
                    Held::Part(part) => part.len(),
                    Held::Room(bytes) => bytes,
                };
                let is_in_room = matches!(held, Held::Room(_));
                if (*wants || is_in_room) && (is_complete || bytes > 0) {
                    // Of what nobody asked for yet, one part is read ahead.
                    incoming.is_ahead = !*wants;
                    if std::mem::take(wants)
                        && let Some(reader) = self.pending.back_mut()
                    {
                        reader.started_ms = core.clock.now_ms();
                    }
                    core.content_bytes += bytes;
                    match held {
                        Held::Kept => app.content(*id, &incoming.content, is_complete),
                        Held::Part(part) => app.content(*id, part, is_complete),
                        Held::Room(bytes) => app.content_was_read(*id, bytes, is_complete),
                    }
                    incoming.content.clear();
                } else if is_complete {
                    // It stays here until the handler asks for it or answers.
                    self.is_blocked = true;
                    return incoming.clock(core.clock.now_ms());
                }
            }
            Taker::Call(_) | Taker::Nobody => {}
        }
        incoming.clock(core.clock.now_ms());
        if !is_complete {
            return;
        }
        let after = if incoming.is_persistent {
            Reading::Head
        } else {
            Reading::Closing
        };
        if let Reading::Content(incoming) = std::mem::replace(&mut self.reading, after)
            && let Taker::Call(bytes) = incoming.taker
            && let Ok(Parsed::Complete(head)) = wire::parse_request(&bytes, &core.head_limits)
        {
            self.call(core, app, &head, Content::Whole(&incoming.content));
        }
    }

    /// Refuses the request whose content is being read.
    #[cold]
    pub(super) fn refuse_content<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        status: u16,
        reason: &str,
    ) {
        let bytes = match &mut self.reading {
            Reading::Content(incoming) => incoming.taker.take_head(),
            _ => None,
        };
        match wire::parse_request(&bytes.unwrap_or_default(), &core.head_limits) {
            Ok(Parsed::Complete(head)) => self.refuse(core, app, Some(&head), status, reason),
            _ => self.refuse(core, app, None, status, reason),
        }
    }

    /// The peer ended its side inside a content: the handler is told, and what is owed is still sent.
    pub(super) fn content_was_cut<A: App>(&mut self, app: &mut A) {
        let Reading::Content(incoming) = &self.reading else {
            return;
        };
        if incoming.is_complete {
            return;
        }
        let is_cut = |last: &Exchange| {
            matches!(incoming.taker, Taker::Exchange { id, .. } if id == last.id)
                && !last.is_ended()
        };
        if self.pending.back().is_some_and(is_cut)
            && let Some(cut) = self.pending.pop_back()
        {
            app.abort(cut.id, Abort::Disconnected);
        }
        self.reading = Reading::Closing;
    }

    /// Whether the handler waits for its peer: then the peer's time runs, not the handler's.
    pub(super) fn reader_waits(&self) -> bool {
        let Reading::Content(incoming) = &self.reading else {
            return false;
        };
        matches!(incoming.taker, Taker::Exchange { wants: true, .. })
    }

    /// Whether all content of the last request is read, or so little is left that it can be discarded.
    pub(super) fn is_content_settled(&self) -> bool {
        match &self.reading {
            Reading::Content(incoming) => incoming.is_discardable(),
            Reading::Head => true,
            Reading::Closing | Reading::Lingering { .. } => false,
        }
    }

    pub(super) fn read_more<A: App>(&mut self, core: &mut Core, app: &mut A, asker: ExchangeId) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        match &mut incoming.taker {
            Taker::Exchange { id, wants } if *id == asker => {
                *wants = true;
                incoming.is_ahead = false;
            }
            _ => return,
        }
        if std::mem::take(&mut incoming.owes_continue)
            && incoming.content.is_empty()
            && self.input.is_empty()
            && let Some(exchange) = self.pending.back_mut()
            && exchange.progress == Progress::Waiting
        {
            exchange.out.tail().extend_from_slice(wire::CONTINUE);
        }
        self.is_blocked = false;
        self.hand_over(core, app);
        if !self.input.is_empty() {
            self.resume(core, app);
        }
    }

    /// An answered request's content belongs to nobody any more.
    pub(super) fn release_content(&mut self, answered: ExchangeId, is_persistent: bool) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        if !matches!(incoming.taker, Taker::Exchange { id, .. } if id == answered) {
            return;
        }
        incoming.taker = Taker::Nobody;
        incoming.content = Vec::new();
        let goes_on = incoming.is_persistent && is_persistent;
        match (goes_on, incoming.is_complete) {
            (false, is_complete) => {
                self.has_unread |= !is_complete;
                self.reading = Reading::Closing;
            }
            (true, true) => self.reading = Reading::Head,
            (true, false) => {}
        }
    }
}
