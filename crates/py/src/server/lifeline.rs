//! The end of the supervisor, for workers that cannot notice it themselves; and the stack of their signal handlers.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ffi::borrow_fd;

/// Gives the calling thread a stack on which handlers of all signals fit at once.
#[pyfunction]
pub(crate) fn widen_signal_stack() -> PyResult<()> {
    Ok(net::widen_signal_stack()?)
}

/// Kills this process `grace_ms` after the end of a pipe that is never written to, whichever thread holds the interpreter then.
#[pyfunction]
pub(crate) fn follow(fd: i32, grace_ms: u64) -> PyResult<()> {
    if fd < 0 {
        return Err(PyValueError::new_err("a descriptor is not negative"));
    }
    let pipe = borrow_fd(fd).try_clone_to_owned()?;
    Ok(net::follow(pipe, Duration::from_millis(grace_ms))?)
}
