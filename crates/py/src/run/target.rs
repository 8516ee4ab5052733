//! A request's target as text.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Percent-decoded UTF-8; what is not UTF-8 becomes U+FFFD.
pub(crate) fn decoded<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    let plain = if bytes.contains(&b'%') {
        Cow::Owned(server::percent_decode(bytes))
    } else {
        Cow::Borrowed(bytes)
    };
    match std::str::from_utf8(&plain) {
        Ok(text) => PyString::new(py, text),
        Err(_) => PyString::new(py, &String::from_utf8_lossy(&plain)),
    }
}
