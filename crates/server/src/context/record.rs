//! What is kept of a request until its response is complete: its line in the access log, and what is counted of it.

use crate::access_log::{CLIENT_CLOSED_REQUEST, LogRecord};
use crate::context::metrics::Tally;
use crate::context::slow::Ticket;

/// Empty if there is neither a log nor metrics, or once it was used.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) line: Option<Box<LogRecord>>,
    pub(crate) tally: Option<Tally>,
    /// Held until the response starts.
    pub(crate) slow: Option<Ticket>,
    /// The field line that sends the request's id.
    pub(crate) id_line: Option<Box<[u8]>>,
}

impl Record {
    /// The response starts.
    ///
    /// `lines` are the application's fields.
    pub(crate) fn begin(&mut self, status: u16, content_bytes: u64, lines: &[u8]) {
        self.slow = None;
        if let Some(line) = &mut self.line {
            line.begin(status, content_bytes, lines);
        }
        if let Some(tally) = &mut self.tally {
            tally.status = status;
        }
    }

    /// The application will be called again, when the content is complete.
    pub(crate) fn forget_call(&mut self) {
        self.slow = None;
        if let Some(tally) = &mut self.tally {
            tally.called = None;
        }
    }

    /// The head of the request, as far as it was received, is malformed.
    pub(crate) fn malformed(&mut self, received: &[u8]) {
        if let Some(line) = &mut self.line {
            line.copy_request_line(received);
        }
    }

    /// So much content of the request has arrived.
    #[inline]
    pub(crate) fn received(&mut self, bytes: u64) {
        if let Some(line) = &mut self.line {
            line.received_bytes = bytes;
        }
    }

    /// The request has waited so long for a thread.
    pub(crate) fn waited(&mut self, ms: u64) {
        if let Some(line) = &mut self.line {
            line.waited_ms += ms;
        }
        if let Some(called) = self.tally.as_mut().and_then(|tally| tally.called.as_mut()) {
            called.began_ns = called.began_ns.saturating_add(ms.saturating_mul(1_000_000));
        }
    }

    /// Content follows.
    #[inline]
    pub(crate) fn add_content(&mut self, bytes: u64) {
        if let Some(line) = &mut self.line {
            line.content_bytes += bytes;
        }
    }

    /// The client has left. If it has got nothing, or the response `is_unsent`, there was none.
    pub(crate) fn abandon(&mut self, is_unsent: bool) {
        if let Some(line) = &mut self.line
            && (line.status == 0 || is_unsent)
        {
            (line.status, line.content_bytes) = (CLIENT_CLOSED_REQUEST, 0);
        }
        if let Some(tally) = &mut self.tally
            && is_unsent
        {
            tally.status = 0;
        }
    }

    /// Memory held, in bytes, besides its own.
    pub(crate) fn held_bytes(&self) -> usize {
        let id_bytes = self.id_line.as_ref().map_or(0, |line| line.len());
        let called = self.tally.as_ref().and_then(|tally| tally.called.as_ref());
        let name_bytes = called.map_or(0, |called| called.name.len());
        self.line.as_ref().map_or(0, |line| line.held_bytes()) + id_bytes + name_bytes
    }
}
