//! The coroutine of the task that a suspended handler runs in.

use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyStopIteration, PySystemExit};
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::answer::Source;
use crate::context::run_in;
use crate::ffi::{self, Sent};
use crate::parts::AnswerParts;
use crate::request::Request;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::table::Table;

/// What a coroutine is run for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A handler: its value is the answer.
    Handler,
    /// An error handler: the same, but its failure is the end.
    ErrorHandler,
    /// The sending of a streamed answer.
    Stream,
}

/// A suspended coroutine and all that belongs to its exchange.
pub(crate) struct Work {
    pub(crate) table: Arc<Table>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) request: Py<Request>,
    pub(crate) id: ExchangeId,
    pub(crate) stage: Stage,
    pub(crate) coroutine: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
    /// What the coroutine gave in its first step, until the task has taken it.
    pub(crate) future: Option<Py<PyAny>>,
}

/// What follows the end of a coroutine.
enum After {
    Coroutine(Py<PyAny>),
    End,
}

/// A coroutine in the sense of `collections.abc.Coroutine`, written in Rust.
#[pyclass(module = "bolide._core")]
#[derive(Default)]
pub(crate) struct Driver {
    work: Option<Box<Work>>,
}

impl Driver {
    pub(crate) fn take(&mut self, work: Work) {
        self.work = Some(Box::new(work));
    }

    /// Goes on, with an exception or without. The work is out of the object meanwhile, so that nothing is borrowed while Python runs.
    fn resume(slf: &Bound<'_, Driver>, mut thrown: Option<PyErr>) -> PyResult<Py<PyAny>> {
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
            // Whatever fails, the work is not dropped without an answer.
            let after = match work.step(py, thrown.take()).unwrap_or_else(Sent::Raised) {
                Sent::Yielded(value) => {
                    slf.borrow_mut().work = Some(work);
                    return Ok(value.unbind());
                }
                Sent::Returned(value) => work.returned(py, &value),
                Sent::Raised(error) => work.raised(py, error),
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
impl Driver {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Driver>) -> PyResult<Py<PyAny>> {
        Driver::resume(slf, None)
    }

    fn send(slf: &Bound<'_, Driver>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Driver::resume(slf, None)
    }

    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        slf: &Bound<'_, Driver>,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let error = match value {
            Some(value) if value.is_instance_of::<pyo3::exceptions::PyBaseException>() => {
                value.clone()
            }
            Some(value) => kind.call1((value,))?,
            None if kind.is_instance_of::<pyo3::exceptions::PyBaseException>() => kind.clone(),
            None => kind.call0()?,
        };
        Driver::resume(slf, Some(PyErr::from_value(error)))
    }

    fn close(slf: &Bound<'_, Driver>) -> PyResult<()> {
        let work = slf.borrow_mut().work.take();
        if let Some(work) = work {
            work.shared.close(work.id);
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

impl Work {
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

    fn returned(&mut self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<After> {
        if self.stage == Stage::Stream {
            self.shared.post(py, self.id, Command::Finish);
            self.shared.close(self.id);
            return Ok(After::End);
        }
        match self.answer(py, value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, error),
        }
    }

    /// Posts what a value says.
    fn answer(&mut self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<After> {
        let table = Arc::clone(&self.table);
        let answer = table.conversion.convert(value)?;
        let response = answer.to_response()?;
        match answer.source {
            Source::Whole(_) => {
                self.shared.post(py, self.id, Command::Respond(response));
                self.shared.close(self.id);
                Ok(After::End)
            }
            Source::Iterator(iterator) => {
                let request = self.request.clone_ref(py);
                let parts = AnswerParts {
                    iterator: iterator.unbind(),
                    context: self.context.clone_ref(py),
                };
                let before = self.shared.open(self.id, |exchange| {
                    let parts = exchange.parts.replace(parts);
                    (
                        parts,
                        exchange.request.replace(request),
                        exchange.task.take(),
                    )
                });
                drop(before);
                self.shared.post(py, self.id, Command::Stream(response));
                Ok(After::End)
            }
            Source::AsyncIterator(iterator) => {
                self.shared
                    .open(self.id, |exchange| exchange.is_streamed = true);
                self.shared.post(py, self.id, Command::Begin(response));
                let stream = Stream {
                    id: self.id,
                    shared: Arc::clone(&self.shared),
                };
                let coroutine = table
                    .stream_async
                    .call1(py, (Py::new(py, stream)?, iterator))?;
                self.stage = Stage::Stream;
                Ok(After::Coroutine(coroutine))
            }
        }
    }

    fn raised(&mut self, py: Python<'_>, error: PyErr) -> PyResult<After> {
        let is_disconnection = self.shared.is_disconnection(py, &error);
        if !error.is_instance_of::<PyException>(py) || (is_disconnection && self.is_disconnected())
        {
            // Cancelled, or on its way out: who cancelled knows; a peer that still waits gets a plain failure.
            self.shared.post(py, self.id, Command::Fail);
            self.shared.close(self.id);
            return if is_disconnection {
                Ok(After::End)
            } else if ends_task(py, &error) {
                Err(error)
            } else {
                log_failure(py, &error, Some(&self.request));
                Ok(After::End)
            };
        }
        self.failed(py, error)
    }

    fn failed(&mut self, py: Python<'_>, error: PyErr) -> PyResult<After> {
        if self.stage != Stage::Handler {
            log_failure(py, &error, Some(&self.request));
            self.shared.post(py, self.id, Command::Fail);
            self.shared.close(self.id);
            return Ok(After::End);
        }
        self.stage = Stage::ErrorHandler;
        let value = match self.call_error_handler(py, error) {
            Ok(value) => value,
            Err(error) => return self.failed(py, error),
        };
        if ffi::is_coroutine(&value) {
            return Ok(After::Coroutine(value.unbind()));
        }
        match self.answer(py, &value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, error),
        }
    }

    /// Calls it in the context of what failed, as if it had been called there.
    fn call_error_handler<'py>(
        &self,
        py: Python<'py>,
        error: PyErr,
    ) -> PyResult<Bound<'py, PyAny>> {
        let on_error = self.table.on_error.bind(py);
        run_in(self.context.bind(py), || {
            on_error.call1((&self.request, error.into_value(py)))
        })
    }

    fn is_disconnected(&self) -> bool {
        self.shared
            .exchanges()
            .get(&self.id)
            .is_none_or(|exchange| exchange.is_disconnected)
    }
}

/// Whether an exception is the task's business, and not a failure of the handler alone.
pub(crate) fn ends_task(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<CancelledError>(py)
        || error.is_instance_of::<PyKeyboardInterrupt>(py)
        || error.is_instance_of::<PySystemExit>(py)
}

/// Cancels what a coroutine waits for because its task was cancelled before it could wait. False when that is nothing to cancel (it gave
/// way only, or the future is done): then the coroutine has to be told itself.
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

/// Logs a failure that no error handler can answer any more.
pub(crate) fn log_failure(py: Python<'_>, error: &PyErr, request: Option<&Py<Request>>) {
    let title = request.and_then(|request| request.get().with(py, |state| state.title()).ok());
    let log = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("bolide.error",))?;
        let keywords = pyo3::types::PyDict::new(py);
        // With its traceback, which `value()` leaves out before 3.12.
        keywords.set_item("exc_info", error.clone_ref(py).into_value(py))?;
        let title = title.as_deref().unwrap_or("a request");
        logger.call_method(
            "error",
            ("%s: the answer could not be completed", title),
            Some(&keywords),
        )?;
        Ok(())
    };
    if let Err(error) = log() {
        error.write_unraisable(py, None);
    }
}
