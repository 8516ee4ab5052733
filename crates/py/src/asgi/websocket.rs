//! ASGI applications' WebSockets (specification 2.4, protocol "websocket").
//!
//! | file | contents |
//! | --- | --- |
//! | `scope` | the connection scope |
//! | `call` | `receive` and `send` of one WebSocket |
//! | `message` | what an application sends |
//! | `denial` | a response instead of the handshake's (extension "websocket.http.response") |

mod call;
mod denial;
mod message;
mod scope;

use pyo3::prelude::*;
use server::{CloseCode, Offer, Responder};

use self::call::SocketCall;
pub(super) use self::call::prepare;
pub(super) use self::scope::SocketScopes;
use super::{Asgi, Step, first_step};
use crate::ffi;
use crate::run::coroutine::{After, Completion, ends_task};
use crate::run::log::log_failure;
use crate::run::runner::Runner;
use crate::run::websocket::Socket;

/// A call, and its two methods as objects of their own.
struct Methods {
    call: Py<SocketCall>,
    receive: Py<PyAny>,
    send: Py<PyAny>,
}

impl Asgi {
    /// Calls the application with a WebSocket whose handshake is valid.
    pub(crate) fn websocket(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) {
        if let Err(error) = self.begin_socket(py, request, offer, responder) {
            log_failure(py, &error, None);
            self.runner.exchanges.fail_handshake(py, request.id);
        }
        self.runner.call_ends(py);
    }

    fn begin_socket(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) -> PyResult<()> {
        self.runner.call_begins(py, || self.scopes.forget())?;
        let scope = self.socket_scopes.scope(py, request, offer)?;
        let exchanges = &self.runner.exchanges;
        exchanges.open(request.id, |_| {});
        let socket = Socket::new(py, exchanges, request.id, true)?;
        let call = Bound::new(py, SocketCall::new(socket, request.head, offer))?;
        let methods = Methods {
            receive: call.getattr("receive")?.unbind(),
            send: call.getattr("send")?.unbind(),
            call: call.unbind(),
        };
        let running = RunningSocket {
            call: methods.call.clone_ref(py),
        };
        if !self.runner.lends(py)? {
            return self.begin_socket_task(py, &methods, scope.as_any(), running, responder);
        }
        let Runner {
            exchanges,
            tasks,
            contexts,
            ..
        } = &mut self.runner;
        let callables = [&self.app, &self.as_coroutine];
        let arguments = [
            scope.as_any(),
            methods.receive.bind(py),
            methods.send.bind(py),
        ];
        let result = exchanges.lend_unnamed(py, responder, || {
            first_step(py, callables, (tasks, contexts), arguments)
        });
        match result {
            Step::Suspended(coroutine, future) => {
                let task = self.runner.suspended(py, coroutine, future, running)?;
                self.runner.exchanges.runs_in(request.id, task);
            }
            Step::Ended(result) => self.socket_ended(py, running, result),
        }
        Ok(())
    }

    /// The application ended in its first step.
    fn socket_ended(&mut self, py: Python<'_>, mut running: RunningSocket, result: PyResult<()>) {
        let none = py.None().into_bound(py);
        let ended = match result {
            Ok(()) => running.returned(py, None, &none),
            Err(error) => running.raised(py, None, error),
        };
        if let Err(error) = ended {
            self.runner.keep_fatal(py, error);
        }
    }

    /// Calls the application in a task of its own.
    #[cold]
    fn begin_socket_task(
        &mut self,
        py: Python<'_>,
        methods: &Methods,
        scope: &Bound<'_, PyAny>,
        running: RunningSocket,
        responder: &mut Responder,
    ) -> PyResult<()> {
        let called_with = [
            self.app.bind(py),
            scope,
            methods.receive.bind(py),
            methods.send.bind(py),
        ];
        let coroutine = ffi::call(py, &self.run_in_task, called_with)?;
        let runner = &self.runner;
        let begin = || runner.begin_task(py, coroutine, running);
        let task = runner.exchanges.lend_unnamed(py, responder, begin)?;
        runner.exchanges.runs_in(methods.call.get().socket.id, task);
        Ok(())
    }
}

/// The call of an application that has not ended.
struct RunningSocket {
    call: Py<SocketCall>,
}

impl Completion for RunningSocket {
    fn is_of_request(&self) -> bool {
        false
    }

    fn returned(
        &mut self,
        py: Python<'_>,
        _: Option<&Py<PyAny>>,
        _: &Bound<'_, PyAny>,
    ) -> PyResult<After> {
        let call = self.call.get();
        if !call.has_responded(py) {
            call.log(py, None);
            call.complete_handshake(py, 403);
        }
        call.socket.handler_ends(py, CloseCode::NORMAL);
        Ok(After::End)
    }

    fn raised(&mut self, py: Python<'_>, _: Option<&Py<PyAny>>, error: PyErr) -> PyResult<After> {
        let call = self.call.get();
        let is_end_of_task = ends_task(py, &error);
        if !(is_end_of_task && call.is_over(py)) {
            call.log(py, Some(&error));
        }
        if !call.has_responded(py) {
            call.complete_handshake(py, 500);
        }
        call.socket.handler_ends(py, CloseCode::INTERNAL_ERROR);
        match is_end_of_task {
            true => Err(error),
            false => Ok(After::End),
        }
    }

    fn closed(&mut self, py: Python<'_>) {
        self.call
            .get()
            .socket
            .handler_ends(py, CloseCode::INTERNAL_ERROR);
    }

    fn title(&self, _: Python<'_>) -> Option<String> {
        Some(self.call.get().title.clone())
    }
}
