//! WebSocket on a connection: what its events mean for requests, and broadcasts.

use super::super::channel::{End, Event};
use super::super::connection::{Connection, Exchange, Stage, Stamp};
use super::super::error::ErrorClass;
use super::LoadThread;
use super::exchange::EARLY_BYTES_MAX;

impl LoadThread {
    /// Reads what the first `length` bytes of the buffer mean, and continues accordingly.
    pub(super) fn check_messages(&mut self, index: usize, length: usize) {
        let mut at = 0;
        while at < length {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let (Exchange::Channel(channel), Some(messages)) =
                (&mut connection.exchange, &self.common.messages)
            else {
                return;
            };
            let data = self.buffer.get_mut(at..length).unwrap_or_default();
            let event = channel.next(data, messages, &self.common.mix, &mut self.inflaters);
            match event {
                Ok(Event::Responses(verdict)) => {
                    at += verdict.consumed;
                    self.record(index, &verdict);
                }
                Ok(Event::Skipped(used)) => at += used,
                Ok(Event::Replaced(used)) => {
                    at += used;
                    self.tally.websocket.pings_unanswered += 1;
                }
                Ok(Event::Opened(used)) => {
                    at += used;
                    self.opened(index);
                }
                Ok(Event::Unexpected) => return self.unexpected_message(index),
                Ok(Event::None) => {
                    let rest = self.buffer.get(at..length).unwrap_or_default();
                    if rest.len() > EARLY_BYTES_MAX {
                        return self.fail(index, ErrorClass::Malformed);
                    }
                    connection.early.extend_from_slice(rest);
                    return;
                }
                Err(end) => return self.ended(index, &end),
            }
        }
        self.proceed(index);
    }

    /// A message that nobody asked for: earlier ones may have been the response to others, and those to come may be.
    #[cold]
    fn unexpected_message(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.outstanding == 0 {
            return self.unexpected_bytes(index);
        }
        let served = connection.take_back_served();
        if served > 0 {
            self.tally.invalidate(served, self.now_ns);
        }
        self.fail(index, ErrorClass::UnexpectedBytes);
    }

    /// The handshake is complete: messages can be sent.
    fn opened(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        self.tally.websocket.note_upgrade();
        // With persistent connections, the latency of a first batch does not include the handshake.
        if self.common.plan.is_persistent {
            connection.restamp_all(self.now_ns);
        }
        self.established(index);
        self.flush_frames(index);
    }

    /// The connection is no WebSocket, or no longer.
    #[cold]
    fn ended(&mut self, index: usize, end: &End) {
        self.tally.websocket.note_end(end);
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        let is_idle = connection.outstanding == 0 && connection.is_established;
        match end {
            End::Closed(_) if is_idle => self.finish(index),
            _ => {
                if is_idle {
                    self.tally.invalidate(0, self.now_ns);
                }
                self.fail(index, end.class());
            }
        }
    }

    /// Sends the next messages of a broadcast when all connections have received the last ones.
    pub(super) fn broadcast(&mut self) {
        let is_late = self.is_over || self.now_ns > self.tally.end_ns;
        if self.under_way > 0 || self.opening_end_ns.is_some() || is_late {
            return;
        }
        let count = self.common.plan.protocol.depth();
        let is_open = |it: &Connection| it.stage == Stage::Open;
        let Some(sender) = self.connections.iter().position(is_open) else {
            return;
        };
        let stamp = Stamp {
            intended_ns: self.now_ns,
            sent_ns: self.now_ns,
            first_ns: u64::MAX,
            position: self.cursor,
            count,
        };
        let (before, job) = (self.cursor, self.common.job());
        let mut receivers = 0;
        for connection in self.connections.iter_mut().filter(|it| is_open(it)) {
            connection.add(stamp, job);
            connection.outstanding += count;
            connection.is_used = true;
            receivers += u64::from(count);
        }
        if let Some(connection) = self.connections.get_mut(sender) {
            connection.assign(job, before, count);
            connection.outstanding -= count;
        }
        self.cursor = job.mix.advanced(before, count);
        self.under_way += receivers;
        self.tally.requests_sent += receivers;
        self.flush(sender);
    }
}
