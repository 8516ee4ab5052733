//! What an application and the server say to each other about WebSockets.
//!
//! A WebSocket starts as a request and keeps its [`ExchangeId`](crate::ExchangeId):
//!
//! | step | who | how |
//! | --- | --- | --- |
//! | a request asks for a WebSocket | server | [`App::takes_websocket`](crate::App::takes_websocket): if not, it is served as any other |
//! | the handshake is malformed, or its origin is not allowed | server | responds with 400, 426 or 403 |
//! | the handshake is valid | server | [`App::websocket`](crate::App::websocket) |
//! | accepted | application | [`Command::Open`](crate::Command::Open) |
//! | refused | application | any response: [`Command::Respond`](crate::Command::Respond), `Begin` ... |
//! | the client disconnects, or the application exceeds `handler_timeout_ms` | server | [`App::abort`](crate::App::abort): the end |
//! | a message arrives | server | [`App::message`](crate::App::message), until the application has [`Appetite::Enough`] |
//! | the messages that arrived together have been passed on | server | [`App::messages_end`](crate::App::messages_end): the application runs |
//! | the application wants more | application | [`Command::Read`](crate::Command::Read) |
//! | a message is sent | application | [`Command::Message`](crate::Command::Message), or [`Responder::send_message`](crate::Responder::send_message) in `messages_end` |
//! | everything that was sent has been passed on to the socket | server | [`App::writable`](crate::App::writable) |
//! | the application closes | application | [`Command::Close`](crate::Command::Close) |
//! | it is over | server | [`App::websocket_closed`](crate::App::websocket_closed), exactly once after `Open` |

use wire::websocket::{CloseCode, handshake};

/// What a client offers in a valid handshake.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    pub(crate) field_section: &'a [u8],
}

impl<'a> Offer<'a> {
    /// The subprotocols that the client speaks, in the order of its preference.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        handshake::subprotocols(self.field_section)
    }
}

/// The response that accepts a handshake.
#[derive(Debug, Default)]
pub struct Opening {
    /// One of the subprotocols that the client offered. The application has to check that it is.
    pub subprotocol: Option<Vec<u8>>,
    /// Encoded field lines, each with its CRLF, without those that the handshake itself has.
    pub fields: Vec<u8>,
}

/// Whether an application wants more messages now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appetite {
    /// The next message may follow at once.
    More,
    /// No more before [`Command::Read`](crate::Command::Read): the server stops reading, so that the peer has to wait.
    Enough,
    /// There is no memory for this one: the server closes the WebSocket with 1013.
    NoMemory,
}

/// How a WebSocket ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closed {
    /// The peer's code, 1005 if its close frame had none; ours, if the server closed because of an error, a limit or its shutdown; 1006 if
    /// the connection ended without a close frame.
    pub code: CloseCode,
    /// The reason that belongs to the code.
    pub reason: String,
}
