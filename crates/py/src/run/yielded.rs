//! What a coroutine yielded in its first step, until its task takes it.
//!
//! A future says by a flag, `_asyncio_future_blocking`, that it is being yielded by an `await`; the task that takes it clears the flag. While
//! nobody has taken it, others may await the same future, and would take the flag for a mistake. So it is cleared meanwhile.

use pyo3::prelude::*;

/// What was yielded: a future, or None from a coroutine that only gives way.
pub(crate) struct Yielded {
    value: Py<PyAny>,
    is_blocking: bool,
}

impl Yielded {
    /// Takes what a coroutine yielded.
    pub(crate) fn of(value: Bound<'_, PyAny>) -> Yielded {
        let flag = pyo3::intern!(value.py(), "_asyncio_future_blocking");
        let is_set = || {
            let found = value.getattr_opt(flag)?;
            found.map_or(Ok(false), |found| found.is_truthy())
        };
        let is_blocking =
            !value.is_none() && is_set().unwrap_or(false) && value.setattr(flag, false).is_ok();
        Yielded {
            value: value.unbind(),
            is_blocking,
        }
    }

    /// Gives it to the task, as it was yielded.
    pub(crate) fn hand_over(self, py: Python<'_>) -> Py<PyAny> {
        if self.is_blocking {
            let flag = pyo3::intern!(py, "_asyncio_future_blocking");
            // If somebody's own future refuses it, the task throws what is wrong into the coroutine.
            let _ = self.value.setattr(py, flag, true);
        }
        self.value
    }

    /// Cancels what the coroutine waits for, because its task was cancelled before it could wait. False when nothing can be cancelled (it
    /// only yielded control, or the future is done): then the exception has to be thrown into the coroutine.
    pub(crate) fn is_cancelled_with(&self, py: Python<'_>, cancelled: &PyErr) -> bool {
        let cancel = || -> PyResult<bool> {
            let message = cancelled.value(py).getattr("args")?.get_item(0).ok();
            self.value
                .call_method1(py, pyo3::intern!(py, "cancel"), (message,))?
                .is_truthy(py)
        };
        self.is_blocking && cancel().unwrap_or(false)
    }
}
