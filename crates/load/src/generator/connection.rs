//! What one of the run's connections is doing.

use net::{Interest, Transport};

use super::checker::Answer;

/// One place in the run's fixed set of connections. Sockets come and go in it.
pub(super) struct Connection {
    pub(super) socket: Option<Transport>,
    pub(super) answer: Answer,
    /// Requests of the batch that are not answered.
    pub(super) outstanding: u32,
    /// Bytes of the batch that the socket has not taken.
    pub(super) unsent: usize,
    /// Bytes of the batch.
    pub(super) batch_len: usize,
    /// When the batch was sent.
    pub(super) sent_ns: u64,
    /// An incomplete head.
    pub(super) early: Vec<u8>,
    pub(super) interest: Interest,
    pub(super) stage: Stage,
}

/// A connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Not opened yet, or nothing is left for it to do.
    Closed,
    /// To be opened anew at the next sweep, because connecting failed.
    Failed,
    /// Opened, nothing heard yet.
    Opening,
    /// Answers came.
    Open,
    /// The last answer said that the server closes; this waits for it.
    Ending {
        /// Whether that answer was right.
        was_good: bool,
    },
}

impl Connection {
    pub(super) fn new() -> Connection {
        Connection {
            socket: None,
            answer: Answer::new(),
            outstanding: 0,
            unsent: 0,
            batch_len: 0,
            sent_ns: 0,
            early: Vec::new(),
            interest: Interest::NONE,
            stage: Stage::Closed,
        }
    }

    /// What is left of the batch, out of `requests`, the bytes of a full batch.
    pub(super) fn unsent<'a>(&self, requests: &'a [u8]) -> &'a [u8] {
        let sent = self.batch_len - self.unsent;
        requests.get(sent..self.batch_len).unwrap_or_default()
    }

    pub(super) fn wanted_interest(&self) -> Interest {
        Interest {
            read: true,
            write: self.unsent > 0,
            ..Interest::NONE
        }
    }

    /// Closes the socket and forgets the answer it was in.
    pub(super) fn close(&mut self, stage: Stage) {
        self.socket = None;
        self.answer = Answer::new();
        self.early.clear();
        self.outstanding = 0;
        self.unsent = 0;
        self.stage = stage;
    }
}
