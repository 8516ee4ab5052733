//! `wsgi.file_wrapper`: a file as an iterable of blocks (PEP 3333, "Optional Platform-Specific File Handling").
//!
//! If an application returns it, a plain file is sent with its remaining length. A long one is never read: the kernel sends it, and the
//! thread that called the application is free at once. Any other readable object is read block by block.

use std::fs::File;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::FilePart;

use crate::ffi;

/// A remainder of at most this size is read at once: the kernel's help costs more than a copy.
const READ_BYTES_MAX: u64 = 65_536;

/// Reads a file from its current position, block by block.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct FileWrapper {
    file: Py<PyAny>,
    /// Size of a block in bytes: [`READ_BYTES_MAX`] unless the application passes another.
    block_bytes: usize,
}

/// What is left of a plain file.
pub(super) enum Remains {
    /// For the kernel to send.
    Unread(FilePart),
    /// Little enough to be read.
    Read(Vec<u8>),
}

impl Remains {
    pub(super) fn length(&self) -> u64 {
        match self {
            Remains::Unread(part) => part.length,
            Remains::Read(content) => content.len() as u64,
        }
    }
}

impl FileWrapper {
    /// What is left of the file, if it is a plain one.
    ///
    /// # Errors
    /// Any error of the file's methods.
    pub(super) fn remains(&self, py: Python<'_>) -> PyResult<Option<Remains>> {
        let object = self.file.bind(py);
        if !is_plain(object)? {
            return Ok(None);
        }
        let fd: i32 = object
            .call_method0(pyo3::intern!(py, "fileno"))?
            .extract()?;
        if fd < 0 {
            return Ok(None);
        }
        // A duplicate of the descriptor: the application may close its file before all of it has been sent.
        let file = File::from(ffi::borrow_fd(fd).try_clone_to_owned()?);
        let about = file.metadata()?;
        // Files that the system generates when they are read (procfs) have no size.
        if !about.is_file() || about.len() == 0 {
            return Ok(None);
        }
        let offset: u64 = object.call_method0(pyo3::intern!(py, "tell"))?.extract()?;
        let length = about.len().saturating_sub(offset);
        if length <= READ_BYTES_MAX {
            return read(object, length as usize).map(|content| Some(Remains::Read(content)));
        }
        Ok(Some(Remains::Unread(FilePart {
            file: file.into(),
            offset,
            length,
        })))
    }
}

/// Reads `length` bytes of a file, or what there is of it.
fn read(file: &Bound<'_, PyAny>, length: usize) -> PyResult<Vec<u8>> {
    let name = pyo3::intern!(file.py(), "read");
    let mut content = Vec::with_capacity(length);
    while content.len() < length {
        let left = (length - content.len()).into_pyobject(file.py())?;
        let block = ffi::call_method_from_thread(name, [file, left.as_any()])?;
        match block.cast::<PyBytes>()?.as_bytes() {
            [] => break,
            block => content.extend_from_slice(block),
        }
    }
    Ok(content)
}

/// Whether reading it returns the file's bytes: it is not a decompressor, a text file or a foreign class. What was written to it is in the
/// file then.
fn is_plain(file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = file.py();
    let io = py.import(pyo3::intern!(py, "io"))?;
    let raw_type = io.getattr(pyo3::intern!(py, "FileIO"))?;
    let kind = file.get_type();
    if kind.is(&raw_type) {
        return Ok(true);
    }
    let is_buffered = kind.is(&io.getattr(pyo3::intern!(py, "BufferedReader"))?)
        || kind.is(&io.getattr(pyo3::intern!(py, "BufferedRandom"))?);
    if !is_buffered
        || !file
            .getattr(pyo3::intern!(py, "raw"))?
            .get_type()
            .is(&raw_type)
    {
        return Ok(false);
    }
    file.call_method0(pyo3::intern!(py, "flush"))?;
    Ok(true)
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (file, block_bytes=65_536, /))]
    fn new(file: Py<PyAny>, block_bytes: usize) -> FileWrapper {
        FileWrapper { file, block_bytes }
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let read = pyo3::intern!(py, "read");
        let block_bytes = self.block_bytes.into_pyobject(py)?;
        let block = ffi::call_method_from_thread(read, [self.file.bind(py), block_bytes.as_any()])?;
        let is_end = match block.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().is_empty(),
            Err(_) => !block.is_truthy()?,
        };
        Ok((!is_end).then_some(block))
    }

    /// Closes the file, if it can be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(close) = self.file.bind(py).getattr_opt(pyo3::intern!(py, "close"))? {
            ffi::call_from_thread(py, close.as_unbound(), [])?;
        }
        Ok(())
    }
}
