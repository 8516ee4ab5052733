//! Log messages about applications, on the logger `bolide.error`.

use pyo3::prelude::*;
use server::Head;

use crate::run::log::{log, log_about, push_title};

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
