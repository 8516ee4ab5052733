//! One connection's life: what it holds, when it ends, what its socket is watched for.
//!
//! Two things move independently. *Reading* ([`input`], [`content`]) goes `Head` -> (`Content`
//! ->) `Head` ... and ends in `Closing` (no further request) or `Lingering` (all is sent, the
//! peer is given time to read it). *Answers* ([`answers`]) stand in `pending` in request order
//! while one before them is incomplete; an answer that has none before it is written straight to
//! the worker's send buffer and never becomes an [`Exchange`]. What has to happen by when is in
//! [`deadlines`].

mod answers;
mod content;
mod deadlines;
mod file;
mod input;

use std::collections::VecDeque;

use net::{Interest, Peer, Received, Sent, Transport};

use self::content::Incoming;
use crate::app::{Abort, App};
use crate::exchange::Exchange;
use crate::worker::Core;

/// Input discarded from a peer that goes on sending after its connection ended.
const LINGER_BYTES_MAX: u64 = 1 << 20;

/// What the access log says of a request whose client left before there was an answer: no status of HTTP's, but nginx's
/// since long.
const CLIENT_CLOSED_REQUEST: u16 = 499;

enum Reading {
    /// Between requests, or inside a head.
    Head,
    /// Inside the content of the request that was started last.
    Content(Box<Incoming>),
    /// No further request is read; the connection ends when its answers are out.
    Closing,
    /// Everything is sent and our side is shut; input is discarded.
    Lingering { discarded_bytes: u64 },
}

/// What becomes of a connection after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Open,
    /// It has more to do without waiting for its socket.
    Again,
    Close,
}

pub(crate) struct Connection {
    pub(crate) transport: Transport,
    client: Peer,
    server: Peer,
    pub(crate) key: u32,
    reading: Reading,
    /// Input that could not be used yet: an incomplete head, or requests that must wait.
    input: Vec<u8>,
    /// `input` holds more than an incomplete head: something before it must end first.
    is_blocked: bool,
    end_of_input: bool,
    /// The peer sends no more; there may be input before that which was not read.
    has_peer_ended: bool,
    /// The peer sent more than we will read, so a plain close could reset away our last answer.
    has_unread: bool,
    /// Bytes that the socket refused, and how many of them have left since.
    backlog: Vec<u8>,
    backlog_sent: usize,
    /// The socket takes nothing now: `backlog` waits for it, or a file.
    is_full: bool,
    pending: VecDeque<Exchange>,
    /// It is in the worker's list of connections that go on without waiting.
    pub(crate) goes_again: bool,
    /// What the poller watches; `None` while it does not know the socket.
    pub(crate) interest: Option<Interest>,
    /// The last read may have left something, which an edge-triggered set would not report again.
    pub(crate) may_have_more: bool,
    /// Start of the current wait: for a head (`has_partial`), for a request, or for the peer's end.
    since_ms: u64,
    has_partial: bool,
    served_any: bool,
    /// The last time the socket took bytes, or told that the peer sends no more.
    sent_ms: u64,
}

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        client: Peer,
        server: Peer,
        key: u32,
        now_ms: u64,
    ) -> Connection {
        Connection {
            transport,
            client,
            server,
            key,
            reading: Reading::Head,
            input: Vec::new(),
            is_blocked: false,
            end_of_input: false,
            has_peer_ended: false,
            has_unread: false,
            backlog: Vec::new(),
            backlog_sent: 0,
            is_full: false,
            pending: VecDeque::new(),
            goes_again: false,
            interest: None,
            may_have_more: false,
            since_ms: now_ms,
            has_partial: false,
            served_any: false,
            sent_ms: now_ms,
        }
    }

    /// Reads once and serves what came.
    pub(crate) fn readable<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        buffer: &mut [u8],
        has_ended: bool,
    ) -> Fate {
        let Some(room) = self.content_room(core, app) else {
            let received = self.transport.receive(buffer);
            return self.received(core, app, received, buffer, has_ended);
        };
        let room_bytes = room.len();
        match self.transport.receive_into(room) {
            Received::Bytes(count) => {
                self.may_have_more = has_ended || count == room_bytes;
                self.content_was_read(core, app, count);
                self.settle(core, app)
            }
            received => self.received(core, app, received, &[], has_ended),
        }
    }

    /// Serves what was read into `buffer`.
    #[inline]
    pub(crate) fn received<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        received: Received,
        buffer: &[u8],
        has_ended: bool,
    ) -> Fate {
        match received {
            Received::Bytes(count) => {
                self.may_have_more = has_ended || count == buffer.len();
                self.feed(core, app, buffer.get(..count).unwrap_or_default());
            }
            Received::End => {
                self.end_of_input = true;
                self.content_was_cut(app);
                self.peer_ended(core, app);
            }
            Received::Blocked => return Fate::Open,
            Received::Broken(_) => return self.close(core, app, Abort::Disconnected),
        }
        self.settle(core, app)
    }

    /// Whether what comes now begins a request, or goes on with its head.
    pub(crate) fn waits_for_request(&self) -> bool {
        matches!(self.reading, Reading::Head)
    }

    /// The peer sends no more: the handlers at work are told, also while what it sent before waits to be read.
    pub(crate) fn peer_ended<A: App>(&mut self, core: &mut Core, app: &mut A) {
        if !std::mem::replace(&mut self.has_peer_ended, true) {
            self.sent_ms = core.clock.now_ms();
        }
        self.tell_peer_ended(app);
    }

    fn tell_peer_ended<A: App>(&self, app: &mut A) {
        let open = self.pending.iter().filter(|exchange| !exchange.is_ended());
        open.for_each(|exchange| app.peer_ended(exchange.id));
    }

    /// Sends what waits and goes on.
    pub(crate) fn writable<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        self.is_full = false;
        if let Some(unsent @ [_, ..]) = self.backlog.get(self.backlog_sent..) {
            match self.transmit(unsent) {
                Sent::Bytes(count) => {
                    self.is_full = count < unsent.len();
                    self.backlog_sent += count;
                    if count > 0 {
                        self.sent_ms = core.clock.now_ms();
                    }
                }
                Sent::Broken(_) => return self.close(core, app, Abort::Disconnected),
            }
        }
        if !self.is_full {
            self.backlog = Vec::new();
            self.backlog_sent = 0;
        }
        self.settle(core, app)
    }

    /// Tells every handler that still works for this connection that it is over.
    pub(crate) fn close<A: App>(&mut self, core: &mut Core, app: &mut A, why: Abort) -> Fate {
        for mut exchange in std::mem::take(&mut self.pending) {
            if !exchange.is_ended() {
                app.abort(exchange.id, why);
            }
            if let Some(record) = &mut exchange.record
                && record.status == 0
            {
                record.status = CLIENT_CLOSED_REQUEST;
            }
            core.log(&exchange);
        }
        Fate::Close
    }

    /// What becomes of a connection whose answers are all out.
    fn fate(&mut self, core: &Core) -> Fate {
        if !self.pending.is_empty() || self.is_full {
            return Fate::Open;
        }
        match &self.reading {
            Reading::Head | Reading::Content(_) if self.end_of_input => Fate::Close,
            Reading::Head | Reading::Content(_) => Fate::Open,
            Reading::Closing if self.end_of_input || !self.has_unread => Fate::Close,
            Reading::Closing => {
                self.transport.shutdown_send();
                self.reading = Reading::Lingering { discarded_bytes: 0 };
                self.since_ms = core.clock.now_ms();
                self.input = Vec::new();
                Fate::Open
            }
            Reading::Lingering { discarded_bytes }
                if self.end_of_input || *discarded_bytes > LINGER_BYTES_MAX =>
            {
                Fate::Close
            }
            Reading::Lingering { .. } => Fate::Open,
        }
    }

    /// What the poller has to watch now.
    #[inline]
    pub(crate) fn wanted_interest(&self) -> Interest {
        let write = self.is_full;
        let takes_input = match &self.reading {
            Reading::Head => true,
            Reading::Content(incoming) => !incoming.is_complete && !incoming.is_ahead,
            Reading::Closing => false,
            Reading::Lingering { .. } => true,
        };
        Interest {
            read: takes_input && !write && !self.is_blocked && !self.end_of_input,
            write,
            end: !self.has_peer_ended,
        }
    }

    /// Begins to refuse a connection that is one too many.
    pub(crate) fn turn_away<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let reason = "This server has as many connections as it takes; try again shortly.";
        self.refuse(core, app, None, 503, reason);
        self.settle(core, app)
    }
}
