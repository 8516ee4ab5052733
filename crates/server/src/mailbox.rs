//! Responses that are not complete when the call returns: handlers post them, and the reactor takes them before its next call or pass.
//!
//! A handler never touches a connection. So nothing is borrowed twice when Python calls back into the server, and all responses that became
//! ready in one iteration of the event loop are sent with one write per connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::id::ExchangeId;
use crate::response::{FilePart, Response};

/// A handler's command to the connection of its exchange.
#[derive(Debug)]
pub enum Command {
    /// Requests the next part of the content ([`crate::App::content`]).
    Read,
    /// An interim response, 102 to 199 except 101, with encoded field lines (RFC 9110 section 15.2). It is sent in its request's order.
    /// Nothing is sent to HTTP/1.0, nor after the response has started.
    Inform {
        /// The status code.
        status: u16,
        /// Encoded field lines, each with its CRLF.
        fields: Vec<u8>,
    },
    /// The whole response.
    Respond(Response),
    /// The head of the response. Parts follow as `Write`, then `Finish`. The content of the `Response` is ignored.
    Begin(Response),
    /// As `Begin`, but the response stays open until `Finish` even if it may have no content, so that its writer is notified when the
    /// client disconnects.
    BeginOpen(Response),
    /// As `Begin`, but the server requests the parts with [`crate::App::pull`].
    Stream(Response),
    /// A part of the content.
    Write(Vec<u8>),
    /// A part of the content, taken from a file. Only after `Begin`.
    WriteFile(FilePart),
    /// The response is complete.
    Finish,
    /// The response is complete and ends with a trailer section: encoded field lines, each with its CRLF. They are dropped if the content
    /// is not chunked. The application has to check whether the client accepts them ([`crate::Head::accepts_trailers`]) and whether these
    /// names are allowed ([`wire::may_be_trailer`]).
    FinishWith(Vec<u8>),
    /// The response cannot be completed: close the connection so that the peer detects it.
    Fail,
}

/// The queue between handlers and the reactor. One per worker.
#[derive(Default)]
pub struct Mailbox {
    commands: Mutex<Vec<(ExchangeId, Command)>>,
    /// Output was posted since the mail was last taken.
    has_output: AtomicBool,
    /// A pass has ended that left output to the next one.
    has_left_output: AtomicBool,
}

impl Mailbox {
    /// Posts a command.
    pub fn post(&self, id: ExchangeId, command: Command) {
        if !matches!(command, Command::Read) {
            self.has_output.store(true, Ordering::Relaxed);
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push((id, command));
    }

    /// Whether nothing is posted.
    pub fn is_empty(&self) -> bool {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.is_empty()
    }

    /// Whether [`crate::Worker::send_posted`] may find something to send: posted commands, or what the last pass left.
    pub fn may_have_output(&self) -> bool {
        self.has_left_output.load(Ordering::Relaxed) || !self.is_empty()
    }

    /// Whether output was posted since the mail was last taken. Reliable only on the thread that posts.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        self.has_output.load(Ordering::Relaxed)
    }

    /// Notes that the pass leaves output to the next one.
    pub(crate) fn leaves_output(&self) {
        self.has_left_output.store(true, Ordering::Relaxed);
    }

    /// Notes that [`crate::Worker::send_posted`] looks for that output now.
    pub(crate) fn finds_output(&self) {
        self.has_left_output.store(false, Ordering::Relaxed);
    }

    /// Returns commands that were taken and could not be executed, ahead of everything that was posted since.
    pub(crate) fn give_back(&self, left: Vec<(ExchangeId, Command)>) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.splice(..0, left);
    }

    /// Swaps the posted commands with `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut Vec<(ExchangeId, Command)>) {
        self.has_output.store(false, Ordering::Relaxed);
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *commands, taken);
    }
}
