//! `send()`: a message for the client, which is sent when it is awaited.

use std::ffi::CStr;

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;

use super::call::AsgiCall;
use crate::ffi::{self, Awaitable, Deferred, Kept, Place, Sent, Spare};
use crate::run::awaitable::awaitable;

/// The awaitable that `send()` returns. It is over when it holds nothing.
#[pyclass(module = "bolide._core", frozen)]
#[derive(Default)]
pub(crate) struct Sending {
    /// Where the message goes, until it is awaited.
    call: Place<AsgiCall>,
    /// The message; then what it waits for until the message is accepted.
    awaited: Place<PyAny>,
}

static SPARE: Spare<Sending> = Spare::new();

impl Sending {
    /// Waits for the acceptance of the message.
    #[cold]
    fn wait<'py>(&self, py: Python<'py>, acceptance: Bound<'py, PyAny>) -> Sent<'py> {
        let sent = ffi::send(py, &acceptance);
        if matches!(sent, Sent::Yielded(_)) {
            drop(self.awaited.put(acceptance));
        }
        sent
    }

    /// It was awaited before.
    #[cold]
    fn go_on<'py>(&self, py: Python<'py>) -> Sent<'py> {
        match self.awaited.take(py) {
            Some(acceptance) => self.wait(py, acceptance),
            None => Sent::raised(awaited_before()),
        }
    }
}

impl Awaitable for Sending {
    #[inline(always)]
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let Some(call) = self.call.take(py) else {
            return self.go_on(py);
        };
        let Some(message) = self.awaited.take(py) else {
            return Sent::raised(awaited_before());
        };
        match call.get().take(&message) {
            Ok(None) => Sent::Returned(py.None().into_bound(py)),
            Ok(Some(acceptance)) => self.wait(py, acceptance),
            Err(error) => Sent::raised(error),
        }
    }

    fn throw<'py>(&self, py: Python<'py>, error: PyErr) -> Sent<'py> {
        let (_, awaited) = (self.call.take(py), self.awaited.take(py));
        Sent::raised(awaited.map_or_else(awaited_before, |_| error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop((self.call.take(py), self.awaited.take(py)));
        Ok(())
    }

    #[inline(always)]
    fn is_called_inside(&self, py: Python<'_>) -> bool {
        let is_inside = |call: &Py<AsgiCall>| call.get().is_in_first_step(py);
        self.call.look(py, |call| call.is_some_and(is_inside))
    }
}

impl Deferred for Sending {
    type Owner = AsgiCall;
    const METHOD_NAME: &'static CStr = c"send";
    const ARGUMENT_NAME: &'static str = "message";
    const DOCUMENTATION: &'static CStr =
        c"send(message)\n--\n\nSend a message to the client, when it is awaited.";

    #[inline(always)]
    fn begin<'py>(&self, owner: Bound<'py, AsgiCall>, message: Bound<'py, PyAny>) {
        let (before, none) = (self.call.put(owner), self.awaited.put(message));
        debug_assert!(before.is_none() && none.is_none(), "in use");
    }
}

impl Kept for Sending {
    #[inline(always)]
    fn is_over(&self, py: Python<'_>) -> bool {
        self.awaited.look(py, |awaited| awaited.is_none())
    }

    #[inline(always)]
    fn spare() -> &'static Spare<Sending> {
        &SPARE
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.call.get_mut().is_some() {
            Python::try_attach(warn_unawaited);
        }
    }
}

/// Warns as the interpreter does of a dropped coroutine. An exception may be propagating meanwhile.
#[cold]
fn warn_unawaited(py: Python<'_>) {
    let pending = PyErr::take(py);
    let category = py.get_type::<PyRuntimeWarning>();
    let warned = PyErr::warn(py, &category, c"coroutine 'send' was never awaited", 1);
    if let Err(error) = warned {
        error.write_unraisable(py, None);
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}

#[cold]
fn awaited_before() -> PyErr {
    PyRuntimeError::new_err("cannot reuse already awaited coroutine")
}

awaitable!(Sending);
