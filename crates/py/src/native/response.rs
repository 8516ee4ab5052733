//! Converts the return values of handlers into responses.

mod class;
mod field;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use server::{Fields, Replaced};

use crate::ffi;
use crate::run::failure::TEXT;
use crate::run::memory::copy;
use class::Helpers;
pub(crate) use class::{Response, complete_response};
pub(crate) use field::field_line;

const OCTETS: &[u8] = b"Content-Type: application/octet-stream\r\n";
const JSON: &[u8] = b"Content-Type: application/json\r\n";
/// The final status codes a response may have (RFC 9110 section 15).
const STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// Complete content of a response, borrowed from Python rather than copied.
pub(crate) enum Body<'py> {
    Empty,
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
}

/// The field lines of a response.
pub(crate) enum Lines<'py> {
    Ours(&'static [u8]),
    Applications(Bound<'py, PyBytes>, Replaced),
}

/// Where the content of a response comes from.
pub(crate) enum Source<'py> {
    Whole(Body<'py>),
    Iterator(Bound<'py, PyAny>),
    AsyncIterator(Bound<'py, PyAny>),
}

/// The response that a handler's return value stands for.
pub(crate) struct HandlerResponse<'py> {
    pub(crate) status: u16,
    pub(crate) lines: Lines<'py>,
    pub(crate) source: Source<'py>,
}

impl Body<'_> {
    pub(crate) fn as_bytes(&self) -> PyResult<&[u8]> {
        Ok(match self {
            Body::Empty => b"",
            Body::Text(text) => text.to_str()?.as_bytes(),
            Body::Bytes(bytes) => bytes.as_bytes(),
        })
    }
}

impl Lines<'_> {
    pub(crate) fn fields(&self) -> Fields<'_> {
        match self {
            Lines::Ours(lines) => Fields::constant(lines),
            Lines::Applications(lines, replaced) => {
                Fields::that_replace(lines.as_bytes(), *replaced)
            }
        }
    }
}

impl HandlerResponse<'_> {
    /// An owned copy, for the mailbox. The content of a streamed response follows later.
    pub(crate) fn to_owned_response(&self) -> PyResult<server::Response> {
        let content = match &self.source {
            Source::Whole(body) => copy(body.as_bytes()?)?,
            _ => Vec::new(),
        };
        Ok(server::Response {
            status: self.status,
            reason: Vec::new(),
            fields: self.lines.fields().lines.to_vec(),
            content,
            length: None,
            waited_ms: 0,
        })
    }
}

/// Converts a return value.
///
/// # Errors
/// `TypeError` for a value that is not a response; any error of the JSON encoder.
#[inline]
pub(crate) fn convert<'py>(value: &Bound<'py, PyAny>) -> PyResult<HandlerResponse<'py>> {
    if let Ok(text) = value.cast_exact::<PyString>() {
        let source = Source::Whole(Body::Text(text.clone()));
        return Ok(HandlerResponse {
            status: 200,
            lines: Lines::Ours(TEXT),
            source,
        });
    }
    if value.is_exact_instance_of::<PyDict>() || value.is_exact_instance_of::<PyList>() {
        return json(value);
    }
    others(value)
}

#[inline]
fn json<'py>(value: &Bound<'py, PyAny>) -> PyResult<HandlerResponse<'py>> {
    let encoded = Helpers::get(value.py())?.json(value)?;
    Ok(HandlerResponse {
        status: 200,
        lines: Lines::Ours(JSON),
        source: Source::Whole(Body::Bytes(encoded)),
    })
}

fn others<'py>(value: &Bound<'py, PyAny>) -> PyResult<HandlerResponse<'py>> {
    if let Ok(response) = value.cast::<Response>() {
        return of_response(response);
    }
    if let Ok(pair) = value.cast::<PyTuple>() {
        return of_pair(pair);
    }
    if value.is_none() {
        return Ok(HandlerResponse {
            status: 204,
            lines: Lines::Ours(b""),
            source: Source::Whole(Body::Empty),
        });
    }
    if value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() {
        return json(value);
    }
    let is_text = value.is_instance_of::<PyString>();
    let source = source(value)?;
    let lines = if is_text { TEXT } else { OCTETS };
    Ok(HandlerResponse {
        status: 200,
        lines: Lines::Ours(lines),
        source,
    })
}

fn of_response<'py>(response: &Bound<'py, Response>) -> PyResult<HandlerResponse<'py>> {
    let parts = Response::parts(response)?;
    let status = parts.status.extract().ok();
    let Some(status) = status.filter(|code| STATUSES.contains(code)) else {
        return Err(PyValueError::new_err(format!(
            "a response's status is 200 to 599, not {}",
            parts.status.repr()?
        )));
    };
    let source = match parts.body {
        None => Source::Whole(Body::Empty),
        Some(body) => source(&body)?,
    };
    Ok(HandlerResponse {
        status,
        lines: parts.lines,
        source,
    })
}

fn of_pair<'py>(pair: &Bound<'py, PyTuple>) -> PyResult<HandlerResponse<'py>> {
    let (value, status): (Bound<'py, PyAny>, u16) =
        pair.extract().map_err(|_| pair_mistake(pair))?;
    if !STATUSES.contains(&status) || value.is_instance_of::<PyTuple>() {
        return Err(pair_mistake(pair));
    }
    let response = convert(&value)?;
    Ok(HandlerResponse { status, ..response })
}

/// Other frameworks take header fields in the tuple too.
#[cold]
fn pair_mistake(pair: &Bound<'_, PyTuple>) -> PyErr {
    let has_fields = pair
        .iter()
        .next_back()
        .is_some_and(|last| last.is_instance_of::<PyDict>() || last.is_instance_of::<PyList>());
    let hint = match has_fields {
        true => "; to set header fields, return Response(body, status, headers)",
        false => "",
    };
    PyTypeError::new_err(format!(
        "a handler's tuple must be (value, status), with a status from 200 to 599{hint}"
    ))
}

fn source<'py>(value: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Source::Whole(Body::Bytes(bytes.clone())));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Source::Whole(Body::Text(text.clone())));
    }
    if ffi::is_iterator(value) {
        return Ok(Source::Iterator(value.clone()));
    }
    let py = value.py();
    if value.hasattr(pyo3::intern!(py, "__anext__"))? {
        return Ok(Source::AsyncIterator(value.clone()));
    }
    if value.hasattr(pyo3::intern!(py, "__aiter__"))? {
        return Ok(Source::AsyncIterator(
            value.call_method0(pyo3::intern!(py, "__aiter__"))?,
        ));
    }
    let kind = value.get_type().name()?;
    if kind == "coroutine" {
        return Err(PyTypeError::new_err(
            "a handler returned coroutine; an await is missing, for example `return await work()`",
        ));
    }
    let remedy = match is_json_value(value)? {
        true => "; use Response(json=...) to send it as JSON",
        false => "",
    };
    Err(PyTypeError::new_err(format!(
        "a handler returned {kind}; it may return str, bytes, dict, list, Response, (value, status), None, or an iterator of str or bytes{remedy}"
    )))
}

/// Whether `Response(json=...)` takes a value that a handler may not return: a number, or an instance of a dataclass, of a `msgspec.Struct` or
/// of a class of attrs.
#[cold]
fn is_json_value(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(true); // A bool is an int.
    }
    let kind = value.get_type();
    for mark in [
        "__dataclass_fields__",
        "__struct_fields__",
        "__attrs_attrs__",
    ] {
        if kind.hasattr(mark)? {
            return Ok(true);
        }
    }
    Ok(false)
}
