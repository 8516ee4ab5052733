//! The calls into CPython for which PyO3 has no safe form.
//!
//! The only module of this crate that may contain `unsafe`. Comments state what a function requires beyond its types.
#![allow(unsafe_code)]

pub(crate) mod allocator;
mod cell;
mod construction;
mod deferred;
mod direct;
mod ending;
pub(crate) mod forked;
mod kept;
mod lent;
pub(crate) mod reuse;
mod slots;
mod text;

use std::mem::MaybeUninit;
use std::ptr;

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyNone, PyString, PyTuple, PyType};

pub(crate) use cell::{GilCell, Lent, Place, in_use};
pub(crate) use construction::{Arguments, Construction, construct_directly};
pub(crate) use deferred::{Deferred, method, prepare_calls};
pub(crate) use direct::{
    General, Method, Next, WithArgument, WithoutArguments, call_directly, call_one_directly,
    next_directly,
};
pub(crate) use ending::{call_from_thread, call_method_from_thread, next_from_thread};
pub(crate) use forked::leave_if_forked;
pub(crate) use kept::{Kept, Spare, keep};
pub(crate) use lent::LentResponder;
pub(crate) use slots::{Awaitable, step_directly};
pub(crate) use text::{ascii, latin1, text};

/// Smaller objects are created without checking how much memory is left.
const CHECKED_BYTES_MIN: usize = 4096;

/// The result of sending a value to a coroutine.
pub(crate) enum Sent<'py> {
    /// It suspended and yielded this.
    Yielded(Bound<'py, PyAny>),
    /// It ended and returned this.
    Returned(Bound<'py, PyAny>),
    /// It raised. Boxed, so that the other results are returned in registers.
    Raised(Box<PyErr>),
}

impl<'py> Sent<'py> {
    /// It raised this.
    #[cold]
    pub(crate) fn raised(error: PyErr) -> Sent<'py> {
        Sent::Raised(Box::new(error))
    }
}

/// Runs with the interpreter's token. This thread is known to be attached: the server calls its application only from inside a Python call.
/// The token ends with `run`, so nothing bound to it outlives the pass.
#[inline(always)]
pub(crate) fn attached<R>(run: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    // SAFETY: no preconditions.
    debug_assert!(unsafe { ffi::PyGILState_Check() } == 1, "detached");
    // SAFETY: `Worker` is accessed only through the methods of `Server` and `Selector`, which Python calls with the interpreter attached.
    // They detach only around the wait and around operations that may wait for a disk, during which no application is called, and for
    // pooled WSGI applications, whose calls never come here.
    run(unsafe { Python::assume_attached() })
}

/// Calls `callable` with positional arguments, without a tuple.
#[inline]
pub(crate) fn call<'py, const N: usize>(
    py: Python<'py>,
    callable: &Py<PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = arguments.map(Bound::as_ptr);
    // SAFETY: the arguments are borrowed over the call; CPython reads N of them.
    let result = unsafe {
        ffi::PyObject_Vectorcall(callable.as_ptr(), arguments.as_ptr(), N, ptr::null_mut())
    };
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// Calls a handler or an application as [`call`] does. What it raises in a process that it has forked ends that process.
#[inline]
pub(crate) fn call_handler<'py, const N: usize>(
    py: Python<'py>,
    handler: &Py<PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    call(py, handler, arguments).inspect_err(|error| leave_if_forked(py, Some(error)))
}

/// As [`call_handler`], with `arguments` of which the last are named by the tuple `names` (if any).
pub(crate) fn call_named<'py>(
    py: Python<'py>,
    callable: &Py<PyAny>,
    arguments: &[Bound<'py, PyAny>],
    names: Option<&Py<PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = names.map_or(0, |names| names.bind(py).len());
    let Some(positional) = arguments.len().checked_sub(named) else {
        return Err(PyTypeError::new_err("more names than arguments"));
    };
    let names = names.map_or(ptr::null_mut(), Py::as_ptr);
    // SAFETY: `Bound` is one pointer to an object, so the slice is an array of object pointers; all live over the call, and the last
    // `named` of them belong to the names.
    let result = unsafe {
        ffi::PyObject_Vectorcall(
            callable.as_ptr(),
            arguments.as_ptr().cast(),
            positional,
            names,
        )
    };
    // SAFETY: a new reference, or null with the error set.
    let result = unsafe { Bound::from_owned_ptr_or_err(py, result) };
    result.inspect_err(|error| leave_if_forked(py, Some(error)))
}

/// Resumes a coroutine by sending it None.
pub(crate) fn send<'py>(py: Python<'py>, coroutine: &Bound<'py, PyAny>) -> Sent<'py> {
    let mut result = ptr::null_mut();
    // Borrowed: dropping a reference of our own costs a look at PyO3's count of attachments.
    let (receiver, none) = (coroutine.as_ptr(), PyNone::get(py));
    // SAFETY: both objects live over the call; `result` receives a new reference unless an error is set.
    let status = unsafe { ffi::PyIter_Send(receiver, none.as_ptr(), &mut result) };
    if status == ffi::PySendResult::PYGEN_ERROR {
        let error = PyErr::fetch(py);
        leave_if_forked(py, Some(&error));
        return Sent::raised(error);
    }
    // SAFETY: not an error, so `result` is a new reference.
    let value = unsafe { Bound::from_owned_ptr(py, result) };
    if status == ffi::PySendResult::PYGEN_RETURN {
        Sent::Returned(value)
    } else {
        Sent::Yielded(value)
    }
}

/// A copy of the current context.
pub(crate) fn copy_current_context(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: requires only that the interpreter is attached.
    let context = unsafe { ffi::PyContext_CopyCurrent() };
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, context) }
}

/// A copy of a context.
pub(crate) fn copy_context<'py>(context: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: any object may be passed; one that is not a context sets an error.
    let copy = unsafe { ffi::PyContext_Copy(context.as_ptr()) };
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(context.py(), copy) }
}

/// The address of a context's mapping of variables. The mapping is immutable and kept alive by the context, so two contexts with the same
/// address hold the same variables.
///
/// Its offset in the object is not public: after the object header and the pointer to the previous context, from CPython 3.7 on. The caller
/// tests that this still holds. 0 for an object that is not a context.
#[inline]
pub(crate) fn context_variables(context: &Bound<'_, PyAny>) -> usize {
    if context.get_type_ptr() != &raw mut ffi::PyContext_Type {
        return 0;
    }
    const OFFSET: usize = size_of::<ffi::PyObject>() + size_of::<*mut ffi::PyObject>();
    // SAFETY: it is a context object, which is larger than that in every version.
    let place = unsafe { context.as_ptr().byte_add(OFFSET) }.cast::<usize>();
    // SAFETY: as above; this reads one word of a live object.
    unsafe { *place }
}

/// Makes `context` the current one until [`exit_context`].
pub(crate) fn enter_context(context: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: any object may be passed; one that is not a context sets an error.
    let failed = unsafe { ffi::PyContext_Enter(context.as_ptr()) } < 0;
    if failed {
        Err(PyErr::fetch(context.py()))
    } else {
        Ok(())
    }
}

/// Leaves `context`, which [`enter_context`] entered.
pub(crate) fn exit_context(context: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: as in `enter_context`.
    let failed = unsafe { ffi::PyContext_Exit(context.as_ptr()) } < 0;
    if failed {
        Err(PyErr::fetch(context.py()))
    } else {
        Ok(())
    }
}

/// The dict of an object's attributes, created if necessary; also for a type without a `__dict__` attribute.
pub(crate) fn attributes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: any object may be asked; one without a dict sets an error.
    let dict = unsafe { ffi::PyObject_GenericGetDict(object.as_ptr(), ptr::null_mut()) };
    // SAFETY: a new reference, or null with the error set.
    let dict = unsafe { Bound::from_owned_ptr_or_err(object.py(), dict) }?;
    Ok(dict.cast_into()?)
}

/// Whether an object has a dict of attributes by now; `None` if its type does not say where it has one.
#[inline]
pub(crate) fn has_attributes(object: &Bound<'_, PyAny>) -> Option<bool> {
    // SAFETY: the type of an object that lives.
    let offset = unsafe { (*object.get_type_ptr()).tp_dictoffset };
    // Below 0 the place depends on the object's length, or is before it.
    if offset <= 0 {
        return None;
    }
    // SAFETY: a type with an offset keeps the dict, or null, there in each instance.
    let place = unsafe { object.as_ptr().byte_offset(offset) }.cast::<*mut ffi::PyObject>();
    // SAFETY: as above; the interpreter is attached, so it does not change meanwhile.
    Some(!unsafe { *place }.is_null())
}

/// Returns true for an object with `__next__`.
pub(crate) fn is_iterator(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: any object may be passed.
    unsafe { ffi::PyIter_Check(object.as_ptr()) != 0 }
}

/// Returns true for what calling an `async def` function returns.
#[inline]
pub(crate) fn is_coroutine(object: &Bound<'_, PyAny>) -> bool {
    object.get_type_ptr() == &raw mut ffi::PyCoro_Type
}

/// The C function of a built-in attribute, or of a method without arguments, of one type. Calling it takes a tenth of the time of a lookup
/// by name.
pub(crate) struct Reader {
    owner: Py<PyType>,
    function: ReaderFunction,
}

enum ReaderFunction {
    Attribute(ffi::getter),
    Method(ffi::PyCFunction),
}

impl Reader {
    /// The function of `owner.name`.
    ///
    /// # Errors
    /// `AttributeError` when that name does not exist, `TypeError` when it is something else.
    pub(crate) fn new(owner: &Bound<'_, PyType>, name: &str) -> PyResult<Reader> {
        let descriptor = owner.getattr(name)?;
        let kind = descriptor.get_type_ptr();
        let function = if kind == &raw mut ffi::PyGetSetDescr_Type {
            let descriptor = descriptor.as_ptr().cast::<ffi::PyGetSetDescrObject>();
            // SAFETY: the check above says what the object is.
            let attribute = unsafe { (*descriptor).d_getset };
            // SAFETY: the table of a type's attributes lives as long as the type, which `owner` keeps.
            let attribute = unsafe { &*attribute };
            let get = attribute.get.filter(|_| attribute.closure.is_null());
            get.map(ReaderFunction::Attribute)
        } else if kind == &raw mut ffi::PyMethodDescr_Type {
            let descriptor = descriptor.as_ptr().cast::<ffi::PyMethodDescrObject>();
            // SAFETY: the check above says what the object is.
            let method = unsafe { (*descriptor).d_method };
            // SAFETY: as for attributes.
            let method = unsafe { &*method };
            // SAFETY: the flags say which member of the union it is; all are addresses of functions.
            let function = unsafe { method.ml_meth.PyCFunction };
            (method.ml_flags == ffi::METH_NOARGS).then_some(ReaderFunction::Method(function))
        } else {
            None
        };
        let owner = owner.clone().unbind();
        match function {
            Some(function) => Ok(Reader { owner, function }),
            None => Err(PyTypeError::new_err(format!("{name} is not built in"))),
        }
    }

    /// Its value for an instance of exactly that type.
    ///
    /// # Errors
    /// `TypeError` for any other object.
    pub(crate) fn read<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(object).ok_or_else(|| {
            let other = || PyTypeError::new_err("it is of another type");
            PyErr::take(object.py()).unwrap_or_else(other)
        })
    }

    /// Whether its value for an object is `expected`. False if it cannot be read.
    #[inline]
    pub(crate) fn reads(&self, object: &Bound<'_, PyAny>, expected: &Bound<'_, PyAny>) -> bool {
        match self.value(object) {
            Some(value) => value.is(expected),
            None => {
                drop(PyErr::take(object.py()));
                false
            }
        }
    }

    /// Its value; None with the error set, or for an object of another type without.
    #[inline(always)]
    fn value<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        if object.get_type_ptr().cast() != self.owner.as_ptr() {
            return None;
        }
        let value = match self.function {
            // SAFETY: a getter takes an instance of its type, and its closure, which is null.
            ReaderFunction::Attribute(get) => unsafe { get(object.as_ptr(), ptr::null_mut()) },
            // SAFETY: a method without arguments takes an instance of its type, and null.
            ReaderFunction::Method(call) => unsafe { call(object.as_ptr(), ptr::null_mut()) },
        };
        // SAFETY: a new reference, or null with the error set.
        unsafe { Bound::from_owned_ptr_or_opt(object.py(), value) }
    }
}

/// The entry of a dict after `position`, which is advanced; None at the end. Returns no entry twice, and takes a third of the time of a
/// lookup.
#[inline]
pub(crate) fn next_entry<'py>(
    dict: &Bound<'py, PyDict>,
    position: &mut isize,
) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match next_entry_among(dict, position, [])? {
        (Key::Known(_), _) => None,
        (Key::Other(key), value) => Some((key, value)),
    }
}

/// The key of an entry.
pub(crate) enum Key<'py> {
    /// One of the known keys, by index.
    Known(usize),
    Other(Bound<'py, PyAny>),
}

/// As [`next_entry`]. No reference is taken to a key that is the same object as one of `known`.
#[inline]
pub(crate) fn next_entry_among<'py, const N: usize>(
    dict: &Bound<'py, PyDict>,
    position: &mut isize,
    known: [&Py<PyString>; N],
) -> Option<(Key<'py>, Bound<'py, PyAny>)> {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: it is a dict; for a position beyond its end, no entry is returned.
    let is_found = unsafe { ffi::PyDict_Next(dict.as_ptr(), position, &mut key, &mut value) };
    if is_found == 0 {
        return None;
    }
    let py = dict.py();
    // SAFETY: an entry was found, so its value is a borrowed reference, and no code has run since.
    let value = unsafe { Bound::from_borrowed_ptr(py, value) };
    let key = match known.iter().position(|known| known.as_ptr() == key) {
        Some(index) => Key::Known(index),
        // SAFETY: the same holds for its key.
        None => Key::Other(unsafe { Bound::from_borrowed_ptr(py, key) }),
    };
    Some((key, value))
}

/// Whether a list holds exactly these objects.
#[inline]
pub(crate) fn holds<T>(list: &Bound<'_, PyList>, objects: &[Py<T>]) -> bool {
    let items = list.as_ptr().cast::<ffi::PyListObject>();
    // SAFETY: it is a list, and the interpreter is attached, so it does not change meanwhile.
    let items = unsafe { (*items).ob_item };
    if list.len() != objects.len() || items.is_null() {
        return list.len() == objects.len();
    }
    // SAFETY: a list holds that many references in a row.
    let items = unsafe { std::slice::from_raw_parts(items, list.len()) };
    let addresses = objects.iter().map(Py::as_ptr);
    items.iter().copied().eq(addresses)
}

// SAFETY: the declaration is CPython's own (bytesobject.h, part of the limited API).
unsafe extern "C" {
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, length: ffi::Py_ssize_t) -> std::ffi::c_int;
}

/// Bytes as a Python object.
///
/// # Errors
/// `MemoryError`.
pub(crate) fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    check_memory(bytes.len())?;
    let length = ffi::Py_ssize_t::try_from(bytes.len())?;
    // SAFETY: the slice has that many bytes, which are copied.
    let copy = unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), length) };
    // SAFETY: a new reference, or null with the error set.
    let copy = unsafe { Bound::from_owned_ptr_or_err(py, copy) }?;
    Ok(copy.cast_into::<PyBytes>()?)
}

/// Checks that an object of `bytes` bytes leaves some memory for others.
fn check_memory(bytes: usize) -> PyResult<()> {
    match bytes < CHECKED_BYTES_MIN || net::memory::is_there(bytes) {
        true => Ok(()),
        false => Err(PyMemoryError::new_err(())),
    }
}

/// A bytes object that no other code has seen and that is still uninitialized.
pub(crate) struct UnwrittenBytes {
    bytes: Py<PyBytes>,
}

impl UnwrittenBytes {
    /// Memory for `length` bytes.
    ///
    /// # Errors
    /// `MemoryError`.
    pub(crate) fn new(py: Python<'_>, length: usize) -> PyResult<UnwrittenBytes> {
        check_memory(length)?;
        let length = ffi::Py_ssize_t::try_from(length)?;
        // SAFETY: without a source the bytes stay uninitialized.
        let bytes = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), length) };
        // SAFETY: a new reference, or null with the error set.
        let bytes = unsafe { Bound::from_owned_ptr_or_err(py, bytes) }?;
        let bytes = bytes.cast_into::<PyBytes>()?.unbind();
        Ok(UnwrittenBytes { bytes })
    }

    pub(crate) fn length(&self, py: Python<'_>) -> usize {
        self.bytes.bind(py).len().unwrap_or(0)
    }

    /// Its memory.
    pub(crate) fn memory(&mut self, py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        let length = self.length(py);
        // SAFETY: it is a bytes object.
        let start = unsafe { ffi::PyBytes_AsString(self.bytes.as_ptr()) };
        // SAFETY: the object has that many bytes, and no other code has seen it.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), length) }
    }

    /// The object, shortened to its first `written` bytes. The caller guarantees that these were written.
    ///
    /// # Errors
    /// `MemoryError`.
    pub(crate) fn into_bytes(self, py: Python<'_>, written: usize) -> PyResult<Py<PyBytes>> {
        let length = self.length(py);
        let mut bytes = self.bytes.into_ptr();
        if written < length {
            let written = ffi::Py_ssize_t::try_from(written)?;
            // SAFETY: ours is the only reference; it is replaced, or dropped with the error set.
            if unsafe { _PyBytes_Resize(&mut bytes, written) } < 0 {
                return Err(PyErr::fetch(py));
            }
        }
        // SAFETY: the reference that we had, or the one that replaced it.
        let bytes = unsafe { Bound::from_owned_ptr(py, bytes) };
        Ok(bytes.cast_into::<PyBytes>()?.unbind())
    }
}

/// The number of items of a container, 0 if it has no length.
pub(crate) fn length(object: &Bound<'_, PyAny>) -> usize {
    // SAFETY: any object may be passed; a failure sets an error, which is cleared below.
    let count = unsafe { ffi::PyObject_Size(object.as_ptr()) };
    if count < 0 {
        let _ = PyErr::take(object.py());
    }
    usize::try_from(count).unwrap_or(0)
}

/// A descriptor, which the caller keeps open while it uses the result: asyncio and the command do so by contract.
pub(crate) fn borrow_fd<'fd>(fd: i32) -> std::os::fd::BorrowedFd<'fd> {
    // SAFETY: `fd` is not negative (both callers check). One that was closed meanwhile, or reused for another file, touches no memory.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}
