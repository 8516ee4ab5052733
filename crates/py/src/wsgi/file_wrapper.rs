//! `wsgi.file_wrapper`: a file as an iterable of blocks (PEP 3333, "Optional Platform-Specific File Handling").

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bytes of a block, unless the application asks for others.
const BLOCK_BYTES: usize = 65_536;

/// Reads a file from where it stands, block by block.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct FileWrapper {
    file: Py<PyAny>,
    block_bytes: usize,
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (file, block_bytes=BLOCK_BYTES, /))]
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
