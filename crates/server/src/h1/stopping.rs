//! Stopping without waiting any longer: which requests still get a response, and which are truncated.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::input::Refused;
use super::{For, H1, Queued, Reading};
use crate::app::{Abort, App};
use crate::exchange::{Progress, Unfinished};
use crate::link::{Fate, Turn};
use crate::response::{Response, STOPPING};

impl H1 {
    /// Responds with 503 to the request whose response is next, if nothing of it has been sent. Everything after it is given up.
    pub(crate) fn stop<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        unfinished: &mut Unfinished,
    ) -> Fate {
        let mut refused = 0;
        if matches!(&self.reading, Reading::Content(incoming) if incoming.inbound.is_for_call()) {
            // After another one that has not ended, it is truncated too.
            match self.open_exchanges().next() {
                Some(_) => unfinished.cut += 1,
                None => refused = 1,
            }
            self.refuse_content(turn, 503, STOPPING);
        }
        if matches!(self.reading, Reading::Waiting(For::Place)) {
            match self.open_exchanges().next() {
                Some(_) => unfinished.cut += 1,
                None => refused = 1,
            }
            let input = std::mem::take(&mut self.input);
            match self.head_that_waits(&input, turn.context) {
                Some(head) => self.refuse(turn, Refused::Head(&head), 503, STOPPING),
                None => self.refuse_unread(turn, 503, STOPPING),
            }
        }
        let open = self.open_exchanges().count() as u64;
        let next = self
            .queue
            .iter_mut()
            .find(|queued| !queued.exchange.is_ended());
        if let Some(next) = next
            && next.exchange.progress == Progress::Waiting
        {
            refuse(next, turn);
            refused += 1;
            unfinished.cut += open - 1;
        } else {
            unfinished.cut += open;
        }
        unfinished.refused += refused;
        if refused > 0 {
            self.read_no_request(turn);
            self.emit(turn);
        }
        if !turn.context.responder.out.is_empty() {
            // Does not wait until it arrives.
            let _ = turn.link.flush(turn.context, false);
        } else if open == 0 && refused == 0 && turn.link.is_full() {
            // Its last response was complete and is being sent.
            unfinished.cut += 1;
        }
        self.abandon(turn, Abort::Disconnected)
    }
}

fn refuse<A: App>(queued: &mut Queued, turn: &mut Turn<'_, A>) {
    let id = queued.exchange.id;
    // If the application panics, the client must still get its response.
    let abort = AssertUnwindSafe(|| turn.abort(id, Abort::Disconnected));
    let _ = catch_unwind(abort);
    queued.encoding.framing.persistent = false;
    let response = Response::error(503, STOPPING);
    queued.respond(&mut turn.context.responder, &response);
}
