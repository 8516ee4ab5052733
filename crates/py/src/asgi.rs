//! ASGI applications (specification 2.5, protocol "http").

mod exchange;
mod message;
mod scope;

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{Abort, App, Content, ExchangeId, Fields, Outcome, Pulled, Responder, Response};

use self::exchange::{Exchange, Receive};
use self::scope::Scopes;
use crate::driver::{After, Purpose, ends_task, log_failure};
use crate::ffi::{self, Sent};
use crate::runner::Runner;
use crate::shared::Shared;

/// An ASGI application and what its scopes begin with.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct AsgiApp {
    app: Py<PyAny>,
    root_path: String,
    /// The lifespan's state, of which each request has a shallow copy.
    state: Option<Py<PyDict>>,
    disconnected: Py<PyAny>,
}

#[pymethods]
impl AsgiApp {
    #[new]
    #[pyo3(signature = (app, *, root_path, state, disconnected))]
    fn new(
        app: Py<PyAny>,
        root_path: String,
        state: Option<Py<PyDict>>,
        disconnected: Py<PyAny>,
    ) -> AsgiApp {
        AsgiApp {
            app,
            root_path,
            state,
            disconnected,
        }
    }
}

impl AsgiApp {
    /// The exception that tells an application of its client's end.
    pub(crate) fn disconnected(&self) -> &Py<PyAny> {
        &self.disconnected
    }
}

/// The application as the server calls it.
pub(crate) struct Asgi {
    app: Py<PyAny>,
    scopes: Scopes,
    pub(crate) runner: Runner,
}

impl Asgi {
    pub(crate) fn new(app: &Bound<'_, AsgiApp>, shared: Arc<Shared>) -> PyResult<Asgi> {
        let (py, own) = (app.py(), app.get());
        let state = own.state.as_ref().map(|state| state.clone_ref(py));
        Ok(Asgi {
            app: own.app.clone_ref(py),
            scopes: Scopes::new(py, &own.root_path, state)?,
            runner: Runner::new(shared),
        })
    }

    fn begin(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        self.runner.call_begins(py)?;
        let scope = self.scopes.scope(py, request)?;
        if request.content == Content::Later {
            self.runner.shared.open(request.id, |_| {});
        }
        let exchange = Bound::new(py, Exchange::new(request, &self.runner.shared))?;
        let receive = Bound::new(py, Receive::of(&exchange))?;
        let arguments = [scope.as_any(), receive.as_any(), exchange.as_any()];
        let coroutine = match ffi::call(py, &self.app, arguments) {
            Ok(coroutine) => coroutine,
            Err(error) => return Ok(self.ended(py, &exchange, Err(error), responder)),
        };
        if !ffi::is_coroutine(&coroutine) {
            let kind = coroutine.get_type().name()?;
            let message = format!("an ASGI application gives a coroutine, not {kind}");
            let error = PyTypeError::new_err(message);
            return Ok(self.ended(py, &exchange, Err(error), responder));
        }
        match self.runner.step(py, &coroutine) {
            Sent::Yielded(future) => self.suspended(py, &exchange, coroutine, future, responder),
            Sent::Returned(_) => {
                self.runner.tasks.ended(py);
                Ok(self.ended(py, &exchange, Ok(()), responder))
            }
            Sent::Raised(error) => {
                self.runner.tasks.ended(py);
                Ok(self.ended(py, &exchange, Err(error), responder))
            }
        }
    }

    /// It waits for something: whatever it has said is sent, and its task goes on alone.
    fn suspended(
        &mut self,
        py: Python<'_>,
        exchange: &Bound<'_, Exchange>,
        coroutine: Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Outcome> {
        let running = Running {
            exchange: exchange.clone().unbind(),
        };
        let task = self
            .runner
            .suspended(py, coroutine, future, Box::new(running))?;
        if let Some(response) = exchange.get().first_step_ends(py)? {
            return Ok(respond(exchange.get(), &response, responder));
        }
        let before = self.runner.shared.open(exchange.get().id(), |open| {
            std::mem::replace(&mut open.task, task)
        });
        drop(before);
        Ok(Outcome::Pending)
    }

    /// It ended in its first step.
    fn ended(
        &mut self,
        py: Python<'_>,
        exchange: &Bound<'_, Exchange>,
        result: PyResult<()>,
        responder: &mut Responder<'_>,
    ) -> Outcome {
        let own = exchange.get();
        let answered = own.first_step_ends(py).ok().flatten();
        if let Err(error) = result {
            if ends_task(py, &error) {
                self.runner.keep_fatal(py, error);
            } else {
                own.log_raised(py, &error);
            }
        } else if answered.is_none() && !own.is_complete(py) {
            own.log_incomplete(py);
        }
        if let Some(response) = answered {
            return respond(own, &response, responder);
        }
        if own.has_begun(py) {
            own.end_cut(py);
            return Outcome::Pending;
        }
        own.close();
        failure(responder)
    }
}

/// Writes a whole answer.
fn respond(exchange: &Exchange, response: &Response, responder: &mut Responder<'_>) -> Outcome {
    let fields = Fields::of_application(&response.fields);
    if exchange.is_head_only(response) {
        responder.begin(response.status, fields, response.length);
    } else {
        responder.respond(response.status, fields, &response.content);
    }
    Outcome::Answered
}

fn failure(responder: &mut Responder<'_>) -> Outcome {
    if !responder.is_answered() {
        let fields = Fields::constant(crate::answer::TEXT);
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Answered
}

impl App for Asgi {
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        let py = ffi::attached();
        let outcome = self.begin(py, request, responder).unwrap_or_else(|error| {
            log_failure(py, &error, None);
            self.runner.shared.close(request.id);
            failure(responder)
        });
        self.runner.call_ends(py);
        outcome
    }

    fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
        Pulled::Failed
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) {
        let py = ffi::attached();
        self.runner.shared.take_content(py, id, content, is_last);
    }

    fn writable(&mut self, id: ExchangeId) {
        self.runner.shared.writable(ffi::attached(), id);
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        self.runner.shared.peer_ended(ffi::attached(), id);
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        let py = ffi::attached();
        self.runner.tasks.leave(py);
        let is_discarding = self.runner.shared.change(id, |open| open.is_discarding);
        if why == Abort::Refused && is_discarding == Some(true) {
            // Its answer to HEAD is complete; it may say the rest to nobody.
            return;
        }
        let task = match why {
            Abort::HandlerTimeout => {
                let taken = self.runner.shared.change(id, |open| open.task.take());
                taken.flatten()
            }
            Abort::Disconnected | Abort::Refused => None,
        };
        if let Some(task) = task
            && let Err(error) = task.call_method0(py, "cancel")
        {
            error.write_unraisable(py, None);
        }
        self.runner.shared.disconnect(py, id);
    }
}

/// The exchange of an application that was suspended.
struct Running {
    exchange: Py<Exchange>,
}

impl Purpose for Running {
    fn returned(&mut self, py: Python<'_>, _: &Py<PyAny>, _: &Bound<'_, PyAny>) -> PyResult<After> {
        let exchange = self.exchange.get();
        if !exchange.is_complete(py) {
            exchange.log_incomplete(py);
            exchange.fail(py);
        }
        exchange.close();
        Ok(After::End)
    }

    fn raised(&mut self, py: Python<'_>, _: &Py<PyAny>, error: PyErr) -> PyResult<After> {
        let exchange = self.exchange.get();
        let is_end_of_task = ends_task(py, &error);
        if !is_end_of_task {
            exchange.log_raised(py, &error);
        }
        if !exchange.is_complete(py) {
            exchange.fail(py);
        }
        exchange.close();
        match is_end_of_task {
            true => Err(error),
            false => Ok(After::End),
        }
    }

    fn closed(&mut self, _: Python<'_>) {
        self.exchange.get().close();
    }
}
