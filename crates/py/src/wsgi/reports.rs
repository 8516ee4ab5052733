//! What the reactor has to log, by a thread for that: itself it needs no interpreter, and the others may be busy.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The least time between two messages.
const PAUSE: Duration = Duration::from_secs(5);

/// What happened since it was last logged.
#[derive(Default)]
pub(super) struct Reports {
    standing: Mutex<Standing>,
    changed: Condvar,
}

/// How often it happened.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// A request was answered 503 because the queue was full.
    pub(super) full: u64,
    /// A request was answered 503 because it had waited too long.
    pub(super) late: u64,
    /// A file ended before its answer did.
    pub(super) short_files: u64,
}

#[derive(Default)]
struct Standing {
    counts: Counts,
    is_closed: bool,
}

impl Reports {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what happened.
    pub(super) fn add(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.standing().counts);
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.standing().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to log, and takes it; `None` at the end.
    pub(super) fn wait(&self) -> Option<Counts> {
        let is_quiet = |standing: &mut Standing| !standing.is_closed && standing.counts.is_empty();
        let waited = self.changed.wait_while(self.standing(), is_quiet);
        let mut standing = waited.unwrap_or_else(PoisonError::into_inner);
        let counts = std::mem::take(&mut standing.counts);
        (!counts.is_empty()).then_some(counts)
    }

    /// Lets a while pass, so that what happens to a crowd is one message.
    pub(super) fn pause(&self) {
        let is_open = |standing: &mut Standing| !standing.is_closed;
        let paused = self
            .changed
            .wait_timeout_while(self.standing(), PAUSE, is_open);
        drop(paused);
    }
}

impl Counts {
    fn is_empty(self) -> bool {
        self.full == 0 && self.late == 0 && self.short_files == 0
    }
}
