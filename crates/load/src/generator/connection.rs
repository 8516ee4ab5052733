//! The state of one of a thread's connections.

use std::collections::VecDeque;

use net::Transport;
use wire::h2::ErrorCode;
use wire::websocket::CloseCode;

use super::channel::Channel;
use super::error::ErrorClass;
use super::pipeline::Pipeline;
use super::plan::Protocol;
use super::session::{Job, Session};

/// One slot of a thread's fixed set of connections. Sockets are opened and closed in it.
pub(super) struct Connection {
    pub(super) socket: Option<Transport>,
    pub(super) stage: Stage,
    pub(super) exchange: Exchange,
    /// The number of requests without a response yet.
    pub(super) outstanding: u32,
    /// Received bytes that are not a whole unit yet: an incomplete head, or frame.
    pub(super) early: Vec<u8>,
    /// Correct responses of the measured time, on all sockets of this slot.
    pub(super) served: u64,
    /// The same, without the current socket.
    pub(super) served_before: u64,
    /// When the socket started to connect.
    pub(super) connect_ns: u64,
    /// When it became able to take another request.
    pub(super) free_since_ns: u64,
    /// The handshake of TLS is complete.
    pub(super) is_secured: bool,
    /// The connection is established, with the handshakes of TLS and WebSocket.
    pub(super) is_established: bool,
    /// A response has arrived on the current socket, or a request on it has failed alone.
    pub(super) has_responded: bool,
    /// The poller reports when it is writable.
    pub(super) is_write_watched: bool,
    /// Sending has failed with this. What was received before is still to be read.
    pub(super) broken: Option<ErrorClass>,
    /// It has not succeeded or failed yet in this run.
    pub(super) is_new: bool,
    /// It is in the queue of those that can take a request.
    pub(super) is_listed: bool,
    /// It had a request at least once; in an open loop, in the measured time.
    pub(super) is_used: bool,
}

/// How requests and responses share a connection.
pub(super) enum Exchange {
    /// HTTP/1: one after the other.
    Pipeline(Pipeline),
    /// HTTP/2: each on a stream.
    Session(Box<Session>),
    /// WebSocket: messages one after the other.
    Channel(Box<Channel>),
}

impl Exchange {
    /// For a new socket.
    fn reset(&mut self, job: Job<'_>, protocol: Protocol) {
        match self {
            Exchange::Pipeline(pipeline) => pipeline.reset(),
            Exchange::Session(_) | Exchange::Channel(_) => *self = Exchange::new(job, protocol),
        }
    }

    fn new(job: Job<'_>, protocol: Protocol) -> Exchange {
        match (protocol, job.messages) {
            (Protocol::Http2 { streams }, _) => {
                Exchange::Session(Box::new(Session::new(job, streams)))
            }
            (Protocol::WebSocket(_), Some(messages)) => {
                Exchange::Channel(Box::new(Channel::new(messages)))
            }
            _ => Exchange::Pipeline(Pipeline::new()),
        }
    }
}

/// Requests of one batch that were sent together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// When they were due.
    pub(super) intended_ns: u64,
    /// When they were sent.
    pub(super) sent_ns: u64,
    /// Closed loop: when they were first sent, if a server ended earlier connections without processing them; otherwise the greatest value.
    pub(super) first_ns: u64,
    /// The position of the oldest of them in the mix.
    pub(super) position: u32,
    pub(super) count: u32,
}

impl Stamp {
    /// When they were first sent.
    #[inline]
    pub(super) fn since_ns(&self) -> u64 {
        self.first_ns.min(self.sent_ns)
    }

    /// A request that was not sent.
    pub(super) const ONE: Stamp = Stamp {
        intended_ns: 0,
        sent_ns: 0,
        first_ns: u64::MAX,
        position: 0,
        count: 1,
    };
}

/// The stages of a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Not opened yet, or no longer needed.
    Closed,
    /// To be reopened at the next sweep, because connecting failed.
    Failed,
    /// To be connected at the next sweep, because the server's queue is full.
    Waiting,
    /// Opened; no response yet.
    Opening,
    /// Responses have arrived, or the connection is established and was opened without a request.
    Open,
    /// The last response announced that the server closes; waits for it, since then.
    Ending { was_good: bool, since_ns: u64 },
}

impl Connection {
    pub(super) fn new(job: Job<'_>, protocol: Protocol) -> Connection {
        Connection {
            socket: None,
            stage: Stage::Closed,
            exchange: Exchange::new(job, protocol),
            outstanding: 0,
            early: Vec::new(),
            served: 0,
            served_before: 0,
            connect_ns: 0,
            free_since_ns: 0,
            is_secured: false,
            is_established: false,
            has_responded: false,
            is_write_watched: false,
            broken: None,
            is_new: true,
            is_listed: false,
            is_used: false,
        }
    }

    /// The bytes that the socket has not accepted.
    #[inline]
    pub(super) fn unsent<'a>(&'a self, job: Job<'a>) -> &'a [u8] {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.batch.unsent(job.mix),
            Exchange::Session(session) => session.unsent(),
            Exchange::Channel(channel) => channel.unsent(job.mix),
        }
    }

    /// The socket has accepted more bytes. Returns whether there is more to send now.
    #[inline]
    pub(super) fn note_sent(&mut self, count: usize, job: Job<'_>) -> bool {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => {
                pipeline.batch.note_sent(count);
                !pipeline.batch.unsent(job.mix).is_empty()
            }
            Exchange::Session(session) => session.note_sent(count, job),
            Exchange::Channel(channel) => channel.note_sent(count, job.mix),
        }
    }

    /// Adds requests, which [`Connection::assign`] follows.
    #[inline]
    pub(super) fn add(&mut self, stamp: Stamp, job: Job<'_>) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.batch.stamps.push_back(stamp),
            Exchange::Channel(channel) => channel.batch.stamps.push_back(stamp),
            Exchange::Session(session) => {
                for turn in 0..stamp.count {
                    let position = job.mix.advanced(stamp.position, turn);
                    let one = Stamp {
                        position,
                        count: 1,
                        ..stamp
                    };
                    session.open(one, job);
                }
            }
        }
    }

    /// Makes the requests that were added the batch to be sent: `count` from a position of the mix.
    #[inline]
    pub(super) fn assign(&mut self, job: Job<'_>, position: u32, count: u32) {
        self.outstanding += count;
        self.is_used = true;
        match (&mut self.exchange, job.messages) {
            (Exchange::Pipeline(pipeline), _) => pipeline.batch.assign(job.mix, position, count),
            (Exchange::Channel(channel), Some(messages)) => {
                channel.assign(messages, job.mix, position, count);
            }
            _ => {}
        }
    }

    /// Whether requests can be sent as soon as the socket accepts them: a handshake of WebSocket, if it needs one, is complete.
    #[inline]
    pub(super) fn is_upgraded(&self) -> bool {
        match &self.exchange {
            Exchange::Pipeline(_) | Exchange::Session(_) => true,
            Exchange::Channel(channel) => channel.is_open(),
        }
    }

    /// How many more requests an open connection can take, one by one. A closed one is opened for them.
    #[inline]
    pub(super) fn room(&self, job: Job<'_>, protocol: Protocol) -> u32 {
        match &self.exchange {
            // Requests follow the handshake that is to be sent.
            Exchange::Channel(_) if self.stage == Stage::Closed => protocol.depth(),
            Exchange::Pipeline(_) | Exchange::Channel(_) if !self.unsent(job).is_empty() => 0,
            Exchange::Pipeline(_) | Exchange::Channel(_) => {
                protocol.depth().saturating_sub(self.outstanding)
            }
            Exchange::Session(session) => session.limit().saturating_sub(self.outstanding),
        }
    }

    /// How many streams the server allows on it; `None`: any number, or that is not known.
    pub(super) fn streams_allowed(&self) -> Option<u32> {
        match &self.exchange {
            Exchange::Session(session) => session.allowed(),
            Exchange::Pipeline(_) | Exchange::Channel(_) => None,
        }
    }

    /// Since when the server allows no stream on it, if it does not and no request is outstanding.
    pub(super) fn closed_since_ns(&self) -> Option<u64> {
        match &self.exchange {
            Exchange::Session(session) if self.outstanding == 0 => session.closed_since_ns(),
            _ => None,
        }
    }

    /// Whether the server's settings of HTTP/2 have arrived on it.
    pub(super) fn has_settings(&self) -> bool {
        matches!(&self.exchange, Exchange::Session(session) if session.has_settings)
    }

    /// How many requests its next batch has in a closed loop: over HTTP/1, the responses to the last one must be complete.
    #[inline]
    pub(super) fn batch_room(&self, protocol: Protocol) -> u32 {
        match &self.exchange {
            Exchange::Pipeline(_) | Exchange::Channel(_) if self.outstanding > 0 => 0,
            Exchange::Pipeline(_) | Exchange::Channel(_) => protocol.depth(),
            Exchange::Session(session) => session.limit().saturating_sub(self.outstanding),
        }
    }

    /// Sets the send time of requests whose first byte is not sent yet.
    pub(super) fn restamp(&mut self, job: Job<'_>, now_ns: u64) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.batch.restamp(job.mix, now_ns),
            Exchange::Channel(channel) => channel.batch.restamp(job.mix, now_ns),
            // Streams are opened on an established connection, or wait for that.
            Exchange::Session(session) if !self.is_established => session.restamp(now_ns),
            Exchange::Session(_) => {}
        }
    }

    /// Sets the send time of all outstanding requests.
    pub(super) fn restamp_all(&mut self, now_ns: u64) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.batch.restamp_all(now_ns),
            Exchange::Session(session) => session.restamp(now_ns),
            Exchange::Channel(channel) => channel.batch.restamp_all(now_ns),
        }
    }

    /// When the oldest outstanding request was sent.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        match &self.exchange {
            Exchange::Pipeline(Pipeline { batch, .. }) => batch.stamps.front().map(|it| it.sent_ns),
            Exchange::Channel(channel) => channel.batch.stamps.front().map(|it| it.sent_ns),
            Exchange::Session(session) => session.oldest_ns(),
        }
    }

    /// The requests without a response.
    pub(super) fn stamps(&self) -> Box<dyn Iterator<Item = &Stamp> + '_> {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => Box::new(pipeline.batch.stamps.iter()),
            Exchange::Channel(channel) => Box::new(channel.batch.stamps.iter()),
            Exchange::Session(session) => Box::new(session.stamps()),
        }
    }

    /// The requests without a response; they are forgotten.
    pub(super) fn take_stamps(&mut self) -> VecDeque<Stamp> {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => std::mem::take(&mut pipeline.batch.stamps),
            Exchange::Channel(channel) => std::mem::take(&mut channel.batch.stamps),
            Exchange::Session(session) => session.take_stamps(),
        }
    }

    /// Takes back the correct responses of the current socket. Returns how many they were.
    pub(super) fn take_back_served(&mut self) -> u64 {
        let count = self.served - self.served_before;
        self.served = self.served_before;
        count
    }

    /// Closes the socket; its end is announced if it uses HTTP/2, WebSocket or TLS.
    pub(super) fn disconnect(&mut self, job: Job<'_>) {
        let Some(socket) = self.socket.take().filter(|_| self.is_established) else {
            return;
        };
        // If there is no room for it, the end of the connection has to do.
        match &mut self.exchange {
            Exchange::Pipeline(_) => {}
            Exchange::Session(session) => {
                session.leave(ErrorCode::NO_ERROR);
                let _ = socket.send(session.unsent());
            }
            Exchange::Channel(channel) => {
                channel.close(Some(CloseCode::NORMAL), String::new(), job.mix);
                let _ = socket.send(channel.unsent(job.mix));
            }
        }
        if socket.is_secure() {
            socket.announce_end();
        }
    }

    /// How many requests were begun and are not completely sent.
    pub(super) fn incomplete(&self, job: Job<'_>) -> u32 {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.batch.incomplete(job.mix),
            Exchange::Session(session) => session.incomplete(),
            Exchange::Channel(channel) => channel.incomplete(job.mix),
        }
    }

    /// Closes the socket and drops outstanding requests. Returns how many of them were not completely sent.
    pub(super) fn close(&mut self, job: Job<'_>, protocol: Protocol, stage: Stage) -> u32 {
        let unsent = self.incomplete(job);
        self.disconnect(job);
        self.stage = stage;
        self.exchange.reset(job, protocol);
        self.outstanding = 0;
        self.early = Vec::new();
        self.served_before = self.served;
        self.is_secured = false;
        self.is_established = false;
        self.has_responded = false;
        self.is_write_watched = false;
        self.broken = None;
        unsent
    }
}
