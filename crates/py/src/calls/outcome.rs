//! From what a handler gave to the answer.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyString;
use server::{Command, Fields, Outcome, Responder};

use super::{Calls, Subject};
use crate::answer::{Answer, Source, TEXT, convert};
use crate::answering::Stage;
use crate::calls::parts::AnswerParts;
use crate::driver::{ends_task, log_failure};
use crate::ffi;
use crate::request::Request;
use crate::stream::Stream;

impl Calls {
    /// Writes a text. False for any other value, and for a text that is not Unicode: that one has an error to tell of.
    #[inline]
    pub(super) fn answer_text(
        &self,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> bool {
        let Ok(text) = value.cast_exact::<PyString>() else {
            return false;
        };
        let content = match ffi::ascii(text) {
            Some(ascii) => ascii,
            None => match text.to_str() {
                Ok(text) => text.as_bytes(),
                Err(_) => return false,
            },
        };
        responder.respond(200, Fields::constant(TEXT), content);
        if subject.may_be_open {
            self.runner.shared.close(subject.id);
        }
        true
    }

    /// Writes what a value says.
    pub(super) fn answer(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        if self.answer_text(subject, value, responder) {
            return Ok(Outcome::Answered);
        }
        let answer = convert(value)?;
        if let Source::Whole(body) = &answer.source {
            responder.respond(answer.status, answer.lines.fields(), body.as_bytes()?);
            if subject.may_be_open {
                self.runner.shared.close(subject.id);
            }
            return Ok(Outcome::Answered);
        }
        self.stream(py, subject, answer, responder)
    }

    fn stream(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        answer: Answer<'_>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        let response = answer.to_response()?;
        match answer.source {
            Source::Iterator(iterator) => {
                let parts = AnswerParts {
                    iterator: iterator.unbind(),
                    context: self.runner.contexts.take(py)?,
                };
                if !responder.begin(
                    answer.status,
                    Fields::of_application(&response.fields),
                    None,
                ) {
                    self.runner.shared.close(subject.id);
                    parts.close(py);
                    return Ok(Outcome::Answered);
                }
                let request = subject.request.clone_ref(py);
                let before = self.runner.shared.open(subject.id, |exchange| {
                    (
                        exchange.parts.replace(parts),
                        exchange.request.replace(request),
                    )
                });
                drop(before);
                Ok(Outcome::Streaming)
            }
            Source::AsyncIterator(iterator) => {
                let stream = Stream {
                    id: subject.id,
                    shared: Arc::clone(&self.runner.shared),
                };
                let coroutine = subject
                    .table
                    .stream_async
                    .bind(py)
                    .call1((Py::new(py, stream)?, iterator))?;
                self.runner.shared.open(subject.id, |_| {});
                self.runner
                    .shared
                    .post(py, subject.id, Command::Begin(response));
                Ok(self.step(
                    py,
                    Subject {
                        stage: Stage::Stream,
                        ..subject
                    },
                    coroutine,
                    responder,
                ))
            }
            Source::Whole(_) => Ok(Outcome::Answered),
        }
    }

    pub(super) fn stream_ended(
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
        self.runner.shared.post(py, subject.id, command);
        self.runner.shared.close(subject.id);
        Outcome::Pending
    }

    /// Asks the application how to answer a failure.
    #[cold]
    pub(super) fn failed(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        error: PyErr,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        if !error.is_instance_of::<PyException>(py) {
            self.runner.shared.close(subject.id);
            if !ends_task(py, &error) {
                return plain_failure(py, &error, Some(subject.request), responder);
            }
            self.runner.keep_fatal(py, error);
            return plain_answer(responder);
        }
        if subject.stage != Stage::Handler {
            self.runner.shared.close(subject.id);
            return plain_failure(py, &error, Some(subject.request), responder);
        }
        let on_error = subject.table.on_error.bind(py);
        let result = on_error.call1((subject.request, error.into_value(py)));
        // It may have left something on the task too.
        self.runner.tasks.ended(py);
        self.ended(
            py,
            Subject {
                stage: Stage::ErrorHandler,
                ..subject
            },
            result,
            responder,
        )
    }
}

/// The answer of last resort.
fn plain_answer(responder: &mut Responder<'_>) -> Outcome {
    if !responder.is_answered() {
        responder.respond(500, Fields::constant(TEXT), b"500 Internal Server Error\n");
    }
    Outcome::Answered
}

pub(super) fn plain_failure(
    py: Python<'_>,
    error: &PyErr,
    request: Option<&Py<Request>>,
    responder: &mut Responder<'_>,
) -> Outcome {
    log_failure(py, error, request);
    plain_answer(responder)
}
