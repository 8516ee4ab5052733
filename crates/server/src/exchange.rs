//! A request whose answer is not complete, in its place in the order of its connection.

use crate::access_log::LogRecord;
use crate::app::ExchangeId;
use crate::mailbox::Response;
use crate::responder::{Fields, Framing, Responder, Stamp};

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The application has not begun to answer.
    Waiting,
    /// The head is written; the application writes the parts.
    Pushed,
    /// The head is written; the server asks the application for the parts.
    Pulled,
    /// Complete.
    Done,
    /// Cut: the connection ends behind what is written.
    Cut,
}

/// An exchange in its connection's queue. Whatever is in `out` waits for the answers before it.
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) progress: Progress,
    pub(crate) framing: Framing,
    pub(crate) is_chunked: bool,
    /// Whether requests behind it may run at the same time (RFC 9112 section 9.3.2).
    pub(crate) is_safe: bool,
    pub(crate) started_ms: u64,
    /// Written since the application was last told that all had left.
    pub(crate) awaits_writable: bool,
    pub(crate) out: Vec<u8>,
    pub(crate) record: Option<Box<LogRecord>>,
}

impl Exchange {
    /// Encodes a whole answer.
    pub(crate) fn respond(&mut self, stamp: &mut Stamp, response: &Response) {
        let mut responder = Responder::new(&mut self.out, stamp, self.framing);
        let fields = Fields::of_application(&response.fields);
        responder.respond(response.status, fields, &response.content);
        let (framing, status, bytes) =
            (responder.framing, responder.status, responder.content_bytes);
        self.framing = framing;
        self.progress = Progress::Done;
        self.note(status, bytes);
    }

    /// Encodes the head of a streamed answer. False when nothing may follow: then it is complete.
    pub(crate) fn begin(
        &mut self,
        stamp: &mut Stamp,
        response: &Response,
        progress: Progress,
    ) -> bool {
        let mut responder = Responder::new(&mut self.out, stamp, self.framing);
        let has_parts = responder.begin(response.status, Fields::of_application(&response.fields));
        let (framing, status) = (responder.framing, responder.status);
        self.is_chunked = responder.is_chunked;
        self.framing = framing;
        self.progress = if has_parts { progress } else { Progress::Done };
        self.note(status, 0);
        has_parts
    }

    /// Adds a part of the content.
    pub(crate) fn write(&mut self, part: &[u8]) {
        if let Some(record) = &mut self.record {
            record.content_bytes += part.len() as u64;
        }
        self.awaits_writable = true;
        push_part(&mut self.out, self.is_chunked, part);
    }

    /// Ends the content.
    pub(crate) fn finish(&mut self) {
        if self.is_chunked {
            self.out.extend_from_slice(wire::LAST_CHUNK);
        }
        self.progress = Progress::Done;
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.progress, Progress::Done | Progress::Cut)
    }

    fn note(&mut self, status: u16, content_bytes: u64) {
        if let Some(record) = &mut self.record {
            record.status = status;
            record.content_bytes = content_bytes;
        }
    }
}

/// Frames one part of a content.
pub(crate) fn push_part(out: &mut Vec<u8>, is_chunked: bool, part: &[u8]) {
    if is_chunked {
        wire::push_chunk(out, part);
    } else {
        out.extend_from_slice(part);
    }
}
