//! One request and its response, independent of the protocol: the progress of both, and what a handler may do to them.
//!
//! How a handler's commands change the response's progress ([`Progress`]). Anything not in the table is ignored:
//!
//! | progress | `Inform` | `Respond` | `Begin`, `BeginOpen` | `Stream` | `Write`, `WriteFile` | `Finish`, `FinishWith` | `Fail` |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `Waiting` | stays | `Done` | `Pushed` | `Pulled` | | | `Done` (500) |
//! | `Pushed` | | | | | stays | `Done`, or `Cut` if short | `Cut` |
//! | `Pulled` | | | | | | | `Cut` |
//! | `Done`, `Cut` | | | | | | | |
//!
//! A response to `Begin` may have no content (HEAD, 204, 304). It is `Done` then, and the application is notified.

pub(crate) mod content;
pub(crate) mod output;

use crate::app::App;
use crate::context::Context;
use crate::context::orphans::Orphan;
use crate::context::record::Record;
use crate::id::ExchangeId;
use crate::mailbox::Command;
use crate::responder::Responder;
use crate::response::{FilePart, Response};
use crate::timeouts::Timeouts;

use self::output::Output;

/// Progress of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The application has not started to respond.
    Waiting,
    /// The head is written; the application writes the parts.
    Pushed,
    /// The head is written; the server asks the application for the parts.
    Pulled,
    /// The response is complete.
    Done,
    /// Truncated: the connection (or stream) ends after what has been written.
    Cut,
}

/// Requests that a stopping server has not finished.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Nothing of their responses had been sent: they got 503.
    pub refused: u64,
    /// Their responses had started, or had to wait for another one: the connection ended before they were complete.
    pub cut: u64,
}

/// How a protocol writes the parts of a response.
pub(crate) trait Encoder {
    /// Writes an interim response, if the recipient supports them.
    fn inform(&mut self, out: &mut Output, status: u16, field_section: &[u8]);
    /// Writes a whole response. Returns the number of content bytes that are sent.
    fn respond(&mut self, out: &mut Output, responder: &mut Responder, response: &Response) -> u64;
    /// Writes the head of a streamed response. Returns false if no content may follow.
    fn begin(&mut self, out: &mut Output, responder: &mut Responder, response: &Response) -> bool;
    /// Drops the following parts: none may be sent.
    fn drop_parts(&mut self);
    /// Writes a part of the content.
    fn part(&mut self, out: &mut Output, part: &[u8]);
    /// As [`Encoder::part`], with memory that can be kept.
    fn take_part(&mut self, out: &mut Output, part: Vec<u8>);
    /// Writes a part of the content that is in a file.
    fn file(&mut self, out: &mut Output, part: FilePart);
    /// Ends the content. Returns false if it is shorter than announced.
    fn finish(&mut self, out: &mut Output, trailer_section: &[u8]) -> bool;
}

/// The effect of a command beyond the exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obeyed {
    /// None.
    Quietly,
    /// The response ended before the application ended it: the application has to be notified.
    EndedEarly,
}

/// A request whose response is not complete.
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) progress: Progress,
    /// When the handler's time to start its response began.
    pub(crate) started_ms: u64,
    /// How long it has for that; 0 = as long as it takes.
    pub(crate) handler_timeout_ms: u64,
    /// The handler has started to respond and holds back the head until the first part. Updated only when the handler's time is over.
    pub(crate) has_begun: bool,
    /// Something was written since the application was last notified that everything was sent.
    pub(crate) awaits_writable: bool,
    /// What waits to be sent.
    pub(crate) out: Output,
    pub(crate) record: Record,
    /// Its head, and the content that it was called with or read as a whole, which a handler that has not responded may keep.
    pub(crate) lent_bytes: u32,
}

impl Exchange {
    /// An exchange that waits for its handler from now on, and so long.
    pub(crate) fn new(id: ExchangeId, now_ms: u64, handler_timeout_ms: u64) -> Exchange {
        Exchange {
            id,
            progress: Progress::Waiting,
            started_ms: now_ms,
            handler_timeout_ms,
            has_begun: false,
            awaits_writable: false,
            out: Output::default(),
            record: Record::default(),
            lent_bytes: 0,
        }
    }

    /// When the handler's time to start its response ends.
    pub(crate) fn handler_deadline_ms(&self) -> u64 {
        Timeouts::end_ms(self.started_ms, self.handler_timeout_ms)
    }

    /// The client has left, and the handler knows. If it goes on and owes a response, its time still ends.
    #[cold]
    pub(crate) fn keep_deadline<A: App>(&self, app: &A, context: &mut Context) {
        let after_ms = self.handler_timeout_ms;
        let is_timed = self.progress == Progress::Waiting && after_ms > 0;
        if !is_timed || !app.owes_response(self.id) {
            return;
        }
        let now_ms = context.clock.now_ms();
        let deadline_ms = match self.handler_deadline_ms() {
            // It has waited for its client, and has its time from now on.
            past if past <= now_ms => now_ms.saturating_add(after_ms),
            deadline_ms => deadline_ms,
        };
        let orphan = Orphan {
            deadline_ms,
            id: self.id,
            after_ms,
        };
        context.orphans.add(orphan, |id| app.owes_response(id));
    }

    /// Executes a handler's command.
    pub(crate) fn obey(
        &mut self,
        encoder: &mut impl Encoder,
        responder: &mut Responder,
        command: Command,
    ) -> Obeyed {
        match (command, self.progress) {
            (Command::Inform { status, fields }, Progress::Waiting) => {
                encoder.inform(&mut self.out, status, &fields);
                self.awaits_writable = true;
            }
            (Command::Respond(response), Progress::Waiting) => {
                self.respond(encoder, responder, &response);
            }
            (Command::Begin(response), Progress::Waiting) => {
                return self.begin(encoder, responder, &response, Progress::Pushed);
            }
            (Command::BeginOpen(response), Progress::Waiting) => {
                self.begin_open(encoder, responder, &response);
            }
            (Command::Stream(response), Progress::Waiting) => {
                return self.begin(encoder, responder, &response, Progress::Pulled);
            }
            (Command::Write(part), Progress::Pushed) => {
                self.take_part(encoder, part);
                self.awaits_writable = true;
            }
            (Command::WriteHeld(part), Progress::Pushed) => {
                self.copy_part(encoder, part.bytes());
                self.awaits_writable = true;
            }
            (Command::WriteFile(part), Progress::Pushed) => {
                encoder.file(&mut self.out, part);
                self.awaits_writable = true;
            }
            (Command::Finish, Progress::Pushed) => self.finish(encoder, b""),
            (Command::FinishWith(trailers), Progress::Pushed) => self.finish(encoder, &trailers),
            (Command::Fail, Progress::Waiting) => {
                self.respond(encoder, responder, &Response::failure());
            }
            (Command::Fail, Progress::Pushed | Progress::Pulled) => self.cut(),
            _ => {}
        }
        Obeyed::Quietly
    }

    /// Writes a whole response.
    pub(crate) fn respond(
        &mut self,
        encoder: &mut impl Encoder,
        responder: &mut Responder,
        response: &Response,
    ) {
        responder.identify(self.record.id_line.as_deref());
        let content_bytes = encoder.respond(&mut self.out, responder, response);
        self.progress = Progress::Done;
        self.record.waited(response.waited_ms.into());
        self.record
            .begin(response.status, content_bytes, &response.fields);
    }

    fn begin(
        &mut self,
        encoder: &mut impl Encoder,
        responder: &mut Responder,
        response: &Response,
        progress: Progress,
    ) -> Obeyed {
        self.record.waited(response.waited_ms.into());
        self.record.begin(response.status, 0, &response.fields);
        responder.identify(self.record.id_line.as_deref());
        if encoder.begin(&mut self.out, responder, response) {
            self.progress = progress;
            return Obeyed::Quietly;
        }
        self.progress = Progress::Done;
        Obeyed::EndedEarly
    }

    fn begin_open(
        &mut self,
        encoder: &mut impl Encoder,
        responder: &mut Responder,
        response: &Response,
    ) {
        if self.begin(encoder, responder, response, Progress::Pushed) == Obeyed::EndedEarly {
            self.progress = Progress::Pushed;
            encoder.drop_parts();
        }
    }

    /// Adds a part of the content, in memory that can be kept.
    pub(crate) fn take_part(&mut self, encoder: &mut impl Encoder, part: Vec<u8>) {
        self.record.add_content(part.len() as u64);
        encoder.take_part(&mut self.out, part);
    }

    /// Adds a part of the content.
    fn copy_part(&mut self, encoder: &mut impl Encoder, part: &[u8]) {
        self.record.add_content(part.len() as u64);
        encoder.part(&mut self.out, part);
    }

    /// Ends the content; truncated if it is shorter than announced.
    pub(crate) fn finish(&mut self, encoder: &mut impl Encoder, trailer_section: &[u8]) {
        self.progress = match encoder.finish(&mut self.out, trailer_section) {
            true => Progress::Done,
            false => Progress::Cut,
        };
    }

    /// Truncates the exchange so that the peer detects it. What has been written before the first file is still sent.
    pub(crate) fn cut(&mut self) {
        self.progress = Progress::Cut;
        self.out.drop_files();
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.progress, Progress::Done | Progress::Cut)
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.out.held_bytes() + self.request_bytes()
    }

    /// The part of it that is of the request.
    pub(crate) fn request_bytes(&self) -> usize {
        self.record.held_bytes() + self.lent_bytes()
    }

    /// The handler gets so many bytes of content, and may keep them.
    pub(crate) fn lend(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.lent_bytes = self.lent_bytes.saturating_add(bytes);
    }

    /// What the handler may still have of the request.
    fn lent_bytes(&self) -> usize {
        match self.is_ended() {
            true => 0,
            false => self.lent_bytes as usize,
        }
    }
}
