//! Native applications: from a route to a handler's call, and from its value to the answer.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use server::{Abort, App, Command, Content, ExchangeId, Fields, Match, Outcome, Parameters, Pulled, Responder, Router};

use crate::answer::{Answer, Conversion, Source};
use crate::driver::{Stage, Work, log_failure};
use crate::ffi::{self, Sent};
use crate::request::{Parameter, Request};
use crate::shared::{Shared, close_iterator};
use crate::stream::Stream;
use crate::task::Tasks;

/// Request objects that wait to be used again.
const SPARE_REQUESTS: usize = 64;

/// The router and the handlers of a `bolide.App`.
#[pyclass(module = "bolide._core")]
pub(crate) struct NativeApp {
    app: Py<PyAny>,
    request_type: Py<PyAny>,
    pub(crate) conversion: Conversion,
    pub(crate) on_error: Py<PyAny>,
    on_status: Py<PyAny>,
    pub(crate) stream_async: Py<PyAny>,
    pub(crate) disconnected: Py<PyAny>,
    router: Router,
    routes: Vec<Route>,
}

struct Route {
    handler: Py<PyAny>,
    is_async: bool,
    parameters: Arc<[Parameter]>,
    /// The parameters that the handler takes: indexes, the ones by position first.
    taken: Vec<usize>,
    names: Option<Py<PyTuple>>,
    named: usize,
}

#[pymethods]
impl NativeApp {
    #[new]
    #[pyo3(signature = (*, app, request_type, response_type, json_encode, on_error, on_status, stream_async, disconnected))]
    #[allow(clippy::too_many_arguments, reason = "keywords of one constructor call, named on both sides")]
    fn new(
        app: Py<PyAny>,
        request_type: Py<PyAny>,
        response_type: Py<PyAny>,
        json_encode: Py<PyAny>,
        on_error: Py<PyAny>,
        on_status: Py<PyAny>,
        stream_async: Py<PyAny>,
        disconnected: Py<PyAny>,
    ) -> NativeApp {
        NativeApp {
            app,
            request_type,
            conversion: Conversion { response_type, json_encode },
            on_error,
            on_status,
            stream_async,
            disconnected,
            router: Router::new(),
            routes: Vec::new(),
        }
    }

    /// Adds a route; ValueError, with a plain sentence, for a bad pattern or a route that exists.
    fn add_route(
        &mut self,
        py: Python<'_>,
        method: &str,
        pattern: &str,
        handler: Py<PyAny>,
        parameters: Vec<String>,
        keyword_parameters: Vec<String>,
        is_async: bool,
    ) -> PyResult<()> {
        let (_, all) = self.router.add(method, pattern).map_err(|error| PyValueError::new_err(error.0))?;
        let index_of = |name: &String| {
            let found = all.iter().position(|(own, _)| own == name);
            found.ok_or_else(|| PyValueError::new_err(format!("{pattern:?} has no parameter {name}")))
        };
        let taken = parameters.iter().chain(&keyword_parameters).map(index_of).collect::<PyResult<Vec<usize>>>()?;
        let named = keyword_parameters.len();
        let names = if named > 0 { Some(PyTuple::new(py, &keyword_parameters)?.unbind()) } else { None };
        self.routes.push(Route { handler, is_async, parameters: all.into(), taken, names, named });
        Ok(())
    }
}

/// The application as the server calls it.
pub(crate) struct Native {
    table: Py<NativeApp>,
    pub(crate) calls: Calls,
}

/// What changes from call to call.
pub(crate) struct Calls {
    table: Py<NativeApp>,
    shared: Arc<Shared>,
    pub(crate) tasks: Tasks,
    spare: Vec<Py<Request>>,
    /// An exception that is not a handler's failure but the process's end (KeyboardInterrupt, SystemExit).
    pub(crate) fatal: Option<PyErr>,
}

impl Native {
    pub(crate) fn new(py: Python<'_>, table: Py<NativeApp>, shared: Arc<Shared>) -> Native {
        let calls = Calls { table: table.clone_ref(py), shared, tasks: Tasks::default(), spare: Vec::new(), fatal: None };
        Native { table, calls }
    }
}

impl App for Native {
    #[inline]
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        let py = ffi::attached();
        let table = self.table.bind(py).borrow();
        self.calls.call(py, &table, request, responder)
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        let py = ffi::attached();
        self.calls.tasks.leave(py);
        let iterator = self.calls.shared.exchanges().get(&id).and_then(|exchange| Some(exchange.iterator.as_ref()?.clone_ref(py)));
        let Some(iterator) = iterator else { return Pulled::Failed };
        match next_part(iterator.bind(py), out) {
            Ok(true) => Pulled::More,
            Ok(false) => {
                self.calls.shared.close(id);
                Pulled::End
            }
            Err(error) => {
                self.calls.shared.close(id);
                close_iterator(py, &iterator);
                log_failure(py, &error, "a streamed answer could not be completed");
                Pulled::Failed
            }
        }
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) {
        self.calls.shared.take_content(ffi::attached(), id, content, is_last);
    }

    fn writable(&mut self, id: ExchangeId) {
        self.calls.shared.writable(ffi::attached(), id);
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        let py = ffi::attached();
        let task = match why {
            Abort::HandlerTimeout => self.calls.shared.exchanges().get_mut(&id).and_then(|exchange| exchange.task.take()),
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
    let Some(part) = iterator.try_iter()?.next().transpose()? else { return Ok(false) };
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
    table: &'a NativeApp,
    id: ExchangeId,
    request: &'a Py<Request>,
    stage: Stage,
}

impl Calls {
    #[inline]
    fn call(&mut self, py: Python<'_>, table: &NativeApp, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        match table.router.find(request.head.method_name, request.head.path) {
            Match::Route(index, found) => {
                let Some(route) = table.routes.get(index) else { return Outcome::Answered };
                if !route.is_async && request.content == Content::Later {
                    return Outcome::ReadContent;
                }
                self.call_route(py, table, route, &found, request, responder)
            }
            Match::OtherMethods(allow) => self.call_status(py, table, (405, allow), request, responder),
            Match::None => self.call_status(py, table, (404, ""), request, responder),
        }
    }

    #[inline]
    fn call_route(
        &mut self,
        py: Python<'_>,
        table: &NativeApp,
        route: &Route,
        found: &Parameters,
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let object = match self.request_object(py, table, request, route.is_async) {
            Ok(object) => object,
            Err(error) => return plain_failure(py, &error, responder),
        };
        if !route.is_async {
            self.tasks.leave(py);
        }
        let result = if route.parameters.is_empty() {
            ffi::call(py, &route.handler, [object.as_ptr()])
        } else {
            call_with_parameters(py, route, found, &object)
        };
        let subject = Subject { table, id: request.id, request: &object, stage: Stage::Handler };
        let outcome = self.ended(py, subject, result, responder);
        self.give_back(py, object);
        outcome
    }

    /// Asks the application how to answer a status that the router decided.
    #[cold]
    fn call_status(
        &mut self,
        py: Python<'_>,
        table: &NativeApp,
        (status, allow): (u16, &str),
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let object = match self.request_object(py, table, request, true) {
            Ok(object) => object,
            Err(error) => return plain_failure(py, &error, responder),
        };
        self.tasks.leave(py);
        let result = table.on_status.bind(py).call1((&object, status, allow));
        let subject = Subject { table, id: request.id, request: &object, stage: Stage::ErrorHandler };
        self.ended(py, subject, result, responder)
    }

    /// Goes on with what a handler gave: a value, a coroutine, or an exception.
    #[inline]
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
    fn step(&mut self, py: Python<'_>, subject: Subject<'_>, coroutine: Bound<'_, PyAny>, responder: &mut Responder<'_>) -> Outcome {
        let stepped = self.tasks.enter(py).and_then(|()| {
            let context = ffi::copy_context(py)?;
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
            Sent::Yielded(future) => return self.suspended(py, subject, coroutine, context, future, responder),
            Sent::Returned(value) => Ok(value),
            Sent::Raised(error) => Err(error),
        };
        drop(coroutine);
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
            table: self.table.clone_ref(py),
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
                self.shared.exchanges().entry(subject.id).or_default().task = task;
                Outcome::Pending
            }
            Err(error) => plain_failure(py, &error, responder),
        }
    }

    /// Writes what a value says.
    #[inline]
    fn answer(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        value: &Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        let answer = subject.table.conversion.convert(value)?;
        if let Source::Whole(body) = &answer.source {
            responder.respond(answer.status, answer.lines.fields(), body.as_bytes()?);
            self.shared.close(subject.id);
            return Ok(Outcome::Answered);
        }
        self.stream(py, subject, answer, responder)
    }

    fn stream(&mut self, py: Python<'_>, subject: Subject<'_>, answer: Answer<'_>, responder: &mut Responder<'_>) -> PyResult<Outcome> {
        let response = answer.to_response()?;
        match answer.source {
            Source::Iterator(iterator) => {
                let iterator = iterator.unbind();
                if !responder.begin(answer.status, Fields::of_application(&response.fields)) {
                    close_iterator(py, &iterator);
                    return Ok(Outcome::Answered);
                }
                self.shared.exchanges().entry(subject.id).or_default().iterator = Some(iterator);
                Ok(Outcome::Streaming)
            }
            Source::AsyncIterator(iterator) => {
                self.shared.post(py, subject.id, Command::Begin(response));
                let stream = Stream { id: subject.id, shared: Arc::clone(&self.shared) };
                let coroutine = subject.table.stream_async.bind(py).call1((Py::new(py, stream)?, iterator))?;
                Ok(self.step(py, Subject { stage: Stage::Stream, ..subject }, coroutine, responder))
            }
            Source::Whole(_) => Ok(Outcome::Answered),
        }
    }

    fn stream_ended(&mut self, py: Python<'_>, subject: Subject<'_>, result: PyResult<Bound<'_, PyAny>>) -> Outcome {
        let command = match result {
            Ok(_) => Command::Finish,
            Err(error) => {
                log_failure(py, &error, "a streamed answer could not be completed");
                Command::Fail
            }
        };
        self.shared.post(py, subject.id, command);
        self.shared.close(subject.id);
        Outcome::Pending
    }

    /// Asks the application how to answer a failure.
    #[cold]
    fn failed(&mut self, py: Python<'_>, subject: Subject<'_>, error: PyErr, responder: &mut Responder<'_>) -> Outcome {
        if !error.is_instance_of::<PyException>(py) {
            if !error.is_instance_of::<pyo3::exceptions::asyncio::CancelledError>(py) {
                self.fatal = Some(error);
            }
            return plain_answer(responder);
        }
        if subject.stage != Stage::Handler {
            return plain_failure(py, &error, responder);
        }
        self.shared.close(subject.id);
        let result = subject.table.on_error.bind(py).call1((subject.request, error.into_value(py)));
        self.ended(py, Subject { stage: Stage::ErrorHandler, ..subject }, result, responder)
    }

    /// A request object, used again if one is spare.
    #[inline]
    fn request_object(&mut self, py: Python<'_>, table: &NativeApp, request: &server::Request<'_>, is_async: bool) -> PyResult<Py<Request>> {
        let object = match self.spare.pop() {
            Some(object) => object,
            None => {
                let object = table.request_type.bind(py).call0()?.cast_into::<Request>()?;
                object.borrow_mut().prepare(Arc::clone(&self.shared), table.app.clone_ref(py));
                object.unbind()
            }
        };
        object.bind(py).borrow_mut().fill(request, is_async);
        Ok(object)
    }

    /// Keeps an object that nobody else holds.
    #[inline]
    fn give_back(&mut self, py: Python<'_>, object: Py<Request>) {
        if self.spare.len() < SPARE_REQUESTS && ffi::references(&object) == 1 && object.bind(py).borrow_mut().is_reusable() {
            self.spare.push(object);
        }
    }
}

fn call_with_parameters<'py>(py: Python<'py>, route: &Route, found: &Parameters, object: &Py<Request>) -> PyResult<Bound<'py, PyAny>> {
    let mut arguments = Vec::with_capacity(1 + route.taken.len());
    arguments.push(object.bind(py).clone().into_any());
    {
        let mut request = object.bind(py).borrow_mut();
        request.set_parameters(&route.parameters, found);
        for &index in &route.taken {
            arguments.push(request.parameter(py, index)?);
        }
    }
    ffi::call_named(py, &route.handler, &arguments, route.names.as_ref(), route.named)
}

/// The answer of last resort.
fn plain_answer(responder: &mut Responder<'_>) -> Outcome {
    if !responder.is_answered() {
        let fields = Fields::plain(b"Content-Type: text/plain; charset=utf-8\r\n");
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Answered
}

fn plain_failure(py: Python<'_>, error: &PyErr, responder: &mut Responder<'_>) -> Outcome {
    log_failure(py, error, "a request could not be answered");
    plain_answer(responder)
}
