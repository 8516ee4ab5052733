//! What native applications send as messages.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::ffi;
use crate::run::memory;

/// The content of a message, borrowed if possible.
pub(crate) enum Sendable<'a> {
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// Of an object whose bytes may change.
    Copy(Vec<u8>),
}

/// The message that a value stands for: text for a str, binary for bytes.
///
/// # Errors
/// `TypeError` for anything else; `UnicodeEncodeError` for a str that is not Unicode text; `MemoryError`.
#[inline]
pub(crate) fn sendable<'a>(message: &'a Bound<'_, PyAny>) -> PyResult<Sendable<'a>> {
    if let Ok(text) = message.cast::<PyString>() {
        return Ok(Sendable::Text(match ffi::ascii(text) {
            Some(content) => content,
            None => text.to_str()?.as_bytes(),
        }));
    }
    match message.cast::<PyBytes>() {
        Ok(bytes) => Ok(Sendable::Bytes(bytes.as_bytes())),
        Err(_) => copied(message),
    }
}

#[cold]
fn copied<'a>(message: &Bound<'_, PyAny>) -> PyResult<Sendable<'a>> {
    let Ok(buffer) = pyo3::buffer::PyBuffer::<u8>::get(message) else {
        let kind = message.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a message is a str or bytes, not {kind}; send json.dumps(value) for JSON"
        )));
    };
    Ok(Sendable::Copy(memory::copy_of(message.py(), &buffer)?))
}
