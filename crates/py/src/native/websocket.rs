//! WebSockets of native applications: `bolide.WebSocket`, and the calls of their handlers.

mod handler;
mod sent;

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyType};
use server::{CloseCode, Command, MessageKind, Offer, Opening};

pub(crate) use self::sent::{Sendable, sendable};
use super::request::{self, Request};
use super::response::{Source, convert};
use crate::ffi::{self, General, Method, Next, WithArgument, WithoutArguments};
use crate::run::awaitable::LoopTurn;
use crate::run::websocket::{Form, Phase, Receiving, Socket, is_of_handshake};

/// A WebSocket as a handler sees it: the request of its handshake, and what happens after it.
#[pyclass(extends = Request, subclass, frozen, module = "bolide._core")]
#[derive(Default)]
pub(crate) struct WebSocket {
    /// Set once, by the server.
    socket: OnceLock<Arc<Socket>>,
}

impl WebSocket {
    /// Makes this the object of a WebSocket whose handshake is valid.
    fn opens(slf: &Bound<'_, WebSocket>, socket: Arc<Socket>, offer: &Offer<'_>) -> PyResult<()> {
        let offered: Vec<Vec<u8>> = offer.subprotocols().map(<[u8]>::to_vec).collect();
        if slf.get().socket.set(socket).is_err() {
            return Err(ffi::in_use());
        }
        match offered.is_empty() {
            true => Ok(()),
            false => WebSocket::request(slf, |request| request.offers(offered)),
        }
    }

    /// Accesses the request of its handshake.
    fn request<R>(
        slf: &Bound<'_, WebSocket>,
        reach: impl FnOnce(&mut request::State) -> R,
    ) -> PyResult<R> {
        slf.as_super().get().with(slf.py(), reach)
    }

    #[inline]
    fn socket(&self) -> PyResult<&Arc<Socket>> {
        self.socket.get().ok_or_else(not_made)
    }

    /// Whether a call of the application is under way, in which the server has called what calls this.
    #[inline]
    fn is_in_call(&self) -> bool {
        let socket = self.socket.get();
        socket.is_some_and(|socket| socket.exchanges.is_in_call())
    }

    /// The WebSocket, accepted if the handler has not responded to the handshake.
    #[inline]
    fn accepted(&self, py: Python<'_>) -> PyResult<&Arc<Socket>> {
        let socket = self.socket()?;
        if socket.phase(py) == Phase::Offered {
            socket.accept(py, Opening::default())?;
        }
        Ok(socket)
    }

    /// The WebSocket, accepted and open.
    fn open(&self, py: Python<'_>) -> PyResult<&Arc<Socket>> {
        let socket = self.accepted(py)?;
        match socket.phase(py) {
            Phase::Open => Ok(socket),
            phase => Err(closed(py, socket, phase)),
        }
    }
}

#[cold]
fn not_made() -> PyErr {
    PyRuntimeError::new_err("only the server makes WebSockets")
}

/// The exception for a WebSocket that is not open.
#[cold]
fn closed(py: Python<'_>, socket: &Socket, phase: Phase) -> PyErr {
    let end = match phase {
        Phase::Withdrawn | Phase::Ended => socket.end(py),
        Phase::Closing => socket.closing(py),
        _ => Ok(None),
    };
    match end {
        Ok(Some(end)) => end.exception(py),
        _ => socket.not_open(py, phase),
    }
}

#[pymethods]
impl WebSocket {
    #[new]
    fn new() -> PyClassInitializer<WebSocket> {
        PyClassInitializer::from(Request::default()).add_subclass(WebSocket::default())
    }

    /// The subprotocols that the client offers, in its order.
    #[getter]
    fn subprotocols<'py>(slf: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let names = WebSocket::request(slf, |request| {
            let subprotocols = request.subprotocols();
            let names = subprotocols.iter().flat_map(|all| &all.offered);
            names.map(|name| ffi::latin1(py, name)).collect::<Vec<_>>()
        })?;
        PyList::new(py, names)
    }

    /// The subprotocol that was accepted.
    #[getter]
    fn subprotocol(slf: &Bound<'_, WebSocket>) -> PyResult<Option<String>> {
        WebSocket::request(slf, |request| request.subprotocols()?.accepted.clone())
    }

    /// The code with which it was closed; None while it is open.
    #[getter]
    fn close_code(&self, py: Python<'_>) -> PyResult<Option<u16>> {
        Ok(self.socket()?.end(py)?.map(|end| end.code))
    }

    /// The reason with which it was closed; None while it is open.
    #[getter]
    fn close_reason(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.socket()?.end(py)?.map(|end| end.reason))
    }

    /// Whether messages can be sent.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.socket()?.phase(py) == Phase::Open)
    }

    /// Accepts the handshake; `fields` are encoded field lines.
    #[pyo3(name = "_accept")]
    fn accept<'py>(
        slf: &Bound<'py, WebSocket>,
        subprotocol: Option<String>,
        fields: Vec<u8>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let socket = slf.get().socket()?;
        let is_offered = WebSocket::request(slf, |request| match &subprotocol {
            Some(name) => request.subprotocols().is_some_and(|all| {
                let mut offered = all.offered.iter();
                offered.any(|own| own == name.as_bytes())
            }),
            None => true,
        })?;
        if !is_offered {
            let name = subprotocol.unwrap_or_default();
            return Err(PyValueError::new_err(format!(
                "the client does not offer the subprotocol {name:?}"
            )));
        }
        if let Some((name, _)) = wire::field_lines(&fields).find(|(name, _)| is_of_handshake(name))
        {
            return Err(PyValueError::new_err(format!(
                "the server sets {} itself; a subprotocol has its own argument",
                name.escape_ascii()
            )));
        }
        let opening = Opening {
            subprotocol: subprotocol.clone().map(String::into_bytes),
            fields,
        };
        socket.accept(py, opening)?;
        if subprotocol.is_some() {
            WebSocket::request(slf, |request| {
                if let Some(own) = request.subprotocols() {
                    own.accepted = subprotocol;
                }
            })?;
        }
        // What is posted in a call is sent when it has ended.
        match socket.exchanges.is_in_call() {
            true => LoopTurn::awaitable(py),
            false => socket.exchanges.done(py),
        }
    }

    /// Refuses the handshake with a response.
    #[pyo3(name = "_reject")]
    fn reject<'py>(&self, response: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = response.py();
        let socket = self.socket()?;
        let response = convert(response)?;
        let owned = response.to_owned_response()?;
        if !matches!(response.source, Source::Whole(_)) {
            return Err(PyValueError::new_err(
                "reject() takes a response whose content is complete; return one that is streamed",
            ));
        }
        socket.refuse(py)?;
        socket
            .exchanges
            .post(py, socket.id, Command::Respond(owned));
        socket.exchanges.done(py)
    }

    /// An awaitable of the next message.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Receiving::of(py, self.accepted(py)?, Form::Message)
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Receiving::of(py, self.accepted(py)?, Form::Item)
    }

    /// Sends a str or bytes; the awaitable is done when a bounded buffer has accepted it.
    fn send<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        let socket = self.accepted(py)?;
        let acceptance = match sendable(message)? {
            Sendable::Text(content) => socket.send(py, MessageKind::Text, content),
            Sendable::Bytes(content) => socket.send(py, MessageKind::Binary, content),
            Sendable::Copy(content) => socket.send(py, MessageKind::Binary, &content),
        };
        match acceptance {
            Ok(None) => socket.exchanges.done(py),
            Ok(Some(acceptance)) => Ok(acceptance),
            Err(error) => match socket.phase(py) {
                Phase::Open => Err(error),
                phase => Err(closed(py, socket, phase)),
            },
        }
    }

    /// Closes it. Does nothing if the client has closed it.
    #[pyo3(signature = (code=1000, reason=""))]
    fn close<'py>(&self, py: Python<'py>, code: u16, reason: &str) -> PyResult<Bound<'py, PyAny>> {
        if !CloseCode(code).is_sendable() {
            return Err(PyValueError::new_err(format!(
                "a close code is 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {code}"
            )));
        }
        let socket = self.accepted(py)?;
        if socket.phase(py) != Phase::Closing {
            socket.close(py, code, reason)?;
        }
        socket.exchanges.done(py)
    }

    /// From now on it receives what is published to this topic.
    fn subscribe(&self, py: Python<'_>, topic: &Bound<'_, PyString>) -> PyResult<()> {
        let topic = topic.to_str()?.as_bytes();
        self.open(py)?.subscribe(py, topic)
    }

    /// It receives nothing more of this topic.
    fn unsubscribe(&self, py: Python<'_>, topic: &Bound<'_, PyString>) -> PyResult<()> {
        let topic = topic.to_str()?.as_bytes();
        self.open(py)?.unsubscribe(py, topic)
    }
}

/// `receive()` of a WebSocket.
struct ReceiveMethod;

impl Method for ReceiveMethod {
    type Owner = WebSocket;
    const NAME: &'static str = "receive";

    #[inline]
    fn is_called_inside(owner: &WebSocket) -> bool {
        owner.is_in_call()
    }
}

impl WithoutArguments for ReceiveMethod {
    #[inline]
    fn call<'py>(owner: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
        owner.get().receive(owner.py())
    }
}

/// `__anext__()`, which iteration calls by its slot.
struct IterateMethod;

impl Method for IterateMethod {
    type Owner = WebSocket;
    const NAME: &'static str = "__anext__";

    #[inline]
    fn is_called_inside(owner: &WebSocket) -> bool {
        owner.is_in_call()
    }
}

impl WithoutArguments for IterateMethod {
    #[inline]
    fn call<'py>(owner: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
        owner.get().__anext__(owner.py())
    }
}

/// `send()`.
struct SendMethod;

static SEND: General = General::new();

impl Method for SendMethod {
    type Owner = WebSocket;
    const NAME: &'static str = "send";

    #[inline]
    fn is_called_inside(owner: &WebSocket) -> bool {
        owner.is_in_call()
    }
}

impl WithArgument for SendMethod {
    #[inline]
    fn call<'py>(
        owner: &Bound<'py, WebSocket>,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        owner.get().send(message)
    }

    fn general() -> &'static General {
        &SEND
    }
}

static NEXT: Next = Next::new();

/// Has the interpreter call what is called for each message without PyO3.
pub(crate) fn prepare(py: Python<'_>) {
    ffi::call_directly::<ReceiveMethod>(py);
    ffi::call_one_directly::<SendMethod>(py);
    ffi::next_directly::<IterateMethod>(&py.get_type::<WebSocket>(), &NEXT);
}

/// The same for the class that the server makes WebSockets of. Another one is left as it is.
pub(crate) fn prepare_class(kind: &Bound<'_, PyAny>) {
    if let Ok(kind) = kind.cast::<PyType>() {
        ffi::next_directly::<IterateMethod>(kind, &NEXT);
    }
}
