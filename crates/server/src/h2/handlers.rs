//! The application's handlers, as the streams of a connection know them: a panic concerns its stream only, and handlers that outlive their
//! streams are counted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::app::{Abort, App};
use crate::id::ExchangeId;
use crate::link::Turn;

/// Handlers that were notified of the end of their streams and may still be running: the client must not accumulate them by resets.
#[derive(Default, Debug)]
pub(super) struct Handlers {
    aborted: Vec<ExchangeId>,
}

impl Handlers {
    /// Notifies the handler of an exchange that has ended before its response was complete. A panic is caught: others go on.
    pub(super) fn abort<A: App>(&mut self, turn: &mut Turn<'_, A>, id: ExchangeId, why: Abort) {
        let _ = guarded(|| turn.abort(id, why));
        self.note_end(turn.app, id);
    }

    /// The stream of an exchange is over, and its handler knows. Counts the handler if it is still running.
    pub(super) fn note_end<A: App>(&mut self, app: &mut A, id: ExchangeId) {
        if self.aborted.contains(&id) {
            return;
        }
        if self.aborted.len() == self.aborted.capacity() {
            self.forget_ended(app);
        }
        if is_running(app, id) {
            self.aborted.push(id);
        }
    }

    /// The number of those that may still be running.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.aborted.len() as u64
    }

    /// Forgets those that have ended.
    #[cold]
    pub(super) fn forget_ended<A: App>(&mut self, app: &mut A) {
        self.aborted.retain(|id| is_running(app, *id));
        if self.aborted.is_empty() {
            self.aborted = Vec::new();
        }
    }

    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.aborted.capacity() * size_of::<ExchangeId>()
    }
}

fn is_running<A: App>(app: &mut A, id: ExchangeId) -> bool {
    guarded(|| app.is_running(id)).unwrap_or(false)
}

/// Calls the application; None if it has panicked, which ends the stream that it was called for.
pub(super) fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
