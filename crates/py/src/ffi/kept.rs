//! Objects of ours of which the last unreferenced one is kept for the next use, as CPython keeps its own awaitables, under the contract of
//! `reuse.rs`.

use std::cell::Cell;

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

use super::cell::Place;
use super::reuse::{self, OurReferences};

/// A type of which an object is kept.
pub(crate) trait Kept: PyClass<Frozen = True> + Sync {
    /// Whether an object that nobody references is as new, and so is kept. It may let go of what it holds.
    fn is_over(&self, py: Python<'_>) -> bool;

    /// The place for it.
    fn spare() -> &'static Spare<Self>;
}

/// An object that is over and that only this references.
pub(crate) struct Spare<T> {
    object: Place<T>,
    /// The function that frees an object that is not kept.
    dealloc: Cell<Option<ffi::destructor>>,
}

// SAFETY: its cells are used only with the interpreter attached.
unsafe impl<T> Sync for Spare<T> {}

/// The garbage collector lists the object for callers that ask for all objects, so others may reference it.
const OF_SPARE: OurReferences = OurReferences::of(1);

impl<T: Kept> Spare<T> {
    pub(crate) const fn new() -> Spare<T> {
        Spare {
            object: Place::new(),
            dealloc: Cell::new(None),
        }
    }

    /// Takes the object, if there is one and nobody else has it.
    #[inline]
    pub(crate) fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, T>> {
        let object = self.object.take(py)?;
        OF_SPARE.are_all(py, object.as_unbound()).then_some(object)
    }
}

/// Keeps objects that are over, from now on.
pub(crate) fn keep<T: Kept>(py: Python<'_>) {
    if reuse::is_off() {
        return;
    }
    let kind = py.get_type::<T>().as_type_ptr();
    // SAFETY: a type of ours that lives as long as the interpreter, and no instance exists yet.
    let original = unsafe { (*kind).tp_dealloc.replace(dealloc::<T>) };
    T::spare().dealloc.set(original);
}

/// Keeps an object whose last reference is gone, or frees it.
///
/// # Safety
/// `object` is an unreferenced instance of `T`.
unsafe extern "C" fn dealloc<T: Kept>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    let spare = T::spare();
    // SAFETY: it lives until it is freed below; this takes no reference.
    let value = unsafe { Borrowed::from_ptr(py, object) };
    // SAFETY: the slot is that of `T`'s own type, which cannot be subclassed.
    let value = unsafe { value.cast_unchecked::<T>() };
    if value.get().is_over(py) && spare.object.look(py, |object| object.is_none()) {
        // It has a reference again, so it stays alive, as after a finalizer that resurrects its object.
        drop(spare.object.put(value.to_owned()));
        return;
    }
    if let Some(dealloc) = spare.dealloc.get() {
        // SAFETY: the function that freed instances of `T` before, called as CPython would.
        unsafe { dealloc(object) };
    }
}
