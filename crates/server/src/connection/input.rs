//! What a connection's input begins: requests, in order, as far as they may run.

use wire::{BodyLength, Progress as Parsed, RequestHead};

use super::answers::{CONTENT_TOO_LONG, failure_response};
use super::content::{DISCARD_BYTES_MAX, Incoming, Taker};
use super::{Connection, Reading};
use crate::access_log::LogRecord;
use crate::app::{App, Content, ExchangeId, Outcome, Request};
use crate::exchange::{Exchange, Progress};
use crate::output::Output;
use crate::responder::{Framing, Responder};
use crate::worker::Core;

impl Connection {
    pub(super) fn feed<A: App>(&mut self, core: &mut Core, app: &mut A, data: &[u8]) {
        if let Reading::Lingering { discarded_bytes } = &mut self.reading {
            *discarded_bytes += data.len() as u64;
            return;
        }
        if self.input.is_empty() {
            let used = self.advance(core, app, data);
            self.input
                .extend_from_slice(data.get(used..).unwrap_or_default());
            return;
        }
        self.input.extend_from_slice(data);
        let is_in_head = matches!(self.reading, Reading::Head) && !self.is_blocked;
        let skips_parsing = is_in_head
            && !wire::worth_parsing(data)
            && wire::within_limits(&self.input, &core.head_limits).is_ok();
        if !skips_parsing {
            self.resume(core, app);
        }
    }

    /// Goes on with input that waited.
    pub(super) fn resume<A: App>(&mut self, core: &mut Core, app: &mut A) {
        self.is_blocked = false;
        let mut input = std::mem::take(&mut self.input);
        let used = self.advance(core, app, &input);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves `data` from its start as far as possible and tells how much of it is used.
    pub(super) fn advance<A: App>(&mut self, core: &mut Core, app: &mut A, data: &[u8]) -> usize {
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
                        if !self.flush(core) {
                            self.reading = Reading::Closing;
                            self.end_of_input = true;
                        }
                        self.is_blocked = self.is_full;
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
        let is_partial =
            !rest.is_empty() && !self.is_blocked && matches!(self.reading, Reading::Head);
        if is_partial && (used > 0 || !self.has_partial) {
            self.since_ms = core.clock.now_ms();
        }
        self.has_partial = is_partial;
        used
    }

    /// Parses a head and starts its exchange. Leaves `rest` as it is when that has to wait.
    #[inline]
    pub(super) fn head<A: App>(&mut self, core: &mut Core, app: &mut A, rest: &mut &[u8]) {
        match &wire::parse_request_with(rest, &core.head_limits, &mut core.memo) {
            Ok(Parsed::Complete(head)) => {
                if !self.pending.is_empty() && !self.may_overtake(core, head) {
                    self.is_blocked = true;
                    return;
                }
                let behind = rest.get(head.consumed..).unwrap_or_default();
                let used = self.begin(core, app, head, behind);
                *rest = behind.get(used..).unwrap_or_default();
            }
            Ok(Parsed::Incomplete) => {}
            Err(error) => {
                self.refuse(core, app, None, error.kind.status(), error.kind.reason());
                *rest = &[];
            }
        }
    }

    /// Whether a request may run beside unanswered ones: all are safe, it has no content, and there are not too many.
    pub(super) fn may_overtake(&self, core: &Core, head: &RequestHead<'_>) -> bool {
        let has_room = (self.pending.len() as u64) < core.limits.pipelined_exchanges_max;
        let is_safe = head.method.is_safe() && head.body_length == BodyLength::None;
        has_room && is_safe && self.pending.iter().all(|exchange| exchange.is_safe)
    }

    /// Hands a request to the application. Gives the bytes of `behind` that were its content.
    #[inline]
    pub(super) fn begin<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        head: &RequestHead<'_>,
        behind: &[u8],
    ) -> usize {
        match head.body_length {
            BodyLength::None => {
                self.call(core, app, head, Content::Whole(b""));
                0
            }
            BodyLength::Known(length) if length > core.limits.body_bytes_max => {
                self.refuse(core, app, Some(head), 413, CONTENT_TOO_LONG);
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
    pub(super) fn call<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        head: &RequestHead<'_>,
        content: Content<'_>,
    ) {
        let is_persistent = head.persistent && !core.is_draining();
        let goes_on = is_persistent && (content != Content::Later || is_discardable(head));
        let id = ExchangeId {
            connection: self.key,
            sequence: core.next_sequence(),
        };
        let start = core.out.len();
        let mut responder =
            Responder::new(&mut core.out, &mut core.stamp, Framing::of(head, goes_on));
        responder.leaves_at_once =
            self.pending.is_empty() && !self.is_full && content != Content::Later;
        let request = Request {
            head,
            content,
            id,
            client: &self.client,
            server: &self.server,
        };
        let outcome = app.call(&request, &mut responder);
        let Responder {
            framing,
            status,
            content_bytes,
            delimiter,
            ..
        } = responder;
        self.served_any = true;
        let is_whole = matches!(outcome, Outcome::Answered | Outcome::AnsweredAhead);
        let is_plain = is_whole && status != 0 && content != Content::Later;
        if is_plain && self.pending.is_empty() {
            self.since_ms = core.clock.now_ms();
            if let Some(log) = &mut core.log {
                let mut record = LogRecord::new(self.client, Some(head), self.since_ms);
                (record.status, record.content_bytes) = (status, content_bytes);
                log.add(&record, core.clock.unix_s(), self.since_ms);
            }
            if outcome == Outcome::AnsweredAhead {
                self.send_ahead(core, app);
            }
            if !framing.persistent {
                self.reading = Reading::Closing;
            }
            return;
        }
        let mut exchange = Exchange {
            id,
            progress: Progress::Waiting,
            framing,
            delimiter,
            is_safe: head.method.is_safe(),
            started_ms: core.clock.now_ms(),
            awaits_writable: false,
            out: Output::new(core.out.split_off(start)),
            record: None,
        };
        if core.log.is_some() {
            let mut record = LogRecord::new(self.client, Some(head), exchange.started_ms);
            record.status = status;
            record.content_bytes = content_bytes;
            exchange.record = Some(Box::new(record));
        }
        self.called(core, exchange, outcome, head, content, is_persistent);
    }

    /// Sends an answer that the application has more to do for, and lets it do that.
    fn send_ahead<A: App>(&mut self, core: &mut Core, app: &mut A) {
        if !self.flush(core) {
            self.reading = Reading::Closing;
            self.end_of_input = true;
        }
        app.answer_left();
    }

    /// Everything but an answer that is complete at once: queues the exchange and decides who takes its content.
    pub(super) fn called(
        &mut self,
        core: &mut Core,
        mut exchange: Exchange,
        outcome: Outcome,
        head: &RequestHead<'_>,
        content: Content<'_>,
        is_persistent: bool,
    ) {
        let is_answered = !exchange.out.tail().is_empty();
        let mut taker = Taker::Nobody;
        match outcome {
            Outcome::ReadContent if content == Content::Later => {
                taker = Taker::Call(head.bytes.into())
            }
            Outcome::Pending => {
                exchange.out.tail().clear();
                exchange.framing.persistent = is_persistent;
                taker = Taker::Exchange {
                    id: exchange.id,
                    wants: false,
                };
            }
            Outcome::Streaming if is_answered => exchange.progress = Progress::Pulled,
            Outcome::Answered if is_answered => exchange.progress = Progress::Done,
            // The application kept no promise: its answer is missing.
            _ => {
                exchange.out.tail().clear();
                exchange.framing.persistent &= is_persistent;
                exchange.respond(&mut core.stamp, &failure_response());
            }
        }
        let goes_on = exchange.framing.persistent;
        if content == Content::Later && (goes_on || !matches!(taker, Taker::Nobody)) {
            let mut incoming = Incoming::new(
                head.body_length,
                taker,
                head.expects_continue,
                is_persistent,
            );
            if matches!(incoming.taker, Taker::Call(_))
                && std::mem::take(&mut incoming.owes_continue)
            {
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
}

fn is_discardable(head: &RequestHead<'_>) -> bool {
    let is_short =
        matches!(head.body_length, BodyLength::Known(length) if length <= DISCARD_BYTES_MAX);
    is_short && !head.expects_continue
}
