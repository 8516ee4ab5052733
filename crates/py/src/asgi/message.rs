//! What an application sends: `http.response.start` and `http.response.body`.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::{Fields, Replaced, Response};

use crate::ffi::{self, Place};
use crate::run::left_out::Ours;

/// A message from the application.
pub(crate) enum Message<'py> {
    Start(Start<'py>),
    Body {
        body: Option<Bound<'py, PyBytes>>,
        more: bool,
    },
    /// One of an extension.
    Extension(Extension, Bound<'py, PyDict>),
}

/// The messages beyond start and body (asgiref, "Extensions").
#[derive(Clone, Copy)]
pub(crate) enum Extension {
    EarlyHint,
    PathSend,
    ZeroCopySend,
    Trailers,
}

/// `http.response.start`, not read yet.
pub(crate) struct Start<'py> {
    pub(super) status: Option<Bound<'py, PyAny>>,
    pub(super) headers: Option<Bound<'py, PyAny>>,
    pub(super) trailers: Option<Bound<'py, PyAny>>,
}

/// What a message is.
#[derive(Clone, Copy)]
enum Kind {
    Start,
    Body,
    Extension(Extension),
}

/// The types of the last start and the last body: a literal of a program is the same object each time.
static LAST_START: Place<PyString> = Place::new();
static LAST_BODY: Place<PyString> = Place::new();

impl Kind {
    /// The kind of message that a type stands for, if it is one of the protocol's.
    #[inline]
    fn of(kind: &Bound<'_, PyAny>) -> Option<Kind> {
        let is = |last: &Place<PyString>| {
            last.look(kind.py(), |last| last.is_some_and(|last| kind.is(last)))
        };
        if is(&LAST_BODY) {
            return Some(Kind::Body);
        }
        if is(&LAST_START) {
            return Some(Kind::Start);
        }
        Kind::of_text(kind.cast().ok()?)
    }

    #[inline(never)]
    fn of_text(kind: &Bound<'_, PyString>) -> Option<Kind> {
        let (found, last) = match ffi::ascii(kind)? {
            b"http.response.body" => (Kind::Body, &LAST_BODY),
            b"http.response.start" => (Kind::Start, &LAST_START),
            b"http.response.early_hint" => return Some(Kind::Extension(Extension::EarlyHint)),
            b"http.response.pathsend" => return Some(Kind::Extension(Extension::PathSend)),
            b"http.response.zerocopysend" => {
                return Some(Kind::Extension(Extension::ZeroCopySend));
            }
            b"http.response.trailers" => return Some(Kind::Extension(Extension::Trailers)),
            _ => return None,
        };
        drop(last.put(kind.clone()));
        Some(found)
    }
}

/// The entries of a message that are used, in the order of [`KEYS`].
#[derive(Default)]
struct Entries<'py> {
    kind: Option<Bound<'py, PyAny>>,
    body: Option<Bound<'py, PyAny>>,
    more_body: Option<Bound<'py, PyAny>>,
    status: Option<Bound<'py, PyAny>>,
    headers: Option<Bound<'py, PyAny>>,
    trailers: Option<Bound<'py, PyAny>>,
}

const KEYS: [&str; 6] = ["type", "body", "more_body", "status", "headers", "trailers"];

/// The keys as interned strings. String literals in a program are the same objects.
static WORDS: PyOnceLock<[Py<PyString>; KEYS.len()]> = PyOnceLock::new();

impl<'py> Entries<'py> {
    fn of(message: &Bound<'py, PyDict>) -> Entries<'py> {
        let py = message.py();
        let words = WORDS.get_or_init(py, || KEYS.map(|key| PyString::intern(py, key).unbind()));
        let mut entries = Entries::default();
        let mut position = 0;
        for _ in 0..message.len() {
            let entry = ffi::next_entry_among(message, &mut position, words.each_ref());
            let Some((key, value)) = entry else {
                break;
            };
            let index = match key {
                ffi::Key::Known(index) => Some(index),
                ffi::Key::Other(key) => index_of_text(&key),
            };
            if let Some(place) = index.and_then(|index| entries.place(index)) {
                *place = Some(value);
            }
        }
        entries
    }

    #[inline]
    fn place(&mut self, index: usize) -> Option<&mut Option<Bound<'py, PyAny>>> {
        match index {
            0 => Some(&mut self.kind),
            1 => Some(&mut self.body),
            2 => Some(&mut self.more_body),
            3 => Some(&mut self.status),
            4 => Some(&mut self.headers),
            5 => Some(&mut self.trailers),
            _ => None,
        }
    }

    fn body(self) -> PyResult<Message<'py>> {
        Ok(Message::Body {
            body: self.body.map(bytes_of).transpose()?,
            more: match self.more_body {
                Some(more) => more.is_truthy()?,
                None => false,
            },
        })
    }

    fn start(self) -> Message<'py> {
        Message::Start(Start {
            status: self.status,
            headers: self.headers,
            trailers: self.trailers,
        })
    }

    #[cold]
    fn unknown(&self) -> PyErr {
        let kind = self.kind.as_ref().and_then(|kind| kind.cast().ok());
        let Some(kind): Option<&Bound<'_, PyString>> = kind else {
            return PyTypeError::new_err("send(): the message has no type");
        };
        PyRuntimeError::new_err(format!(
            "send(): {:?} is not a message of this protocol",
            kind.to_string_lossy()
        ))
    }
}

/// Which key has this text. Literals in a program are interned, so this is rarely needed.
#[cold]
fn index_of_text(key: &Bound<'_, PyAny>) -> Option<usize> {
    let text = ffi::ascii(key.cast::<PyString>().ok()?)?;
    KEYS.iter().position(|key| key.as_bytes() == text)
}

impl<'py> Message<'py> {
    /// Reads a message. Of a start, only the type is read: see [`Start::read`].
    ///
    /// # Errors
    /// `TypeError` or `RuntimeError` with a description.
    pub(crate) fn read(message: &Bound<'py, PyAny>) -> PyResult<Message<'py>> {
        let message = message
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("send() takes a dict"))?;
        let entries = Entries::of(message);
        match entries.kind.as_ref().and_then(Kind::of) {
            Some(Kind::Body) => entries.body(),
            Some(Kind::Start) => Ok(entries.start()),
            Some(Kind::Extension(kind)) => Ok(Message::Extension(kind, message.clone())),
            None => Err(entries.unknown()),
        }
    }
}

impl Message<'_> {
    /// Whether it is content of which more is announced.
    pub(crate) fn continues(&self) -> bool {
        match self {
            Message::Body { more, .. } => *more,
            Message::Extension(kind, _) => matches!(kind, Extension::ZeroCopySend),
            Message::Start(_) => false,
        }
    }
}

/// The bytes of a body: none for `None`, as uvicorn takes it in a chunked response. Other objects are copied, since the application may
/// change what it has sent.
pub(super) fn bytes_of(body: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyBytes>> {
    let body = match body.cast_into_exact::<PyBytes>() {
        Ok(bytes) => return Ok(bytes),
        Err(other) => other.into_inner(),
    };
    if body.is_none() {
        return Ok(PyBytes::new(body.py(), b""));
    }
    let buffer = pyo3::buffer::PyBuffer::<u8>::get(&body)
        .map_err(|_| PyTypeError::new_err("send(): the body is a byte string"))?;
    PyBytes::new_with(body.py(), buffer.len_bytes(), |bytes| {
        buffer.copy_to_slice(body.py(), bytes)
    })
}

impl Start<'_> {
    /// Reads it into `head`, which is empty.
    ///
    /// # Errors
    /// `TypeError` or `ValueError` with a description.
    pub(crate) fn read(&self, head: &mut Head) -> PyResult<()> {
        let status = self.status.as_ref();
        let status: Option<u16> = status.and_then(|status| status.extract().ok());
        let Some(status) = status.filter(|status| (200..=599).contains(status)) else {
            return Err(PyValueError::new_err(
                "send(): the status of http.response.start is an int from 200 to 599",
            ));
        };
        head.response.status = status;
        if let Some(trailers) = &self.trailers {
            head.has_trailers = trailers.is_truthy()?;
        }
        match &self.headers {
            Some(headers) => for_each_header(headers, |name, value| push_header(head, name, value)),
            None => Ok(()),
        }
    }
}

/// The head of a response.
#[derive(Default)]
pub(crate) struct Head {
    pub(crate) response: Response,
    /// A trailer section follows the content.
    pub(crate) has_trailers: bool,
    replaced: Replaced,
    /// Fields that were left out.
    pub(crate) ours: Ours,
}

impl Head {
    pub(crate) fn clear(&mut self) {
        self.response.clear();
        self.has_trailers = false;
        self.replaced = Replaced::default();
        self.ours = Ours::default();
    }

    /// The field lines for a [`server::Responder`].
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields::that_replace(&self.response.fields, self.replaced)
    }
}

/// Calls `take` with each header of an iterable of pairs, after checking that its name and value may be sent.
///
/// # Errors
/// `TypeError` or `ValueError` with a description; any error of `take`.
pub(crate) fn for_each_header(
    headers: &Bound<'_, PyAny>,
    mut take: impl FnMut(&[u8], &[u8]) -> PyResult<()>,
) -> PyResult<()> {
    if let Ok(list) = headers.cast_exact::<PyList>() {
        return list.iter().try_for_each(|pair| read_pair(&pair, &mut take));
    }
    for pair in headers.try_iter()? {
        read_pair(&pair?, &mut take)?;
    }
    Ok(())
}

fn read_pair(
    pair: &Bound<'_, PyAny>,
    take: &mut impl FnMut(&[u8], &[u8]) -> PyResult<()>,
) -> PyResult<()> {
    if let Ok(pair) = pair.cast_exact::<PyTuple>()
        && pair.len() == 2
    {
        return read_header(&pair.get_item(0)?, &pair.get_item(1)?, take);
    }
    if let Ok(pair) = pair.cast_exact::<PyList>()
        && pair.len() == 2
    {
        return read_header(&pair.get_item(0)?, &pair.get_item(1)?, take);
    }
    let mut items = pair.try_iter()?;
    let (Some(name), Some(value), None) = (items.next(), items.next(), items.next()) else {
        return Err(PyTypeError::new_err(
            "send(): a header is a pair of byte strings, name and value",
        ));
    };
    read_header(&name?, &value?, take)
}

fn read_header(
    name: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    take: &mut impl FnMut(&[u8], &[u8]) -> PyResult<()>,
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
    take(name, value)
}

/// Appends an encoded field line.
pub(crate) fn push_line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    lines.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

fn push_header(head: &mut Head, name: &[u8], value: &[u8]) -> PyResult<()> {
    if name.eq_ignore_ascii_case(b"content-length") {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(value).ok().filter(|_| is_number);
        let Some(length) = text.and_then(|text| text.parse().ok()) else {
            return Err(PyValueError::new_err(
                "send(): content-length is not a number",
            ));
        };
        if head
            .response
            .length
            .is_some_and(|announced| announced != length)
        {
            return Err(PyValueError::new_err(
                "send(): two headers give different content-lengths",
            ));
        }
        head.response.length = Some(length);
        return Ok(());
    }
    if head.ours.takes(name) {
        return Ok(());
    }
    head.replaced.note(name);
    push_line(&mut head.response.fields, name, value);
    Ok(())
}
