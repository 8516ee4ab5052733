//! The states of a stream (RFC 9113 5.1), from one endpoint's side. PUSH_PROMISE is not used, so nothing is reserved.
//!
//! | state | we end | peer ends | either resets |
//! | --- | --- | --- | --- |
//! | `Open` | `HalfClosedLocal` | `HalfClosedRemote` | `Closed` |
//! | `HalfClosedLocal` | | `Closed` | `Closed` |
//! | `HalfClosedRemote` | `Closed` | | `Closed` |
//! | `Closed` | | | |
//!
//! Any other move leaves the state as it is. A stream that no HEADERS frame has opened is idle; it has no state here, nor has one whose
//! record is dropped because it is closed: the identifiers distinguish the two ([`Opened`]).

use super::error::{ErrorCode, Violation};

/// The state of a stream that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Both sides may send.
    Open,
    /// This side has ended its message.
    HalfClosedLocal,
    /// The peer has ended its message.
    HalfClosedRemote,
    /// Neither side sends any more.
    Closed,
}

impl State {
    /// The peer opens a stream, and `is_last` if its message ends with the header section.
    pub fn opened(is_last: bool) -> State {
        match is_last {
            true => State::HalfClosedRemote,
            false => State::Open,
        }
    }

    /// The peer's message has ended.
    pub fn peer_ends(&mut self) {
        *self = match self {
            State::Open => State::HalfClosedRemote,
            State::HalfClosedLocal | State::Closed => State::Closed,
            State::HalfClosedRemote => State::HalfClosedRemote,
        };
    }

    /// This side's message has ended.
    pub fn we_end(&mut self) {
        *self = match self {
            State::Open => State::HalfClosedLocal,
            State::HalfClosedRemote | State::Closed => State::Closed,
            State::HalfClosedLocal => State::HalfClosedLocal,
        };
    }

    /// Whether the peer may still send content or a trailer section.
    pub fn takes_content(self) -> bool {
        matches!(self, State::Open | State::HalfClosedLocal)
    }

    /// Whether this side has ended its message.
    pub fn has_ended(self) -> bool {
        matches!(self, State::HalfClosedLocal | State::Closed)
    }
}

/// Which streams a client has opened: identifiers are odd and increase (RFC 9113 5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opened {
    last: u32,
}

impl Opened {
    /// The last stream that was opened; 0 before the first.
    pub fn last(self) -> u32 {
        self.last
    }

    /// The client opens a stream.
    ///
    /// # Errors
    /// If it may not have this identifier: the connection must end.
    #[inline]
    pub fn open(&mut self, stream: u32) -> Result<(), Violation> {
        if stream.is_multiple_of(2) {
            return Err(Violation::of_connection(
                ErrorCode::PROTOCOL_ERROR,
                "a client opened a stream with an even identifier",
            ));
        }
        if stream <= self.last {
            return Err(Violation::of_connection(
                ErrorCode::STREAM_CLOSED,
                "HEADERS for a stream that is closed",
            ));
        }
        self.last = stream;
        Ok(())
    }

    /// Checks a frame other than HEADERS and PRIORITY: its stream must not be idle.
    ///
    /// # Errors
    /// If it is: the connection must end.
    #[inline]
    pub fn check(self, stream: u32) -> Result<(), Violation> {
        if stream > self.last || stream.is_multiple_of(2) {
            return Err(Violation::of_connection(
                ErrorCode::PROTOCOL_ERROR,
                "a frame for a stream that was not opened",
            ));
        }
        Ok(())
    }
}
