//! Native applications: from a route to a handler's call, and from its value to the answer.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyString;
use server::{
    Abort, App, Command, Content, ExchangeId, Fields, Match, Outcome, Parameters, Pulled, Responder,
};

use crate::answer::{Answer, Source, TEXT};
use crate::context::Contexts;
use crate::driver::{Stage, Work, ends_task, log_failure};
use crate::ffi::{self, Sent};
use crate::request::{Request, span_of};
use crate::shared::{Shared, close_iterator};
use crate::stream::Stream;
use crate::table::{NativeApp, Route, Table};
use crate::task::Tasks;

/// Request objects that wait to be used again.
const SPARE_REQUESTS: usize = 64;

/// The application as the server calls it.
pub(crate) struct Native {
    app: Py<NativeApp>,
    table: Arc<Table>,
    pub(crate) calls: Calls,
}

/// What changes from call to call.
pub(crate) struct Calls {
    shared: Arc<Shared>,
    pub(crate) tasks: Tasks,
    contexts: Contexts,
    spare: Vec<Py<Request>>,
    /// Where the parameters of the path at hand are.
    parameters: Parameters,
    /// An exception that is not a handler's failure but the process's end (KeyboardInterrupt, SystemExit).
    pub(crate) fatal: Option<PyErr>,
}

impl Native {
    pub(crate) fn new(app: Py<NativeApp>, shared: Arc<Shared>) -> Native {
        let table = app.get().table();
        let calls = Calls {
            shared,
            tasks: Tasks::default(),
            contexts: Contexts::default(),
            spare: Vec::new(),
            parameters: Parameters::default(),
            fatal: None,
        };
        Native { app, table, calls }
    }

    /// A pass begins: takes over routes that were added since the last.
    pub(crate) fn pass_begins(&mut self) {
        let table = self.app.get().table();
        if !Arc::ptr_eq(&table, &self.table) {
            self.table = table;
        }
    }
}

impl App for Native {
    #[inline]
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        self.calls
            .call(ffi::attached(), &self.table, request, responder)
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        let py = ffi::attached();
        self.calls.tasks.leave(py);
        let iterator = self
            .calls
            .shared
            .exchanges()
            .get(&id)
            .and_then(|exchange| Some(exchange.iterator.as_ref()?.clone_ref(py)));
        let Some(iterator) = iterator else {
            return Pulled::Failed;
        };
        match next_part(iterator.bind(py), out) {
            Ok(true) => Pulled::More,
            Ok(false) => {
                self.calls.shared.close(id);
                Pulled::End
            }
            Err(error) => {
                let exchange = self.calls.shared.close(id).unwrap_or_default();
                close_iterator(py, &iterator);
                if ends_task(py, &error) {
                    self.calls.keep_fatal(py, error);
                } else {
                    log_failure(py, &error, exchange.request.as_ref());
                }
                Pulled::Failed
            }
        }
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) {
        self.calls
            .shared
            .take_content(ffi::attached(), id, content, is_last);
    }

    fn writable(&mut self, id: ExchangeId) {
        self.calls.shared.writable(ffi::attached(), id);
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        let py = ffi::attached();
        self.calls.tasks.leave(py);
        let task = match why {
            Abort::HandlerTimeout => self
                .calls
                .shared
                .exchanges()
                .get_mut(&id)
                .and_then(|exchange| exchange.task.take()),
            Abort::Disconnected | Abort::Refused => None,
        };
        if let Some(task) = task
            && let Err(error) = task.call_method0(py, "cancel")
        {
            error.write_unraisable(py, None);
        }
        self.calls.shared.disconnect(py, id);
    }
}

/// Appends the next part of an iterator of bytes or str; false at its end.
fn next_part(iterator: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<bool> {
    let Some(part) = iterator.try_iter()?.next().transpose()? else {
        return Ok(false);
    };
    if let Ok(text) = part.cast::<PyString>() {
        out.extend_from_slice(text.to_str()?.as_bytes());
    } else if let Ok(bytes) = part.extract::<&[u8]>() {
        out.extend_from_slice(bytes);
    } else {
        let kind = part.get_type().name()?;
        let message = format!("a streamed answer's parts must be str or bytes, not {kind}");
        return Err(pyo3::exceptions::PyTypeError::new_err(message));
    }
    Ok(true)
}

/// One call's exchange.
#[derive(Clone, Copy)]
struct Subject<'a> {
    table: &'a Arc<Table>,
    id: ExchangeId,
    request: &'a Py<Request>,
    stage: Stage,
    /// The handler may have begun to receive content.
    may_be_open: bool,
}

impl Calls {
    #[inline]
    fn call(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let Calls { parameters, .. } = self;
        match table.router.find(
            request.head.method,
            request.head.method_name,
            request.head.path,
            parameters,
        ) {
            Match::Route(index) => {
                let Some(route) = table.routes.get(index) else {
                    return Outcome::Answered;
                };
                if !route.is_async && request.content == Content::Later {
                    return Outcome::ReadContent;
                }
                self.call_route(py, table, route, request, responder)
            }
            Match::OtherMethods(allow) => {
                self.call_status(py, table, (405, allow), request, responder)
            }
            Match::None => self.call_status(py, table, (404, ""), request, responder),
        }
    }

    #[inline]
    fn call_route(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        route: &Route,
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let object = match self.request_object(py, table, request, route.is_async) {
            Ok(object) => object,
            Err(error) => return plain_failure(py, &error, None, responder),
        };
        // What a `def` handler sets without taking it back must not reach another request either.
        let context = match route.is_async {
            true => None,
            false => {
                self.tasks.leave(py);
                self.contexts.enter_fresh(py)
            }
        };
        let may_be_open = request.content == Content::Later;
        if may_be_open {
            self.shared.open(request.id, |_| {});
        }
        let result = if route.parameters.is_empty() {
            ffi::call(py, &route.handler, [object.as_ptr()])
        } else {
            call_with_parameters(py, route, &self.parameters, request, &object)
        };
        if let Some(context) = context {
            let _ = ffi::exit_context(&context);
            self.contexts.ended(context);
        }
        let subject = Subject {
            table,
            id: request.id,
            request: &object,
            stage: Stage::Handler,
            may_be_open,
        };
        let outcome = match result {
            // What most handlers give, ahead of everything else.
            Ok(value) if self.answer_text(subject, &value, responder) => Outcome::Answered,
            result => self.ended(py, subject, result, responder),
        };
        self.give_back(py, object);
        outcome
    }

    /// Asks the application how to answer a status that the router decided.
    #[cold]
    fn call_status(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        (status, allow): (u16, &str),
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let object = match self.request_object(py, table, request, true) {
            Ok(object) => object,
            Err(error) => return plain_failure(py, &error, None, responder),
        };
        self.tasks.leave(py);
        let may_be_open = request.content == Content::Later;
        if may_be_open {
            self.shared.open(request.id, |_| {});
        }
        let result = table.on_status.bind(py).call1((&object, status, allow));
        let subject = Subject {
            table,
            id: request.id,
            request: &object,
            stage: Stage::ErrorHandler,
            may_be_open,
        };
        self.ended(py, subject, result, responder)
    }

    /// Goes on with what a handler gave: a value, a coroutine, or an exception.
    fn ended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        result: PyResult<Bound<'_, PyAny>>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        match result {
            Ok(value) if ffi::is_coroutine(&value) => self.step(py, subject, value, responder),
            Ok(value) => match self.answer(py, subject, &value, responder) {
                Ok(outcome) => outcome,
                Err(error) => self.failed(py, subject, error, responder),
            },
            Err(error) => self.failed(py, subject, error, responder),
        }
    }

    /// Runs a coroutine's first step.
    #[inline]
    fn step(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let stepped = self.tasks.enter(py).and_then(|()| {
            let context = self.contexts.fresh(py)?;
            ffi::enter_context(&context)?;
            let sent = ffi::send(py, &coroutine);
            ffi::exit_context(&context)?;
            Ok((context, sent))
        });
        let (context, sent) = match stepped {
            Ok(stepped) => stepped,
            Err(error) => return self.failed(py, subject, error, responder),
        };
        let result = match sent {
            Sent::Yielded(future) => {
                return self.suspended(py, subject, coroutine, context, future, responder);
            }
            Sent::Returned(value) => Ok(value),
            Sent::Raised(error) => Err(error),
        };
        drop(coroutine);
        self.contexts.ended(context);
        self.tasks.ended(py);
        if subject.stage == Stage::Stream {
            return self.stream_ended(py, subject, result);
        }
        let answered = result.and_then(|value| self.answer(py, subject, &value, responder));
        answered.unwrap_or_else(|error| self.failed(py, subject, error, responder))
    }

    fn suspended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        context: Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let work = Work {
            table: Arc::clone(subject.table),
            shared: Arc::clone(&self.shared),
            request: subject.request.clone_ref(py),
            id: subject.id,
            stage: subject.stage,
            coroutine: coroutine.unbind(),
            context: context.unbind(),
            future: Some(future.unbind()),
        };
        match self.tasks.suspended(py, work) {
            Ok(task) => {
                self.shared
                    .open(subject.id, |exchange| exchange.task = task);
                Outcome::Pending
            }
            Err(error) => plain_failure(py, &error, Some(subject.request), responder),
        }
    }

    /// Writes a text. False for any other value, and for a text that is not Unicode: that one has an error to tell of.
    #[inline]
    fn answer_text(
        &self,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> bool {
        let Ok(text) = value.cast_exact::<PyString>() else {
            return false;
        };
        let Ok(text) = text.to_str() else {
            return false;
        };
        responder.respond(200, Fields::constant(TEXT), text.as_bytes());
        if subject.may_be_open {
            self.shared.close(subject.id);
        }
        true
    }

    /// Writes what a value says.
    fn answer(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        if self.answer_text(subject, value, responder) {
            return Ok(Outcome::Answered);
        }
        let answer = subject.table.conversion.convert(value)?;
        if let Source::Whole(body) = &answer.source {
            responder.respond(answer.status, answer.lines.fields(), body.as_bytes()?);
            if subject.may_be_open {
                self.shared.close(subject.id);
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
                let iterator = iterator.unbind();
                if !responder.begin(answer.status, Fields::of_application(&response.fields)) {
                    self.shared.close(subject.id);
                    close_iterator(py, &iterator);
                    return Ok(Outcome::Answered);
                }
                let request = subject.request.clone_ref(py);
                self.shared.open(subject.id, |exchange| {
                    exchange.iterator = Some(iterator);
                    exchange.request = Some(request);
                });
                Ok(Outcome::Streaming)
            }
            Source::AsyncIterator(iterator) => {
                self.shared.open(subject.id, |_| {});
                self.shared.post(py, subject.id, Command::Begin(response));
                let stream = Stream {
                    id: subject.id,
                    shared: Arc::clone(&self.shared),
                };
                let coroutine = subject
                    .table
                    .stream_async
                    .bind(py)
                    .call1((Py::new(py, stream)?, iterator))?;
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

    fn stream_ended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        result: PyResult<Bound<'_, PyAny>>,
    ) -> Outcome {
        let command = match result {
            Ok(_) => Command::Finish,
            Err(error) if ends_task(py, &error) => {
                self.keep_fatal(py, error);
                Command::Fail
            }
            Err(error) => {
                log_failure(py, &error, Some(subject.request));
                Command::Fail
            }
        };
        self.shared.post(py, subject.id, command);
        self.shared.close(subject.id);
        Outcome::Pending
    }

    /// Keeps what ends the process, for the end of the pass. A cancellation ends nothing but its handler.
    fn keep_fatal(&mut self, py: Python<'_>, error: PyErr) {
        if !error.is_instance_of::<pyo3::exceptions::asyncio::CancelledError>(py) {
            self.fatal = Some(error);
        }
    }

    /// Asks the application how to answer a failure.
    #[cold]
    fn failed(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        error: PyErr,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        if !error.is_instance_of::<PyException>(py) {
            self.shared.close(subject.id);
            if !ends_task(py, &error) {
                return plain_failure(py, &error, Some(subject.request), responder);
            }
            self.keep_fatal(py, error);
            return plain_answer(responder);
        }
        if subject.stage != Stage::Handler {
            self.shared.close(subject.id);
            return plain_failure(py, &error, Some(subject.request), responder);
        }
        let result = subject
            .table
            .on_error
            .bind(py)
            .call1((subject.request, error.into_value(py)));
        // It may have left something on the task too.
        self.tasks.ended(py);
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

    /// A request object, used again if one is spare.
    #[inline]
    fn request_object(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        is_async: bool,
    ) -> PyResult<Py<Request>> {
        let object = match self.spare.pop() {
            Some(object) => object,
            None => {
                let object = table
                    .request_type
                    .bind(py)
                    .call0()?
                    .cast_into::<Request>()?;
                object.get().with(py, |state| {
                    state.prepare(Arc::clone(&self.shared), table.app.clone_ref(py))
                })?;
                object.unbind()
            }
        };
        object
            .get()
            .with(py, |state| state.fill(request, is_async))?;
        Ok(object)
    }

    /// Keeps an object that nobody else holds.
    #[inline]
    fn give_back(&mut self, py: Python<'_>, object: Py<Request>) {
        if self.spare.len() < SPARE_REQUESTS
            && ffi::references(&object) == 1
            && object
                .get()
                .with(py, |state| state.is_reusable())
                .unwrap_or(false)
        {
            self.spare.push(object);
        }
    }
}

fn call_with_parameters<'py>(
    py: Python<'py>,
    route: &Route,
    found: &Parameters,
    request: &server::Request<'_>,
    object: &Py<Request>,
) -> PyResult<Bound<'py, PyAny>> {
    let path_start = span_of(request.head, request.head.path).start;
    let mut arguments = Vec::with_capacity(1 + route.taken.len());
    arguments.push(object.bind(py).clone().into_any());
    object.get().with(py, |state| {
        state.set_parameters(&route.parameters, found, path_start);
        route.taken.iter().try_for_each(|&index| {
            arguments.push(state.parameter(py, index)?);
            PyResult::Ok(())
        })
    })??;
    ffi::call_named(
        py,
        &route.handler,
        &arguments,
        route.names.as_ref(),
        route.named,
    )
}

/// The answer of last resort.
fn plain_answer(responder: &mut Responder<'_>) -> Outcome {
    if !responder.is_answered() {
        let fields = Fields::constant(b"Content-Type: text/plain; charset=utf-8\r\n");
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Answered
}

fn plain_failure(
    py: Python<'_>,
    error: &PyErr,
    request: Option<&Py<Request>>,
    responder: &mut Responder<'_>,
) -> Outcome {
    log_failure(py, error, request);
    plain_answer(responder)
}
