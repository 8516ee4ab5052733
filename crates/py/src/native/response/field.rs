//! Field lines of a response: validated, and encoded as they are sent.
//!
//! Text from an application never reaches the header section unchecked. Everything that could end a line or a section is rejected here,
//! which is the complete defence against response splitting. Fields about the connection are left out, for every interface
//! (`run/left_out.rs`). A length is rejected, because the server counts the content itself.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use server::Replaced;

use crate::ffi;
use crate::run::left_out::{LeftOut, Ours};

/// A response is created without knowing its application; most processes have only one.
static LEFT_OUT: LeftOut = LeftOut::new();
const CONTENT_LENGTH: &[u8] = b"content-length";
const CONTENT_TYPE: &[u8] = b"content-type";
/// Room for the two or three short lines that most responses have.
const LINES_BYTES: usize = 128;

/// One field line with its line end, in Latin-1 (RFC 9110 sections 5.1 and 5.5). Whitespace around the value is not part of it and is
/// dropped. Empty for a field that only the server may set.
///
/// # Errors
/// `TypeError` for a name or value that is not a str. `ValueError` for a name that is not a token, for Content-Length, and for a value that
/// contains a control character or a character outside Latin-1.
#[pyfunction]
pub(crate) fn field_line<'py>(
    name: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut line = Vec::with_capacity(LINES_BYTES);
    if let Some(token) = checked_name(name)? {
        write_line(&mut line, name, token, value)?;
    }
    Ok(PyBytes::new(name.py(), &line))
}

/// The field lines of a dict or of pairs, after the encoded content-type line (empty for none) unless they include one of their own. For text,
/// `text_type` checks and completes that one: a function that returns an encoded content-type line.
///
/// # Errors
/// As for [`field_line`]; `TypeError` if `headers` holds no pairs, `ValueError` when the content type is given twice.
pub(super) fn field_lines<'py>(
    headers: &Bound<'py, PyAny>,
    type_line: &[u8],
    is_type_explicit: bool,
    text_type: Option<&Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, Replaced)> {
    let mut section = Section {
        lines: Vec::with_capacity(LINES_BYTES),
        own_type: None,
        is_type_explicit,
        text_type,
        replaced: Replaced::default(),
    };
    if let Ok(dict) = headers.cast_exact::<PyDict>() {
        let mut position = 0;
        while let Some((name, value)) = ffi::next_entry(dict, &mut position) {
            section.add(&name, &value)?;
        }
    } else {
        for item in headers.try_iter().map_err(no_pairs(headers))? {
            let (name, value) = pair(&item?)?;
            section.add(&name, &value)?;
        }
    }
    let type_line = section.own_type.as_deref().unwrap_or(type_line);
    let length = type_line.len() + section.lines.len();
    let lines = PyBytes::new_with(headers.py(), length, |bytes| {
        let (first, others) = bytes.split_at_mut(type_line.len());
        first.copy_from_slice(type_line);
        others.copy_from_slice(&section.lines);
        Ok(())
    })?;
    Ok((lines, section.replaced))
}

struct Section<'a> {
    lines: Vec<u8>,
    own_type: Option<Vec<u8>>,
    is_type_explicit: bool,
    text_type: Option<&'a Py<PyAny>>,
    replaced: Replaced,
}

impl Section<'_> {
    #[inline]
    fn add(&mut self, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(token) = checked_name(name)? else {
            return Ok(());
        };
        if !token.eq_ignore_ascii_case(CONTENT_TYPE) {
            self.replaced.note(token);
            return write_line(&mut self.lines, name, token, value);
        }
        if self.is_type_explicit {
            return Err(type_given_twice());
        }
        self.is_type_explicit = true;
        let line = self.own_type.insert(Vec::new());
        write_line(line, name, token, value)?;
        if let Some(text_type) = self.text_type {
            let encoded = ffi::call(name.py(), text_type, [value])?.cast_into::<PyBytes>()?;
            let after_name = encoded.as_bytes().get(token.len()..).unwrap_or_default();
            line.truncate(token.len());
            line.extend_from_slice(after_name);
        }
        Ok(())
    }
}

/// Checks that a field line does not give a content type again, after those in `lines`.
///
/// # Errors
/// `ValueError` when it does.
pub(super) fn check_type(lines: &[u8], line: &[u8]) -> PyResult<()> {
    let mut before = lines.split(|byte| *byte == b'\n');
    match is_type(line) && before.any(is_type) {
        true => Err(type_given_twice()),
        false => Ok(()),
    }
}

fn is_type(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(CONTENT_TYPE))
}

#[cold]
fn type_given_twice() -> PyErr {
    PyValueError::new_err("the content type is given twice: leave out one")
}

/// Name and value from any iterable of two items.
fn pair<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = item.extract() {
        return Ok(pair);
    }
    let mut parts = Vec::new();
    if !item.is_instance_of::<PyString>() {
        let found = item.try_iter().map_err(no_pairs(item))?.take(3);
        parts = found.collect::<PyResult<_>>()?;
    }
    let pair = <[_; 2]>::try_from(parts);
    let pair = pair.map_err(|_| no_pairs(item)(PyTypeError::new_err(())))?;
    Ok(pair.into())
}

/// Replaces the TypeError of a value that cannot be iterated over by one that describes headers.
fn no_pairs<'a, 'py>(value: &'a Bound<'py, PyAny>) -> impl Fn(PyErr) -> PyErr + use<'a, 'py> {
    |error| {
        if !error.is_instance_of::<PyTypeError>(value.py()) {
            return error;
        }
        match value.repr() {
            Ok(shown) => PyTypeError::new_err(format!(
                "headers are a mapping, or pairs of name and value, not {shown}"
            )),
            Err(error) => error,
        }
    }
}

/// The bytes of a name; `None` for a field that only the server may set.
#[inline]
fn checked_name<'a>(name: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    let Ok(text) = name.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "a field name is a str, not {}: {}",
            name.get_type().name()?,
            name.repr()?
        )));
    };
    let token = match ffi::ascii(text) {
        Some(ascii) => ascii,
        None => text.to_str().unwrap_or_default().as_bytes(), // a derived class, or not a token
    };
    if !wire::is_field_name(token) {
        return Err(PyValueError::new_err(format!(
            "{} is not a field name: it takes letters, digits and !#$%&'*+-.^_`|~ only",
            name.repr()?
        )));
    }
    if token.eq_ignore_ascii_case(CONTENT_LENGTH) {
        return Err(PyValueError::new_err(format!(
            "a response cannot set {name}: the server counts the content itself; leave this field line out"
        )));
    }
    let mut ours = Ours::default();
    if ours.takes(token) {
        LEFT_OUT.note(name.py(), ours);
        return Ok(None);
    }
    Ok(Some(token))
}

#[inline]
fn write_line(
    lines: &mut Vec<u8>,
    name: &Bound<'_, PyAny>,
    token: &[u8],
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let Ok(text) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "the value of {name} is a str, not {}: pass str({})",
            value.get_type().name()?,
            value.repr()?
        )));
    };
    lines.extend_from_slice(token);
    lines.extend_from_slice(b": ");
    let is_written = match ffi::ascii(text) {
        Some(ascii) => write_value(lines, ascii),
        None => latin1(text).is_some_and(|bytes| write_value(lines, &bytes)),
    };
    if !is_written {
        return Err(PyValueError::new_err(format!(
            "the value of {name} has a control character, or one beyond latin-1: percent-encode it ({})",
            value.repr()?
        )));
    }
    lines.extend_from_slice(b"\r\n");
    Ok(())
}

/// Returns false if the value cannot be sent.
#[inline]
fn write_value(lines: &mut Vec<u8>, value: &[u8]) -> bool {
    let may_be_sent = wire::is_field_value(value);
    if may_be_sent {
        lines.extend_from_slice(wire::trim_ows(value));
    }
    may_be_sent
}

/// None for a character that Latin-1 does not have.
fn latin1(text: &Bound<'_, PyString>) -> Option<Vec<u8>> {
    let text = text.to_str().ok()?;
    text.chars().map(|char| u8::try_from(char).ok()).collect()
}
