//! The extensions: early hints, files and a trailer section (asgiref, "Extensions").

use std::fs::{File, Metadata};
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt};
use server::{Command, FilePart};

use super::call::{AsgiCall, Progress};
use super::message::{Extension, for_each_header, push_line};
use crate::ffi;
use crate::run::awaitable::LoopTurn;

/// The extensions that an application is offered. Those that send files are only offered on demand: frameworks use them as soon as a scope
/// lists them, and middleware that changes or counts the content does not see it then.
#[derive(Clone, Copy, Default)]
pub(crate) struct Offered {
    path_send: bool,
    zero_copy_send: bool,
}

impl Offered {
    /// Those that are offered on demand, by their short names.
    ///
    /// # Errors
    /// `ValueError` for an unknown name.
    pub(crate) fn of(names: &[String]) -> PyResult<Offered> {
        let mut offered = Offered::default();
        for name in names {
            match name.as_str() {
                "pathsend" => offered.path_send = true,
                "zerocopysend" => offered.zero_copy_send = true,
                _ => return Err(PyValueError::new_err(format!("no extension {name:?}"))),
            }
        }
        Ok(offered)
    }

    /// Their names in a scope. Each works with every request, but an HTTP/1.0 client gets no early hints and no trailer section.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let names = [
            ("http.response.early_hint", true),
            ("http.response.pathsend", self.path_send),
            ("http.response.trailers", true),
            ("http.response.zerocopysend", self.zero_copy_send),
        ];
        let offered = names.into_iter().filter(|(_, is_offered)| *is_offered);
        offered.map(|(name, _)| name)
    }

    fn has(self, kind: Extension) -> bool {
        match kind {
            Extension::PathSend => self.path_send,
            Extension::ZeroCopySend => self.zero_copy_send,
            Extension::EarlyHint | Extension::Trailers => true,
        }
    }
}

impl AsgiCall {
    /// Takes a message of an extension. Returns an awaitable of its acceptance, unless it is accepted at once.
    pub(super) fn extension<'py>(
        &self,
        kind: Extension,
        message: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        if !self.offered.has(kind) {
            return Err(PyRuntimeError::new_err(
                "send(): this extension is not in the scope (--asgi-extensions offers it)",
            ));
        }
        match kind {
            Extension::EarlyHint => self.early_hint(message),
            Extension::PathSend => {
                let path = required(message, "path")?.extract::<PathBuf>()?;
                let part = whole(&path)?;
                self.file(py, part, false)
            }
            Extension::ZeroCopySend => {
                let part = part_of(message)?;
                self.file(py, part, is_true(message, "more_body")?)
            }
            Extension::Trailers => self.trailers(message),
        }
    }

    /// Sends a 103 with the links (RFC 8297).
    fn early_hint<'py>(&self, message: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        let mut fields = Vec::new();
        for link in required(message, "links")?.try_iter()? {
            let link = link?;
            let Ok(link) = link.cast::<PyBytes>() else {
                return Err(PyTypeError::new_err("send(): links are byte strings"));
            };
            if !wire::is_field_value(link.as_bytes()) {
                return Err(PyValueError::new_err("send(): malformed link"));
            }
            push_line(&mut fields, b"link", link.as_bytes());
        }
        if self.progress(py)? != Progress::Nothing {
            return Err(PyRuntimeError::new_err(
                "send(): http.response.early_hint was sent after http.response.start",
            ));
        }
        // The final response has to go through the mailbox too, to be sent after this interim response.
        self.leave_first_step(py)?;
        let status = 103;
        self.post(py, Command::Inform { status, fields })?;
        Ok(None)
    }

    /// Sends a part of a file as content.
    fn file<'py>(
        &self,
        py: Python<'py>,
        part: FilePart,
        more: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.leave_first_step(py)?;
        let is_sent = self.content_comes(py, more, part.length)? && part.length > 0;
        if is_sent {
            let bytes = usize::try_from(part.length).unwrap_or(usize::MAX);
            self.open(py, |open| {
                open.ahead_bytes = open.ahead_bytes.saturating_add(bytes)
            })?;
            self.post(py, Command::WriteFile(part))?;
        }
        self.content_ends(py)?;
        match (more, is_sent) {
            // Files that wait to be sent hold descriptors, so the next one has to wait until this one has been sent.
            (true, true) => self.exchanges().wait_to_write(py, self.id(py)?).map(Some),
            (true, false) => LoopTurn::awaitable(py).map(Some),
            (false, _) => Ok(None),
        }
    }

    /// Takes the fields of the trailer section.
    fn trailers<'py>(&self, message: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        if self.progress(py)? != Progress::Trailing {
            return Err(PyRuntimeError::new_err(
                "send(): http.response.trailers follows the content, and must be announced in http.response.start",
            ));
        }
        let mut lines = Vec::new();
        if let Some(headers) = message.get_item("headers")? {
            for_each_header(&headers, |name, value| {
                if !wire::may_be_trailer(name) {
                    return Err(PyValueError::new_err(format!(
                        "send(): {} may not appear in a trailer section (RFC 9110 section 6.5.1)",
                        name.escape_ascii()
                    )));
                }
                push_line(&mut lines, name, value);
                Ok(())
            })?;
        }
        let is_last = !is_true(message, "more_trailers")?;
        self.push_trailers(py, &lines, is_last)?;
        Ok(None)
    }
}

fn required<'py>(message: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    message
        .get_item(key)?
        .ok_or_else(|| PyTypeError::new_err(format!("send(): the message lacks {key}")))
}

fn is_true(message: &Bound<'_, PyDict>, key: &str) -> PyResult<bool> {
    message
        .get_item(key)?
        .map_or(Ok(false), |value| value.is_truthy())
}

/// The whole of a file. Its type is checked before it is opened too, because opening a pipe waits for a writer.
fn whole(path: &Path) -> PyResult<FilePart> {
    let name = path.display().to_string();
    regular(&std::fs::metadata(path)?, &name)?;
    let file = File::open(path)?;
    let length = regular(&file.metadata()?, &name)?;
    Ok(FilePart {
        file: file.into(),
        offset: 0,
        length,
    })
}

/// The part of a file that a message specifies: an open file, or its descriptor. That is duplicated: the application may close its own.
///
/// Without an offset, the part begins where the file is, which is after it then, as sendfile(2) does it.
fn part_of(message: &Bound<'_, PyDict>) -> PyResult<FilePart> {
    let object = required(message, "file")?;
    let is_number = object.is_instance_of::<PyInt>();
    let fd: i32 = match is_number {
        true => object.extract()?,
        false => object.call_method0("fileno")?.extract()?,
    };
    if fd < 0 {
        return Err(PyValueError::new_err("send(): the file is closed"));
    }
    let mut file = File::from(ffi::borrow_fd(fd).try_clone_to_owned()?);
    let metadata = file.metadata()?;
    let given = message.get_item("offset")?.filter(|it| !it.is_none());
    let offset: u64 = match &given {
        Some(offset) => offset.extract()?,
        None if is_number => file.stream_position()?,
        None => object.call_method0("tell")?.extract()?,
    };
    let rest = regular(&metadata, &object.to_string())?.saturating_sub(offset);
    let length = match message.get_item("count")? {
        Some(count) if !count.is_none() => rest.min(count.extract()?),
        _ => rest,
    };
    if given.is_none() && is_number {
        file.seek(SeekFrom::Start(offset + length))?;
    } else if given.is_none() {
        object.call_method1("seek", (offset + length,))?;
    }
    Ok(FilePart {
        file: file.into(),
        offset,
        length,
    })
}

/// The length of a regular file; an error for any other file.
fn regular(metadata: &Metadata, name: &str) -> PyResult<u64> {
    if !metadata.is_file() {
        return Err(PyValueError::new_err(format!(
            "send(): {name} is not a regular file"
        )));
    }
    Ok(metadata.len())
}
