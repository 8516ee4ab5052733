//! What is logged about applications, in the logger `bolide.error`.

use pyo3::prelude::*;

/// Logs a failure that no error handler can respond to any more.
///
/// `title` names the request: method and path.
pub(crate) fn log_failure(py: Python<'_>, error: &PyErr, title: Option<&str>) {
    let title = title.unwrap_or("a request");
    log(
        py,
        "%s: the response could not be completed",
        title,
        Some(error),
        "error",
    );
}

/// Warns of a handler that has not responded in time, so that the server did.
pub(crate) fn log_late_handler(py: Python<'_>, title: Option<&str>, timeout_ms: u64) {
    let title = title.unwrap_or("a request");
    let message = format!("%s: no response within {timeout_ms} ms (handler_timeout_ms): 503");
    log(py, &message, title, None, "warning");
}

/// Logs that an ASGI application raised, or returned before its response was complete.
pub(crate) fn log_application(py: Python<'_>, title: &str, error: Option<&PyErr>) {
    let message = match error {
        Some(_) => "%s: the application raised",
        None => "%s: the application returned before its response was complete",
    };
    log(py, message, title, error, "error");
}

/// Logs at debug level that a file was shorter than announced, which truncates the response.
pub(crate) fn log_short_file(py: Python<'_>, missing_bytes: u64) {
    let message = "a file was %d bytes shorter than announced, or could not be read: the response is truncated";
    let write = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("bolide.error",))?;
        logger.call_method1("debug", (message, missing_bytes))?;
        Ok(())
    };
    if let Err(error) = write() {
        error.write_unraisable(py, None);
    }
}

/// Logs at debug level an exception that an ASGI application raised because its client had disconnected, which is not an error.
pub(crate) fn log_disconnected(py: Python<'_>, title: &str, error: &PyErr) {
    let message = "%s: the application raised because its client has disconnected";
    log(py, message, title, Some(error), "debug");
}

/// Warns of a field that an application sets and that is the server's to set.
pub(crate) fn log_left_out(py: Python<'_>, field_name: &str) {
    let message = "the application sets the field %s, which is about the connection and the server's to set: it is left out (reported once)";
    log(py, message, field_name, None, "warning");
}

fn log(py: Python<'_>, message: &str, title: &str, error: Option<&PyErr>, level: &str) {
    let write = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("bolide.error",))?;
        let keywords = pyo3::types::PyDict::new(py);
        if let Some(error) = error {
            // Including the traceback, which `value()` leaves out before 3.12.
            keywords.set_item("exc_info", error.clone_ref(py).into_value(py))?;
        }
        logger.call_method(level, (message, title), Some(&keywords))?;
        Ok(())
    };
    if let Err(error) = write() {
        error.write_unraisable(py, None);
    }
}
