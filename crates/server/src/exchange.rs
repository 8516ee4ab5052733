//! A request whose answer is not complete, in its place in the order of its connection.

use wire::Version;

use crate::access_log::LogRecord;
use crate::app::ExchangeId;
use crate::mailbox::Response;
use crate::output::{FilePart, Output};
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
    pub(crate) delimiter: Delimiter,
    /// Whether requests behind it may run at the same time (RFC 9112 section 9.3.2).
    pub(crate) is_safe: bool,
    pub(crate) started_ms: u64,
    /// Written since the application was last told that all had left.
    pub(crate) awaits_writable: bool,
    pub(crate) out: Output,
    pub(crate) record: Option<Box<LogRecord>>,
}

impl Exchange {
    /// Encodes a whole answer.
    pub(crate) fn respond(&mut self, stamp: &mut Stamp, response: &Response) {
        let mut responder = Responder::new(self.out.tail(), stamp, self.framing);
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
        let mut responder = Responder::new(self.out.tail(), stamp, self.framing);
        let fields = Fields::of_application(&response.fields);
        let has_parts = responder.begin(response.status, fields, response.length);
        let (framing, status) = (responder.framing, responder.status);
        self.delimiter = responder.delimiter;
        self.framing = framing;
        self.progress = if has_parts { progress } else { Progress::Done };
        self.note(status, 0);
        has_parts
    }

    /// Encodes the head of an answer of which the parts are written; where none may be sent, they are dropped.
    pub(crate) fn begin_open(&mut self, stamp: &mut Stamp, response: &Response) {
        if !self.begin(stamp, response, Progress::Pushed) {
            self.progress = Progress::Pushed;
            self.delimiter = Delimiter::Length(0);
        }
    }

    /// Adds a part of the content.
    pub(crate) fn write(&mut self, part: &[u8]) {
        if let Some(record) = &mut self.record {
            record.content_bytes += part.len() as u64;
        }
        self.awaits_writable = true;
        self.delimiter.push_part(self.out.tail(), part);
    }

    /// Adds a part of the content that is in a file.
    pub(crate) fn write_file(&mut self, mut part: FilePart) {
        self.awaits_writable = true;
        part.length = self.delimiter.admit(part.length);
        if part.length == 0 {
            return;
        }
        if self.delimiter != Delimiter::Chunks {
            return self.out.push_file(part);
        }
        wire::push_chunk_head(self.out.tail(), part.length);
        self.out.push_file(part);
        self.out.tail().extend_from_slice(b"\r\n");
    }

    /// Ends the content; cut, if it is shorter than was said. The trailer section is dropped where there is no place for it.
    pub(crate) fn finish(&mut self, trailer_section: &[u8]) {
        self.progress = match self.delimiter {
            Delimiter::Length(1..) => Progress::Cut,
            Delimiter::Length(0) | Delimiter::End => Progress::Done,
            Delimiter::Chunks => {
                wire::push_last_chunk(self.out.tail(), trailer_section);
                Progress::Done
            }
        };
    }

    /// Ends the exchange so that its peer sees it. What stands before its first file still leaves.
    pub(crate) fn cut(&mut self) {
        self.progress = Progress::Cut;
        self.out.drop_files();
    }

    /// Adds an interim response. HTTP/1.0 knows none (RFC 9110 section 15.2), 100 is the server's own business, and after 101 the
    /// connection would speak something else.
    pub(crate) fn inform(&mut self, status: u16, field_section: &[u8]) {
        if self.framing.version == Version::Http11 && matches!(status, 102..=199) {
            wire::push_interim(self.out.tail(), status, field_section);
        }
        self.awaits_writable = true;
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

/// What tells the peer where a streamed content ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delimiter {
    /// The last chunk.
    Chunks,
    /// Content-Length; so many bytes are still owed.
    Length(u64),
    /// The end of the connection.
    End,
}

impl Delimiter {
    /// Adds one part of a content; what is beyond its length is dropped.
    pub(crate) fn push_part(&mut self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Delimiter::Chunks => wire::push_chunk(out, part),
            Delimiter::End => out.extend_from_slice(part),
            Delimiter::Length(_) => {
                let admitted = self.admit(part.len() as u64) as usize;
                out.extend_from_slice(part.get(..admitted).unwrap_or(part));
            }
        }
    }

    /// How many of so many bytes may follow; they are counted.
    fn admit(&mut self, bytes: u64) -> u64 {
        let Delimiter::Length(owed) = self else {
            return bytes;
        };
        let admitted = bytes.min(*owed);
        *owed -= admitted;
        admitted
    }
}
