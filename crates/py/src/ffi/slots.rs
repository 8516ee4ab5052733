//! Functions of our types in the form in which CPython calls them, bypassing PyO3's methods: an `await` and a `send()` are too short for
//! that overhead.

use std::ptr;

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Sent;

/// An awaitable that its `step` alone implements. `stream::awaitable!` makes such types coroutines.
pub(crate) trait Awaitable:
    PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync
{
    /// Resumes it: yields a future to wait for, or ends.
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py>;

    /// Whether a step never drops a reference, so that PyO3 need not know that the interpreter is attached.
    const HOLDS_ALL: bool = false;
}

/// Puts `T::step` into the slots that `await` uses, in place of the methods: then a value needs no exception to carry it, and nothing is
/// looked up. The methods stay for callers that use their names.
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
    let sent = guarded(T::HOLDS_ALL, |py| {
        // SAFETY: the caller holds a reference over the call.
        let receiver = unsafe { Bound::from_borrowed_ptr(py, receiver) };
        // SAFETY: the slot is that of `T`'s own type, which cannot be subclassed.
        let (value, status) = match unsafe { receiver.cast_unchecked::<T>() }.get().step(py) {
            Sent::Yielded(value) => (value, ffi::PySendResult::PYGEN_NEXT),
            Sent::Returned(value) => (value, ffi::PySendResult::PYGEN_RETURN),
            Sent::Raised(error) => return Err(error),
        };
        Ok((value.into_ptr(), status))
    });
    let (value, status) = sent.unwrap_or((ptr::null_mut(), ffi::PySendResult::PYGEN_ERROR));
    // SAFETY: the caller's space for it.
    unsafe { *result = value };
    status
}

/// A method with one argument. CPython calls it without a tuple and without looking up names.
pub(crate) trait Method:
    PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync
{
    /// Its name in tracebacks.
    const METHOD_NAME: &'static std::ffi::CStr;

    fn call<'py>(
        &self,
        py: Python<'py>,
        argument: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>>;

    /// Whether our own code called the caller, so that PyO3 knows that the interpreter is attached.
    fn is_called_inside(&self, py: Python<'_>) -> bool;
}

/// A `PyMethodDef`, which is read only.
struct Definition(ffi::PyMethodDef);

// SAFETY: its pointers are to constants.
unsafe impl Sync for Definition {}

/// The method of an object, as an object of its own.
pub(crate) fn method<'py, T: Method>(receiver: &Bound<'py, T>) -> PyResult<Bound<'py, PyAny>> {
    let definition: &'static Definition = const {
        &Definition(ffi::PyMethodDef {
            ml_name: T::METHOD_NAME.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer {
                PyCFunction: call_method::<T>,
            },
            ml_flags: ffi::METH_O,
            ml_doc: ptr::null(),
        })
    };
    let definition = (&raw const definition.0).cast_mut();
    // SAFETY: the definition lives for ever and is only read; the function keeps the receiver.
    let function =
        unsafe { ffi::PyCFunction_NewEx(definition, receiver.as_ptr(), ptr::null_mut()) };
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(receiver.py(), function) }
}

/// `T::call` as CPython calls it.
///
/// # Safety
/// `receiver` is an instance of `T`, and `argument` an object.
unsafe extern "C" fn call_method<T: Method>(
    receiver: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller holds a reference over the call.
    let receiver = unsafe { Bound::from_borrowed_ptr(py, receiver) };
    // SAFETY: the same holds for the argument.
    let argument = unsafe { Bound::from_borrowed_ptr(py, argument) };
    // SAFETY: the function was made with an instance of `T`, which cannot be subclassed.
    let receiver = unsafe { receiver.cast_unchecked::<T>() };
    let receiver = receiver.get();
    let result = guarded(receiver.is_called_inside(py), |py| {
        Ok(receiver.call(py, &argument)?.into_ptr())
    });
    result.unwrap_or(ptr::null_mut())
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
