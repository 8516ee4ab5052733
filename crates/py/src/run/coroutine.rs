//! The coroutine of the task that a suspended handler runs in.

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyStopIteration, PySystemExit};
use pyo3::prelude::*;

use crate::ffi::{self, Sent};
use crate::run::context::run_in;

/// A suspended coroutine.
pub(crate) struct Suspended {
    pub(crate) coroutine: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
    /// What the coroutine yielded in its first step, until the task has taken it.
    pub(crate) future: Option<Py<PyAny>>,
    pub(crate) completion: Box<dyn Completion>,
}

/// What a coroutine is run for: what its end means for its exchange.
pub(crate) trait Completion: Send + Sync {
    /// The coroutine returned.
    ///
    /// # Errors
    /// An exception that ends the task.
    fn returned(
        &mut self,
        py: Python<'_>,
        context: &Py<PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After>;

    /// The coroutine raised.
    ///
    /// # Errors
    /// An exception that ends the task.
    fn raised(&mut self, py: Python<'_>, context: &Py<PyAny>, error: PyErr) -> PyResult<After>;

    /// The coroutine will never be resumed.
    fn closed(&mut self, py: Python<'_>);
}

/// What follows when a coroutine has ended.
pub(crate) enum After {
    Coroutine(Py<PyAny>),
    End,
}

/// A coroutine in the sense of `collections.abc.Coroutine`, written in Rust.
#[pyclass(module = "bolide._core")]
#[derive(Default)]
pub(crate) struct RequestCoroutine {
    work: Option<Box<Suspended>>,
}

impl RequestCoroutine {
    pub(crate) fn take(&mut self, work: Suspended) {
        self.work = Some(Box::new(work));
    }

    /// Resumes the work, with or without an exception. The work is out of the object meanwhile, so that nothing is borrowed while Python
    /// runs.
    fn resume(slf: &Bound<'_, RequestCoroutine>, mut thrown: Option<PyErr>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let Some(mut work) = slf.borrow_mut().work.take() else {
            return Err(thrown.unwrap_or_else(|| PyStopIteration::new_err(())));
        };
        if let Some(future) = work.future.take()
            && thrown
                .as_ref()
                .is_none_or(|cancelled| is_cancelled_with(py, &future, cancelled))
        {
            slf.borrow_mut().work = Some(work);
            return Ok(future);
        }
        loop {
            // Whatever fails, the work is not dropped without a response.
            let after = match work.step(py, thrown.take()).unwrap_or_else(Sent::Raised) {
                Sent::Yielded(value) => {
                    slf.borrow_mut().work = Some(work);
                    return Ok(value.unbind());
                }
                Sent::Returned(value) => work.completion.returned(py, &work.context, &value),
                Sent::Raised(error) => work.completion.raised(py, &work.context, error),
            };
            match after {
                Ok(After::Coroutine(coroutine)) => work.coroutine = coroutine,
                Ok(After::End) => return Err(PyStopIteration::new_err(())),
                Err(error) => return Err(error),
            }
        }
    }
}

#[pymethods]
impl RequestCoroutine {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, RequestCoroutine>) -> PyResult<Py<PyAny>> {
        RequestCoroutine::resume(slf, None)
    }

    fn send(slf: &Bound<'_, RequestCoroutine>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        RequestCoroutine::resume(slf, None)
    }

    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        slf: &Bound<'_, RequestCoroutine>,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        RequestCoroutine::resume(slf, Some(thrown(kind, value)?))
    }

    fn close(slf: &Bound<'_, RequestCoroutine>) -> PyResult<()> {
        let work = slf.borrow_mut().work.take();
        if let Some(mut work) = work {
            work.completion.closed(slf.py());
            work.coroutine.call_method0(slf.py(), "close")?;
        }
        Ok(())
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        "request"
    }

    #[getter]
    fn __qualname__(&self) -> &'static str {
        "bolide.request"
    }
}

impl Suspended {
    /// Runs the coroutine up to its next suspension, in its own context.
    fn step<'py>(&self, py: Python<'py>, thrown: Option<PyErr>) -> PyResult<Sent<'py>> {
        let (context, coroutine) = (self.context.bind(py), self.coroutine.bind(py));
        run_in(context, || {
            let Some(error) = thrown else {
                return Ok(ffi::send(py, coroutine));
            };
            Ok(
                match coroutine.call_method1("throw", (error.into_value(py),)) {
                    Ok(value) => Sent::Yielded(value),
                    Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                        Sent::Returned(error.value(py).getattr("value")?)
                    }
                    Err(error) => Sent::Raised(error),
                },
            )
        })
    }
}

/// The exception that the arguments of a coroutine's `throw()` describe.
///
/// # Errors
/// Whatever constructing it raises.
pub(crate) fn thrown(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let error = match value {
        Some(value) if value.is_instance_of::<pyo3::exceptions::PyBaseException>() => value.clone(),
        Some(value) => kind.call1((value,))?,
        None if kind.is_instance_of::<pyo3::exceptions::PyBaseException>() => kind.clone(),
        None => kind.call0()?,
    };
    Ok(PyErr::from_value(error))
}

/// Whether an exception concerns the task, and is not only a failure of the handler.
pub(crate) fn ends_task(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<CancelledError>(py)
        || error.is_instance_of::<PyKeyboardInterrupt>(py)
        || error.is_instance_of::<PySystemExit>(py)
}

/// Cancels what a coroutine waits for, because its task was cancelled before it could wait. False when nothing can be cancelled (it only
/// yielded control, or the future is done): then the exception has to be thrown into the coroutine.
fn is_cancelled_with(py: Python<'_>, future: &Py<PyAny>, cancelled: &PyErr) -> bool {
    let cancel = || -> PyResult<bool> {
        if !future
            .getattr(py, pyo3::intern!(py, "_asyncio_future_blocking"))?
            .is_truthy(py)?
        {
            return Ok(false);
        }
        let message = cancelled.value(py).getattr("args")?.get_item(0).ok();
        future
            .call_method1(py, pyo3::intern!(py, "cancel"), (message,))?
            .is_truthy(py)
    };
    cancel().unwrap_or(false)
}
