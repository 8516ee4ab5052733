//! What handlers await besides futures: values that are available already, and the acceptance of what they write.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::ffi::{self, Awaitable, Sent};

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
                $crate::run::awaitable::next(py, self)
            }

            fn send<'py>(
                &self,
                py: Python<'py>,
                _value: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                match $crate::run::awaitable::next(py, self)? {
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
                Err($crate::run::coroutine::thrown(kind, value)?)
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

/// Lets the loop run once.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct LoopTurn {
    has_yielded: AtomicBool,
}

impl LoopTurn {
    pub(crate) fn awaitable(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let has_yielded = AtomicBool::new(false);
        Ok(Bound::new(py, LoopTurn { has_yielded })?.into_any())
    }
}

impl Awaitable for LoopTurn {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let none = py.None().into_bound(py);
        match self.has_yielded.swap(true, Ordering::Relaxed) {
            true => Sent::Returned(none),
            false => Sent::Yielded(none),
        }
    }
}

awaitable!(LoopTurn);

/// Lets the interpreter step these types without a method call.
pub(crate) fn prepare(py: Python<'_>) {
    ffi::step_directly::<Ready>(py);
    ffi::step_directly::<Writing>(py);
    ffi::step_directly::<LoopTurn>(py);
}
