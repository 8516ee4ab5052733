//! From the result of a handler to the response.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyString;
use server::{Command, ExchangeId, Fields, Outcome, Responder};

use super::{Calls, Subject};
use crate::ffi::{self, Sent};
use crate::native::log::log_failure;
use crate::native::request::Request;
use crate::native::response::{HandlerResponse, Source, convert};
use crate::native::stream::Stream;
use crate::native::suspended::Stage;
use crate::run::coroutine::ends_task;
use crate::run::failure::{TEXT, fail, refuse_for_memory};
use crate::run::parts::ResponseParts;
use crate::run::runner::Runner;

impl Calls {
    /// Responds with a text. Returns false for any other value, and for a str that cannot be encoded as UTF-8, which raises an error
    /// elsewhere.
    #[inline(always)]
    pub(super) fn respond_text(
        &self,
        id: ExchangeId,
        may_be_open: bool,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> bool {
        let Ok(text) = value.cast_exact::<PyString>() else {
            return false;
        };
        let Some(content) = ffi::ascii(text).or_else(|| utf8(text)) else {
            return false;
        };
        responder.respond_constant(TEXT, content);
        if may_be_open {
            self.runner.exchanges.end(value.py(), id, true);
        }
        true
    }

    /// Responds with what a value stands for.
    pub(super) fn respond(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        if self.respond_text(subject.id, subject.may_be_open, value, responder) {
            return Ok(Outcome::Responded);
        }
        let response = convert(value)?;
        if let Source::Whole(body) = &response.source {
            responder.respond(response.status, response.lines.fields(), body.as_bytes()?);
            if subject.may_be_open {
                self.runner.exchanges.end(py, subject.id, true);
            }
            return Ok(Outcome::Responded);
        }
        self.stream(py, subject, response, responder)
    }

    fn stream(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        response: HandlerResponse<'_>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        let owned = response.to_owned_response()?;
        match response.source {
            Source::Iterator(iterator) => {
                let parts = ResponseParts {
                    iterator: iterator.unbind(),
                    context: self.runner.contexts.take(py)?,
                };
                if !responder.begin(response.status, Fields::of_application(&owned.fields), None) {
                    self.runner.exchanges.end(py, subject.id, true);
                    parts.close(py);
                    return Ok(Outcome::Responded);
                }
                let request = subject.request.clone_ref(py).into_any();
                let before = self.runner.exchanges.open(subject.id, |exchange| {
                    let rare = exchange.rare();
                    (rare.parts.replace(parts), rare.request.replace(request))
                });
                drop(before);
                Ok(Outcome::Streaming)
            }
            Source::AsyncIterator(iterator) => {
                let stream = Stream {
                    id: subject.id,
                    exchanges: Arc::clone(&self.runner.exchanges),
                };
                let coroutine = subject
                    .table
                    .stream_async
                    .bind(py)
                    .call1((Py::new(py, stream)?, iterator))?;
                let subject = Subject {
                    stage: Stage::Stream,
                    ..subject
                };
                self.runner.exchanges.open(subject.id, |_| {});
                if responder.can_send_now() && responder.sends_content(owned.status) {
                    let fields = Fields::of_application(&owned.fields);
                    responder.begin(owned.status, fields, owned.length);
                } else {
                    let begin = Command::Begin(owned);
                    self.runner.exchanges.post(py, subject.id, begin);
                }
                Ok(self.first_parts(py, subject, coroutine, responder))
            }
            Source::Whole(_) => Ok(Outcome::Responded),
        }
    }

    /// Sends the parts of an asynchronous iterator, in this call up to its first suspension if a task is lent.
    fn first_parts(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> Outcome {
        let outcome = match self.runner.lends(py) {
            Ok(true) => self.step_of_stream(py, subject, coroutine, responder),
            Ok(false) => self.begin_task(py, subject, coroutine, responder),
            Err(error) => self.stream_ended(py, subject, Err(error)),
        };
        match outcome {
            Outcome::Pending if responder.is_open() => Outcome::Begun,
            outcome => outcome,
        }
    }

    fn step_of_stream(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> Outcome {
        let Runner {
            exchanges, tasks, ..
        } = &mut self.runner;
        let sent = exchanges.lend(py, subject.id, responder, || tasks.step(py, &coroutine));
        let result = match sent {
            Sent::Yielded(future) => {
                return self.suspended(py, subject, coroutine, future, responder);
            }
            Sent::Returned(value) => Ok(value),
            Sent::Raised(error) => Err(*error),
        };
        drop(coroutine);
        self.runner.ended(py);
        if responder.is_open() && result.is_ok() && responder.finish() {
            self.runner.exchanges.close(subject.id);
            return Outcome::Responded;
        }
        self.stream_ended(py, subject, result)
    }

    fn stream_ended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        result: PyResult<Bound<'_, PyAny>>,
    ) -> Outcome {
        let command = match result {
            Ok(_) => Command::Finish,
            Err(error) if ends_task(py, &error) => {
                self.runner.keep_fatal(py, error);
                Command::Fail
            }
            Err(error) => {
                log_failure(py, &error, Some(subject.request));
                Command::Fail
            }
        };
        self.runner.exchanges.post(py, subject.id, command);
        self.runner.exchanges.end(py, subject.id, false);
        Outcome::Pending
    }

    /// Asks the application for the response to a failure.
    #[cold]
    pub(super) fn failed(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        error: PyErr,
        responder: &mut Responder,
    ) -> Outcome {
        if !error.is_instance_of::<PyException>(py) {
            self.runner.exchanges.end(py, subject.id, false);
            if !ends_task(py, &error) {
                return plain_failure(py, &error, Some(subject.request), responder);
            }
            log_failure(py, &error, Some(subject.request));
            self.runner.keep_fatal(py, error);
            return fail(responder);
        }
        if subject.stage != Stage::Handler {
            self.runner.exchanges.end(py, subject.id, false);
            return plain_failure(py, &error, Some(subject.request), responder);
        }
        let on_error = subject.table.on_error.bind(py);
        let exchanges = &self.runner.exchanges;
        let result = exchanges.lend_unnamed(py, responder, || {
            on_error.call1((subject.request, error.into_value(py)))
        });
        // The error handler may have left a trace on the task too.
        self.runner.ended(py);
        self.ended(
            py,
            Subject {
                stage: Stage::ErrorHandler,
                ..subject
            },
            result.map_err(Box::new),
            responder,
        )
    }
}

/// The text in UTF-8; None if it cannot be encoded.
#[inline(never)]
fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    text.to_str().ok().map(str::as_bytes)
}

/// The application could not be called.
#[cold]
pub(super) fn not_begun(
    py: Python<'_>,
    error: &PyErr,
    request: &server::Request<'_>,
    responder: &mut Responder,
) -> Outcome {
    match refuse_for_memory(py, error, request, responder) {
        true => Outcome::Responded,
        false => plain_failure(py, error, None, responder),
    }
}

pub(super) fn plain_failure(
    py: Python<'_>,
    error: &PyErr,
    request: Option<&Py<Request>>,
    responder: &mut Responder,
) -> Outcome {
    log_failure(py, error, request);
    fail(responder)
}
