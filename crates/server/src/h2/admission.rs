//! Requests that are looked at before they begin: some wait, and some are refused ([`crate::context::admission`]).

use net::memory::is_short;
use wire::RequestHead;
use wire::h2::Violation;

use super::H2;
use super::request::{Known, New};
use crate::app::App;
use crate::app::head::{OwnedHead, ReadHead};
use crate::context::REQUEST_SPARE_BYTES;
use crate::context::admission::{Refused, Verdict};
use crate::context::waiting::Grant;
use crate::link::{Fate, Turn};

impl H2 {
    /// As [`H2::begin`], for a request that may be a proxy's, whose head may have to be another one, or that is looked at.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_guarded<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        new: New,
        head: &RequestHead<'_>,
        after: &[u8],
    ) -> Result<usize, Violation> {
        let outer = turn.outer_head(head);
        let read = outer.as_ref().and_then(OwnedHead::read);
        let head = read.as_ref().map_or(head, ReadHead::parsed);
        let verdict = match turn.context.is_guarded {
            true => turn.admit(head, head.asks_websocket),
            false => Verdict::Begin,
        };
        if let Verdict::Refuse(refused) = verdict {
            turn.context.count_refused(refused);
            let response = refused.response();
            self.refuse_with(turn, new, Known::Head(head), "", response);
            return Ok(0);
        }
        if verdict == Verdict::Wait {
            let growth_bytes = self.growth_bytes();
            if is_short(REQUEST_SPARE_BYTES + growth_bytes) {
                return self.refuse_for_memory(turn, new, head, growth_bytes);
            }
            if turn.context.budget.is_pressed() && self.exceeds_budget(turn, new, head, after) {
                return Ok(0);
            }
            self.defer(turn, new, head);
            self.wait_for_place(turn, self.streams.len().wrapping_sub(1));
            return Ok(0);
        }
        self.begin(turn, new, head, after)
    }

    fn wait_for_place<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) {
        if let Some(stream) = self.streams.get_mut(index)
            && let Some(inbound) = &mut stream.inbound
        {
            inbound.is_queued = true;
            turn.context.queue(turn.link.id, stream.id);
        }
    }

    /// Whether a request that is ready may be called now. If not, it waits, or is refused.
    pub(super) fn may_call<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize) -> bool {
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        if let Some(inbound) = &mut stream.inbound {
            if inbound.bounds().has_waited {
                return true;
            }
            if let Some(waited_ms) = inbound.granted_after_ms {
                return self.may_call_late(turn, index, waited_ms);
            }
        }
        match turn.queue_verdict() {
            Verdict::Begin => return true,
            Verdict::Wait => self.wait_for_place(turn, index),
            Verdict::Refuse(refused) => self.refuse_queued(turn, index, refused),
        }
        false
    }

    /// As [`H2::may_call`], for a request that might have begun before. If others have taken its place meanwhile, it gets the next one, and so do
    /// others of the connection.
    #[cold]
    fn may_call_late<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        waited_ms: u64,
    ) -> bool {
        if turn.context.admission.has_place(turn.app.running()) {
            let stream = self.streams.get_mut(index);
            if let Some(inbound) = stream.and_then(|stream| stream.inbound.as_mut()) {
                inbound.note_wait();
            }
            turn.context.admission.waited_ms = waited_ms;
            return true;
        }
        // In the order of their streams, of which the last one added is the first.
        for stream in self.streams.iter_mut().rev() {
            if let Some(inbound) = &mut stream.inbound
                && let Some(waited_ms) = inbound.granted_after_ms.take()
            {
                inbound.is_queued = true;
                turn.context.queue_again(turn.link.id, stream.id, waited_ms);
            }
        }
        false
    }

    fn refuse_queued<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, refused: Refused) {
        turn.context.count_refused(refused);
        self.give_up(turn, index, refused.response());
    }

    /// Continues with a request that waited. If responses of its connection have to be sent first, it is started after them.
    pub(crate) fn granted<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        stream: u32,
        grant: Grant,
    ) -> Fate {
        // If not, it is looked at again when it may: others have its place, and it has its turn.
        let may_start = !turn.link.is_full() && self.has_room(turn);
        if let Some(index) = self.index_of(stream)
            && let Some(waiting) = self.streams.get_mut(index)
            && let Some(inbound) = &mut waiting.inbound
            && std::mem::take(&mut inbound.is_queued)
        {
            if may_start || grant == Grant::Refuse {
                inbound.note_wait();
            }
            match grant {
                Grant::Begin if !may_start => {
                    inbound.granted_after_ms = Some(turn.context.admission.waited_ms);
                }
                Grant::Begin => self.start_or_refuse(turn, index),
                Grant::Refuse => self.refuse_queued(turn, index, Refused::QueueTimeout),
            }
        }
        // That of this request, and of no other.
        turn.context.admission.waited_ms = 0;
        self.settle(turn)
    }
}
