//! Ends a process that the application forked inside a handler and that comes back to the server. It has the server's sockets: it would
//! respond a second time on the same connections, and keep the address in use after the server has stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

/// This process was forked while a server was attached, and has attached none itself.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// A server is attached in this process: notices forks from now on.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    has_own_server();
    if IS_WATCHING.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let forked = PyCFunction::new_closure(py, None, None, |_, _| {
        IS_FORKED.store(true, Ordering::Relaxed);
    })?;
    let options = PyDict::new(py);
    options.set_item("after_in_child", forked)?;
    py.import("os")?
        .call_method("register_at_fork", (), Some(&options))?;
    Ok(())
}

/// A server is created in this process. A child that does not come back may have one of its own, a `TestClient` for example.
pub(crate) fn has_own_server() {
    IS_FORKED.store(false, Ordering::Relaxed);
}

/// Ends the process if it was forked by what has just run, which may have raised.
///
/// Cost: a load (bench: calls).
#[inline(always)]
pub(crate) fn leave_if_forked(py: Python<'_>, error: Option<&PyErr>) {
    if IS_FORKED.load(Ordering::Relaxed) {
        leave(py, error);
    }
}

/// As [`leave_if_forked`], without the interpreter.
#[inline]
pub(crate) fn leave_between_calls() {
    if IS_FORKED.load(Ordering::Relaxed) {
        Python::attach(|py| leave(py, None));
    }
}

#[cold]
fn leave(py: Python<'_>, error: Option<&PyErr>) {
    let left = py
        .import("bolide.server.forked")
        .and_then(|forked| forked.call_method1("leave", (error.map(|it| it.value(py)),)));
    if let Err(failure) = left {
        failure.write_unraisable(py, None);
    }
    std::process::exit(1);
}
