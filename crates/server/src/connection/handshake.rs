//! A connection during its TLS handshake, of which a limited number has a place.
//!
//! | handshake | waits for | until |
//! | --- | --- | --- |
//! | without a place | its peer's first byte, or a place | `tls_handshake_timeout_ms` after the connection's start |
//! | with a place | its turn (`reactor/handshakes.rs`), or its peer | the same; if others wait for a place, 2 s without a byte of its peer |

use std::io;

use super::{Connection, Phase};
use crate::app::App;
use crate::context::refusal::EXPECTS_NO_TLS;
use crate::context::{Context, HandshakePlaces};
use crate::h1::H1;
use crate::link::{Fate, Link, Turn};
use crate::timeouts::{DRAINING_IDLE_MS, Timeouts};

/// How long a peer may be silent while others wait for its place. Longer than one retransmission, after which a slow network goes on.
const SILENCE_MS_MAX: u64 = 2000;

/// What a client gets that sends plain HTTP to a port with TLS.
const EXPECTS_TLS: &str = "This port expects HTTPS; use https:// instead of http://.";
/// The first bytes of a TLS connection: a record of the handshake, and its version (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;
const TLS_MAJOR_VERSION: u8 = 3;

/// The TLS handshake of one connection.
pub(crate) struct Handshake {
    since_ms: u64,
    /// The last step, or the last time that it was found to wait for its peer.
    checked_ms: u64,
    has_place: bool,
}

impl Handshake {
    pub(crate) fn new(now_ms: u64) -> Handshake {
        Handshake {
            since_ms: now_ms,
            checked_ms: now_ms,
            has_place: false,
        }
    }

    /// Takes a place, if it has none. Returns false if there is none.
    pub(crate) fn takes_place(&mut self, context: &mut Context) -> bool {
        if !self.has_place && context.handshakes.taken < context.limits.tls_handshakes_max {
            self.has_place = true;
            context.handshakes.taken += 1;
        }
        self.has_place
    }

    /// Frees its place.
    pub(crate) fn leave(&mut self, places: &mut HandshakePlaces) {
        places.taken -= u64::from(std::mem::take(&mut self.has_place));
    }

    /// A step follows.
    pub(crate) fn goes_on(&mut self, now_ms: u64) {
        self.checked_ms = now_ms;
    }

    /// When to check whether it has to end.
    pub(crate) fn deadline_ms(&self, context: &Context) -> u64 {
        match self.has_place {
            true => self.end_ms(context).min(self.checked_ms + SILENCE_MS_MAX),
            false => self.end_ms(context),
        }
    }

    fn end_ms(&self, context: &Context) -> u64 {
        let timeout_ms = context.timeouts.tls_handshake_timeout_ms;
        let end_ms = Timeouts::end_ms(self.since_ms, timeout_ms);
        match context.draining_since_ms {
            Some(drain_ms) => end_ms.min(drain_ms.max(self.since_ms) + DRAINING_IDLE_MS),
            None => end_ms,
        }
    }

    /// Checks whether it has to end. `has_turn` if it waits for this server.
    pub(crate) fn is_late(&mut self, has_turn: bool, context: &Context) -> bool {
        let now_ms = context.clock.now_ms();
        let is_silent = self.has_place && !has_turn && context.handshakes.are_awaited;
        let is_silent = is_silent && now_ms >= self.checked_ms + SILENCE_MS_MAX;
        self.checked_ms = now_ms;
        is_silent || self.end_ms(context) <= now_ms
    }
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
        self.has_turn = false;
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.goes_on(context.clock.now_ms());
        }
        if !self.link.send_owed() {
            return self.abandon(context, app);
        }
        let fate = self.readable(context, app, buffer, false);
        // Events of the meantime were not kept.
        self.link.note_unread();
        fate
    }

    /// The handshake is over: its place is free.
    pub(super) fn leave_handshake(&mut self, context: &mut Context) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.leave(&mut context.handshakes);
            let since_ms = context.clock.now_ms();
            self.phase = Phase::preface(since_ms);
        }
    }

    /// Counts a failed handshake for the log. Returns whether it failed because of what the peer sent, and not because it is gone.
    pub(super) fn note_failure(&mut self, context: &mut Context, error: &io::Error) -> bool {
        let has_failed = error.kind() == io::ErrorKind::InvalidData;
        if has_failed {
            let client = &self.link.client;
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
