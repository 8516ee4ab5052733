//! Native applications: from a route to a handler's call, and from its value to the answer.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyString, PyTuple};
use server::{Abort, App, Command, Content, ExchangeId, Fields, Match, Outcome, Parameters, Pulled, Responder, Router};

use crate::answer::{Answer, Conversion, Source, TEXT};
use crate::driver::{Stage, Work, log_failure};
use crate::ffi::{self, Sent};
use crate::request::{Parameter, Request, span_of};
use crate::shared::{Shared, close_iterator};
use crate::stream::Stream;
use crate::task::Tasks;

/// Request objects that wait to be used again.
const SPARE_REQUESTS: usize = 64;

/// The router and the handlers of a `bolide.App`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct NativeApp {
    /// A running server has its own reference, and looks here once per pass.
    table: Mutex<Arc<Table>>,
}

/// Everything that a call needs and that does not change from call to call.
pub(crate) struct Table {
    app: Py<PyAny>,
    request_type: Py<PyAny>,
    pub(crate) conversion: Conversion,
    pub(crate) on_error: Py<PyAny>,
    on_status: Py<PyAny>,
    pub(crate) stream_async: Py<PyAny>,
    pub(crate) disconnected: Py<PyAny>,
    router: Router,
    routes: Vec<Arc<Route>>,
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

impl Table {
    /// A copy to add a route to, when a server uses this one.
    fn copy(&self, py: Python<'_>) -> Table {
        let conversion = Conversion {
            response_type: self.conversion.response_type.clone_ref(py),
            json_encode: self.conversion.json_encode.clone_ref(py),
        };
        Table {
            app: self.app.clone_ref(py),
            request_type: self.request_type.clone_ref(py),
            conversion,
            on_error: self.on_error.clone_ref(py),
            on_status: self.on_status.clone_ref(py),
            stream_async: self.stream_async.clone_ref(py),
            disconnected: self.disconnected.clone_ref(py),
            router: self.router.clone(),
            routes: self.routes.clone(),
        }
    }
}

impl NativeApp {
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
        let table = Table {
            app,
            request_type,
            conversion: Conversion { response_type, json_encode },
            on_error,
            on_status,
            stream_async,
            disconnected,
            router: Router::new(),
            routes: Vec::new(),
        };
        NativeApp { table: Mutex::new(Arc::new(table)) }
    }

    /// Adds a route; ValueError, with a plain sentence, for a bad pattern or a route that exists.
    #[allow(clippy::too_many_arguments, reason = "the same arguments as the stub names")]
    fn add_route(
        &self,
        py: Python<'_>,
        method: &str,
        pattern: &str,
        handler: Py<PyAny>,
        parameters: Vec<String>,
        keyword_parameters: Vec<String>,
        is_async: bool,
    ) -> PyResult<()> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::get_mut(&mut table).is_none() {
            *table = Arc::new(table.copy(py));
        }
        let Some(table) = Arc::get_mut(&mut table) else { return Ok(()) };
        let (_, all) = table.router.add(method, pattern).map_err(|error| PyValueError::new_err(error.0))?;
        let index_of = |name: &String| {
            let found = all.iter().position(|(own, _)| own == name);
            found.ok_or_else(|| PyValueError::new_err(format!("{pattern:?} has no parameter {name}")))
        };
        let taken = parameters.iter().chain(&keyword_parameters).map(index_of).collect::<PyResult<Vec<usize>>>()?;
        let named = keyword_parameters.len();
        let names = if named > 0 { Some(PyTuple::new(py, &keyword_parameters)?.unbind()) } else { None };
        table.routes.push(Arc::new(Route { handler, is_async, parameters: all.into(), taken, names, named }));
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(table) = self.table.try_lock() else { return Ok(()) };
        // A server that uses the table keeps it alive in a way the collector cannot see: then nothing of it may look like garbage.
        if Arc::strong_count(&table) > 1 {
            return Ok(());
        }
        for object in [&table.app, &table.on_error, &table.on_status, &table.stream_async] {
            visit.call(object)?;
        }
        table.routes.iter().try_for_each(|route| visit.call(&route.handler))
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Ok(mut table) = self.table.try_lock()
            && let Some(table) = Arc::get_mut(&mut table)
        {
            table.routes.clear();
            for object in [&mut table.app, &mut table.on_error, &mut table.on_status, &mut table.stream_async] {
                *object = py.None();
            }
        }
    }
}

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
    spare: Vec<Py<Request>>,
    /// Where the parameters of the path at hand are.
    parameters: Parameters,
    /// An exception that is not a handler's failure but the process's end (KeyboardInterrupt, SystemExit).
    pub(crate) fatal: Option<PyErr>,
}

impl Native {
    pub(crate) fn new(app: Py<NativeApp>, shared: Arc<Shared>) -> Native {
        let table = app.get().table();
        let calls = Calls { shared, tasks: Tasks::default(), spare: Vec::new(), parameters: Parameters::default(), fatal: None };
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
        self.calls.call(ffi::attached(), &self.table, request, responder)
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
                let exchange = self.calls.shared.close(id).unwrap_or_default();
                close_iterator(py, &iterator);
                log_failure(py, &error, exchange.request.as_ref());
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
    table: &'a Arc<Table>,
    id: ExchangeId,
    request: &'a Py<Request>,
    stage: Stage,
    /// The handler may have begun to receive content.
    may_be_open: bool,
}

impl Calls {
    #[inline]
    fn call(&mut self, py: Python<'_>, table: &Arc<Table>, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        let Calls { parameters, .. } = self;
        match table.router.find(request.head.method, request.head.method_name, request.head.path, parameters) {
            Match::Route(index) => {
                let Some(route) = table.routes.get(index) else { return Outcome::Answered };
                if !route.is_async && request.content == Content::Later {
                    return Outcome::ReadContent;
                }
                self.call_route(py, table, route, request, responder)
            }
            Match::OtherMethods(allow) => self.call_status(py, table, (405, allow), request, responder),
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
        if !route.is_async {
            self.tasks.leave(py);
        }
        let may_be_open = request.content == Content::Later;
        if may_be_open {
            self.shared.open(request.id, |_| {});
        }
        let result = if route.parameters.is_empty() {
            ffi::call(py, &route.handler, [object.as_ptr()])
        } else {
            call_with_parameters(py, route, &self.parameters, request, &object)
        };
        let subject = Subject { table, id: request.id, request: &object, stage: Stage::Handler, may_be_open };
        let outcome = self.ended(py, subject, result, responder);
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
        let subject = Subject { table, id: request.id, request: &object, stage: Stage::ErrorHandler, may_be_open };
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
                self.shared.open(subject.id, |exchange| exchange.task = task);
                Outcome::Pending
            }
            Err(error) => plain_failure(py, &error, Some(subject.request), responder),
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
        if let Ok(text) = value.cast_exact::<PyString>() {
            responder.respond(200, Fields::plain(TEXT), text.to_str()?.as_bytes());
            if subject.may_be_open {
                self.shared.close(subject.id);
            }
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

    fn stream(&mut self, py: Python<'_>, subject: Subject<'_>, answer: Answer<'_>, responder: &mut Responder<'_>) -> PyResult<Outcome> {
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
                log_failure(py, &error, Some(subject.request));
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
            self.shared.close(subject.id);
            return plain_answer(responder);
        }
        if subject.stage != Stage::Handler {
            self.shared.close(subject.id);
            return plain_failure(py, &error, Some(subject.request), responder);
        }
        let result = subject.table.on_error.bind(py).call1((subject.request, error.into_value(py)));
        self.ended(py, Subject { stage: Stage::ErrorHandler, ..subject }, result, responder)
    }

    /// A request object, used again if one is spare.
    #[inline]
    fn request_object(&mut self, py: Python<'_>, table: &Arc<Table>, request: &server::Request<'_>, is_async: bool) -> PyResult<Py<Request>> {
        let object = match self.spare.pop() {
            Some(object) => object,
            None => {
                let object = table.request_type.bind(py).call0()?.cast_into::<Request>()?;
                object.get().with(py, |state| state.prepare(Arc::clone(&self.shared), table.app.clone_ref(py)))?;
                object.unbind()
            }
        };
        object.get().with(py, |state| state.fill(request, is_async))?;
        Ok(object)
    }

    /// Keeps an object that nobody else holds.
    #[inline]
    fn give_back(&mut self, py: Python<'_>, object: Py<Request>) {
        if self.spare.len() < SPARE_REQUESTS
            && ffi::references(&object) == 1
            && object.get().with(py, |state| state.is_reusable()).unwrap_or(false)
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

fn plain_failure(py: Python<'_>, error: &PyErr, request: Option<&Py<Request>>, responder: &mut Responder<'_>) -> Outcome {
    log_failure(py, error, request);
    plain_answer(responder)
}
