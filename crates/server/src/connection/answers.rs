//! How a connection's answers leave: in request order, one send for all that is ready.

use net::Sent;
use wire::{Method, RequestHead, Version};

use super::content::Taker;
use super::file::{FileStep, TURN_BYTES};
use super::{Connection, Fate, Reading};
use crate::access_log::LogRecord;
use crate::app::{Abort, App, ExchangeId, Pulled};
use crate::exchange::{Delimiter, Exchange, Progress};
use crate::mailbox::{Command, Response};
use crate::output::Output;
use crate::responder::Framing;
use crate::worker::{Core, SEND_BUFFER_KEPT_BYTES};

/// Bytes pulled from a streamed answer before other connections have their turn.
const PULL_BYTES: usize = 131_072;

/// What an empty part counts for.
const EMPTY_PART_BYTES: usize = 1024;

pub(super) const CONTENT_TOO_LONG: &str = "The content is longer than this server accepts.";

impl Connection {
    /// Answers an error in its place in the order and reads nothing more. `head` is the request's, if
    /// it could be read.
    #[cold]
    pub(super) fn refuse<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        head: Option<&RequestHead<'_>>,
        status: u16,
        reason: &str,
    ) {
        let answer = error_response(status, reason);
        let is_read_by_handler = matches!(&self.reading, Reading::Content(incoming)
            if matches!(incoming.taker, Taker::Exchange { .. }));
        self.has_unread = true;
        self.reading = Reading::Closing;
        if is_read_by_handler && let Some(last) = self.pending.back_mut() {
            if last.progress == Progress::Waiting {
                app.abort(last.id, Abort::Refused);
                last.framing.persistent = false;
                last.respond(&mut core.stamp, &answer);
            } else if !last.is_ended() {
                app.abort(last.id, Abort::Refused);
                last.cut();
            }
            return;
        }
        let started_ms = core.clock.now_ms();
        let is_head = head.is_some_and(|head| head.method == Method::Head);
        let record = || Box::new(LogRecord::new(self.client, head, started_ms));
        let mut exchange = Exchange {
            id: ExchangeId {
                connection: self.key,
                sequence: core.next_sequence(),
            },
            progress: Progress::Waiting,
            framing: Framing {
                is_head,
                version: Version::Http11,
                persistent: false,
            },
            delimiter: Delimiter::End,
            is_safe: false,
            started_ms,
            awaits_writable: false,
            out: Output::default(),
            record: core.log.is_some().then(record),
        };
        exchange.respond(&mut core.stamp, &answer);
        self.pending.push_back(exchange);
    }

    /// Does what a handler posted. Nothing is sent before [`Connection::settle`].
    pub(crate) fn obey<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        id: ExchangeId,
        command: Command,
    ) {
        if matches!(command, Command::Read) {
            return self.read_more(core, app, id);
        }
        let Some(index) = self.pending.iter().position(|exchange| exchange.id == id) else {
            return;
        };
        let is_last = index + 1 == self.pending.len();
        let may_go_on = !is_last || (!core.is_draining() && self.is_content_settled());
        let Some(exchange) = self.pending.get_mut(index) else {
            return;
        };
        match (command, exchange.progress) {
            (Command::Inform { status, fields }, Progress::Waiting) => {
                exchange.inform(status, &fields);
            }
            (Command::Respond(response), Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                exchange.respond(&mut core.stamp, &response);
            }
            (Command::Begin(response), Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                if !exchange.begin(&mut core.stamp, &response, Progress::Pushed) {
                    app.abort(id, Abort::Refused);
                }
            }
            (Command::BeginOpen(response), Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                exchange.begin_open(&mut core.stamp, &response);
            }
            (Command::Stream(response), Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                if !exchange.begin(&mut core.stamp, &response, Progress::Pulled) {
                    app.abort(id, Abort::Refused);
                }
            }
            (Command::Write(part), Progress::Pushed) => exchange.write(&part),
            (Command::WriteFile(part), Progress::Pushed) => exchange.write_file(part),
            (Command::Finish, Progress::Pushed) => exchange.finish(b""),
            (Command::FinishWith(trailers), Progress::Pushed) => exchange.finish(&trailers),
            (Command::Fail, Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                exchange.respond(&mut core.stamp, &failure_response());
            }
            (Command::Fail, Progress::Pushed | Progress::Pulled) => exchange.cut(),
            _ => {}
        }
    }

    /// Moves answers that are next in order to the send buffer.
    pub(super) fn emit<A: App>(&mut self, core: &mut Core, app: &mut A) {
        while let Some(front) = self.pending.front_mut() {
            core.out.append(&mut front.out.take_bytes());
            if front.out.has_file() || !front.is_ended() {
                return;
            }
            let Some(ended) = self.pending.pop_front() else {
                return;
            };
            if !self.has_partial {
                self.since_ms = core.clock.now_ms();
            }
            core.log(&ended);
            self.release_content(ended.id, ended.framing.persistent);
            if ended.progress == Progress::Cut || !ended.framing.persistent {
                self.has_unread |= !self.input.is_empty();
                if ended.progress == Progress::Cut && ended.delimiter == Delimiter::End {
                    // Its end is the connection's end: only a reset tells the peer that it is cut.
                    self.transport.reset_on_close();
                    self.has_unread = false;
                }
                // If a file was cut, nobody waits for its room any more.
                self.is_full = !self.backlog.is_empty();
                self.input = Vec::new();
                self.reading = Reading::Closing;
                self.close(core, app, Abort::Disconnected);
                return;
            }
        }
    }

    /// Sends what is ready, goes on with what it frees, and says what becomes of the connection.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        if self.pending.is_empty() && !self.is_full && !self.is_blocked {
            let goes_on = matches!(self.reading, Reading::Head) && !self.end_of_input;
            if !core.out.is_empty() {
                if goes_on && core.group.takes(self.key, &mut core.out) {
                    return Fate::Open;
                }
                if !self.flush(core) {
                    return Fate::Close;
                }
            }
            return match goes_on {
                true => Fate::Open,
                false => self.fate(core),
            };
        }
        self.settle_pending(core, app)
    }

    pub(super) fn settle_pending<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let (mut budget, mut file_budget) = (PULL_BYTES, TURN_BYTES);
        loop {
            self.emit(core, app);
            if !core.out.is_empty() && !self.flush(core) {
                return self.close(core, app, Abort::Disconnected);
            }
            if self.is_full {
                return Fate::Open;
            }
            match self.send_file(core, app, &mut file_budget) {
                FileStep::None => {}
                FileStep::Over => continue,
                FileStep::Stopped(fate) => return fate,
            }
            self.tell_writer(app);
            if self.pull(app, &mut budget) {
                if budget == 0 {
                    return Fate::Again;
                }
                continue;
            }
            let unused = self.input.len();
            self.is_blocked &= unused > 0;
            if self.is_blocked {
                self.resume(core, app);
                if self.has_peer_ended {
                    self.tell_peer_ended(app);
                }
                if self.input.len() < unused || !core.out.is_empty() {
                    continue;
                }
            }
            if matches!(self.reading, Reading::Closing) || self.pending.is_empty() {
                return self.fate(core);
            }
            return Fate::Open;
        }
    }

    pub(super) fn tell_writer<A: App>(&mut self, app: &mut A) {
        if let Some(front) = self.pending.front_mut()
            && matches!(front.progress, Progress::Waiting | Progress::Pushed)
            && std::mem::take(&mut front.awaits_writable)
        {
            app.writable(front.id);
        }
    }

    /// Asks the application for parts of the answer that is next. True when it brought something.
    pub(super) fn pull<A: App>(&mut self, app: &mut A, budget: &mut usize) -> bool {
        let Some(front) = self.pending.front_mut() else {
            return false;
        };
        if front.progress != Progress::Pulled || *budget == 0 {
            return false;
        }
        let mut part = Vec::new();
        while part.is_empty() {
            match app.pull(front.id, &mut part) {
                // A part may be empty, but not for ever without another connection's turn.
                Pulled::More if part.is_empty() && *budget > EMPTY_PART_BYTES => {
                    *budget -= EMPTY_PART_BYTES
                }
                Pulled::More if part.is_empty() => {
                    *budget = 0;
                    return true;
                }
                Pulled::More => {}
                Pulled::End => {
                    front.delimiter.push_part(front.out.tail(), &part);
                    front.finish(b"");
                    return true;
                }
                Pulled::Failed => {
                    front.progress = Progress::Cut;
                    return true;
                }
            }
        }
        if let Some(record) = &mut front.record {
            record.content_bytes += part.len() as u64;
        }
        front.delimiter.push_part(front.out.tail(), &part);
        *budget = budget.saturating_sub(part.len());
        true
    }

    /// Sends the worker's send buffer, and keeps what the socket refuses. False when the connection is broken.
    #[inline]
    pub(super) fn flush(&mut self, core: &mut Core) -> bool {
        if self.is_full {
            self.backlog.append(&mut core.out);
            return true;
        }
        let is_open = match self.transmit(&core.out) {
            Sent::Bytes(count) => {
                if let Some(unsent @ [_, ..]) = core.out.get(count..) {
                    self.is_full = true;
                    if unsent.len() > SEND_BUFFER_KEPT_BYTES {
                        self.backlog = std::mem::take(&mut core.out);
                        self.backlog_sent = count;
                    } else {
                        self.backlog = unsent.to_vec();
                    }
                }
                self.sent_ms = core.clock.now_ms();
                true
            }
            Sent::Broken(_) => false,
        };
        core.out.clear();
        if core.out.capacity() > SEND_BUFFER_KEPT_BYTES {
            core.out = Vec::with_capacity(SEND_BUFFER_KEPT_BYTES);
        }
        is_open
    }

    /// Sends bytes, in one packet with a file or the connection's end, if that is what follows them.
    #[inline]
    pub(super) fn transmit(&self, bytes: &[u8]) -> Sent {
        let is_followed = match self.pending.front() {
            Some(front) => front.out.has_file(),
            None => matches!(self.reading, Reading::Closing),
        };
        match is_followed {
            true => self.transport.send_more(bytes),
            false => self.transport.send(bytes),
        }
    }
}

pub(super) fn failure_response() -> Response {
    error_response(500, "500 Internal Server Error")
}

/// A short answer in plain text.
pub(super) fn error_response(status: u16, reason: &str) -> Response {
    let mut fields = b"Content-Type: text/plain; charset=utf-8\r\n".to_vec();
    if status == 503 {
        fields.extend_from_slice(b"Retry-After: 1\r\n");
    }
    Response {
        status,
        fields,
        content: [reason.as_bytes(), b"\n"].concat(),
        length: None,
    }
}
