//! State of an object that is shared with Python.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// State of a Python object. It is accessed only with the interpreter attached, and checked against being accessed twice at once.
///
/// A lock or an atomic borrow flag would cost more than what it guards. So this relies on the interpreter's lock: the crate refuses to
/// build for an interpreter without one.
pub(crate) struct GilCell<T> {
    is_held: Cell<bool>,
    value: UnsafeCell<T>,
}

#[cfg(Py_GIL_DISABLED)]
compile_error!("bolide needs an interpreter with a GIL for now");

// SAFETY: every access needs a `Python` token, which only one thread has at a time.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T: Default> Default for GilCell<T> {
    fn default() -> GilCell<T> {
        GilCell::of(T::default())
    }
}

impl<T> GilCell<T> {
    pub(crate) fn of(value: T) -> GilCell<T> {
        GilCell {
            is_held: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `reach` with the value; `None` when it is being accessed already.
    #[inline]
    pub(crate) fn with<R>(&self, _py: Python<'_>, reach: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_held.replace(true) {
            return None;
        }
        let release = Release(&self.is_held);
        // SAFETY: the flag guarantees that no other reference exists, and the token that no other thread is here.
        let result = reach(unsafe { &mut *self.value.get() });
        drop(release);
        Some(result)
    }

    /// As [`GilCell::with`].
    ///
    /// # Errors
    /// `RuntimeError` when it is being accessed already.
    #[inline]
    pub(crate) fn reach<R>(&self, py: Python<'_>, reach: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        self.with(py, reach).ok_or_else(in_use)
    }
}

#[cold]
fn in_use() -> PyErr {
    PyRuntimeError::new_err("this object is in use already")
}

/// Clears the flag, also when a panic unwinds.
struct Release<'a>(&'a Cell<bool>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// An object that a caller holds for as long as a function runs. Written and read with the interpreter attached.
#[derive(Default)]
pub(crate) struct Lent(AtomicPtr<ffi::PyObject>);

impl Lent {
    /// Calls `run` while `object` can be read.
    #[inline]
    pub(crate) fn during<R>(&self, object: &Bound<'_, PyAny>, run: impl FnOnce() -> R) -> R {
        // Not a swap, which locks the bus: only the thread with the interpreter is here.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(object.as_ptr(), Ordering::Relaxed);
        let _restore = Restore(&self.0, before);
        run()
    }

    /// The object.
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let object = self.0.load(Ordering::Relaxed);
        // SAFETY: null, or an object that `during` borrows: it takes the pointer away before it returns, also when a panic unwinds.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, object) }
    }
}

/// Restores what was there before, also when a panic unwinds.
struct Restore<'a>(&'a AtomicPtr<ffi::PyObject>, *mut ffi::PyObject);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}
