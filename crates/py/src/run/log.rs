//! What is logged about applications, in the logger `bolide.error`.

use std::os::fd::AsRawFd as _;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{FilePart, Head, Shortage};

/// Appends the name of a request in the log: method and path, as received, and its id in brackets if it has one.
pub(crate) fn push_title(title: &mut Vec<u8>, head: Head<'_>) {
    for part in [head.method_name(), b" ", head.path()] {
        title.extend_from_slice(part);
    }
    if let Some(id) = head.request_id() {
        push_id(title, id);
    }
}

/// Appends the id of a request to its name.
pub(crate) fn push_id(title: &mut Vec<u8>, id: &str) {
    for part in [" [", id, "]"] {
        title.extend_from_slice(part.as_bytes());
    }
}

/// The id in the name of a request. Neither method nor path has a space.
fn id_in(title: &str) -> Option<&str> {
    let id = title.split(' ').nth(2)?;
    id.strip_prefix('[')?.strip_suffix(']')
}

/// Logs a failure that no error handler can respond to any more.
///
/// `title` names the request: method and path.
pub(crate) fn log_failure(py: Python<'_>, error: &PyErr, title: Option<&str>) {
    let title = title.unwrap_or("a request");
    let message = "%s: the response could not be completed";
    log_about(py, "error", (message, title), Some(error));
}

/// What was late.
pub(crate) enum Late {
    /// The handler: its client got 503.
    Handler,
    /// A handler whose client has left.
    Orphan,
    /// The thread that was to call the handler: the client got 503.
    Thread,
}

/// Warns of a handler that has not responded in time, so that the server has responded if the client is still there.
pub(crate) fn log_late_handler(py: Python<'_>, title: Option<&str>, timeout_ms: u64, late: Late) {
    let title = title.unwrap_or("a request");
    let (what, then) = match late {
        Late::Handler => ("no response within", "(handler_timeout_ms): 503"),
        Late::Orphan => (
            "no response within",
            "(handler_timeout_ms): cancelled; its client has left",
        ),
        Late::Thread => (
            "no thread was free within",
            "(threads, handler_timeout_ms): 503",
        ),
    };
    let message = format!("%s: {what} {timeout_ms} ms {then}");
    log_about(py, "warning", (&message, title), None);
}

/// Logs that an ASGI application raised, or returned before its response was complete.
pub(crate) fn log_application(py: Python<'_>, title: &str, error: Option<&PyErr>) {
    let message = match error {
        Some(_) => "%s: the application raised",
        None => "%s: the application returned before its response was complete",
    };
    log_about(py, "error", (message, title), error);
}

/// The message about a file that cannot be read, or ends before the rest of `part`.
pub(crate) fn cut_short(part: &FilePart) -> String {
    // The kernel knows the file's name, which the application may not.
    let path = format!("/proc/self/fd/{}", part.file.as_raw_fd());
    let name = std::fs::read_link(path).unwrap_or_default();
    let size = part.file.metadata().map_or(0, |found| found.len());
    // Escaped: a name may contain what looks like another line.
    format!(
        "the file {} ended {} bytes too early, or could not be read; it has {size} bytes: its response is truncated",
        name.to_string_lossy().escape_debug(),
        part.length,
    )
}

/// Logs that there was no memory for requests or their responses.
pub(crate) fn log_shortage(py: Python<'_>, shortage: &Shortage) {
    log(py, "error", ("%s", shortage.to_string()), None);
}

/// Warns of something that no request has caused.
pub(crate) fn log_warning(py: Python<'_>, message: &str) {
    log(py, "warning", ("%s", message), None);
}

/// Logs at debug level something that is otherwise only counted.
pub(crate) fn log_detail(py: Python<'_>, message: &str) {
    log(py, "debug", ("%s", message), None);
}

/// Logs at debug level an exception that an ASGI application raised because its client had disconnected, which is not an error.
pub(crate) fn log_disconnected(py: Python<'_>, title: &str, error: &PyErr) {
    let message = "%s: the application raised because its client has disconnected";
    log_about(py, "debug", (message, title), Some(error));
}

/// Warns of a field that an application sets and that is the server's to set.
pub(crate) fn log_left_out(py: Python<'_>, field_name: &str) {
    let message = "the application sets the field %s, which is about the connection and only the server sets: it is left out (reported once)";
    log(py, "warning", (message, field_name), None);
}

/// Warns of a subprotocol that an application accepts and its client does not offer.
pub(crate) fn log_left_out_subprotocol(py: Python<'_>, name: &str) {
    let message = "the application accepts a WebSocket with the subprotocol %r, which its client does not offer: it is accepted without one \
        (RFC 6455 section 4.2.2; reported once)";
    log(py, "warning", (message, name), None);
}

/// Logs a message about the request with that name, whose id is an attribute of the record too.
pub(crate) fn log_about(
    py: Python<'_>,
    level: &str,
    (message, title): (&str, &str),
    error: Option<&PyErr>,
) {
    write(py, level, (message, title), (error, id_in(title)));
}

/// Logs a message with its arguments. Python reports an exception in doing so as unraisable.
pub(crate) fn log<'py>(
    py: Python<'py>,
    level: &str,
    arguments: impl PyCallArgs<'py>,
    error: Option<&PyErr>,
) {
    write(py, level, arguments, (error, None));
}

fn write<'py>(
    py: Python<'py>,
    level: &str,
    arguments: impl PyCallArgs<'py>,
    (error, request_id): (Option<&PyErr>, Option<&str>),
) {
    let write = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("bolide.error",))?;
        let keywords = PyDict::new(py);
        if let Some(error) = error {
            // Including the traceback, which `value()` leaves out before 3.12.
            keywords.set_item("exc_info", error.clone_ref(py).into_value(py))?;
        }
        if let Some(id) = request_id {
            let extra = PyDict::new(py);
            extra.set_item("request_id", id)?;
            keywords.set_item("extra", extra)?;
        }
        logger.call_method(level, arguments, Some(&keywords))?;
        Ok(())
    };
    if let Err(error) = write() {
        error.write_unraisable(py, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_in_a_title() {
        let mut title = b"GET /a[b]".to_vec();
        assert_eq!(id_in("GET /a[b]"), None);
        push_id(&mut title, "c]:d");
        assert_eq!(id_in(str::from_utf8(&title).unwrap()), Some("c]:d"));
        for title in ["", "a request", "3 more request(s)", "GET /"] {
            assert_eq!(id_in(title), None, "{title}");
        }
    }
}
