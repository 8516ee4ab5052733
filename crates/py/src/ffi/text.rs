//! Text, to and from CPython's str.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::check_memory;

/// The characters of a str that is all ASCII; None for instances of derived classes.
#[cfg(Py_3_14)]
#[inline]
pub(crate) fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let utf8 = text.to_str().ok()?;
    (text.is_exact_instance_of::<PyString>() && utf8.len() == text.len().ok()?)
        .then_some(utf8.as_bytes())
}

/// The characters of a str that is all ASCII, without a call; None for instances of derived classes.
#[cfg(not(Py_3_14))]
#[inline]
pub(crate) fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    // SAFETY: it is a str.
    if unsafe { ffi::PyUnicode_IS_COMPACT_ASCII(text.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: as above, and compact: its characters follow its header.
    let data = unsafe { ffi::PyUnicode_DATA(text.as_ptr()) };
    // SAFETY: as above.
    let length = unsafe { ffi::PyUnicode_GET_LENGTH(text.as_ptr()) };
    // SAFETY: that many characters of one byte, which nothing changes as long as the str is borrowed.
    Some(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(length).ok()?) })
}

/// A str in which each byte is one character (Latin-1).
#[inline]
pub(crate) fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    let length = bytes.len().cast_signed();
    // SAFETY: the kind says one byte for each character, and there are `length` of them; any byte is valid. They are copied.
    let text = unsafe {
        ffi::PyUnicode_FromKindAndData(
            ffi::PyUnicode_1BYTE_KIND as i32,
            bytes.as_ptr().cast(),
            length,
        )
    };
    // SAFETY: a new reference, or null when memory is exhausted, which panics as elsewhere.
    let text = unsafe { Bound::from_owned_ptr(py, text) };
    // SAFETY: the function returns a str.
    unsafe { text.cast_into_unchecked() }
}

/// Text in UTF-8 as a Python object.
///
/// # Errors
/// `MemoryError`; `UnicodeDecodeError` if it is not UTF-8.
#[inline]
pub(crate) fn text<'py>(py: Python<'py>, utf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    check_memory(utf8.len())?;
    match is_copied(utf8) {
        true => copied(py, utf8),
        false => decoded(py, utf8),
    }
}

/// Whether a str of it can be written directly. CPython has the strs of less than two characters already.
#[inline]
fn is_copied(utf8: &[u8]) -> bool {
    cfg!(not(Py_3_14)) && utf8.len() > 1 && utf8.is_ascii()
}

fn decoded<'py>(py: Python<'py>, utf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let length = ffi::Py_ssize_t::try_from(utf8.len())?;
    // SAFETY: the slice has that many bytes, which are decoded.
    let text = unsafe { ffi::PyUnicode_DecodeUTF8(utf8.as_ptr().cast(), length, ptr::null()) };
    // SAFETY: a new reference, or null with the error set.
    let text = unsafe { Bound::from_owned_ptr_or_err(py, text) }?;
    // SAFETY: the function returns a str.
    Ok(unsafe { text.cast_into_unchecked() })
}

#[cfg(Py_3_14)]
fn copied<'py>(py: Python<'py>, ascii: &[u8]) -> PyResult<Bound<'py, PyString>> {
    decoded(py, ascii)
}

/// A str of characters that are all ASCII, without decoding them: 130 instructions less for 64 of them (bench: messages).
#[cfg(not(Py_3_14))]
#[inline]
fn copied<'py>(py: Python<'py>, ascii: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let length = ffi::Py_ssize_t::try_from(ascii.len())?;
    // SAFETY: a new str of so many characters, none above 127: one byte each.
    let text = unsafe { ffi::PyUnicode_New(length, 127) };
    // SAFETY: a new reference, or null with the error set.
    let text = unsafe { Bound::from_owned_ptr_or_err(py, text) }?;
    // SAFETY: it is a str of one byte for each character, which follow its header.
    let data = unsafe { ffi::PyUnicode_DATA(text.as_ptr()) }.cast::<u8>();
    // SAFETY: it has room for that many, is longer than one character, so no other code has it, and is elsewhere than the slice.
    unsafe { ptr::copy_nonoverlapping(ascii.as_ptr(), data, ascii.len()) };
    // SAFETY: the function returns a str.
    Ok(unsafe { text.cast_into_unchecked() })
}
