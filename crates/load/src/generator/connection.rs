//! The state of one of a thread's connections.

use std::collections::VecDeque;

use net::Transport;
use wire::h2::ErrorCode;

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
    /// The connection is established.
    pub(super) is_established: bool,
    /// The poller reports when it is writable.
    pub(super) is_write_watched: bool,
    /// It has not succeeded or failed yet in this run.
    pub(super) is_new: bool,
    /// It is in the queue of those that can take a request.
    pub(super) is_listed: bool,
    /// It had a request at least once.
    pub(super) is_used: bool,
}

/// How requests and responses share a connection.
pub(super) enum Exchange {
    /// HTTP/1: one after the other.
    Pipeline(Pipeline),
    /// HTTP/2: each on a stream.
    Session(Box<Session>),
}

impl Exchange {
    /// For a new socket.
    fn reset(&mut self, job: Job<'_>, protocol: Protocol) {
        match self {
            Exchange::Pipeline(pipeline) => pipeline.reset(),
            Exchange::Session(_) => *self = Exchange::new(job, protocol),
        }
    }

    fn new(job: Job<'_>, protocol: Protocol) -> Exchange {
        match protocol {
            Protocol::Http10 | Protocol::Http11 { .. } => Exchange::Pipeline(Pipeline::new()),
            Protocol::Http2 { streams } => Exchange::Session(Box::new(Session::new(job, streams))),
        }
    }
}

/// Requests of one batch that were sent together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// When they were due.
    pub(super) intended_ns: u64,
    /// When they were sent.
    pub(super) sent_ns: u64,
    /// The position of the oldest of them in the mix.
    pub(super) position: u32,
    pub(super) count: u32,
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
    /// Responses have arrived or, in an open loop, the connection is established.
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
            is_established: false,
            is_write_watched: false,
            is_new: true,
            is_listed: false,
            is_used: false,
        }
    }

    /// The bytes that the socket has not accepted.
    #[inline]
    pub(super) fn unsent<'a>(&'a self, job: Job<'a>) -> &'a [u8] {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.unsent(job.mix),
            Exchange::Session(session) => session.unsent(),
        }
    }

    /// The socket has accepted more bytes. Returns whether there is more to send now.
    #[inline]
    pub(super) fn note_sent(&mut self, count: usize, job: Job<'_>) -> bool {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => {
                pipeline.unsent_from += count;
                pipeline.unsent_from < job.mix.offset(pipeline.batch_end)
            }
            Exchange::Session(session) => session.note_sent(count, job),
        }
    }

    /// Adds requests, which [`Connection::assign`] follows.
    #[inline]
    pub(super) fn add(&mut self, stamp: Stamp, job: Job<'_>) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.stamps.push_back(stamp),
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
        if let Exchange::Pipeline(pipeline) = &mut self.exchange {
            pipeline.assign(job.mix, position, count);
        }
    }

    /// How many more requests an open connection can take, one by one.
    #[inline]
    pub(super) fn room(&self, job: Job<'_>, protocol: Protocol) -> u32 {
        match &self.exchange {
            Exchange::Pipeline(pipeline) if !pipeline.unsent(job.mix).is_empty() => 0,
            Exchange::Pipeline(_) => protocol.depth().saturating_sub(self.outstanding),
            Exchange::Session(session) => session.limit().saturating_sub(self.outstanding),
        }
    }

    /// How many requests its next batch has in a closed loop: over HTTP/1, the responses to the last one must be complete.
    #[inline]
    pub(super) fn batch_room(&self, protocol: Protocol) -> u32 {
        match &self.exchange {
            Exchange::Pipeline(_) if self.outstanding > 0 => 0,
            Exchange::Pipeline(_) => protocol.depth(),
            Exchange::Session(session) => session.limit().saturating_sub(self.outstanding),
        }
    }

    /// Sets the send time of requests whose first byte is not sent yet.
    pub(super) fn restamp(&mut self, job: Job<'_>, now_ns: u64) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.restamp(job.mix, now_ns),
            // Streams are opened on an established connection, or wait for that.
            Exchange::Session(session) if !self.is_established => session.restamp(now_ns),
            Exchange::Session(_) => {}
        }
    }

    /// Sets the send time of all outstanding requests.
    pub(super) fn restamp_all(&mut self, now_ns: u64) {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => {
                for stamp in &mut pipeline.stamps {
                    stamp.sent_ns = now_ns;
                }
            }
            Exchange::Session(session) => session.restamp(now_ns),
        }
    }

    /// When the oldest outstanding request was sent.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.stamps.front().map(|it| it.sent_ns),
            Exchange::Session(session) => session.oldest_ns(),
        }
    }

    /// The requests without a response; they are forgotten.
    pub(super) fn take_stamps(&mut self) -> VecDeque<Stamp> {
        match &mut self.exchange {
            Exchange::Pipeline(pipeline) => std::mem::take(&mut pipeline.stamps),
            Exchange::Session(session) => session.take_stamps(),
        }
    }

    /// Takes back the correct responses of the current socket. Returns how many they were.
    pub(super) fn take_back_served(&mut self) -> u64 {
        let count = self.served - self.served_before;
        self.served = self.served_before;
        count
    }

    /// Closes the socket; its end is announced if it uses HTTP/2 or TLS.
    pub(super) fn disconnect(&mut self) {
        let Some(socket) = self.socket.take().filter(|_| self.is_established) else {
            return;
        };
        if let Exchange::Session(session) = &mut self.exchange {
            session.leave(ErrorCode::NO_ERROR);
            // If there is no room for it, the end of the connection has to do.
            let _ = socket.send(session.unsent());
        }
        if socket.is_secure() {
            socket.announce_end();
        }
    }

    /// How many requests were begun and are not completely sent.
    pub(super) fn incomplete(&self, job: Job<'_>) -> u32 {
        match &self.exchange {
            Exchange::Pipeline(pipeline) => pipeline.incomplete(job.mix),
            Exchange::Session(session) => session.incomplete(),
        }
    }

    /// Closes the socket and drops outstanding requests. Returns how many of them were not completely sent.
    pub(super) fn close(&mut self, job: Job<'_>, protocol: Protocol, stage: Stage) -> u32 {
        let unsent = self.incomplete(job);
        self.disconnect();
        self.stage = stage;
        self.exchange.reset(job, protocol);
        self.outstanding = 0;
        self.early = Vec::new();
        self.served_before = self.served;
        self.is_established = false;
        self.is_write_watched = false;
        unsent
    }
}
