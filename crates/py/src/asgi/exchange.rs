//! One request's `receive` and `send`, and how far both are.

use std::ffi::CStr;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::{Command, Content, ExchangeId, Fields, Outcome, Responder, Response};

use super::known::Known;
use super::message::{Head, Message, Start};
use super::receive::Receiving;
use crate::ffi::{Held, Method};
use crate::shared::{OpenExchange, STREAM_AHEAD_BYTES, Shared};

/// A field section that grew beyond this is not kept for the next request.
const KEPT_BYTES: usize = 4096;

/// The exchange of an application. It is used for one request after another as long as nobody keeps it (`kit.rs`).
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    state: Held<State>,
}

/// What is filled in for each request.
#[derive(Default)]
pub(super) struct State {
    pub(super) id: Option<ExchangeId>,
    /// Method and path as they were received, for the log.
    title: Vec<u8>,
    pub(super) is_head: bool,
    pub(super) accepts_trailers: bool,
    pub(super) trailers: Vec<u8>,
    /// It is among the open exchanges: there is something to reach it for.
    is_open: bool,
    /// The application has ended: nothing comes to it any more.
    is_over: bool,
    request: Incoming,
    /// The application is in its first step: what it sends is kept for the caller, which writes it at once.
    pub(super) is_direct: bool,
    pub(super) progress: Progress,
    /// The head of the answer, or before its start that of the last one.
    pub(super) head: Head,
    /// The start that the head was read from, if it may come again.
    known: Known,
    /// The content that was sent in the first step.
    pub(super) parts: Vec<Py<PyBytes>>,
    pub(super) parts_bytes: usize,
    /// The application said that more content follows: it is not framed as a whole.
    is_streamed: bool,
}

/// How far the content of the request is.
#[derive(Default)]
enum Incoming {
    /// All of it is here and was not fetched.
    Whole(Option<Py<PyBytes>>),
    /// It comes part by part.
    Parts,
    /// Its end was given.
    #[default]
    Ended,
}

/// How far the answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    Nothing,
    /// Its start was sent to us.
    Started,
    /// More of its content follows.
    Streaming,
    /// The content is complete, and a trailer section follows.
    Trailing,
    Complete,
}

/// What a first step has left to do.
pub(crate) enum Direct {
    /// The answer is written.
    Answered,
    /// Nothing was sent that the client may see.
    Nothing,
    /// The answer goes through the mailbox.
    Posted,
}

impl Exchange {
    pub(crate) fn new(shared: &Arc<Shared>) -> Exchange {
        Exchange {
            shared: Arc::clone(shared),
            state: Held::default(),
        }
    }

    /// Makes it the exchange of `request`.
    ///
    /// # Errors
    /// `RuntimeError` when it is in use.
    pub(crate) fn fill(&self, py: Python<'_>, request: &server::Request<'_>) -> PyResult<()> {
        if request.content == Content::Later {
            self.shared.open(request.id, |_| {});
        }
        let content = match request.content {
            Content::Whole(b"") => Incoming::Whole(None),
            Content::Whole(content) => Incoming::Whole(Some(PyBytes::new(py, content).unbind())),
            Content::Later => Incoming::Parts,
        };
        let head = request.head;
        self.with(py, |state| {
            state.id = Some(request.id);
            state.is_head = head.method == wire::Method::Head;
            state.accepts_trailers = head.accepts_trailers;
            state.trailers.clear();
            state.is_open = matches!(content, Incoming::Parts);
            state.is_over = false;
            state.request = content;
            state.is_direct = true;
            state.progress = Progress::Nothing;
            state.parts.clear();
            state.parts_bytes = 0;
            state.is_streamed = false;
        })
    }

    /// Keeps what the log may have to say of the request.
    pub(crate) fn keep_title(&self, py: Python<'_>, request: &server::Request<'_>) -> PyResult<()> {
        let head = request.head;
        self.with(py, |state| {
            state.title.clear();
            for part in [head.method_name, b" ", head.path] {
                state.title.extend_from_slice(part);
            }
        })
    }

    pub(super) fn with<R>(
        &self,
        py: Python<'_>,
        reach: impl FnOnce(&mut State) -> R,
    ) -> PyResult<R> {
        let reached = self.state.with(py, reach);
        reached.ok_or_else(|| PyRuntimeError::new_err("this exchange is in use already"))
    }

    pub(crate) fn id(&self, py: Python<'_>) -> PyResult<ExchangeId> {
        let id = self.with(py, |state| state.id)?;
        id.ok_or_else(|| PyRuntimeError::new_err("this exchange has no request"))
    }

    /// Makes it one of the open exchanges, and changes it there.
    pub(crate) fn open<T>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut OpenExchange) -> T,
    ) -> PyResult<T> {
        self.with(py, |state| state.is_open = true)?;
        Ok(self.shared.open(self.id(py)?, change))
    }

    /// Whoever waits in `receive()` learns that the answer is complete.
    pub(super) fn wake_readers(&self, py: Python<'_>) -> PyResult<()> {
        if self.with(py, |state| state.is_open)? {
            self.shared.wake_readers(py, self.id(py)?);
        }
        Ok(())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The first step is over: an answer that is complete is written, what there is of another one is posted.
    pub(crate) fn first_step_ends(
        &self,
        py: Python<'_>,
        responder: &mut Responder<'_>,
    ) -> PyResult<Direct> {
        let direct = self.with(py, |state| match (state.is_direct, state.progress) {
            (false, _) => Direct::Posted,
            (true, Progress::Nothing | Progress::Started) => {
                state.is_direct = false;
                Direct::Nothing
            }
            (true, Progress::Complete) if state.has_its_length() => {
                state.is_direct = false;
                state.write(py, responder);
                Direct::Answered
            }
            (true, _) => Direct::Posted,
        })?;
        match direct {
            Direct::Answered => self.close(py),
            Direct::Posted => self.leave_first_step(py)?,
            Direct::Nothing => {}
        }
        Ok(direct)
    }

    /// Whether the answer is complete.
    pub(crate) fn is_complete(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.progress == Progress::Complete)
            .unwrap_or(false)
    }

    pub(super) fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        self.with(py, |state| state.progress)
    }

    /// Forgets the exchange. Whoever still waits for it, in a task that the application left behind, learns that it is over.
    pub(crate) fn close(&self, py: Python<'_>) {
        let open = self.with(py, |state| {
            state.is_over = true;
            let id = state.id.filter(|_| state.is_open);
            id.map(|id| (id, state.progress == Progress::Complete))
        });
        if let Ok(Some((id, is_complete))) = open {
            self.shared.end(py, id, is_complete);
        }
    }

    /// Whether nothing comes from the client any more.
    pub(super) fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| {
            state.is_over || state.progress == Progress::Complete
        })
    }

    /// The answer cannot be completed.
    pub(crate) fn fail(&self, py: Python<'_>) {
        if let Ok(id) = self.id(py) {
            self.shared.post(py, id, Command::Fail);
        }
    }

    /// The application raised.
    pub(crate) fn log_raised(&self, py: Python<'_>, error: &PyErr) {
        if self.shared.stems_from_disconnection(py, error) {
            crate::driver::log_disconnected(py, &self.title(py), error);
        } else {
            crate::driver::log_application(py, &self.title(py), Some(error));
        }
    }

    /// The application returned without a complete answer.
    pub(crate) fn log_incomplete(&self, py: Python<'_>) {
        if !self.is_gone(py) {
            crate::driver::log_application(py, &self.title(py), None);
        }
    }

    fn title(&self, py: Python<'_>) -> String {
        let title = self.with(py, |state| state.title.escape_ascii().to_string());
        title.unwrap_or_default()
    }

    /// Nobody takes what is sent: the client has gone, or the answer was given up. In the first step nobody has looked.
    fn is_gone(&self, py: Python<'_>) -> bool {
        let standing = self.with(py, |state| {
            let is_given_up = state.is_over && state.progress != Progress::Complete;
            (is_given_up, state.id.filter(|_| !state.is_direct))
        });
        let id = match standing {
            Ok((true, _)) => return true,
            Ok((false, Some(id))) => id,
            _ => return false,
        };
        let exchanges = self.shared.exchanges();
        exchanges.get(&id).is_some_and(|open| open.is_disconnected)
    }

    /// The content of the request that can be given now, and whether it is the last of it.
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

    /// Whether more of the content has to be asked for.
    pub(crate) fn has_more(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| matches!(state.request, Incoming::Parts))
    }

    fn start(&self, py: Python<'_>, start: &Start<'_>) -> PyResult<()> {
        // Reading it may run the application's own iterator, so it is not read into the state.
        let head = self.with(py, |state| {
            let is_known = state.known.is(start);
            match state.progress {
                Progress::Nothing if is_known => {
                    state.progress = Progress::Started;
                    Ok(None)
                }
                Progress::Nothing => {
                    state.known.forget();
                    Ok(Some(std::mem::take(&mut state.head)))
                }
                _ => Err(started_before()),
            }
        })??;
        let Some(mut head) = head else {
            return Ok(());
        };
        head.clear();
        start.read(&mut head)?;
        let has_trailers = head.has_trailers;
        self.with(py, |state| match state.progress {
            Progress::Nothing => {
                state.head = head;
                state.known.keep(start);
                state.progress = Progress::Started;
                Ok(())
            }
            // That iterator sent too.
            _ => Err(started_before()),
        })??;
        if has_trailers {
            self.leave_first_step(py)?;
        }
        Ok(())
    }

    /// Takes a part of the content; gives what to wait for until it is accepted, if it is not at once.
    fn body<'py>(
        &self,
        py: Python<'py>,
        part: Option<Bound<'py, PyBytes>>,
        more: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (before, is_direct) = self.with(py, |state| {
            let before = state.advance(more)?;
            if state.is_direct {
                state.keep(part.as_ref());
            }
            PyResult::Ok((before, state.is_direct))
        })??;
        if is_direct {
            return self.kept(py, more);
        }
        let part = part.as_ref().map_or(&b""[..], |part| part.as_bytes());
        self.post_body(py, part, before == Progress::Started, more)
    }

    /// A part was kept: sees to it that no more is kept than an answer may be ahead.
    fn kept<'py>(&self, py: Python<'py>, more: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ahead_bytes = self.with(py, |state| state.parts_bytes)?;
        if !more {
            self.wake_readers(py)?;
        }
        if !more || ahead_bytes <= STREAM_AHEAD_BYTES {
            return Ok(None);
        }
        self.leave_first_step(py)?;
        self.shared.wait_to_write(py, self.id(py)?).map(Some)
    }
}

impl State {
    /// The head of the answer, for the mailbox.
    pub(super) fn take_response(&mut self) -> Response {
        self.known.forget();
        std::mem::take(&mut self.head.response)
    }

    /// A part of the content is sent, or the last of it. Gives how far the answer was before.
    ///
    /// # Errors
    /// `RuntimeError` when none may be sent now.
    pub(super) fn advance(&mut self, more: bool) -> PyResult<Progress> {
        let before = self.progress;
        match before {
            Progress::Nothing => Err(PyRuntimeError::new_err(
                "send(): content came before http.response.start",
            )),
            Progress::Trailing | Progress::Complete => {
                Err(PyRuntimeError::new_err("send(): the response is complete"))
            }
            Progress::Started | Progress::Streaming => {
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

    /// Whether the content that was sent is as long as the application says, if it says. Where none is sent, the length may tell of another
    /// one (RFC 9110 section 8.6).
    fn has_its_length(&self) -> bool {
        let is_as_said = |length| length == self.parts_bytes as u64;
        self.head.response.length.is_none_or(is_as_said)
            || (self.parts.is_empty() && self.has_no_content())
    }

    /// Writes an answer that is complete.
    fn write(&mut self, py: Python<'_>, responder: &mut Responder<'_>) {
        let (response, fields) = (&self.head.response, self.head.fields());
        if self.is_streamed {
            if responder.begin(response.status, fields, response.length) {
                for part in &self.parts {
                    responder.push_part(part.as_bytes(py));
                }
                responder.finish();
            }
        } else if self.has_no_content() {
            // What was sent, if anything was, is as long as the content would be.
            let sent = (!self.parts.is_empty()).then_some(self.parts_bytes as u64);
            responder.begin(response.status, fields, response.length.or(sent));
        } else {
            let content = self.parts.first().map(|part| part.as_bytes(py));
            responder.respond(response.status, fields, content.unwrap_or_default());
        }
        self.parts.clear();
        if self.head.response.fields.capacity() > KEPT_BYTES {
            self.head = Head::default();
            self.known.forget();
        }
    }
}

/// `send`: takes a message for the client and gives an awaitable.
impl Method for Exchange {
    const METHOD_NAME: &'static CStr = c"send";

    fn is_called_inside(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.is_direct).unwrap_or(false)
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_gone(py) {
            return Err(self.shared.disconnection(py));
        }
        let awaitable = match Message::read(message)? {
            Message::Start(start) => {
                self.start(py, &start)?;
                None
            }
            Message::Body { body, more } => self.body(py, body, more)?,
            Message::Extension(kind, message) => self.extension(kind, &message)?,
        };
        awaitable.map_or_else(|| self.shared.done(py), Ok)
    }
}

#[pymethods]
impl Exchange {
    /// Gives an awaitable of the next message from the client.
    fn receive(slf: Bound<'_, Exchange>) -> Receiving {
        Receiving::of(slf)
    }
}

fn started_before() -> PyErr {
    PyRuntimeError::new_err("send(): http.response.start was sent before")
}

/// The answer of an application that failed before it began one.
pub(crate) fn failure(responder: &mut Responder<'_>) -> Outcome {
    if !responder.is_answered() {
        let fields = Fields::constant(crate::response::TEXT);
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Answered
}
