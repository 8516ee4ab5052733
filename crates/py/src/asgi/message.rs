//! What an application sends: `http.response.start` and `http.response.body`.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::Response;

/// A message of the application's.
pub(crate) enum Message<'py> {
    Start(Response),
    Body {
        body: Option<Bound<'py, PyAny>>,
        more: bool,
    },
}

/// Fields that frame a message or manage a connection: the server's to set (RFC 9110 section 7.6.1).
const OURS: [&[u8]; 5] = [
    b"transfer-encoding",
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"upgrade",
];

impl<'py> Message<'py> {
    /// Reads a message.
    ///
    /// # Errors
    /// `TypeError`, `ValueError` or `RuntimeError`, with what is wrong about it.
    pub(crate) fn read(message: &Bound<'py, PyAny>) -> PyResult<Message<'py>> {
        let py = message.py();
        let message = message
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("send() takes a dict"))?;
        let kind = message.get_item(pyo3::intern!(py, "type"))?;
        let kind = kind.as_ref().and_then(|kind| kind.cast::<PyString>().ok());
        match kind.map(|kind| kind.to_str()).transpose()? {
            Some("http.response.body") => Message::body(message),
            Some("http.response.start") => Message::start(message),
            Some(other) => Err(PyRuntimeError::new_err(format!(
                "send(): {other:?} is no message of this protocol"
            ))),
            None => Err(PyTypeError::new_err("send(): the message has no type")),
        }
    }

    fn body(message: &Bound<'py, PyDict>) -> PyResult<Message<'py>> {
        let py = message.py();
        let more = match message.get_item(pyo3::intern!(py, "more_body"))? {
            Some(more) => more.is_truthy()?,
            None => false,
        };
        let body = message.get_item(pyo3::intern!(py, "body"))?;
        Ok(Message::Body { body, more })
    }

    fn start(message: &Bound<'py, PyDict>) -> PyResult<Message<'py>> {
        let py = message.py();
        let status = message.get_item(pyo3::intern!(py, "status"))?;
        let status: Option<u16> = status.as_ref().and_then(|status| status.extract().ok());
        let Some(status) = status.filter(|status| (200..=599).contains(status)) else {
            return Err(PyValueError::new_err(
                "send(): the status of http.response.start is an int from 200 to 599",
            ));
        };
        let mut response = Response {
            status,
            ..Response::default()
        };
        if let Some(headers) = message.get_item(pyo3::intern!(py, "headers"))? {
            push_headers(&mut response, &headers)?;
        }
        Ok(Message::Start(response))
    }
}

fn push_headers(response: &mut Response, headers: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(list) = headers.cast_exact::<PyList>() {
        return list.iter().try_for_each(|pair| push_pair(response, &pair));
    }
    for pair in headers.try_iter()? {
        push_pair(response, &pair?)?;
    }
    Ok(())
}

fn push_pair(response: &mut Response, pair: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(pair) = pair.cast_exact::<PyTuple>()
        && pair.len() == 2
    {
        return push_header(response, &pair.get_item(0)?, &pair.get_item(1)?);
    }
    let mut items = pair.try_iter()?;
    let (Some(name), Some(value), None) = (items.next(), items.next(), items.next()) else {
        return Err(PyTypeError::new_err(
            "send(): a header is a pair of byte strings, name and value",
        ));
    };
    push_header(response, &name?, &value?)
}

fn push_header(
    response: &mut Response,
    name: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (Ok(name), Ok(value)) = (name.cast::<PyBytes>(), value.cast::<PyBytes>()) else {
        return Err(PyTypeError::new_err(
            "send(): the name and the value of a header are byte strings",
        ));
    };
    let (name, value) = (name.as_bytes(), value.as_bytes());
    if !wire::is_field_name(name) || !wire::is_field_value(value) {
        return Err(PyValueError::new_err(format!(
            "send(): malformed header {}: {}",
            name.escape_ascii(),
            value.escape_ascii()
        )));
    }
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        let Some(length) = length else {
            return Err(PyValueError::new_err("send(): content-length is no number"));
        };
        response.length = Some(length);
        return Ok(());
    }
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Ok(());
    }
    response.fields.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        response.fields.extend_from_slice(part);
    }
    Ok(())
}
