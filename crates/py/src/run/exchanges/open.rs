//! What is known of an exchange whose handler has not ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::run::parts::ResponseParts;

/// Time that an application has to end what it still sends, after a disconnection was reported to it.
const REPORTED_GRACE: Duration = Duration::from_millis(500);
/// The same for one that got no report, from the first part that was dropped. An application that sends a whole response in parts does not
/// notice the disconnection, and can finish its work after the response.
const UNREPORTED_GRACE: Duration = Duration::from_millis(200);

/// An exchange whose handler has not ended. An idle WebSocket is one, and needs its task only.
#[derive(Default)]
pub(crate) struct OpenExchange {
    /// The task that runs the handler.
    pub(crate) task: Option<Py<PyAny>>,
    rare: Option<Box<Rare>>,
    /// Number of bytes written since the peer last had everything.
    pub(crate) ahead_bytes: usize,
    pub(crate) content_ended: bool,
    /// The task only sends a streamed response.
    pub(crate) is_streamed: bool,
    /// The content arrives in parts, and its end has not been read.
    pub(crate) has_unread: bool,
    /// The application reads it.
    pub(crate) is_read: bool,
    /// The peer is gone.
    pub(crate) is_disconnected: bool,
    /// The peer has ended its sending side, and seems to be gone.
    pub(crate) peer_ended: bool,
    /// The application has started to respond, and no part of the content was sent yet.
    pub(crate) has_begun: bool,
    /// The response has no content: what the application still sends is discarded.
    pub(crate) is_discarding: bool,
}

/// What most exchanges never need.
#[derive(Default)]
pub(crate) struct Rare {
    /// What the server pulls the response from.
    pub(crate) parts: Option<ResponseParts>,
    /// The request object of a response that is pulled, for the log.
    pub(crate) request: Option<Py<PyAny>>,
    /// Content that has arrived and was not fetched.
    pub(crate) content: VecDeque<Py<PyBytes>>,
    /// Futures of the tasks that wait for content, or for its end.
    pub(crate) readers: Vec<Py<PyAny>>,
    /// Futures of the tasks that wait until everything has been sent.
    pub(crate) writers: Vec<Py<PyAny>>,
    /// Futures of the tasks that wait until the peer has left, or the exchange is over.
    pub(crate) watchers: Vec<Py<PyAny>>,
    /// The task that sends a stream was cancelled because the peer has left; what it does at its end is not interrupted again.
    pub(crate) is_stream_cancelled: bool,
    /// When a message reported the peer's end to the application, or woke it to fetch the report.
    pub(crate) reported_at: Option<Instant>,
    /// When it first sent a part that was dropped.
    dropped_since: Option<Instant>,
}

impl OpenExchange {
    /// What most exchanges never need, created if necessary.
    #[inline]
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The same, if there is any of it.
    pub(crate) fn known_rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    fn take<T: Default>(&mut self, which: impl FnOnce(&mut Rare) -> &mut T) -> T {
        let rare = self.rare.as_deref_mut();
        rare.map(|rare| std::mem::take(which(rare)))
            .unwrap_or_default()
    }

    /// Takes the first part of the content that has arrived.
    #[inline]
    pub(crate) fn take_content(&mut self) -> Option<Py<PyBytes>> {
        self.rare.as_mut()?.content.pop_front()
    }

    /// Whether no content waits.
    pub(crate) fn has_no_content(&self) -> bool {
        self.rare
            .as_ref()
            .is_none_or(|rare| rare.content.is_empty())
    }

    /// The parts of a response that is pulled.
    pub(crate) fn take_parts(&mut self) -> Option<ResponseParts> {
        self.take(|rare| &mut rare.parts)
    }

    /// The tasks that wait for content.
    pub(crate) fn take_readers(&mut self) -> Vec<Py<PyAny>> {
        self.take(|rare| &mut rare.readers)
    }

    /// The tasks that wait until everything has been sent.
    pub(crate) fn take_writers(&mut self) -> Vec<Py<PyAny>> {
        self.take(|rare| &mut rare.writers)
    }

    /// The tasks that wait for the end.
    pub(crate) fn take_watchers(&mut self) -> Vec<Py<PyAny>> {
        self.take(|rare| &mut rare.watchers)
    }

    /// When the application was notified of the peer's end.
    pub(crate) fn reported_at(&self) -> Option<Instant> {
        self.rare.as_ref()?.reported_at
    }

    /// Whether the task that sends its stream was cancelled.
    pub(crate) fn is_stream_cancelled(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.is_stream_cancelled)
    }

    pub(in crate::run) fn was_just_reported(&self) -> bool {
        self.reported_at()
            .is_some_and(|at| at.elapsed() < REPORTED_GRACE)
    }

    /// Whether an application that sends to a disconnected client may continue.
    pub(in crate::run) fn may_go_on(&mut self) -> bool {
        match self.reported_at() {
            Some(_) => self.was_just_reported(),
            None => {
                let since = self.rare().dropped_since.get_or_insert_with(Instant::now);
                since.elapsed() < UNREPORTED_GRACE
            }
        }
    }

    /// Whether what the application sends goes nowhere: the peer is gone, or the response has no content and is complete.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_disconnected || (self.peer_ended && self.is_discarding)
    }

    /// Whether the peer has disconnected, as far as is known. A peer that has only ended its side has not, while the application reads what
    /// it sent.
    pub(crate) fn has_left(&self) -> bool {
        self.is_disconnected || (self.peer_ended && !(self.has_unread && self.is_read))
    }

    /// Takes, once, the task that sends a stream to a disconnected peer. Not while there is content, which the stream may be made from.
    pub(in crate::run) fn take_stream(&mut self, py: Python<'_>) -> Option<Py<PyAny>> {
        let has_left = self.is_disconnected || (self.peer_ended && !self.has_unread);
        if !self.is_streamed || !has_left || self.is_stream_cancelled() {
            return None;
        }
        let task = self.task.as_ref()?.clone_ref(py);
        self.rare().is_stream_cancelled = true;
        Some(task)
    }
}
