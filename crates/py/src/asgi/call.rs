//! The `receive` and `send` of one request, and the progress of both.

use std::sync::Arc;

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::{Command, Content, ExchangeId, Responder, Response};

use super::extensions::Offered;
use super::last_start::LastStart;
use super::message::{Head, Message, Start};
use super::receive::Receiving;
use crate::ffi::GilCell;
use crate::run::awaitable::LoopTurn;
use crate::run::exchanges::{Exchanges, OpenExchange, STREAM_AHEAD_BYTES};

/// One call of an application. It is reused for one request after another as long as nothing else references it (`arguments.rs`).
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct AsgiCall {
    exchanges: Arc<Exchanges>,
    pub(super) offered: Offered,
    state: GilCell<State>,
}

/// What is filled in for each request.
#[derive(Default)]
pub(super) struct State {
    pub(super) id: Option<ExchangeId>,
    /// Method and path as received, for the log.
    title: Vec<u8>,
    pub(super) is_head: bool,
    pub(super) accepts_trailers: bool,
    pub(super) trailers: Vec<u8>,
    /// It is one of the open exchanges, which events can reach.
    is_open: bool,
    /// The application has ended: it receives nothing more.
    is_over: bool,
    request: Incoming,
    /// The application is in its first step: what it sends is kept for the caller, which writes it at once.
    pub(super) is_direct: bool,
    pub(super) progress: Progress,
    /// How much content is still expected after its first part, if its length is known and it may have any.
    left_bytes: Option<u64>,
    /// The head of the response or, before its start, that of the last one.
    pub(super) head: Head,
    /// The start that the head was read from, if it is likely to repeat.
    pub(super) known: LastStart,
    /// The content that was sent in the first step.
    pub(super) parts: Vec<Py<PyBytes>>,
    pub(super) parts_bytes: usize,
    /// The application announced more content, so the response is not framed as a whole.
    pub(super) is_streamed: bool,
    /// The application started another response although its client has gone: everything it sends is dropped.
    is_dropping: bool,
    /// What has been written of the response to the responder of the first step.
    pub(super) written: Written,
}

/// What the first step has written itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Written {
    #[default]
    Nothing,
    /// The head, and the content that was sent.
    Begun,
    /// The whole response.
    Whole,
}

/// How much of the request's content has been returned.
#[derive(Default)]
enum Incoming {
    /// All of it has arrived and has not been fetched.
    Whole(Option<Py<PyBytes>>),
    /// It arrives in parts.
    Parts,
    /// Its end was returned.
    #[default]
    Ended,
}

/// How much of the response has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    Nothing,
    /// The application sent the start, which is kept in `head`.
    Started,
    /// More of its content follows.
    Streaming,
    /// The content is complete, and a trailer section follows.
    Trailing,
    Complete,
}

/// What is left to do after a first step.
pub(crate) enum Direct {
    /// The response is written.
    Written,
    /// Nothing was sent that the client may see.
    Nothing,
    /// The response has started; its rest goes through the mailbox.
    Begun,
    /// The response goes through the mailbox.
    Posted,
}

impl AsgiCall {
    pub(crate) fn new(exchanges: &Arc<Exchanges>, offered: Offered) -> AsgiCall {
        AsgiCall {
            exchanges: Arc::clone(exchanges),
            offered,
            state: GilCell::default(),
        }
    }

    /// Makes this the call for `request`.
    ///
    /// # Errors
    /// `RuntimeError` when it is in use.
    pub(crate) fn fill(&self, py: Python<'_>, request: &server::Request<'_>) -> PyResult<()> {
        if request.content == Content::Later {
            self.exchanges.open(request.id, |_| {});
        }
        let content = match request.content {
            Content::Whole(b"") => Incoming::Whole(None),
            Content::Whole(content) => {
                Incoming::Whole(Some(crate::ffi::bytes(py, content)?.unbind()))
            }
            Content::Later => Incoming::Parts,
        };
        let head = request.head;
        self.with(py, |state| {
            state.id = Some(request.id);
            state.is_head = head.method() == wire::Method::Head;
            state.accepts_trailers = head.accepts_trailers();
            state.trailers.clear();
            state.is_open = matches!(content, Incoming::Parts);
            state.is_over = false;
            state.request = content;
            state.is_direct = true;
            state.progress = Progress::Nothing;
            state.parts.clear();
            state.parts_bytes = 0;
            state.is_streamed = false;
            state.is_dropping = false;
            state.written = Written::Nothing;
        })
    }

    /// Keeps what the log may need to know about the request.
    pub(crate) fn keep_title(&self, py: Python<'_>, request: &server::Request<'_>) -> PyResult<()> {
        let head = request.head;
        self.with(py, |state| {
            state.title.clear();
            crate::run::log::push_title(&mut state.title, head);
        })
    }

    pub(super) fn with<R>(
        &self,
        py: Python<'_>,
        reach: impl FnOnce(&mut State) -> R,
    ) -> PyResult<R> {
        self.state.reach(py, reach)
    }

    pub(crate) fn id(&self, py: Python<'_>) -> PyResult<ExchangeId> {
        let id = self.with(py, |state| state.id)?;
        id.ok_or_else(|| PyRuntimeError::new_err("this call has no request"))
    }

    /// Makes this one of the open exchanges, and changes it there. Without effect after the call: nothing would remove it again.
    pub(crate) fn open<T>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut OpenExchange) -> T,
    ) -> PyResult<T> {
        self.with(py, |state| state.is_open = true)?;
        match self.with(py, |state| state.is_over)? {
            true => Ok(change(&mut OpenExchange::default())),
            false => Ok(self.exchanges.open(self.id(py)?, change)),
        }
    }

    /// Wakes tasks in `receive()`, since the response is complete.
    pub(super) fn wake_readers(&self, py: Python<'_>) -> PyResult<()> {
        if self.with(py, |state| state.is_open)? {
            self.exchanges.wake_readers(py, self.id(py)?);
        }
        Ok(())
    }

    pub(crate) fn exchanges(&self) -> &Arc<Exchanges> {
        &self.exchanges
    }

    /// The first step has ended: writes a complete response, or posts what there is of an incomplete one.
    pub(crate) fn first_step_ends(
        &self,
        py: Python<'_>,
        responder: &mut Responder,
    ) -> PyResult<Direct> {
        let direct = self.with(py, |state| match (state.written, state.progress) {
            (Written::Whole, _) => {
                state.is_direct = false;
                Direct::Written
            }
            (Written::Begun, _) => Direct::Begun,
            (Written::Nothing, _) if !state.is_direct => Direct::Posted,
            (Written::Nothing, Progress::Nothing | Progress::Started) => {
                state.is_direct = false;
                Direct::Nothing
            }
            (Written::Nothing, Progress::Complete) if state.has_its_length() => {
                state.is_direct = false;
                state.write(py, responder);
                Direct::Written
            }
            (Written::Nothing, _) => Direct::Posted,
        })?;
        match direct {
            Direct::Written => self.close(py),
            Direct::Posted | Direct::Begun => self.leave_first_step(py)?,
            Direct::Nothing => {}
        }
        Ok(direct)
    }

    /// Whether the response is complete.
    pub(crate) fn is_complete(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.progress == Progress::Complete)
            .unwrap_or(false)
    }

    /// Whether the response has started, and nothing of it was posted.
    pub(crate) fn has_begun(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| state.progress == Progress::Started)
    }

    pub(super) fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        self.with(py, |state| state.progress)
    }

    /// Ends the call, and wakes tasks that the application left running and that still wait for it.
    pub(crate) fn close(&self, py: Python<'_>) {
        let open = self.with(py, |state| {
            state.is_over = true;
            let id = state.id.filter(|_| state.is_open);
            id.map(|id| (id, state.progress == Progress::Complete))
        });
        if let Ok(Some((id, is_complete))) = open {
            self.exchanges.end(py, id, is_complete);
        }
    }

    /// Whether nothing more comes from the client.
    pub(super) fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| {
            state.is_over || state.progress == Progress::Complete
        })
    }

    /// The response cannot be completed.
    pub(crate) fn fail(&self, py: Python<'_>) {
        if let Ok(id) = self.id(py) {
            self.exchanges.post(py, id, Command::Fail);
        }
    }

    /// The application raised.
    pub(crate) fn log_raised(&self, py: Python<'_>, error: &PyErr) {
        let was_reported = self.was_reported(py);
        if self
            .exchanges
            .stems_from_disconnection(py, error, was_reported)
        {
            crate::run::log::log_disconnected(py, &self.title(py), error);
        } else {
            crate::run::log::log_application(py, &self.title(py), Some(error));
        }
    }

    /// The application was cancelled, or interrupted. If the client still waits, it was not cancelled by the server, so the 500 has to be
    /// explained.
    pub(crate) fn log_cancelled(&self, py: Python<'_>, error: &PyErr) {
        if !self.is_complete(py) && !self.is_gone(py, false) {
            crate::run::log::log_application(py, &self.title(py), Some(error));
        }
    }

    /// The application returned before its response was complete, which is an error unless its client has gone.
    pub(crate) fn log_incomplete(&self, py: Python<'_>) {
        if !self.is_gone(py, false) && !self.was_reported(py) {
            crate::run::log::log_application(py, &self.title(py), None);
        }
    }

    /// Method and path of the request, for the log.
    pub(crate) fn title(&self, py: Python<'_>) -> String {
        let title = self.with(py, |state| state.title.escape_ascii().to_string());
        title.unwrap_or_default()
    }

    /// Whether what is sent goes nowhere: the client has disconnected, or the response was abandoned. Not checked during the first step.
    /// `begins` if it is the start of the response, which the open exchange then records.
    fn is_gone(&self, py: Python<'_>, begins: bool) -> bool {
        let checked = self.with(py, |state| {
            if state.is_direct && !state.is_over && !state.is_dropping {
                return (false, None);
            }
            let is_abandoned = state.is_over && state.progress != Progress::Complete;
            let id = state.id.filter(|_| !state.is_direct);
            (is_abandoned || state.is_dropping, id)
        });
        let id = match checked {
            Ok((true, _)) => return true,
            Ok((false, Some(id))) => id,
            _ => return false,
        };
        let mut exchanges = self.exchanges.lock();
        exchanges.get_mut(&id).is_some_and(|open| {
            open.has_begun |= begins;
            open.is_gone()
        })
    }

    /// Takes a message for the client. Returns an awaitable of its acceptance, unless it is accepted at once.
    #[inline(never)]
    pub(super) fn take<'py>(
        &self,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        let message = Message::read(message)?;
        if self.is_gone(py, matches!(message, Message::Start(_))) {
            return self.send_to_disconnected(py, message.continues());
        }
        let taken = match message {
            Message::Start(start) => self.start(py, &start).map(|()| None),
            Message::Body { body, more } => self.body(py, body, more),
            Message::Extension(kind, message) => self
                .extension(kind, &message)
                .and_then(|acceptance| self.posted(py, acceptance)),
        };
        match taken {
            Ok(acceptance) => Ok(acceptance),
            Err(error) => self.ignore_if_gone(py, error).map(|()| None),
        }
    }

    /// Whether the application is in its first step.
    #[inline]
    pub(super) fn is_in_first_step(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.is_direct).unwrap_or(false)
    }

    /// Whether a message has reported to the application that its client has gone.
    fn was_reported(&self, py: Python<'_>) -> bool {
        self.id(py).is_ok_and(|id| self.exchanges.was_reported(id))
    }

    /// Takes a message for a client that has gone. It is dropped, as the specification requires before version 2.4. An application that
    /// announces more content gets an exception, unless a message has reported the disconnection and it may still be ending.
    #[cold]
    fn send_to_disconnected<'py>(
        &self,
        py: Python<'py>,
        continues: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !continues {
            return Ok(None);
        }
        match self.exchanges.may_go_on(self.id(py)?) {
            // The task that got the message runs in the meantime and ends this task.
            true => LoopTurn::awaitable(py).map(Some),
            false => Err(self.exchanges.disconnection(py)),
        }
    }

    /// A message was out of place. If the client has gone, that is ignored: applications often start an error response then.
    #[cold]
    fn ignore_if_gone(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if !error.is_instance_of::<PyRuntimeError>(py) || !self.was_reported(py) {
            return Err(error);
        }
        self.with(py, |state| state.is_dropping = true)
    }

    /// The content of the request that can be returned now, and whether it is the last of it.
    pub(crate) fn next_content(
        &self,
        py: Python<'_>,
        part: Option<Py<PyBytes>>,
        is_last: bool,
    ) -> PyResult<Option<(Option<Py<PyBytes>>, bool)>> {
        self.with(py, |state| match &mut state.request {
            Incoming::Whole(content) => {
                let content = content.take();
                state.request = Incoming::Ended;
                Some((content, true))
            }
            Incoming::Parts if part.is_some() || is_last => {
                if is_last {
                    state.request = Incoming::Ended;
                }
                Some((part, is_last))
            }
            Incoming::Parts | Incoming::Ended => None,
        })
    }

    /// Whether more of the content has to be requested from the server.
    pub(crate) fn has_more(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| matches!(state.request, Incoming::Parts))
    }

    fn start(&self, py: Python<'_>, start: &Start<'_>) -> PyResult<()> {
        let (head, may_be_direct) = self.with(py, |state| {
            let is_known = state.known.is(start);
            // Until the request's content has arrived, a call cannot send.
            let may_be_direct = !matches!(state.request, Incoming::Parts);
            match state.progress {
                Progress::Nothing if is_known => {
                    state.progress = Progress::Started;
                    Ok((None, may_be_direct))
                }
                Progress::Nothing => {
                    state.known.forget();
                    Ok((Some(std::mem::take(&mut state.head)), may_be_direct))
                }
                _ => Err(started_before()),
            }
        })??;
        let has_trailers = match head {
            Some(head) => self.read_start(py, start, head)?,
            None => false,
        };
        match may_be_direct && !has_trailers {
            true => Ok(()),
            false => self.leave_first_step(py),
        }
    }

    /// Reads the start of a response, and returns whether it announces a trailer section. This may run an iterator of the application, so
    /// the state is not borrowed meanwhile.
    fn read_start(&self, py: Python<'_>, start: &Start<'_>, mut head: Head) -> PyResult<bool> {
        head.clear();
        start.read(&mut head)?;
        self.exchanges.left_out.note(py, head.ours);
        let has_trailers = head.has_trailers;
        self.with(py, |state| match state.progress {
            Progress::Nothing => {
                state.head = head;
                state.known.keep(start);
                state.progress = Progress::Started;
                Ok(has_trailers)
            }
            // That iterator sent a start too.
            _ => Err(started_before()),
        })?
    }

    /// Takes a part of the content. Returns an awaitable of its acceptance, unless it is accepted at once.
    fn body<'py>(
        &self,
        py: Python<'py>,
        part: Option<Bound<'py, PyBytes>>,
        more: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let content = part.as_ref().map_or(&b""[..], |part| part.as_bytes());
        let (before, kept) = self.with(py, |state| {
            let before = state.advance(more, content.len() as u64)?;
            if let (true, Some(id)) = (state.is_direct, state.id) {
                let write = |responder: &mut Responder| state.write_now(responder, content, more);
                let is_written = self.exchanges.write_in_call(py, id, write);
                if is_written != Some(true) {
                    state.keep(part.as_ref());
                }
            }
            let kept = state
                .is_direct
                .then_some((state.parts_bytes, state.is_open));
            PyResult::Ok((before, kept))
        })??;
        let Some((ahead_bytes, is_open)) = kept else {
            let part = part.unwrap_or_else(|| PyBytes::new(py, b""));
            let posted = self.post_body(py, &part, before == Progress::Started, more);
            let acceptance = posted.inspect_err(|error| {
                if error.is_instance_of::<PyMemoryError>(py) {
                    // The response may count as complete already.
                    self.fail(py);
                }
            })?;
            return self.posted(py, acceptance);
        };
        if !more && is_open {
            self.wake_readers(py)?;
        }
        // The amount kept is limited to the number of bytes that a response may be ahead.
        if !more || ahead_bytes <= STREAM_AHEAD_BYTES {
            return Ok(None);
        }
        self.leave_first_step(py)?;
        let id = self.id(py)?;
        // A response without content does not wait for the client.
        match self.exchanges.change(id, |open| open.is_discarding) {
            Some(true) => self.posted(py, None),
            _ => self.exchanges.wait_to_write(py, id).map(Some),
        }
    }
}

impl State {
    /// The head of the response, for the mailbox.
    pub(super) fn take_response(&mut self) -> Response {
        self.known.forget();
        std::mem::take(&mut self.head.response)
    }

    /// Records that a part of the content is sent, or the last of it. Returns the previous progress.
    ///
    /// # Errors
    /// `RuntimeError` if content may not be sent now, or does not have the announced length; nothing has changed then.
    pub(super) fn advance(&mut self, more: bool, bytes: u64) -> PyResult<Progress> {
        let before = self.progress;
        match before {
            Progress::Nothing => Err(PyRuntimeError::new_err(
                "send(): content was sent before http.response.start",
            )),
            Progress::Trailing | Progress::Complete => {
                Err(PyRuntimeError::new_err("send(): the response is complete"))
            }
            Progress::Started | Progress::Streaming => {
                self.count(more, bytes)?;
                self.progress = match (more, self.head.has_trailers) {
                    (true, _) => Progress::Streaming,
                    (false, true) => Progress::Trailing,
                    (false, false) => Progress::Complete,
                };
                self.is_streamed |= more;
                Ok(before)
            }
        }
    }

    /// Counts a part of the content, if its length is announced.
    #[inline]
    fn count(&mut self, more: bool, bytes: u64) -> PyResult<()> {
        let left = match self.progress {
            Progress::Started if self.head.response.length.is_none() || self.has_no_content() => {
                None
            }
            Progress::Started => self.head.response.length,
            _ => self.left_bytes,
        };
        self.left_bytes = match left.map(|left| left.checked_sub(bytes)) {
            None => None,
            Some(Some(left)) if more || left == 0 => Some(left),
            Some(left) => return Err(wrong_length(left.is_some())),
        };
        Ok(())
    }

    pub(super) fn has_no_content(&self) -> bool {
        self.is_head || !wire::may_generate_content(self.head.response.status)
    }

    /// Keeps a part of the content for the end of the first step.
    fn keep(&mut self, part: Option<&Bound<'_, PyBytes>>) {
        let Some(part) = part.filter(|part| !part.as_bytes().is_empty()) else {
            return;
        };
        self.parts_bytes += part.as_bytes().len();
        self.parts.push(part.clone().unbind());
    }
}

#[pymethods]
impl AsgiCall {
    /// Returns an awaitable of the next message from the client.
    fn receive(slf: Bound<'_, AsgiCall>) -> Receiving {
        Receiving::of(slf)
    }
}

/// The wording of other servers.
#[cold]
fn wrong_length(is_short: bool) -> PyErr {
    PyRuntimeError::new_err(match is_short {
        true => "Response content shorter than Content-Length",
        false => "Response content longer than Content-Length",
    })
}

fn started_before() -> PyErr {
    PyRuntimeError::new_err("send(): http.response.start was sent before")
}
