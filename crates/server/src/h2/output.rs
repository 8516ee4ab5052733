//! Sends what is ready: frames first, then content, as far as the windows allow it: one frame of each stream in turn, or in the order that the
//! client wants ([`super::priority`]).

use std::os::unix::fs::FileExt as _;

use net::memory::NoMemory;
use wire::h2::{ErrorCode, HEADER_BYTES, frame};

use super::handlers::{Handlers, guarded};
use super::start::Started;
use super::stream::{End, Stream};
use super::{H2, Reading};
use crate::app::{Abort, App, Pulled};
use crate::exchange::Progress;
use crate::link::{Broken, Fate, Turn, Unread};

/// Content that is put into frames before it is sent.
const BATCH_BYTES: usize = 65_536;
/// Content of one connection in one turn, before others have theirs.
const TURN_BYTES: usize = 1 << 20;
/// Bytes that an empty part counts as.
const EMPTY_PART_BYTES: usize = 1024;

/// What one stream could do in its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It has nothing to send now.
    Nothing,
    /// It sent something.
    Sent,
    /// There is no memory for more in the send buffer, which has to be sent first.
    Full,
}

impl H2 {
    /// Sends what is ready, continues with what that unblocks, and returns the fate of the connection.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let is_plain = self.streams.is_empty()
            && self.frames.is_empty()
            && !self.waits_for_turn
            && matches!(self.reading, Reading::Frames)
            && !self.leaving.is_final()
            && !turn.link.is_full();
        if !is_plain {
            return self.settle_streams(turn);
        }
        let context = &mut *turn.context;
        if context.responder.out.is_empty() {
            return self.fate(turn);
        }
        let now_ms = context.clock.now_ms();
        let (batch, out) = (&mut context.responder.batch, &mut context.responder.out);
        if batch.takes(turn.link.id, out, now_ms) {
            return Fate::Open;
        }
        match turn.link.flush(context, false) {
            Ok(()) => Fate::Open,
            Err(Broken) => Fate::Close,
        }
    }

    fn settle_streams<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let mut budget = TURN_BYTES;
        // There is more room also if a content has ended, or one with a greater limit has begun.
        self.give_withheld_windows(turn);
        // First, so that what they write has its turn among the streams.
        let mut started = self.start_ready(turn);
        loop {
            self.serve_websockets(turn);
            let has_more = self.emit(turn);
            let written = turn.context.responder.out.len();
            if written > 0 && turn.link.flush(turn.context, false) == Err(Broken) {
                return self.abandon(turn, Abort::Disconnected);
            }
            if turn.link.is_full() {
                return self.fate(turn);
            }
            budget = budget.saturating_sub(written);
            self.notify_writers(turn);
            let was_pulled = self.pull(turn, &mut budget);
            if started != Started::TurnUsed && budget > 0 {
                started = self.start_ready(turn);
            }
            let has_more = has_more
                || was_pulled
                || started != Started::Nothing
                || self.may_serve_websockets(turn.context);
            if !has_more && self.frames.is_empty() {
                return self.fate(turn);
            }
            let context = &mut *turn.context;
            if budget == 0
                || started == Started::TurnUsed
                || context.share.is_used_by_request(&mut context.clock)
            {
                return Fate::Again;
            }
        }
    }

    /// Sends what has been written as far as the socket accepts it. Everything else is left to the next turn.
    pub(crate) fn send_written<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            // What runs next detects a broken connection.
            let _ = turn.link.resume(turn.context, true);
        }
        let mut budget = TURN_BYTES;
        self.flush_websockets(turn);
        loop {
            let has_more = self.emit(turn);
            let written = turn.context.responder.out.len();
            if written > 0 {
                // What runs next detects a broken connection.
                let _ = turn.link.flush(turn.context, false);
            }
            budget = budget.saturating_sub(written);
            if !has_more || turn.link.is_full() || budget == 0 {
                return Fate::Again;
            }
        }
    }

    /// Moves frames and content to the send buffer. Returns true if more could be sent at once.
    pub(super) fn emit<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        self.out(turn);
        if turn.link.is_full() {
            self.update_paces(turn);
            return false;
        }
        let is_more = match self.priorities.are_used && self.streams.len() > 1 {
            true => self.emit_by_priority(turn),
            false => self.emit_in_turns(turn),
        };
        if !is_more {
            self.update_paces(turn);
        }
        is_more
    }

    /// Whether what is written has to be sent first.
    pub(super) fn is_batch_full<A: App>(&self, turn: &Turn<'_, A>) -> bool {
        turn.context.responder.out.len() >= BATCH_BYTES
    }

    /// Moves content of all streams to the send buffer, one frame of each in turn. Returns true if more could be sent at once.
    fn emit_in_turns<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let mut idle = 0;
        while idle < self.streams.len() {
            if self.is_batch_full(turn) {
                return true;
            }
            if self.turn_of >= self.streams.len() {
                self.turn_of = 0;
            }
            let index = self.turn_of;
            let before = self.streams.len();
            match self.emit_from(turn, index) {
                Step::Nothing => idle += 1,
                Step::Sent => idle = 0,
                Step::Full => return true,
            }
            // The next one has moved to the place of a stream that is over.
            if self.streams.len() == before {
                self.turn_of += 1;
            }
        }
        false
    }

    /// Sends at most one frame of a stream's content, and its end.
    pub(super) fn emit_from<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> Step {
        let bytes_max = self.client.payload_bytes_max;
        let window = self.send_window.available();
        let Some(stream) = self.streams.get_mut(index) else {
            return Step::Nothing;
        };
        let mut step = Step::Nothing;
        let room = window.min(stream.send_window.available()).min(bytes_max);
        let has_file = stream.unsent().is_empty() && stream.exchange.out.has_file();
        if has_file {
            if room > 0 {
                let room = room_in(&mut turn.context.responder.out, room);
                if room == 0 {
                    return self.lacks_room(turn, index);
                }
                step = self.emit_file(turn, index, room);
            }
        } else {
            let id = stream.id;
            let unsent = stream.unsent();
            let out = &mut turn.context.responder.out;
            let mut count = unsent.len().min(room);
            if count > 0 {
                count = room_in(out, count);
                if count == 0 {
                    return self.lacks_room(turn, index);
                }
                let part = unsent.get(..count).unwrap_or_default();
                let is_all = count == unsent.len();
                let start = out.len();
                frame::push_data(out, id, part, false);
                stream.note_sent(count);
                stream.send_window.use_up(count);
                self.send_window.use_up(count);
                self.flood.data_sent(count, is_all);
                self.priorities.sent_bytes += count as u64;
                stream.earn(count, &turn.context.timeouts, turn.context.clock.now_ms());
                if !stream.has_unsent() && stream.end() == End::Content {
                    set_last(out, start);
                    stream.encoding.has_ended = true;
                    stream.state.we_end();
                }
                step = Step::Sent;
            }
        }
        let is_empty = self.streams.get(index).is_some_and(|it| !it.has_unsent());
        match is_empty && self.emit_end(turn, index) {
            true => Step::Sent,
            false => step,
        }
    }

    /// There is no memory for a frame of a stream's content: it waits until the send buffer is sent, or the response is truncated.
    #[cold]
    fn lacks_room<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> Step {
        if !turn.context.responder.out.is_empty() {
            return Step::Full;
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return Step::Nothing;
        };
        let lost_bytes = stream.unsent().len();
        stream.note_sent(lost_bytes);
        turn.context.note_shortage(lost_bytes);
        let (id, is_ended) = (stream.exchange.id, stream.exchange.is_ended());
        stream.exchange.cut();
        if !is_ended && !self.is_carried(index) {
            self.handlers.abort(turn, id, Abort::Refused);
        }
        Step::Sent
    }

    /// Writes what follows the content. Returns true if there was something, or the stream is over.
    fn emit_end<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> bool {
        let bytes_max = self.client.payload_bytes_max;
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        let out = &mut turn.context.responder.out;
        match stream.end() {
            End::Open => return false,
            End::Content => frame::push_data(out, stream.id, b"", true),
            End::Trailers => stream.push_trailers(out, &mut self.encoder, bytes_max),
            End::Reset => {
                frame::push_reset(out, stream.id, ErrorCode::INTERNAL_ERROR);
                self.forget(turn, index);
                return true;
            }
            End::Sent if !stream.exchange.is_ended() => return false,
            End::Sent => {}
        }
        stream.encoding.has_ended = true;
        stream.state.we_end();
        self.response_was_sent(turn, index)
    }

    /// The whole response is sent: the rest of the request's content is discarded. Returns true if the stream is over.
    fn response_was_sent<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> bool {
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        let record = std::mem::take(&mut stream.exchange.record);
        turn.context.complete(record);
        self.release_content(turn, index);
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        if let Some(inbound) = &mut stream.inbound {
            if !inbound.is_complete && stream.receive_window.is_open() {
                inbound.response_was_sent(turn.context);
                return false;
            }
            if !inbound.is_complete {
                // The client waits for a window that will not be opened (RFC 9113 section 8.1).
                frame::push_reset(
                    &mut turn.context.responder.out,
                    stream.id,
                    ErrorCode::NO_ERROR,
                );
                self.remember_reset(index);
            }
        }
        self.end_carried(turn, index);
        self.remove(turn, index);
        true
    }

    /// Reads a part of a file into a frame.
    fn emit_file<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, room: usize) -> Step {
        let Some(stream) = self.streams.get_mut(index) else {
            return Step::Nothing;
        };
        let Some(part) = stream.exchange.out.file() else {
            return Step::Nothing;
        };
        let count = room.min(usize::try_from(part.length).unwrap_or(usize::MAX));
        let out = &mut turn.context.responder.out;
        let start = out.len();
        frame::push_data_header(out, stream.id, count, false);
        out.resize(start + HEADER_BYTES + count, 0);
        let place = out.get_mut(start + HEADER_BYTES..).unwrap_or_default();
        let (file, offset) = (&part.file, part.offset);
        let is_read = turn
            .app
            .step_back(|| file.read_exact_at(place, offset))
            .is_ok();
        if !is_read {
            out.truncate(start);
            return self.cut_short_file(turn, index);
        }
        part.offset += count as u64;
        part.length -= count as u64;
        let is_all = part.length == 0;
        if is_all {
            stream.exchange.out.end_file();
        }
        stream.send_window.use_up(count);
        self.send_window.use_up(count);
        self.flood.data_sent(count, is_all);
        self.priorities.sent_bytes += count as u64;
        stream.earn(count, &turn.context.timeouts, turn.context.clock.now_ms());
        stream.exchange.record.add_content(count as u64);
        Step::Sent
    }

    #[cold]
    fn cut_short_file<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> Step {
        let Some(stream) = self.streams.get_mut(index) else {
            return Step::Nothing;
        };
        let exchange = &mut stream.exchange;
        let is_ended = exchange.is_ended();
        if let Some(part) = exchange.out.file() {
            let _ = guarded(|| turn.app.file_was_short(exchange.id, part));
        }
        exchange.cut();
        if !is_ended {
            let id = exchange.id;
            self.handlers.abort(turn, id, Abort::Disconnected);
        }
        Step::Sent
    }

    /// The time of a peer that keeps windows closed runs, also while its socket is full.
    fn update_paces<A: App>(&mut self, turn: &Turn<'_, A>) {
        let (timeouts, now_ms) = (&turn.context.timeouts, turn.now_ms());
        let window = self.send_window;
        let sent_bytes = std::mem::take(&mut self.priorities.sent_bytes);
        for stream in &mut self.streams {
            if self.priorities.are_used {
                stream.earn_by_others(sent_bytes, timeouts, now_ms);
            }
            stream.update_pace(window, timeouts, now_ms);
        }
    }

    /// Notifies handlers, and WebSockets that close, that everything they wrote has been sent.
    fn notify_writers<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        for index in 0..self.streams.len() {
            let Some(stream) = self.streams.get_mut(index) else {
                return;
            };
            stream.websocket_was_sent(turn.context);
            let exchange = &stream.exchange;
            let is_writer = matches!(exchange.progress, Progress::Waiting | Progress::Pushed);
            if !is_writer || !exchange.awaits_writable || stream.has_unsent() {
                continue;
            }
            let exchange = &mut stream.exchange;
            exchange.awaits_writable = false;
            if guarded(|| turn.app.writable(exchange.id)).is_none() {
                self.handler_panicked(turn, index);
            }
        }
    }

    /// Asks the application for parts of responses that it streams, where none waits. Returns true if there was one.
    ///
    /// A closed window does not prevent that: the end needs none, and one part waits for the window, which has a deadline.
    fn pull<A: App>(&mut self, turn: &mut Turn<'_, A>, budget: &mut usize) -> bool {
        let mut was_pulled = false;
        let count = self.streams.len();
        let first = self.pull_of;
        let only = self.pulled_first();
        for index in (first..count).chain(0..first.min(count)) {
            let Some(stream) = self.streams.get_mut(index) else {
                continue;
            };
            if !stream.wants_part() || only.is_some_and(|only| !only.includes(stream)) {
                continue;
            }
            was_pulled = true;
            pull_from(stream, turn, &mut self.handlers, budget);
            let context = &mut *turn.context;
            if *budget == 0 || context.share.is_used_by_request(&mut context.clock) {
                // The next one is first in the next turn.
                *budget = 0;
                self.pull_of = index + 1;
                break;
            }
        }
        was_pulled
    }

    /// The fate of a connection that can do no more now.
    fn fate<A: App>(&mut self, turn: &Turn<'_, A>) -> Fate {
        if self.waits_for_turn {
            return Fate::Again;
        }
        if turn.link.is_full() {
            return Fate::Open;
        }
        match self.reading {
            Reading::Closing if self.streams.is_empty() => Fate::End(Unread::Some),
            Reading::Frames | Reading::Block(_)
                if self.streams.is_empty() && self.leaving.is_final() =>
            {
                // A request may be under way to meet the last GOAWAY, and must not destroy it.
                Fate::End(Unread::Some)
            }
            // A client that has not sent its settings has not asked for anything.
            Reading::Preface | Reading::Settings if self.leaving.is_final() => {
                Fate::End(Unread::Some)
            }
            _ => Fate::Open,
        }
    }

    /// Removes the record of a stream that is over.
    pub(super) fn remove<A: App>(&mut self, turn: &Turn<'_, A>, index: usize) {
        if index < self.streams.len() {
            self.streams.remove(index);
        }
        if self.streams.is_empty() {
            // The time for the next request starts.
            self.idle_since_ms = turn.now_ms();
            (self.turn_of, self.pull_of) = (0, 0);
            if self.streams.capacity() > 4 {
                self.streams = Vec::new();
            }
        }
    }
}

/// How much of a frame's payload there is memory for.
fn room_in(out: &mut Vec<u8>, bytes: usize) -> usize {
    match net::memory::reserve(out, HEADER_BYTES + bytes) {
        Ok(()) => bytes,
        Err(NoMemory(_)) => {
            let left = out.capacity() - out.len();
            left.saturating_sub(HEADER_BYTES).min(bytes)
        }
    }
}

/// Asks the application for the next part of one response.
fn pull_from<A: App>(
    stream: &mut Stream,
    turn: &mut Turn<'_, A>,
    handlers: &mut Handlers,
    budget: &mut usize,
) {
    // The application may take any amount of time.
    turn.context.responder.batch.send_now();
    let id = stream.exchange.id;
    let mut part = Vec::new();
    while part.is_empty() {
        let pulled = guarded(|| turn.app.pull(id, &mut part)).unwrap_or_else(|| {
            handlers.abort(turn, id, Abort::Refused);
            Pulled::Failed
        });
        turn.context.metrics.call_ended(); // its time is not the next request's
        match pulled {
            // Parts may be empty, but not without end while others wait for their turns.
            Pulled::More if part.is_empty() => {
                let context = &mut *turn.context;
                *budget = budget.saturating_sub(EMPTY_PART_BYTES);
                if *budget == 0 || context.share.is_used_by_request(&mut context.clock) {
                    *budget = 0;
                    return;
                }
            }
            Pulled::More => {}
            Pulled::End => {
                add_part(stream, turn, handlers, part);
                stream.exchange.progress = match stream.encoding.delimiter {
                    crate::responder::Delimiter::Length(1..) => Progress::Cut,
                    _ => Progress::Done,
                };
                return;
            }
            Pulled::Failed => {
                stream.exchange.cut();
                return;
            }
        }
    }
    *budget = budget.saturating_sub(part.len());
    add_part(stream, turn, handlers, part);
}

fn add_part<A: App>(
    stream: &mut Stream,
    turn: &mut Turn<'_, A>,
    handlers: &mut Handlers,
    part: Vec<u8>,
) {
    if part.is_empty() {
        return;
    }
    let tail = stream.exchange.out.tail();
    if let Err(NoMemory(bytes)) = net::memory::reserve(tail, part.len()) {
        turn.context.note_shortage(bytes);
        handlers.abort(turn, stream.exchange.id, Abort::Refused);
        stream.exchange.cut();
        return;
    }
    let before = tail.len();
    stream.encoding.delimiter.push_part(tail, &part);
    let added = tail.len() - before;
    stream.exchange.record.add_content(added as u64);
}

/// Marks the frame at `start` as the last of its stream.
fn set_last(out: &mut [u8], start: usize) {
    const FLAGS: usize = 4;
    const END_STREAM: u8 = 1;
    if let Some(flags) = out.get_mut(start + FLAGS) {
        *flags |= END_STREAM;
    }
}
