//! One connection's exchange: sends its batches, receives the responses, and decides what follows.

use std::io;

use net::{Interest, Received, Sent, precise_ns};

use super::super::checker::{Step, Verdict};
use super::super::connection::{Exchange, Stage};
use super::super::error::ErrorClass;
use super::LoadThread;

/// How often one connection is read before the others get a turn: a server may send faster than its bytes are checked.
const READS_MAX: u32 = 4;
/// An incomplete head longer than this counts as malformed.
pub(super) const EARLY_BYTES_MAX: usize = 64 * 1024;

impl LoadThread {
    /// The socket is writable: the connection is established, or has room for more of the batch.
    pub(super) fn writable(&mut self, index: usize) {
        if self.tls.is_some() && !self.flush_records(index) {
            return;
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let has_unsent = !connection.unsent(self.common.job()).is_empty();
        if connection.is_established && !has_unsent {
            return;
        }
        self.now_ns = precise_ns();
        if has_unsent {
            // With persistent connections, the latency of a first batch does not include the connect.
            if self.common.plan.is_persistent {
                connection.restamp(self.common.job(), self.now_ns);
            }
            self.flush(index);
        } else {
            self.established(index);
            self.send_late(index);
        }
    }

    /// Sends the rest of the batch.
    #[inline]
    pub(super) fn flush(&mut self, index: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let Some(socket) = &connection.socket else {
                return;
            };
            let job = self.common.job();
            let unsent = connection.unsent(job);
            match socket.send(unsent) {
                Sent::Bytes(count) => {
                    let is_full = count < unsent.len() || socket.owes();
                    let is_more = connection.note_sent(count, job);
                    if count > 0 && !connection.is_established {
                        self.established(index);
                    }
                    if is_full {
                        self.watch_write(index);
                    }
                    if !is_more {
                        return self.list(index);
                    }
                    if is_full {
                        return;
                    }
                }
                Sent::Broken(error) => return self.receive_last(index, &error),
            }
        }
    }

    /// The connection is broken. A server that has closed may have sent responses before, which count.
    #[cold]
    fn receive_last(&mut self, index: usize, error: &io::Error) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        if connection.broken.is_some() {
            return; // What is being read has asked for more to be sent.
        }
        match connection.stage {
            Stage::Ending { .. } => self.finish(index),
            _ => {
                self.note_break(index, error);
                self.receive(index, true);
            }
        }
    }

    /// The socket is full: the poller reports when it no longer is.
    #[cold]
    fn watch_write(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.is_write_watched {
            return;
        }
        connection.is_write_watched = true;
        let Some(socket) = &connection.socket else {
            return;
        };
        let both = Interest {
            write: true,
            ..Interest::READ
        };
        if self.poller.modify_edge(socket, index as u64, both).is_err() {
            self.fail(index, ErrorClass::Connect);
        }
    }

    /// Reads what is available. The poller reports changes only, so this continues while there may be more, or records that it did not.
    pub(super) fn receive(&mut self, index: usize, has_ended: bool) {
        for _ in 0..READS_MAX {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let Some(socket) = &connection.socket else {
                return;
            };
            let kept = connection.early.len();
            let Some(free) = self.buffer.get_mut(kept..) else {
                return self.fail(index, ErrorClass::Malformed);
            };
            let room = free.len();
            let received = socket.receive(free);
            let is_more = self.tls.is_some() && self.take_note(index, &received);
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            match received {
                Received::Bytes(count) => {
                    if let Some(front) = self.buffer.get_mut(..kept) {
                        front.copy_from_slice(&connection.early);
                        connection.early.clear();
                    }
                    self.check(index, count, kept + count);
                    if count < room && !has_ended && !is_more {
                        return;
                    }
                }
                Received::Blocked if is_more => {}
                Received::Blocked if connection.broken.is_some() => return self.cut(index),
                Received::Blocked => return,
                Received::End => return self.end(index),
                Received::Broken(error) => return self.break_off(index, &error),
            }
        }
        self.unread.push((index, has_ended));
    }

    /// Checks the first `length` bytes of the buffer, of which `received` are new, and continues accordingly.
    fn check(&mut self, index: usize, received: usize, length: usize) {
        self.now_ns = precise_ns();
        self.tally.run_bytes += received as u64;
        if self.now_ns >= self.tally.start_ns && !self.tally.is_too_late(self.now_ns) {
            self.tally.bytes += received as u64;
        }
        let mut at = 0;
        while at < length {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let pipeline = match &mut connection.exchange {
                Exchange::Pipeline(pipeline) => pipeline,
                Exchange::Session(_) => return self.check_frames(index, length),
                Exchange::Channel(_) => return self.check_messages(index, length),
            };
            let wanted = connection.outstanding;
            if wanted == 0 {
                return self.unexpected_bytes(index);
            }
            let data = self.buffer.get(at..length).unwrap_or_default();
            let mix = &self.common.mix;
            let complete = pipeline.batch.complete(mix, wanted);
            let (kind, wanted_alike) = match mix.is_uniform() {
                true => (0, complete.max(1)),
                false => (mix.kind(pipeline.batch.position()), 1),
            };
            let step = self
                .checker
                .next(&mut pipeline.response, kind, data, wanted_alike);
            match step {
                Step::Responses(verdict) => {
                    at += verdict.consumed;
                    if complete == 0 {
                        return self.record_early(index, &verdict);
                    }
                    let is_last = verdict.closes || verdict.count == wanted;
                    if is_last && at < length {
                        self.record_with_unexpected(index, &verdict);
                        return self.finish(index);
                    }
                    self.record(index, &verdict);
                    if verdict.closes {
                        return self.await_end(index, verdict.error.is_none());
                    }
                }
                Step::Part(used) => {
                    let rest = data.get(used..).unwrap_or_default();
                    if rest.len() > EARLY_BYTES_MAX {
                        return self.fail(index, ErrorClass::Malformed);
                    }
                    connection.early.extend_from_slice(rest);
                    return;
                }
                Step::Malformed => return self.fail(index, ErrorClass::Malformed),
            }
        }
        self.proceed(index);
    }

    /// Records verdicts about a connection's oldest requests.
    #[inline]
    pub(super) fn record(&mut self, index: usize, verdict: &Verdict) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let batch = match &mut connection.exchange {
            Exchange::Pipeline(pipeline) => &mut pipeline.batch,
            Exchange::Channel(channel) => &mut channel.batch,
            Exchange::Session(_) => return,
        };
        connection.outstanding -= verdict.count;
        self.under_way -= u64::from(verdict.count);
        connection.served += self.tally.record(&mut batch.stamps, verdict, self.now_ns);
        if !connection.has_responded {
            self.note_first(index);
        }
    }

    /// The first response on this connection: the next connection may be opened.
    pub(super) fn note_first(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.stage = Stage::Open;
        connection.has_responded = true;
        self.pace.responded += 1;
        if connection.is_new {
            self.settle(index);
            self.fill();
        }
    }

    /// Like [`LoadThread::record`], for a response to a request that is not completely sent. Its rest cannot be left out, so the connection
    /// ends.
    #[cold]
    fn record_early(&mut self, index: usize, verdict: &Verdict) {
        let early = Verdict {
            error: verdict.error.or(Some(ErrorClass::EarlyResponse)),
            ..*verdict
        };
        self.record(index, &early);
        self.finish(index);
    }

    /// Like [`LoadThread::record`], when unexpected bytes follow the last response.
    #[cold]
    fn record_with_unexpected(&mut self, index: usize, verdict: &Verdict) {
        let unexpected = Verdict {
            error: verdict.error.or(Some(ErrorClass::UnexpectedBytes)),
            ..*verdict
        };
        self.record(index, &unexpected);
        if let Some(connection) = self.connections.get_mut(index) {
            let earlier = connection.take_back_served();
            if earlier > 0 {
                self.tally.invalidate(earlier, self.now_ns);
            }
        }
    }

    /// Bytes arrived while no request was outstanding: the server has sent more responses than there were requests.
    #[cold]
    pub(super) fn unexpected_bytes(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let has_failed = matches!(
            connection.stage,
            Stage::Ending {
                was_good: false,
                ..
            }
        );
        let served = connection.take_back_served();
        if served > 0 || !has_failed {
            self.tally.invalidate(served, self.now_ns);
        }
        self.finish(index);
    }

    /// Continues after responses: with the next batch, with the end of the connection, or by waiting.
    #[inline]
    pub(super) fn proceed(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        let plan = &self.common.plan;
        let is_idle = connection.outstanding == 0;
        if plan.protocol.is_broadcast() {
            self.flush_frames(index);
            return self.broadcast();
        }
        if self.schedule.is_some() {
            return match is_idle && !plan.is_persistent {
                true => self.finish(index),
                false => self.flush_frames(index),
            };
        }
        let has_room = connection.batch_room(plan.protocol) > 0;
        if !has_room || self.opening_end_ns.is_some() || self.is_over {
            // No more requests until more is received, or until the start is over.
            self.flush_frames(index);
        } else if !plan.is_persistent || index >= self.target {
            match is_idle {
                true => self.finish(index),
                false => self.flush_frames(index),
            }
        } else if self.start_batch(index) {
            self.flush(index);
        } else {
            self.flush_frames(index);
        }
    }

    /// The server ended its sending side.
    #[cold]
    fn end(&mut self, index: usize) {
        self.now_ns = precise_ns();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if matches!(connection.stage, Stage::Ending { .. }) {
            self.closing.note_closed();
        }
        if connection.outstanding == 0 && connection.is_upgraded() {
            return self.finish(index);
        }
        if let Exchange::Pipeline(pipeline) = &mut connection.exchange
            && pipeline.response.ends_with_connection()
        {
            let kind = self.common.mix.kind(pipeline.batch.position());
            let is_early = pipeline
                .batch
                .complete(&self.common.mix, connection.outstanding)
                == 0;
            match self.checker.end(&mut pipeline.response, kind) {
                Some(verdict) if is_early => return self.record_early(index, &verdict),
                Some(verdict) => self.record(index, &verdict),
                None => {}
            }
            return self.finish(index);
        }
        let class = connection.broken.unwrap_or(ErrorClass::EarlyEof);
        self.fail(index, class);
    }
}
