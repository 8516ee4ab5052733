//! The application: does what the schedule says, and checks every call it gets.

use std::mem::MaybeUninit;
use std::sync::Arc;

use server::{
    Abort, App, Command, Content as Given, ExchangeId, Fields, FilePart, Mailbox, Outcome, Pulled,
    Request, Responder,
};

use crate::bounds::DOUBT_MS;
use crate::exchange::{End, Exchange, Form, Interim, Moment, State, Wait};
use crate::facts::Facts;
use crate::judgement;
use crate::render::{self, Mark, Stream};
use crate::schedule::{self, Content, First, Move, PullEnd, Schedule};

/// The message of every panic of the schedule.
pub(crate) const PANIC: &str = "as the schedule wants it";
/// The field line of each reply.
pub(crate) const FIELD: &[u8] = b"A: b\r\n";
const ROOM_BYTES_MAX: usize = 262_144;

pub(crate) struct ModelApp<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) streams: &'a [Stream],
    pub(crate) mailbox: Arc<Mailbox>,
    /// What the clients did, by conversation.
    pub(crate) facts: Vec<Facts>,
    pub(crate) now_ms: u64,
    /// When the worker last read the clock.
    pub(crate) stamp_ms: u64,
    pub(crate) exchanges: Vec<Exchange>,
    /// Exchanges with posted commands that the server has not taken.
    pub(crate) untaken: Vec<usize>,
    /// The number of calls, to detect that something happens.
    pub(crate) events: usize,
    /// The first violation.
    pub(crate) violation: Option<String>,
    /// Since when time passes only while the worker waits.
    pub(crate) waits_since_ms: Option<u64>,
    /// Responses sent early that `response_written` has not been called for.
    pub(crate) sent_early: usize,
    /// The last of them does something slow after it.
    is_slow_after: bool,
    room: Vec<MaybeUninit<u8>>,
}

impl<'a> ModelApp<'a> {
    pub(crate) fn new(
        schedule: &'a Schedule,
        streams: &'a [Stream],
        mailbox: Arc<Mailbox>,
        now_ms: u64,
    ) -> ModelApp<'a> {
        ModelApp {
            schedule,
            streams,
            mailbox,
            facts: Vec::new(),
            now_ms,
            stamp_ms: now_ms,
            exchanges: Vec::new(),
            untaken: Vec::new(),
            events: 0,
            violation: None,
            waits_since_ms: None,
            sent_early: 0,
            is_slow_after: false,
            room: Vec::new(),
        }
    }

    pub(crate) fn plan(&self, conversation: usize, number: usize) -> &'a schedule::Request {
        &self.schedule.conversations[conversation].requests[number]
    }

    pub(crate) fn plan_of(&self, index: usize) -> &'a schedule::Request {
        let exchange = &self.exchanges[index];
        self.plan(exchange.conversation, exchange.number)
    }

    pub(crate) fn mark_of(&self, index: usize) -> &'a Mark {
        let exchange = &self.exchanges[index];
        &self.streams[exchange.conversation].marks[exchange.number]
    }

    pub(crate) fn moment_of(&self, index: usize) -> Moment {
        let facts = &self.facts[self.exchanges[index].conversation];
        Moment::of(facts, self.now_ms, self.stamp_ms)
    }

    /// The exchange of a request, if it was called.
    pub(crate) fn exchange(&self, conversation: usize, number: usize) -> Option<&Exchange> {
        let mut exchanges = self.exchanges.iter();
        exchanges.find(|it| it.conversation == conversation && it.number == number)
    }

    pub(crate) fn violate(&mut self, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(text());
        }
    }

    pub(crate) fn post(&mut self, index: usize, command: Command) {
        self.mailbox.post(self.exchanges[index].id, command);
        if self.untaken.last() != Some(&index) {
            self.untaken.push(index);
        }
    }

    /// The server has taken everything that was posted.
    pub(crate) fn mail_was_taken(&mut self) {
        for index in std::mem::take(&mut self.untaken) {
            let (moment, mark) = (self.moment_of(index), self.mark_of(index));
            self.exchanges[index].was_taken(moment, mark);
        }
    }

    /// The exchange that the server refers to; it must be open.
    fn meant(&mut self, id: ExchangeId, what: &str) -> Option<usize> {
        self.events += 1;
        let index = self.exchanges.iter().rposition(|it| it.id == id);
        let Some(index) = index else {
            self.violate(|| format!("{what} for an exchange that was never called"));
            return None;
        };
        if self.exchanges[index].is_over() {
            let (conversation, number) = {
                let it = &self.exchanges[index];
                (it.conversation, it.number)
            };
            self.violate(|| format!("{what} for /{conversation}/{number}, which has ended"));
            return None;
        }
        Some(index)
    }

    /// Finds or creates the exchange of a call, and checks that it may be called now.
    fn called(&mut self, request: &Request<'_>) -> Option<usize> {
        self.events += 1;
        let target = String::from_utf8_lossy(request.head.target()).into_owned();
        let mut segments = target.trim_start_matches('/').split('/');
        let mut next = || segments.next().and_then(|it| it.parse::<usize>().ok());
        let (Some(conversation), Some(number)) = (next(), next()) else {
            self.violate(|| format!("{target} was called, which was not requested"));
            return None;
        };
        let of_conversation = |it: &&Exchange| it.conversation == conversation;
        let called_before = self.exchanges.iter().filter(of_conversation).count();
        let index = if called_before == number {
            let exchange = Exchange::new(request.id, conversation, number, self.now_ms);
            self.exchanges.push(exchange);
            self.exchanges.len() - 1
        } else {
            let is_same = |it: &Exchange| it.conversation == conversation && it.number == number;
            let index = self
                .exchanges
                .iter()
                .position(is_same)
                .unwrap_or(usize::MAX);
            let again = self.exchanges.get_mut(index);
            let Some(again) = again.filter(|it| it.state == State::WantsContent) else {
                self.violate(|| format!("{target} was called as number {called_before}"));
                return None;
            };
            again.id = request.id;
            again.state = State::Waiting;
            again.progress_ms = self.now_ms;
            index
        };
        if let Err(text) = judgement::of_call(self, conversation, number) {
            self.violate(|| text);
        }
        Some(index)
    }

    /// Records the content that came with a call.
    fn was_given(&mut self, index: usize, given: Given<'_>) -> bool {
        let content = self.plan_of(index).content;
        let Given::Whole(bytes) = given else {
            if content == Content::None || content == Content::Length(0) {
                self.violate(|| "a request without content was called without it".to_string());
            }
            return false;
        };
        let exchange = &mut self.exchanges[index];
        exchange.has_all = true;
        exchange.delivered = bytes.len();
        let (conversation, number) = (exchange.conversation, exchange.number);
        if bytes != render::request_content(conversation, number, content) {
            self.violate(|| format!("/{conversation}/{number} was called with other content"));
        }
        true
    }

    /// Responds with the whole reply during a call.
    fn respond(&mut self, index: usize, responder: &mut Responder) {
        let reply = self.plan_of(index).handler.reply;
        let (conversation, number) = {
            let it = &self.exchanges[index];
            (it.conversation, it.number)
        };
        let content = render::response_content(conversation, number, reply.bytes);
        responder.respond(reply.status, Fields::of_application(reply.lines()), content);
        self.begin_in_call(index, reply.status, Form::Whole(reply.bytes));
        let now_ms = self.now_ms;
        let exchange = &mut self.exchanges[index];
        exchange.written = reply.bytes;
        exchange.end = Some(End::Complete);
        exchange.is_over_at(now_ms);
    }

    fn begin_in_call(&mut self, index: usize, status: u16, form: Form) {
        let moment = self.moment_of(index);
        let exchange = &mut self.exchanges[index];
        exchange.begin(status, form, moment);
        if let Some(head) = &mut exchange.head {
            head.taken = Some(moment);
        }
    }

    /// Starts a stream that is pulled.
    fn pull_in_call(&mut self, index: usize, responder: &mut Responder) -> Outcome {
        let plan = self.plan_of(index);
        let reply = plan.handler.reply;
        let length = reply.length();
        let fields = Fields::of_application(reply.lines());
        let has_parts = responder.begin(reply.status, fields, length.map(|it| it as u64));
        self.begin_in_call(index, reply.status, Form::Stream(length));
        let head = self.exchanges[index].head;
        if head.is_some_and(|head| head.has_no_content(plan) == has_parts) {
            self.violate(|| "begin() is wrong about whether content follows".to_string());
        }
        let now_ms = self.now_ms;
        let exchange = &mut self.exchanges[index];
        if has_parts {
            exchange.state = State::Pulled;
            return Outcome::Streaming;
        }
        exchange.end = Some(End::Complete);
        exchange.is_over_at(now_ms);
        Outcome::Responded
    }

    /// Ends without a response: the server sends its own.
    fn forget(&mut self, index: usize) -> Outcome {
        self.begin_in_call(index, 500, Form::Failure);
        let now_ms = self.now_ms;
        let exchange = &mut self.exchanges[index];
        exchange.end = Some(End::Complete);
        exchange.is_over_at(now_ms);
        Outcome::Responded
    }

    /// Requests the whole content before it does anything.
    fn want_content(&mut self, index: usize) -> Outcome {
        let plan = self.plan_of(index);
        let (moment, mark) = (self.moment_of(index), self.mark_of(index));
        let exchange = &mut self.exchanges[index];
        exchange.state = State::WantsContent;
        exchange.has_asked = true;
        if plan.expects && !plan.persistence.is_old() {
            exchange.promise_continue();
            exchange.resolve_continue(moment, mark);
        }
        Outcome::ReadContent
    }

    fn suspend(&mut self, index: usize) -> Outcome {
        for _ in 0..self.plan_of(index).handler.moves_at_call {
            self.make_move(index);
        }
        Outcome::Pending
    }

    /// A part of the content was passed.
    fn took(&mut self, index: usize, bytes: usize, is_last: bool) {
        let content = self.plan_of(index).content;
        let total = content.bytes();
        let now_ms = self.now_ms;
        let exchange = &mut self.exchanges[index];
        exchange.delivered += bytes;
        exchange.has_all = is_last;
        if !exchange.asks && exchange.surplus_asks > 0 {
            exchange.surplus_asks -= 1;
            exchange.asks = true;
        }
        if exchange.collects && !is_last {
            if std::mem::replace(&mut exchange.was_ahead, true) {
                self.violate(|| "a part of a content that was requested as a whole".to_string());
            }
        } else if std::mem::take(&mut exchange.asks) {
            exchange.progress_ms = now_ms;
            exchange.is_ahead = false;
        } else if std::mem::replace(&mut exchange.is_ahead, true) {
            self.violate(|| "two parts of a content that were not requested".to_string());
        }
        let exchange = &mut self.exchanges[index];
        let delivered = exchange.delivered;
        // The last chunk may still be missing.
        let may_go_on = matches!(content, Content::Chunks { .. }) && bytes > 0;
        if is_last != (delivered == total) && !(delivered == total && may_go_on) {
            self.violate(|| format!("{delivered} of {total} bytes given, last: {is_last}"));
        }
        let exchange = &mut self.exchanges[index];
        let reads_on = exchange.wait == Wait::Whole && !is_last;
        if !reads_on {
            exchange.wait = Wait::Nothing;
        }
        if exchange.panics_in_content {
            exchange.has_panicked = true;
            self.facts[exchange.conversation].has_panicked = true;
            panic!("{PANIC}");
        }
        if reads_on {
            self.ask(index);
        }
    }
}

/// Another thread sends in the middle of a call.
fn send_meanwhile(responder: &mut Responder) {
    std::thread::scope(|scope| {
        scope.spawn(|| responder.send_all_now());
    });
}

impl App for ModelApp<'_> {
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        let Some(index) = self.called(request) else {
            responder.respond(200, Fields::constant(b""), b"");
            return Outcome::Responded;
        };
        let has_content = self.was_given(index, request.content);
        let handler = &self.plan_of(index).handler;
        if handler.is_slow {
            send_meanwhile(responder);
        }
        let outcome = match handler.first {
            First::Ahead if responder.can_send_now() => {
                self.is_slow_after = handler.is_slow;
                self.respond(index, responder);
                self.sent_early += 1;
                Outcome::RespondedEarly
            }
            First::Respond | First::Ahead => {
                self.respond(index, responder);
                Outcome::Responded
            }
            First::Pull => self.pull_in_call(index, responder),
            First::ReadContent if !has_content => self.want_content(index),
            First::ReadContent if handler.moves.is_empty() => {
                self.respond(index, responder);
                Outcome::Responded
            }
            First::ReadContent | First::Suspend => self.suspend(index),
            First::Forget => self.forget(index),
            First::Panic => {
                responder.respond(200, Fields::constant(b""), b"half of a response");
                let now_ms = self.now_ms;
                let exchange = &mut self.exchanges[index];
                exchange.has_panicked = true;
                exchange.is_over_at(now_ms);
                self.facts[exchange.conversation].has_panicked = true;
                panic!("{PANIC}");
            }
        };
        if handler.is_slow && outcome != Outcome::RespondedEarly {
            send_meanwhile(responder);
        }
        outcome
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        let Some(index) = self.meant(id, "pull()") else {
            return Pulled::Failed;
        };
        let (reply, now_ms) = (self.plan_of(index).handler.reply, self.now_ms);
        match self.exchanges[index].state {
            State::Pulled => {}
            // It has failed, and the server does not know yet.
            State::Ending => {
                self.exchanges[index].is_over_at(now_ms);
                return Pulled::Failed;
            }
            _ => {
                self.violate(|| "pull() for a response that is not pulled".to_string());
                return Pulled::Failed;
            }
        }
        let exchange = &mut self.exchanges[index];
        if exchange.pulled < reply.parts {
            let before = exchange.written;
            exchange.pulled += 1;
            exchange.written = reply.bytes * exchange.pulled / reply.parts;
            let content =
                render::response_content(exchange.conversation, exchange.number, exchange.written);
            out.extend_from_slice(&content[before..]);
            exchange.wrote_ms = now_ms;
            return Pulled::More;
        }
        let is_short = reply
            .length()
            .is_some_and(|length| exchange.written < length);
        let end = match (reply.pull_end, is_short) {
            (PullEnd::End, false) => End::Complete,
            _ => End::Failed,
        };
        if reply.pull_end == PullEnd::Panic {
            exchange.has_panicked = true;
            self.facts[exchange.conversation].has_panicked = true;
            panic!("{PANIC}");
        }
        exchange.end = Some(end);
        exchange.is_over_at(now_ms);
        match reply.pull_end {
            PullEnd::End => Pulled::End,
            PullEnd::Fail | PullEnd::Panic => Pulled::Failed,
        }
    }

    fn response_written(&mut self, responder: &mut Responder) {
        self.events += 1;
        if self.is_slow_after {
            send_meanwhile(responder);
        }
        match self.sent_early.checked_sub(1) {
            Some(left) => self.sent_early = left,
            None => self.violate(|| {
                "response_written() without a response that was sent early".to_string()
            }),
        }
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        let Some(index) = self.meant(id, "content()") else {
            return true;
        };
        let plan = self.plan_of(index);
        let exchange = &self.exchanges[index];
        if !exchange.asks && exchange.surplus_asks == 0 {
            self.violate(|| "content() that was not requested".to_string());
        }
        let exchange = &self.exchanges[index];
        let all = render::request_content(exchange.conversation, exchange.number, plan.content);
        let rest = all.get(exchange.delivered..).unwrap_or_default();
        if !rest.starts_with(content) {
            self.violate(|| "content() with other bytes than were sent".to_string());
        }
        if content.is_empty() && !is_last {
            self.violate(|| "content() with nothing".to_string());
        }
        self.took(index, content.len(), is_last);
        true
    }

    fn content_room(&mut self, id: ExchangeId, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        let index = self.meant(id, "content_room()")?;
        if !self.plan_of(index).handler.has_room {
            return None;
        }
        if self.room.is_empty() {
            self.room.resize(ROOM_BYTES_MAX, MaybeUninit::uninit());
        }
        self.room.get_mut(..bytes)
    }

    fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        if let Some(index) = self.meant(id, "content_was_read()") {
            self.took(index, bytes, is_last);
        }
    }

    fn writable(&mut self, id: ExchangeId) {
        if let Some(index) = self.meant(id, "writable()") {
            self.exchanges[index].awaits_writable = false;
        }
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        let Some(index) = self.meant(id, "peer_ended()") else {
            return;
        };
        self.exchanges[index].knows_end = true;
        let facts = &self.facts[self.exchanges[index].conversation];
        let is_early = match facts.half_closed_ms {
            Some(at_ms) => self.now_ms < at_ms + DOUBT_MS,
            None => !facts.has_vanished,
        };
        if is_early {
            self.violate(|| "peer_ended() for a client that is present".to_string());
        }
    }

    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        // It may have ended while its response is still being sent.
        let index = self.exchanges.iter().rposition(|it| it.id == id);
        let Some(index) = index.filter(|index| {
            let moves = &self.plan_of(*index).handler.moves;
            moves.contains(&Move::WriteShortFile) && part.length == 1
        }) else {
            return self.violate(|| "file_was_short() for a file that was not".to_string());
        };
        self.exchanges[index].was_short = true;
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        let Some(index) = self.meant(id, "abort()") else {
            return;
        };
        let verdict = judgement::of_abort(self, index, why);
        let now_ms = self.now_ms;
        let exchange = &mut self.exchanges[index];
        exchange.is_over_at(now_ms);
        match verdict {
            // The head was the whole response: nothing is missing.
            Ok(judgement::AbortKind::NoContent) => exchange.end = Some(End::Complete),
            Ok(judgement::AbortKind::Ended) => exchange.aborted = Some(why),
            Err(text) => {
                exchange.aborted = Some(why);
                self.violate(|| text);
            }
        }
        if self.plan_of(index).handler.strays {
            self.stray(index);
        }
    }
}

impl Exchange {
    pub(crate) fn promise_continue(&mut self) {
        self.owes_continue = true;
        self.interim.push(Interim {
            bytes: wire::CONTINUE.to_vec(),
            must_arrive: true,
        });
    }
}
