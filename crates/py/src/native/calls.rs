//! Calls the handler of a request, and runs the first step of a coroutine.

mod outcome;

use std::sync::Arc;

use pyo3::prelude::*;
use server::{Content, ExchangeId, Fields, Match, Outcome, Parameters, Responder};
use wire::Version;

use self::outcome::{not_begun, plain_failure};
use crate::ffi::reuse::OurReferences;
use crate::ffi::{self, Sent};
use crate::native::app::has_path;
use crate::native::request::{Request, State};
use crate::native::suspended::{Stage, SuspendedHandler};
use crate::native::table::{Route, Table};
use crate::run::exchanges::{Exchanges, OpenExchange};
use crate::run::failure::TEXT;
use crate::run::runner::Runner;

/// Number of request objects kept for reuse.
const SPARE_REQUESTS: usize = 64;

/// The references to a request that was given back: ours.
const OF_REQUEST: OurReferences = OurReferences::of(1);

/// What is called if a native application has no route: mounted applications.
pub(crate) trait Fallback {
    /// The native application is called next: nothing that another one lent stays current.
    fn step_aside(&mut self, py: Python<'_>);

    /// Handles a request below a prefix; None if there is none. `runner` is the native application's.
    fn call(
        &mut self,
        runner: &mut Runner,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Option<Outcome>;
}

/// State of the calls: what changes from one to the next.
pub(crate) struct Calls {
    pub(crate) runner: Runner,
    spare: Vec<Py<Request>>,
    /// The parameters of the current path.
    pub(super) parameters: Parameters,
}

/// The exchange of one call.
#[derive(Clone, Copy)]
struct Subject<'a> {
    table: &'a Arc<Table>,
    id: ExchangeId,
    request: &'a Py<Request>,
    stage: Stage,
    /// The handler may have started to receive content.
    may_be_open: bool,
}

impl Calls {
    pub(crate) fn new(exchanges: Arc<Exchanges>) -> Calls {
        Calls {
            runner: Runner::new(exchanges),
            spare: Vec::new(),
            parameters: Parameters::default(),
        }
    }

    /// Handles a request by its route or, if it has none, by what is mounted.
    #[inline]
    pub(crate) fn call<const IN_STREAM: bool>(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        mounts: Option<&mut impl Fallback>,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        let Calls { parameters, .. } = self;
        match table.router.find(
            request.head.method(),
            request.head.method_name(),
            request.head.path(),
            parameters,
        ) {
            Match::Route(index) => {
                let Some(route) = table.routes.get(index) else {
                    return Outcome::Responded;
                };
                if !route.is_async && request.content == Content::Later {
                    return Outcome::ReadContent;
                }
                if let Some(mounts) = mounts {
                    mounts.step_aside(py);
                }
                self.call_route::<IN_STREAM>(py, table, route, request, responder)
            }
            Match::OtherMethods(allow) => {
                if let Some(mounts) = mounts {
                    mounts.step_aside(py);
                }
                self.call_status(py, table, (405, allow), request, responder)
            }
            Match::None if request.head.path() == b"*" => about_server(table, responder),
            Match::None => {
                if let Some(mounts) = mounts
                    && let Some(outcome) = mounts.call(&mut self.runner, request, responder)
                {
                    return outcome;
                }
                if has_path(&table.sockets, request.head) {
                    return wants_websocket(request, responder);
                }
                self.call_status(py, table, (404, ""), request, responder)
            }
        }
    }

    #[inline]
    fn call_route<const IN_STREAM: bool>(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        route: &Route,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        let object = match self.begin(py, table, request, route.is_async) {
            Ok(object) => object,
            Err(error) => return not_begun(py, &error, request, responder),
        };
        let (id, may_be_open) = (request.id, request.content == Content::Later);
        let Calls {
            runner, parameters, ..
        } = self;
        if !route.is_async {
            // A plain function runs outside any task; calling a coroutine function runs none of it yet.
            runner.tasks.leave(py);
        }
        let result = runner.exchanges.lend_unnamed(py, responder, || {
            call_handler(py, route, parameters, request, &object)
        });
        let outcome = match result {
            // Most handlers return a str, so it is tried first. One of a coroutine's wrapper is not: see `ended`.
            Ok(value)
                if !route.is_async && self.respond_text(id, may_be_open, &value, responder) =>
            {
                Outcome::Responded
            }
            result => {
                let subject = Subject {
                    table,
                    id,
                    request: &object,
                    stage: Stage::Handler,
                    may_be_open,
                };
                self.ended(py, subject, result, responder)
            }
        };
        self.runner.call_ends(py);
        self.give_back(py, object, outcome);
        outcome
    }

    /// Asks the application for the response to a status that the router decided.
    #[cold]
    fn call_status(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        (status, allow): (u16, &str),
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        let object = match self.begin(py, table, request, true) {
            Ok(object) => object,
            Err(error) => return not_begun(py, &error, request, responder),
        };
        let subject = Subject {
            table,
            id: request.id,
            request: &object,
            stage: Stage::ErrorHandler,
            may_be_open: request.content == Content::Later,
        };
        self.runner.tasks.leave(py);
        let exchanges = &self.runner.exchanges;
        let result = exchanges.lend_unnamed(py, responder, || {
            table.on_status.bind(py).call1((&object, status, allow))
        });
        let outcome = self.ended(py, subject, result.map_err(Box::new), responder);
        self.runner.call_ends(py);
        self.release(py, object, outcome);
        outcome
    }

    /// Prepares a call: a context without traces of other requests, and a request object.
    ///
    /// Errors are boxed, so that the usual result is returned in registers.
    #[inline(always)]
    fn begin(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        is_async: bool,
    ) -> Result<Py<Request>, Box<PyErr>> {
        self.runner.call_begins(py, || {}).map_err(Box::new)?;
        let object = self.request_object(py, table, request, is_async)?;
        if request.content == Content::Later {
            let open = |exchange: &mut OpenExchange| exchange.has_unread = true;
            self.runner.exchanges.open(request.id, open);
        }
        Ok(object)
    }

    /// Continues with the result of a handler: a value, a coroutine, or an exception.
    fn ended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        result: Result<Bound<'_, PyAny>, Box<PyErr>>,
        responder: &mut Responder,
    ) -> Outcome {
        let result = match result {
            Ok(value) if ffi::is_coroutine(&value) => {
                return self.step(py, subject, value, responder);
            }
            result => result,
        };
        // A plain function that was called in the task, such as a wrapper of a coroutine function, may have left a trace on it.
        self.runner.ended(py);
        match result {
            Ok(value) => match self.respond(py, subject, &value, responder) {
                Ok(outcome) => outcome,
                Err(error) => self.failed(py, subject, error, responder),
            },
            Err(error) => self.failed(py, subject, *error, responder),
        }
    }

    /// Runs a coroutine's first step.
    #[inline]
    fn step(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> Outcome {
        match self.runner.lends(py) {
            Ok(true) => {}
            Ok(false) => return self.begin_task(py, subject, coroutine, responder),
            Err(error) => return self.failed(py, subject, error, responder),
        }
        let Runner {
            exchanges, tasks, ..
        } = &mut self.runner;
        let sent = exchanges.lend_unnamed(py, responder, || tasks.step(py, &coroutine));
        let result = match sent {
            Sent::Yielded(future) => {
                return self.suspended(py, subject, coroutine, future, responder);
            }
            Sent::Returned(value) => Ok(value),
            Sent::Raised(error) => Err(error),
        };
        drop(coroutine);
        self.runner.ended(py);
        let (id, may_be_open) = (subject.id, subject.may_be_open);
        match result {
            // Most handlers return a str, so it is tried first.
            Ok(value) if self.respond_text(id, may_be_open, &value, responder) => {
                Outcome::Responded
            }
            Ok(value) => {
                let outcome = self.respond(py, subject, &value, responder);
                outcome.unwrap_or_else(|error| self.failed(py, subject, error, responder))
            }
            Err(error) => self.failed(py, subject, *error, responder),
        }
    }

    fn suspended(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> Outcome {
        let handler = self.handler_of(py, subject);
        let task = self.runner.suspended(py, coroutine, future, handler);
        self.continues(py, subject, task, responder)
    }

    /// Leaves a coroutine to a task of its own.
    #[cold]
    fn begin_task(
        &mut self,
        py: Python<'_>,
        subject: Subject<'_>,
        coroutine: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> Outcome {
        let handler = self.handler_of(py, subject);
        let runner = &self.runner;
        // The task of an eager factory takes its first step here.
        let begin = || runner.begin_task(py, coroutine, handler);
        let task = runner.exchanges.lend_unnamed(py, responder, begin);
        self.continues(py, subject, task, responder)
    }

    fn handler_of(&self, py: Python<'_>, subject: Subject<'_>) -> SuspendedHandler {
        SuspendedHandler {
            table: Arc::clone(subject.table),
            exchanges: Arc::clone(&self.runner.exchanges),
            request: subject.request.clone_ref(py),
            id: subject.id,
            stage: subject.stage,
        }
    }

    /// The handler continues in a task, or has already ended in one, or could not get one.
    fn continues(
        &self,
        py: Python<'_>,
        subject: Subject<'_>,
        task: PyResult<Option<Py<PyAny>>>,
        responder: &mut Responder,
    ) -> Outcome {
        match task {
            Ok(Some(task)) => {
                let before = self.runner.exchanges.open(subject.id, |exchange| {
                    exchange.is_streamed = subject.stage == Stage::Stream;
                    exchange.task.replace(task)
                });
                drop(before);
                Outcome::Pending
            }
            Ok(None) => Outcome::Pending,
            Err(error) => plain_failure(py, &error, Some(subject.request), responder),
        }
    }

    /// A request object, reused if a spare one exists.
    #[inline(always)]
    fn request_object(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        is_async: bool,
    ) -> Result<Py<Request>, Box<PyErr>> {
        let object = match self.spare.pop() {
            Some(object) => object,
            None => self.new_request_object(py, table).map_err(Box::new)?,
        };
        object.get().fill(py, request, is_async)?;
        Ok(object)
    }

    #[cold]
    fn new_request_object(&self, py: Python<'_>, table: &Arc<Table>) -> PyResult<Py<Request>> {
        let object = table
            .request_type
            .bind(py)
            .call0()?
            .cast_into::<Request>()?;
        object.get().with(py, |state| {
            state.prepare(Arc::clone(&self.runner.exchanges), table.app.clone_ref(py))
        })?;
        Ok(object.unbind())
    }

    /// Keeps an object that nothing else references.
    #[inline(always)]
    fn give_back(&mut self, py: Python<'_>, object: Py<Request>, outcome: Outcome) {
        if self.spare.len() < SPARE_REQUESTS
            && OF_REQUEST.are_all(py, &object)
            && object
                .get()
                .with(py, |state| state.is_reusable())
                .unwrap_or(false)
        {
            self.spare.push(object);
        } else {
            self.release(py, object, outcome);
        }
    }

    /// Leaves an object to the code that has kept it.
    #[cold]
    fn release(&self, py: Python<'_>, object: Py<Request>, outcome: Outcome) {
        let id = object.get().with(py, State::call_ended);
        if let (Ok(id), Outcome::Responded) = (id, outcome) {
            // A task may have started to wait for the end of this exchange, which was not open otherwise.
            self.runner.exchanges.end(py, id, true);
        }
    }
}

/// Responds to `OPTIONS *`, which concerns the server and not a resource of an application (RFC 9110 section 9.3.7).
#[cold]
fn about_server(table: &Table, responder: &mut Responder) -> Outcome {
    let allow = format!("Allow: {}\r\n", table.router.methods());
    responder.respond(204, Fields::of_application(allow.as_bytes()), b"");
    Outcome::Responded
}

/// Responds to a request for a path at which only WebSockets are opened (RFC 9110 section 15.5.22). HTTP/2 has no field for the upgrade.
#[cold]
fn wants_websocket(request: &server::Request<'_>, responder: &mut Responder) -> Outcome {
    let fields: &[u8] = match request.head.version() {
        Version::Http2 => TEXT,
        _ => b"Upgrade: websocket\r\nContent-Type: text/plain; charset=utf-8\r\n",
    };
    let content = b"426 Upgrade Required: only WebSockets are opened here\n";
    responder.respond(426, Fields::of_application(fields), content);
    Outcome::Responded
}

/// Calls a handler. Errors are boxed as in [`Calls::begin`].
#[inline(always)]
pub(super) fn call_handler<'py>(
    py: Python<'py>,
    route: &Route,
    parameters: &Parameters,
    request: &server::Request<'_>,
    object: &Py<Request>,
) -> Result<Bound<'py, PyAny>, Box<PyErr>> {
    if route.parameters.is_empty() {
        let arguments = [object.bind(py).as_any()];
        return ffi::call_handler(py, &route.handler, arguments).map_err(Box::new);
    }
    call_with_parameters(py, route, parameters, request, object).map_err(Box::new)
}

fn call_with_parameters<'py>(
    py: Python<'py>,
    route: &Route,
    found: &Parameters,
    request: &server::Request<'_>,
    object: &Py<Request>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut arguments = Vec::with_capacity(1 + route.taken.len());
    arguments.push(object.bind(py).clone().into_any());
    object.get().with(py, |state| {
        state.set_parameters(&route.parameters, found, request.head.place_of_path());
        route.taken.iter().try_for_each(|&index| {
            arguments.push(state.parameter(py, index)?);
            PyResult::Ok(())
        })
    })??;
    ffi::call_named(py, &route.handler, &arguments, route.names.as_ref())
}
