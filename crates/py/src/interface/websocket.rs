//! What the server says about WebSockets. All applications of a worker share the open ones, so these events need no owner.

use pyo3::prelude::*;
use server::{Appetite, Closed, ExchangeId, MessageKind, Responder};

use super::Interface;
use crate::ffi;
use crate::run::asyncio::Lending;
use crate::run::exchanges::Exchanges;
use crate::run::websocket::{End, Phase};

impl Interface {
    /// The runner of the application that is asked first.
    #[inline]
    fn exchanges(&self) -> &Exchanges {
        match self {
            Interface::Native(native) => &native.calls.runner.exchanges,
            Interface::Asgi(asgi) => &asgi.runner.exchanges,
            Interface::Wsgi(wsgi) => &wsgi.runner.exchanges,
            Interface::Mounted(mounted) => mounted.exchanges(),
        }
    }

    /// Nothing that applications have lent stays current. Returns what resuming tasks requires.
    #[inline]
    fn leave_tasks(&mut self, py: Python<'_>) -> Option<&Lending> {
        self.runners().for_each(|runner| runner.tasks.leave(py));
        self.runners().next()?.tasks.lending()
    }

    /// Keeps an exception that ends the process until the end of the pass.
    fn keep(&mut self, result: PyResult<()>) {
        if let (Err(error), Some(runner)) = (result, self.runners().next()) {
            runner.fatal = Some(error);
        }
    }

    /// A message has arrived: keeps it for [`Interface::serve_messages`].
    #[inline]
    pub(super) fn message_arrives(
        &mut self,
        id: ExchangeId,
        kind: MessageKind,
        content: &[u8],
    ) -> Appetite {
        ffi::attached(|py| {
            let exchanges = self.exchanges();
            let Some(socket) = exchanges.sockets.get(py, id) else {
                return Appetite::More;
            };
            let arrived = socket.arrives(py, kind, content);
            arrived.unwrap_or(Appetite::NoMemory)
        })
    }

    /// Messages have arrived: resumes the task that waits for them.
    pub(super) fn serve_messages(&mut self, id: ExchangeId, responder: &mut Responder) {
        ffi::attached(|py| {
            let Some(socket) = self.exchanges().sockets.get(py, id) else {
                return;
            };
            let lending = self.leave_tasks(py);
            let exchanges = &socket.exchanges;
            exchanges.turns.begin(responder.turn_ends_ms());
            let result = exchanges.lend(py, id, responder, || socket.wake(py, lending));
            self.keep(result);
        });
    }

    /// A WebSocket is over.
    pub(super) fn socket_ends(&mut self, id: ExchangeId, closed: &Closed) {
        let end = End {
            code: closed.code.0,
            reason: closed.reason.clone(),
        };
        self.end_socket(id, end);
    }

    /// An exchange was aborted that may have been a handshake.
    pub(super) fn offer_ends(&mut self, id: ExchangeId) {
        if !matches!(self, Interface::Wsgi(_)) {
            self.end_socket(id, End::abnormal());
        }
    }

    /// The peer of a handshake has ended its sending side: it cannot have a WebSocket any more. Its handler gets the
    /// disconnection, and may take as long to end as to respond.
    pub(super) fn offer_is_withdrawn(&mut self, id: ExchangeId) {
        if matches!(self, Interface::Wsgi(_)) {
            return;
        }
        let is_offered = ffi::attached(|py| {
            let socket = self.exchanges().sockets.get(py, id);
            socket.is_some_and(|socket| socket.phase(py) == Phase::Offered)
        });
        if is_offered {
            self.offer_ends(id);
        }
    }

    fn end_socket(&mut self, id: ExchangeId, end: End) {
        ffi::attached(|py| {
            let Some(socket) = self.exchanges().sockets.get(py, id) else {
                return;
            };
            let lending = self.leave_tasks(py);
            let result = socket.ends(py, end, lending);
            self.keep(result);
        });
    }

    /// Everything of a WebSocket has been sent. Returns false for any other exchange.
    #[inline]
    pub(super) fn socket_is_writable(&mut self, id: ExchangeId) -> bool {
        if matches!(self, Interface::Wsgi(_)) {
            return false;
        }
        ffi::attached(|py| {
            let socket = self.exchanges().sockets.get(py, id);
            socket.is_some_and(|socket| {
                socket.writable(py);
                true
            })
        })
    }
}
