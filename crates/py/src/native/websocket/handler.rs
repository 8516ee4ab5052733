//! The call of a WebSocket's handler, and its end.

use std::sync::Arc;

use pyo3::prelude::*;
use server::{CloseCode, Command, Match, Offer, Responder, Response};
use wire::Method;

use super::WebSocket;
use crate::ffi::{self, Sent};
use crate::native::calls::{Calls, call_handler};
use crate::native::log::{log_failure, title};
use crate::native::request::{Request, State};
use crate::native::suspended::{Stage, SuspendedHandler};
use crate::native::table::Table;
use crate::run::coroutine::{After, Completion, ends_task};
use crate::run::log;
use crate::run::runner::Runner;
use crate::run::websocket::{Phase, Socket};

impl Calls {
    /// Calls the handler of a WebSocket whose handshake is valid.
    pub(crate) fn websocket(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) {
        if let Err(error) = self.begin_socket(py, table, request, offer, responder) {
            log_failure(py, &error, None);
            self.runner.exchanges.fail_handshake(py, request.id);
        }
        self.runner.call_ends(py);
    }

    fn begin_socket(
        &mut self,
        py: Python<'_>,
        table: &Arc<Table>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) -> PyResult<()> {
        let Calls {
            runner, parameters, ..
        } = self;
        let path = request.head.path();
        let found = table.sockets.find(Method::Get, b"GET", path, parameters);
        let route = match found {
            Match::Route(index) => table.socket_routes.get(index),
            _ => None,
        };
        let Some(route) = route else {
            runner.exchanges.fail_handshake(py, request.id);
            return Ok(());
        };
        runner.call_begins(py, || {})?;
        runner.exchanges.open(request.id, |_| {});
        let object = table.websocket_type.bind(py).call0()?;
        let object = object.cast_into::<WebSocket>()?;
        let own = object.as_super().clone().unbind();
        let exchanges = Arc::clone(&runner.exchanges);
        let app = table.app.clone_ref(py);
        own.get().with(py, |state| state.prepare(exchanges, app))?;
        own.get().fill(py, request, true).map_err(|error| *error)?;
        let socket = Socket::new(py, &runner.exchanges, request.id, false)?;
        WebSocket::opens(&object, Arc::clone(&socket), offer)?;
        let handler = SocketHandler::new(py, table, &own, socket);
        runner.tasks.leave(py);
        let called = runner.exchanges.lend_unnamed(py, responder, || {
            call_handler(py, route, parameters, request, &own)
        });
        match called {
            Ok(value) if ffi::is_coroutine(&value) => {
                self.step_of_socket(py, value, handler, responder)?;
            }
            called => self.socket_ended(py, handler, called.map_err(|error| *error)),
        }
        own.get().with(py, State::call_ended).map(drop)
    }

    fn step_of_socket(
        &mut self,
        py: Python<'_>,
        coroutine: Bound<'_, PyAny>,
        handler: SocketHandler,
        responder: &mut Responder,
    ) -> PyResult<()> {
        let id = handler.socket.id;
        if !self.runner.lends(py)? {
            let runner = &self.runner;
            let begin = || runner.begin_task(py, coroutine, handler);
            let task = runner.exchanges.lend_unnamed(py, responder, begin)?;
            runner.exchanges.runs_in(id, task);
            return Ok(());
        }
        let Runner {
            exchanges, tasks, ..
        } = &mut self.runner;
        let sent = exchanges.lend_unnamed(py, responder, || tasks.step(py, &coroutine));
        let result = match sent {
            Sent::Yielded(future) => {
                let task = self.runner.suspended(py, coroutine, future, handler)?;
                self.runner.exchanges.runs_in(id, task);
                return Ok(());
            }
            Sent::Returned(value) => Ok(value),
            Sent::Raised(error) => Err(*error),
        };
        drop(coroutine);
        self.runner.ended(py);
        self.socket_ended(py, handler, result);
        Ok(())
    }

    /// The handler ended in its first step.
    fn socket_ended(
        &mut self,
        py: Python<'_>,
        mut handler: SocketHandler,
        result: PyResult<Bound<'_, PyAny>>,
    ) {
        let after = match result {
            Ok(value) => handler.returned(py, None, &value),
            Err(error) => handler.raised(py, None, error),
        };
        let ended = match after {
            // An error handler that is a coroutine.
            Ok(After::Coroutine(next)) => self
                .runner
                .begin_task(py, next.into_bound(py), handler)
                .map(drop),
            Ok(After::End) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            self.runner.keep_fatal(py, error);
        }
    }
}

/// The handler of a WebSocket that has not ended.
struct SocketHandler {
    table: Arc<Table>,
    request: Py<Request>,
    socket: Arc<Socket>,
    /// Of what responds in place of the handshake.
    stage: Stage,
}

impl SocketHandler {
    fn new(
        py: Python<'_>,
        table: &Arc<Table>,
        request: &Py<Request>,
        socket: Arc<Socket>,
    ) -> SocketHandler {
        SocketHandler {
            table: Arc::clone(table),
            request: request.clone_ref(py),
            socket,
            stage: Stage::Handler,
        }
    }

    /// Lets what responds in place of the handshake act on the end of a coroutine.
    fn refuse(
        &mut self,
        py: Python<'_>,
        act: impl FnOnce(&mut SuspendedHandler) -> PyResult<After>,
    ) -> PyResult<After> {
        let mut refusing = SuspendedHandler {
            table: Arc::clone(&self.table),
            exchanges: Arc::clone(&self.socket.exchanges),
            request: self.request.clone_ref(py),
            id: self.socket.id,
            stage: self.stage,
        };
        let after = act(&mut refusing);
        self.stage = refusing.stage;
        after
    }

    /// Whether the end of the handler, or of an error handler, is the response to the handshake.
    fn responds(&self, py: Python<'_>) -> PyResult<bool> {
        if self.socket.phase(py) == Phase::Offered {
            self.socket.refuse(py)?;
            return Ok(true);
        }
        Ok(self.stage != Stage::Handler)
    }

    /// The handler returned nothing before it accepted.
    fn forbid(&self, py: Python<'_>) {
        let refusal = Response {
            status: 403,
            ..Response::default()
        };
        let exchanges = &self.socket.exchanges;
        exchanges.post(py, self.socket.id, Command::Respond(refusal));
        exchanges.end(py, self.socket.id, true);
    }

    /// Logs an exception, unless it only says that the client has left.
    fn log(&self, py: Python<'_>, error: &PyErr) {
        let exchanges = &self.socket.exchanges;
        let title = title(py, &self.request).unwrap_or_default();
        if exchanges.stems_from_disconnection(py, error, true) {
            return log::log_disconnected(py, &title, error);
        }
        let message = "%s: the handler of a WebSocket raised";
        log::log_about(py, "error", (message, &title), Some(error));
    }
}

impl Completion for SocketHandler {
    fn is_of_request(&self) -> bool {
        false
    }

    fn returned(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        if self.responds(py)? {
            if value.is_none() && self.stage == Stage::Handler {
                self.forbid(py);
                return Ok(After::End);
            }
            return self.refuse(py, |refusing| refusing.returned(py, context, value));
        }
        self.socket.handler_ends(py, CloseCode::NORMAL);
        Ok(After::End)
    }

    fn raised(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        error: PyErr,
    ) -> PyResult<After> {
        if self.responds(py)? {
            return self.refuse(py, |refusing| refusing.raised(py, context, error));
        }
        let is_end_of_task = ends_task(py, &error);
        let is_over = self.socket.phase(py) != Phase::Open;
        if !(is_end_of_task && is_over) {
            self.log(py, &error);
        }
        self.socket.handler_ends(py, CloseCode::INTERNAL_ERROR);
        match is_end_of_task {
            true => Err(error),
            false => Ok(After::End),
        }
    }

    fn closed(&mut self, py: Python<'_>) {
        self.socket.handler_ends(py, CloseCode::INTERNAL_ERROR);
    }

    fn title(&self, py: Python<'_>) -> Option<String> {
        title(py, &self.request)
    }
}
