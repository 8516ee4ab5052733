//! The end of the supervisor, for workers that cannot notice it themselves.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ffi::borrow_fd;

/// Kills this process `grace_ms` after the end of a pipe that is never written to, whichever thread holds the interpreter then.
#[pyfunction]
pub(crate) fn follow(fd: i32, grace_ms: u64) -> PyResult<()> {
    if fd < 0 {
        return Err(PyValueError::new_err("a descriptor is not negative"));
    }
    let pipe = borrow_fd(fd).try_clone_to_owned()?;
    Ok(net::follow(pipe, Duration::from_millis(grace_ms))?)
}
