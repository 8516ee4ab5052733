//! Requests that are looked at before they begin: some wait, and some are refused ([`crate::context::admission`]).

use wire::{Progress, RequestHead};

use super::content::Incoming;
use super::input::{content_in, is_discardable};
use super::queue::{Encoding, Queued};
use super::upgrade::report_lost_upgrade;
use super::{Ending, For, H1, Reading};
use crate::app::head::{Head, OwnedHead, ReadHead};
use crate::app::{App, Content};
use crate::context::Context;
use crate::context::admission::{Refused, Verdict};
use crate::context::waiting::Grant;
use crate::exchange::Exchange;
use crate::exchange::content::Taker;
use crate::id::ExchangeId;
use crate::link::{Fate, Turn};
use crate::responder::{Delimiter, Framing};

impl H1 {
    /// As [`H1::begin`], for a request that may be a proxy's, whose head may have to be another one, or that is looked at. Returns None if it
    /// has to wait.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_guarded<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> Option<usize> {
        let has_lost_upgrade = head.notes.has_lost_upgrade();
        let outer = turn.outer_head(head);
        let read = outer.as_ref().and_then(OwnedHead::read);
        let head = read.as_ref().map_or(head, ReadHead::parsed);
        if turn.context.is_guarded {
            // Another one is served as if it had not asked (RFC 9110 section 7.8), and so waits as others do.
            let is_handshake = head.asks_websocket && turn.app.takes_websocket(&Head::of(head));
            match turn.admit(head, is_handshake) {
                Verdict::Begin => {}
                Verdict::Refuse(refused) => {
                    return Some(self.turn_down(turn, head, after, refused));
                }
                Verdict::Wait => {
                    self.reading = Reading::Waiting(For::Place);
                    turn.context.queue(turn.link.id, 0);
                    if turn.link.is_half_closed() {
                        turn.link.watch_departure_anew(turn.context.clock.now_ms());
                    }
                    return None;
                }
            }
        }
        if has_lost_upgrade {
            report_lost_upgrade(turn, head);
        }
        Some(self.begin(turn, head, after))
    }

    /// Refuses a request in its place in the order. The connection remains, unless the request's content would have to be read. Returns how
    /// many of the bytes `after` it were its content.
    fn turn_down<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
        after: &[u8],
        refused: Refused,
    ) -> usize {
        turn.context.count_refused(refused);
        let content = match head.body_length {
            wire::BodyLength::None => Content::Whole(b""),
            wire::BodyLength::Known(length) => match content_in(after, length) {
                Some(content) => Content::Whole(content),
                None => Content::Later,
            },
            wire::BodyLength::Chunked => Content::Later,
        };
        let is_persistent = head.persistent && !turn.context.is_draining();
        let goes_on = is_persistent && (content != Content::Later || is_discardable(head));
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        let mut queued = Queued {
            exchange: Exchange {
                record: turn.record(turn.now_ms(), Some(head), (0, 0)),
                ..Exchange::new(id, turn.now_ms(), 0)
            },
            encoding: Encoding {
                framing: Framing::of(head, goes_on),
                delimiter: Delimiter::End,
            },
            is_safe: head.method.is_safe(),
        };
        queued.respond(&mut turn.context.responder, &refused.response());
        self.queue.push_back(queued);
        let (ending, used) = match content {
            Content::Whole(content) => (Ending::after(head), content.len()),
            Content::Later => (Ending::Unread, 0),
        };
        if !goes_on {
            self.stop_reading(ending);
        } else if content == Content::Later {
            let rest = Incoming::new(
                head.body_length,
                Taker::Nobody,
                false,
                is_persistent,
                turn.context,
            );
            self.reading = Reading::Content(Box::new(rest));
        }
        used
    }

    /// Whether the request whose content is complete may be called now. If not, it waits, or is refused.
    pub(super) fn may_call<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let Reading::Content(incoming) = &mut self.reading else {
            return false;
        };
        if incoming.inbound.is_queued {
            return false;
        }
        if incoming.inbound.bounds().has_waited {
            return true;
        }
        match turn.queue_verdict() {
            Verdict::Begin => true,
            Verdict::Wait => {
                incoming.inbound.is_queued = true;
                turn.context.queue(turn.link.id, 0);
                false
            }
            Verdict::Refuse(refused) => {
                self.refuse_collected(turn, refused);
                false
            }
        }
    }

    fn refuse_collected<A: App>(&mut self, turn: &mut Turn<'_, A>, refused: Refused) {
        let Reading::Content(incoming) = &mut self.reading else {
            return;
        };
        let is_persistent = incoming.is_persistent;
        if let Some((head, content)) = incoming.inbound.take_call()
            && let Some(head) = head.read()
        {
            turn.context.repeats_request();
            self.content_is_over(turn, is_persistent);
            let mut head = *head.parsed();
            // It has been read.
            head.body_length = wire::BodyLength::Known(content.len() as u64);
            self.turn_down(turn, &head, &content, refused);
        }
    }

    /// Continues with a request that waited.
    pub(crate) fn granted<A: App>(&mut self, turn: &mut Turn<'_, A>, grant: Grant) -> Fate {
        match &mut self.reading {
            Reading::Waiting(For::Place) => {
                let waited_ms = turn.context.admission.waited_ms;
                self.resume_granted(turn, grant, waited_ms);
            }
            Reading::Content(incoming) if incoming.inbound.is_queued => match grant {
                Grant::Begin => self.call_collected(turn),
                Grant::Refuse => self.refuse_collected(turn, Refused::QueueTimeout),
            },
            _ => {}
        }
        self.settle(turn)
    }

    /// As [`H1::resume`], for a request that has waited for a place. If it may begin and an earlier exchange stops it, it waits for that only.
    #[cold]
    pub(super) fn resume_granted<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        grant: Grant,
        waited_ms: u64,
    ) {
        turn.context.admission.grant = Some(grant);
        turn.context.admission.waited_ms = waited_ms;
        self.resume(turn);
        turn.context.admission.waited_ms = 0;
        let is_left = turn.context.admission.grant.take().is_some();
        if is_left && matches!(self.reading, Reading::Waiting(For::Exchange)) {
            let waited_ms = u32::try_from(waited_ms).unwrap_or(u32::MAX);
            self.reading = Reading::Waiting(For::Granted { waited_ms });
        }
    }

    /// As [`H1::resume`], for a request that might have begun before. If others have taken its place meanwhile, it gets the next one.
    #[cold]
    pub(super) fn resume_late<A: App>(&mut self, turn: &mut Turn<'_, A>, waited_ms: u64) {
        if turn.context.admission.has_place(turn.app.running()) {
            return self.resume_granted(turn, Grant::Begin, waited_ms);
        }
        self.reading = Reading::Waiting(For::Place);
        turn.context.queue_again(turn.link.id, 0, waited_ms);
    }

    /// The head of a request that waits for a place: it is the start of the `input`.
    pub(super) fn head_that_waits<'a>(
        &self,
        input: &'a [u8],
        context: &Context,
    ) -> Option<RequestHead<'a>> {
        if !matches!(self.reading, Reading::Waiting(For::Place)) {
            return None;
        }
        match wire::parse_request(input, &context.head_limits) {
            Ok(Progress::Complete(head)) => Some(head),
            Ok(Progress::Incomplete) | Err(_) => None,
        }
    }

    /// Its next request does not wait for a place any more, if it does: it will have no response, and only its record is left. To be called
    /// before its input is dropped.
    pub(super) fn give_up_place<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if self.waits_for_place() {
            turn.context.leave_queue(turn.link.id, None);
            self.record_abandoned_call(turn);
        }
    }

    /// Whether its next request waits until fewer others run.
    pub(super) fn waits_for_place(&self) -> bool {
        match &self.reading {
            Reading::Waiting(For::Place) => true,
            Reading::Content(incoming) => incoming.inbound.is_queued,
            _ => false,
        }
    }
}
