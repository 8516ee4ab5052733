//! The iterator that a streamed response is pulled from.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString};

use crate::ffi::leave_if_forked;
use crate::run::context::run_in;
use crate::run::memory::append;

/// An iterator of bytes or str, which runs in the context of the handler that returned it.
pub(crate) struct ResponseParts {
    pub(crate) iterator: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
}

impl ResponseParts {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> ResponseParts {
        ResponseParts {
            iterator: self.iterator.clone_ref(py),
            context: self.context.clone_ref(py),
        }
    }

    /// Appends the next part to `out`; false at the end.
    ///
    /// # Errors
    /// Any error of the iterator; `TypeError` for a part that is neither bytes nor str.
    pub(crate) fn next(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<bool> {
        let mut iterator = self.iterator.bind(py).cast::<PyIterator>()?.clone();
        let part = run_in(self.context.bind(py), || iterator.next().transpose());
        leave_if_forked(py, part.as_ref().err());
        let Some(part) = part? else {
            return Ok(false);
        };
        if let Ok(text) = part.cast::<PyString>() {
            append(out, text.to_str()?.as_bytes())?;
        } else if let Ok(bytes) = part.extract::<&[u8]>() {
            append(out, bytes)?;
        } else {
            let kind = part.get_type().name()?;
            let message =
                format!("the parts of a streamed response must be str or bytes, not {kind}");
            return Err(PyTypeError::new_err(message));
        }
        Ok(true)
    }

    /// Closes a generator; other iterators have nothing to close.
    pub(crate) fn close(&self, py: Python<'_>) {
        self.close_with(py, |close| {
            run_in(self.context.bind(py), || close.call0(py))
        });
    }

    /// The same in the current context, which is that of the handler.
    pub(crate) fn close_here(&self, py: Python<'_>) {
        self.close_with(py, |close| close.call0(py));
    }

    fn close_with(&self, py: Python<'_>, call: impl FnOnce(Py<PyAny>) -> PyResult<Py<PyAny>>) {
        let Ok(close) = self.iterator.getattr(py, "close") else {
            return;
        };
        let closed = call(close);
        leave_if_forked(py, closed.as_ref().err());
        if let Err(error) = closed {
            error.write_unraisable(py, Some(self.iterator.bind(py)));
        }
    }
}
