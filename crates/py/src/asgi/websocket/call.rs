//! The `receive` and `send` of one WebSocket.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use server::{Head, MessageKind, Offer};

use super::denial::Denial;
use super::message::{Data, Event, read, read_accept, read_close};
use crate::ffi::{self, General, GilCell, Method, WithArgument, WithoutArguments};
use crate::run::awaitable::LoopTurn;
use crate::run::log::{log_application, log_disconnected, push_title};
use crate::run::memory;
use crate::run::websocket::{Form, Phase, Receiving, Socket};

/// One call of an application.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct SocketCall {
    pub(super) socket: Arc<Socket>,
    /// Method and path as received, for the log.
    pub(super) title: String,
    /// The client's subprotocols.
    offered: Vec<Vec<u8>>,
    /// What has been sent of a response instead of the handshake's.
    pub(super) denial: GilCell<Denial>,
}

impl SocketCall {
    pub(super) fn new(socket: Arc<Socket>, head: Head<'_>, offer: &Offer<'_>) -> SocketCall {
        let mut title = Vec::new();
        push_title(&mut title, head);
        SocketCall {
            socket,
            title: title.escape_ascii().to_string(),
            offered: offer.subprotocols().map(<[u8]>::to_vec).collect(),
            denial: GilCell::default(),
        }
    }

    /// Whether the handshake has its response.
    pub(super) fn has_responded(&self, py: Python<'_>) -> bool {
        match self.socket.phase(py) {
            Phase::Offered => false,
            Phase::Refused => self.is_denial_complete(py),
            _ => true,
        }
    }

    /// Whether nothing more comes from the client.
    pub(super) fn is_over(&self, py: Python<'_>) -> bool {
        let phase = self.socket.phase(py);
        matches!(phase, Phase::Withdrawn | Phase::Ended | Phase::Closing)
    }

    /// Logs that the application raised, or returned before it had responded.
    pub(super) fn log(&self, py: Python<'_>, error: Option<&PyErr>) {
        let exchanges = &self.socket.exchanges;
        if let Some(error) = error
            && exchanges.stems_from_disconnection(py, error, self.is_over(py))
        {
            log_disconnected(py, &self.title, error);
        } else {
            log_application(py, &self.title, error);
        }
    }

    #[inline]
    fn data<'py>(&self, py: Python<'py>, data: Data<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match data {
            Data::Text(text) => {
                let content = match ffi::ascii(&text) {
                    Some(content) => content,
                    None => text.to_str()?.as_bytes(),
                };
                self.socket.send(py, MessageKind::Text, content)
            }
            Data::Bytes(bytes) => self.bytes(py, &bytes),
        }
    }

    fn bytes<'py>(
        &self,
        py: Python<'py>,
        bytes: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Ok(bytes) = bytes.cast::<PyBytes>() {
            return self.socket.send(py, MessageKind::Binary, bytes.as_bytes());
        }
        let Ok(buffer) = pyo3::buffer::PyBuffer::<u8>::get(bytes) else {
            return Err(PyTypeError::new_err(
                "send(): the bytes of websocket.send are a byte string",
            ));
        };
        let copy = memory::copy_of(py, &buffer)?;
        self.socket.send(py, MessageKind::Binary, &copy)
    }

    fn accept<'py>(&self, message: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        let acceptance = read_accept(message, &self.offered)?;
        let left_out = &self.socket.exchanges.left_out;
        left_out.note(py, acceptance.ours);
        if let Some(name) = &acceptance.unoffered {
            left_out.note_subprotocol(py, name);
        }
        self.socket.accept(py, acceptance.opening)?;
        // What is posted in a call is sent when it has ended.
        match self.socket.exchanges.is_in_call() {
            true => LoopTurn::awaitable(py).map(Some),
            false => Ok(None),
        }
    }

    /// Before the acceptance it refuses the handshake. A response has neither code nor reason, so these are not read: FastAPI sends a list
    /// of errors as the reason then.
    fn close(&self, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = message.py();
        if self.socket.phase(py) == Phase::Offered {
            self.complete_handshake(py, 403);
            return Ok(());
        }
        let (code, reason) = read_close(message)?;
        let reason = reason.as_ref().map_or(Ok(""), |reason| reason.to_str())?;
        self.socket.close(py, code, reason)
    }
}

#[pymethods]
impl SocketCall {
    /// Returns an awaitable of the next event.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Receiving::of(py, &self.socket, Form::Event)
    }

    /// Sends an event; the awaitable is done when it is accepted.
    fn send<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        let Ok(message) = message.cast::<PyDict>() else {
            return Err(PyTypeError::new_err("send() takes a dict"));
        };
        let acceptance = match read(message)? {
            Event::Send(data) => self.data(py, data)?,
            Event::Accept => self.accept(message)?,
            Event::Close => self.close(message).map(|()| None)?,
            Event::DenialStart => self.start_denial(message).map(|()| None)?,
            Event::DenialBody => self.denial_body(message)?,
        };
        match acceptance {
            Some(acceptance) => Ok(acceptance),
            None => self.socket.exchanges.done(py),
        }
    }
}

/// `receive()` of a WebSocket.
struct ReceiveMethod;

impl Method for ReceiveMethod {
    type Owner = SocketCall;
    const NAME: &'static str = "receive";

    #[inline]
    fn is_called_inside(owner: &SocketCall) -> bool {
        owner.socket.exchanges.is_in_call()
    }
}

impl WithoutArguments for ReceiveMethod {
    #[inline]
    fn call<'py>(owner: &Bound<'py, SocketCall>) -> PyResult<Bound<'py, PyAny>> {
        owner.get().receive(owner.py())
    }
}

/// `send()`.
struct SendMethod;

static SEND: General = General::new();

impl Method for SendMethod {
    type Owner = SocketCall;
    const NAME: &'static str = "send";

    #[inline]
    fn is_called_inside(owner: &SocketCall) -> bool {
        owner.socket.exchanges.is_in_call()
    }
}

impl WithArgument for SendMethod {
    #[inline]
    fn call<'py>(
        owner: &Bound<'py, SocketCall>,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        owner.get().send(message)
    }

    fn general() -> &'static General {
        &SEND
    }
}

/// Has the interpreter call what is called for each message without PyO3.
pub(in crate::asgi) fn prepare(py: Python<'_>) {
    ffi::call_directly::<ReceiveMethod>(py);
    ffi::call_one_directly::<SendMethod>(py);
}
