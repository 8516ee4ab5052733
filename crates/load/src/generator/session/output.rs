//! What one connection sends.

use wire::h2::frame::{
    push_data, push_goaway, push_headers, push_reset, push_settings, push_window_update,
};
use wire::h2::{
    ErrorCode, FRAME_BYTES_MAX, Frame, PREFACE, Parsed, ReceiveWindow, SendWindow, parse, settings,
};

use super::super::checker::Response;
use super::super::connection::Stamp;
use super::{Admission, CANCELLED_MAX, Job, STREAM_LAST, Session, WINDOW_BYTES};

/// How much content waits for the socket.
const OUT_BYTES_MAX: usize = 128 * 1024;
/// More memory is freed when everything is sent.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// What a client sends first.
pub(super) fn preface() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    let values = [
        (settings::ENABLE_PUSH, 0),
        (settings::INITIAL_WINDOW_SIZE, WINDOW_BYTES),
    ];
    push_settings(&mut out, &values);
    push_window_update(&mut out, 0, WINDOW_BYTES - settings::WINDOW_BYTES);
    out
}

impl Session {
    /// The bytes that the socket has not accepted.
    #[inline]
    pub(in super::super) fn unsent(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// The socket has accepted more bytes. Returns whether there is more to send now.
    #[inline]
    pub(in super::super) fn note_sent(&mut self, count: usize, job: Job<'_>) -> bool {
        self.sent += count;
        if self.sent < self.out.len() {
            return true;
        }
        self.out.clear();
        self.sent = 0;
        if !self.writing.is_empty() {
            self.write_content(job);
        } else if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = Vec::new();
        }
        !self.out.is_empty()
    }

    /// Writes a request on a stream of its own; its content as far as the windows allow.
    #[inline]
    pub(in super::super) fn open(&mut self, stamp: Stamp, job: Job<'_>) {
        let kind = match job.mix.is_uniform() {
            true => 0,
            false => job.mix.kind(stamp.position),
        };
        let id = self.next_stream;
        self.next_stream += 2;
        if id >= STREAM_LAST {
            self.admission = Admission::Spent;
        }
        let has_content = !job.requests.content(kind).is_empty();
        if let Some(stream) = self.streams.open(id) {
            stream.stamp = stamp;
            stream.response = Response::new();
            stream.written = 0;
            stream.is_writing = has_content;
            stream.window = SendWindow::new(self.stream_window);
            stream.received = ReceiveWindow::new(WINDOW_BYTES);
        }
        let block = self.blocks.next(job.requests, kind);
        push_headers(&mut self.out, id, !has_content, FRAME_BYTES_MAX, |out| {
            out.extend_from_slice(block);
        });
        if has_content {
            self.writing.push_back(id);
            self.write_content(job);
        }
    }

    /// Writes content: of each stream a frame in turn, as far as the windows allow, and no more than the socket will soon accept.
    pub(super) fn write_content(&mut self, job: Job<'_>) {
        let mut blocked = 0;
        while blocked < self.writing.len() && self.out.len() - self.sent < OUT_BYTES_MAX {
            let Some(id) = self.writing.pop_front() else {
                return;
            };
            match self.write_frame(id, job) {
                Written::All => {}
                Written::Part => {
                    blocked = 0;
                    self.writing.push_back(id);
                }
                Written::Nothing => {
                    blocked += 1;
                    self.writing.push_back(id);
                }
            }
        }
    }

    fn write_frame(&mut self, id: u32, job: Job<'_>) -> Written {
        let Some(stream) = self.streams.get(id) else {
            return Written::All;
        };
        let content = job.requests.content(job.mix.kind(stream.stamp.position));
        let rest = content.get(stream.written..).unwrap_or_default();
        let room = self.window.available().min(stream.window.available());
        let length = rest.len().min(room).min(FRAME_BYTES_MAX);
        if length == 0 {
            return Written::Nothing;
        }
        let is_last = length == rest.len();
        let part = rest.get(..length).unwrap_or_default();
        push_data(&mut self.out, id, part, is_last);
        self.window.use_up(length);
        stream.window.use_up(length);
        stream.written += length;
        stream.is_writing = !is_last;
        match is_last {
            true => Written::All,
            false => Written::Part,
        }
    }

    /// Ends a stream from this side. Frames that the server has sent before it learns of that are ignored.
    #[cold]
    pub(super) fn cancel(&mut self, id: u32, code: ErrorCode) {
        push_reset(&mut self.out, id, code);
        self.forget(id);
        self.cancelled.push(id);
        if self.cancelled.len() > CANCELLED_MAX && self.admission != Admission::Closed {
            self.admission = Admission::Spent;
        }
    }

    /// A stream has ended before its messages.
    #[cold]
    pub(super) fn forget(&mut self, id: u32) {
        let is_writing = self.streams.get(id).is_some_and(|it| it.is_writing);
        self.abandoned += u32::from(is_writing);
        self.streams.close(id);
    }

    /// Ends the connection with GOAWAY, unless that was done.
    #[cold]
    pub(in super::super) fn leave(&mut self, code: ErrorCode) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        self.admission = Admission::Spent;
        push_goaway(&mut self.out, 0, code, "");
    }

    /// How many requests were begun and are not completely sent.
    pub(in super::super) fn incomplete(&self) -> u32 {
        let writing = self.streams.iter().filter(|it| it.is_writing).count();
        let mut ends = self.abandoned;
        let mut at = 0;
        while at < self.out.len() && self.sent < self.out.len() {
            at += match self.out.get(at..) {
                // The preface is no frame.
                Some(rest) if rest.starts_with(PREFACE) => PREFACE.len(),
                Some(rest) => match parse(rest, FRAME_BYTES_MAX) {
                    Ok(Parsed::Frame(frame, used)) => {
                        ends += u32::from(ends_request(&frame) && at + used > self.sent);
                        used
                    }
                    _ => break,
                },
                None => break,
            };
        }
        writing as u32 + ends
    }
}

/// Whether the frame is the last of a request. A header block in several frames is taken for sent with the first.
fn ends_request(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::Headers { is_last: true, .. } | Frame::Data { is_last: true, .. }
    )
}

/// How much of a stream's content was written.
enum Written {
    /// All that was left.
    All,
    /// A frame.
    Part,
    /// No window has room.
    Nothing,
}
