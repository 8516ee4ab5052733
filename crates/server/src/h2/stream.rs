//! A stream whose request or response is not complete, and how its response is encoded.
//!
//! Header blocks are written to the connection's frames when the application responds, because the order of their encoding is that of their
//! sending (RFC 7541 2.2). Content waits in the exchange's output and becomes DATA when the windows allow it.

use net::memory::{NoMemory, copy, reserve};
use wire::h2::{Encoder as HeaderEncoder, Priority, ReceiveWindow, SendWindow, State, frame};

use super::websocket::Carried;
use crate::context::MOVED_BYTES_MIN;
use crate::exchange::content::Inbound;
use crate::exchange::output::{Output, reserve_for_parts};
use crate::exchange::{Encoder, Exchange, Progress};
use crate::mailbox::Command;
use crate::pace::Pace;
use crate::responder::{Delimiter, Fields, Responder};
use crate::response::{FilePart, NO_MEMORY, Response};
use crate::timeouts::Timeouts;

/// Upper bound of a header block's length without its fields.
const BLOCK_BYTES: usize = 512;

/// A stream that is not closed.
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) priority: Priority,
    /// Some of its content was sent since its pace was updated.
    has_sent: bool,
    pub(super) exchange: Exchange,
    pub(super) encoding: Encoding,
    /// The request's content, until it is complete and taken.
    pub(super) inbound: Option<Box<Inbound>>,
    /// What is left of the announced length of the request's content.
    pub(super) owed_bytes: Option<u64>,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// Content taken from the output, of which `sent_bytes` are sent.
    chunk: Vec<u8>,
    sent_bytes: usize,
    /// The peer's time to open a window that is closed; it runs while content waits for that.
    pub(super) pace: Option<Box<Pace>>,
    /// A WebSocket, or the handshake of one.
    pub(super) carried: Option<Box<Carried>>,
}

/// How a response is encoded.
pub(super) struct Encoding {
    pub(super) is_head: bool,
    pub(super) delimiter: Delimiter,
    /// Sent after the content.
    trailers: Vec<u8>,
    /// END_STREAM is written.
    pub(super) has_ended: bool,
}

/// What has to be sent after the content of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Nothing yet.
    Open,
    /// END_STREAM.
    Content,
    /// The trailer section.
    Trailers,
    /// RST_STREAM: the response is truncated.
    Reset,
    /// Nothing any more.
    Sent,
}

impl Stream {
    pub(super) fn new(
        id: u32,
        state: State,
        exchange: Exchange,
        encoding: Encoding,
        windows: (SendWindow, ReceiveWindow),
    ) -> Stream {
        Stream {
            id,
            state,
            priority: Priority::default(),
            has_sent: false,
            exchange,
            encoding,
            inbound: None,
            owed_bytes: None,
            send_window: windows.0,
            receive_window: windows.1,
            chunk: Vec::new(),
            sent_bytes: 0,
            pace: None,
            carried: None,
        }
    }

    /// Content in memory that is ready to be sent.
    pub(super) fn unsent(&mut self) -> &[u8] {
        if self.sent_bytes >= self.chunk.len() {
            self.chunk = self.exchange.out.take_bytes();
            self.sent_bytes = 0;
        }
        self.chunk.get(self.sent_bytes..).unwrap_or_default()
    }

    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        if self.sent_bytes >= self.chunk.len() {
            self.chunk = Vec::new();
            self.sent_bytes = 0;
        }
    }

    /// Drops content that waits, except what `keep` finds in the content that was taken last, of which so much was sent: from where to where. If it
    /// finds nothing, all is kept.
    #[cold]
    pub(super) fn keep_output(
        &mut self,
        keep: impl FnOnce(&[u8], usize) -> Option<(usize, usize)>,
    ) {
        let Some((start, end)) = keep(&self.chunk, self.sent_bytes) else {
            return;
        };
        self.exchange.out = Output::default();
        match copy(self.chunk.get(start..end).unwrap_or_default()) {
            Ok(kept) => (self.chunk, self.sent_bytes) = (kept, self.sent_bytes - start),
            // It needs no memory of its own.
            Err(_) => self.chunk.truncate(end),
        }
    }

    /// Whether content waits to be sent, in memory or in a file.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent_bytes < self.chunk.len() || !self.exchange.out.is_empty()
    }

    /// How much content waits in memory.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.chunk.len() - self.sent_bytes + self.exchange.out.waiting_bytes()
    }

    /// Memory of content that waits.
    pub(super) fn output_bytes(&self) -> usize {
        self.chunk.capacity() + self.exchange.out.held_bytes()
    }

    /// Whether its request waits to be started.
    pub(super) fn is_ready(&self) -> bool {
        self.inbound.as_ref().is_some_and(|it| it.is_ready())
    }

    /// Whether the application is to be asked for the next part of its response.
    pub(super) fn wants_part(&self) -> bool {
        self.exchange.progress == Progress::Pulled && !self.has_unsent()
    }

    /// What follows the content that is written. Only if nothing of it is unsent.
    pub(super) fn end(&self) -> End {
        match self.exchange.progress {
            _ if self.encoding.has_ended => End::Sent,
            Progress::Waiting | Progress::Pushed | Progress::Pulled => End::Open,
            Progress::Cut => End::Reset,
            Progress::Done if self.encoding.trailers.is_empty() => End::Content,
            Progress::Done => End::Trailers,
        }
    }

    /// Writes the trailer section.
    pub(super) fn push_trailers(
        &mut self,
        out: &mut Vec<u8>,
        encoder: &mut HeaderEncoder,
        payload_bytes_max: usize,
    ) {
        let trailers = std::mem::take(&mut self.encoding.trailers);
        frame::push_headers(out, self.id, true, payload_bytes_max, |out| {
            encoder.trailers(&trailers, out);
        });
    }

    /// Runs the peer's time while a window is closed, and stops it while content could be sent.
    pub(super) fn update_pace(&mut self, window: SendWindow, timeouts: &Timeouts, now_ms: u64) {
        let is_blocked = window.available() == 0 || self.send_window.available() == 0;
        if !self.has_unsent() {
            self.pace = None;
            return;
        }
        match (is_blocked, &mut self.pace) {
            (false, None) => {}
            (false, Some(pace)) => pace.pause(now_ms),
            (true, Some(pace)) => pace.run(now_ms),
            (true, None) => {
                if let Some(rule) = timeouts.response_rule() {
                    let mut pace = Pace::new(rule.pause_ms_max);
                    pace.run(now_ms);
                    self.pace = Some(Box::new(pace));
                }
            }
        }
    }

    /// The connection's window allowed `bytes` of streams that have priority over this one to be sent. If it has sent nothing itself because it
    /// waits for them, its peer is not slow.
    pub(super) fn earn_by_others(&mut self, bytes: u64, timeouts: &Timeouts, now_ms: u64) {
        let has_sent = std::mem::take(&mut self.has_sent);
        if !has_sent
            && self.send_window.available() > 0
            && let (Some(pace), Some(rule)) = (&mut self.pace, timeouts.response_rule())
        {
            pace.earn(bytes, rule, now_ms);
        }
    }

    /// The peer's windows allowed `bytes` to be sent.
    pub(super) fn earn(&mut self, bytes: usize, timeouts: &Timeouts, now_ms: u64) {
        self.has_sent = true;
        if let (Some(pace), Some(rule)) = (&mut self.pace, timeouts.response_rule()) {
            pace.earn(bytes as u64, rule, now_ms);
        }
    }

    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let inbound = self.inbound.as_ref().map_or(0, |it| it.held_bytes());
        let pace = self.pace.as_ref().map_or(0, |_| size_of::<Pace>());
        let encoding = self.encoding.trailers.capacity();
        let carried = self.carried.as_ref().map_or(0, |it| it.held_bytes());
        carried + self.exchange.held_bytes() + self.chunk.capacity() + inbound + pace + encoding
    }

    /// Reserves memory for what a command writes.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn make_room(
        &mut self,
        command: &Command,
        frames: &mut Vec<u8>,
    ) -> Result<(), NoMemory> {
        match (command, self.exchange.progress) {
            (Command::Respond(response), Progress::Waiting) => {
                reserve(frames, response.fields.len() + BLOCK_BYTES)?;
                reserve(self.exchange.out.tail(), response.content.len())
            }
            (Command::Write(part), Progress::Pushed) => {
                let tail = self.exchange.out.tail();
                match moves(part.len(), tail.is_empty()) {
                    true => Ok(()),
                    false => reserve(tail, part.len()),
                }
            }
            (Command::WriteHeld(part), Progress::Pushed) => {
                reserve_for_parts(self.exchange.out.tail(), part.bytes().len())
            }
            _ => Ok(()),
        }
    }

    /// What happens instead of a command that there is no memory for.
    #[cold]
    pub(super) fn without_memory(&self) -> Command {
        match self.exchange.progress {
            Progress::Waiting => Command::Respond(Response::error(503, NO_MEMORY)),
            _ => Command::Fail,
        }
    }
}

/// Whether a part becomes the output itself, without a copy: a long one that nothing precedes (`is_first`).
fn moves(bytes: usize, is_first: bool) -> bool {
    is_first && bytes >= MOVED_BYTES_MIN
}

impl Encoding {
    pub(super) fn new(is_head: bool) -> Encoding {
        Encoding {
            is_head,
            delimiter: Delimiter::Frames,
            trailers: Vec::new(),
            has_ended: false,
        }
    }
}

/// What writes the parts of one stream's response.
pub(super) struct StreamEncoder<'a> {
    pub(super) stream: u32,
    pub(super) encoding: &'a mut Encoding,
    pub(super) encoder: &'a mut HeaderEncoder,
    /// The connection's frames.
    pub(super) frames: &'a mut Vec<u8>,
    pub(super) payload_bytes_max: usize,
}

impl StreamEncoder<'_> {
    fn head(
        &mut self,
        responder: &Responder,
        response: &Response,
        length: Option<u64>,
        is_last: bool,
    ) {
        let fields = Fields::of_application(&response.fields);
        let sections = responder.stamp.sections(fields);
        let encoder = &mut *self.encoder;
        let bytes_max = self.payload_bytes_max;
        frame::push_headers(self.frames, self.stream, is_last, bytes_max, |out| {
            encoder.response(response.status, &sections, length, out);
        });
        self.encoding.has_ended = is_last;
    }
}

impl Encoder for StreamEncoder<'_> {
    /// 101 is not used in HTTP/2 (RFC 9113 section 8.6).
    fn inform(&mut self, _: &mut Output, status: u16, field_section: &[u8]) {
        if !matches!(status, 100 | 102..=199) {
            return;
        }
        let encoder = &mut *self.encoder;
        let bytes_max = self.payload_bytes_max;
        frame::push_headers(self.frames, self.stream, false, bytes_max, |out| {
            encoder.response(status, &[field_section], None, out);
        });
    }

    fn respond(&mut self, out: &mut Output, responder: &mut Responder, response: &Response) -> u64 {
        let may_have = wire::may_generate_content(response.status);
        let length = if may_have { response.content.len() } else { 0 };
        let announced = wire::has_content(response.status).then_some(length as u64);
        let is_last = length == 0 || self.encoding.is_head;
        self.head(responder, response, announced, is_last);
        if is_last {
            return 0;
        }
        out.tail().extend_from_slice(&response.content);
        length as u64
    }

    fn begin(&mut self, _: &mut Output, responder: &mut Responder, response: &Response) -> bool {
        let may_have = wire::may_generate_content(response.status) && !self.encoding.is_head;
        let length = match response.status {
            205 => Some(0),
            status if wire::has_content(status) || status == 304 => response.length,
            _ => None,
        };
        if let Some(length) = length {
            self.encoding.delimiter = Delimiter::Length(length);
        }
        self.head(responder, response, length, !may_have);
        may_have
    }

    fn drop_parts(&mut self) {
        self.encoding.delimiter = Delimiter::Length(0);
    }

    fn part(&mut self, out: &mut Output, part: &[u8]) {
        self.encoding.delimiter.push_part(out.tail(), part);
    }

    fn take_part(&mut self, out: &mut Output, mut part: Vec<u8>) {
        if !moves(part.len(), out.tail().is_empty()) {
            return self.part(out, &part);
        }
        let admitted = self.encoding.delimiter.admit(part.len() as u64);
        part.truncate(admitted as usize);
        *out.tail() = part;
    }

    fn file(&mut self, out: &mut Output, mut part: FilePart) {
        part.length = self.encoding.delimiter.admit(part.length);
        if part.length > 0 {
            out.push_file(part);
        }
    }

    fn finish(&mut self, _: &mut Output, trailer_section: &[u8]) -> bool {
        if !self.encoding.has_ended {
            self.encoding.trailers = trailer_section.to_vec();
        }
        !matches!(self.encoding.delimiter, Delimiter::Length(1..)) || self.encoding.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ExchangeId;

    const LONG: usize = MOVED_BYTES_MIN;

    fn stream() -> Stream {
        let id = ExchangeId {
            connection: 0,
            sequence: 0,
        };
        let windows = (SendWindow::new(0), ReceiveWindow::new(0));
        let mut exchange = Exchange::new(id, 0, 0);
        exchange.progress = Progress::Pushed;
        Stream::new(1, State::Open, exchange, Encoding::new(false), windows)
    }

    fn write(stream: &mut Stream, part: Vec<u8>) -> Result<(), NoMemory> {
        let command = Command::Write(part);
        stream.make_room(&command, &mut Vec::new())
    }

    #[test]
    fn a_long_part_has_room_after_others_and_needs_none_before_them() {
        let mut stream = stream();
        assert_eq!(write(&mut stream, vec![b'x'; LONG]), Ok(()));
        assert_eq!(stream.exchange.out.tail().capacity(), 0);
        stream.exchange.out.tail().extend_from_slice(b"before");
        assert_eq!(write(&mut stream, vec![b'x'; LONG]), Ok(()));
        assert!(stream.exchange.out.tail().capacity() >= 6 + LONG);
    }
}
