//! The end of a server that waits no longer: who still has a response then, and who is cut.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{H1, Queued, Reading};
use crate::app::{Abort, App};
use crate::exchange::Progress;
use crate::link::{Fate, Turn};
use crate::response::Response;

const REASON: &str = "The server is stopping; try again.";

/// Requests that a stopping server has not finished.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Nothing of their responses was sent: they got 503.
    pub refused: u64,
    /// Their responses were begun, or had to wait for another one: the connection ended before they were complete.
    pub cut: u64,
}

impl H1 {
    /// Responds with 503 to the request whose response is next, if nothing of it was sent; everything after it is given up.
    pub(crate) fn stop<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        unfinished: &mut Unfinished,
    ) -> Fate {
        let mut refused = 0;
        if matches!(&self.reading, Reading::Content(incoming) if incoming.inbound.is_for_call()) {
            // Behind another one that has not ended, it is cut all the same.
            match self.open_exchanges().next() {
                Some(_) => unfinished.cut += 1,
                None => refused = 1,
            }
            self.refuse_content(turn, 503, REASON);
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
            self.read_no_request();
            self.emit(turn);
        }
        if !turn.context.responder.out.is_empty() {
            // Whether it arrives is not waited for.
            let _ = turn.link.flush(turn.context, false);
        } else if open == 0 && refused == 0 && turn.link.is_full() {
            // Its last response was complete, and is on its way.
            unfinished.cut += 1;
        }
        self.abandon(turn, Abort::Disconnected)
    }
}

fn refuse<A: App>(queued: &mut Queued, turn: &mut Turn<'_, A>) {
    let id = queued.exchange.id;
    // A panic of the application must not keep the client from its response.
    let abort = AssertUnwindSafe(|| turn.app.abort(id, Abort::Disconnected));
    let _ = catch_unwind(abort);
    queued.encoding.framing.persistent = false;
    let response = Response::error(503, REASON);
    queued.respond(&mut turn.context.responder, &response);
}
