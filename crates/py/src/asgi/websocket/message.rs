//! What an application sends: events of the protocol "websocket".

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use server::{CloseCode, Opening};

use super::super::message::{for_each_header, push_line};
use crate::ffi::{self, Key, Place};
use crate::run::left_out::Ours;
use crate::run::websocket::is_of_handshake;

/// An event.
pub(super) enum Event<'py> {
    Send(Data<'py>),
    Accept,
    Close,
    DenialStart,
    DenialBody,
}

/// The content of a message.
pub(super) enum Data<'py> {
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyAny>),
}

/// The type of the last message that was sent: a literal of a program is the same object each time.
static LAST_SEND: Place<PyString> = Place::new();

const KEYS: [&str; 3] = ["type", "text", "bytes"];

/// The keys as interned strings. String literals in a program are the same objects.
static WORDS: PyOnceLock<[Py<PyString>; KEYS.len()]> = PyOnceLock::new();

/// Reads an event. Of all but `websocket.send`, only the type is read.
///
/// # Errors
/// `TypeError`, `ValueError` or `RuntimeError` with a description.
#[inline]
pub(super) fn read<'py>(message: &Bound<'py, PyDict>) -> PyResult<Event<'py>> {
    let py = message.py();
    let words = WORDS.get_or_init(py, || KEYS.map(|key| PyString::intern(py, key).unbind()));
    let mut entries: [Option<Bound<'py, PyAny>>; KEYS.len()] = [None, None, None];
    let mut position = 0;
    for _ in 0..message.len() {
        let Some((key, value)) = ffi::next_entry_among(message, &mut position, words.each_ref())
        else {
            break;
        };
        let index = match key {
            Key::Known(index) => Some(index),
            Key::Other(key) => index_of_text(&key),
        };
        if let Some(place) = index.and_then(|index| entries.get_mut(index))
            && !value.is_none()
        {
            *place = Some(value);
        }
    }
    let [kind, text, bytes] = entries;
    let Some(kind) = kind else {
        return Err(PyTypeError::new_err("send(): the message has no type"));
    };
    let is_send = LAST_SEND.look(py, |last| last.is_some_and(|last| kind.is(last)));
    if is_send {
        return data(text, bytes).map(Event::Send);
    }
    other(&kind, text, bytes)
}

/// Which key has this text. Literals in a program are interned, so this is rarely needed.
#[cold]
fn index_of_text(key: &Bound<'_, PyAny>) -> Option<usize> {
    let text = ffi::ascii(key.cast::<PyString>().ok()?)?;
    KEYS.iter().position(|key| key.as_bytes() == text)
}

#[cold]
fn other<'py>(
    kind: &Bound<'py, PyAny>,
    text: Option<Bound<'py, PyAny>>,
    bytes: Option<Bound<'py, PyAny>>,
) -> PyResult<Event<'py>> {
    let Ok(kind) = kind.cast::<PyString>() else {
        return Err(PyTypeError::new_err(
            "send(): the type of the message is a str",
        ));
    };
    Ok(match ffi::ascii(kind).unwrap_or_default() {
        b"websocket.send" => {
            drop(LAST_SEND.put(kind.clone()));
            Event::Send(data(text, bytes)?)
        }
        b"websocket.accept" => Event::Accept,
        b"websocket.close" => Event::Close,
        b"websocket.http.response.start" => Event::DenialStart,
        b"websocket.http.response.body" => Event::DenialBody,
        _ => {
            return Err(PyRuntimeError::new_err(format!(
                "send(): {:?} is not a message of this protocol",
                kind.to_string_lossy()
            )));
        }
    })
}

#[inline]
fn data<'py>(
    text: Option<Bound<'py, PyAny>>,
    bytes: Option<Bound<'py, PyAny>>,
) -> PyResult<Data<'py>> {
    match (text, bytes) {
        (Some(text), None) => Ok(Data::Text(text.cast_into().map_err(|_| {
            PyTypeError::new_err("send(): the text of websocket.send is a str")
        })?)),
        (None, Some(bytes)) => Ok(Data::Bytes(bytes)),
        _ => Err(PyValueError::new_err(
            "send(): websocket.send has either text or bytes, and the other one is None or missing",
        )),
    }
}

/// What an application accepts a handshake with.
#[derive(Default)]
pub(super) struct Acceptance {
    pub(super) opening: Opening,
    /// Fields that were left out.
    pub(super) ours: Ours,
    /// A subprotocol that was left out, because the client does not offer it: RFC 6455 4.2.2 does not allow it, and clients that check it would
    /// fail the connection.
    pub(super) unoffered: Option<String>,
}

/// Reads `websocket.accept`; `offered` are the client's subprotocols.
///
/// # Errors
/// `TypeError` or `ValueError` with a description.
pub(super) fn read_accept(
    message: &Bound<'_, PyDict>,
    offered: &[Vec<u8>],
) -> PyResult<Acceptance> {
    let mut acceptance = Acceptance::default();
    if let Some(name) = given(message, "subprotocol")? {
        let name: String = name
            .extract()
            .map_err(|_| PyTypeError::new_err("send(): the subprotocol is a str"))?;
        acceptance.choose(name.as_bytes(), offered)?;
    }
    if let Some(headers) = given(message, "headers")? {
        for_each_header(&headers, |name, value| {
            if name.eq_ignore_ascii_case(b"sec-websocket-protocol") {
                return acceptance.choose(value, offered);
            }
            if is_of_handshake(name) {
                return Err(PyValueError::new_err(format!(
                    "send(): the server sets {} itself",
                    name.escape_ascii()
                )));
            }
            if !acceptance.ours.takes(name) && !name.eq_ignore_ascii_case(b"content-length") {
                push_line(&mut acceptance.opening.fields, name, value);
            }
            Ok(())
        })?;
    }
    Ok(acceptance)
}

impl Acceptance {
    /// Chooses the subprotocol: with its key, or with its header as under uvicorn.
    fn choose(&mut self, name: &[u8], offered: &[Vec<u8>]) -> PyResult<()> {
        if !offered.iter().any(|own| own == name) {
            self.unoffered = Some(String::from_utf8_lossy(name).into_owned());
            return Ok(());
        }
        let chosen = self.opening.subprotocol.as_deref();
        if chosen.is_some_and(|chosen| chosen != name) {
            return Err(PyValueError::new_err(
                "send(): a WebSocket has one subprotocol",
            ));
        }
        self.opening.subprotocol = Some(name.to_vec());
        Ok(())
    }
}

/// Reads `websocket.close`: the code and the reason.
///
/// # Errors
/// `TypeError` or `ValueError` with a description.
pub(super) fn read_close<'py>(
    message: &Bound<'py, PyDict>,
) -> PyResult<(u16, Option<Bound<'py, PyString>>)> {
    let code = match given(message, "code")? {
        Some(code) => code
            .extract()
            .ok()
            .filter(|code| CloseCode(*code).is_sendable()),
        None => Some(CloseCode::NORMAL.0),
    };
    let Some(code) = code else {
        return Err(PyValueError::new_err(
            "send(): the code of websocket.close is 1000 to 1003, 1007 to 1014 or 3000 to 4999",
        ));
    };
    let reason =
        match given(message, "reason")? {
            Some(reason) => Some(reason.cast_into().map_err(|_| {
                PyTypeError::new_err("send(): the reason of websocket.close is a str")
            })?),
            None => None,
        };
    Ok((code, reason))
}

/// The value of a key that is not None.
pub(super) fn given<'py>(
    message: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(message.get_item(key)?.filter(|value| !value.is_none()))
}
