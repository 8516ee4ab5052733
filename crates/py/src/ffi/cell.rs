//! State of objects shared with Python.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// State of a Python object. It is accessed only with the interpreter attached, and checked against nested access.
///
/// A lock or an atomic borrow flag would cost more than what it protects. So this relies on the interpreter's lock: the crate does not
/// build for an interpreter without one.
///
/// `S` is a small part of the state that shares a word with the cell's own flag; most have none.
pub(crate) struct GilCell<T, S = ()> {
    is_held: Cell<bool>,
    small: Cell<S>,
    value: UnsafeCell<T>,
}

#[cfg(Py_GIL_DISABLED)]
compile_error!("bolide needs an interpreter with a GIL");

// SAFETY: every access needs a `Python` token, which only one thread has at a time.
unsafe impl<T: Send, S: Send> Sync for GilCell<T, S> {}

impl<T: Default, S: Copy + Default> Default for GilCell<T, S> {
    fn default() -> GilCell<T, S> {
        GilCell::beside(S::default(), T::default())
    }
}

impl<T> GilCell<T> {
    pub(crate) fn of(value: T) -> GilCell<T> {
        GilCell::beside((), value)
    }
}

impl<T, S: Copy> GilCell<T, S> {
    /// One with a small part.
    pub(crate) fn beside(small: S, value: T) -> GilCell<T, S> {
        GilCell {
            is_held: Cell::new(false),
            small: Cell::new(small),
            value: UnsafeCell::new(value),
        }
    }

    /// A copy of the small part, also while the value is being accessed.
    #[inline(always)]
    pub(crate) fn small(&self, _py: Python<'_>) -> S {
        self.small.get()
    }

    /// Replaces the small part.
    #[inline(always)]
    pub(crate) fn set_small(&self, _py: Python<'_>, small: S) {
        self.small.set(small);
    }

    /// Calls `reach` with the value; `None` when it is being accessed already.
    ///
    /// A part of each caller: most accesses are shorter than a call (bench: calls).
    #[inline(always)]
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

/// The exception for nested access.
#[cold]
pub(crate) fn in_use() -> PyErr {
    PyRuntimeError::new_err("this object is in use already")
}

/// Clears the flag, also when a panic unwinds.
struct Release<'a>(&'a Cell<bool>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A slot for an object, accessed with the interpreter attached.
pub(crate) struct Place<T>(Cell<Option<Py<T>>>);

// SAFETY: every access needs a `Python` token, which only one thread has at a time, or the only reference.
unsafe impl<T> Sync for Place<T> {}

impl<T> Default for Place<T> {
    fn default() -> Place<T> {
        Place::new()
    }
}

impl<T> Place<T> {
    pub(crate) const fn new() -> Place<T> {
        Place(Cell::new(None))
    }

    /// Takes the object away.
    #[inline]
    pub(crate) fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, T>> {
        self.0.take().map(|object| object.into_bound(py))
    }

    /// Stores an object, and returns the previous one.
    #[inline]
    pub(crate) fn put<'py>(&self, object: Bound<'py, T>) -> Option<Bound<'py, T>> {
        let py = object.py();
        let before = self.0.replace(Some(object.unbind()));
        before.map(|object| object.into_bound(py))
    }

    /// Calls a function with the object, if there is one. The slot is empty meanwhile.
    #[inline]
    pub(crate) fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&Py<T>>) -> R) -> R {
        let object = self.0.take();
        let result = look(object.as_ref());
        self.0.set(object);
        result
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut Py<T>> {
        self.0.get_mut().as_mut()
    }
}

/// An object that a caller holds while a function runs. Written and read with the interpreter attached.
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
        // SAFETY: null, or an object that `during` borrows: it removes the pointer before it returns, also when a panic unwinds.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, object) }
    }
}

/// Restores the previous pointer, also when a panic unwinds.
struct Restore<'a>(&'a AtomicPtr<ffi::PyObject>, *mut ffi::PyObject);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}
