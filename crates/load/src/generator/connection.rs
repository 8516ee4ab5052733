//! The state of one of a thread's connections.

use std::collections::VecDeque;

use net::Transport;

use super::checker::Response;
use super::mix::Mix;

/// One slot of a thread's fixed set of connections. Sockets are opened and closed in it.
pub(super) struct Connection {
    pub(super) socket: Option<Transport>,
    pub(super) stage: Stage,
    pub(super) response: Response,
    /// Requests without a response yet, oldest first.
    pub(super) stamps: VecDeque<Stamp>,
    /// Their number.
    pub(super) outstanding: u32,
    /// Where the bytes that the socket has not accepted start in the mix.
    pub(super) unsent_from: usize,
    /// The position in the mix at which the last batch ends.
    pub(super) batch_end: u32,
    /// An incomplete head.
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

/// Requests of one batch that were sent together.
#[derive(Clone, Copy, Debug)]
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
    pub(super) fn new() -> Connection {
        Connection {
            socket: None,
            stage: Stage::Closed,
            response: Response::new(),
            stamps: VecDeque::new(),
            outstanding: 0,
            unsent_from: 0,
            batch_end: 0,
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
    pub(super) fn unsent<'a>(&self, mix: &'a Mix) -> &'a [u8] {
        mix.bytes(self.unsent_from, mix.offset(self.batch_end))
    }

    /// The position in the mix of the request whose response is next.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.stamps.front().map_or(0, |it| it.position)
    }

    /// Sets the send time of requests whose first byte is not sent yet.
    pub(super) fn restamp(&mut self, mix: &Mix, now_ns: u64) {
        let late = mix.starting_from(self.unsent_from, self.batch_end);
        let Some(last) = self.stamps.back_mut() else {
            return;
        };
        if late >= last.count {
            last.sent_ns = now_ns;
        } else if late > 0 {
            last.count -= late;
            let stamp = Stamp {
                sent_ns: now_ns,
                position: last.position + last.count,
                count: late,
                ..*last
            };
            self.stamps.push_back(stamp);
        }
    }

    /// Takes back the correct responses of the current socket. Returns how many they were.
    pub(super) fn take_back_served(&mut self) -> u64 {
        let count = self.served - self.served_before;
        self.served = self.served_before;
        count
    }

    /// Closes the socket; its end is announced if it uses TLS.
    pub(super) fn disconnect(&mut self) {
        if let Some(socket) = self.socket.take()
            && socket.is_secure()
            && self.is_established
        {
            socket.announce_end();
        }
    }

    /// Closes the socket and drops outstanding requests. Returns how many of them were not completely sent.
    pub(super) fn close(&mut self, mix: &Mix, stage: Stage) -> u32 {
        let unsent = mix.ending_after(self.unsent_from, self.batch_end);
        self.disconnect();
        self.stage = stage;
        self.response = Response::new();
        self.stamps.clear();
        self.outstanding = 0;
        self.unsent_from = 0;
        self.batch_end = 0;
        self.early = Vec::new();
        self.served_before = self.served;
        self.is_established = false;
        self.is_write_watched = false;
        unsent
    }
}
