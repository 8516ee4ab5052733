//! HTTP/1 over a link: requests in, responses out in the same order (RFC 9112).
//!
//! Two state machines move independently. *Reading* ([`input`], [`content`]):
//!
//! | reading | event | reading then |
//! | --- | --- | --- |
//! | `Idle` | an empty line arrives | `Idle` |
//! | `Idle` | part of a head arrives | `Head` |
//! | `Idle`, `Head` | a whole head arrives; the request may start | `Idle` (the response is complete, or an exchange is queued), `Content`, or `Closing` |
//! | `Idle`, `Head` | a whole head arrives; the request may not start yet | `Waiting` for what stops it |
//! | `Idle`, `Head` | a whole head arrives; too many requests run | `Waiting` for a place |
//! | `Idle`, `Head` | a handshake of a WebSocket arrives | `Handshake` |
//! | `Handshake` | the application accepts | `Upgraded`, and the connection becomes a WebSocket |
//! | `Handshake` | the application refuses | `Closing` |
//! | `Idle`, `Head` | malformed input, `header_timeout_ms` | `Closing` |
//! | `Idle` | `keep_alive_timeout_ms` | the link is closed |
//! | `Waiting` for a place | it may begin, and an earlier exchange stops it | `Waiting` for that, and for no place again |
//! | `Waiting` for a place | `queue_timeout_ms`, or the peer leaves | `Closing` |
//! | `Waiting` | an exchange ends, the socket has room, the next turn starts | `Idle`, and continues |
//! | `Content` | its end is read and taken | `Idle`, `Waiting` if the next request has arrived, or `Closing` after the last one |
//! | `Content` | it is too long, malformed, too slow, or truncated by the peer's end | `Closing` |
//! | any | a response with `close`, or a truncated one, has been sent | `Closing` |
//! | `Closing` | all responses have been sent | the link is closed |
//!
//! *Responses* ([`output`]) are queued in request order while an earlier one is incomplete. Without an earlier one, a response is written
//! straight to the worker's send buffer and never becomes a [`Queued`] exchange.
//!
//! Only [`deadlines`] decides who owes the next move, and until when.

mod admission;
mod content;
mod deadlines;
mod file;
mod held;
mod holding;
mod input;
mod output;
mod queue;
mod stopping;
mod upgrade;

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Received;

use self::content::Incoming;
use self::input::Refused;
use self::queue::{Queued, Window};
use crate::app::{Abort, App};
use crate::context::Context;
use crate::exchange::{Exchange, Progress};
use crate::id::ExchangeId;
use crate::link::{Broken, Fate, Turn};
use crate::mailbox::Command;
use crate::websocket::WebSocket;
use crate::websocket::opening::Handshake;

/// Capacity of an empty queue that a connection keeps.
const QUEUE_KEPT: usize = 4;

/// What a received request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    /// An earlier exchange, or room for its response. Or nothing any more: it starts when this turn continues.
    Exchange,
    /// The socket.
    Socket,
    /// The connection's next turn.
    Turn,
    /// Until fewer requests of the worker run.
    Place,
    /// As `Exchange`, after it has waited for a place and may begin.
    Granted { waited_ms: u32 },
}

/// How a connection ends after it has stopped reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// Everything was read, and the peer announced that it sends no further request.
    Announced,
    /// Everything that the peer sent was read, as far as is known.
    Read,
    /// The peer sent more than was read.
    Unread,
    /// A response was truncated, and an ordinary close would look like its end.
    Cut,
}

impl Ending {
    /// The end after a request that was read to its end.
    fn after(head: &wire::RequestHead<'_>) -> Ending {
        match head.persistent {
            true => Ending::Read,
            false => Ending::Announced,
        }
    }
}

/// What is read next.
enum Reading {
    /// The first byte of a request; `input` is empty, or an empty line.
    Idle,
    /// The rest of a head; `input` holds its start.
    Head,
    /// Nothing: `input` starts with a request that may not start yet.
    Waiting(For),
    /// The content of the last started request.
    Content(Box<Incoming>),
    /// Nothing: the last request is a handshake that the application has not decided about. `input` is for the WebSocket.
    Handshake(Box<Handshake>),
    /// Nothing: the handshake is accepted, and the connection becomes a WebSocket as soon as the response is passed on to the link.
    Upgraded(Box<WebSocket>),
    /// Nothing more.
    Closing(Ending),
}

/// One HTTP/1 connection.
pub(crate) struct H1 {
    reading: Reading,
    /// Input that could not be used yet.
    input: Vec<u8>,
    /// Requests whose responses have not been sent, in order.
    queue: VecDeque<Queued>,
    window: Window,
    /// Start of the current wait for a request (`Idle`) or its head (`Head`).
    since_ms: u64,
}

impl H1 {
    pub(crate) fn new(now_ms: u64) -> H1 {
        H1 {
            reading: Reading::Idle,
            input: Vec::new(),
            queue: VecDeque::new(),
            window: Window::FIRST,
            since_ms: now_ms,
        }
    }

    /// Serves what was read.
    #[inline]
    pub(crate) fn received<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        received: &Received,
        buffer: &[u8],
    ) -> Fate {
        match received {
            Received::Bytes(count) => self.feed(turn, buffer.get(..*count).unwrap_or_default()),
            Received::End => {
                self.content_was_truncated(turn);
                self.peer_ended(turn);
            }
            Received::Blocked => return Fate::Open,
            Received::Broken(_) => return self.abandon(turn, Abort::Disconnected),
        }
        self.settle(turn)
    }

    /// The application's memory for content. What is read into it is reported with [`H1::filled`].
    pub(crate) fn room<'a, A: App>(
        &self,
        context: &Context,
        app: &'a mut A,
    ) -> Option<&'a mut [MaybeUninit<u8>]> {
        match &self.reading {
            Reading::Content(incoming) if self.input.is_empty() => incoming.room(context, app),
            _ => None,
        }
    }

    /// Whether the next input starts a request or continues its head.
    #[inline]
    pub(crate) fn waits_for_request(&self) -> bool {
        matches!(self.reading, Reading::Idle | Reading::Head)
    }

    /// Whether it has read more than it could use.
    pub(crate) fn has_unused_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// The peer sends no more. Its handlers are notified when it seems to be gone, even if earlier input has not been read.
    pub(crate) fn peer_ended<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        turn.link.note_peer_end(now_ms);
        if self.open_exchanges().next().is_some() || self.waits_for_place() {
            turn.link.watch_departure(now_ms);
        }
    }

    /// Exchanges whose handlers are running.
    fn open_exchanges(&self) -> impl Iterator<Item = &Exchange> {
        let exchanges = self.queue.iter().map(|queued| &queued.exchange);
        exchanges.filter(|exchange| !exchange.is_ended())
    }

    /// The socket accepts bytes again.
    pub(crate) fn writable<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let is_followed = self.is_followed();
        if turn.link.resume(turn.context, is_followed) == Err(Broken) {
            return self.abandon(turn, Abort::Disconnected);
        }
        if matches!(self.reading, Reading::Head) {
            // While the socket was full, the rest of the head was not read.
            self.since_ms = turn.now_ms();
        }
        self.settle(turn)
    }

    /// Executes a command that a handler posted. Nothing is sent before [`H1::settle`], except as [`held`] says.
    pub(crate) fn obey<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        command: Command,
    ) {
        match command {
            Command::Read if !matches!(self.reading, Reading::Upgraded(_)) => {
                self.read_more(turn, id, false);
            }
            Command::ReadWhole => self.read_more(turn, id, true),
            Command::Open(opening) => self.accept(turn, id, &opening),
            Command::Read
            | Command::Message(..)
            | Command::Close(_)
            | Command::Subscribe(_)
            | Command::Unsubscribe(_) => self.obey_websocket(turn, id, command),
            command => self.respond(turn, id, command),
        }
    }

    /// Continues with what waited for this turn.
    pub(crate) fn proceed<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if matches!(self.reading, Reading::Waiting(For::Turn)) {
            self.resume(turn);
        }
        self.settle(turn)
    }

    /// Notifies every handler still working for this connection that it has ended. Some of the first response may have been sent.
    pub(crate) fn abandon<A: App>(&mut self, turn: &mut Turn<'_, A>, why: Abort) -> Fate {
        let fate = self.abandon_unsent(turn, why, 1);
        if fate == Fate::Close {
            // Nothing is owed any more.
            turn.link.guard(false);
        }
        fate
    }

    /// Like [`H1::abandon`]; the responses from an index of the queue on were not sent, even if they are complete.
    fn abandon_unsent<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        why: Abort,
        unsent_from: usize,
    ) -> Fate {
        let mut is_owed =
            turn.link.is_full() || matches!(self.reading, Reading::Closing(Ending::Cut));
        self.record_abandoned_call(turn);
        self.lose_websocket(turn);
        for (index, mut queued) in std::mem::take(&mut self.queue).into_iter().enumerate() {
            let exchange = &mut queued.exchange;
            is_owed |= exchange.progress != Progress::Waiting;
            if !exchange.is_ended() {
                // If the application panics, the other handlers must still be notified.
                let _ = catch_unwind(AssertUnwindSafe(|| turn.abort(exchange.id, why)));
                exchange.keep_deadline(turn.app, turn.context);
            }
            record_abandoned(turn.context, &mut queued, index >= unsent_from);
        }
        match is_owed {
            true => Fate::Reset,
            false => Fate::Close,
        }
    }

    /// Refuses a request that was not read.
    pub(crate) fn refuse_unread<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        status: u16,
        reason: &str,
    ) {
        self.refuse(turn, Refused::Unread { is_head: false }, status, reason);
    }

    /// Memory held, in bytes.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let is_bare = self.input.capacity() == 0 && self.queue.capacity() == 0;
        match &self.reading {
            Reading::Content(incoming) => self.queue_bytes() + incoming.held_bytes(),
            Reading::Handshake(_) => self.queue_bytes() + size_of::<Handshake>(),
            _ if is_bare => 0,
            _ => self.queue_bytes(),
        }
    }

    fn queue_bytes(&self) -> usize {
        let exchanges: usize = self
            .queue
            .iter()
            .map(|queued| queued.exchange.held_bytes())
            .sum();
        self.input.capacity() + self.queue.capacity() * size_of::<Queued>() + exchanges
    }

    /// The clock moved during a turn: a wait that started in it counts from its end.
    #[cold]
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64) {
        if self.since_ms >= from_ms {
            self.since_ms = to_ms;
        }
        if let Reading::Content(incoming) = &mut self.reading {
            incoming.inbound.exclude_turn(from_ms, to_ms);
        }
    }

    /// Reads no further request, but the rest of a content that a handler may still ask for.
    fn read_no_request<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if matches!(self.reading, Reading::Waiting(_)) {
            self.give_up_place(turn);
        }
        match &mut self.reading {
            Reading::Content(incoming) => incoming.is_persistent = false,
            Reading::Closing(_) | Reading::Upgraded(_) => {}
            Reading::Idle | Reading::Head | Reading::Waiting(_) | Reading::Handshake(_) => {
                let is_read = self.input.is_empty();
                self.stop_reading(if is_read {
                    Ending::Read
                } else {
                    Ending::Unread
                });
            }
        }
    }

    /// Stops reading.
    fn stop_reading(&mut self, ending: Ending) {
        let ending = match (&self.reading, ending) {
            (Reading::Closing(before @ (Ending::Unread | Ending::Cut)), Ending::Announced)
            | (Reading::Closing(before), Ending::Read) => *before,
            _ => ending,
        };
        self.input = Vec::new();
        self.reading = Reading::Closing(ending);
    }
}

/// Records an abandoned exchange.
fn record_abandoned(context: &mut Context, queued: &mut Queued, is_unsent: bool) {
    let mut record = std::mem::take(&mut queued.exchange.record);
    record.abandon(is_unsent);
    context.complete(record);
}
