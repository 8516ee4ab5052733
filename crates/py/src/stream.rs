//! What handlers await besides futures: a value that is there, and the sending side of a streamed answer.

use std::sync::Arc;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::shared::{STREAM_AHEAD_BYTES, Shared};

/// An awaitable that never suspends.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Ready {
    value: Option<Py<PyAny>>,
}

impl Ready {
    /// An awaitable that gives `value`, or None.
    pub(crate) fn with(py: Python<'_>, value: Option<Py<PyAny>>) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, Ready { value })?.into_any())
    }
}

#[pymethods]
impl Ready {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let value = self
            .value
            .as_ref()
            .map_or_else(|| py.None(), |value| value.clone_ref(py));
        Err(PyStopIteration::new_err((value,)))
    }
}

/// The sending side of a streamed answer.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Stream {
    pub(crate) id: ExchangeId,
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Stream {
    /// Sends a part; the awaitable is done when it is accepted into a bounded buffer.
    fn send<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let ahead_bytes = self
            .shared
            .exchanges()
            .get_mut(&self.id)
            .and_then(|exchange| {
                exchange.ahead_bytes += data.len();
                (!exchange.is_disconnected).then_some(exchange.ahead_bytes)
            });
        let Some(ahead_bytes) = ahead_bytes else {
            return Err(self.shared.disconnection(py));
        };
        if !data.is_empty() {
            self.shared.post(py, self.id, Command::Write(data.to_vec()));
        }
        if ahead_bytes < STREAM_AHEAD_BYTES {
            return Ready::with(py, None);
        }
        let future = self.shared.create_future(py)?;
        if let Some(exchange) = self.shared.exchanges().get_mut(&self.id) {
            exchange.writer = Some(future.clone().unbind());
        }
        Ok(future)
    }
}
