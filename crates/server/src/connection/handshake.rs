//! A connection during its TLS handshake, of which a limited number has a place.
//!
//! | handshake | waits for | until |
//! | --- | --- | --- |
//! | without a place | its peer's next byte, or a place | `tls_handshake_timeout_ms` after the connection's start |
//! | with a place | its turn (`reactor/handshakes.rs`), or its peer | the same; if others wait for a place, [`allowed_ms`] after it got its own |
//! | either, in a drain | its peer | `Context::draining_idle_ms`, without what it has waited for this side |
//!
//! A place is kept from the whole ClientHello on. Until then it is only taken for the step that reads what has arrived, so clients that send
//! the ClientHello octet by octet keep no place from others, however many they are.

use std::io;

use super::{Connection, Phase};
use crate::app::App;
use crate::context::metrics::HandshakeEnd;
use crate::context::refusal::EXPECTS_NO_TLS;
use crate::context::{Context, HandshakePlaces};
use crate::h1::H1;
use crate::link::{Fate, Link, Turn};
use crate::timeouts::Timeouts;

/// How long a place may be kept while others wait for it, if these are few. Longer than one retransmission, after which a slow network goes on.
const KEPT_MS_MAX: u64 = 2000;
/// The same if they are many: a round trip of a slow network.
const KEPT_MS_MIN: u64 = 500;

/// What a client gets that sends plain HTTP to a port with TLS.
const EXPECTS_TLS: &str = "This port expects HTTPS; use https:// instead of http://.";
/// The first bytes of a TLS connection: a record of the handshake, and its version (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;
const TLS_MAJOR_VERSION: u8 = 3;

/// The TLS handshake of one connection.
pub(crate) struct Handshake {
    since_ms: u64,
    place: Place,
    /// Since when it waits for its next step, or for a place first.
    queued_ms: Option<u64>,
    /// For how long it has done so in a drain, before its last step.
    excluded_ms: u64,
}

/// Whether a handshake has one of the places.
#[derive(Clone, Copy)]
enum Place {
    Without,
    /// It is among those that others give way to.
    Awaited,
    /// When it got it, and when it was last checked whether others wait.
    With {
        since_ms: u64,
        checked_ms: u64,
    },
}

impl Handshake {
    pub(crate) fn new(now_ms: u64) -> Handshake {
        Handshake {
            since_ms: now_ms,
            place: Place::Without,
            queued_ms: None,
            excluded_ms: 0,
        }
    }

    /// It starts to wait for its next step, until [`Handshake::takes_step`] or its end. Returns false if it waits already.
    ///
    /// The queue of turns is another one: a command for a closed connection gives the next one in its slot a turn, which is no step.
    pub(crate) fn queue(&mut self, context: &mut Context) -> bool {
        if self.is_queued() {
            return false;
        }
        self.queued_ms = Some(context.clock.now_ms());
        context.handshakes.queued += 1;
        true
    }

    fn is_queued(&self) -> bool {
        self.queued_ms.is_some()
    }

    /// It waits no more.
    fn takes_step(&mut self, context: &mut Context) {
        let Some(queued_ms) = self.queued_ms.take() else {
            return;
        };
        context.handshakes.queued -= 1;
        if let Some(drain_ms) = context.draining_since_ms {
            let waited_ms = context
                .clock
                .now_ms()
                .saturating_sub(queued_ms.max(drain_ms));
            self.excluded_ms = self.excluded_ms.saturating_add(waited_ms);
        }
    }

    /// Takes a place, if it has none. Returns false if there is none.
    pub(crate) fn takes_place(&mut self, context: &mut Context) -> bool {
        if matches!(self.place, Place::With { .. }) {
            return true;
        }
        if context.handshakes.taken >= context.limits.tls_handshakes_max {
            return false;
        }
        self.leave(&mut context.handshakes);
        let now_ms = context.clock.now_ms();
        self.place = Place::With {
            since_ms: now_ms,
            checked_ms: now_ms,
        };
        context.handshakes.taken += 1;
        true
    }

    /// It waits for a place, until it takes one or ends.
    pub(crate) fn awaits_place(&mut self, places: &mut HandshakePlaces) {
        self.leave(places);
        self.place = Place::Awaited;
        places.awaiting += 1;
    }

    /// Frees its place, or stops waiting for one: others do not lose theirs for it.
    fn leave(&mut self, places: &mut HandshakePlaces) {
        match std::mem::replace(&mut self.place, Place::Without) {
            Place::Without => {}
            Place::Awaited => places.awaiting -= 1,
            Place::With { .. } => places.taken -= 1,
        }
    }

    /// When it began, if it waits for its peer.
    pub(super) fn idle_since_ms(&self) -> Option<u64> {
        (!self.is_queued()).then_some(self.since_ms)
    }

    /// When to check whether it has to end.
    pub(crate) fn deadline_ms(&self, context: &Context) -> u64 {
        match self.place {
            Place::With { checked_ms, .. } => self.end_ms(context).min(checked_ms + KEPT_MS_MIN),
            Place::Without | Place::Awaited => self.end_ms(context),
        }
    }

    fn end_ms(&self, context: &Context) -> u64 {
        let timeout_ms = context.timeouts.tls_handshake_timeout_ms;
        let end_ms = Timeouts::end_ms(self.since_ms, timeout_ms);
        match context.draining_since_ms {
            // Otherwise its peer waits, and not this side.
            Some(drain_ms) if !self.is_queued() => {
                let idle_ms = context.draining_idle_ms.saturating_add(self.excluded_ms);
                end_ms.min(drain_ms.max(self.since_ms).saturating_add(idle_ms))
            }
            _ => end_ms,
        }
    }

    /// Checks whether it has to end, and why.
    fn lateness(&mut self, context: &Context) -> Option<Late> {
        let now_ms = context.clock.now_ms();
        let end_ms = self.end_ms(context);
        if end_ms <= now_ms {
            let timeout_ms = context.timeouts.tls_handshake_timeout_ms;
            return Some(match end_ms < Timeouts::end_ms(self.since_ms, timeout_ms) {
                true => Late::Draining,
                false => Late::Timeout(timeout_ms),
            });
        }
        let is_queued = self.is_queued();
        let Place::With {
            since_ms,
            checked_ms,
        } = &mut self.place
        else {
            return None;
        };
        *checked_ms = now_ms;
        let kept_ms = now_ms.saturating_sub(*since_ms);
        let are_awaited = context.handshakes.awaiting > 0;
        let is_late = are_awaited && !is_queued && kept_ms >= allowed_ms(context);
        is_late.then_some(Late::Place(context.limits.tls_handshakes_max))
    }
}

/// Why a handshake has to end.
enum Late {
    Timeout(u64),
    /// Others wait for its place, of which there are so many.
    Place(u64),
    /// The worker ends. That is no fault.
    Draining,
}

/// How long a place may be kept while others wait: the less, the more of them there are for each place.
fn allowed_ms(context: &Context) -> u64 {
    let places = context.limits.tls_handshakes_max.max(1);
    let all = places.saturating_add(context.handshakes.awaited());
    (KEPT_MS_MAX.saturating_mul(places) / all).max(KEPT_MS_MIN)
}

impl Connection {
    /// The TLS handshake, if it is not complete.
    #[inline]
    pub(crate) fn handshake(&mut self) -> Option<&mut Handshake> {
        match &mut self.phase {
            Phase::Handshake(handshake) => Some(handshake),
            _ => None,
        }
    }

    /// Lets the TLS handshake go on, and serves the request that may have come with its end.
    pub(crate) fn shake_hands<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        buffer: &mut [u8],
    ) -> Fate {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.takes_step(context);
        }
        if !self.link.send_owed() {
            return self.abandon(context, app);
        }
        let fate = self.readable(context, app, buffer, false);
        if let Phase::Handshake(handshake) = &mut self.phase
            && !self.link.has_client_hello()
        {
            handshake.leave(&mut context.handshakes);
        }
        // Events of the meantime were not kept.
        self.link.note_unread();
        fate
    }

    /// The handshake is over: its place is free.
    pub(super) fn leave_handshake(&mut self, context: &mut Context, how: HandshakeEnd) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.takes_step(context);
            handshake.leave(&mut context.handshakes);
            context.metrics.handshake_ended(how);
            let since_ms = context.clock.now_ms();
            self.phase = Phase::preface(since_ms);
        }
    }

    /// The TLS handshake is complete, or the peer does not use TLS. Returns false if neither is known: without its session, a request would
    /// count as secure and have no certificate of its client.
    pub(super) fn complete_handshake(&mut self, context: &mut Context) -> bool {
        self.link.note_session();
        let (is_plain, has_session) = (self.link.lacks_tls(), self.link.has_session());
        let how = match has_session && !is_plain {
            true => HandshakeEnd::Completed,
            false => HandshakeEnd::Failed,
        };
        self.leave_handshake(context, how);
        has_session || is_plain
    }

    /// Ends a handshake that has to end, and counts it for the log.
    #[cold]
    pub(super) fn late_handshake(&mut self, context: &mut Context) -> Fate {
        let Phase::Handshake(handshake) = &mut self.phase else {
            return Fate::Open;
        };
        let reason = match handshake.lateness(context) {
            None => return Fate::Open,
            Some(Late::Draining) => return Fate::Close,
            Some(Late::Timeout(timeout_ms)) => {
                format!("it took longer than tls_handshake_timeout_ms ({timeout_ms})")
            }
            Some(Late::Place(places)) => {
                format!(
                    "it was slow, and others waited for its place: tls_handshakes_max ({places}) have one"
                )
            }
        };
        let client = &self.link.circumstances.client;
        context.refusals.add_handshake(client, &reason);
        Fate::Close
    }

    /// Counts a failed handshake for the log. Returns whether it failed because of what the peer sent, and not because it is gone.
    pub(super) fn note_failure(&mut self, context: &mut Context, error: &io::Error) -> bool {
        let has_failed = error.kind() == io::ErrorKind::InvalidData;
        if has_failed {
            let client = &self.link.circumstances.client;
            context.refusals.add_handshake(client, error);
        }
        has_failed
    }

    /// Refuses a peer that does not use TLS although it has to, or the other way round.
    #[cold]
    pub(super) fn refuse_scheme<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        reason: &str,
    ) -> Fate {
        let mut h1 = H1::new(context.clock.now_ms());
        let link = &mut self.link;
        h1.refuse_unread(&mut Turn { link, context, app }, 400, reason);
        self.phase = Phase::H1(h1);
        self.settle(context, app)
    }
}

/// Why a peer is refused that uses TLS where it must not, or does not where it has to.
pub(super) fn wrong_scheme(first: &[u8], link: &Link) -> Option<&'static str> {
    match first {
        _ if link.lacks_tls() => Some(EXPECTS_TLS),
        [TLS_HANDSHAKE, TLS_MAJOR_VERSION, ..] if !link.is_secure() => Some(EXPECTS_NO_TLS),
        _ => None,
    }
}
