//! WebSockets, as the applications of every interface use them: what has arrived, who waits for it, and what is sent.
//!
//! The protocol is the server's: an application gets whole messages. Its task runs where the messages arrive: a task in `receive()` waits
//! for an [`Arrival`], which looks like a future to asyncio and resumes the task from the reactor's pass, without a turn of the loop. What
//! the task sends then is written to the buffer of that pass, so that the responses to all messages of one read leave together.
//!
//! | file | contents |
//! | --- | --- |
//! | `socket` | one WebSocket: its phase, the messages that wait, the tasks that wait |
//! | `sockets` | the open ones, by their exchange |
//! | `arrival` | what a task in `receive()` waits for |
//! | `departed` | what is held of clients that have left |
//! | `end` | how one ended, and the exception that says so |
//! | `queue` | a queue that rarely has several items |
//! | `rare` | what an idle one does not have |
//! | `receiving` | what `receive()` and iteration return, for each interface |
//! | `topics` | how many topics a WebSocket may have, and the notice that they are of one worker |
//! | `turns` | how long tasks that receive keep the thread |

mod arrival;
mod departed;
mod end;
mod queue;
mod rare;
mod receiving;
mod socket;
mod sockets;
mod topics;
mod turns;

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use server::{CloseCode, Command, ExchangeId, MessageKind, Response};

pub(super) use self::arrival::Arrival;
pub(crate) use self::departed::DepartedBytes;
pub(crate) use self::end::End;
pub(crate) use self::receiving::{Form, Receiving};
pub(crate) use self::socket::{Phase, Socket};
pub(crate) use self::sockets::Sockets;
pub(crate) use self::topics::{TopicRules, check_topic};
pub(crate) use self::turns::Turns;
use super::exchanges::Exchanges;
use super::memory;
use crate::ffi;

/// Lets the interpreter step these types without a method call, and keeps one that is over.
pub(crate) fn prepare(py: Python<'_>) {
    ffi::step_directly::<Receiving>(py);
    ffi::keep::<Receiving>(py);
}

/// Whether a field belongs to the handshake, so that only the server sets it.
pub(crate) fn is_of_handshake(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"sec-websocket-";
    name.get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

impl Exchanges {
    /// The task in which a handler that has not ended runs, unless it has ended already.
    pub(crate) fn runs_in(&self, id: ExchangeId, task: Option<Py<PyAny>>) {
        let before = self.change(id, |open| std::mem::replace(&mut open.task, task));
        drop(before);
    }

    /// The application could not be called with a WebSocket, or not go on after its first step, in which it may have accepted.
    pub(crate) fn fail_handshake(&self, py: Python<'_>, id: ExchangeId) {
        if let Some(socket) = self.sockets.get(py, id)
            && socket.phase(py) == Phase::Open
        {
            return socket.handler_ends(py, CloseCode::INTERNAL_ERROR);
        }
        drop(self.sockets.remove(py, id));
        let failure = Response {
            status: 500,
            ..Response::default()
        };
        self.post(py, id, Command::Respond(failure));
        self.end(py, id, false);
    }

    /// From now on, `resumes` says whether tasks that wait for messages are resumed in the pass that brings them.
    pub(crate) fn set_wakes_directly(&self, resumes: bool) {
        self.wakes_directly.store(resumes, Ordering::Relaxed);
    }

    /// Whether tasks that wait for messages are resumed in the pass that brings them. Not if the application runs the loop in handlers.
    #[inline]
    pub(crate) fn wakes_directly(&self) -> bool {
        self.wakes_directly.load(Ordering::Relaxed) && !self.is_reentered()
    }

    /// Posts a message of a WebSocket.
    ///
    /// # Errors
    /// `MemoryError`.
    pub(super) fn post_message(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        kind: MessageKind,
        content: &[u8],
    ) -> PyResult<()> {
        let posted = self.mailbox.post_message(id, kind, content);
        posted.map_err(memory::error)?;
        self.watch.has_posted();
        self.wake_reactor(py);
        Ok(())
    }

    /// Posts a message to all WebSockets that subscribe to a topic.
    ///
    /// # Errors
    /// `MemoryError`.
    pub(crate) fn publish(
        &self,
        py: Python<'_>,
        topic: &[u8],
        kind: MessageKind,
        content: &[u8],
    ) -> PyResult<()> {
        self.topics.note(py);
        let posted = self.mailbox.publish(topic, kind, content);
        posted.map_err(memory::error)?;
        self.watch.has_posted();
        self.wake_reactor(py);
        Ok(())
    }
}
