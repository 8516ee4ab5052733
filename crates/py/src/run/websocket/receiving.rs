//! What `receive()` and iteration return: awaitables of the next message, in the form of each interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use super::socket::{End, Socket, Taken};
use crate::ffi::{Awaitable, Sent};
use crate::run::awaitable::awaitable;

/// The form of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An event of ASGI.
    Event,
    /// A str or bytes; an exception at the end.
    Message,
    /// A str or bytes, until the iteration ends.
    Item,
}

/// An awaitable of the next message. It takes it when it resumes, so that none is lost if it is cancelled.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Receiving {
    socket: Arc<Socket>,
    form: Form,
    /// It has suspended its task, so that others had their turn.
    has_waited: AtomicBool,
}

impl Receiving {
    pub(crate) fn of(socket: &Arc<Socket>, form: Form) -> Receiving {
        let socket = Arc::clone(socket);
        Receiving {
            socket,
            form,
            has_waited: AtomicBool::new(false),
        }
    }
}

impl Receiving {
    #[inline]
    fn wait<'py>(&self, awaited: PyResult<Bound<'py, PyAny>>) -> Sent<'py> {
        self.has_waited.store(true, Ordering::Relaxed);
        awaited.map_or_else(Sent::raised, Sent::Yielded)
    }
}

impl Awaitable for Receiving {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let has_waited = self.has_waited.load(Ordering::Relaxed);
        let taken = match self.socket.take(py, has_waited) {
            Ok(taken) => taken,
            Err(error) => return Sent::raised(error),
        };
        let result = match taken {
            Taken::Message(message) => self.form.message(message.into_bound(py)),
            Taken::Ended(end) => self.form.end(py, &end),
            Taken::Offer => self.form.offer(py),
            Taken::Nothing => return self.wait(self.socket.wait(py)),
            Taken::Later => return self.wait(self.socket.wait_for_turn(py)),
        };
        result.map_or_else(Sent::raised, Sent::Returned)
    }
}

awaitable!(Receiving);

impl Form {
    #[inline]
    fn message(self, message: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
        if self != Form::Event {
            return Ok(message);
        }
        let py = message.py();
        let event = event(py, pyo3::intern!(py, "websocket.receive"))?;
        let key = match message.is_exact_instance_of::<PyString>() {
            true => pyo3::intern!(py, "text"),
            false => pyo3::intern!(py, "bytes"),
        };
        event.set_item(key, message)?;
        Ok(event.into_any())
    }

    #[cold]
    fn offer(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(event(py, pyo3::intern!(py, "websocket.connect"))?.into_any())
    }

    #[cold]
    fn end<'py>(self, py: Python<'py>, end: &End) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Form::Event => {
                let event = event(py, pyo3::intern!(py, "websocket.disconnect"))?;
                event.set_item(pyo3::intern!(py, "code"), end.code)?;
                event.set_item(pyo3::intern!(py, "reason"), &end.reason)?;
                Ok(event.into_any())
            }
            Form::Message => Err(end.exception(py)),
            Form::Item => Err(PyStopAsyncIteration::new_err(())),
        }
    }
}

fn event<'py>(py: Python<'py>, kind: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let event = PyDict::new(py);
    event.set_item(pyo3::intern!(py, "type"), kind)?;
    Ok(event)
}

impl End {
    /// The exception that reports it to a native handler.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        let make = || -> PyResult<Bound<'_, PyAny>> {
            let class = py.import("bolide.errors")?.getattr("WebSocketClosed")?;
            class
                .cast_into::<PyType>()?
                .call1((self.code, &self.reason))
        };
        make().map_or_else(|error| error, PyErr::from_value)
    }
}
