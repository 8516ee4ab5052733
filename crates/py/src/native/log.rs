//! What is logged about native handlers.

use pyo3::prelude::*;

use super::request::Request;
use crate::run::log;

/// Logs a failure that no error handler can respond to any more.
pub(super) fn log_failure(py: Python<'_>, error: &PyErr, request: Option<&Py<Request>>) {
    let title = request.and_then(|request| title(py, request));
    log::log_failure(py, error, title.as_deref());
}

/// Method and path of a request.
pub(super) fn title(py: Python<'_>, request: &Py<Request>) -> Option<String> {
    request.get().with(py, |state| state.title()).ok()
}
