//! A method whose calls act when they are awaited, like those of a coroutine function.
//!
//! It has one argument, passed by position or by name. CPython calls it without a tuple and without looking up names. Each call is an
//! object, which rarely outlives an `await`. The last unreferenced one is kept for the next call (`kept.rs`).

use std::ffi::CStr;
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, PyClassInitializer};

use super::kept::{Kept, keep};
use super::slots::{Awaitable, guarded, step_directly};

/// A call of a method that has not been awaited yet.
pub(crate) trait Deferred:
    Awaitable + Kept + Default + Into<PyClassInitializer<Self>>
{
    /// The class that has the method.
    type Owner: PyClass<Frozen = True> + Sync;

    /// The method's name in tracebacks.
    const METHOD_NAME: &'static CStr;

    /// The name of its argument, and what `inspect.signature` reads.
    const ARGUMENT_NAME: &'static str;
    const DOCUMENTATION: &'static CStr;

    /// Turns an object that is over into a call with this argument. It must not run Python.
    fn begin<'py>(&self, owner: Bound<'py, Self::Owner>, argument: Bound<'py, PyAny>);
}

/// Lets the interpreter step calls without a method call, and keeps those that are over.
pub(crate) fn prepare_calls<T: Deferred>(py: Python<'_>) {
    step_directly::<T>(py);
    keep::<T>(py);
}

/// A `PyMethodDef`, which is read only.
struct Definition(ffi::PyMethodDef);

// SAFETY: its pointers are to constants.
unsafe impl Sync for Definition {}

#[cold]
fn wrong_arguments<T: Deferred>() -> PyErr {
    let (method, name) = (T::METHOD_NAME.to_string_lossy(), T::ARGUMENT_NAME);
    PyTypeError::new_err(format!("{method}() takes one argument: {name}"))
}

/// The method of an object, as an object of its own.
pub(crate) fn method<'py, T: Deferred>(
    owner: &Bound<'py, T::Owner>,
) -> PyResult<Bound<'py, PyAny>> {
    let definition: &'static Definition = const {
        &Definition(ffi::PyMethodDef {
            ml_name: T::METHOD_NAME.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer {
                PyCFunctionFastWithKeywords: call_method::<T>,
            },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: T::DOCUMENTATION.as_ptr(),
        })
    };
    let definition = (&raw const definition.0).cast_mut();
    // SAFETY: the definition lives for ever and is only read; the function keeps the owner.
    let function = unsafe { ffi::PyCFunction_NewEx(definition, owner.as_ptr(), ptr::null_mut()) };
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(owner.py(), function) }
}

/// Whether one argument was given, by position or by its name.
#[inline]
fn is_one<T: Deferred>(py: Python<'_>, positional: isize, names: *mut ffi::PyObject) -> bool {
    if names.is_null() {
        return positional == 1;
    }
    // SAFETY: the names of keywords are a tuple.
    let names = unsafe { Bound::from_borrowed_ptr(py, names) };
    names
        .extract::<Vec<String>>()
        .is_ok_and(|names| match names.as_slice() {
            [] => positional == 1,
            [name] => positional == 0 && name == T::ARGUMENT_NAME,
            _ => false,
        })
}

/// Creates a `T` for a call.
///
/// # Safety
/// `owner` is an instance of `T::Owner`, and the number of `arguments` is that of `positional` and `names`.
unsafe extern "C" fn call_method<T: Deferred>(
    owner: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: isize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    if !is_one::<T>(py, positional, names) {
        guarded(false, |_| PyResult::<()>::Err(wrong_arguments::<T>()));
        return ptr::null_mut();
    }
    // SAFETY: there is one.
    let argument = unsafe { *arguments };
    let new = || guarded(false, |py| Bound::new(py, T::default()));
    let Some(call) = T::spare().take(py).or_else(new) else {
        return ptr::null_mut();
    };
    // SAFETY: the caller holds a reference over the call.
    let owner = unsafe { Bound::from_borrowed_ptr(py, owner) };
    // SAFETY: the function was made with an instance of `T::Owner`, which cannot be subclassed.
    let owner = unsafe { owner.cast_into_unchecked::<T::Owner>() };
    // SAFETY: the caller holds a reference over the call.
    call.get()
        .begin(owner, unsafe { Bound::from_borrowed_ptr(py, argument) });
    call.into_ptr()
}
