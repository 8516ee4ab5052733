//! `Response`: what a handler returns when a plain value is not enough.
//!
//! The common arguments are handled here. Python code handles the rest and derives the public class.

use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyTuple, PyType};

use server::{Fields, Replaced};

use super::field::{check_type, field_line, field_lines};
use super::{JSON, Lines, OCTETS, STATUSES};
use crate::ffi::{self, Arguments, Construction};
use crate::run::failure::TEXT;

const STATUS: u16 = 200;

/// The base class of `bolide.Response`.
#[pyclass(name = "Response", module = "bolide._core", subclass)]
pub(crate) struct Response {
    /// None before it is initialized.
    status: Option<Py<PyAny>>,
    /// A str is text, and is encoded when it is first read.
    body: Option<Py<PyAny>>,
    lines: FieldLines,
}

/// What is to be sent, not yet checked.
pub(super) struct Parts<'py> {
    pub(super) status: Bound<'py, PyAny>,
    pub(super) body: Option<Bound<'py, PyAny>>,
    pub(super) lines: Lines<'py>,
}

enum FieldLines {
    Ours(&'static [u8]),
    Own(Py<PyBytes>, Replaced),
}

/// The public class, and the Python functions for less common arguments.
pub(super) struct Helpers {
    kind: Py<PyType>,
    json_encode: Py<PyAny>,
    sendable: Py<PyAny>,
    header_pairs: Py<PyAny>,
    content_type_line: Py<PyAny>,
    text_type_line: Py<PyAny>,
    checked_status: Py<PyAny>,
    refuse_keywords: Py<PyAny>,
}

static HELPERS: PyOnceLock<Helpers> = PyOnceLock::new();

/// The arguments of the constructor; None for those that were not passed.
#[derive(Default)]
struct Given<'a, 'py> {
    body: Option<&'a Bound<'py, PyAny>>,
    status: Option<&'a Bound<'py, PyAny>>,
    headers: Option<&'a Bound<'py, PyAny>>,
    content_type: Option<&'a Bound<'py, PyAny>>,
    text: Option<&'a Bound<'py, PyAny>>,
    json: Option<&'a Bound<'py, PyAny>>,
}

/// An argument for which None is a value; `Passed(None)` when it was not passed.
pub(crate) struct Passed<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Passed<'py> {
    type Error = std::convert::Infallible;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(Passed(Some(value.to_owned())))
    }
}

/// Sets the public class, which is then constructed directly, and its helper functions; those of the first call are kept.
#[pyfunction]
#[pyo3(signature = (kind, *, json_encode, sendable, header_pairs, content_type_line, text_type_line, checked_status, refuse_keywords))]
#[allow(
    clippy::too_many_arguments,
    reason = "keywords of one call, named on both sides"
)]
pub(crate) fn complete_response(
    kind: &Bound<'_, PyType>,
    json_encode: Py<PyAny>,
    sendable: Py<PyAny>,
    header_pairs: Py<PyAny>,
    content_type_line: Py<PyAny>,
    text_type_line: Py<PyAny>,
    checked_status: Py<PyAny>,
    refuse_keywords: Py<PyAny>,
) -> PyResult<()> {
    ffi::construct_directly::<Response>(kind)?;
    HELPERS.get_or_init(kind.py(), || Helpers {
        kind: kind.clone().unbind(),
        json_encode,
        sendable,
        header_pairs,
        content_type_line,
        text_type_line,
        checked_status,
        refuse_keywords,
    });
    Ok(())
}

impl Helpers {
    pub(super) fn get(py: Python<'_>) -> PyResult<&Helpers> {
        HELPERS
            .get(py)
            .ok_or_else(|| PyRuntimeError::new_err("bolide.web is not imported"))
    }

    pub(super) fn json<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(ffi::call(value.py(), &self.json_encode, [value])?.cast_into()?)
    }
}

impl<'a, 'py> Given<'a, 'py> {
    /// None for a call that does not fit the signature.
    #[inline]
    fn read(arguments: &Arguments<'a, 'py>) -> Option<Given<'a, 'py>> {
        let mut given = Given::default();
        let named = arguments.names.map_or(0, |names| names.len());
        let (positional, named) =
            (arguments.all).split_at_checked(arguments.all.len().checked_sub(named)?)?;
        let mut values = positional.iter();
        given.body = values.next();
        given.status = values.next();
        given.headers = values.next();
        given.content_type = values.next();
        if values.next().is_some() {
            return None;
        }
        for (name, value) in arguments.names.into_iter().flatten().zip(named) {
            if given.place(&name)?.replace(value).is_some() {
                return None;
            }
        }
        Some(given)
    }

    #[inline]
    fn place(&mut self, name: &Bound<'py, PyAny>) -> Option<&mut Option<&'a Bound<'py, PyAny>>> {
        Some(match ffi::ascii(name.cast().ok()?)? {
            b"text" => &mut self.text,
            b"headers" => &mut self.headers,
            b"status" => &mut self.status,
            b"body" => &mut self.body,
            b"json" => &mut self.json,
            b"content_type" => &mut self.content_type,
            _ => return None,
        })
    }

    /// The content and the line of its type. A str as the body is text.
    #[inline]
    fn content(&mut self, py: Python<'py>) -> PyResult<(Option<Py<PyAny>>, &'static [u8])> {
        let mut body = self.body.filter(|body| !body.is_none());
        self.text = self.text.filter(|text| !text.is_none());
        if self.text.is_none()
            && let Some(text) = body.take_if(|body| body.is_exact_instance_of::<PyString>())
        {
            self.text = Some(text);
        }
        match (body, self.text, self.json) {
            (None, None, None) => Ok((None, b"")),
            (None, Some(text), None) => {
                let Ok(value) = text.cast::<PyString>() else {
                    return Err(PyTypeError::new_err(format!(
                        "text is a str, not {}; json= takes other values",
                        text.get_type().name()?
                    )));
                };
                value.to_str()?;
                Ok((Some(text.clone().unbind()), TEXT))
            }
            (None, None, Some(json)) => {
                let encoded = Helpers::get(py)?.json(json)?;
                Ok((Some(encoded.into_any().unbind()), JSON))
            }
            (Some(body), None, None) if body.is_instance_of::<PyBytes>() => {
                Ok((Some(body.clone().unbind()), OCTETS))
            }
            (Some(body), None, None) => {
                let sendable = ffi::call(py, &Helpers::get(py)?.sendable, [body])?;
                Ok((Some(sendable.unbind()), OCTETS))
            }
            _ => Err(PyTypeError::new_err(
                "Response takes one of body, text and json, not two",
            )),
        }
    }

    /// The field lines, starting with the content type.
    #[inline]
    fn lines(&self, py: Python<'py>, type_line: &'static [u8]) -> PyResult<FieldLines> {
        let given_type = match self.content_type.filter(|line| !line.is_none()) {
            None => None,
            Some(content_type) => {
                let helpers = Helpers::get(py)?;
                let encode = match self.text {
                    Some(_) => &helpers.text_type_line,
                    None => &helpers.content_type_line,
                };
                Some(ffi::call(py, encode, [content_type])?.cast_into::<PyBytes>()?)
            }
        };
        let headers = match self.headers {
            Some(headers) if headers.is_truthy()? => Some(headers),
            _ => None,
        };
        let Some(headers) = headers else {
            return Ok(given_type.map_or(FieldLines::Ours(type_line), |line| {
                FieldLines::Own(line.unbind(), Replaced::default())
            }));
        };
        let type_bytes = given_type
            .as_ref()
            .map_or(type_line, |line| line.as_bytes());
        let helpers = Helpers::get(py)?;
        let text_type = self.text.map(|_| &helpers.text_type_line);
        let lines = if headers.is_exact_instance_of::<PyDict>() {
            field_lines(headers, type_bytes, given_type.is_some(), text_type)
        } else {
            let pairs = ffi::call(py, &helpers.header_pairs, [headers])?;
            field_lines(&pairs, type_bytes, given_type.is_some(), text_type)
        };
        let (lines, replaced) = lines?;
        Ok(FieldLines::Own(lines.unbind(), replaced))
    }

    #[inline]
    fn status(&self, py: Python<'py>) -> PyResult<Py<PyAny>> {
        let Some(status) = self.status else {
            return Ok(STATUS.into_pyobject(py)?.into_any().unbind());
        };
        let is_plain = status.is_exact_instance_of::<PyInt>()
            && status.extract().is_ok_and(|code| STATUSES.contains(&code));
        if is_plain {
            return Ok(status.clone().unbind());
        }
        Ok(ffi::call(py, &Helpers::get(py)?.checked_status, [status])?.unbind())
    }
}

impl Construction for Response {
    #[inline]
    fn initialize(instance: &Bound<'_, Self>, arguments: &Arguments<'_, '_>) -> PyResult<bool> {
        let Some(given) = Given::read(arguments) else {
            return Ok(false);
        };
        Response::set(instance, given)?;
        Ok(true)
    }
}

impl Response {
    /// Python code may run meanwhile, and while the old values are dropped, so the response is not borrowed then.
    #[inline]
    fn set<'py>(response: &Bound<'py, Self>, mut given: Given<'_, 'py>) -> PyResult<()> {
        let py = response.py();
        let (body, type_line) = given.content(py)?;
        let made = Response {
            lines: given.lines(py, type_line)?,
            status: Some(given.status(py)?),
            body,
        };
        let old = std::mem::replace(&mut *response.try_borrow_mut()?, made);
        drop(old);
        Ok(())
    }

    /// What is to be sent. A derived class may define status and body as properties.
    pub(super) fn parts<'py>(response: &Bound<'py, Self>) -> PyResult<Parts<'py>> {
        let py = response.py();
        if !response.get_type().is(&Helpers::get(py)?.kind) {
            let body = response.getattr(intern!(py, "body"))?;
            return Ok(Parts {
                status: response.getattr(intern!(py, "status"))?,
                body: (!body.is_none()).then_some(body),
                lines: response.try_borrow()?.bound_lines(py),
            });
        }
        let response = response.try_borrow()?;
        let bound = |value: &Py<PyAny>| value.bind(py).clone();
        Ok(Parts {
            status: response
                .status
                .as_ref()
                .map(bound)
                .ok_or_else(uninitialized)?,
            body: response.body.as_ref().map(bound),
            lines: response.bound_lines(py),
        })
    }

    fn bound_lines<'py>(&self, py: Python<'py>) -> Lines<'py> {
        match &self.lines {
            FieldLines::Ours(lines) => Lines::Ours(lines),
            FieldLines::Own(lines, replaced) => {
                Lines::Applications(lines.bind(py).clone(), *replaced)
            }
        }
    }
}

#[cold]
fn uninitialized() -> PyErr {
    PyAttributeError::new_err("Response.__init__ was not called")
}

#[pymethods]
impl Response {
    #[new]
    #[pyo3(signature = (*_arguments, **_named), text_signature = "(body=None, status=200, headers=None, content_type=None, *, text=None, json=...)")]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Response {
        Response {
            status: None,
            body: None,
            lines: FieldLines::Ours(b""),
        }
    }

    /// The arguments are documented on `bolide.Response`. `others` are always a mistake.
    #[pyo3(signature = (body = None, status = Passed(None), headers = None, content_type = None, *, text = None, json = Passed(None), **others))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the same arguments as the stub names"
    )]
    fn __init__<'py>(
        response: &Bound<'py, Self>,
        body: Option<Bound<'py, PyAny>>,
        status: Passed<'py>,
        headers: Option<Bound<'py, PyAny>>,
        content_type: Option<Bound<'py, PyAny>>,
        text: Option<Bound<'py, PyAny>>,
        json: Passed<'py>,
        others: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        if let Some(others) = others {
            ffi::call(
                response.py(),
                &Helpers::get(response.py())?.refuse_keywords,
                [others.as_any()],
            )?;
        }
        let given = Given {
            body: body.as_ref(),
            status: status.0.as_ref(),
            headers: headers.as_ref(),
            content_type: content_type.as_ref(),
            text: text.as_ref(),
            json: json.0.as_ref(),
        };
        Response::set(response, given)
    }

    /// 200 to 599, which is checked when the response is sent.
    #[getter]
    fn status(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let status = self.status.as_ref().ok_or_else(uninitialized)?;
        Ok(status.clone_ref(py))
    }

    #[setter]
    fn set_status(response: &Bound<'_, Self>, status: Py<PyAny>) -> PyResult<()> {
        let old = response.try_borrow_mut()?.status.replace(status);
        drop(old);
        Ok(())
    }

    /// The content; text is returned as the bytes that are sent.
    #[getter]
    fn body(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if let Some(body) = &mut self.body
            && let Ok(text) = body.bind(py).cast::<PyString>()
        {
            *body = PyBytes::new(py, text.to_str()?.as_bytes())
                .into_any()
                .unbind();
        }
        Ok(self.body.as_ref().map(|body| body.clone_ref(py)))
    }

    #[setter]
    fn set_body(response: &Bound<'_, Self>, body: Option<Py<PyAny>>) -> PyResult<()> {
        let old = std::mem::replace(&mut response.try_borrow_mut()?.body, body);
        drop(old);
        Ok(())
    }

    /// The encoded field lines, without those that the server adds.
    #[getter]
    fn raw_headers<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match &self.lines {
            FieldLines::Ours(lines) => PyBytes::new(py, lines),
            FieldLines::Own(lines, _) => lines.bind(py).clone(),
        }
    }

    /// Adds a field line after those of the same name; TypeError or ValueError for an invalid one, and for another content type.
    fn add_header(
        response: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = response.py();
        let line = field_line(name, value)?;
        let mut response = response.try_borrow_mut()?;
        let before = response.raw_headers(py);
        check_type(before.as_bytes(), line.as_bytes())?;
        let lines = [before.as_bytes(), line.as_bytes()].concat();
        let replaced = Fields::of_application(&lines).replaced;
        response.lines = FieldLines::Own(PyBytes::new(py, &lines).unbind(), replaced);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.status)?;
        visit.call(&self.body)
    }

    fn __clear__(response: &Bound<'_, Self>) -> PyResult<()> {
        let mut cleared = response.try_borrow_mut()?;
        let old = (cleared.status.take(), cleared.body.take());
        drop(cleared);
        drop(old);
        Ok(())
    }
}
