//! What one thread of the pool and the reactor tell each other about the request at hand.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use server::{Command, ExchangeId, Response};

use super::outbox::Outbox;
use crate::shared::{STREAM_AHEAD_BYTES, Shared};

/// One thread's place at the reactor. The thread waits in it, detached from the interpreter; the reactor only ever sets it.
pub(super) struct Lane {
    standing: Mutex<Standing>,
    changed: Condvar,
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Standing {
    /// The request at hand.
    id: Option<ExchangeId>,
    /// Its client is gone, or was answered by the server.
    is_gone: bool,
    /// Its answer has no content.
    is_discarding: bool,
    /// Its client sends nothing more.
    has_peer_ended: bool,
    /// Bytes written since the client had everything.
    ahead_bytes: usize,
    /// Content that arrived and was not taken.
    content: Vec<u8>,
    has_content_ended: bool,
}

impl Standing {
    /// Whether nobody takes what is written. A client that ended its side may still wait for an answer, but not for what is dropped.
    fn is_over(&self) -> bool {
        self.is_gone || (self.is_discarding && self.has_peer_ended)
    }
}

impl Lane {
    pub(super) fn new(outbox: Arc<Outbox>, shared: Arc<Shared>) -> Lane {
        Lane {
            standing: Mutex::default(),
            changed: Condvar::new(),
            outbox,
            shared,
        }
    }

    /// A request begins.
    pub(super) fn begin(&self, id: ExchangeId, has_peer_ended: bool) {
        *self.standing() = Standing {
            id: Some(id),
            has_peer_ended,
            ..Standing::default()
        };
    }

    /// It is over for the thread.
    pub(super) fn end(&self) {
        self.standing().id = None;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its client is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.standing().is_over()
    }

    pub(super) fn post(&self, id: ExchangeId, command: Command) {
        self.outbox.post(id, command);
    }

    /// Sends the head of an answer, of which the content follows, or has no content.
    pub(super) fn begin_answer(&self, id: ExchangeId, response: Response, has_content: bool) {
        self.standing().is_discarding = !has_content;
        self.post(id, Command::BeginOpen(response));
    }

    /// Sends a part of the answer, and waits while the client is too far behind.
    ///
    /// # Errors
    /// The disconnection, when the client is gone.
    pub(super) fn write(&self, py: Python<'_>, id: ExchangeId, part: Vec<u8>) -> PyResult<()> {
        let (is_gone, is_far_ahead) = {
            let mut standing = self.standing();
            standing.ahead_bytes += part.len();
            (
                standing.is_over() || standing.id != Some(id),
                standing.ahead_bytes >= STREAM_AHEAD_BYTES,
            )
        };
        if is_gone {
            return Err(self.shared.disconnection(py));
        }
        if !part.is_empty() {
            self.post(id, Command::Write(part));
        }
        self.outbox.notify();
        if !is_far_ahead {
            return Ok(());
        }
        let is_open = py.detach(|| {
            let waits = |standing: &mut Standing| {
                !standing.is_gone && standing.ahead_bytes >= STREAM_AHEAD_BYTES
            };
            !self.wait_while(waits).is_gone
        });
        match is_open {
            true => Ok(()),
            false => Err(self.shared.disconnection(py)),
        }
    }

    /// Waits for a part of the content; `None` at the end.
    ///
    /// # Errors
    /// The disconnection, when the rest will not come; `RuntimeError` when the request is over.
    pub(super) fn read(&self, py: Python<'_>, id: ExchangeId) -> PyResult<Option<Vec<u8>>> {
        {
            let standing = self.standing();
            if standing.id != Some(id) {
                return Err(PyRuntimeError::new_err(
                    "this request is over: its content cannot be read any more",
                ));
            }
            if standing.has_content_ended {
                return Ok(None);
            }
        }
        self.post(id, Command::Read);
        self.outbox.notify();
        let part = py.detach(|| {
            let waits = |standing: &mut Standing| {
                !standing.is_gone && !standing.has_content_ended && standing.content.is_empty()
            };
            let mut standing = self.wait_while(waits);
            let part = std::mem::take(&mut standing.content);
            match (part.is_empty(), standing.has_content_ended) {
                (false, _) => Some(Some(part)),
                (true, true) => Some(None),
                (true, false) => None,
            }
        });
        part.ok_or_else(|| self.shared.disconnection(py))
    }

    fn wait_while(&self, waits: impl FnMut(&mut Standing) -> bool) -> MutexGuard<'_, Standing> {
        let waited = self.changed.wait_while(self.standing(), waits);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the standing of a request, if it is the one at hand.
    fn change(&self, id: ExchangeId, change: impl FnOnce(&mut Standing)) -> bool {
        let mut standing = self.standing();
        let is_it = standing.id == Some(id);
        if is_it {
            change(&mut standing);
            self.changed.notify_all();
        }
        is_it
    }

    /// A part of the content has come.
    pub(super) fn take_content(&self, id: ExchangeId, part: &[u8], is_last: bool) -> bool {
        self.change(id, |standing| {
            standing.content.extend_from_slice(part);
            standing.has_content_ended |= is_last;
        })
    }

    /// The client has everything.
    pub(super) fn writable(&self, id: ExchangeId) -> bool {
        self.change(id, |standing| standing.ahead_bytes = 0)
    }

    /// The client sends nothing more.
    pub(super) fn peer_ended(&self, id: ExchangeId) -> bool {
        self.change(id, |standing| standing.has_peer_ended = true)
    }

    /// The client is gone, or was answered by the server.
    pub(super) fn abort(&self, id: ExchangeId) -> bool {
        self.change(id, |standing| standing.is_gone = true)
    }
}
