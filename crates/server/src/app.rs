//! The only interface between the server and what responds to requests.

pub(crate) mod bounds;
pub(crate) mod circumstances;
pub(crate) mod forwarded;
pub(crate) mod head;
pub(crate) mod shortage;
pub(crate) mod websocket;

use std::mem::MaybeUninit;
use wire::websocket::{Content as MessageContent, Kind};

use crate::id::ExchangeId;
use crate::responder::Responder;
use crate::response::FilePart;

use self::bounds::Overrides;
use self::circumstances::Circumstances;
use self::head::Head;
use self::shortage::Shortage;
use self::websocket::{Appetite, Closed, Offer};

/// A request in the receive buffer, valid during [`App::call`] only.
pub struct Request<'a> {
    /// The head, borrowed.
    pub head: Head<'a>,
    /// The content, if it has arrived.
    pub content: Content<'a>,
    /// Identifies the exchange when the response is posted later.
    pub id: ExchangeId,
    /// Between whom it is exchanged.
    pub circumstances: &'a Circumstances,
}

/// Where a request's content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// All of it (empty when there is none).
    Whole(&'a [u8]),
    /// Not all of it has arrived: ask for it with `Outcome::ReadContent`, [`crate::Command::Read`] or [`crate::Command::ReadWhole`].
    Later,
}

impl Content<'_> {
    /// The length of content that has arrived as a whole.
    #[inline]
    pub(crate) fn whole_bytes(self) -> u64 {
        match self {
            Content::Whole(content) => content.len() as u64,
            Content::Later => 0,
        }
    }

    /// What a handler may keep of a request with this content and a head of `head_bytes`.
    pub(crate) fn lent_bytes(self, head_bytes: usize) -> u32 {
        let content_bytes = match self {
            Content::Whole(content) => content.len(),
            Content::Later => 0,
        };
        u32::try_from(head_bytes.saturating_add(content_bytes)).unwrap_or(u32::MAX)
    }
}

/// What an application did with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The responder holds the whole response.
    Responded,
    /// The responder holds the whole response, and the application has more work to do after it. The server sends the response, unless it
    /// is to be sent together with those of the pass's next events, and calls [`App::response_written`]. Only if [`Responder::can_send_now`].
    RespondedEarly,
    /// The responder holds the head of a streamed response; the server asks for the rest with [`App::pull`].
    Streaming,
    /// The responder holds the head of a streamed response and the first part of its content. The rest comes through the mailbox, as after
    /// [`crate::Command::Begin`]. Only if [`Responder::can_send_now`].
    Begun,
    /// The response comes through the mailbox. What a call posts is processed in the same pass, so a call also posts a response with a file
    /// or with interim responses before it.
    Pending,
    /// Call again when the content is complete. Only for [`Content::Later`].
    ReadContent,
}

/// The result of [`App::pull`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// A part was pushed; there may be more.
    More,
    /// The content is complete.
    End,
    /// The application failed: the peer must see that the response is truncated.
    Failed,
}

/// Why the server ended an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// The peer has disconnected, or ended its side before the content was complete.
    Disconnected,
    /// The handler exceeded `handler_timeout_ms`, or the time of its path or route.
    HandlerTimeout {
        /// The time that it had.
        after_ms: u64,
    },
    /// The handler continued after [`Abort::Disconnected`], and exceeded that time.
    OrphanTimeout {
        /// The time that it had.
        after_ms: u64,
    },
    /// The content is longer than `body_bytes_max`, malformed or too slow: the server has responded.
    Refused,
}

/// Responds to requests. Runs on the reactor's thread: no connection is served while one of its methods runs.
pub trait App {
    /// Responds to `request`, at once or later.
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome;

    /// As [`App::call`], for a request whose connection has others at the same time. A method of its own, so that both have a single caller
    /// and can be inlined there (bench: calls.py).
    fn call_stream(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        self.call(request, responder)
    }

    /// Pushes the next part of a streamed response to `out`.
    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled;

    /// Does what follows the response of the last call, which was [`Outcome::RespondedEarly`]. What has not been sent is in `responder`:
    /// another thread may send it if this takes long.
    fn response_written(&mut self, _: &mut Responder) {}

    /// Whether something else on this thread waits for the end of the pass, such as callbacks of the owner's event loop. The pass then ends
    /// sooner.
    fn is_waited_for(&mut self) -> bool {
        false
    }

    /// Receives a part of the content that it requested with [`crate::Command::Read`]; `is_last` when no more follows. Returns false if
    /// there is no memory for it: the request is refused then.
    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool;

    /// There was no memory for requests, responses or messages, which were refused, truncated or dropped.
    fn lacked_memory(&mut self, shortage: &Shortage) {
        let _ = shortage;
    }

    /// The server refused requests or connections, or lost lines of the access log; `line` is a line for the log at warning level.
    fn warn(&mut self, line: &str) {
        let _ = line;
    }

    /// A TLS handshake failed; `line` is a line for the log at debug level. Only if [`crate::Config::reports_handshakes`] is on.
    fn handshake_failed(&mut self, line: &str) {
        let _ = line;
    }

    /// Returns up to `bytes` bytes of memory for content, so that it is read from the socket without a copy: for the part that the exchange
    /// requested, or for one part in advance. [`App::content_was_read`] reports what was read. If nothing was, the memory is requested
    /// again later. None if the content is to be passed to [`App::content`].
    fn content_room(&mut self, id: ExchangeId, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        let _ = (id, bytes);
        None
    }

    /// The first `bytes` bytes of the memory are content.
    fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        let _ = (id, bytes, is_last);
    }

    /// Everything that the exchange wrote, including interim responses, files and messages, has been sent: it may write again.
    fn writable(&mut self, id: ExchangeId);

    /// Whether the handler of this exchange has started a response that it has not posted yet. If so, it is not timed out. Called when
    /// `handler_timeout_ms` has passed.
    fn has_begun(&mut self, id: ExchangeId) -> bool {
        let _ = id;
        false
    }

    /// The peer ended its sending side during this exchange and seems to be gone: it has acknowledged nothing for half a second. It may
    /// still read.
    fn peer_ended(&mut self, id: ExchangeId) {
        let _ = id;
    }

    /// A file of the response cannot be read, or ends before the rest of `part`, and the connection is reset. To be logged. If the exchange
    /// has not ended, [`App::abort`] follows.
    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        let _ = (id, part);
    }

    /// The pattern of the route that a request with this method and path has, such as `/users/{user:int}`; None if it has none. To name slow
    /// requests.
    fn route(&self, method_name: &[u8], path: &[u8]) -> Option<&str> {
        let _ = (method_name, path);
        None
    }

    /// Whether the application takes a request that asks for a WebSocket as a handshake. If not, it is a request like any other, and
    /// [`App::call`] responds to it (RFC 9110 section 7.8).
    fn takes_websocket(&mut self, head: &Head<'_>) -> bool {
        let _ = head;
        false
    }

    /// Whether the application takes requests that ask for a WebSocket at some path.
    fn has_websockets(&self) -> bool {
        false
    }

    /// A valid handshake. The application accepts with [`crate::Command::Open`] or responds as to a request that is
    /// [`Outcome::Pending`]. What it posts during this call is processed in the same pass.
    fn websocket(&mut self, request: &Request<'_>, offer: &Offer<'_>, responder: &mut Responder) {
        let _ = (request, offer, responder);
    }

    /// A message arrived. Text is UTF-8.
    fn message(&mut self, id: ExchangeId, kind: Kind, content: MessageContent<'_>) -> Appetite {
        let _ = (id, kind, content);
        Appetite::More
    }

    /// The messages that arrived together have been passed on. What the application sends with [`Responder::send_message`] is sent at once.
    ///
    /// Others wait for the return. So an application that handles messages here stops at [`Responder::turn_ends_ms`], says so with
    /// [`Responder::end_turn`], and handles the others later.
    fn messages_end(&mut self, id: ExchangeId, responder: &mut Responder) {
        let _ = (id, responder);
    }

    /// A WebSocket that was opened is closed. Its id is not used again; later commands for it are ignored.
    fn websocket_closed(&mut self, id: ExchangeId, closed: &Closed) {
        let _ = (id, closed);
    }

    /// Bytes of messages that the application has not taken, of WebSockets that are closed.
    #[inline]
    fn departed_bytes(&self) -> u64 {
        0
    }

    /// Runs `work`, which may wait for a disk or copy much. An application that blocks other threads while its methods run lets them
    /// continue meanwhile. `work` calls none of its methods.
    fn step_back<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// The exchange ended before its response was complete. Its id is not used again; later commands for it are ignored. Only
    /// [`Abort::OrphanTimeout`] may follow.
    fn abort(&mut self, id: ExchangeId, why: Abort);

    /// Whether the handler of an exchange whose client has left is still running, can be cancelled, and has not started a response. If so,
    /// it is when its time is over.
    fn owes_response(&self, id: ExchangeId) -> bool {
        let _ = id;
        false
    }

    /// Whether a request that arrives now has to wait for long, because of those that are running: other workers then accept, if they have
    /// room.
    fn is_occupied(&self) -> bool {
        false
    }

    /// How many requests run in coroutines, WebSockets excepted: they have begun, and their handlers have not ended.
    fn running(&self) -> usize {
        0
    }

    /// Whether [`App::bounds`] may return some.
    fn has_bounds(&self) -> bool {
        false
    }

    /// The bounds of the route that would be called for this request, as far as it has some of its own.
    fn bounds(&mut self, head: &Head<'_>) -> Overrides {
        let _ = head;
        Overrides::default()
    }

    /// Whether the handler of an exchange that was aborted is still running.
    fn is_running(&mut self, id: ExchangeId) -> bool {
        let _ = id;
        false
    }
}
