//! Methods that applications call for each message, without PyO3's preparation of a call: it unpacks the arguments by their names, which
//! takes longer than what these methods do.
//!
//! PyO3 defines them, so their descriptors, signatures and documentation are its own. Only the C function in a definition is another one.
//! A call that it does not serve (with keywords, or another number of arguments) goes to the function that was there.

use std::cell::Cell;
use std::ptr;

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::PyType;

use super::slots::guarded;

/// A method that PyO3 has defined.
pub(crate) trait Method: 'static {
    /// The class that has it.
    type Owner: PyClass<Frozen = True> + Sync;

    /// Its name, unless it is called by a slot only.
    const NAME: &'static str;

    /// Whether PyO3 has counted the attachment to the interpreter, because our own code called the caller. On a thread that is not counted,
    /// references are only dropped later.
    fn is_called_inside(_owner: &Self::Owner) -> bool {
        false
    }
}

/// One without arguments.
pub(crate) trait WithoutArguments: Method {
    /// What a call returns.
    ///
    /// # Errors
    /// What it raises.
    fn call<'py>(owner: &Bound<'py, Self::Owner>) -> PyResult<Bound<'py, PyAny>>;
}

/// One with an argument, which may be named.
pub(crate) trait WithArgument: Method {
    /// What a call returns.
    ///
    /// # Errors
    /// What it raises.
    fn call<'py>(
        owner: &Bound<'py, Self::Owner>,
        argument: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>>;

    /// The place for the function that serves every call.
    fn general() -> &'static General;
}

/// The function in a definition that serves every call.
pub(crate) struct General(Cell<Option<ffi::PyCFunctionFastWithKeywords>>);

// SAFETY: its cell is used only with the interpreter attached.
unsafe impl Sync for General {}

impl General {
    pub(crate) const fn new() -> General {
        General(Cell::new(None))
    }
}

/// The slot of `__anext__` that PyO3 has filled.
pub(crate) struct Next(Cell<Option<ffi::unaryfunc>>);

// SAFETY: its cell is used only with the interpreter attached.
unsafe impl Sync for Next {}

impl Next {
    pub(crate) const fn new() -> Next {
        Next(Cell::new(None))
    }
}

/// The definition of a method, if it is called with these flags.
fn definition<M: Method>(py: Python<'_>, flags: i32) -> Option<*mut ffi::PyMethodDef> {
    let descriptor = py.get_type::<M::Owner>().getattr(M::NAME).ok()?;
    if descriptor.get_type_ptr() != &raw mut ffi::PyMethodDescr_Type {
        return None;
    }
    let descriptor = descriptor.as_ptr().cast::<ffi::PyMethodDescrObject>();
    // SAFETY: the check above says what the object is.
    let definition = unsafe { (*descriptor).d_method };
    // SAFETY: a class keeps its table of methods.
    let own = unsafe { (*definition).ml_flags };
    (own == flags).then_some(definition)
}

/// Has CPython call `M` without PyO3.
pub(crate) fn call_directly<M: WithoutArguments>(py: Python<'_>) {
    if let Some(definition) = definition::<M>(py, ffi::METH_NOARGS) {
        let function = ffi::PyMethodDefPointer {
            PyCFunction: call::<M>,
        };
        // SAFETY: PyO3 has allocated the table, which nobody reads while the module is created; the function has the convention of the flags.
        unsafe { (*definition).ml_meth = function };
    }
}

/// The same for a method with an argument.
pub(crate) fn call_one_directly<M: WithArgument>(py: Python<'_>) {
    if let Some(definition) = definition::<M>(py, ffi::METH_FASTCALL | ffi::METH_KEYWORDS) {
        let function = ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: call_one::<M>,
        };
        // SAFETY: as in `call_directly`.
        let general = unsafe { std::mem::replace(&mut (*definition).ml_meth, function) };
        // SAFETY: the flags say which member of the union it is.
        M::general()
            .0
            .set(Some(unsafe { general.PyCFunctionFastWithKeywords }));
    }
}

/// Has CPython call `M` for each item of an asynchronous iteration over instances of `kind`, if that has the slot of `M`'s own class.
pub(crate) fn next_directly<M: WithoutArguments>(kind: &Bound<'_, PyType>, general: &Next) {
    let own = kind.py().get_type::<M::Owner>();
    let is_own = kind.is(&own);
    // SAFETY: a live class.
    let methods = unsafe { (*kind.as_type_ptr()).tp_as_async };
    if methods.is_null() || !(is_own || kind.is_subclass(&own).unwrap_or(false)) {
        return;
    }
    // SAFETY: a class's table of these methods lives as long as the class.
    let slot = unsafe { &raw mut (*methods).am_anext };
    // SAFETY: as above.
    let before = unsafe { *slot };
    if is_own {
        general.0.set(before);
    }
    let address = |function: Option<ffi::unaryfunc>| function.map(|function| function as usize);
    if before.is_some() && address(before) == address(general.0.get()) {
        // SAFETY: as above. No reference to the table exists, and `next` takes an instance of that class.
        unsafe { *slot = Some(next::<M>) };
    }
}

/// `M::call` as CPython calls a method without arguments.
///
/// # Safety
/// `owner` is an instance of `M::Owner`.
unsafe extern "C" fn call<M: WithoutArguments>(
    owner: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller holds a reference over the call.
    let owner = unsafe { Borrowed::from_ptr(py, owner) };
    // SAFETY: the descriptor of a method checks the class of what it is called with.
    let owner = unsafe { owner.cast_unchecked::<M::Owner>() };
    let is_inside = M::is_called_inside(owner.get());
    let result = guarded(is_inside, |_| M::call(&owner).map(Bound::into_ptr));
    result.unwrap_or(ptr::null_mut())
}

/// The same in a slot.
///
/// # Safety
/// As [`call`].
unsafe extern "C" fn next<M: WithoutArguments>(owner: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the slot is that of a class derived from `M::Owner`.
    unsafe { call::<M>(owner, ptr::null_mut()) }
}

/// `M::call` as CPython calls a method with arguments.
///
/// # Safety
/// `owner` is an instance of `M::Owner`, and the number of `arguments` is that of `positional` and `names`.
unsafe extern "C" fn call_one<M: WithArgument>(
    owner: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: isize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    if (positional, names.is_null()) != (1, true) {
        return M::general().0.get().map_or(ptr::null_mut(), |general| {
            // SAFETY: the function that CPython would have called, with its arguments.
            unsafe { general(owner, arguments, positional, names) }
        });
    }
    // SAFETY: CPython calls with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller holds a reference over the call.
    let owner = unsafe { Borrowed::from_ptr(py, owner) };
    // SAFETY: the descriptor of a method checks the class of what it is called with.
    let owner = unsafe { owner.cast_unchecked::<M::Owner>() };
    // SAFETY: there is one.
    let argument = unsafe { *arguments };
    // SAFETY: the caller holds a reference over the call.
    let argument = unsafe { Borrowed::from_ptr(py, argument) };
    let is_inside = M::is_called_inside(owner.get());
    let result = guarded(is_inside, |_| {
        M::call(&owner, &argument).map(Bound::into_ptr)
    });
    result.unwrap_or(ptr::null_mut())
}
