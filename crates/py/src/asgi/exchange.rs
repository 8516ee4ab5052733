//! One request's `receive` and `send`, and how far both are.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use server::{Command, Content, ExchangeId, Response};

use super::message::Message;
use crate::ffi::Held;
use crate::shared::Shared;
use crate::stream::awaitable;

/// The exchange of an application; called, it is `send`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Exchange {
    id: ExchangeId,
    shared: Arc<Shared>,
    /// Method and path as they were received, for the log.
    title: Box<[u8]>,
    is_head: bool,
    state: Held<State>,
}

#[derive(Default)]
struct State {
    /// The application is in its first step: a whole answer is kept for the caller, which writes it at once.
    is_direct: bool,
    request: Incoming,
    response: Outgoing,
}

/// How far the content of the request is.
#[derive(Default)]
enum Incoming {
    /// All of it is here and was not fetched.
    Whole(Vec<u8>),
    /// It comes part by part.
    Parts,
    /// Its end was given.
    #[default]
    Ended,
}

/// How far the answer is.
#[derive(Default)]
enum Outgoing {
    #[default]
    Nothing,
    /// Its start was sent to us, and nothing to the client.
    Started(Response),
    /// Complete, and kept for the caller.
    Whole(Response),
    /// Its head is on its way.
    Streaming,
    /// Its head is all of it (HEAD, 204, 304): the rest is dropped.
    Discarding,
    Complete,
}

impl Exchange {
    pub(crate) fn new(request: &server::Request<'_>, shared: &Arc<Shared>) -> Exchange {
        let state = State {
            is_direct: true,
            request: match request.content {
                Content::Whole(content) => Incoming::Whole(content.to_vec()),
                Content::Later => Incoming::Parts,
            },
            response: Outgoing::Nothing,
        };
        let head = request.head;
        Exchange {
            id: request.id,
            shared: Arc::clone(shared),
            title: [head.method_name, b" ", head.path].concat().into(),
            is_head: head.method == wire::Method::Head,
            state: Held::of(state),
        }
    }

    pub(crate) fn id(&self) -> ExchangeId {
        self.id
    }

    fn title(&self) -> String {
        self.title.escape_ascii().to_string()
    }

    fn with<R>(&self, py: Python<'_>, reach: impl FnOnce(&mut State) -> R) -> PyResult<R> {
        let reached = self.state.with(py, reach);
        reached.ok_or_else(|| PyRuntimeError::new_err("this exchange is in use already"))
    }

    /// The first step is over. A whole answer, if there is one; then the exchange is over too, as far as the server is concerned.
    pub(crate) fn first_step_ends(&self, py: Python<'_>) -> PyResult<Option<Response>> {
        let whole = self.with(py, |state| {
            state.is_direct = false;
            match std::mem::take(&mut state.response) {
                Outgoing::Whole(response) => {
                    state.response = Outgoing::Complete;
                    Some(response)
                }
                other => {
                    state.response = other;
                    None
                }
            }
        })?;
        if whole.is_some() {
            self.close();
        }
        Ok(whole)
    }

    /// Whether the answer is complete.
    pub(crate) fn is_complete(&self, py: Python<'_>) -> bool {
        let is_complete =
            |state: &mut State| matches!(state.response, Outgoing::Complete | Outgoing::Whole(_));
        self.with(py, is_complete).unwrap_or(false)
    }

    /// Whether something of the answer may have reached the client.
    pub(crate) fn has_begun(&self, py: Python<'_>) -> bool {
        let has_begun =
            |state: &mut State| !matches!(state.response, Outgoing::Nothing | Outgoing::Started(_));
        self.with(py, has_begun).unwrap_or(false)
    }

    /// Forgets the exchange.
    pub(crate) fn close(&self) {
        drop(self.shared.close(self.id));
    }

    /// The answer cannot be completed.
    pub(crate) fn fail(&self, py: Python<'_>) {
        self.shared.post(py, self.id, Command::Fail);
    }

    /// Ends an answer that was begun in the first step.
    pub(crate) fn end_cut(&self, py: Python<'_>) {
        if !self.is_complete(py) {
            self.fail(py);
        }
        self.close();
    }

    pub(crate) fn log_raised(&self, py: Python<'_>, error: &PyErr) {
        let is_disconnection = self.shared.is_disconnection(py, error);
        if !is_disconnection {
            crate::driver::log_application(py, &self.title(), Some(error));
        }
    }

    pub(crate) fn log_incomplete(&self, py: Python<'_>) {
        if !self.is_gone() {
            crate::driver::log_application(py, &self.title(), None);
        }
    }

    /// The client has gone, or the server has forgotten the exchange.
    fn is_gone(&self) -> bool {
        let exchanges = self.shared.exchanges();
        exchanges
            .get(&self.id)
            .is_some_and(|open| open.is_disconnected)
    }

    /// The next message for the application, or None as long as there is none.
    fn next_message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let is_complete = self.is_complete(py);
        let standing = {
            let mut exchanges = self.shared.exchanges();
            exchanges.get_mut(&self.id).map(|open| {
                let part = open.content.pop_front();
                let is_last = open.content_ended && open.content.is_empty();
                (part, is_last, open.is_disconnected, open.peer_ended)
            })
        };
        let (part, is_last, is_gone, peer_ended) = standing.unwrap_or((None, false, false, false));
        let ends = self.with(py, |state| match &mut state.request {
            Incoming::Whole(content) => {
                let content = std::mem::take(content);
                state.request = Incoming::Ended;
                Some((content, true))
            }
            Incoming::Parts if part.is_some() || is_last => {
                if is_last {
                    state.request = Incoming::Ended;
                }
                Some((part.unwrap_or_default(), is_last))
            }
            Incoming::Parts | Incoming::Ended => None,
        })?;
        if is_complete || is_gone {
            return Ok(Some(disconnect(py)?));
        }
        if let Some((content, is_last)) = ends {
            let message = PyDict::new(py);
            message.set_item(pyo3::intern!(py, "type"), pyo3::intern!(py, "http.request"))?;
            message.set_item(pyo3::intern!(py, "body"), PyBytes::new(py, &content))?;
            message.set_item(pyo3::intern!(py, "more_body"), !is_last)?;
            return Ok(Some(message));
        }
        if peer_ended {
            return Ok(Some(disconnect(py)?));
        }
        Ok(None)
    }

    /// A future that is done when there may be a message.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.shared.wait_to_read(py, self.id)?;
        if self.with(py, |state| matches!(state.request, Incoming::Parts))? {
            self.shared.post(py, self.id, Command::Read);
        }
        Ok(future)
    }

    fn start(&self, py: Python<'_>, response: Response) -> PyResult<()> {
        self.with(py, |state| match state.response {
            Outgoing::Nothing => {
                state.response = Outgoing::Started(response);
                Ok(())
            }
            _ => Err(PyRuntimeError::new_err(
                "send(): http.response.start was sent before",
            )),
        })?
    }

    /// Takes a part of the content. Gives the bytes to wait for, if they have to be sent now.
    fn body<'py>(
        &self,
        py: Python<'py>,
        content: Vec<u8>,
        more: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (before, is_direct) = self.with(py, |state| {
            (std::mem::take(&mut state.response), state.is_direct)
        })?;
        let mut awaitable = None;
        let after = match (before, more) {
            (Outgoing::Started(mut response), false) if self.is_whole(&response, &content) => {
                response.content = content;
                if is_direct {
                    Outgoing::Whole(response)
                } else {
                    self.post_whole(py, response);
                    Outgoing::Complete
                }
            }
            (Outgoing::Started(response), true) if self.has_no_content(response.status) => {
                self.shared.open(self.id, |open| open.is_discarding = true);
                self.shared.post(py, self.id, Command::Begin(response));
                Outgoing::Discarding
            }
            (Outgoing::Started(response), _) => {
                self.shared.open(self.id, |_| {});
                self.shared.post(py, self.id, Command::Begin(response));
                self.part(py, content, more, &mut awaitable)
            }
            (Outgoing::Streaming, _) => self.part(py, content, more, &mut awaitable),
            (Outgoing::Discarding, true) => Outgoing::Discarding,
            (Outgoing::Discarding, false) => Outgoing::Complete,
            (Outgoing::Nothing, _) => {
                return Err(PyRuntimeError::new_err(
                    "send(): http.response.body came before http.response.start",
                ));
            }
            (done @ (Outgoing::Complete | Outgoing::Whole(_)), _) => {
                self.with(py, |state| state.response = done)?;
                return Err(PyRuntimeError::new_err("send(): the response is complete"));
            }
        };
        let is_complete = matches!(after, Outgoing::Complete);
        self.with(py, |state| state.response = after)?;
        if is_complete {
            self.wake_reader(py);
        }
        awaitable.unwrap_or_else(|| self.shared.done(py))
    }

    /// Sends a part of a streamed content. Behind the last one there is nothing to wait for.
    fn part<'py>(
        &self,
        py: Python<'py>,
        content: Vec<u8>,
        more: bool,
        awaitable: &mut Option<PyResult<Bound<'py, PyAny>>>,
    ) -> Outgoing {
        if more {
            *awaitable = Some(self.shared.write(py, self.id, content));
            return Outgoing::Streaming;
        }
        if !content.is_empty() {
            self.shared.post(py, self.id, Command::Write(content));
        }
        self.shared.post(py, self.id, Command::Finish);
        Outgoing::Complete
    }

    /// Whether a content that came at once is what its length says, so that the server may frame it anew. Where none is sent, the
    /// length may tell of another one (RFC 9110 section 8.6).
    fn is_whole(&self, response: &Response, content: &[u8]) -> bool {
        let is_as_said = |length| length == content.len() as u64;
        response.length.is_none_or(is_as_said)
            || (content.is_empty() && self.has_no_content(response.status))
    }

    /// Whether the head is all there is to send, with the length that the application says.
    pub(crate) fn is_head_only(&self, response: &Response) -> bool {
        response.content.is_empty() && self.has_no_content(response.status)
    }

    fn has_no_content(&self, status: u16) -> bool {
        self.is_head || !wire::may_generate_content(status)
    }

    fn post_whole(&self, py: Python<'_>, response: Response) {
        let command = match self.is_head_only(&response) {
            true => Command::Begin(response),
            false => Command::Respond(response),
        };
        self.shared.post(py, self.id, command);
    }

    /// Whoever waits in `receive()` learns that the answer is complete.
    fn wake_reader(&self, py: Python<'_>) {
        let reader = self.shared.change(self.id, |open| open.reader.take());
        if let Some(reader) = reader.flatten() {
            crate::shared::wake(py, &reader);
        }
    }
}

fn disconnect(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let message = PyDict::new(py);
    message.set_item(
        pyo3::intern!(py, "type"),
        pyo3::intern!(py, "http.disconnect"),
    )?;
    Ok(message)
}

#[pymethods]
impl Exchange {
    /// `send`: takes a message and gives an awaitable.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_gone() {
            return Err(self.shared.disconnection(py));
        }
        match Message::read(message)? {
            Message::Start(response) => {
                self.start(py, response)?;
                self.shared.done(py)
            }
            Message::Body { body, more } => {
                let content = match &body {
                    Some(body) => content_of(body)?,
                    None => Vec::new(),
                };
                self.body(py, content, more)
            }
        }
    }
}

/// The bytes of a body, copied: the application may change what it has sent.
fn content_of(body: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let buffer = pyo3::buffer::PyBuffer::<u8>::get(body)
        .map_err(|_| PyTypeError::new_err("send(): the body is a byte string"))?;
    buffer.to_vec(body.py())
}

/// `receive`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Receive {
    exchange: Py<Exchange>,
}

impl Receive {
    pub(crate) fn of(exchange: &Bound<'_, Exchange>) -> Receive {
        Receive {
            exchange: exchange.clone().unbind(),
        }
    }
}

#[pymethods]
impl Receive {
    fn __call__(&self, py: Python<'_>) -> Receiving {
        Receiving {
            exchange: self.exchange.clone_ref(py),
        }
    }
}

/// The awaitable that `receive()` gives: it takes its message when it goes on, so that none is lost if it is cancelled.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Receiving {
    exchange: Py<Exchange>,
}

awaitable!(Receiving {
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let exchange = self.exchange.get();
        match exchange.next_message(py)? {
            Some(message) => Err(PyStopIteration::new_err((message.unbind(),))),
            None => exchange.wait(py),
        }
    }
});
