//! What `receive()` and iteration return: awaitables of the next message, in the form of each interface.

use std::sync::Arc;

use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::end::End;
use super::socket::{Socket, Taken};
use crate::ffi::{self, Awaitable, GilCell, Kept, Sent, Spare};
use crate::run::awaitable::awaitable;

/// The form of a message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// An event of ASGI.
    #[default]
    Event,
    /// A str or bytes; an exception at the end.
    Message,
    /// A str or bytes, until the iteration ends.
    Item,
}

/// An awaitable of the next message. It takes it when it resumes, so that none is lost if it is cancelled.
#[pyclass(module = "bolide._core", frozen)]
#[derive(Default)]
pub(crate) struct Receiving {
    /// None only while it is kept for the next use.
    socket: GilCell<Option<Arc<Socket>>, Marks>,
}

#[derive(Clone, Copy, Default)]
struct Marks {
    form: Form,
    /// Its task was resumed alone, so that others had their turn.
    has_waited: bool,
}

static SPARE: Spare<Receiving> = Spare::new();

impl Receiving {
    /// An awaitable of the next message of `socket`.
    ///
    /// # Errors
    /// `MemoryError`.
    #[inline]
    pub(crate) fn of<'py>(
        py: Python<'py>,
        socket: &Arc<Socket>,
        form: Form,
    ) -> PyResult<Bound<'py, PyAny>> {
        let receiving = match SPARE.take(py) {
            Some(spare) => spare,
            None => Bound::new(py, Receiving::default())?,
        };
        let own = &receiving.get().socket;
        let before = own.reach(py, |own| own.replace(Arc::clone(socket)))?;
        debug_assert!(before.is_none(), "in use");
        let has_waited = false;
        own.set_small(py, Marks { form, has_waited });
        Ok(receiving.into_any())
    }
}

impl Awaitable for Receiving {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let step = |socket: &mut Option<Arc<Socket>>| {
            let socket = socket.as_ref();
            socket.map(|socket| self.step_of(py, socket))
        };
        let sent = self.socket.with(py, step).flatten();
        sent.unwrap_or_else(|| Sent::raised(ffi::in_use()))
    }

    #[inline]
    fn is_called_inside(&self, py: Python<'_>) -> bool {
        let is_in_call = |socket: &mut Option<Arc<Socket>>| {
            let socket = socket.as_ref();
            socket.is_some_and(|socket| socket.exchanges.is_in_call())
        };
        self.socket.with(py, is_in_call).unwrap_or(false)
    }
}

impl Receiving {
    #[inline]
    fn step_of<'py>(&self, py: Python<'py>, socket: &Socket) -> Sent<'py> {
        let Marks { form, has_waited } = self.socket.small(py);
        let taken = match socket.take(py, has_waited) {
            Ok(taken) => taken,
            Err(error) => return Sent::raised(error),
        };
        let result = match taken {
            Taken::Message(message) => form.message(message.into_bound(py)),
            Taken::Ended(end) => form.end(py, &end),
            Taken::Offer => form.offer(py),
            Taken::Nothing => {
                // The loop resumes ordinary tasks together: only those that waited for their turn have one.
                let has_waited = socket.exchanges.wakes_directly();
                self.socket.set_small(py, Marks { form, has_waited });
                return socket.wait(py).map_or_else(Sent::raised, Sent::Yielded);
            }
            Taken::Later => {
                let has_waited = true;
                self.socket.set_small(py, Marks { form, has_waited });
                let awaited = socket.wait_for_turn(py);
                return awaited.map_or_else(Sent::raised, Sent::Yielded);
            }
        };
        result.map_or_else(Sent::raised, Sent::Returned)
    }
}

impl Kept for Receiving {
    #[inline]
    fn is_over(&self, py: Python<'_>) -> bool {
        let taken = self.socket.with(py, Option::take);
        taken.is_some()
    }

    #[inline]
    fn spare() -> &'static Spare<Receiving> {
        &SPARE
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
        let [text, bytes] = TEMPLATES.get_or_try_init(py, || {
            let text = template(py, pyo3::intern!(py, "text"))?;
            PyResult::Ok([text, template(py, pyo3::intern!(py, "bytes"))?])
        })?;
        let (template, key) = match message.is_exact_instance_of::<PyString>() {
            true => (text, pyo3::intern!(py, "text")),
            false => (bytes, pyo3::intern!(py, "bytes")),
        };
        let event = template.bind(py).copy()?;
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

/// The events of a text and of bytes, without their content. A copy of one takes fewer instructions than a new dict (bench: messages). As
/// long as they hold strs only, the garbage collector does not list them, so no other code changes them.
static TEMPLATES: PyOnceLock<[Py<PyDict>; 2]> = PyOnceLock::new();

fn template(py: Python<'_>, key: &Bound<'_, PyString>) -> PyResult<Py<PyDict>> {
    let event = event(py, pyo3::intern!(py, "websocket.receive"))?;
    event.set_item(key, pyo3::intern!(py, ""))?;
    Ok(event.unbind())
}

fn event<'py>(py: Python<'py>, kind: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let event = PyDict::new(py);
    event.set_item(pyo3::intern!(py, "type"), kind)?;
    Ok(event)
}
