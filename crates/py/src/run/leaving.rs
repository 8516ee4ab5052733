//! What happens to an exchange when its peer disconnects: who is notified, and which exceptions are only a consequence.

use std::time::Instant;

use pyo3::exceptions::PyBaseExceptionGroup;
use pyo3::prelude::*;
use server::ExchangeId;

use super::exchanges::{Exchanges, wake};

/// How far the chain of causes of an exception is followed.
const EXCEPTION_CHAIN_MAX: usize = 16;

impl Exchanges {
    /// Whether an exception is the one that reports a disconnection to a handler.
    pub(crate) fn is_disconnection(&self, py: Python<'_>, error: &PyErr) -> bool {
        error.matches(py, &self.disconnected).unwrap_or(false)
    }

    /// Whether an exception is that one, or a group of such exceptions and of what results from them, as a task group raises. Anything that an
    /// application raises in its place is for its error handlers.
    pub(crate) fn reports_disconnection(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.is_disconnection(py, error)
            || error.is_instance_of::<PyBaseExceptionGroup>(py)
                && self.stems_from_disconnection(py, error, false)
    }

    /// Whether an exception is that one or results from it: raised in its place by a framework, or a group of such exceptions. `was_reported`
    /// if a message reported the disconnection to the application, which leaves no cause to follow.
    pub(crate) fn stems_from_disconnection(
        &self,
        py: Python<'_>,
        error: &PyErr,
        was_reported: bool,
    ) -> bool {
        self.stems(py, error, was_reported, EXCEPTION_CHAIN_MAX)
            .unwrap_or(false)
    }

    fn stems(
        &self,
        py: Python<'_>,
        error: &PyErr,
        was_reported: bool,
        depth_left: usize,
    ) -> PyResult<bool> {
        if self.is_disconnection(py, error) {
            return Ok(true);
        }
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Ok(false);
        };
        let value = error.value(py);
        if let Ok(members) = value.getattr("exceptions").and_then(|all| all.try_iter()) {
            let mut count = 0;
            for member in members.take(EXCEPTION_CHAIN_MAX) {
                count += 1;
                if !self.stems(py, &PyErr::from_value(member?), was_reported, depth_left)? {
                    return Ok(false);
                }
            }
            return Ok(count > 0);
        }
        if let Some(cause) = error.cause(py) {
            return self.stems(py, &cause, was_reported, depth_left);
        }
        // Raised while the other one was handled: a framework's replacement if its name says so, otherwise a failure of its own.
        let context = value.getattr("__context__")?;
        let is_substitute = value
            .get_type()
            .name()?
            .to_string_lossy()
            .contains("Disconnect");
        if context.is_none() || !is_substitute {
            return Ok(is_substitute && was_reported);
        }
        self.stems(py, &PyErr::from_value(context), was_reported, depth_left)
    }

    /// A message reports the disconnection to the application.
    pub(crate) fn set_reported(&self, id: ExchangeId) {
        self.change(id, |exchange| {
            exchange.rare().reported_at.get_or_insert_with(Instant::now);
        });
    }

    /// Whether a message has reported to the application that its client has gone.
    pub(crate) fn was_reported(&self, id: ExchangeId) -> bool {
        self.change(id, |exchange| exchange.reported_at().is_some()) == Some(true)
    }

    /// Whether an application that sends more to a disconnected client may continue: the disconnection was reported or became noticeable so
    /// recently that it may not have acted on it.
    pub(crate) fn may_go_on(&self, id: ExchangeId) -> bool {
        self.change(id, |exchange| exchange.may_go_on()) == Some(true)
    }

    /// The peer has disconnected: notifies the tasks that wait for it.
    pub(crate) fn disconnect(&self, py: Python<'_>, id: ExchangeId) {
        let (readers, writers, parts, task, was_reported) = {
            let mut exchanges = self.lock();
            let Some(exchange) = exchanges.get_mut(&id) else {
                return;
            };
            exchange.is_disconnected = true;
            let task = exchange.task.as_ref().filter(|_| exchange.is_streamed);
            let task = task.map(|task| task.clone_ref(py));
            (
                exchange.take_readers(),
                exchange.take_writers(),
                exchange.take_parts(),
                task,
                exchange.was_just_reported(),
            )
        };
        // The task that sends a stream need not be cancelled if the future that it waits for reports the disconnection.
        let awaited = task.and_then(|task| task.getattr(py, "_fut_waiter").ok());
        let is_awaited = |future: &Py<PyAny>| awaited.as_ref().is_some_and(|it| it.is(future));
        let (mut is_notified, mut is_known) = (false, was_reported);
        for reader in readers {
            // The task checks again, and finds that the peer has disconnected.
            let is_woken = wake(py, &reader);
            is_notified |= is_woken && is_awaited(&reader);
            is_known |= is_woken;
        }
        if is_known && !was_reported {
            self.set_reported(id);
        }
        for writer in writers {
            // Once is enough: the code that waits for the disconnection ends the task that sends.
            let is_ended = match is_known {
                true => wake(py, &writer),
                false => self.refuse(py, &writer).unwrap_or(false),
            };
            is_notified |= is_ended && is_awaited(&writer);
        }
        if is_notified {
            self.change(id, |exchange| exchange.rare().is_stream_cancelled = true);
        }
        self.notify_departure(py, id);
        if let Some(parts) = parts {
            self.close(id);
            parts.close(py);
        }
    }
}
