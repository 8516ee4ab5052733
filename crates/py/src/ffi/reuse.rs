//! Whether an object that an application has had may be reused.
//!
//! Creating the objects of a request costs more than serving it. So an object is taken back and reused for the next request, under one
//! contract: **it cannot be distinguished from a new one.** That is so if
//!
//! - all references to it are ours ([`OurReferences`]), and no weak reference to it was added;
//! - it is as it was when it was handed out. What this means depends on the object: the owner compares what it holds, or reads the
//!   [`version`] of a dict. If an interpreter does not provide that, the object is not reused.
//!
//! A reference count shows other references because the interpreter's lock is held: none can be taken between the check and the use. An
//! interpreter that does not count all references (CPython 3.14 borrows some on its stack) shows fewer than there are only to code that
//! runs below the borrower, and every object is checked after the application's call has returned.
//!
//! `BOLIDE_REUSE=0` turns reuse off, to check whether it causes a failure: each request then has new objects.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Reads the switch, once per process.
pub(crate) fn prepare() {
    let is_off = std::env::var_os("BOLIDE_REUSE").is_some_and(|value| value == "0");
    IS_OFF.store(is_off, Ordering::Relaxed);
}

pub(crate) fn is_off() -> bool {
    IS_OFF.load(Ordering::Relaxed)
}

/// The references to an object that only we hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OurReferences {
    count: isize,
    /// The address of the first weak reference.
    weak: usize,
}

impl OurReferences {
    /// The given number of references, none of them weak.
    pub(crate) const fn of(count: isize) -> OurReferences {
        OurReferences { count, weak: 0 }
    }

    /// The current references: no other code has had the object.
    pub(crate) fn now(object: &Bound<'_, PyAny>) -> OurReferences {
        OurReferences {
            count: count(object.as_unbound()),
            weak: first_weak_reference(object.as_unbound()),
        }
    }

    /// Whether these are all references to `object`, so that it may be used again if it is unchanged.
    #[inline]
    pub(crate) fn are_all<T>(self, _py: Python<'_>, object: &Py<T>) -> bool {
        count(object) == self.count
            && first_weak_reference(object) == self.weak
            && !IS_OFF.load(Ordering::Relaxed)
    }
}

/// The number of references to an object.
#[inline]
fn count<T>(object: &Py<T>) -> isize {
    // SAFETY: the reference that is passed keeps the object alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// The address of the first weak reference to an object, 0 if there is none. If it is unchanged, none was added and kept.
#[inline]
fn first_weak_reference<T>(object: &Py<T>) -> usize {
    // SAFETY: the reference that is passed keeps the object alive.
    let kind = unsafe { ffi::Py_TYPE(object.as_ptr()) };
    // SAFETY: types live as long as their instances.
    let offset = unsafe { (*kind).tp_weaklistoffset };
    if offset == 0 {
        return 0;
    }
    // SAFETY: a type with an offset keeps the list's head there in each instance.
    let list = unsafe { object.as_ptr().byte_offset(offset) }.cast::<usize>();
    // SAFETY: as above; the interpreter is attached, so it does not change meanwhile.
    unsafe { *list }
}

/// A dict's version, which changes with every modification (PEP 509); `None` from CPython 3.14 on, which has none.
#[cfg(Py_3_14)]
#[inline]
pub(crate) fn version(_dict: &Bound<'_, PyDict>) -> Option<u64> {
    None
}

/// A dict's version, which changes with every modification (PEP 509).
#[cfg(not(Py_3_14))]
#[inline]
#[allow(deprecated, reason = "3.12 and 3.13 keep it still")]
pub(crate) fn version(dict: &Bound<'_, PyDict>) -> Option<u64> {
    // SAFETY: it is a dict, and the interpreter is attached.
    Some(unsafe { (*dict.as_ptr().cast::<ffi::PyDictObject>()).ma_version_tag })
}
