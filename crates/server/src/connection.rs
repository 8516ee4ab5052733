//! One connection's life: what its input begins, in which order its answers leave, when it ends.
//!
//! Two things move independently. *Reading* goes `Head` -> (`Content` ->) `Head` ... and ends in `Closing` (no further request) or
//! `Lingering` (all is sent, the peer is given time to read it). *Answers* stand in `pending` in request order while one before them is
//! incomplete; an answer that has none before it is written straight to the worker's send buffer and never becomes an [`Exchange`].

use std::collections::VecDeque;

use net::{Interest, Peer, Received, Sent, Transport};
use wire::{BodyLength, Progress as Parsed, RequestHead};

use crate::access_log::LogRecord;
use crate::app::{Abort, App, Content, ExchangeId, Outcome, Pulled, Request};
use crate::content::{DISCARD_BYTES_MAX, Fed, Incoming, Taker};
use crate::exchange::{Exchange, Progress, push_part};
use crate::mailbox::{Command, Response};
use crate::responder::{Framing, Responder};
use crate::timeouts::Timeouts;
use crate::worker::Core;

/// Bytes pulled from a streamed answer before other connections have their turn.
const PULL_BYTES: usize = 131_072;

/// Input discarded from a peer that goes on sending after its connection ended.
const LINGER_BYTES_MAX: u64 = 1 << 20;

pub(crate) enum Reading {
    /// Between requests, or inside a head.
    Head,
    /// Inside the content of the request that was started last.
    Content(Box<Incoming>),
    /// No further request is read; the connection ends when its answers are out.
    Closing,
    /// Everything is sent and our side is shut; input is discarded.
    Lingering { discarded_bytes: u64 },
}

/// What becomes of a connection after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Open,
    /// It has more to do without waiting for its socket.
    Again,
    Close,
}

pub(crate) struct Connection {
    pub(crate) transport: Transport,
    client: Peer,
    server: Peer,
    pub(crate) key: u32,
    reading: Reading,
    /// Input that could not be used yet: an incomplete head, or requests that must wait.
    input: Vec<u8>,
    /// `input` holds more than an incomplete head: something before it must end first.
    is_blocked: bool,
    end_of_input: bool,
    /// The peer sent more than we will read, so a plain close could reset away our last answer.
    has_unread: bool,
    /// Bytes that the socket refused, and how many of them have left since.
    backlog: Vec<u8>,
    backlog_sent: usize,
    pub(crate) pending: VecDeque<Exchange>,
    /// What the poller watches; `None` while it does not know the socket.
    pub(crate) interest: Option<Interest>,
    /// Start of the current wait: for a head (`has_partial`), for a request, or for the peer's end.
    since_ms: u64,
    has_partial: bool,
    served_any: bool,
    /// The last time the socket took bytes of the backlog.
    sent_ms: u64,
}

impl Connection {
    pub(crate) fn new(transport: Transport, client: Peer, server: Peer, key: u32, now_ms: u64) -> Connection {
        Connection {
            transport,
            client,
            server,
            key,
            reading: Reading::Head,
            input: Vec::new(),
            is_blocked: false,
            end_of_input: false,
            has_unread: false,
            backlog: Vec::new(),
            backlog_sent: 0,
            pending: VecDeque::new(),
            interest: None,
            since_ms: now_ms,
            has_partial: false,
            served_any: false,
            sent_ms: now_ms,
        }
    }

    /// Reads once and serves what came.
    pub(crate) fn readable<A: App>(&mut self, core: &mut Core, app: &mut A, buffer: &mut [u8]) -> Fate {
        match self.transport.receive(buffer) {
            Received::Bytes(count) => self.feed(core, app, buffer.get(..count).unwrap_or_default()),
            Received::End => {
                self.end_of_input = true;
                if matches!(self.reading, Reading::Content(ref incoming) if !incoming.is_complete) {
                    return self.close(app, Abort::Disconnected);
                }
            }
            Received::Blocked => return Fate::Open,
            Received::Broken(_) => return self.close(app, Abort::Disconnected),
        }
        self.settle(core, app)
    }

    /// Sends what waits and goes on.
    pub(crate) fn writable<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let unsent = self.backlog.get(self.backlog_sent..).unwrap_or_default();
        match self.transport.send(unsent) {
            Sent::Bytes(count) => {
                self.backlog_sent += count;
                if count > 0 {
                    self.sent_ms = core.clock.now_ms();
                }
            }
            Sent::Broken(_) => return self.close(app, Abort::Disconnected),
        }
        if self.backlog_sent >= self.backlog.len() {
            self.backlog = Vec::new();
            self.backlog_sent = 0;
        }
        self.settle(core, app)
    }

    /// Tells every handler that still works for this connection that it is over.
    pub(crate) fn close<A: App>(&mut self, app: &mut A, why: Abort) -> Fate {
        for exchange in std::mem::take(&mut self.pending) {
            if !exchange.is_ended() {
                app.abort(exchange.id, why);
            }
        }
        Fate::Close
    }

    /// Closes it if nothing is under way; otherwise its next answer is its last. What arrived meanwhile is still served.
    pub(crate) fn drain<A: App>(&mut self, core: &mut Core, app: &mut A, buffer: &mut [u8]) -> Fate {
        if self.is_idle() {
            if let Received::Bytes(count) = self.transport.receive(buffer) {
                self.feed(core, app, buffer.get(..count).unwrap_or_default());
                return self.settle(core, app);
            }
            return Fate::Close;
        }
        Fate::Open
    }

    fn is_idle(&self) -> bool {
        let nothing_to_send = self.pending.is_empty() && self.backlog.is_empty();
        matches!(self.reading, Reading::Head) && self.input.is_empty() && nothing_to_send
    }

    fn feed<A: App>(&mut self, core: &mut Core, app: &mut A, data: &[u8]) {
        if let Reading::Lingering { discarded_bytes } = &mut self.reading {
            *discarded_bytes += data.len() as u64;
            return;
        }
        if self.input.is_empty() {
            let used = self.advance(core, app, data);
            self.input.extend_from_slice(data.get(used..).unwrap_or_default());
            return;
        }
        self.input.extend_from_slice(data);
        let is_in_head = matches!(self.reading, Reading::Head) && !self.is_blocked;
        let skips_parsing = is_in_head && !wire::worth_parsing(data) && wire::within_limits(&self.input, &core.head_limits).is_ok();
        if !skips_parsing {
            self.resume(core, app);
        }
    }

    /// Goes on with input that waited.
    fn resume<A: App>(&mut self, core: &mut Core, app: &mut A) {
        self.is_blocked = false;
        let mut input = std::mem::take(&mut self.input);
        let used = self.advance(core, app, &input);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves `data` from its start as far as possible and tells how much of it is used.
    fn advance<A: App>(&mut self, core: &mut Core, app: &mut A, data: &[u8]) -> usize {
        let mut rest = data;
        while !rest.is_empty() && !self.is_blocked {
            match &mut self.reading {
                Reading::Head => {
                    let before = rest.len();
                    self.head(core, app, &mut rest);
                    if rest.len() == before {
                        break;
                    }
                    if core.out.len() as u64 >= core.limits.send_buffer_bytes_max {
                        self.flush(core);
                        self.is_blocked = !self.backlog.is_empty();
                    }
                }
                Reading::Content(_) => self.content(core, app, &mut rest),
                Reading::Closing | Reading::Lingering { .. } => {
                    self.has_unread = true;
                    rest = &[];
                }
            }
        }
        let used = data.len() - rest.len();
        let is_partial = !rest.is_empty() && !self.is_blocked && matches!(self.reading, Reading::Head);
        if is_partial && (used > 0 || !self.has_partial) {
            self.since_ms = core.clock.now_ms();
        }
        self.has_partial = is_partial;
        used
    }

    /// Parses a head and starts its exchange. Leaves `rest` as it is when that has to wait.
    #[inline]
    fn head<A: App>(&mut self, core: &mut Core, app: &mut A, rest: &mut &[u8]) {
        match wire::parse_request_with(rest, &core.head_limits, &mut core.memo) {
            Ok(Parsed::Complete(head)) => {
                if !self.pending.is_empty() && !self.may_overtake(core, &head) {
                    self.is_blocked = true;
                    return;
                }
                let behind = rest.get(head.consumed..).unwrap_or_default();
                let used = self.begin(core, app, &head, behind);
                *rest = behind.get(used..).unwrap_or_default();
            }
            Ok(Parsed::Incomplete) => {}
            Err(error) => {
                self.refuse(core, app, error.kind.status(), error.kind.reason());
                *rest = &[];
            }
        }
    }

    /// Whether a request may run beside unanswered ones: all are safe, it has no content, and there are not too many.
    fn may_overtake(&self, core: &Core, head: &RequestHead<'_>) -> bool {
        let has_room = (self.pending.len() as u64) < core.limits.pipelined_exchanges_max;
        let is_safe = head.method.is_safe() && head.body_length == BodyLength::None;
        has_room && is_safe && self.pending.iter().all(|exchange| exchange.is_safe)
    }

    /// Hands a request to the application. Gives the bytes of `behind` that were its content.
    #[inline]
    fn begin<A: App>(&mut self, core: &mut Core, app: &mut A, head: &RequestHead<'_>, behind: &[u8]) -> usize {
        match head.body_length {
            BodyLength::None => {
                self.call(core, app, head, Content::Whole(b""));
                0
            }
            BodyLength::Known(length) if length > core.limits.body_bytes_max => {
                self.refuse(core, app, 413, "The content is longer than this server accepts.");
                behind.len()
            }
            BodyLength::Known(length) => match behind.get(..length as usize) {
                Some(content) => {
                    self.call(core, app, head, Content::Whole(content));
                    content.len()
                }
                None => {
                    self.call(core, app, head, Content::Later);
                    0
                }
            },
            BodyLength::Chunked => {
                self.call(core, app, head, Content::Later);
                0
            }
        }
    }

    #[inline]
    fn call<A: App>(&mut self, core: &mut Core, app: &mut A, head: &RequestHead<'_>, content: Content<'_>) {
        let is_persistent = head.persistent && !core.is_draining;
        let goes_on = is_persistent && (content != Content::Later || is_discardable(head));
        let id = ExchangeId { connection: self.key, sequence: core.next_sequence() };
        let start = core.out.len();
        let mut responder = Responder::new(&mut core.out, &mut core.stamp, Framing::of(head, goes_on));
        let request = Request { head, content, id, client: self.client, server: self.server };
        let outcome = app.call(&request, &mut responder);
        let Responder { framing, status, content_bytes, is_chunked, .. } = responder;
        self.served_any = true;
        let is_plain = outcome == Outcome::Answered && status != 0 && content != Content::Later;
        if is_plain && self.pending.is_empty() && core.log.is_none() {
            self.since_ms = core.clock.now_ms();
            if !framing.persistent {
                self.reading = Reading::Closing;
            }
            return;
        }
        let mut exchange = Exchange {
            id,
            progress: Progress::Waiting,
            framing,
            is_chunked,
            is_safe: head.method.is_safe(),
            started_ms: core.clock.now_ms(),
            awaits_writable: false,
            out: core.out.split_off(start),
            record: None,
        };
        if core.log.is_some() {
            let mut record = LogRecord::new(self.client, head, exchange.started_ms);
            record.status = status;
            record.content_bytes = content_bytes;
            exchange.record = Some(Box::new(record));
        }
        self.called(core, exchange, outcome, head, content, is_persistent);
    }

    /// Everything but an answer that is complete at once: queues the exchange and decides who takes its content.
    fn called(
        &mut self,
        core: &mut Core,
        mut exchange: Exchange,
        outcome: Outcome,
        head: &RequestHead<'_>,
        content: Content<'_>,
        is_persistent: bool,
    ) {
        let is_answered = !exchange.out.is_empty();
        let mut taker = Taker::Nobody;
        match outcome {
            Outcome::ReadContent if content == Content::Later => taker = Taker::Call(head.bytes.into()),
            Outcome::Pending => {
                exchange.out.clear();
                exchange.framing.persistent = is_persistent;
                taker = Taker::Exchange { id: exchange.id, wants: false };
            }
            Outcome::Streaming if is_answered => exchange.progress = Progress::Pulled,
            Outcome::Answered if is_answered => exchange.progress = Progress::Done,
            // The application kept no promise: its answer is missing.
            _ => exchange.respond(&mut core.stamp, &failure_response()),
        }
        let goes_on = exchange.framing.persistent;
        if content == Content::Later && (goes_on || !matches!(taker, Taker::Nobody)) {
            let mut incoming = Incoming::new(head.body_length, taker, head.expects_continue, is_persistent);
            if matches!(incoming.taker, Taker::Call(_)) && std::mem::take(&mut incoming.owes_continue) {
                core.out.extend_from_slice(wire::CONTINUE);
            }
            let is_call = matches!(incoming.taker, Taker::Call(_));
            incoming.clock(core.clock.now_ms());
            self.reading = Reading::Content(Box::new(incoming));
            if is_call {
                return;
            }
        } else if !goes_on {
            self.reading = Reading::Closing;
            self.has_unread |= content == Content::Later;
        }
        self.pending.push_back(exchange);
    }

    /// Takes more of a content.
    fn content<A: App>(&mut self, core: &mut Core, app: &mut A, rest: &mut &[u8]) {
        let Reading::Content(incoming) = &mut self.reading else { return };
        match incoming.feed(rest, core.limits.body_bytes_max, core.limits.content_buffer_bytes_max) {
            Ok(Fed::Incomplete | Fed::Complete) => {}
            Ok(Fed::Full) => self.is_blocked = true,
            Ok(Fed::TooLong) => {
                *rest = &[];
                return self.refuse(core, app, 413, "The content is longer than this server accepts.");
            }
            Err(error) => {
                *rest = &[];
                return self.refuse(core, app, error.kind.status(), error.kind.reason());
            }
        }
        self.hand_over(core, app);
    }

    /// Gives content to whom it belongs, and ends its reading when it is complete and taken.
    fn hand_over<A: App>(&mut self, core: &mut Core, app: &mut A) {
        let Reading::Content(incoming) = &mut self.reading else { return };
        let is_complete = incoming.is_complete;
        match &mut incoming.taker {
            Taker::Exchange { id, wants } => {
                if *wants && (is_complete || !incoming.content.is_empty()) {
                    *wants = false;
                    app.content(*id, &incoming.content, is_complete);
                    incoming.content.clear();
                } else if is_complete {
                    // It stays here until the handler asks for it or answers.
                    self.is_blocked = true;
                    return incoming.clock(core.clock.now_ms());
                }
            }
            Taker::Call(_) | Taker::Nobody => {}
        }
        incoming.clock(core.clock.now_ms());
        if !is_complete {
            return;
        }
        let after = if incoming.is_persistent { Reading::Head } else { Reading::Closing };
        if let Reading::Content(incoming) = std::mem::replace(&mut self.reading, after)
            && let Taker::Call(bytes) = incoming.taker
            && let Ok(Parsed::Complete(head)) = wire::parse_request(&bytes, &core.head_limits)
        {
            self.call(core, app, &head, Content::Whole(&incoming.content));
        }
    }

    /// Answers an error in its place in the order and reads nothing more.
    #[cold]
    fn refuse<A: App>(&mut self, core: &mut Core, app: &mut A, status: u16, reason: &str) {
        if let Some(last) = self.pending.back_mut()
            && matches!(&self.reading, Reading::Content(incoming) if matches!(incoming.taker, Taker::Exchange { .. }))
        {
            app.abort(last.id, Abort::Refused);
            if last.progress == Progress::Waiting {
                last.framing.persistent = false;
                last.respond(&mut core.stamp, &error_response(status, reason));
            } else if !last.is_ended() {
                last.progress = Progress::Cut;
            }
        } else {
            let framing = Framing { is_head: false, version: wire::Version::Http11, persistent: false };
            let mut exchange = Exchange {
                id: ExchangeId { connection: self.key, sequence: core.next_sequence() },
                progress: Progress::Waiting,
                framing,
                is_chunked: false,
                is_safe: false,
                started_ms: core.clock.now_ms(),
                awaits_writable: false,
                out: Vec::new(),
                record: None,
            };
            exchange.respond(&mut core.stamp, &error_response(status, reason));
            self.pending.push_back(exchange);
        }
        self.has_unread = true;
        self.reading = Reading::Closing;
    }

    /// Does what a handler posted. Nothing is sent before [`Connection::settle`].
    pub(crate) fn obey<A: App>(&mut self, core: &mut Core, app: &mut A, id: ExchangeId, command: Command) {
        if matches!(command, Command::Read) {
            return self.read_more(core, app, id);
        }
        let Some(index) = self.pending.iter().position(|exchange| exchange.id == id) else { return };
        let is_last = index + 1 == self.pending.len();
        let may_go_on = !is_last || (!core.is_draining && self.is_content_settled());
        let Some(exchange) = self.pending.get_mut(index) else { return };
        match (command, exchange.progress) {
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
            (Command::Stream(response), Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                if !exchange.begin(&mut core.stamp, &response, Progress::Pulled) {
                    app.abort(id, Abort::Refused);
                }
            }
            (Command::Write(part), Progress::Pushed) => exchange.write(&part),
            (Command::Finish, Progress::Pushed) => exchange.finish(),
            (Command::Fail, Progress::Waiting) => {
                exchange.framing.persistent &= may_go_on;
                exchange.respond(&mut core.stamp, &failure_response());
            }
            (Command::Fail, Progress::Pushed | Progress::Pulled) => exchange.progress = Progress::Cut,
            _ => {}
        }
    }

    /// Whether all content of the last request is read, or so little is left that it can be discarded.
    fn is_content_settled(&self) -> bool {
        match &self.reading {
            Reading::Content(incoming) => incoming.is_discardable(),
            Reading::Head => true,
            Reading::Closing | Reading::Lingering { .. } => false,
        }
    }

    fn read_more<A: App>(&mut self, core: &mut Core, app: &mut A, asker: ExchangeId) {
        let Reading::Content(incoming) = &mut self.reading else { return };
        match &mut incoming.taker {
            Taker::Exchange { id, wants } if *id == asker => *wants = true,
            _ => return,
        }
        if std::mem::take(&mut incoming.owes_continue)
            && incoming.content.is_empty()
            && self.input.is_empty()
            && let Some(exchange) = self.pending.back_mut()
        {
            exchange.out.extend_from_slice(wire::CONTINUE);
        }
        self.is_blocked = false;
        self.hand_over(core, app);
        if !self.input.is_empty() {
            self.resume(core, app);
        }
    }

    /// Moves answers that are next in order to the send buffer.
    fn emit<A: App>(&mut self, core: &mut Core, app: &mut A) {
        while let Some(front) = self.pending.front_mut() {
            core.out.append(&mut front.out);
            if !front.is_ended() {
                return;
            }
            let Some(ended) = self.pending.pop_front() else { return };
            self.since_ms = core.clock.now_ms();
            if let (Some(log), Some(record)) = (&mut core.log, &ended.record) {
                log.add(record, core.clock.unix_s(), core.clock.now_ms());
            }
            self.release_content(ended.id, ended.framing.persistent);
            if ended.progress == Progress::Cut || !ended.framing.persistent {
                self.has_unread |= !self.input.is_empty();
                self.input = Vec::new();
                self.reading = Reading::Closing;
                self.close(app, Abort::Disconnected);
                return;
            }
        }
    }

    /// An answered request's content belongs to nobody any more.
    fn release_content(&mut self, answered: ExchangeId, is_persistent: bool) {
        let Reading::Content(incoming) = &mut self.reading else { return };
        if !matches!(incoming.taker, Taker::Exchange { id, .. } if id == answered) {
            return;
        }
        incoming.taker = Taker::Nobody;
        incoming.content = Vec::new();
        let goes_on = incoming.is_persistent && is_persistent;
        match (goes_on, incoming.is_complete) {
            (false, is_complete) => {
                self.has_unread |= !is_complete;
                self.reading = Reading::Closing;
            }
            (true, true) => self.reading = Reading::Head,
            (true, false) => {}
        }
    }

    /// Sends what is ready, goes on with what it frees, and says what becomes of the connection.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        if self.pending.is_empty() && self.backlog.is_empty() && !self.is_blocked {
            if !core.out.is_empty() && !self.flush(core) {
                return Fate::Close;
            }
            if matches!(self.reading, Reading::Head) && !self.end_of_input {
                return Fate::Open;
            }
            return self.fate();
        }
        self.settle_pending(core, app)
    }

    fn settle_pending<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let mut budget = PULL_BYTES;
        loop {
            self.emit(core, app);
            if !core.out.is_empty() && !self.flush(core) {
                return self.close(app, Abort::Disconnected);
            }
            if !self.backlog.is_empty() {
                return Fate::Open;
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
                if self.input.len() < unused || !core.out.is_empty() {
                    continue;
                }
            }
            if matches!(self.reading, Reading::Closing) || self.pending.is_empty() {
                return self.fate();
            }
            return Fate::Open;
        }
    }

    fn tell_writer<A: App>(&mut self, app: &mut A) {
        if let Some(front) = self.pending.front_mut()
            && front.progress == Progress::Pushed
            && std::mem::take(&mut front.awaits_writable)
        {
            app.writable(front.id);
        }
    }

    /// Asks the application for parts of the answer that is next. True when it brought something.
    fn pull<A: App>(&mut self, app: &mut A, budget: &mut usize) -> bool {
        let Some(front) = self.pending.front_mut() else { return false };
        if front.progress != Progress::Pulled || *budget == 0 {
            return false;
        }
        let mut part = Vec::new();
        while part.is_empty() {
            match app.pull(front.id, &mut part) {
                Pulled::More => {}
                Pulled::End => {
                    push_part(&mut front.out, front.is_chunked, &part);
                    front.finish();
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
        push_part(&mut front.out, front.is_chunked, &part);
        *budget = budget.saturating_sub(part.len());
        true
    }

    /// Sends the worker's send buffer, and keeps what the socket refuses. False when the connection is broken.
    #[inline]
    fn flush(&mut self, core: &mut Core) -> bool {
        if !self.backlog.is_empty() {
            self.backlog.append(&mut core.out);
            return true;
        }
        let result = self.transport.send(&core.out);
        let is_open = match result {
            Sent::Bytes(count) => {
                if let Some(unsent @ [_, ..]) = core.out.get(count..) {
                    self.backlog = unsent.to_vec();
                    self.sent_ms = core.clock.now_ms();
                }
                true
            }
            Sent::Broken(_) => false,
        };
        core.out.clear();
        if core.out.capacity() > crate::worker::SEND_BUFFER_KEPT_BYTES {
            core.out = Vec::with_capacity(crate::worker::SEND_BUFFER_KEPT_BYTES);
        }
        is_open
    }

    /// What becomes of a connection whose answers are all out.
    fn fate(&mut self) -> Fate {
        if !self.pending.is_empty() || !self.backlog.is_empty() {
            return Fate::Open;
        }
        match &self.reading {
            Reading::Head | Reading::Content(_) if self.end_of_input => Fate::Close,
            Reading::Head | Reading::Content(_) => Fate::Open,
            Reading::Closing if self.end_of_input || !self.has_unread => Fate::Close,
            Reading::Closing => {
                self.transport.shutdown_send();
                self.reading = Reading::Lingering { discarded_bytes: 0 };
                self.input = Vec::new();
                Fate::Open
            }
            Reading::Lingering { discarded_bytes } if self.end_of_input || *discarded_bytes > LINGER_BYTES_MAX => Fate::Close,
            Reading::Lingering { .. } => Fate::Open,
        }
    }

    /// What the poller has to watch now.
    #[inline]
    pub(crate) fn wanted_interest(&self) -> Interest {
        let write = !self.backlog.is_empty();
        let takes_input = match &self.reading {
            Reading::Head => true,
            Reading::Content(incoming) => !incoming.is_complete,
            Reading::Closing => false,
            Reading::Lingering { .. } => true,
        };
        Interest { read: takes_input && !write && !self.is_blocked && !self.end_of_input, write }
    }

    /// Begins to refuse a connection that is one too many.
    pub(crate) fn turn_away<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        self.refuse(core, app, 503, "This server has as many connections as it takes; try again shortly.");
        self.settle(core, app)
    }

    /// When something must have happened; `u64::MAX` for never.
    pub(crate) fn deadline_ms(&self, timeouts: &Timeouts) -> u64 {
        let mut deadline = u64::MAX;
        if !self.backlog.is_empty() {
            deadline = Timeouts::end_ms(self.sent_ms, timeouts.write_timeout_ms);
        }
        if let Some(front) = self.pending.iter().find(|exchange| exchange.progress == Progress::Waiting) {
            deadline = deadline.min(Timeouts::end_ms(front.started_ms, timeouts.handler_timeout_ms));
        }
        let reading = match &self.reading {
            Reading::Head if self.has_partial => Timeouts::end_ms(self.since_ms, timeouts.header_timeout_ms),
            Reading::Head if !self.pending.is_empty() || !self.backlog.is_empty() => u64::MAX,
            Reading::Head if self.served_any => Timeouts::end_ms(self.since_ms, timeouts.keep_alive_timeout_ms),
            Reading::Head => Timeouts::end_ms(self.since_ms, timeouts.header_timeout_ms),
            Reading::Content(incoming) => incoming.deadline_ms(timeouts),
            Reading::Closing => u64::MAX,
            Reading::Lingering { .. } => Timeouts::end_ms(self.since_ms, timeouts.linger_timeout_ms.max(1)),
        };
        deadline.min(reading)
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let now_ms = core.clock.now_ms();
        let is_stuck = !self.backlog.is_empty() && Timeouts::end_ms(self.sent_ms, core.timeouts.write_timeout_ms) <= now_ms;
        if is_stuck || matches!(self.reading, Reading::Lingering { .. }) {
            return self.close(app, Abort::Disconnected);
        }
        let handler_timeout_ms = core.timeouts.handler_timeout_ms;
        let is_late = |exchange: &&mut Exchange| {
            exchange.progress == Progress::Waiting && Timeouts::end_ms(exchange.started_ms, handler_timeout_ms) <= now_ms
        };
        if let Some(late) = self.pending.iter_mut().find(is_late) {
            app.abort(late.id, Abort::HandlerTimeout);
            late.framing.persistent = false;
            late.respond(&mut core.stamp, &error_response(503, "The request took too long to answer."));
            return self.settle(core, app);
        }
        match &self.reading {
            Reading::Content(incoming) if matches!(incoming.taker, Taker::Nobody) => return self.close(app, Abort::Disconnected),
            Reading::Content(_) => self.refuse(core, app, 408, "The content came too slowly."),
            Reading::Head if self.has_partial => self.refuse(core, app, 408, "The header section took too long."),
            Reading::Head if self.pending.is_empty() => return Fate::Close,
            _ => {}
        }
        self.settle(core, app)
    }
}

fn is_discardable(head: &RequestHead<'_>) -> bool {
    let is_short = matches!(head.body_length, BodyLength::Known(length) if length <= DISCARD_BYTES_MAX);
    is_short && !head.expects_continue
}

fn failure_response() -> Response {
    error_response(500, "The application failed to answer.")
}

/// A short answer in plain text.
pub(crate) fn error_response(status: u16, reason: &str) -> Response {
    let mut fields = b"Content-Type: text/plain; charset=utf-8\r\n".to_vec();
    if status == 503 {
        fields.extend_from_slice(b"Retry-After: 1\r\n");
    }
    Response { status, fields, content: [reason.as_bytes(), b"\n"].concat() }
}
