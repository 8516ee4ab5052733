//! Calls of Python that may be interrupted by the end of the interpreter.
//!
//! Up to CPython 3.13, a thread that requests the interpreter after finalization has started is ended on the spot (`pthread_exit`), in the
//! middle of what it called. That unwinds the thread's stack, and a Rust frame on it aborts the process. So a call that may take long has a
//! guard in the frame above it: the unwinding reaches that first, and the thread waits there for the end of the process. CPython 3.14 and
//! PyO3 (when it attaches) make threads wait in the same way. Nothing above the guard is unwound.

use std::hint::black_box;
use std::mem::{forget, transmute};
use std::ptr;

use pyo3::ffi;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::leave_if_forked;

type VectorcallC = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;
type Vectorcall = unsafe extern "C-unwind" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;
type NextC = unsafe extern "C" fn(*mut PyObject) -> *mut PyObject;
type Next = unsafe extern "C-unwind" fn(*mut PyObject) -> *mut PyObject;

/// Dropped only by an unwinding that starts in the interpreter: no function of CPython panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// A function of CPython as one that may unwind. PyO3 declares that none does, and the compiler relies on that if it knows which function
/// is called. Therefore it must not know.
fn that_may_unwind(function: VectorcallC) -> Vectorcall {
    // SAFETY: the two types differ only in what a caller has to expect.
    black_box(unsafe { transmute::<VectorcallC, Vectorcall>(function) })
}

/// [`super::call`] for threads of our own, which may be interrupted by the end of the interpreter.
#[inline]
pub(crate) fn call_from_thread<'py, const N: usize>(
    py: Python<'py>,
    callable: &Py<PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = arguments.map(Bound::as_ptr);
    let function = that_may_unwind(ffi::PyObject_Vectorcall);
    let guard = Guard;
    // SAFETY: the arguments are borrowed over the call; CPython reads N of them.
    let result = unsafe { function(callable.as_ptr(), arguments.as_ptr(), N, ptr::null_mut()) };
    forget(guard);
    // SAFETY: a new reference, or null with the error set.
    let result = unsafe { Bound::from_owned_ptr_or_err(py, result) };
    leave_if_forked(py, result.as_ref().err());
    result
}

/// Calls a method with positional arguments, of which the first is the object itself, as [`call_from_thread`].
pub(crate) fn call_method_from_thread<'py, const N: usize>(
    name: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    const { assert!(N > 0) };
    let arguments = arguments.map(Bound::as_ptr);
    let function = that_may_unwind(ffi::PyObject_VectorcallMethod);
    let guard = Guard;
    // SAFETY: as in `call_from_thread`; there is a first argument.
    let result = unsafe { function(name.as_ptr(), arguments.as_ptr(), N, ptr::null_mut()) };
    forget(guard);
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(name.py(), result) }
}

/// The next item of an iterator; `None` at its end. As [`call_from_thread`].
pub(crate) fn next_from_thread<'py>(
    iterator: &Bound<'py, PyIterator>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: as in `that_may_unwind`.
    let function = black_box(unsafe { transmute::<NextC, Next>(ffi::PyIter_Next) });
    let guard = Guard;
    // SAFETY: it is an iterator.
    let item = unsafe { function(iterator.as_ptr()) };
    forget(guard);
    // SAFETY: a new reference, or null at the end or with the error set.
    let item = unsafe { Bound::from_owned_ptr_or_opt(iterator.py(), item) };
    let item = match item {
        Some(item) => Ok(Some(item)),
        None => PyErr::take(iterator.py()).map_or(Ok(None), Err),
    };
    leave_if_forked(iterator.py(), item.as_ref().err());
    item
}
