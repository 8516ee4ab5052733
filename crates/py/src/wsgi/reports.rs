//! What the reactor has to log, which a separate thread does: the reactor has no interpreter, and the other threads may be busy.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::{OwnedHead, Shortage};

/// The least time between two messages.
const PAUSE: Duration = Duration::from_secs(5);
/// Late views that are named until the next message; others are counted.
const NAMED_MAX: usize = 32;
/// Lines at debug level until the next message; others are left out.
const DETAILS_MAX: usize = 1000;

/// What happened since the last message.
#[derive(Default)]
pub(super) struct Reports {
    state: Mutex<State>,
    changed: Condvar,
}

/// Events since the last message.
#[derive(Default)]
pub(super) struct Counts {
    /// Requests that got 503 because the queue was full.
    pub(super) full: u64,
    /// Requests that got 503 because they had waited too long.
    pub(super) late: u64,
    /// Files that were shorter than announced.
    pub(super) short_files: u64,
    /// The message about the last of them.
    pub(super) short_file: String,
    /// Requests and responses that there was no memory for.
    pub(super) shortage: Option<Shortage>,
    /// Lines at warning level.
    pub(super) warnings: Vec<String>,
    /// Lines at debug level.
    pub(super) details: Vec<String>,
    /// Why responses cannot be written to temporary files.
    pub(super) spool_failure: Option<String>,
    /// Requests whose views did not respond in time.
    pub(super) late_views: Vec<LateView>,
    /// More of them.
    pub(super) more_late_views: u64,
}

/// A request without a response in time.
pub(super) struct LateView {
    pub(super) head: OwnedHead,
    /// The milliseconds that it had.
    pub(super) after_ms: u64,
    /// A thread has taken it.
    pub(super) has_begun: bool,
}

#[derive(Default)]
struct State {
    counts: Counts,
    is_closed: bool,
}

impl Reports {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event.
    pub(super) fn add(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
        self.changed.notify_one();
    }

    /// Records a request whose view did not respond in time.
    pub(super) fn add_late_view(&self, view: LateView) {
        self.add(|counts| match counts.late_views.len() < NAMED_MAX {
            true => counts.late_views.push(view),
            false => counts.more_late_views += 1,
        });
    }

    /// Adds a line at warning level. There are a few every five seconds; nobody may take them for long.
    pub(super) fn add_warning(&self, line: &str) {
        self.add(|counts| {
            if counts.warnings.len() < NAMED_MAX {
                counts.warnings.push(line.to_owned());
            }
        });
    }

    /// Adds a line at debug level.
    pub(super) fn add_detail(&self, line: &str) {
        self.add(|counts| {
            if counts.details.len() < DETAILS_MAX {
                counts.details.push(line.to_owned());
            }
        });
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to log, and takes it; `None` when the pool is closed.
    pub(super) fn wait(&self) -> Option<Counts> {
        let is_quiet = |state: &mut State| !state.is_closed && state.counts.is_empty();
        let waited = self.changed.wait_while(self.state(), is_quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let counts = std::mem::take(&mut state.counts);
        (!counts.is_empty()).then_some(counts)
    }

    /// Waits a while, so that a burst of events becomes one message.
    pub(super) fn pause(&self) {
        let is_open = |state: &mut State| !state.is_closed;
        let paused = self
            .changed
            .wait_timeout_while(self.state(), PAUSE, is_open);
        drop(paused);
    }
}

impl Counts {
    fn is_empty(&self) -> bool {
        let counted = self.full + self.late + self.short_files;
        counted == 0
            && self.late_views.is_empty()
            && self.warnings.is_empty()
            && self.details.is_empty()
            && self.shortage.is_none()
            && self.spool_failure.is_none()
    }

    /// The message about files that were shorter than announced.
    pub(super) fn of_short_files(&self) -> String {
        match self.short_files {
            1 => self.short_file.clone(),
            count => format!("{} ({count} files since the last report)", self.short_file),
        }
    }
}
