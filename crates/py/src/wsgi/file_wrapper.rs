//! `wsgi.file_wrapper`: a file as an iterable of blocks (PEP 3333, "Optional Platform-Specific File Handling").
//!
//! If the application returns one for a long plain file, the file is never read here: the kernel sends it, and the thread that called the
//! application is free at once. Any other readable object is read block by block.

use std::fs::File;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::FilePart;

use crate::ffi;

/// A file that is no longer than this is read: preparing the kernel to send it would cost more than a copy.
const READ_BYTES_MAX: u64 = 65_536;

/// Reads a file from its current position, block by block.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct FileWrapper {
    file: Py<PyAny>,
    /// Size of a block in bytes: [`READ_BYTES_MAX`] unless the application passes another.
    block_bytes: usize,
}

impl FileWrapper {
    /// The rest of the file, for the kernel to send, if it is long and a plain file.
    ///
    /// # Errors
    /// Whatever the file's own methods raise.
    pub(super) fn part(&self, py: Python<'_>) -> PyResult<Option<FilePart>> {
        let file = self.file.bind(py);
        if !is_plain(file)? {
            return Ok(None);
        }
        let offset: u64 = file.call_method0(pyo3::intern!(py, "tell"))?.extract()?;
        let fd: i32 = file.call_method0(pyo3::intern!(py, "fileno"))?.extract()?;
        if fd < 0 {
            return Ok(None);
        }
        // A duplicate of the descriptor: the application may close its file before all of it has been sent.
        let file = File::from(ffi::borrow_fd(fd).try_clone_to_owned()?);
        let about = file.metadata()?;
        let length = about.len().saturating_sub(offset);
        Ok(
            (about.is_file() && length > READ_BYTES_MAX).then_some(FilePart {
                file,
                offset,
                length,
            }),
        )
    }
}

/// Whether reading returns exactly the bytes of the file: not for a decompressor, text, or a class of the application's. Flushes what was
/// written to it.
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
        let block = self.file.bind(py).call_method1(read, (self.block_bytes,))?;
        let is_end = match block.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().is_empty(),
            Err(_) => !block.is_truthy()?,
        };
        Ok((!is_end).then_some(block))
    }

    /// Closes the file, if it can be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(close) = self.file.bind(py).getattr_opt(pyo3::intern!(py, "close"))? {
            close.call0()?;
        }
        Ok(())
    }
}
