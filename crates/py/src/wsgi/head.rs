//! The head of a response as an application passes it to `start_response`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use server::{Fields, Replaced, Response};

use crate::ffi;
use crate::run::left_out::Ours;

/// The status codes a final response may have: any of three digits (PEP 3333) but those of interim responses (RFC 9110 section 15).
const STATUSES: std::ops::RangeInclusive<u16> = 200..=999;

/// Longer lists are not compared.
const KEY_PAIRS_MAX: usize = 16;

/// A status and field lines, encoded. It is kept for the next call: most applications pass the very same objects again.
#[derive(Default)]
pub(super) struct Head {
    pub(super) status: u16,
    /// The reason phrase if it is not the registered one.
    reason: Vec<u8>,
    fields: Vec<u8>,
    replaced: Replaced,
    /// The value of Content-Length.
    pub(super) length: Option<u64>,
    /// Fields that were left out.
    pub(super) ours: Ours,
    /// The objects this was encoded from, which are immutable: the status and the pairs. Empty if any of them is mutable.
    key: Vec<Py<PyAny>>,
}

impl Head {
    /// The field lines except Content-Length.
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields::that_replace(&self.fields, self.replaced).with_reason(&self.reason)
    }

    /// The same as an owned copy, for the mailbox.
    pub(super) fn to_response(&self, content: Vec<u8>) -> Response {
        Response {
            status: self.status,
            reason: self.reason.clone(),
            fields: self.fields.clone(),
            content,
            length: self.length,
            ..Response::default()
        }
    }

    /// Whether it was encoded from these very objects.
    #[inline]
    pub(super) fn is_of(&self, status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> bool {
        let Some((own_status, own_pairs)) = self.key.split_first() else {
            return false;
        };
        let Ok(headers) = headers.cast_exact::<PyList>() else {
            return false;
        };
        own_status.is(status) && ffi::holds(headers, own_pairs)
    }

    /// Reads what an application passes.
    ///
    /// # Errors
    /// `TypeError` or `ValueError` that says what is wrong.
    pub(super) fn read(
        &mut self,
        status: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if let Ok(list) = headers.cast_exact::<PyList>() {
            return self.read_list(status, list);
        }
        let list = PyList::empty(headers.py());
        for pair in headers.try_iter()? {
            list.append(pair?)?;
        }
        self.read_list(status, &list)
    }

    fn read_list(
        &mut self,
        status: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        self.key.clear();
        self.fields.clear();
        (self.replaced, self.length) = (Replaced::default(), None);
        self.ours = Ours::default();
        self.read_status(status)?;
        let mut is_constant = status.is_exact_instance_of::<PyString>();
        for pair in headers {
            is_constant &= self.push_pair(&pair)?;
        }
        if is_constant && headers.len() <= KEY_PAIRS_MAX {
            self.key.push(status.clone().unbind());
            self.key.extend(headers.iter().map(Bound::unbind));
        }
        Ok(())
    }

    /// Returns true if all objects of the pair are immutable.
    fn push_pair(&mut self, pair: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(pair) = pair.cast_exact::<PyTuple>()
            && pair.len() == 2
        {
            let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
            let is_constant =
                name.is_exact_instance_of::<PyString>() && value.is_exact_instance_of::<PyString>();
            self.push(&name, &value)?;
            return Ok(is_constant);
        }
        let mut items = pair.try_iter()?;
        let (Some(name), Some(value), None) = (items.next(), items.next(), items.next()) else {
            return Err(PyTypeError::new_err(
                "start_response(): a header is a tuple of two str, name and value",
            ));
        };
        self.push(&name?, &value?)?;
        Ok(false)
    }

    fn push(&mut self, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Ok(name), Ok(value)) = (name.cast::<PyString>(), value.cast::<PyString>()) else {
            return Err(PyTypeError::new_err(format!(
                "start_response(): the name and the value of a header are str, not {} and {}",
                name.get_type().name()?,
                value.get_type().name()?
            )));
        };
        match (ffi::ascii(name), ffi::ascii(value)) {
            (Some(name), Some(value)) => self.push_bytes(name, value),
            _ => self.push_bytes(latin1(name)?.as_bytes(), latin1(value)?.as_bytes()),
        }
    }

    fn push_bytes(&mut self, name: &[u8], value: &[u8]) -> PyResult<()> {
        if !wire::is_field_name(name) || !wire::is_field_value(value) {
            return Err(malformed(name, value));
        }
        // Django's cookies start with a space, which is not part of a value (RFC 9110 section 5.5).
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            return self.set_length(value);
        }
        self.replaced.note(name);
        if self.ours.takes(name) {
            return Ok(());
        }
        self.fields.reserve(name.len() + value.len() + 4);
        for part in [name, b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
        Ok(())
    }

    /// Reads "200 OK". A registered reason phrase is not kept: the server writes it.
    fn read_status(&mut self, status: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(text) = status.cast::<PyString>() else {
            let kind = status.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "start_response(): the status is a str such as '200 OK', not {kind}"
            )));
        };
        let encoded;
        let bytes = match ffi::ascii(text) {
            Some(bytes) => bytes,
            None => {
                encoded = latin1(text)?;
                encoded.as_bytes()
            }
        };
        self.reason.clear();
        let (number, reason) = match bytes {
            [a, b, c] => (number_of(&[*a, *b, *c]), &b""[..]),
            [a, b, c, b' ', reason @ ..] => (number_of(&[*a, *b, *c]), wire::trim_ows(reason)),
            _ => (None, &b""[..]),
        };
        let number = number.filter(|number| STATUSES.contains(number));
        let Some(number) = number.filter(|_| wire::is_field_value(reason)) else {
            return Err(PyValueError::new_err(format!(
                "start_response(): the status is a str such as '200 OK' from 200 to 999, not {}",
                text.repr()?
            )));
        };
        self.status = number;
        if !wire::is_registered_reason(number, reason) {
            self.reason.extend_from_slice(reason);
        }
        Ok(())
    }

    fn set_length(&mut self, value: &[u8]) -> PyResult<()> {
        let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(value).ok().filter(|_| is_digits);
        let length: Option<u64> = text.and_then(|text| text.parse().ok());
        if length.is_none() || self.length.is_some_and(|before| length != Some(before)) {
            return Err(malformed(b"Content-Length", value));
        }
        self.length = length;
        Ok(())
    }
}

#[cold]
fn malformed(name: &[u8], value: &[u8]) -> PyErr {
    PyValueError::new_err(format!(
        "start_response(): malformed header {}: {}",
        name.escape_ascii(),
        value.escape_ascii()
    ))
}

fn number_of(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u16::from(digit - b'0'))
    })
}

#[cold]
fn latin1<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    let encoded = text.call_method1(pyo3::intern!(text.py(), "encode"), ("latin-1",));
    match encoded {
        Ok(bytes) => Ok(bytes.cast_into()?),
        Err(_) => Err(PyValueError::new_err(format!(
            "start_response(): a status or header holds characters beyond Latin-1: {}",
            text.repr()?
        ))),
    }
}
