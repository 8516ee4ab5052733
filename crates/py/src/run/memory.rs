//! Copies of data that peers and applications made large. If there is no memory for one, it raises `MemoryError` instead of ending the
//! process.

use net::memory::{self, NoMemory};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

/// A copy of bytes.
///
/// # Errors
/// `MemoryError`.
#[inline]
pub(crate) fn copy(bytes: &[u8]) -> PyResult<Vec<u8>> {
    memory::copy(bytes).map_err(error)
}

/// A copy of the bytes of an object that may change.
///
/// # Errors
/// `MemoryError`; `BufferError` if they are not contiguous.
pub(crate) fn copy_of(py: Python<'_>, buffer: &PyBuffer<u8>) -> PyResult<Vec<u8>> {
    let bytes = buffer.item_count();
    let mut copy = Vec::new();
    memory::reserve_exact(&mut copy, bytes).map_err(error)?;
    copy.resize(bytes, 0);
    buffer.copy_to_slice(py, &mut copy)?;
    Ok(copy)
}

/// Appends bytes to a buffer.
///
/// # Errors
/// `MemoryError`.
#[inline]
pub(crate) fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> PyResult<()> {
    memory::append(buffer, bytes).map_err(error)
}

/// The exception for a lack of memory.
#[cold]
pub(crate) fn error(lack: NoMemory) -> PyErr {
    PyMemoryError::new_err(lack.to_string())
}
