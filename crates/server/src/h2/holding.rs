//! What an HTTP/2 connection does while the budget of memory is nearly used up. Its frames are read nevertheless, because streams of any kind
//! depend on them; clients are held back by the windows of their streams.

use wire::h2::{ErrorCode, Violation, frame};
use wire::websocket::CloseCode;
use wire::{BodyLength, RequestHead};

use super::handlers::guarded;
use super::request::{Known, New};
use super::stream::Stream;
use super::websocket::Carried;
use super::{H2, Leaving, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::context::budget::{BUDGET, HOLDER_BYTES_MIN, Holder};
use crate::exchange::{Progress, Unfinished};
use crate::link::{Fate, Link, Turn, Unread};
use crate::pace::arrival_rate;
use crate::response::SLOW;

impl Stream {
    /// Whether content has arrived that its application cannot be called for, or that is not complete.
    fn has_content_of_peer(&self) -> bool {
        self.inbound.as_ref().is_some_and(|it| it.is_of_peer())
    }

    /// Whether a part of its content, or of a WebSocket's octets, has arrived that its handler has not asked for.
    fn has_unasked(&self) -> bool {
        let is_carried = match self.carried.as_deref() {
            Some(Carried::Offered { input, .. } | Carried::Open { input, .. }) => !input.is_empty(),
            None => false,
        };
        is_carried || self.inbound.as_ref().is_some_and(|it| it.is_unasked())
    }

    /// What is held of its request.
    fn request_bytes(&self) -> usize {
        let inbound = self.inbound.as_ref().map_or(0, |it| it.held_bytes());
        inbound + self.exchange.request_bytes() + size_of::<Stream>()
    }

    /// Whether its client has closed a window, and content waits for that.
    fn is_blocked(&self) -> bool {
        self.pace.is_some() && self.has_unsent()
    }

    fn message_bytes(&self) -> usize {
        match self.carried.as_deref() {
            Some(Carried::Open { websocket, .. }) => websocket.message_bytes(),
            Some(Carried::Offered { .. }) | None => 0,
        }
    }

    /// How many bytes per second of its content arrive, if nothing else is waited for.
    fn arrival_rate(&self, now_ms: u64) -> Option<u64> {
        let is_request = self.carried.is_none() && self.exchange.progress == Progress::Waiting;
        let inbound = self.inbound.as_ref().filter(|_| is_request)?;
        inbound.arrival_rate(now_ms)
    }

    fn is_held_by_peer(&self) -> bool {
        self.has_content_of_peer() || self.is_blocked() || self.message_bytes() > 0
    }

    /// Whether the rest of its content is read while the budget is nearly used up.
    pub(super) fn is_admitted(&self, context: &Context) -> bool {
        if !context.budget.is_pressed() {
            return true;
        }
        let most = || match &self.inbound {
            Some(inbound) => inbound.allowed_bytes(),
            None => context.limits.body_bytes_max,
        };
        context.budget.admits(self.owed_bytes.unwrap_or_else(most))
    }
}

impl H2 {
    /// Whether something waits until more may be held.
    pub(crate) fn is_held_back(&self) -> bool {
        let is_withheld =
            |stream: &Stream| stream.inbound.as_ref().is_some_and(|it| it.is_withheld());
        self.streams.iter().any(is_withheld)
    }

    /// Refuses a request for which the server would hold more than is admitted while the budget is nearly used up. `after` is the input that
    /// follows its head.
    #[cold]
    pub(super) fn exceeds_budget<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> bool {
        let whole = || H2::whole_content(new.stream, head, after, turn.context);
        let content_bytes = match head.body_length {
            // Its handshake is refused.
            _ if head.asks_websocket => return false,
            // It is refused for its length.
            BodyLength::Known(length) if length > turn.context.bounds.body_bytes_max => {
                return false;
            }
            BodyLength::Known(length) => length,
            BodyLength::Chunked => whole().map_or(u64::MAX, |(content, _)| content.len() as u64),
            BodyLength::None => 0,
        };
        let own_bytes = (head.consumed + size_of::<Stream>()) as u64;
        let bytes = own_bytes.saturating_add(content_bytes);
        let begun_bytes: usize = self.streams.iter().map(Stream::request_bytes).sum();
        let budget = &turn.context.budget;
        if budget.admits_request(bytes, begun_bytes as u64) {
            return false;
        }
        let refusal = turn.context.budget_refusal();
        self.refuse(turn, new, Known::Head(head), refusal);
        // Its record is gone before the next one needs one.
        turn.context.share.use_up();
        true
    }

    /// Why it holds memory, if it can be ended for that. What handlers have not taken, and frames whose end would end handlers too, count only
    /// if it holds much.
    pub(crate) fn holder(&self, link: &Link, is_much: bool) -> Option<Holder> {
        let has_part = self.has_part();
        if link.is_full()
            || has_part && self.streams.is_empty()
            || self.streams.iter().any(Stream::is_held_by_peer)
        {
            return Some(Holder::Peer);
        }
        let is_of_handler = has_part || self.streams.iter().any(Stream::has_unasked);
        (is_much && is_of_handler).then_some(Holder::Handler)
    }

    /// Whether frames wait, or a part of one, or of a header block.
    fn has_part(&self) -> bool {
        !self.input.is_empty() || matches!(self.reading, Reading::Block(_))
    }

    /// Ends the streams that make it hold memory, or the connection if it holds that by none of them.
    #[cold]
    pub(crate) fn end_holding<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            return self.abandon(turn, Abort::Disconnected);
        }
        let mut ids = self.ids_of(Stream::is_held_by_peer);
        if ids.is_empty() {
            ids = self.ids_of(Stream::has_unasked);
        }
        if ids.is_empty() && self.has_part() {
            let violation = Violation::of_connection(ErrorCode::ENHANCE_YOUR_CALM, BUDGET);
            self.fail(turn, violation);
        }
        for id in ids {
            if let Some(index) = self.index_of(id) {
                self.end_holding_stream(turn, index);
            }
        }
        self.settle(turn)
    }

    fn ids_of(&self, is_wanted: fn(&Stream) -> bool) -> Vec<u32> {
        let wanted = self.streams.iter().filter(|it| is_wanted(it));
        wanted.map(|stream| stream.id).collect()
    }

    fn end_holding_stream<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        if stream.is_blocked() {
            let id = stream.id;
            frame::push_reset(self.out(turn), id, ErrorCode::CANCEL);
            self.remember_reset(index);
            self.drop_stream(turn, index, Abort::Disconnected);
        } else if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket) {
            let frames = std::mem::take(&mut turn.context.responder.out);
            let _ = guarded(|| websocket.cut_off(turn, CloseCode::TRY_AGAIN_LATER, BUDGET));
            turn.context.responder.out = frames;
        } else {
            self.refuse_content(turn, index, (503, BUDGET));
        }
    }

    /// How many bytes per second arrive of its requests, if nothing but its client is waited for.
    pub(crate) fn arrival_rate(&self, now_ms: u64) -> Option<u64> {
        if self.handlers.count() > 0 || self.waits_for_turn || !self.frames.is_empty() {
            return None;
        }
        if !self.streams.is_empty() {
            let rates = self.streams.iter().map(|it| it.arrival_rate(now_ms));
            return rates.sum();
        }
        let is_partial = !self.input.is_empty() || !matches!(self.reading, Reading::Frames);
        match is_partial && !matches!(self.reading, Reading::Closing) {
            true => arrival_rate(
                self.input.len() as u64,
                now_ms.saturating_sub(self.since_ms),
            ),
            false => None,
        }
    }

    /// Refuses the requests that arrive, and ends the connection without waiting for its peer.
    #[cold]
    pub(crate) fn end_slow<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        for id in self.streams.iter().map(|it| it.id).collect::<Vec<_>>() {
            if let Some(index) = self.index_of(id) {
                self.refuse_content(turn, index, (503, SLOW));
            }
        }
        self.stop(turn, &mut Unfinished::default())
    }

    /// Since when it has waited for a request, if it does.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        let is_idle = self.streams.is_empty() && self.handlers.count() == 0;
        let is_between = matches!(self.reading, Reading::Frames) && self.input.is_empty();
        let is_open = is_between && !self.waits_for_turn && self.frames.is_empty();
        (is_idle && is_open && self.leaving == Leaving::No).then_some(self.idle_since_ms)
    }

    /// Ends the connection, which has no stream: its client is notified before input is looked for.
    pub(crate) fn leave_idle<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        self.say_last(turn);
        self.stop_reading();
        match self.settle(turn) {
            Fate::End(_) => Fate::End(Unread::Possible),
            fate => fate,
        }
    }
}

/// A request takes so many bytes until its response. If the budget is nearly used up when all that the connection may have are as large, it
/// is charged before the next one is looked at: a header section may take much more here than its client has sent.
pub(super) fn note_begun(context: &mut Context, bytes: usize) {
    if bytes < HOLDER_BYTES_MIN {
        return;
    }
    let all_bytes = (bytes as u64).saturating_mul(context.limits.h2_streams_max);
    if context.budget.is_near(all_bytes) {
        context.share.use_up();
    }
}
