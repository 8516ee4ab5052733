//! What a connection holds for its peer: what it is charged for that, what waits while the budget is nearly used up, and how it ends then.
//!
//! A connection is charged after each of its turns for what its buffers have allocated, used or not. That is computed from the buffers, so moving
//! or dropping one needs no entry.

use super::{Connection, Phase};
use crate::app::App;
use crate::context::Context;
use crate::context::budget::{Burden, HOLDER_BYTES_MIN, Holder};
use crate::link::{Delivery, Fate, Turn, Unread};
use crate::pace::arrival_rate;

/// Milliseconds for which an idle connection stays at least: its request may be on its way.
pub(crate) const IDLE_MS_MIN: u64 = 1000;

impl Connection {
    /// Memory held, in bytes, besides its own record, and what it shares with others.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.link.held_bytes()
            + match &self.phase {
                Phase::H1(h1) => h1.held_bytes(),
                Phase::H2(h2) => h2.held_bytes(),
                Phase::WebSocket(websocket) => websocket.held_bytes(),
                Phase::Preface { first, .. } => first.held_bytes(),
                Phase::Handshake(_) | Phase::Lingering { .. } | Phase::Cutting => 0,
            }
    }

    /// Charges it for what it holds now.
    #[inline]
    pub(crate) fn account(&mut self, context: &mut Context) {
        let held = self.held_bytes();
        if held != self.accounted_bytes {
            self.charge(context, held);
        }
    }

    fn charge(&mut self, context: &mut Context, held: usize) {
        let before = std::mem::replace(&mut self.accounted_bytes, held);
        context.charge(before, held);
        if before < HOLDER_BYTES_MIN && held >= HOLDER_BYTES_MIN {
            self.holds_since_ms = context.clock.now_ms();
        }
        if context.budget.is_pressed() {
            self.hold_back(context);
        }
    }

    /// What it is charged for.
    #[cfg(debug_assertions)]
    pub(crate) fn accounted_bytes(&self) -> usize {
        self.accounted_bytes
    }

    /// Content that may not be read now does not have to arrive in time.
    pub(super) fn hold_back(&mut self, context: &Context) {
        if let Phase::H1(h1) = &mut self.phase {
            h1.hold_back(context);
        }
    }

    /// Whether something waits until more may be held.
    pub(crate) fn is_held_back(&self) -> bool {
        match &self.phase {
            Phase::H1(h1) => h1.is_held_back(),
            Phase::H2(h2) => h2.is_held_back(),
            Phase::WebSocket(upgraded) => upgraded.websocket.message_bytes() > 0,
            Phase::Handshake(_)
            | Phase::Preface { .. }
            | Phase::Lingering { .. }
            | Phase::Cutting => false,
        }
    }

    /// Continues what waited, as far as it is admitted now.
    pub(crate) fn release<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        match &mut self.phase {
            Phase::H1(h1) => h1.hold_back(context),
            Phase::H2(h2) => h2.give_withheld_windows(&Turn { link, context, app }),
            _ => {}
        }
        self.settle(context, app)
    }

    /// What its end would free, and how urgent that is. `None` if it holds nothing, or nothing but what an application works on.
    pub(crate) fn burden(&self, now_ms: u64) -> Option<Burden> {
        if self.accounted_bytes == 0 {
            return None;
        }
        let bytes = self.accounted_bytes as u64;
        let Some(holder) = self.holder() else {
            let idle_ms = now_ms.saturating_sub(self.idle_since_ms()?);
            return (idle_ms >= IDLE_MS_MIN).then_some(Burden {
                holder: Holder::Idle,
                weight: idle_ms,
                bytes,
            });
        };
        let age_ms = match self.accounted_bytes >= HOLDER_BYTES_MIN {
            true => now_ms.saturating_sub(self.holds_since_ms),
            false => 0,
        };
        let weight = bytes.saturating_mul(age_ms.saturating_add(1));
        let weight = weight.saturating_add(self.shared_burden(now_ms));
        Some(Burden {
            holder,
            weight,
            bytes,
        })
    }

    /// Why it holds memory, if it can be ended for that although it is not idle.
    fn holder(&self) -> Option<Holder> {
        let is_much = self.accounted_bytes >= HOLDER_BYTES_MIN;
        match &self.phase {
            Phase::H1(h1) => h1.holder(&self.link, is_much),
            Phase::H2(h2) => h2.holder(&self.link, is_much),
            Phase::WebSocket(upgraded) => upgraded.holder(&self.link, is_much),
            Phase::Lingering { .. } | Phase::Cutting => self.link.is_full().then_some(Holder::Peer),
            Phase::Handshake(_) | Phase::Preface { .. } => Some(Holder::Peer),
        }
    }

    /// The burden of published frames, which it shares with others: its part of them, although only the end of the last holder frees them. Over
    /// HTTP/2 they are copied in its turn.
    fn shared_burden(&self, now_ms: u64) -> u64 {
        match &self.phase {
            Phase::WebSocket(upgraded) => upgraded.websocket.shared_burden(now_ms),
            Phase::H1(h1) => h1.shared_burden(now_ms),
            _ => 0,
        }
    }

    /// Ends what makes it hold memory: content that is being received gets 503, a response that is not read is truncated, and an idle
    /// connection is closed.
    #[cold]
    pub(crate) fn end_holding<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        if self.holder().is_none() {
            return self.reap(context, app);
        }
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = match &mut self.phase {
            Phase::H1(h1) => h1.end_holding(turn),
            Phase::H2(h2) => h2.end_holding(turn),
            Phase::WebSocket(upgraded) => upgraded.end_holding(turn),
            Phase::Handshake(_)
            | Phase::Preface { .. }
            | Phase::Lingering { .. }
            | Phase::Cutting => Fate::Reset,
        };
        self.conclude(context, app, fate)
    }

    /// Since when it has waited for a request, or for the start of its TLS handshake, or has lingered.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        if self.is_turned_away || self.link.is_full() || self.link.is_arriving() {
            return None;
        }
        match &self.phase {
            Phase::H1(h1) => h1.idle_since_ms(),
            Phase::H2(h2) => h2.idle_since_ms(),
            Phase::Preface { since_ms, first } => (first.held_bytes() == 0).then_some(*since_ms),
            Phase::Handshake(handshake) if !self.link.has_client_hello() => {
                handshake.idle_since_ms()
            }
            Phase::Lingering { since_ms, .. } => Some(*since_ms),
            Phase::Handshake(_) | Phase::WebSocket(_) | Phase::Cutting => None,
        }
    }

    /// Closes an idle connection whose place or memory is needed. It stays open if a request has arrived, or the client has not received
    /// everything.
    #[cold]
    pub(crate) fn reap<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        // What arrives at one that lingers is dropped anyway.
        let is_lingering = matches!(self.phase, Phase::Lingering { .. });
        let has_input = || self.link.has_buffered() || self.link.has_unread();
        if self.idle_since_ms().is_none() || !is_lingering && has_input() {
            return Fate::Open;
        }
        if self.link.check_delivery(context) != Delivery::Complete {
            return Fate::Open;
        }
        let link = &mut self.link;
        let fate = match &mut self.phase {
            Phase::H2(h2) => h2.leave_idle(&mut Turn { link, context, app }),
            Phase::Handshake(_) | Phase::Lingering { .. } => Fate::Close,
            _ => Fate::End(Unread::Possible),
        };
        self.conclude(context, app, fate)
    }

    /// How many bytes per second arrive of a request, if its client is all that is waited for, and has had some time.
    pub(crate) fn arrival_rate(&self, now_ms: u64) -> Option<u64> {
        if self.is_turned_away || self.link.is_full() {
            return None;
        }
        match &self.phase {
            Phase::H1(h1) => h1.arrival_rate(now_ms),
            Phase::H2(h2) => h2.arrival_rate(now_ms),
            Phase::Preface { since_ms, first } if first.held_bytes() > 0 => {
                arrival_rate(first.held_bytes() as u64, now_ms.saturating_sub(*since_ms))
            }
            _ => None,
        }
    }

    /// Refuses the request that arrives slowly, and ends at once: its place is needed. It stays open if more of the request has arrived.
    #[cold]
    pub(crate) fn end_slow<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        buffer: &mut [u8],
    ) -> Fate {
        if self.link.has_buffered() || self.link.has_unread() {
            return Fate::Open;
        }
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = match &mut self.phase {
            Phase::H1(h1) => h1.end_slow(turn),
            Phase::H2(h2) => h2.end_slow(turn),
            _ => return self.end(context, Unread::Possible),
        };
        self.say_end(context, buffer);
        match fate {
            Fate::Open | Fate::Again => Fate::Close,
            fate => fate,
        }
    }
}
