//! What handlers await besides futures: values that are available already, content, and the sending of a streamed response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::ffi::{Awaitable, Sent};
use crate::shared::Shared;

/// Makes an [`Awaitable`] type a coroutine in the sense of `collections.abc.Coroutine`, so that it can be awaited, and passed to
/// `asyncio.create_task()` too.
macro_rules! awaitable {
    ($name:ident) => {
        #[pymethods]
        impl $name {
            fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                $crate::stream::next(py, self)
            }

            fn send<'py>(
                &self,
                py: Python<'py>,
                _value: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                match $crate::stream::next(py, self)? {
                    Some(value) => Ok(value),
                    None => Err(pyo3::exceptions::PyStopIteration::new_err(())),
                }
            }

            #[pyo3(signature = (kind, value=None, _traceback=None))]
            fn throw<'py>(
                &self,
                kind: &Bound<'py, PyAny>,
                value: Option<&Bound<'py, PyAny>>,
                _traceback: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                Err($crate::driver::thrown(kind, value)?)
            }

            fn close(&self) {}
        }
    };
}
pub(crate) use awaitable;

/// A step of an awaitable used as an iterator: None for an end without a value, for which CPython needs no exception object.
pub(crate) fn next<'py>(
    py: Python<'py>,
    awaitable: &impl Awaitable,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match awaitable.step(py) {
        Sent::Yielded(value) => Ok(Some(value)),
        Sent::Returned(value) if value.is_none() => Ok(None),
        Sent::Returned(value) => Err(PyStopIteration::new_err((value.unbind(),))),
        Sent::Raised(error) => Err(error),
    }
}

/// An awaitable that never suspends.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Ready {
    value: Option<Py<PyAny>>,
}

impl Ready {
    /// An awaitable that returns `value`, or None.
    pub(crate) fn with(py: Python<'_>, value: Option<Py<PyAny>>) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, Ready { value })?.into_any())
    }
}

impl Awaitable for Ready {
    const HOLDS_ALL: bool = true;

    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let value = self.value.as_ref();
        Sent::Returned(
            value.map_or_else(|| py.None().into_bound(py), |value| value.bind(py).clone()),
        )
    }
}

awaitable!(Ready);

/// The next part of content that is still arriving. The awaitable takes the part when it resumes, so that nothing is lost if it is
/// cancelled just then.
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

impl Awaitable for Part {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let state = {
            let mut exchanges = self.shared.exchanges();
            exchanges.get_mut(&self.id).map(|exchange| {
                let part = exchange.content.pop_front();
                (part, exchange.content_ended, exchange.is_disconnected)
            })
        };
        match state {
            Some((Some(part), _, _)) => Sent::Returned(part.into_bound(py).into_any()),
            Some((None, true, _)) => Sent::Returned(py.None().into_bound(py)),
            // The response is complete, or the peer has disconnected: nothing more will arrive.
            Some((None, false, true)) | None => Sent::Raised(self.shared.disconnection(py)),
            Some((None, false, false)) => match self.shared.wait_to_read(py, self.id) {
                Ok(future) => {
                    self.shared.post(py, self.id, Command::Read);
                    Sent::Yielded(future)
                }
                Err(error) => Sent::Raised(error),
            },
        }
    }
}

awaitable!(Part);

/// Waits until a bounded buffer has accepted what was written.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Writing {
    future: Py<PyAny>,
    is_awaited: AtomicBool,
}

impl Writing {
    pub(crate) fn of<'py>(
        py: Python<'py>,
        future: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let writing = Writing {
            future: future.unbind(),
            is_awaited: AtomicBool::new(false),
        };
        Ok(Bound::new(py, writing)?.into_any())
    }
}

impl Awaitable for Writing {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let future = self.future.bind(py);
        let step = || -> PyResult<Sent<'py>> {
            let is_done = future
                .call_method0(pyo3::intern!(py, "done"))?
                .is_truthy()?;
            if is_done || self.is_awaited.swap(true, Ordering::Relaxed) {
                return Ok(Sent::Returned(
                    future.call_method0(pyo3::intern!(py, "result"))?,
                ));
            }
            future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
            Ok(Sent::Yielded(future.clone()))
        };
        step().unwrap_or_else(Sent::Raised)
    }
}

awaitable!(Writing);

/// The sending side of a streamed response.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Stream {
    pub(crate) id: ExchangeId,
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Stream {
    /// Sends a part; the awaitable is done when a bounded buffer has accepted it.
    fn send<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.shared.write(py, self.id, data.to_vec())
    }
}

/// Lets the interpreter step these types without a method call.
pub(crate) fn prepare(py: Python<'_>) {
    crate::ffi::step_directly::<Ready>(py);
    crate::ffi::step_directly::<Part>(py);
    crate::ffi::step_directly::<Writing>(py);
}
