//! ASGI applications (specification 2.5, protocol "http"; "websocket" in `websocket`).

mod arguments;
mod call;
mod extensions;
mod fresh;
mod last_start;
mod memo;
mod message;
mod posting;
mod receive;
mod scope;
mod sending;
mod websocket;
mod writing;

use std::mem::MaybeUninit;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{Abort, App, ExchangeId, Outcome, Pulled, Responder};

use self::arguments::{Arguments, SpareArguments};
use self::call::{AsgiCall, Direct};
use self::extensions::Offered;
use self::receive::Receiving;
use self::scope::Scopes;
use self::sending::Sending;
use self::websocket::SocketScopes;
use crate::ffi::{self, Sent};
use crate::run::context::Contexts;
use crate::run::coroutine::{After, Completion, ends_task};
use crate::run::exchanges::Exchanges;
use crate::run::failure::{fail, refuse_for_memory};
use crate::run::log::log_failure;
use crate::run::runner::Runner;
use crate::run::task::Tasks;

/// An ASGI application and the constant parts of its scopes.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct AsgiApp {
    app: Py<PyAny>,
    /// Turns any other awaitable into a coroutine.
    as_coroutine: Py<PyAny>,
    /// Returns a coroutine that calls the application and awaits it.
    run_in_task: Py<PyAny>,
    root_path: String,
    /// The lifespan's state, of which each request gets a shallow copy.
    state: Option<Py<PyDict>>,
    disconnected: Py<PyAny>,
    offered: Offered,
}

#[pymethods]
impl AsgiApp {
    #[new]
    #[pyo3(signature = (app, *, as_coroutine, run_in_task, root_path, state, disconnected, extensions))]
    fn new(
        app: Py<PyAny>,
        as_coroutine: Py<PyAny>,
        run_in_task: Py<PyAny>,
        root_path: String,
        state: Option<Py<PyDict>>,
        disconnected: Py<PyAny>,
        extensions: Vec<String>,
    ) -> PyResult<AsgiApp> {
        Ok(AsgiApp {
            app,
            as_coroutine,
            run_in_task,
            root_path,
            state,
            disconnected,
            offered: Offered::of(&extensions)?,
        })
    }
}

impl AsgiApp {
    /// The exception that informs an application that its client has disconnected.
    pub(crate) fn disconnected(&self) -> &Py<PyAny> {
        &self.disconnected
    }
}

/// The application as the server calls it.
pub(crate) struct Asgi {
    app: Py<PyAny>,
    as_coroutine: Py<PyAny>,
    run_in_task: Py<PyAny>,
    scopes: Scopes,
    socket_scopes: SocketScopes,
    spare: SpareArguments,
    pub(crate) runner: Runner,
}

impl Asgi {
    pub(crate) fn new(app: &Bound<'_, AsgiApp>, exchanges: Arc<Exchanges>) -> PyResult<Asgi> {
        let (py, own) = (app.py(), app.get());
        let state = || own.state.as_ref().map(|state| state.clone_ref(py));
        let (scheme, root_path) = (exchanges.scheme, own.root_path.as_str());
        Ok(Asgi {
            app: own.app.clone_ref(py),
            as_coroutine: own.as_coroutine.clone_ref(py),
            run_in_task: own.run_in_task.clone_ref(py),
            scopes: Scopes::new(
                py,
                (scheme, root_path),
                state(),
                (own.offered, exchanges.has_request_ids),
            )?,
            socket_scopes: SocketScopes::new(scheme, root_path, state()),
            spare: SpareArguments::new(own.offered),
            runner: Runner::new(exchanges),
        })
    }

    fn begin(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        self.runner.call_begins(py, || self.scopes.forget())?;
        let scope = self.scopes.scope(py, request)?;
        let arguments = self.spare.take(py, &self.runner.exchanges, request)?;
        if !self.runner.lends(py)? {
            arguments.call.get().keep_title(py, request)?;
            return self.begin_task(py, &arguments, scope, responder);
        }
        let Runner {
            exchanges,
            tasks,
            contexts,
            ..
        } = &mut self.runner;
        let callables = [&self.app, &self.as_coroutine];
        let called_with = [
            scope.as_any(),
            arguments.receive.bind(py),
            arguments.send.bind(py),
        ];
        let result = exchanges.lend(py, request.id, responder, || {
            first_step(py, callables, (tasks, contexts), called_with)
        });
        self.scopes.give_back(scope);
        let call = arguments.call.get();
        let outcome = match result {
            Step::Suspended(coroutine, future) => {
                call.keep_title(py, request)?;
                // The application runs on although its request is refused: it must not wait for it.
                let outcome = self.suspended(py, &arguments, coroutine, future, responder);
                return outcome.inspect_err(|_| call.close(py));
            }
            Step::Ended(result) => {
                if result.is_err() || !call.is_complete(py) {
                    call.keep_title(py, request)?;
                }
                let outcome = self.ended(py, call, result, responder);
                outcome.inspect_err(|_| call.close(py))?
            }
        };
        if outcome == Outcome::Responded {
            self.spare.give_back(py, arguments);
        }
        Ok(outcome)
    }

    /// The application waits for something: posts what it has sent, and its task continues independently.
    fn suspended(
        &mut self,
        py: Python<'_>,
        arguments: &Arguments,
        coroutine: Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        let call = arguments.call.clone_ref(py);
        let running = Running { call };
        let task = self.runner.suspended(py, coroutine, future, running)?;
        let call = arguments.call.get();
        let outcome = match call.first_step_ends(py, responder)? {
            Direct::Written => return Ok(Outcome::Responded),
            Direct::Begun => Outcome::Begun,
            Direct::Nothing | Direct::Posted => Outcome::Pending,
        };
        let has_begun = call.has_begun(py)?;
        let before = call.open(py, |open| {
            open.has_begun = has_begun;
            std::mem::replace(&mut open.task, task)
        })?;
        drop(before);
        Ok(outcome)
    }

    /// Calls the application in a task of its own.
    #[cold]
    fn begin_task(
        &mut self,
        py: Python<'_>,
        arguments: &Arguments,
        scope: Bound<'_, PyDict>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        let (app, receive, send) = (&self.app, &arguments.receive, &arguments.send);
        let called_with = [
            app.bind(py),
            scope.as_any(),
            receive.bind(py),
            send.bind(py),
        ];
        let coroutine = ffi::call(py, &self.run_in_task, called_with)?;
        self.scopes.give_back(scope);
        // Nothing was sent yet, and nothing is written at once.
        arguments.call.get().first_step_ends(py, responder)?;
        let running = Running {
            call: arguments.call.clone_ref(py),
        };
        let call = arguments.call.get();
        // The task of an eager factory takes its first step here.
        call.open(py, |_| {})?;
        let runner = &self.runner;
        let begin = || runner.begin_task(py, coroutine, running);
        let task = runner.exchanges.lend_unnamed(py, responder, begin);
        if let Some(task) = task.inspect_err(|_| call.close(py))? {
            let before = call.open(py, |open| open.task.replace(task))?;
            drop(before);
        }
        Ok(Outcome::Pending)
    }

    /// The application ended in its first step.
    fn ended(
        &mut self,
        py: Python<'_>,
        call: &AsgiCall,
        result: PyResult<()>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        let direct = call.first_step_ends(py, responder)?;
        match result {
            Err(error) if ends_task(py, &error) => {
                call.log_cancelled(py, &error);
                self.runner.keep_fatal(py, error);
            }
            Err(error) => call.log_raised(py, &error),
            Ok(()) if !call.is_complete(py) => call.log_incomplete(py),
            Ok(()) => {}
        }
        match direct {
            Direct::Written => Ok(Outcome::Responded),
            Direct::Nothing => {
                call.close(py);
                Ok(fail(responder))
            }
            Direct::Posted | Direct::Begun => {
                if !call.is_complete(py) {
                    call.fail(py);
                }
                call.close(py);
                Ok(match direct {
                    Direct::Begun => Outcome::Begun,
                    _ => Outcome::Pending,
                })
            }
        }
    }
}

/// Calls the application, and runs the first step of its coroutine.
fn first_step<'py>(
    py: Python<'py>,
    [app, as_coroutine]: [&Py<PyAny>; 2],
    (tasks, contexts): (&mut Tasks, &mut Contexts),
    arguments: [&Bound<'py, PyAny>; 3],
) -> Step<'py> {
    let called = match ffi::call_handler(py, app, arguments) {
        Ok(called) if !ffi::is_coroutine(&called) => ffi::call(py, as_coroutine, [&called]),
        called => called,
    };
    let coroutine = match called {
        Ok(coroutine) => coroutine,
        Err(error) => {
            // A plain function that was called in the task may have left a trace on it.
            tasks.ended(py, contexts);
            return Step::Ended(Err(error));
        }
    };
    match tasks.step(py, &coroutine) {
        Sent::Yielded(future) => Step::Suspended(coroutine, future),
        Sent::Returned(_) => {
            tasks.ended(py, contexts);
            Step::Ended(Ok(()))
        }
        Sent::Raised(error) => {
            tasks.ended(py, contexts);
            Step::Ended(Err(*error))
        }
    }
}

/// The result of a coroutine's first step.
enum Step<'py> {
    /// It waits for a future.
    Suspended(Bound<'py, PyAny>, Bound<'py, PyAny>),
    Ended(PyResult<()>),
}

impl App for Asgi {
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder) -> Outcome {
        ffi::attached(|py| {
            let outcome = self.begin(py, request, responder).unwrap_or_else(|error| {
                self.runner.exchanges.close(request.id);
                if refuse_for_memory(py, &error, request, responder) {
                    return Outcome::Responded;
                }
                log_failure(py, &error, None);
                fail(responder)
            });
            self.runner.call_ends(py);
            outcome
        })
    }

    fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
        Pulled::Failed
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        let exchanges = &self.runner.exchanges;
        ffi::attached(|py| exchanges.take_content(py, id, content, is_last))
    }

    fn content_room(&mut self, _: ExchangeId, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        ffi::attached(|py| self.runner.content_room(py, bytes))
    }

    fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        let runner = &mut self.runner;
        ffi::attached(|py| runner.content_was_read(py, id, bytes, is_last));
    }

    fn writable(&mut self, id: ExchangeId) {
        ffi::attached(|py| self.runner.exchanges.writable(py, id));
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        ffi::attached(|py| self.runner.exchanges.peer_ended(py, id));
    }

    fn has_begun(&mut self, id: ExchangeId) -> bool {
        self.runner.exchanges.has_begun(id)
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        ffi::attached(|py| self.runner.abort(py, id, why));
    }
}

/// The call of an application that was suspended.
struct Running {
    call: Py<AsgiCall>,
}

impl Completion for Running {
    fn returned(
        &mut self,
        py: Python<'_>,
        _: Option<&Py<PyAny>>,
        _: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        let call = self.call.get();
        if !call.is_complete(py) {
            call.log_incomplete(py);
            call.fail(py);
        }
        call.close(py);
        Ok(After::End)
    }

    fn raised(&mut self, py: Python<'_>, _: Option<&Py<PyAny>>, error: PyErr) -> PyResult<After> {
        let call = self.call.get();
        let is_end_of_task = ends_task(py, &error);
        match is_end_of_task {
            true => call.log_cancelled(py, &error),
            false => call.log_raised(py, &error),
        }
        if !call.is_complete(py) {
            call.fail(py);
        }
        call.close(py);
        match is_end_of_task {
            true => Err(error),
            false => Ok(After::End),
        }
    }

    fn closed(&mut self, py: Python<'_>) {
        self.call.get().close(py);
    }

    fn title(&self, py: Python<'_>) -> Option<String> {
        Some(self.call.get().title(py))
    }
}

/// Prepares the awaitable types.
pub(crate) fn prepare(py: Python<'_>) {
    ffi::step_directly::<Receiving>(py);
    ffi::prepare_calls::<Sending>(py);
    websocket::prepare(py);
}
