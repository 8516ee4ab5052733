//! HTTP/2 on a connection: what its frames mean for requests, and frames that no request causes.

use std::collections::VecDeque;

use super::super::connection::{Exchange, Stamp};
use super::super::error::ErrorClass;
use super::super::session::{Event, Violation};
use super::LoadThread;
use super::exchange::EARLY_BYTES_MAX;

impl LoadThread {
    /// Reads the frames in the first `length` bytes of the buffer, and continues accordingly.
    pub(super) fn check_frames(&mut self, index: usize, length: usize) {
        let mut at = 0;
        if self.connections.get(index).is_some_and(|it| it.is_new) {
            // Its settings are the server's first response.
            self.settle(index);
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let Exchange::Session(session) = &mut connection.exchange else {
                return;
            };
            session.heard_ns = self.now_ns;
            let data = self.buffer.get(at..length).unwrap_or_default();
            match session.next(data, self.common.job()) {
                Ok(Some((used, event))) => {
                    at += used;
                    self.take_event(index, event);
                }
                Ok(None) => {
                    if data.len() > EARLY_BYTES_MAX {
                        return self.fail(index, ErrorClass::Malformed);
                    }
                    connection.early.extend_from_slice(data);
                    break;
                }
                Err(violation) => return self.violated(index, &violation),
            }
        }
        self.proceed_or_leave(index);
    }

    #[inline]
    fn take_event(&mut self, index: usize, event: Event) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        match event {
            Event::None => return,
            Event::Response(stamp, verdict) => {
                connection.outstanding -= 1;
                self.under_way -= 1;
                let is_ok = self.tally.record_one(&stamp, &verdict, self.now_ns);
                connection.served += u64::from(is_ok);
            }
            Event::Failure(stamp, class) => {
                connection.outstanding -= 1;
                self.under_way -= 1;
                self.tally.fail([&stamp], class, self.now_ns);
            }
            Event::Refusal { stamps, is_error } => {
                return self.refused(index, &stamps, is_error);
            }
        }
        if !connection.has_responded {
            self.note_first(index);
        }
    }

    /// The server does not process these requests: they are sent again on another connection, unless that is an error.
    #[cold]
    fn refused(&mut self, index: usize, stamps: &VecDeque<Stamp>, is_error: bool) {
        let count = stamps.len() as u32;
        if let Some(connection) = self.connections.get_mut(index) {
            connection.outstanding -= count;
        }
        match is_error {
            true => {
                self.under_way -= u64::from(count);
                self.tally.fail(stamps, ErrorClass::GoAway, self.now_ns);
            }
            false => self.take_back(stamps, count),
        }
    }

    /// Continues after frames: with more requests, or with the end of the connection.
    fn proceed_or_leave(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        let is_ending = matches!(connection.stage, super::Stage::Ending { .. });
        let is_idle = connection.outstanding == 0;
        match &connection.exchange {
            Exchange::Session(session) if session.is_closing() && is_idle && !is_ending => {
                self.await_end(index, true);
            }
            Exchange::Session(session) if session.is_spent() && is_idle => self.finish(index),
            _ if is_ending => {}
            _ => self.proceed(index),
        }
    }

    /// Sends frames that no request has caused. A connection that has room for requests can take them from now on.
    #[inline]
    pub(super) fn flush_frames(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        match &connection.exchange {
            Exchange::Session(session) if !session.unsent().is_empty() => self.flush(index),
            Exchange::Channel(_) if !connection.unsent(self.common.job()).is_empty() => {
                self.flush(index);
            }
            _ => self.list(index),
        }
    }

    /// The server violates HTTP/2: GOAWAY says so, and all requests without a response have failed.
    #[cold]
    fn violated(&mut self, index: usize, violation: &Violation) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if let Exchange::Session(session) = &mut connection.exchange {
            session.leave(violation.code);
        }
        if connection.outstanding == 0 {
            self.tally.invalidate(0, self.now_ns);
        }
        self.fail(index, violation.class);
    }

    /// Requests have been outstanding for too long: they are cancelled, or all if nothing has arrived either.
    #[cold]
    pub(super) fn time_out(&mut self, index: usize) {
        let sent_ns = self.now_ns.saturating_sub(self.timeout_ns);
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let late = match &mut connection.exchange {
            Exchange::Session(session) if session.heard_ns > sent_ns => {
                session.cancel_before(sent_ns)
            }
            _ => return self.fail(index, ErrorClass::Timeout),
        };
        connection.outstanding -= late.len() as u32;
        self.under_way -= late.len() as u64;
        self.tally.fail(&late, ErrorClass::Timeout, self.now_ns);
        self.proceed_or_leave(index);
    }

    /// Closed loop: the server has allowed no stream for too long (`SETTINGS_MAX_CONCURRENT_STREAMS`, RFC 9113 section 5.1.2). A request that
    /// is due has failed.
    #[cold]
    pub(super) fn time_out_waiting(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if let Exchange::Session(session) = &mut connection.exchange {
            session.waits_again(now_ns);
        }
        if self.credit > 0 && self.opening_end_ns.is_none() && !self.is_over {
            self.credit -= 1;
            let stamp = Stamp {
                intended_ns: now_ns,
                sent_ns: now_ns,
                ..Stamp::ONE
            };
            self.tally.fail([&stamp], ErrorClass::Timeout, now_ns);
        }
    }
}
