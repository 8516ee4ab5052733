//! One connection's exchange: its batch goes out, answers come in, and what follows from them.

use net::{Received, Sent, precise_ns};

use super::super::checker::Checked;
use super::super::connection::Stage;
use super::super::tally::ErrorClass;
use super::Driver;

/// An incomplete head longer than this is no head.
const EARLY_BYTES_MAX: usize = 64 * 1024;

impl Driver<'_> {
    /// Sends what is left of the batch.
    pub(super) fn flush(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Some(socket) = &connection.socket else {
            return;
        };
        if connection.unsent > 0 {
            // The time of a first batch does not hold the connect, where connections persist.
            if connection.stage == Stage::Opening && self.options.is_persistent {
                connection.sent_ns = precise_ns();
            }
            match socket.send(connection.unsent(&self.requests)) {
                Sent::Bytes(count) => connection.unsent -= count,
                Sent::Broken(error) => return self.break_off(index, &error),
            }
        }
        self.watch(index);
    }

    /// Makes the poller wait for what the connection waits for.
    fn watch(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let wanted = connection.wanted_interest();
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        let Some(socket) = &connection.socket else {
            return;
        };
        if self.poller.modify(socket, index as u64, wanted).is_err() {
            self.fail(index, ErrorClass::Connect);
        }
    }

    /// Reads what is there, once.
    pub(super) fn receive(&mut self, index: usize) {
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
        match socket.receive(free) {
            Received::Bytes(count) => {
                if let Some(front) = self.buffer.get_mut(..kept) {
                    front.copy_from_slice(&connection.early);
                    connection.early.clear();
                }
                self.tally.bytes += count as u64;
                self.check(index, kept + count);
            }
            Received::Blocked => {}
            Received::End => self.end(index),
            Received::Broken(error) => self.break_off(index, &error),
        }
    }

    /// Judges the first `len` bytes of the buffer and does what follows from them.
    fn check(&mut self, index: usize, len: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if let Stage::Ending { was_good } = connection.stage {
            if was_good {
                self.tally.take_back();
            }
            return self.leave(index);
        }
        let now_ns = precise_ns();
        let data = self.buffer.get(..len).unwrap_or_default();
        let mut checked = self
            .checker
            .check(&mut connection.answer, data, connection.outstanding);
        let rest = data.get(checked.consumed..).unwrap_or_default();
        let keeps_rest = !checked.malformed && rest.len() <= EARLY_BYTES_MAX;
        let surplus = checked.closes || checked.answers() == connection.outstanding;
        if !rest.is_empty() && !surplus && keeps_rest {
            connection.early.extend_from_slice(rest);
        }
        let is_surplus = surplus && !rest.is_empty();
        if is_surplus && checked.good > 0 {
            checked.good -= 1;
            checked.unexpected_bytes += 1;
        }
        self.count(index, &checked, now_ns);
        if is_surplus {
            self.leave(index);
        } else if !keeps_rest {
            self.fail(index, ErrorClass::Malformed);
        } else {
            self.go_on(index, &checked, now_ns);
        }
    }

    /// Enters verdicts into the tally.
    fn count(&mut self, index: usize, checked: &Checked, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let answers = checked.answers();
        if answers == 0 {
            return;
        }
        connection.outstanding -= answers;
        self.under_way -= u64::from(answers);
        let latency_ns = now_ns.saturating_sub(connection.sent_ns);
        self.tally.good(checked.good, latency_ns);
        if answers > checked.good {
            let errors = &mut self.tally.errors;
            errors.add(ErrorClass::WrongStatus, u64::from(checked.wrong_status));
            errors.add(ErrorClass::Long, u64::from(checked.wrong_length));
            errors.add(
                ErrorClass::UnexpectedBytes,
                u64::from(checked.unexpected_bytes),
            );
        }
        if connection.stage == Stage::Opening {
            connection.stage = Stage::Open;
            self.heard += 1;
            self.open_next();
        }
    }

    /// After answers: the next batch, the end of the connection, or nothing yet.
    pub(super) fn go_on(&mut self, index: usize, checked: &Checked, now_ns: u64) {
        let is_ramping = self.is_ramping();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if checked.closes {
            // What was pipelined behind the last answer is not answered any more; it is asked again elsewhere.
            self.take_back_batch(index);
            if let Some(connection) = self.connections.get_mut(index) {
                connection.stage = Stage::Ending {
                    was_good: checked.good > 0,
                };
                connection.sent_ns = now_ns;
            }
        } else if connection.outstanding > 0 || is_ramping {
            // Nothing to do until more is received, or until the start is over.
        } else if !self.options.is_persistent || self.credit == 0 {
            self.leave(index);
        } else {
            connection.sent_ns = now_ns;
            self.begin_batch(index);
            self.flush(index);
        }
    }

    /// The server ended its sending side.
    #[cold]
    fn end(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if matches!(connection.stage, Stage::Ending { .. }) {
            return self.leave(index);
        }
        if connection.answer.ends_with_connection() {
            let checked = self.checker.check_end(&mut connection.answer);
            self.count(index, &checked, precise_ns());
            self.take_back_batch(index);
            return self.leave(index);
        }
        self.fail(index, ErrorClass::EarlyEof);
    }
}
