//! Requests that no thread took, to be logged by a thread of its own: the reactor needs no interpreter, and the others are busy then.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The least time between two messages.
const PAUSE: Duration = Duration::from_secs(5);

/// What was refused since it was last logged.
#[derive(Default)]
pub(super) struct Refusals {
    counts: Mutex<Counts>,
    changed: Condvar,
}

/// Requests that were answered 503.
#[derive(Default)]
pub(super) struct Counts {
    /// Because the queue was full.
    pub(super) full: u64,
    /// Because they had waited too long.
    pub(super) late: u64,
    is_closed: bool,
}

impl Refusals {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_full(&self) {
        self.counts().full += 1;
        self.changed.notify_one();
    }

    pub(super) fn add_late(&self) {
        self.counts().late += 1;
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.counts().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to log, and takes it; `None` at the end.
    pub(super) fn wait(&self) -> Option<Counts> {
        let is_quiet =
            |counts: &mut Counts| !counts.is_closed && counts.full == 0 && counts.late == 0;
        let waited = self.changed.wait_while(self.counts(), is_quiet);
        let mut counts = waited.unwrap_or_else(PoisonError::into_inner);
        let (full, late) = (counts.full, counts.late);
        (counts.full, counts.late) = (0, 0);
        let is_closed = counts.is_closed;
        (full + late > 0).then_some(Counts {
            full,
            late,
            is_closed,
        })
    }

    /// Lets a while pass, so that a crowd of refusals is one message.
    pub(super) fn pause(&self) {
        let is_open = |counts: &mut Counts| !counts.is_closed;
        let paused = self
            .changed
            .wait_timeout_while(self.counts(), PAUSE, is_open);
        drop(paused);
    }
}
