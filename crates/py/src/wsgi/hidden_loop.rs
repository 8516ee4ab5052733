//! Hides the event loop. An application on the reactor's thread is called while asyncio's loop waits, hence inside that loop. The
//! application must not notice: it may run a loop of its own, and frameworks refuse to block while a loop runs.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static SET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// While it exists, Python sees no running loop on this thread.
pub(crate) struct HiddenLoop<'py> {
    event_loop: Bound<'py, PyAny>,
    set: &'py Bound<'py, PyAny>,
}

impl<'py> HiddenLoop<'py> {
    /// Hides the running loop, if there is one.
    ///
    /// # Errors
    /// When asyncio cannot be imported.
    pub(crate) fn hide(py: Python<'py>) -> PyResult<HiddenLoop<'py>> {
        let set = SET.import(py, "asyncio.events", "_set_running_loop")?;
        let get = GET.import(py, "asyncio.events", "_get_running_loop")?;
        let event_loop = get.call0()?;
        set.call1((py.None(),))?;
        Ok(HiddenLoop { event_loop, set })
    }
}

impl Drop for HiddenLoop<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.set.call1((&self.event_loop,)) {
            error.write_unraisable(self.event_loop.py(), None);
        }
    }
}
