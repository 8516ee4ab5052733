//! What an HTTP/2 connection does while the budget of memory is nearly used up. Its frames are read nevertheless, because streams of any kind
//! depend on them; clients are held back by the windows of their streams.

use wire::h2::{ErrorCode, Violation, frame};
use wire::websocket::CloseCode;

use super::handlers::guarded;
use super::stream::Stream;
use super::websocket::Carried;
use super::{H2, Leaving, Reading};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::context::budget::BUDGET;
use crate::exchange::{Progress, Unfinished};
use crate::link::{Fate, Link, Turn};
use crate::pace::arrival_rate;
use crate::response::SLOW;

impl Stream {
    /// Whether its content is collected until the application can be called.
    fn is_collected(&self) -> bool {
        let inbound = self.inbound.as_ref();
        inbound.is_some_and(|it| it.is_collected() && !it.is_complete)
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
        self.is_collected() || self.is_blocked() || self.message_bytes() > 0
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

    /// Whether it is the peer that makes it hold memory.
    pub(crate) fn is_held_by_peer(&self, link: &Link) -> bool {
        let has_part = !self.input.is_empty() || matches!(self.reading, Reading::Block(_));
        link.is_full() || has_part || self.streams.iter().any(Stream::is_held_by_peer)
    }

    /// Ends the streams by which the peer makes it hold memory, or the connection if it holds that by none of them.
    #[cold]
    pub(crate) fn end_holding<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            return self.abandon(turn, Abort::Disconnected);
        }
        let holding = self.streams.iter().filter(|it| it.is_held_by_peer());
        let ids: Vec<u32> = holding.map(|stream| stream.id).collect();
        if ids.is_empty() {
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

    fn end_holding_stream<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        if stream.is_blocked() {
            let id = stream.id;
            frame::push_reset(self.out(turn), id, ErrorCode::CANCEL);
            self.remember_reset(index);
            self.drop_stream(turn, index, Abort::Disconnected);
        } else if stream.is_collected() {
            self.refuse_content(turn, index, (503, BUDGET));
        } else if let Some(websocket) = stream.carried.as_deref_mut().and_then(Carried::websocket) {
            let frames = std::mem::take(&mut turn.context.responder.out);
            let _ = guarded(|| websocket.cut_off(turn, CloseCode::TRY_AGAIN_LATER, BUDGET));
            turn.context.responder.out = frames;
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

    /// Ends the connection, which has no stream.
    pub(crate) fn leave_idle<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        self.say_last(turn);
        self.stop_reading();
    }
}
