//! What one of a thread's connections is doing.

use std::collections::VecDeque;

use net::Transport;

use super::checker::Answer;
use super::mix::Mix;

/// One place in a thread's fixed set of connections. Sockets come and go in it.
pub(super) struct Connection {
    pub(super) socket: Option<Transport>,
    pub(super) stage: Stage,
    pub(super) answer: Answer,
    /// Requests that are not answered, oldest first.
    pub(super) stamps: VecDeque<Stamp>,
    /// How many these are.
    pub(super) outstanding: u32,
    /// Where in the mix the bytes begin that the socket has not taken.
    pub(super) unsent_from: usize,
    /// The position of the mix at which the last batch ends.
    pub(super) batch_end: u32,
    /// An incomplete head.
    pub(super) early: Vec<u8>,
    /// When the socket began to connect.
    pub(super) began_ns: u64,
    /// Since when it could take another request.
    pub(super) free_since_ns: u64,
    /// The connection came about.
    pub(super) is_established: bool,
    /// The poller tells when it can be written.
    pub(super) is_write_watched: bool,
    /// It has never been heard of in this run.
    pub(super) is_new: bool,
    /// It stands in the queue of those that can take a request.
    pub(super) is_listed: bool,
}

/// Requests of one batch that left together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// When they were to leave.
    pub(super) intended_ns: u64,
    /// When they left.
    pub(super) sent_ns: u64,
    /// Where the oldest of them stands in the mix.
    pub(super) position: u32,
    pub(super) count: u32,
}

/// A connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Not opened yet, or nothing is left for it to do.
    Closed,
    /// To be opened anew at the next sweep, because connecting failed.
    Failed,
    /// To be connected at the next sweep, because the server's queue is full.
    Waiting,
    /// Opened, nothing heard yet.
    Opening,
    /// Answers came, or, in an open loop, the connection came about.
    Open,
    /// The last answer said that the server closes; this waits for it, since then.
    Ending { was_good: bool, since_ns: u64 },
}

impl Connection {
    pub(super) fn new() -> Connection {
        Connection {
            socket: None,
            stage: Stage::Closed,
            answer: Answer::new(),
            stamps: VecDeque::new(),
            outstanding: 0,
            unsent_from: 0,
            batch_end: 0,
            early: Vec::new(),
            began_ns: 0,
            free_since_ns: 0,
            is_established: false,
            is_write_watched: false,
            is_new: true,
            is_listed: false,
        }
    }

    /// The bytes that the socket has not taken.
    pub(super) fn unsent<'a>(&self, mix: &'a Mix) -> &'a [u8] {
        mix.bytes(self.unsent_from, mix.offset(self.batch_end))
    }

    /// The position in the mix of the request whose answer comes next.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.stamps.front().map_or(0, |it| it.position)
    }

    /// Requests that have not begun to leave leave now.
    pub(super) fn restamp(&mut self, mix: &Mix, now_ns: u64) {
        let late = mix.begin_behind(self.unsent_from, self.batch_end);
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

    /// Closes the socket and forgets what was under way. Gives how many requests did not leave whole.
    pub(super) fn close(&mut self, mix: &Mix, stage: Stage) -> u32 {
        let unsent = mix.end_behind(self.unsent_from, self.batch_end);
        self.socket = None;
        self.stage = stage;
        self.answer = Answer::new();
        self.stamps.clear();
        self.outstanding = 0;
        self.unsent_from = 0;
        self.batch_end = 0;
        self.early = Vec::new();
        self.is_established = false;
        self.is_write_watched = false;
        unsent
    }
}
