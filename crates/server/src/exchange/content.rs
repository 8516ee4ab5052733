//! The incoming content of a request, independent of the protocol: who takes it, how much is held, and the minimum rate.
//!
//! | taker | content that arrives | who moves next |
//! | --- | --- | --- |
//! | `Start` | is held, as far as the window of its stream allows | the server: it has not started the request (HTTP/2) |
//! | `Call` | is held until it is complete, then the application is called | the peer, at its pace, unless the server withholds its window |
//! | `Exchange`, `Wanted` | goes to the handler, which then is `Unasked` | the peer, at its pace |
//! | `Exchange`, `Whole` | is held until it is complete, then goes to the handler | as `Call` |
//! | `Exchange`, `Unasked` | is held up to `content_buffer_bytes_max`, or one part is read into the handler's memory: `Ahead` | the handler: it asks, or responds |
//! | `Exchange`, `Ahead` | is not read | the handler |
//! | `NobodyYet` | is discarded | the server: it sends the response (HTTP/2) |
//! | `Nobody` | is discarded | the peer, at its pace |
//!
//! When the response to a request is complete, the taker of its content becomes `Nobody`; over HTTP/2 when it is sent. So the handler in
//! `Unasked` and `Ahead` always owes a response, and in every other state but `Start` and `NobodyYet` the peer's pace is the deadline. These
//! two wait for responses of the connection to be sent, for which the peer has a deadline.

use std::mem::MaybeUninit;

use net::memory::append;

use crate::app::App;
use crate::app::head::OwnedHead;
use crate::context::Context;
use crate::context::bounds::Bounds;
use crate::id::ExchangeId;
use crate::pace::{Pace, Waits, arrival_rate};

/// Maximum unread content that is discarded to keep a connection open. Beyond it, closing is cheaper for both sides.
pub(crate) const DISCARD_BYTES_MAX: u64 = 65_536;
/// A smaller part is read into the worker's buffer together with what follows: copying it is cheaper than allocating memory for it.
const ROOM_BYTES_MIN: u64 = 16_384;
/// Maximum bytes of content that one read places in the application's memory. Larger reads mean fewer turns for a long content.
pub(crate) const ROOM_BYTES_MAX: usize = 262_144;

/// State of a handler that reads its content in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// It waits for a part.
    Wanted,
    /// It waits for all that follows, as one part.
    Whole,
    /// It has not asked for the next part.
    Unasked,
    /// The next part is in its memory already, although it has not asked for it.
    Ahead,
}

/// Where content goes.
pub(crate) enum Taker {
    /// The application, called when the connection may start the request, with the content if it is complete then.
    Start(OwnedHead),
    /// The application, called when the content is complete. The request's head is kept for that call.
    Call(OwnedHead),
    /// A handler that asks for it part by part.
    Exchange { id: ExchangeId, demand: Demand },
    /// Nowhere: the request has its response, but the peer does not have it yet and need not send (HTTP/2).
    NobodyYet,
    /// Nowhere: the request has its response.
    Nobody,
}

/// The location of a part of the content.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// In [`Inbound`].
    Held,
    /// In the receive buffer.
    Received(&'a [u8]),
    /// In the application's own memory: the number of bytes.
    InRoom(usize),
}

/// The result of holding a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// It is held, or was discarded.
    Yes,
    /// The content is longer than the limit.
    TooLong,
    /// There is no memory for it.
    NoMemory,
}

/// Where a part went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handed {
    /// Nowhere: it is held or discarded, or there is none.
    Kept,
    /// To the handler that waited for it.
    ToReader,
    /// Into the memory of a handler that has not asked for it.
    Ahead,
    /// Nowhere: its handler has no memory for it.
    Refused,
}

/// The content of a request that is being received.
pub(crate) struct Inbound {
    pub(crate) taker: Taker,
    /// Decoded and not yet taken.
    held: Vec<u8>,
    /// Bytes decoded so far.
    total_bytes: u64,
    /// Of its request.
    bounds: Bounds,
    /// Its request waits until fewer others run.
    pub(crate) is_queued: bool,
    /// It might have begun after a wait of so long, but for responses of its connection that have to be sent first.
    pub(crate) granted_after_ms: Option<u64>,
    pub(crate) is_complete: bool,
    /// The peer waits for a 100 (Continue) before it sends.
    pub(crate) owes_continue: bool,
    /// The peer may not send: the server withholds its window.
    is_withheld: bool,
    /// Since when it is discarded, if it is.
    discarded_since_ms: u64,
    pace: Pace,
    waits: Waits,
    /// Bytes of the next part that have been counted for the pace, before the part is complete.
    arriving_bytes: u64,
    /// Bytes in the memory of a handler that has not asked for them.
    ahead_bytes: usize,
}

impl Taker {
    /// A handler that may ask for the content.
    pub(crate) fn unasked(id: ExchangeId) -> Taker {
        let demand = Demand::Unasked;
        Taker::Exchange { id, demand }
    }
}

impl Inbound {
    pub(crate) fn new(taker: Taker, owes_continue: bool, context: &Context) -> Inbound {
        let mut inbound = Inbound {
            taker,
            held: Vec::new(),
            total_bytes: 0,
            bounds: context.bounds,
            is_queued: false,
            granted_after_ms: None,
            is_complete: false,
            owes_continue,
            is_withheld: false,
            discarded_since_ms: context.clock.now_ms(),
            pace: Pace::new(context.timeouts.body_grace_ms),
            waits: Waits::default(),
            arriving_bytes: 0,
            ahead_bytes: 0,
        };
        inbound.update_pace(context);
        inbound
    }

    /// Runs the peer's credit while the server waits for it.
    fn update_pace(&mut self, context: &Context) {
        let now_ms = context.clock.now_ms();
        let is_waited_for = self.is_waited_for();
        self.waits.change(is_waited_for, now_ms);
        match is_waited_for {
            true => self.pace.run(now_ms),
            false => self.pace.pause(now_ms),
        }
    }

    /// How many bytes per second have arrived while the server waited for them, if it waits, and has done so for some time.
    pub(crate) fn arrival_rate(&self, now_ms: u64) -> Option<u64> {
        match self.is_waited_for() {
            true => arrival_rate(
                self.total_bytes + self.arriving_bytes,
                self.waits.sum_ms(now_ms),
            ),
            false => None,
        }
    }

    /// Whether the server waits for the peer: content is wanted and has not arrived.
    pub(crate) fn is_waited_for(&self) -> bool {
        let is_wanted = match self.taker {
            Taker::Start(_) | Taker::NobodyYet => false,
            Taker::Exchange { demand, .. } => matches!(demand, Demand::Wanted | Demand::Whole),
            Taker::Call(_) | Taker::Nobody => true,
        };
        is_wanted && !self.is_complete && !self.is_withheld
    }

    /// Whether more of it is read while the budget is nearly used up, although up to `rest_bytes` may follow.
    #[cold]
    pub(crate) fn is_admitted(&self, rest_bytes: u64, context: &Context) -> bool {
        match self.taker {
            Taker::NobodyYet | Taker::Nobody => true,
            // It goes to its handler, which may finish, and is not held.
            Taker::Exchange { demand, .. } if demand != Demand::Whole => demand == Demand::Wanted,
            Taker::Start(_) | Taker::Call(_) | Taker::Exchange { .. } => {
                let room_bytes = self.held.capacity() - self.held.len();
                rest_bytes <= room_bytes as u64 || context.budget.admits(rest_bytes)
            }
        }
    }

    /// Whether it waits until this side has room for it.
    pub(crate) fn is_withheld(&self) -> bool {
        self.is_withheld
    }

    /// The peer may send, or has to wait until the server opens its window.
    pub(crate) fn withhold(&mut self, is_withheld: bool, context: &Context) {
        if self.is_withheld != is_withheld {
            self.is_withheld = is_withheld;
            self.update_pace(context);
        }
    }

    /// See [`Pace::skip`].
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64) {
        self.pace.skip(from_ms, to_ms);
    }

    /// Whether a handler waits for its peer. If so, the peer's time runs and not the handler's.
    pub(crate) fn has_reader_waiting(&self) -> bool {
        matches!(
            self.taker,
            Taker::Exchange {
                demand: Demand::Wanted | Demand::Whole,
                ..
            }
        )
    }

    /// Whether a handler waits for all of it.
    pub(crate) fn is_read_whole(&self) -> bool {
        matches!(
            self.taker,
            Taker::Exchange {
                demand: Demand::Whole,
                ..
            }
        )
    }

    /// Whether that exchange's handler reads it.
    pub(crate) fn is_read_by(&self, exchange: ExchangeId) -> bool {
        matches!(self.taker, Taker::Exchange { id, .. } if id == exchange)
    }

    /// Its request begins after a wait for a place.
    pub(crate) fn note_wait(&mut self) {
        self.bounds.has_waited = true;
    }

    /// The bounds of its request.
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether the application is still to be called.
    pub(crate) fn is_for_call(&self) -> bool {
        matches!(self.taker, Taker::Start(_) | Taker::Call(_))
    }

    /// Whether it is held until it is complete: the application is to be called then, or its handler waits for all of it.
    pub(crate) fn is_collected(&self) -> bool {
        matches!(self.taker, Taker::Call(_)) || self.is_read_whole()
    }

    /// Whether it is held because its peer has not sent the rest, or because its request may not be called yet.
    pub(crate) fn is_of_peer(&self) -> bool {
        match self.taker {
            Taker::Start(_) => self.holds_some(),
            Taker::Call(_) => true,
            Taker::Exchange { demand, .. } => demand == Demand::Whole && !self.is_complete,
            Taker::NobodyYet | Taker::Nobody => false,
        }
    }

    /// Whether a part of it has arrived that its handler has not asked for.
    pub(crate) fn is_unasked(&self) -> bool {
        let has_part = self.holds_some() || self.ahead_bytes > 0;
        has_part && matches!(self.taker, Taker::Exchange { .. }) && !self.is_read_whole()
    }

    /// Whether the application can be called now.
    pub(crate) fn is_ready(&self) -> bool {
        match self.taker {
            _ if self.is_queued => false,
            Taker::Start(_) => true,
            Taker::Call(_) => self.is_complete,
            Taker::Exchange { .. } | Taker::NobodyYet | Taker::Nobody => false,
        }
    }

    /// Whether more of it may be received.
    #[inline]
    pub(crate) fn takes_more(&self, context: &Context) -> bool {
        let has_room = match self.taker {
            Taker::Start(_) | Taker::Call(_) | Taker::NobodyYet | Taker::Nobody => true,
            Taker::Exchange { demand, .. } => {
                let most = context.limits.content_buffer_bytes_max.max(1);
                let has_room = (self.held.len() as u64) < most;
                demand == Demand::Whole || demand != Demand::Ahead && has_room
            }
        };
        has_room && !self.is_complete
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let head = match &self.taker {
            Taker::Start(head) | Taker::Call(head) => head.held_bytes(),
            Taker::Exchange { .. } | Taker::NobodyYet | Taker::Nobody => 0,
        };
        self.held.capacity() + self.ahead_bytes + head + size_of::<Inbound>()
    }

    /// Whether nobody takes it.
    pub(crate) fn is_discarded(&self) -> bool {
        matches!(self.taker, Taker::NobodyYet | Taker::Nobody)
    }

    /// When the minimum rate is missed if nothing more arrives.
    pub(crate) fn deadline_ms(&self, context: &Context) -> u64 {
        match context.timeouts.content_rule() {
            // While draining, credit that was earned before does not count.
            Some(_) if context.is_draining() => self.pace.end_ms(context.timeouts.body_grace_ms),
            Some(_) => self.pace.end_ms(u64::MAX),
            None => u64::MAX,
        }
    }

    /// Counts decoded content. Returns false if it exceeds the limit.
    fn count(&mut self, bytes: usize, context: &Context) -> bool {
        self.total_bytes = self.total_bytes.saturating_add(bytes as u64);
        let earned_before = std::mem::take(&mut self.arriving_bytes);
        self.earn((bytes as u64).saturating_sub(earned_before), context);
        self.total_bytes <= self.bounds.body_bytes_max
    }

    fn earn(&mut self, bytes: u64, context: &Context) {
        if let Some(rule) = context.timeouts.content_rule() {
            self.pace.earn(bytes, rule, context.clock.now_ms());
        }
    }

    /// So many bytes of the next part have arrived, which is not complete.
    pub(crate) fn note_arriving(&mut self, bytes: u64, context: &Context) {
        let earned_before = std::mem::replace(&mut self.arriving_bytes, bytes);
        self.earn(bytes.saturating_sub(earned_before), context);
    }

    /// See [`Pace::extend`].
    pub(crate) fn extend(&mut self, from_ms: u64, to_ms: u64) {
        self.pace.extend(from_ms, to_ms);
    }

    /// Holds or discards a decoded part.
    pub(crate) fn hold(&mut self, part: &[u8], context: &Context) -> Held {
        if !self.count(part.len(), context) {
            return Held::TooLong;
        }
        if !self.is_discarded() && append(&mut self.held, part).is_err() {
            return Held::NoMemory;
        }
        Held::Yes
    }

    /// Number of bytes that have arrived.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// How many more its limit allows.
    pub(crate) fn allowed_bytes(&self) -> u64 {
        self.bounds.body_bytes_max.saturating_sub(self.total_bytes)
    }

    /// Whether `owed_bytes` more bytes may go to a handler without being held here.
    pub(crate) fn goes_directly(&self, owed_bytes: u64) -> bool {
        let is_within = self.total_bytes.saturating_add(owed_bytes) <= self.bounds.body_bytes_max;
        let is_read = matches!(self.taker, Taker::Exchange { .. }) && !self.is_read_whole();
        is_read && is_within && owed_bytes > 0 && self.held.is_empty()
    }

    /// The application's memory for content that its handler waits for or will take next. `owed_bytes` have not arrived yet.
    pub(crate) fn room<'a, A: App>(
        &self,
        owed_bytes: u64,
        context: &Context,
        app: &'a mut A,
    ) -> Option<&'a mut [MaybeUninit<u8>]> {
        let Taker::Exchange { id, demand } = self.taker else {
            return None;
        };
        let most = match demand {
            Demand::Wanted => ROOM_BYTES_MAX as u64,
            // Content that was not asked for is bounded like content that is held.
            Demand::Unasked => context.limits.content_buffer_bytes_max,
            Demand::Ahead | Demand::Whole => return None,
        };
        if owed_bytes < ROOM_BYTES_MIN || !self.goes_directly(owed_bytes) {
            return None;
        }
        app.content_room(id, usize::try_from(owed_bytes.min(most)).ok()?)
    }

    /// Counts content that goes to its handler without being held.
    pub(crate) fn count_passed(&mut self, bytes: usize, is_complete: bool, context: &Context) {
        self.count(bytes, context);
        self.is_complete = is_complete;
    }

    /// Passes a part to the handler that waits for it or whose memory contains it.
    pub(crate) fn hand_over<A: App>(
        &mut self,
        part: Part<'_>,
        context: &mut Context,
        app: &mut A,
    ) -> Handed {
        let mut handed = self.handed(part);
        if handed != Handed::Kept
            && let Taker::Exchange { id, demand } = &mut self.taker
        {
            *demand = match handed {
                Handed::Ahead => Demand::Ahead,
                _ => Demand::Unasked,
            };
            let (is_taken, bytes) = match part {
                Part::Held => {
                    let is_taken = app.content(*id, &self.held, self.is_complete);
                    (is_taken, self.held.len())
                }
                Part::Received(part) => (app.content(*id, part, self.is_complete), part.len()),
                Part::InRoom(bytes) => {
                    app.content_was_read(*id, bytes, self.is_complete);
                    (true, bytes)
                }
            };
            if handed == Handed::Ahead {
                self.ahead_bytes = bytes;
            }
            if !is_taken {
                handed = Handed::Refused;
            }
            self.held.clear();
            context.content_bytes += bytes;
            context.clock.tick();
        }
        self.update_pace(context);
        handed
    }

    /// Where a part goes.
    fn handed(&self, part: Part<'_>) -> Handed {
        let Taker::Exchange { demand, .. } = self.taker else {
            return Handed::Kept;
        };
        let has_some = match part {
            Part::Held => !self.held.is_empty(),
            Part::Received(part) => !part.is_empty(),
            Part::InRoom(bytes) => bytes > 0,
        };
        match (demand, part) {
            _ if !has_some && !self.is_complete => Handed::Kept,
            (Demand::Wanted, _) => Handed::ToReader,
            (Demand::Whole, _) if self.is_complete => Handed::ToReader,
            (_, Part::InRoom(_)) => Handed::Ahead,
            _ => Handed::Kept,
        }
    }

    /// Number of bytes that are held for its taker.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether decoded content is held for its taker.
    pub(crate) fn holds_some(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the content, once complete and passed on in that way, needs no taker any more.
    pub(crate) fn is_over(&self, handed: Handed) -> bool {
        let is_taken = handed != Handed::Kept || !matches!(self.taker, Taker::Exchange { .. });
        self.is_complete && is_taken
    }

    /// The handler asks for a part, or for all that follows. Returns false if it is not the handler of this content.
    pub(crate) fn ask(&mut self, asker: ExchangeId, whole: bool, context: &Context) -> bool {
        match &mut self.taker {
            Taker::Exchange { id, demand } if *id == asker => {
                *demand = match whole {
                    true => Demand::Whole,
                    false => Demand::Wanted,
                };
            }
            _ => return false,
        }
        self.ahead_bytes = 0;
        self.update_pace(context);
        true
    }

    /// Bytes in the memory of a handler that has not asked for them.
    pub(crate) fn ahead_bytes(&self) -> usize {
        self.ahead_bytes
    }

    /// Discards the content from now on. `is_sent` if the peer has the response, or its protocol makes no difference.
    pub(crate) fn release(&mut self, is_sent: bool, context: &Context) {
        self.taker = match is_sent {
            true => Taker::Nobody,
            false => Taker::NobodyYet,
        };
        self.held = Vec::new();
        self.ahead_bytes = 0;
        self.is_withheld = false;
        self.discarded_since_ms = context.clock.now_ms();
        self.update_pace(context);
    }

    /// The response has been sent, and the rest of the content is still to be discarded. The time for which that took was not the peer's.
    pub(crate) fn response_was_sent(&mut self, context: &Context) {
        if matches!(self.taker, Taker::NobodyYet) {
            self.release(true, context);
        }
    }

    /// Whether more of a content that is discarded is to be accepted.
    pub(crate) fn may_discard(&self, context: &Context) -> bool {
        context.clock.now_ms() < self.discarding_end_ms(context)
    }

    /// Until when content is discarded that arrives at its rate. Many clients read the response only after they have sent everything, so
    /// this lasts as long as a connection lingers.
    pub(crate) fn discarding_end_ms(&self, context: &Context) -> u64 {
        let lasts_ms = context.timeouts.lingering_ms_max();
        self.discarded_since_ms.saturating_add(lasts_ms)
    }

    /// Continues with content that arrived before the request was started.
    pub(crate) fn continue_from(&mut self, held: Vec<u8>, total_bytes: u64, context: &Context) {
        self.total_bytes = total_bytes;
        if !self.is_discarded() {
            self.held = held;
        }
        self.update_pace(context);
    }

    /// The head of the request to be called with its content, and the content.
    pub(crate) fn take_call(&mut self) -> Option<(OwnedHead, Vec<u8>)> {
        self.is_queued = false;
        match std::mem::replace(&mut self.taker, Taker::Nobody) {
            Taker::Start(head) | Taker::Call(head) => Some((head, std::mem::take(&mut self.held))),
            other => {
                self.taker = other;
                None
            }
        }
    }
}
