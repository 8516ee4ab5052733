//! `receive()`: the messages from the client.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use server::Command;

use super::call::AsgiCall;
use crate::ffi::{Awaitable, Sent};
use crate::run::awaitable::awaitable;

/// The awaitable that `receive()` returns. It takes its message when it resumes, so that none is lost if it is cancelled.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Receiving {
    call: Py<AsgiCall>,
}

impl Receiving {
    pub(crate) fn of(call: Bound<'_, AsgiCall>) -> Receiving {
        Receiving {
            call: call.unbind(),
        }
    }
}

impl Awaitable for Receiving {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let call = self.call.get();
        match next_message(py, call) {
            Ok(Some(message)) => Sent::Returned(message.into_any()),
            Ok(None) => wait(py, call).map_or_else(Sent::raised, Sent::Yielded),
            Err(error) => Sent::raised(error),
        }
    }
}

awaitable!(Receiving);

/// The next message for the application, or None if there is none yet.
fn next_message<'py>(py: Python<'py>, call: &AsgiCall) -> PyResult<Option<Bound<'py, PyDict>>> {
    let is_over = call.is_over(py)?;
    let id = call.id(py)?;
    let state = call.exchanges().change(id, |open| {
        let part = open.take_content();
        let is_last = open.content_ended && open.has_no_content();
        // Content that is left when a response without content is complete goes to no application.
        (part, is_last, open.is_gone(), open.peer_ended)
    });
    let (part, is_last, is_gone, peer_ended) = state.unwrap_or((None, false, false, false));
    let content = call.next_content(py, part, is_last)?;
    if is_gone {
        call.exchanges().set_reported(id);
    }
    if is_over || is_gone {
        return disconnect(py).map(Some);
    }
    if let Some((content, is_last)) = content {
        return request(py, content, is_last).map(Some);
    }
    // The server still holds content received before the end, or will report that the content was truncated.
    if peer_ended && !call.has_more(py)? {
        call.exchanges().set_reported(id);
        return disconnect(py).map(Some);
    }
    Ok(None)
}

fn request(
    py: Python<'_>,
    content: Option<Py<PyBytes>>,
    is_last: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let content = content.unwrap_or_else(|| PyBytes::new(py, b"").unbind());
    let message = PyDict::new(py);
    message.set_item(pyo3::intern!(py, "type"), pyo3::intern!(py, "http.request"))?;
    message.set_item(pyo3::intern!(py, "body"), content)?;
    message.set_item(pyo3::intern!(py, "more_body"), !is_last)?;
    Ok(message)
}

fn disconnect(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let message = PyDict::new(py);
    let kind = pyo3::intern!(py, "http.disconnect");
    message.set_item(pyo3::intern!(py, "type"), kind)?;
    Ok(message)
}

/// A future that is done when there may be a message.
fn wait<'py>(py: Python<'py>, call: &AsgiCall) -> PyResult<Bound<'py, PyAny>> {
    let id = call.id(py)?;
    call.open(py, |_| {})?;
    let future = call.exchanges().wait_to_read(py, id)?;
    if call.has_more(py)? {
        call.exchanges().post(py, id, Command::Read);
    }
    Ok(future)
}
