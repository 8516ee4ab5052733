//! What handlers await besides futures: a value that is there, and the sending side of a streamed answer.

use std::sync::Arc;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::shared::Shared;

/// Makes a type an awaitable of which `__next__` is the whole.
macro_rules! awaitable {
    ($name:ident { $($next:tt)* }) => {
        #[pymethods]
        impl $name {
            fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            $($next)*
        }
    };
}
pub(crate) use awaitable;

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

awaitable!(Ready {
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let value = self
            .value
            .as_ref()
            .map_or_else(|| py.None(), |value| value.clone_ref(py));
        Err(PyStopIteration::new_err((value,)))
    }
});

/// An awaitable that gives None at once. One serves all: it has no state.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Done;

awaitable!(Done {
    /// The end without a value, for which CPython needs no exception object.
    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }
});

/// The next part of a content that is still on its way: an awaitable that takes it when it goes on,
/// so that nothing is lost if it is cancelled just then.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Part {
    id: ExchangeId,
    shared: Arc<Shared>,
}

impl Part {
    pub(crate) fn of(
        py: Python<'_>,
        shared: Arc<Shared>,
        id: ExchangeId,
    ) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, Part { id, shared })?.into_any())
    }
}

awaitable!(Part {
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let standing = self.shared.exchanges().get(&self.id).map(|exchange| {
            (
                exchange.content.is_empty(),
                exchange.content_ended,
                exchange.is_disconnected,
            )
        });
        match standing {
            Some((false, _, _)) => {
                let part = self.shared.next_content(py, self.id);
                Err(PyStopIteration::new_err((part,)))
            }
            Some((true, true, _)) => Err(PyStopIteration::new_err((py.None(),))),
            // Answered already, or the peer is gone: nothing will ever come.
            Some((true, false, true)) | None => Err(self.shared.disconnection(py)),
            Some((true, false, false)) => {
                let future = self.shared.wait_to_read(py, self.id)?;
                self.shared.post(py, self.id, Command::Read);
                Ok(future)
            }
        }
    }
});

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
        self.shared.write(py, self.id, data.to_vec())
    }
}
