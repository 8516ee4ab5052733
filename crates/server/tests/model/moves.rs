//! The moves of suspended handlers: what they post.

use server::{Command, FilePart, Response};

use crate::app::{FIELD, ModelApp};
use crate::exchange::{End, Form, Interim, State, Wait};
use crate::render;
use crate::schedule::{Move, Reply};

/// Maximum bytes that a handler writes.
const WRITTEN_BYTES_MAX: usize = 500_000;
/// The trailer section of a response that has one.
pub(crate) const TRAILER: &[u8] = b"T: u\r\n";
const EARLY_HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

impl Reply {
    pub(crate) fn lines(self) -> &'static [u8] {
        match self.has_field {
            true => FIELD,
            false => b"",
        }
    }

    /// The length that a stream is started with.
    pub(crate) fn length(self) -> Option<usize> {
        self.knows_length.then_some(self.bytes)
    }
}

impl ModelApp<'_> {
    /// Open exchanges of a conversation.
    pub(crate) fn open(&self, conversation: usize) -> impl Iterator<Item = usize> {
        let exchanges = self.exchanges.iter().enumerate();
        let open = exchanges.filter(move |(_, it)| {
            let is_open = matches!(it.state, State::Waiting | State::Pushed | State::Pulled);
            it.conversation == conversation && is_open
        });
        open.map(|(index, _)| index)
    }

    /// Makes the next possible move. Returns false when there is none, or the exchange waits for content.
    pub(crate) fn make_move(&mut self, index: usize) -> bool {
        let moves = &self.plan_of(index).handler.moves;
        loop {
            let exchange = &mut self.exchanges[index];
            let is_open = matches!(
                exchange.state,
                State::Waiting | State::Pushed | State::Pulled
            );
            if !is_open || exchange.wait != Wait::Nothing {
                return false;
            }
            let Some(&next) = moves.get(exchange.next_move) else {
                return false;
            };
            exchange.next_move += 1;
            if self.try_move(index, next) {
                return true;
            }
        }
    }

    /// Makes all remaining moves, and completes the response if the handler ever does. Returns true when something was done.
    pub(crate) fn complete(&mut self, index: usize, also_never: bool) -> bool {
        let is_any = self.make_move(index);
        while self.make_move(index) {}
        let handler = &self.plan_of(index).handler;
        let exchange = &self.exchanges[index];
        if exchange.wait != Wait::Nothing || !(handler.completes || also_never) {
            return is_any;
        }
        match exchange.state {
            State::Waiting => self.try_move(index, Move::Respond) || is_any,
            State::Pushed => {
                let missing = handler.reply.bytes.saturating_sub(exchange.written);
                self.try_move(index, Move::Write(missing));
                self.try_move(index, Move::Finish) || is_any
            }
            _ => is_any,
        }
    }

    fn try_move(&mut self, index: usize, next: Move) -> bool {
        let state = self.exchanges[index].state;
        let reads = !self.exchanges[index].has_all;
        match (next, state) {
            (Move::Read, _) if reads => self.ask(index),
            (Move::ReadPart, _) if reads => self.ask_and_wait(index, Wait::Part),
            (Move::ReadWhole, _) if reads => self.ask_and_wait(index, Wait::Whole),
            (Move::Collect, _) if reads => self.collect(index, true),
            (Move::CollectForNow, _) if reads => self.collect(index, false),
            (Move::PanicInContent, _) if reads => {
                self.exchanges[index].panics_in_content = true;
                self.ask(index);
            }
            (Move::Inform, State::Waiting) => self.inform(index),
            (Move::Respond, State::Waiting) => self.respond_later(index),
            (Move::Begin, State::Waiting) => self.begin(index, Command::Begin, State::Pushed),
            (Move::BeginOpen, State::Waiting) => {
                self.exchanges[index].keeps_open = true;
                self.begin(index, Command::BeginOpen, State::Pushed);
            }
            (Move::Stream, State::Waiting) => self.begin(index, Command::Stream, State::Pulled),
            (Move::Write(bytes), State::Pushed) => self.write(index, bytes),
            (Move::WriteFile(bytes), State::Pushed) => self.write_file(index, bytes),
            (Move::WriteShortFile, State::Pushed) => self.write_short_file(index),
            (Move::Finish, State::Pushed) => self.finish(index, Command::Finish),
            (Move::FinishWith, State::Pushed) => {
                self.exchanges[index].has_trailer = true;
                self.finish(index, Command::FinishWith(TRAILER.to_vec()));
            }
            (Move::Fail, State::Waiting) => {
                self.begin_later(index, 500, Form::Failure);
                self.end(index, End::Complete, Command::Fail);
            }
            (Move::Fail, State::Pushed | State::Pulled) => {
                self.end(index, End::Failed, Command::Fail);
            }
            _ => return false,
        }
        true
    }

    /// Asks for a part of the content, unless it has asked.
    pub(crate) fn ask(&mut self, index: usize) {
        let asks = self.note_ask(index);
        let collected = std::mem::take(&mut self.exchanges[index].collects);
        if collected || !asks {
            self.post(index, Command::Read);
        }
        if collected && asks {
            self.exchanges[index].surplus_asks += 1;
        }
    }

    /// Notes that it asks. Returns whether it did before.
    fn note_ask(&mut self, index: usize) -> bool {
        let plan = self.plan_of(index);
        let exchange = &mut self.exchanges[index];
        let asked_before = std::mem::replace(&mut exchange.has_asked, true);
        exchange.is_ahead = false;
        let asks = std::mem::replace(&mut exchange.asks, true);
        let may_continue = plan.expects && !plan.persistence.is_old() && !asked_before;
        if may_continue && exchange.state == State::Waiting {
            exchange.promise_continue();
        }
        asks
    }

    /// Asks for the rest of the content as one part, and waits for that only if `waits`.
    fn collect(&mut self, index: usize, waits: bool) {
        self.note_ask(index);
        self.post(index, Command::ReadWhole);
        let exchange = &mut self.exchanges[index];
        exchange.collects = true;
        exchange.was_ahead = false;
        if waits {
            exchange.wait = Wait::Whole;
        }
    }

    fn ask_and_wait(&mut self, index: usize, wait: Wait) {
        self.exchanges[index].wait = wait;
        self.ask(index);
    }

    fn inform(&mut self, index: usize) {
        if !self.plan_of(index).persistence.is_old() {
            self.exchanges[index].interim.push(Interim {
                bytes: EARLY_HINTS.to_vec(),
                must_arrive: true,
            });
        }
        self.exchanges[index].awaits_writable = true;
        let fields = b"Link: </a>\r\n".to_vec();
        self.post(
            index,
            Command::Inform {
                status: 103,
                fields,
            },
        );
    }

    fn begin_later(&mut self, index: usize, status: u16, form: Form) {
        let moment = self.moment_of(index);
        self.exchanges[index].begin(status, form, moment);
    }

    fn end(&mut self, index: usize, end: End, command: Command) {
        let now_ms = self.now_ms;
        self.exchanges[index].finish(end, now_ms);
        self.post(index, command);
    }

    fn respond_later(&mut self, index: usize) {
        let reply = self.plan_of(index).handler.reply;
        let exchange = &mut self.exchanges[index];
        exchange.written = reply.bytes;
        let content =
            render::response_content(exchange.conversation, exchange.number, reply.bytes).to_vec();
        self.begin_later(index, reply.status, Form::Whole(reply.bytes));
        let response = Response {
            content,
            ..reply.response()
        };
        self.end(index, End::Complete, Command::Respond(response));
    }

    fn begin(&mut self, index: usize, command: fn(Response) -> Command, state: State) {
        let reply = self.plan_of(index).handler.reply;
        self.begin_later(index, reply.status, Form::Stream(reply.length()));
        self.exchanges[index].state = state;
        self.post(index, command(reply.response()));
    }

    /// Counts bytes as written. Returns false if that is too much.
    fn note_written(&mut self, index: usize, bytes: usize) -> bool {
        let (now_ms, request) = (self.now_ms, self.plan_of(index));
        let exchange = &mut self.exchanges[index];
        let due_before = exchange.due_bytes(request);
        if exchange.written + bytes > WRITTEN_BYTES_MAX {
            return false;
        }
        exchange.awaits_writable = true;
        exchange.written += bytes;
        if exchange.due_bytes(request) > due_before {
            exchange.wrote_ms = now_ms;
        }
        true
    }

    fn write(&mut self, index: usize, bytes: usize) {
        let before = self.exchanges[index].written;
        if self.note_written(index, bytes) {
            let it = &self.exchanges[index];
            let content = render::response_content(it.conversation, it.number, it.written);
            let part = content[before..].to_vec();
            let is_held = part.len() % 2 == 1;
            self.post(
                index,
                match is_held {
                    true => Command::WriteHeld(Box::new(part)),
                    false => Command::Write(part),
                },
            );
        }
    }

    fn write_file(&mut self, index: usize, bytes: usize) {
        let it = &self.exchanges[index];
        let offset = render::response_offset(it.conversation, it.number) + it.written;
        if self.note_written(index, bytes) {
            let part = FilePart {
                file: render::response_file().into(),
                offset: offset as u64,
                length: bytes as u64,
            };
            self.post(index, Command::WriteFile(part));
        }
    }

    fn write_short_file(&mut self, index: usize) {
        self.exchanges[index].awaits_writable = true;
        let part = FilePart {
            file: render::response_file().into(),
            offset: 2 * render::PATTERN_BYTES as u64,
            length: 1,
        };
        self.post(index, Command::WriteFile(part));
    }

    fn finish(&mut self, index: usize, command: Command) {
        let plan = self.plan_of(index);
        let exchange = &self.exchanges[index];
        let is_without = exchange.head.is_some_and(|head| head.has_no_content(plan));
        let length = plan.handler.reply.length();
        let is_short = length.is_some_and(|length| exchange.written < length);
        let end = match is_short && !is_without {
            true => End::Failed,
            false => End::Complete,
        };
        self.end(index, end, command);
    }

    /// Posts for an exchange that is over: the server must ignore it.
    pub(crate) fn stray(&mut self, index: usize) {
        let id = self.exchanges[index].id;
        let response = Response {
            status: 201,
            ..Response::default()
        };
        self.mailbox.post(id, Command::Read);
        self.mailbox.post(id, Command::Respond(response));
        self.mailbox.post(id, Command::Write(b"stray".to_vec()));
        self.mailbox.post(id, Command::Finish);
    }
}

impl Reply {
    fn response(self) -> Response {
        Response {
            status: self.status,
            fields: self.lines().to_vec(),
            length: self.length().map(|length| length as u64),
            ..Response::default()
        }
    }
}
