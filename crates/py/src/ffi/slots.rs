//! An `await` of our types in the form in which CPython calls it, bypassing PyO3's methods, whose overhead would exceed its cost.

use std::ptr;

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Sent;

/// The steps of a coroutine written in Rust. `run::awaitable!` adds the methods of a coroutine to such types.
pub(crate) trait Awaitable:
    PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync
{
    /// Resumes it: yields a future to wait for, or ends.
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py>;

    /// Resumes it with an exception.
    fn throw<'py>(&self, _py: Python<'py>, error: PyErr) -> Sent<'py> {
        Sent::raised(error)
    }

    /// It will not be resumed any more.
    ///
    /// # Errors
    /// What the code in it raises.
    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    /// Whether PyO3 has counted the attachment to the interpreter, because our own code called the caller; or need not count it, because a
    /// step drops no reference.
    #[inline]
    fn is_called_inside(&self, _py: Python<'_>) -> bool {
        false
    }
}

/// Puts `T::step` into the slots that `await` uses, in place of the methods: a value needs no exception to carry it then, and nothing is
/// looked up. The methods remain for callers that use their names.
pub(crate) fn step_directly<T: Awaitable>(py: Python<'_>) {
    let kind = py.get_type::<T>();
    let kind = kind.as_type_ptr();
    // SAFETY: a type of ours that lives as long as the interpreter. No instance exists yet, since this runs while the module is created.
    let methods = unsafe { (*kind).tp_as_async };
    // SAFETY: as above; a type without the slots has none to fill.
    if let Some(methods) = unsafe { methods.as_mut() } {
        methods.am_await = Some(ffi::PyObject_SelfIter);
        methods.am_send = Some(send_slot::<T>);
    }
}

/// `T::step` as CPython calls it.
///
/// # Safety
/// `receiver` is an instance of `T`, and `result` points to space for a reference.
unsafe extern "C" fn send_slot<T: Awaitable>(
    receiver: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller holds a reference over the call.
    let receiver = unsafe { Borrowed::from_ptr(py, receiver) };
    // SAFETY: the slot is that of `T`'s own type, which cannot be subclassed.
    let receiver = unsafe { receiver.cast_unchecked::<T>() }.get();
    let status = guarded(receiver.is_called_inside(py), |py| {
        let (value, status) = match receiver.step(py) {
            Sent::Yielded(value) => (value, ffi::PySendResult::PYGEN_NEXT),
            Sent::Returned(value) => (value, ffi::PySendResult::PYGEN_RETURN),
            Sent::Raised(error) => return Err(*error),
        };
        // SAFETY: the caller's space for it.
        unsafe { *result = value.into_ptr() };
        Ok(status)
    });
    status.unwrap_or_else(|| {
        // SAFETY: as above.
        unsafe { *result = ptr::null_mut() };
        ffi::PySendResult::PYGEN_ERROR
    })
}

/// Runs a function that CPython called. A failure or a panic becomes the exception that is set.
///
/// PyO3 counts attachments to the interpreter, and postpones dropping references while it counts none. For a short call, attaching costs as
/// much as the call. `is_attached` says that PyO3 has counted this thread, or that the call drops no reference.
pub(super) fn guarded<'py, R>(
    is_attached: bool,
    run: impl Fn(Python<'py>) -> PyResult<R>,
) -> Option<R> {
    let run = || {
        // SAFETY: CPython calls with the interpreter attached.
        let py = unsafe { Python::assume_attached() };
        run(py).map_err(|error| error.restore(py)).ok()
    };
    let attach_and_run = || match is_attached {
        true => run(),
        false => with_attachment(run),
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(attach_and_run)).unwrap_or_else(|_| {
        with_attachment(|| {
            // SAFETY: as above.
            let py = unsafe { Python::assume_attached() };
            PyRuntimeError::new_err("the server panicked").restore(py);
        });
        None
    })
}

/// Runs with PyO3 attached; without, if the interpreter is shutting down and PyO3 refuses.
fn with_attachment<R>(run: impl Fn() -> R) -> R {
    Python::try_attach(|_| run()).unwrap_or_else(&run)
}
