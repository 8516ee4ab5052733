//! Who owes the next move on a WebSocket, until when, and what happens if it is late.
//!
//! | state | owes | until | then |
//! | --- | --- | --- | --- |
//! | something unsent, or under way | peer | its pace (`link.rs`; for a stream, its window) | reset |
//! | `Open`, read from | peer | `websocket_ping_interval_ms` after the last octet, less some for each connection | ping |
//! | the same, pinged | peer | `websocket_ping_timeout_ms` | close frame 1011; `Closing` |
//! | `Open`, the application has enough | application | `websocket_ping_interval_ms`, again and again | ping |
//! | `Closing`, the close frame sent | peer | `websocket_close_timeout_ms` | closed |
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
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::timeouts::Timeouts;

/// A ping may be early by this part of its interval, so that connections that started together are not pinged together for ever.
const EARLY_PARTS: u64 = 8;

/// What is known of the peer's presence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Liveness {
    /// When something last arrived, or was last expected to.
    heard_ms: u64,
    /// When a ping was sent after that.
    pinged_ms: Option<u64>,
    /// How early this connection's pings are, as a fraction of 2^16.
    early: u16,
}

impl Liveness {
    pub(super) fn new(id: ExchangeId, now_ms: u64) -> Liveness {
        // The golden ratio spreads consecutive numbers evenly.
        let early = (id.sequence as u16).wrapping_mul(40_503);
        Liveness {
            heard_ms: now_ms,
            pinged_ms: None,
            early,
        }
    }

    /// Something has arrived.
    #[inline]
    pub(super) fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
        self.pinged_ms = None;
    }

    fn deadline_ms(&self, timeouts: &Timeouts) -> u64 {
        match self.pinged_ms {
            Some(pinged_ms) => Timeouts::end_ms(pinged_ms, timeouts.websocket_ping_timeout_ms),
            None => self.ping_ms(timeouts),
        }
    }

    /// When the next ping is due.
    fn ping_ms(&self, timeouts: &Timeouts) -> u64 {
        let interval_ms = timeouts.websocket_ping_interval_ms;
        if interval_ms == 0 {
            return u64::MAX;
        }
        let early_ms = (interval_ms / EARLY_PARTS).saturating_mul(self.early.into()) >> 16;
        let since_ms = self.pinged_ms.unwrap_or(self.heard_ms);
        Timeouts::end_ms(since_ms, interval_ms - early_ms)
    }
}

impl WebSocket {
    /// When it has to act; `u64::MAX` for never. What the carrier has not sent has a deadline of its own; `is_read` if it reads.
    #[inline]
    pub(crate) fn deadline_ms(&self, context: &Context, is_read: bool) -> u64 {
        match self.state {
            State::Open if self.appetite != Appetite::More => match self.has_unsent() {
                true => u64::MAX,
                false => self.liveness.ping_ms(&context.timeouts),
            },
            State::Open if is_read => self.liveness.deadline_ms(&context.timeouts),
            State::Closing {
                since_ms: Some(since_ms),
                ..
            } => Timeouts::end_ms(since_ms, context.timeouts.websocket_close_timeout_ms.max(1)),
            State::Open | State::Closing { .. } | State::Ended { .. } => u64::MAX,
        }
    }

    /// Acts on the deadline, which has passed. Returns false if the peer is given up.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let waits_for_pong = self.liveness.pinged_ms.is_some() && self.appetite == Appetite::More;
        match (self.state, waits_for_pong) {
            (State::Open, false) => self.push_ping(turn.context),
            (State::Open, true) => {
                let reason = "no response to a ping";
                self.close_because(turn, CloseCode::INTERNAL_ERROR, reason);
            }
            (State::Closing { .. }, _) => {
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
        self.liveness.pinged_ms = Some(context.clock.now_ms());
    }

    /// The clock moved during a turn: a wait that started in it counts from its end.
    #[cold]
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64) {
        let Liveness {
            heard_ms,
            pinged_ms,
            ..
        } = &mut self.liveness;
        let closing_ms = match &mut self.state {
            State::Closing { since_ms, .. } => since_ms.as_mut(),
            State::Open | State::Ended { .. } => None,
        };
        let waits = [Some(heard_ms), pinged_ms.as_mut(), closing_ms];
        for since_ms in waits.into_iter().flatten() {
            if *since_ms >= from_ms {
                *since_ms = to_ms;
            }
        }
    }
}
