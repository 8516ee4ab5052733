//! Calls one of our classes without a tuple and a dict of the arguments.

use std::slice;

use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::slots::guarded;

/// The arguments of a call: the last ones of `all` are named.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) all: &'a [Bound<'py, PyAny>],
    pub(crate) names: Option<&'a Bound<'py, PyTuple>>,
}

/// A class whose instances `tp_new` creates without arguments, and which are then initialized.
pub(crate) trait Construction: PyClass {
    /// Does what `__init__` does. Returns false for a call that does not fit the signature, which `__init__` then rejects.
    fn initialize(instance: &Bound<'_, Self>, arguments: &Arguments<'_, '_>) -> PyResult<bool>;
}

/// Makes CPython construct instances of `kind` directly, as long as `kind` creates and initializes them as `T` does.
///
/// # Errors
/// `TypeError` when `kind` is not derived from `T`.
pub(crate) fn construct_directly<T: Construction>(kind: &Bound<'_, PyType>) -> PyResult<()> {
    if !kind.is_subclass_of::<T>()? {
        let message = format!("it is not derived from {}", T::type_object(kind.py()));
        return Err(PyTypeError::new_err(message));
    }
    // SAFETY: a live class, and the interpreter is attached. It is derived from `T`, as `construct` requires, and no class inherits this
    // function. Without it, `type.__call__` constructs.
    unsafe { (*kind.as_type_ptr()).tp_vectorcall = Some(construct::<T>) };
    Ok(())
}

/// Creates an instance the way CPython calls a class.
///
/// # Safety
/// `kind` is a class derived from `T`. `arguments` holds `PyVectorcall_NARGS(count)` positional values, then one for each of `names`,
/// which is a tuple of str or null.
unsafe extern "C" fn construct<T: Construction>(
    kind: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let made = guarded(false, |py| {
        // SAFETY: the caller holds a reference over the call.
        let kind = unsafe { Bound::from_borrowed_ptr(py, kind) };
        // SAFETY: it is a class, as the function's contract says.
        let kind = unsafe { kind.cast_into_unchecked::<PyType>() };
        // SAFETY: a tuple of str that lives over the call, or null.
        let names = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) };
        // SAFETY: as above.
        let names = names.map(|names| unsafe { names.cast_into_unchecked::<PyTuple>() });
        let named = names.as_ref().map_or(0, |names| names.len());
        // SAFETY: no preconditions; it clears a flag.
        let positional = unsafe { ffi::PyVectorcall_NARGS(count) }.cast_unsigned();
        let all = match positional + named {
            0 => &[],
            // SAFETY: `Bound` is one pointer to an object, so the array of object pointers is a slice; all live over the call.
            length => unsafe { slice::from_raw_parts(arguments.cast(), length) },
        };
        let names = names.as_ref();
        Ok(instance::<T>(&kind, &Arguments { all, names })?.into_ptr())
    });
    made.unwrap_or(std::ptr::null_mut())
}

fn instance<'py, T: Construction>(
    kind: &Bound<'py, PyType>,
    arguments: &Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = kind.py();
    let (new, init) = slots(kind);
    let (own_new, own_init) = slots(&T::type_object(py));
    if let (Some(new), true) = (new, (new, init) == (own_new, own_init)) {
        let nothing = PyTuple::empty(py);
        // SAFETY: the slot of that very class, which takes a tuple, and null for a dict.
        let made = unsafe { new(kind.as_type_ptr(), nothing.as_ptr(), std::ptr::null_mut()) };
        // SAFETY: a new reference, or null with the error set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
        // SAFETY: `T`'s own `tp_new` made it.
        if T::initialize(unsafe { made.cast_unchecked::<T>() }, arguments)? {
            return Ok(made);
        }
    }
    call_as_type(kind, arguments)
}

/// The functions that make and initialize an instance.
fn slots(kind: &Bound<'_, PyType>) -> (Option<ffi::newfunc>, Option<ffi::initproc>) {
    // SAFETY: a live class, and the interpreter is attached, so it does not change meanwhile.
    let kind = unsafe { &*kind.as_type_ptr() };
    (kind.tp_new, kind.tp_init)
}

/// `type.__call__`, for a class that was changed and for arguments that do not fit.
#[cold]
fn call_as_type<'py>(
    kind: &Bound<'py, PyType>,
    arguments: &Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = kind.py();
    let named = PyDict::new(py);
    let positional = arguments.all.len() - arguments.names.map_or(0, |names| names.len());
    let (positional, values) = arguments.all.split_at(positional);
    for (name, value) in arguments.names.into_iter().flatten().zip(values) {
        named.set_item(name, value)?;
    }
    let call = py.get_type::<PyType>().getattr("__call__")?;
    let positional = std::iter::once(kind.as_any()).chain(positional);
    call.call(
        PyTuple::new(py, positional.collect::<Vec<_>>())?,
        Some(&named),
    )
}
