//! Log messages about applications, on the logger `bolide.error`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::Head;

/// Method and path as received.
pub(super) fn title(head: Head<'_>) -> String {
    let (method, path) = (head.method_name(), head.path());
    format!("{} {}", method.escape_ascii(), path.escape_ascii())
}

/// The application raised; the client gets a 500, or a truncated response.
#[cold]
pub(super) fn raised(py: Python<'_>, title: &str, error: &PyErr) {
    log(
        py,
        "error",
        &format!("{title}: the application raised"),
        Some(error),
    );
}

/// The `close` of what the application returned raised; the response is not affected.
#[cold]
pub(super) fn failed_to_close(py: Python<'_>, error: &PyErr) {
    log(
        py,
        "error",
        "close() of what the application returned raised",
        Some(error),
    );
}

/// The content does not have the length that Content-Length announced.
#[cold]
pub(super) fn wrong_length(py: Python<'_>, title: &str, is_short: bool) {
    let message = match is_short {
        true => "its content is shorter than its Content-Length: the connection is closed",
        false => "its content is longer than its Content-Length: the rest is dropped",
    };
    log(py, "error", &format!("{title}: {message}"), None);
}

/// Files were shorter than announced, or could not be read, so their responses were truncated.
#[cold]
pub(super) fn short_files(py: Python<'_>, count: u64) {
    let message = format!(
        "{count} file(s) were shorter than announced, or could not be read: their responses are truncated"
    );
    log(py, "debug", &message, None);
}

/// Something that an operator should know.
#[cold]
pub(super) fn warning(py: Python<'_>, message: &str) {
    log(py, "warning", message, None);
}

fn log(py: Python<'_>, level: &str, message: &str, error: Option<&PyErr>) {
    let write = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("bolide.error",))?;
        let keywords = PyDict::new(py);
        if let Some(error) = error {
            // Including the traceback, which `value()` leaves out before 3.12.
            keywords.set_item("exc_info", error.clone_ref(py).into_value(py))?;
        }
        logger.call_method(level, ("%s", message), Some(&keywords))?;
        Ok(())
    };
    if let Err(error) = write() {
        error.write_unraisable(py, None);
    }
}
