//! The one seam between the server and what responds to requests.

pub(crate) mod head;

use std::mem::MaybeUninit;

use net::Peer;

use crate::id::ExchangeId;
use crate::responder::Responder;
use crate::response::FilePart;

use self::head::Head;

/// A request as it lies in the receive buffer: valid during [`App::call`] only.
pub struct Request<'a> {
    /// The head, borrowed.
    pub head: Head<'a>,
    /// The content, if it is there.
    pub content: Content<'a>,
    /// The name to respond by later.
    pub id: ExchangeId,
    /// The client's address.
    pub client: &'a Peer,
    /// The address the client reached.
    pub server: &'a Peer,
}

/// Where a request's content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// All of it (empty when there is none).
    Whole(&'a [u8]),
    /// Not all of it has arrived: ask for it with `Outcome::ReadContent` or [`crate::Command::Read`].
    Later,
}

/// What an application did with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The responder holds the whole response.
    Responded,
    /// The responder holds the whole response, and the application has more to do for it: it is sent at once, then the server calls
    /// [`App::response_sent`]. Only where [`Responder::leaves_at_once`].
    RespondedAhead,
    /// The responder holds the head of a streamed response; the server asks for the rest with [`App::pull`].
    Streaming,
    /// The responder holds the head of a streamed response and what there is of its content; the rest comes through the mailbox, as after
    /// [`crate::Command::Begin`]. Only where [`Responder::leaves_at_once`].
    Begun,
    /// The response comes through the mailbox, later or already: what a call posts is done in the same pass. So a response with a file,
    /// or with interim responses before it, is posted.
    Pending,
    /// Call again when the whole content is there. Only on [`Content::Later`].
    ReadContent,
}

/// What [`App::pull`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// A part was pushed; there may be more.
    More,
    /// That was all.
    End,
    /// The application failed: the peer must see that the response is cut.
    Failed,
}

/// Why an exchange ended without the application ending it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// The peer is gone, or ended its side before the content was complete.
    Disconnected,
    /// The handler took longer than `handler_timeout_ms`.
    HandlerTimeout,
    /// The content is longer than `body_bytes_max`, malformed or too slow: the server has responded.
    Refused,
}

/// What responds to requests. Runs on the reactor's thread: while it works, no connection is served.
pub trait App {
    /// Responds to `request`, at once or later.
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome;

    /// Pushes the next part of a streamed response to `out`.
    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled;

    /// The response of the last call, which was [`Outcome::RespondedAhead`], has been sent.
    fn response_sent(&mut self) {}

    /// Whether others of this thread wait for the end of the pass: callbacks of the owner's loop. Then it ends sooner.
    fn is_waited_for(&mut self) -> bool {
        false
    }

    /// Takes a part of the content it asked for with [`crate::Command::Read`]; `is_last` when no more follows.
    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool);

    /// Memory of at most `bytes` bytes for content, so that it is read from the socket to where it belongs: what the exchange asked for, or
    /// one part that it has not asked for yet. What was read is reported by [`App::content_was_read`]; if nothing was, the memory is asked for
    /// anew. None when content is to come through [`App::content`].
    fn content_room(&mut self, id: ExchangeId, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        let _ = (id, bytes);
        None
    }

    /// The first `bytes` bytes of the memory are content.
    fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        let _ = (id, bytes, is_last);
    }

    /// All that the exchange wrote, interim responses and files too, has left for the peer: it may write again.
    fn writable(&mut self, id: ExchangeId);

    /// Whether the handler of this exchange, which has posted no response, has begun one all the same: then it may take its time. Asked when
    /// `handler_timeout_ms` is over.
    fn has_begun(&mut self, id: ExchangeId) -> bool {
        let _ = id;
        false
    }

    /// The peer ended its sending side while this exchange was under way, and seems to be gone: it has acknowledged nothing for half a
    /// second. It may still read.
    fn peer_ended(&mut self, id: ExchangeId) {
        let _ = id;
    }

    /// A file of the response ends before what is left of `part`, or cannot be read, and the connection is cut: to be logged. If the
    /// exchange has not ended, [`App::abort`] follows.
    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        let _ = (id, part);
    }

    /// Runs what may wait for a disk or copies much. An application that keeps other threads waiting while it is called lets them go on
    /// meanwhile. None of its methods is called by `work`.
    fn step_back<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// The exchange is over before its response was complete: forget it. Commands for it are ignored from now on.
    fn abort(&mut self, id: ExchangeId, why: Abort);
}
