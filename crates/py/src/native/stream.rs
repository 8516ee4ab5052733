//! Content that a native handler reads in parts, and responses that it sends in parts.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyBytes;
use server::{Command, ExchangeId};

use super::request::Request;
use crate::ffi::{self, Awaitable, GilCell, Sent};
use crate::run::awaitable::awaitable;
use crate::run::exchanges::Exchanges;

/// The next part of content that is still arriving. The awaitable takes the part when it resumes, so that nothing is lost if it is
/// cancelled just then.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Part {
    id: ExchangeId,
    exchanges: Arc<Exchanges>,
    /// All that follows is one part.
    whole: bool,
}

impl Part {
    pub(crate) fn of(
        py: Python<'_>,
        (exchanges, id): (Arc<Exchanges>, ExchangeId),
        whole: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        let part = Part {
            id,
            exchanges,
            whole,
        };
        Ok(Bound::new(py, part)?.into_any())
    }
}

impl Awaitable for Part {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let state = {
            let mut exchanges = self.exchanges.lock();
            exchanges.get_mut(&self.id).map(|exchange| {
                let part = exchange.take_content();
                exchange.is_read = true;
                exchange.has_unread &= part.is_some() || !exchange.content_ended;
                (part, exchange.content_ended, exchange.is_disconnected)
            })
        };
        match state {
            Some((Some(part), _, _)) => Sent::Returned(part.into_bound(py).into_any()),
            Some((None, true, _)) => {
                // A peer that ended its side after its content counts as disconnected only now.
                self.exchanges.notify_departure(py, self.id);
                Sent::Returned(py.None().into_bound(py))
            }
            // The response is complete, or the peer has disconnected: nothing more will arrive.
            Some((None, false, true)) | None => Sent::raised(self.exchanges.disconnection(py)),
            Some((None, false, false)) => match self.exchanges.wait_to_read(py, self.id) {
                Ok(future) => {
                    let command = match self.whole {
                        true => Command::ReadWhole,
                        false => Command::Read,
                    };
                    self.exchanges.post(py, self.id, command);
                    Sent::Yielded(future)
                }
                Err(error) => Sent::raised(error),
            },
        }
    }

    /// A cancelled reader does not wait for all of it any more: what has arrived is a part, and the handler has its time again.
    fn throw<'py>(&self, py: Python<'py>, error: PyErr) -> Sent<'py> {
        if self.whole && self.exchanges.lock().get_mut(&self.id).is_some() {
            self.exchanges.post(py, self.id, Command::Read);
        }
        Sent::raised(error)
    }
}

awaitable!(Part);

/// The client's disconnection, or the end of its exchange.
///
/// The request may refer to this, directly or by the task that awaits it: the collector sees that cycle, and the end of the wait breaks it.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Departure {
    /// None when it has returned.
    request: GilCell<Option<Py<Request>>>,
}

impl Departure {
    pub(crate) fn of(request: Bound<'_, Request>) -> PyResult<Bound<'_, PyAny>> {
        let py = request.py();
        let request = GilCell::of(Some(request.unbind()));
        Ok(Bound::new(py, Departure { request })?.into_any())
    }
}

impl Awaitable for Departure {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        let wait = || {
            let clone = |request: &mut Option<Py<Request>>| Some(request.as_ref()?.clone_ref(py));
            let waiting = match self.request.reach(py, clone)? {
                Some(request) => request.get().waits_for_departure(py)?,
                None => None,
            };
            if let Some((exchanges, id)) = waiting {
                return exchanges.wait_to_leave(py, id).map(Sent::Yielded);
            }
            let request = self.request.reach(py, Option::take)?;
            drop(request);
            Ok(Sent::Returned(py.None().into_bound(py)))
        };
        wait().unwrap_or_else(Sent::raised)
    }
}

awaitable!(impl Departure {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector runs with the interpreter attached, and never while the cell is held.
        let visited = ffi::attached(|py| self.request.with(py, |request| visit.call(&*request)));
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        let request = ffi::attached(|py| self.request.with(py, Option::take));
        drop(request);
    }
});

/// The sending side of a streamed response.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Stream {
    pub(crate) id: ExchangeId,
    pub(crate) exchanges: Arc<Exchanges>,
}

#[pymethods]
impl Stream {
    /// Sends a part; the awaitable is done when a bounded buffer has accepted it.
    fn send<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.exchanges.write(py, self.id, data)
    }
}

/// Lets the interpreter step these types without a method call.
pub(crate) fn prepare(py: Python<'_>) {
    ffi::step_directly::<Part>(py);
    ffi::step_directly::<Departure>(py);
}
