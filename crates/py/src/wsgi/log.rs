//! Log messages about applications, on the logger `bolide.error`.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use server::Head;

use crate::run::log::{log, log_about, push_title};

/// The stream `wsgi.errors`, and in how many threads an application has left a line of it unfinished.
pub(crate) struct ErrorLines {
    pub(super) stream: Py<PyAny>,
    unfinished: AtomicUsize,
}

impl ErrorLines {
    pub(super) fn new(stream: Py<PyAny>) -> ErrorLines {
        ErrorLines {
            stream,
            unfinished: AtomicUsize::new(0),
        }
    }

    /// A thread has begun a line that it leaves unfinished, or has finished it.
    pub(super) fn note(&self, is_unfinished: bool) {
        let change = |count: usize| match is_unfinished {
            true => count.checked_add(1),
            // A finalizer that writes within a write may note its end only.
            false => count.checked_sub(1),
        };
        let order = Ordering::Relaxed;
        let _ = self.unfinished.fetch_update(order, order, change);
    }

    /// Whether a thread may have left a line unfinished.
    #[inline]
    pub(super) fn has_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed) != 0
    }

    /// A call of the application has ended: writes the line that this thread has left unfinished.
    #[inline]
    pub(super) fn call_ended(&self, py: Python<'_>) {
        if self.has_unfinished() {
            self.finish(py);
        }
    }

    #[cold]
    fn finish(&self, py: Python<'_>) {
        if let Err(error) = self.stream.call_method0(py, "flush") {
            error.write_unraisable(py, Some(self.stream.bind(py)));
        }
    }
}

/// The name of a request.
pub(super) fn title(head: Head<'_>) -> String {
    let mut title = Vec::new();
    push_title(&mut title, head);
    title.escape_ascii().to_string()
}

/// The application raised; the client gets a 500, or a truncated response.
#[cold]
pub(super) fn raised(py: Python<'_>, title: &str, error: &PyErr) {
    let message = "%s: the application raised";
    log_about(py, "error", (message, title), Some(error));
}

/// The `close` of what the application returned raised; the response is not affected.
#[cold]
pub(super) fn failed_to_close(py: Python<'_>, title: &str, error: &PyErr) {
    let message = "%s: close() of what the application returned raised";
    log_about(py, "error", (message, title), Some(error));
}

/// The content does not have the length that Content-Length announced.
#[cold]
pub(super) fn wrong_length(py: Python<'_>, title: &str, is_short: bool) {
    let message = match is_short {
        true => "%s: its content is shorter than its Content-Length: the connection is closed",
        false => "%s: its content is longer than its Content-Length: the rest is dropped",
    };
    log_about(py, "error", (message, title), None);
}

/// Something that an operator should know.
#[cold]
pub(super) fn warning(py: Python<'_>, message: &str) {
    log(py, "warning", ("%s", message), None);
}
