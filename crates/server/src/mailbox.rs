//! Responses that are not complete when the call returns: handlers post them, and the reactor takes them before its next call or pass.
//!
//! A handler never touches a connection. So nothing is borrowed twice when Python calls back into the server, and all responses that became
//! ready in one iteration of the event loop are sent with one write per connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use net::memory::{NoMemory, copy, reserve_place};
use wire::websocket::{Close, Kind};

use crate::app::websocket::Opening;
use crate::id::ExchangeId;
use crate::responder::messages::publication::Publication;
use crate::responder::push_plain;
use crate::response::{FilePart, HeldPart, Response};

/// A handler's command to the connection of its exchange.
#[derive(Debug)]
pub enum Command {
    /// Requests the next part of the content ([`crate::App::content`]), or more messages ([`crate::App::message`]).
    Read,
    /// Requests all of the content that follows, as one part. It is held until it is complete, within the limits of content that the
    /// application is called with. After a `Read` it arrives in parts again, what is held as the first one.
    ReadWhole,
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
    /// As `Write`, from where the application has it: copied once, to where it is sent from, or encrypted there.
    WriteHeld(Box<dyn HeldPart>),
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
    /// Accepts the handshake of a WebSocket.
    Open(Opening),
    /// A message. A text has to be UTF-8.
    Message(Kind, Vec<u8>),
    /// Closes the WebSocket. Messages that were posted before are sent first.
    Close(Close),
    /// The WebSocket receives what is published to this topic from now on.
    Subscribe(Vec<u8>),
    /// The WebSocket receives nothing more of this topic.
    Unsubscribe(Vec<u8>),
}

impl Command {
    /// Whether it requests content.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Command::Read | Command::ReadWhole)
    }

    /// Whether it is one of those with which an application sends to a WebSocket, or changes what is sent there.
    pub(crate) fn is_of_websocket(&self) -> bool {
        matches!(
            self,
            Command::Message(..)
                | Command::Close(_)
                | Command::Fail
                | Command::Subscribe(_)
                | Command::Unsubscribe(_)
        )
    }
}

/// What was posted.
#[derive(Debug)]
pub(crate) enum Mail {
    Command(ExchangeId, Command),
    Publication(Box<Publication>),
}

impl Mail {
    fn is_output(&self) -> bool {
        !matches!(self, Mail::Command(_, command) if command.is_read())
    }
}

/// The queue between handlers and the reactor. One per worker.
#[derive(Default)]
pub struct Mailbox {
    mail: Mutex<VecDeque<Mail>>,
    /// Output was posted since the mail was last taken.
    has_output: AtomicBool,
    /// A pass has ended that left output to the next one.
    has_left_output: AtomicBool,
}

impl Mailbox {
    /// Posts a command.
    pub fn post(&self, id: ExchangeId, command: Command) {
        if !command.is_read() {
            self.has_output.store(true, Ordering::Relaxed);
        }
        self.lock().push_back(Mail::Command(id, command));
    }

    /// Posts a message of a WebSocket. A text has to be UTF-8.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn post_message(&self, id: ExchangeId, kind: Kind, content: &[u8]) -> Result<(), NoMemory> {
        let command = Command::Message(kind, copy(content)?);
        self.try_push(Mail::Command(id, command))
    }

    /// Posts a message to all WebSockets of this worker that subscribe to `topic`. It is encoded once, and compressed once for all that use the
    /// same window, whatever their number.
    ///
    /// A subscriber that has more than `websocket_queued_bytes_max` to receive, or for which there is no memory, is closed with 1013.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn publish(&self, topic: &[u8], kind: Kind, content: &[u8]) -> Result<(), NoMemory> {
        let mut frame = Vec::new();
        push_plain(&mut frame, kind, content)?;
        let publication = Publication::new(copy(topic)?, kind, frame, content.len());
        self.try_push(Mail::Publication(Box::new(publication)))
    }

    /// Posts something whose number the application's messages decide.
    fn try_push(&self, mail: Mail) -> Result<(), NoMemory> {
        let mut posted = self.lock();
        reserve_place(&mut posted)?;
        self.has_output.store(true, Ordering::Relaxed);
        posted.push_back(mail);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Mail>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is posted.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether [`crate::Worker::send_posted`] may find something to send: posted commands, or what the last pass left.
    pub fn may_have_output(&self) -> bool {
        self.has_left_output.load(Ordering::Relaxed) || !self.is_empty()
    }

    /// Whether output was posted since the mail was last taken. Reliable only on the thread that posts. What a call writes to its
    /// [`crate::Responder`] is sent before that output.
    #[inline]
    pub fn has_output(&self) -> bool {
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

    /// Returns mail that was taken and could not be executed, ahead of everything that was posted since.
    pub(crate) fn give_back(&self, mut left: VecDeque<Mail>) {
        if left.iter().any(Mail::is_output) {
            self.has_output.store(true, Ordering::Relaxed);
        }
        let mut posted = self.lock();
        left.append(&mut posted);
        *posted = left;
    }

    /// Swaps what was posted with `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut VecDeque<Mail>) {
        self.has_output.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *self.lock(), taken);
    }
}
