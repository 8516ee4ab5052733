//! What a coroutine yielded in its first step, until its task takes it.
//!
//! While an `await` yields a future, the future's flag `_asyncio_future_blocking` is set; the task that takes it clears the flag. Until
//! then, others may await the same future, and would take the flag for a mistake. So it is cleared meanwhile.

use pyo3::prelude::*;

/// What was yielded: a future, or None from a coroutine that only yields control.
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

    /// Passes it to the task, as it was yielded.
    pub(crate) fn hand_over(self, py: Python<'_>) -> Py<PyAny> {
        if self.is_blocking {
            let flag = pyo3::intern!(py, "_asyncio_future_blocking");
            // If a future of a foreign class refuses it, the task throws the error into the coroutine.
            let _ = self.value.setattr(py, flag, true);
        }
        self.value
    }

    /// Cancels what the coroutine waits for, because its task was cancelled before it could wait. Returns false if nothing can be cancelled
    /// (it only yielded control, or the future is done): the exception has to be thrown into the coroutine then.
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
