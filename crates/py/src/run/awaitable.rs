//! What handlers await besides futures: values that are available already, and the acceptance of what they write.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyBaseException, PyStopIteration};
use pyo3::prelude::*;

use crate::ffi::{self, Awaitable, Sent};

/// Makes an [`Awaitable`] type a coroutine in the sense of `collections.abc.Coroutine`, so that it can be awaited and passed to
/// `asyncio.create_task()`. `impl` adds methods of its own.
macro_rules! awaitable {
    ($name:ident) => {
        $crate::run::awaitable::awaitable! { impl $name {} }
    };
    (impl $name:ident { $($other:tt)* }) => {
        #[pymethods]
        impl $name {
            fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                $crate::run::awaitable::next($crate::ffi::Awaitable::step(self, py))
            }

            fn send<'py>(
                &self,
                py: Python<'py>,
                _value: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                $crate::run::awaitable::yielded($crate::ffi::Awaitable::step(self, py))
            }

            #[pyo3(signature = (kind, value=None, _traceback=None))]
            fn throw<'py>(
                &self,
                kind: &Bound<'py, PyAny>,
                value: Option<&Bound<'py, PyAny>>,
                _traceback: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let error = $crate::run::awaitable::thrown(kind, value)?;
                let py = kind.py();
                $crate::run::awaitable::yielded($crate::ffi::Awaitable::throw(self, py, error))
            }

            fn close(&self, py: Python<'_>) -> PyResult<()> {
                $crate::ffi::Awaitable::close(self, py)
            }

            $($other)*
        }
    };
}
pub(crate) use awaitable;

/// A step of an awaitable used as an iterator: None for an end without a value, for which CPython needs no exception object.
pub(crate) fn next(sent: Sent<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match sent {
        Sent::Returned(value) if value.is_none() => Ok(None),
        sent => yielded(sent).map(Some),
    }
}

/// A step of a coroutine, in the form of its methods.
///
/// # Errors
/// `StopIteration` with what it returned, or what it raised.
pub(crate) fn yielded(sent: Sent<'_>) -> PyResult<Bound<'_, PyAny>> {
    match sent {
        Sent::Yielded(value) => Ok(value),
        Sent::Returned(value) if value.is_none() => Err(PyStopIteration::new_err(())),
        Sent::Returned(value) => Err(PyStopIteration::new_err((value.unbind(),))),
        Sent::Raised(error) => Err(*error),
    }
}

/// The exception that the arguments of a coroutine's `throw()` describe.
///
/// # Errors
/// Whatever constructing it raises.
pub(crate) fn thrown(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let error = match value {
        Some(value) if value.is_instance_of::<PyBaseException>() => value.clone(),
        Some(value) => kind.call1((value,))?,
        None if kind.is_instance_of::<PyBaseException>() => kind.clone(),
        None => kind.call0()?,
    };
    Ok(PyErr::from_value(error))
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
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let value = self.value.as_ref();
        Sent::Returned(
            value.map_or_else(|| py.None().into_bound(py), |value| value.bind(py).clone()),
        )
    }

    fn is_called_inside(&self, _py: Python<'_>) -> bool {
        true
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
        step().unwrap_or_else(Sent::raised)
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
