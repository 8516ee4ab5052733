//! HTTP/2 on one connection, without I/O: requests to frames, and frames to verdicts.
//!
//! A response belongs to the request of its stream, so a response on a stream that was not opened, or a second one, is detected whatever it
//! contains. The server is never limited by our windows; our content waits for its windows.
//!
//! [`input`] reads frames, [`output`] writes them. [`stream`] finds a stream by its identifier, [`request`] encodes requests and [`head`]
//! decodes the heads of responses; both know what comes out alike again.

mod head;
mod input;
mod output;
mod request;
mod stream;

use std::collections::VecDeque;

use wire::h2::{ErrorCode, ReceiveWindow, SendWindow, settings};

use super::channel::Messages;
use super::checker::{Kind, Verdict};
use super::connection::Stamp;
use super::error::ErrorClass;
use super::mix::Mix;
use head::Heads;
pub(super) use head::Start;
pub(super) use input::Violation;
use request::Blocks;
pub(super) use request::Requests;
use stream::Streams;

/// The windows for content of responses, as large as those of other generators: the server's own speed is to be measured.
const WINDOW_BYTES: u32 = 1 << 30;
/// The last identifier of a stream that is used. A connection with so many requests is replaced.
const STREAM_LAST: u32 = 0x7fff_0001;
/// Streams that were cancelled, of which frames may still arrive. A connection with more is replaced.
const CANCELLED_MAX: usize = 1000;

/// What all sessions of a run share.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) mix: &'a Mix,
    pub(super) kinds: &'a [Kind],
    pub(super) requests: &'a Requests,
    pub(super) messages: Option<&'a Messages>,
}

/// One connection.
pub(super) struct Session {
    streams: Streams,
    blocks: Blocks,
    heads: Heads,
    /// The identifier of the next stream.
    next_stream: u32,
    depth: u32,
    /// GOAWAY is the last frame.
    has_left: bool,
    /// At least one response was complete.
    has_responded: bool,
    admission: Admission,
    /// Since when no stream is allowed, or a request has waited for one.
    closed_since_ns: u64,
    /// The server's settings have arrived: it speaks HTTP/2.
    pub(super) has_settings: bool,
    /// How much content the server allows on the connection.
    window: SendWindow,
    /// The same for a new stream.
    stream_window: u32,
    received: ReceiveWindow,
    /// Streams with content to be written, the next one first.
    writing: VecDeque<u32>,
    /// A header block that has not arrived as a whole.
    fragments: Option<Fragments>,
    cancelled: Vec<u32>,
    /// Requests that were not completely written when their streams ended.
    abandoned: u32,
    /// Frames, of which the socket has accepted the first `sent` bytes.
    out: Vec<u8>,
    sent: usize,
    /// When bytes last arrived.
    pub(super) heard_ns: u64,
}

/// Which requests the server accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    /// Its settings are not known yet. A first request is always accepted.
    Unknown,
    /// This many at a time.
    Concurrent(u32),
    /// None on this connection any more: it has sent GOAWAY, and will close.
    Closed,
    /// The same, because this side leaves: there are no identifiers left, or too much was cancelled.
    Spent,
}

/// The start of a header block.
struct Fragments {
    stream: u32,
    is_last: bool,
    /// Bytes of the frames.
    head_bytes: usize,
    block: Vec<u8>,
}

/// What a frame means for requests.
pub(super) enum Event {
    /// Nothing.
    None,
    /// A response is complete.
    Response(Stamp, Verdict),
    /// A request got no response.
    Failure(Stamp, ErrorClass),
    /// The server does not process the requests of these streams, for a reason that is an error or not.
    Refusal {
        stamps: VecDeque<Stamp>,
        is_error: bool,
    },
}

impl Session {
    /// A connection whose preface is to be sent.
    pub(super) fn new(job: Job<'_>, depth: u32) -> Session {
        Session {
            streams: Streams::new(depth),
            blocks: Blocks::new(job.requests),
            heads: Heads::new(job.kinds.len()),
            next_stream: 1,
            depth,
            has_left: false,
            has_responded: false,
            admission: Admission::Unknown,
            closed_since_ns: 0,
            has_settings: false,
            window: SendWindow::new(settings::WINDOW_BYTES),
            stream_window: settings::WINDOW_BYTES,
            received: ReceiveWindow::new(WINDOW_BYTES),
            writing: VecDeque::new(),
            fragments: None,
            cancelled: Vec::new(),
            abandoned: 0,
            out: output::preface(),
            sent: 0,
            heard_ns: 0,
        }
    }

    /// How many requests may be outstanding at a time.
    pub(super) fn limit(&self) -> u32 {
        match self.admission {
            Admission::Unknown => 1,
            Admission::Concurrent(limit) => self.depth.min(limit),
            Admission::Closed | Admission::Spent => 0,
        }
    }

    /// How many streams the server allows at a time; `None`: any number, or that is not known.
    pub(super) fn allowed(&self) -> Option<u32> {
        match self.admission {
            Admission::Concurrent(limit) if limit < u32::MAX => Some(limit),
            _ => None,
        }
    }

    /// Since when the server allows no stream, if it does not.
    pub(super) fn closed_since_ns(&self) -> Option<u64> {
        (self.admission == Admission::Concurrent(0)).then_some(self.closed_since_ns)
    }

    /// A request has waited for a stream for too long. The next one waits as long.
    pub(super) fn waits_again(&mut self, now_ns: u64) {
        self.closed_since_ns = now_ns;
    }

    /// Whether the server takes no more requests on this connection, and will close it.
    pub(super) fn is_closing(&self) -> bool {
        self.admission == Admission::Closed
    }

    /// Whether this side has to close the connection when it has its responses.
    pub(super) fn is_spent(&self) -> bool {
        self.admission == Admission::Spent
    }

    /// The requests without a response; they are forgotten.
    pub(super) fn take_stamps(&mut self) -> VecDeque<Stamp> {
        let stamps = self.streams.iter_mut().map(|stream| {
            stream.id = 0;
            stream.stamp
        });
        stamps.collect()
    }

    /// The requests without a response.
    pub(super) fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        self.streams.iter().map(|it| &it.stamp)
    }

    /// When the oldest outstanding request was sent.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.streams.iter().map(|it| it.stamp.sent_ns).min()
    }

    /// All requests are sent now.
    pub(super) fn restamp(&mut self, now_ns: u64) {
        for stream in self.streams.iter_mut() {
            stream.stamp.sent_ns = now_ns;
        }
    }

    /// Cancels the requests that were sent before this time.
    #[cold]
    pub(super) fn cancel_before(&mut self, sent_ns: u64) -> VecDeque<Stamp> {
        let late = self.streams.iter().filter(|it| it.stamp.sent_ns < sent_ns);
        let late: Vec<(u32, Stamp)> = late.map(|it| (it.id, it.stamp)).collect();
        for (stream, _) in &late {
            self.cancel(*stream, ErrorCode::CANCEL);
        }
        late.into_iter().map(|(_, stamp)| stamp).collect()
    }
}
