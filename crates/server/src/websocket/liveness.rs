//! Who owes the next move on a WebSocket, until when, and what happens if it is late.
//!
//! | state | owes | until | then |
//! | --- | --- | --- | --- |
//! | something unsent, or under way | peer | its pace (`link.rs`; for a stream, its window) | reset |
//! | `Open`, read from | peer | `websocket_ping_interval_ms` after the last octet, less some for each connection | ping |
//! | the same, pinged | peer | `websocket_ping_timeout_ms` | close frame 1011; `Closing` |
//! | `Open`, the application has enough | application | `websocket_ping_interval_ms`, again and again | ping |
//! | `Closing`, the close frame sent | peer | `websocket_close_timeout_ms`; in a drain `DRAINING_CLOSE_MS` at most | closed |
//! | `Ended` | nobody, once everything is sent | | closed |
//!
//! While the application has enough, nothing is read, so that nobody is late; but the kernel ends the connection of a peer that does not
//! acknowledge the pings. Without pings, an open WebSocket may be silent for as long as the application keeps it.

use net::memory::reserve;
use wire::websocket::{CONTROL_FRAME_BYTES_MAX, CloseCode, Role, Sender};

use super::{State, WebSocket};
use crate::app::App;
use crate::app::websocket::Appetite;
use crate::context::Context;
use crate::link::Turn;
use crate::timeouts::{DRAINING_CLOSE_MS, Timeouts};

/// A ping may be early by this part of its interval, so that connections that started together are not pinged together for ever.
const EARLY_PARTS: u64 = 8;

/// How long the peer's close frame is waited for.
fn close_ms_max(context: &Context) -> u64 {
    let timeout_ms = context.timeouts.websocket_close_timeout_ms.max(1);
    match context.is_draining() {
        true => timeout_ms.min(DRAINING_CLOSE_MS),
        false => timeout_ms,
    }
}

impl WebSocket {
    /// Whether a pong is owed, and may be the next frame.
    #[inline]
    pub(super) fn may_send_pong(&self) -> bool {
        self.has_ping && self.state == State::Open && !self.outgoing.is_in_part()
    }

    /// Appends the pong to what is sent next, if it may be that.
    pub(super) fn push_pong(&mut self, context: &mut Context) {
        if !self.may_send_pong() {
            return;
        }
        let content = self.forget_ping();
        let out = &mut context.responder.out;
        match reserve(out, CONTROL_FRAME_BYTES_MAX) {
            Ok(()) => Sender::new(Role::Server).push_pong(out, &content, [0; 4]),
            Err(lack) => self.lack(context, lack),
        }
    }

    /// Something has arrived.
    #[inline]
    pub(super) fn heard(&mut self, now_ms: u64) {
        self.since_ms = now_ms;
        self.is_pinged = false;
    }

    /// When a pong or the next ping is due.
    fn presence_ms(&self, timeouts: &Timeouts) -> u64 {
        match self.is_pinged {
            true => Timeouts::end_ms(self.since_ms, timeouts.websocket_ping_timeout_ms),
            false => self.ping_ms(timeouts),
        }
    }

    /// When the next ping is due.
    fn ping_ms(&self, timeouts: &Timeouts) -> u64 {
        let interval_ms = timeouts.websocket_ping_interval_ms;
        if interval_ms == 0 {
            return u64::MAX;
        }
        // The golden ratio spreads consecutive numbers evenly. A fraction of 2^16.
        let early = (self.id.sequence as u16).wrapping_mul(40_503);
        let early_ms = (interval_ms / EARLY_PARTS).saturating_mul(early.into()) >> 16;
        Timeouts::end_ms(self.since_ms, interval_ms - early_ms)
    }

    /// When it has to act; `u64::MAX` for never. What the carrier has not sent has a deadline of its own; `is_read` if it reads.
    #[inline]
    pub(crate) fn deadline_ms(&self, context: &Context, is_read: bool) -> u64 {
        match self.state {
            State::Open if self.appetite != Appetite::More => match self.has_unsent() {
                true => u64::MAX,
                false => self.ping_ms(&context.timeouts),
            },
            State::Open if is_read => self.presence_ms(&context.timeouts),
            State::Closing(_) => self.closing_ms().map_or(u64::MAX, |since_ms| {
                Timeouts::end_ms(since_ms, close_ms_max(context))
            }),
            State::Open | State::Ended { .. } => u64::MAX,
        }
    }

    /// Acts on the deadline, which has passed. Returns false if the peer is given up.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let waits_for_pong = self.is_pinged && self.appetite == Appetite::More;
        match (self.state, waits_for_pong) {
            (State::Open, false) => self.push_ping(turn.context),
            (State::Open, true) => {
                let reason = "no response to a ping";
                self.close_because(turn, CloseCode::INTERNAL_ERROR, reason);
            }
            (State::Closing(_), _) => {
                self.lost(turn);
                return false;
            }
            (State::Ended { .. }, _) => {}
        }
        true
    }

    fn push_ping(&mut self, context: &mut Context) {
        let sender = Sender::new(Role::Server);
        let written = self.outgoing.write(|out| {
            reserve(out, CONTROL_FRAME_BYTES_MAX)?;
            sender.push_ping(out, b"", [0; 4]);
            Ok(())
        });
        if let Err(lack) = written {
            self.lack(context, lack);
        }
        self.since_ms = context.clock.now_ms();
        self.is_pinged = true;
    }

    /// The clock moved during a turn: a wait that started in it counts from its end.
    #[cold]
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64) {
        let closing_ms = self.rare.as_mut().map(|rare| &mut rare.closing_ms);
        let closing_ms = closing_ms.and_then(Option::as_mut);
        let waits = [Some(&mut self.since_ms), closing_ms];
        for since_ms in waits.into_iter().flatten() {
            if *since_ms >= from_ms {
                *since_ms = to_ms;
            }
        }
    }
}
