//! What follows the end of a native handler that was suspended: its answer is posted.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::answer::{Source, convert};
use crate::calls::parts::AnswerParts;
use crate::context::run_in;
use crate::driver::{After, Purpose, ends_task, log_failure};
use crate::ffi;
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

/// The exchange of a native handler.
pub(crate) struct Answering {
    pub(crate) table: Arc<Table>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) request: Py<Request>,
    pub(crate) id: ExchangeId,
    pub(crate) stage: Stage,
}

impl Purpose for Answering {
    fn returned(
        &mut self,
        py: Python<'_>,
        context: &Py<PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        if self.stage == Stage::Stream {
            self.shared.post(py, self.id, Command::Finish);
            self.shared.close(self.id);
            return Ok(After::End);
        }
        match self.answer(py, context, value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, context, error),
        }
    }

    fn raised(&mut self, py: Python<'_>, context: &Py<PyAny>, error: PyErr) -> PyResult<After> {
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
        self.failed(py, context, error)
    }

    fn closed(&mut self, _py: Python<'_>) {
        self.shared.close(self.id);
    }
}

impl Answering {
    /// Posts what a value says.
    fn answer(
        &mut self,
        py: Python<'_>,
        context: &Py<PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        let table = Arc::clone(&self.table);
        let answer = convert(value)?;
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
                    context: context.clone_ref(py),
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

    fn failed(&mut self, py: Python<'_>, context: &Py<PyAny>, error: PyErr) -> PyResult<After> {
        if self.stage != Stage::Handler {
            log_failure(py, &error, Some(&self.request));
            self.shared.post(py, self.id, Command::Fail);
            self.shared.close(self.id);
            return Ok(After::End);
        }
        self.stage = Stage::ErrorHandler;
        let value = match self.call_error_handler(py, context, error) {
            Ok(value) => value,
            Err(error) => return self.failed(py, context, error),
        };
        if ffi::is_coroutine(&value) {
            return Ok(After::Coroutine(value.unbind()));
        }
        match self.answer(py, context, &value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, context, error),
        }
    }

    /// Calls it in the context of what failed, as if it had been called there.
    fn call_error_handler<'py>(
        &self,
        py: Python<'py>,
        context: &Py<PyAny>,
        error: PyErr,
    ) -> PyResult<Bound<'py, PyAny>> {
        let on_error = self.table.on_error.bind(py);
        run_in(context.bind(py), || {
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
