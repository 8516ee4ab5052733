//! What happens when a suspended native handler ends: its response is posted.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use server::{Command, ExchangeId};

use crate::ffi;
use crate::native::log::{log_failure, title};
use crate::native::request::Request;
use crate::native::response::{Source, convert};
use crate::native::stream::Stream;
use crate::native::table::Table;
use crate::run::coroutine::{After, Completion, ends_task};
use crate::run::exchanges::Exchanges;
use crate::run::log::log_disconnected;
use crate::run::parts::ResponseParts;

/// What a coroutine is run for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A handler: its value is the response.
    Handler,
    /// An error handler: its value is the response too, but its failure is final.
    ErrorHandler,
    /// The sending of a streamed response.
    Stream,
}

/// A native handler that was suspended, with its exchange.
pub(crate) struct SuspendedHandler {
    pub(crate) table: Arc<Table>,
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) request: Py<Request>,
    pub(crate) id: ExchangeId,
    pub(crate) stage: Stage,
}

impl Completion for SuspendedHandler {
    fn returned(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        if self.stage == Stage::Stream {
            self.exchanges.post(py, self.id, Command::Finish);
            self.exchanges.end(py, self.id, true);
            return Ok(After::End);
        }
        match self.respond(py, context, value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, context, error),
        }
    }

    fn raised(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        error: PyErr,
    ) -> PyResult<After> {
        let is_exception = error.is_instance_of::<PyException>(py);
        let is_disconnection = is_exception
            && self.exchanges.reports_disconnection(py, &error)
            && self.is_disconnected();
        if !is_exception || is_disconnection {
            // Cancelled or disconnected. A peer that still waits gets a plain failure, which the log explains.
            let is_waited_for = !self.has_left();
            self.exchanges.post(py, self.id, Command::Fail);
            self.exchanges.end(py, self.id, false);
            return if is_disconnection {
                let title = title(py, &self.request).unwrap_or_default();
                log_disconnected(py, &title, &error);
                Ok(After::End)
            } else if ends_task(py, &error) {
                if is_waited_for {
                    log_failure(py, &error, Some(&self.request));
                }
                Err(error)
            } else {
                log_failure(py, &error, Some(&self.request));
                Ok(After::End)
            };
        }
        self.failed(py, context, error)
    }

    fn closed(&mut self, py: Python<'_>) {
        self.exchanges.end(py, self.id, false);
    }

    fn title(&self, py: Python<'_>) -> Option<String> {
        title(py, &self.request)
    }
}

impl SuspendedHandler {
    /// Posts the response that a value stands for.
    fn respond(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        let table = Arc::clone(&self.table);
        let response = convert(value)?;
        let owned = response.to_owned_response()?;
        if self.is_disconnected() {
            return self.discard(py, context, response.source);
        }
        match response.source {
            Source::Whole(_) => {
                self.exchanges.post(py, self.id, Command::Respond(owned));
                self.exchanges.end(py, self.id, true);
                Ok(After::End)
            }
            Source::Iterator(iterator) => {
                let request = self.request.clone_ref(py).into_any();
                let parts = parts_of(iterator, context)?;
                let before = self.exchanges.open(self.id, |exchange| {
                    let rare = exchange.rare();
                    let before = (rare.parts.replace(parts), rare.request.replace(request));
                    (before, exchange.task.take())
                });
                drop(before);
                self.exchanges.post(py, self.id, Command::Stream(owned));
                Ok(After::End)
            }
            Source::AsyncIterator(iterator) => {
                let stream = Stream {
                    id: self.id,
                    exchanges: Arc::clone(&self.exchanges),
                };
                let coroutine = table
                    .stream_async
                    .call1(py, (Py::new(py, stream)?, iterator))?;
                self.exchanges
                    .open(self.id, |exchange| exchange.is_streamed = true);
                self.exchanges.post(py, self.id, Command::Begin(owned));
                self.stage = Stage::Stream;
                // If it has disconnected already, the stream ends at its first wait.
                self.exchanges.notify_departure(py, self.id);
                Ok(After::Coroutine(coroutine))
            }
        }
    }

    /// Ends an exchange whose peer is gone: a stream is only closed.
    fn discard(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        source: Source<'_>,
    ) -> PyResult<After> {
        self.exchanges.end(py, self.id, false);
        match source {
            Source::Whole(_) => {}
            Source::Iterator(iterator) => parts_of(iterator, context)?.close_here(py),
            Source::AsyncIterator(iterator) => {
                if let Some(close) = iterator.getattr_opt("aclose")? {
                    self.stage = Stage::Stream;
                    return Ok(After::Coroutine(close.call0()?.unbind()));
                }
            }
        }
        Ok(After::End)
    }

    fn failed(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        error: PyErr,
    ) -> PyResult<After> {
        if self.stage != Stage::Handler {
            log_failure(py, &error, Some(&self.request));
            self.exchanges.post(py, self.id, Command::Fail);
            self.exchanges.end(py, self.id, false);
            return Ok(After::End);
        }
        self.stage = Stage::ErrorHandler;
        let value = match self.call_error_handler(py, error) {
            Ok(value) => value,
            Err(error) => return self.failed(py, context, error),
        };
        if ffi::is_coroutine(&value) {
            return Ok(After::Coroutine(value.unbind()));
        }
        match self.respond(py, context, &value) {
            Ok(after) => Ok(after),
            Err(error) => self.failed(py, context, error),
        }
    }

    fn call_error_handler<'py>(
        &self,
        py: Python<'py>,
        error: PyErr,
    ) -> PyResult<Bound<'py, PyAny>> {
        let on_error = self.table.on_error.bind(py);
        on_error.call1((&self.request, error.into_value(py)))
    }

    /// Whether its peer has disconnected, or its stream was ended because of that.
    fn has_left(&self) -> bool {
        self.exchanges
            .lock()
            .get(&self.id)
            .is_none_or(|exchange| exchange.has_left() || exchange.is_stream_cancelled())
    }

    fn is_disconnected(&self) -> bool {
        self.exchanges
            .lock()
            .get(&self.id)
            .is_none_or(|exchange| exchange.is_disconnected)
    }
}

/// The parts of a streamed response, which run in the context of its handler: not in a copy, of which the handler's tokens are not.
fn parts_of(iterator: Bound<'_, PyAny>, context: Option<&Py<PyAny>>) -> PyResult<ResponseParts> {
    let py = iterator.py();
    Ok(ResponseParts {
        iterator: iterator.unbind(),
        context: match context {
            Some(context) => context.clone_ref(py),
            None => ffi::copy_current_context(py)?.unbind(),
        },
    })
}
