//! Responses that come later: what handlers post and the reactor takes at the start of its next pass.
//!
//! A handler never touches a connection. So nothing is borrowed twice when Python calls back into the server, and all responses that
//! became ready in one turn of the event loop leave in one write per connection.

use std::sync::{Mutex, PoisonError};

use crate::id::ExchangeId;
use crate::response::{FilePart, Response};

/// What a handler asks of the connection of its exchange.
#[derive(Debug)]
pub enum Command {
    /// Give me the next part of the content ([`crate::App::content`]).
    Read,
    /// An interim response, 102 to 199 but for 101, with encoded field lines (RFC 9110 section 15.2). It leaves in its request's order.
    /// Nothing is sent to HTTP/1.0, nor once the response has begun.
    Inform {
        /// The status code.
        status: u16,
        /// Encoded field lines, each with its CRLF.
        fields: Vec<u8>,
    },
    /// This is the response.
    Respond(Response),
    /// The response begins: its head. Parts follow as `Write`, then `Finish` (content of the response is ignored).
    Begin(Response),
    /// As `Begin`, but the response stays open until `Finish` even if no content may follow its head, so that its writer learns of the
    /// client's end.
    BeginOpen(Response),
    /// As `Begin`, but the server asks for the parts with [`crate::App::pull`].
    Stream(Response),
    /// A part of the content.
    Write(Vec<u8>),
    /// A part of the content that is part of a file. Only after `Begin`.
    WriteFile(FilePart),
    /// The response is complete.
    Finish,
    /// The response is complete, and ends with a trailer section: encoded field lines, each with its CRLF. They are dropped if the content
    /// is not chunked. Whether the client accepts them ([`crate::Head::accepts_trailers`]), and whether those names are allowed there
    /// ([`wire::may_be_trailer`]), the application has to know.
    FinishWith(Vec<u8>),
    /// The response cannot be completed: cut the connection so that the peer notices.
    Fail,
}

/// The queue between handlers and the reactor. One per worker.
#[derive(Default)]
pub struct Mailbox {
    commands: Mutex<Vec<(ExchangeId, Command)>>,
}

impl Mailbox {
    /// Posts a command.
    pub fn post(&self, id: ExchangeId, command: Command) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push((id, command));
    }

    /// Whether nothing is posted.
    pub fn is_empty(&self) -> bool {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.is_empty()
    }

    /// Posts what was taken and could not be done, before everything that was posted since.
    pub(crate) fn give_back(&self, left: Vec<(ExchangeId, Command)>) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.splice(..0, left);
    }

    /// Swaps the posted commands with `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut Vec<(ExchangeId, Command)>) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *commands, taken);
    }
}
