//! `start_response` and `write`, and the progress of a request's response.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use server::{Command, ExchangeId, Responder, Response};

use super::file_wrapper::Remains;
use super::head::Head;
use super::lane::Lane;
use crate::ffi::GilCell;
use crate::ffi::reuse::OurReferences;
use crate::run::exchanges::Exchanges;
use crate::run::left_out::LeftOut;
use crate::run::memory::{append, copy};

/// How many bytes `write` may keep on the reactor's thread.
const WRITTEN_BYTES_MAX: usize = 64 << 20;

/// One call of the application. Its method is `start_response`; called, it is `write`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct WsgiCall {
    state: GilCell<State>,
    caller: Caller,
    left_out: Arc<LeftOut>,
}

/// What calls the application.
#[derive(Clone)]
pub(super) enum Caller {
    /// A thread of the pool.
    Thread(Arc<Lane>),
    /// The reactor's thread.
    Reactor(Arc<Exchanges>),
}

/// How much of the response has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Progress {
    /// No request is in progress.
    #[default]
    Over,
    /// `start_response` was not called yet.
    Nothing,
    /// `start_response` was called; nothing was sent.
    Started,
    /// The head was sent.
    Sent,
}

/// The state of a response.
#[derive(Default)]
pub(super) struct State {
    pub(super) progress: Progress,
    id: Option<ExchangeId>,
    is_head: bool,
    pub(super) head: Head,
    /// What `write` has kept because nothing could be sent before the application returned.
    pub(super) written: Vec<u8>,
    /// Bytes that Content-Length announced and that were not sent yet.
    pub(super) owed: Option<u64>,
    /// The application returned more than it had announced.
    has_surplus: bool,
}

/// How a response is framed whose content is complete.
pub(super) enum Framing {
    /// This many bytes of it are the content.
    Whole(usize),
    /// Only the head is sent, with the length that the response to GET would have had (RFC 9110 section 8.6).
    HeadOnly(Option<u64>),
    /// The content is shorter than its Content-Length: the response cannot be completed.
    Short,
}

impl State {
    /// Whether the request or the status forbids content (RFC 9110 sections 9.3.2 and 6.4.1).
    pub(super) fn has_no_content(&self) -> bool {
        self.is_head || !wire::may_generate_content(self.head.status)
    }

    /// Whether nothing that follows would be sent. Of a file, nothing after the announced length is read; a generator may have work to do
    /// after its last block.
    pub(super) fn is_satisfied(&mut self, is_file: bool) -> bool {
        if is_file && self.owed == Some(0) {
            self.has_surplus = false;
            return true;
        }
        self.has_surplus || self.has_no_content()
    }

    /// Whether a first block is, by its announced length, the whole content.
    pub(super) fn is_all(&self, block: &[u8]) -> bool {
        self.progress == Progress::Started
            && self.written.is_empty()
            && !self.has_no_content()
            && self.head.length == Some(block.len() as u64)
    }

    /// Whether a response without any block is complete.
    pub(super) fn is_complete_without_content(&self) -> bool {
        self.progress == Progress::Started
            && self.written.is_empty()
            && (self.has_no_content() || self.head.length.is_none_or(|length| length == 0))
    }

    /// Writes a block after the previous ones, the first one with the head, and sends it. Returns false if it has to be kept.
    fn write_now(&mut self, responder: &mut Responder, block: &[u8]) -> bool {
        let may_begin = responder.can_send_now() && self.written.is_empty();
        match self.progress {
            Progress::Started if block.is_empty() => return true,
            Progress::Started if may_begin && responder.sends_content(self.head.status) => {
                responder.begin(self.head.status, self.head.fields(), self.head.length);
                self.progress = Progress::Sent;
                self.owed = self.head.length;
            }
            Progress::Sent if responder.unsent_bytes() <= WRITTEN_BYTES_MAX => {}
            _ => return false,
        }
        self.push(responder, block);
        responder.send_now();
        true
    }

    /// Writes a block of a response that was started, as far as it is within the announced length.
    pub(super) fn push(&mut self, responder: &mut Responder, block: &[u8]) {
        let within = self.within_length(block.len());
        responder.push_part(block.get(..within).unwrap_or(block));
    }

    /// Keeps a block until the application has returned.
    fn keep_written(&mut self, block: &[u8]) -> PyResult<()> {
        let is_too_much = self.written.len() + block.len() > WRITTEN_BYTES_MAX;
        if is_too_much || self.progress == Progress::Sent {
            return Err(PyRuntimeError::new_err(
                "write() with one thread keeps what the client does not read, and that is too much: return an iterable, or use --threads 2",
            ));
        }
        append(&mut self.written, block)
    }

    /// How content of this length is framed.
    pub(super) fn framing(&mut self, length: usize) -> Framing {
        let announced = self.head.length;
        if self.has_no_content() {
            let known = (length > 0).then_some(length as u64);
            return Framing::HeadOnly(announced.or(known));
        }
        let Some(announced) = announced else {
            return Framing::Whole(length);
        };
        match usize::try_from(announced) {
            Ok(announced) if announced <= length => {
                self.has_surplus |= announced < length;
                Framing::Whole(announced)
            }
            _ => Framing::Short,
        }
    }

    /// How much of a block is sent; the rest exceeds the announced length.
    fn within_length(&mut self, length: usize) -> usize {
        let Some(owed) = self.owed else {
            return length;
        };
        let most = usize::try_from(owed).map_or(length, |owed| owed.min(length));
        self.has_surplus |= most < length;
        self.owed = Some(owed - most as u64);
        most
    }
}

/// What one call of `send` has to post.
struct Posts {
    id: Option<ExchangeId>,
    begin: Option<Response>,
    has_content: bool,
    /// How much of the block is sent.
    count: usize,
}

impl WsgiCall {
    /// Passes to `post` the commands that send a file, with the head before it if that was not sent.
    ///
    /// # Errors
    /// `RuntimeError` if there is no head to send.
    pub(super) fn post_file(
        &self,
        py: Python<'_>,
        remains: Remains,
        post: impl FnMut(Command),
    ) -> PyResult<()> {
        let posts = self.with(py, |state| state.posts_of_file(remains))??;
        posts.into_iter().for_each(post);
        Ok(())
    }

    fn new(caller: Caller, left_out: Arc<LeftOut>) -> WsgiCall {
        WsgiCall {
            state: GilCell::default(),
            caller,
            left_out,
        }
    }

    /// Calls `reach` with the state. It must not run Python.
    pub(super) fn with<R>(
        &self,
        py: Python<'_>,
        reach: impl FnOnce(&mut State) -> R,
    ) -> PyResult<R> {
        self.state.reach(py, reach)
    }

    fn begin(&self, py: Python<'_>, id: ExchangeId, is_head: bool) -> PyResult<()> {
        self.with(py, |state| {
            state.progress = Progress::Nothing;
            state.id = Some(id);
            state.is_head = is_head;
            state.owed = None;
            state.has_surplus = false;
        })
    }

    /// Sends a block after the previous ones, the first one with the head, and waits while the client is too far behind.
    ///
    /// # Errors
    /// The disconnection, when the client has disconnected; `RuntimeError` when there is no head to send.
    pub(super) fn send(&self, py: Python<'_>, block: &[u8]) -> PyResult<()> {
        let lane = match &self.caller {
            Caller::Thread(lane) => lane,
            Caller::Reactor(exchanges) => return self.send_in_call(py, exchanges, block),
        };
        let posts = self.with(py, |state| state.posts_of(block))??;
        let Some(id) = posts.id else {
            return Ok(());
        };
        if let Some(response) = posts.begin {
            lane.begin_response(id, response, posts.has_content);
        }
        let part = block.get(..posts.count).unwrap_or(block);
        lane.write(py, id, copy(part)?)
    }

    /// Sends a block during the call, or keeps it if something has to be sent before it.
    fn send_in_call(&self, py: Python<'_>, exchanges: &Exchanges, block: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            let Some(id) = state.id else {
                return Ok(());
            };
            let write = |responder: &mut Responder| {
                let is_written = state.write_now(responder, block);
                (is_written, responder.is_broken())
            };
            match exchanges.write_in_call(py, id, write) {
                Some((_, true)) => Err(exchanges.disconnection(py)),
                Some((true, _)) => Ok(()),
                Some((false, _)) | None => state.keep_written(block),
            }
        })?
    }

    /// The response has ended.
    pub(super) fn end(&self, py: Python<'_>) -> PyResult<Ending> {
        self.with(py, |state| {
            state.progress = Progress::Over;
            state.written.clear();
            Ending {
                is_short: state.owed.is_some_and(|owed| owed > 0) && !state.has_no_content(),
                has_surplus: state.has_surplus,
            }
        })
    }
}

/// How the content of a response differed from its Content-Length.
pub(super) struct Ending {
    pub(super) is_short: bool,
    pub(super) has_surplus: bool,
}

impl State {
    /// The commands to post for a response that ends with the rest of a file.
    ///
    /// # Errors
    /// `RuntimeError` if there is no head to send.
    fn posts_of_file(&mut self, remains: Remains) -> PyResult<Vec<Command>> {
        let mut posts = Vec::new();
        match self.progress {
            Progress::Over | Progress::Nothing => return Err(not_started()),
            Progress::Sent => {}
            Progress::Started => {
                let mut response = self.head.to_response(Vec::new());
                let whole = remains.length() + self.written.len() as u64;
                response.length = response.length.or(Some(whole));
                self.progress = Progress::Sent;
                self.owed = response.length;
                posts.push(Command::Begin(response));
            }
        }
        if self.has_no_content() {
            posts.push(Command::Finish);
            return Ok(posts);
        }
        let mut written = std::mem::take(&mut self.written);
        written.truncate(self.within_length(written.len()));
        if !written.is_empty() {
            posts.push(Command::Write(written));
        }
        // An application may send less of a file than there is.
        let had_surplus = self.has_surplus;
        let length = usize::try_from(remains.length()).unwrap_or(usize::MAX);
        let within = self.within_length(length);
        self.has_surplus = had_surplus;
        match remains {
            Remains::Unread(mut part) => {
                part.length = within as u64;
                posts.push(Command::WriteFile(part));
            }
            Remains::Read(mut content) if within > 0 => {
                content.truncate(within);
                posts.push(Command::Write(content));
            }
            Remains::Read(_) => {}
        }
        posts.push(Command::Finish);
        Ok(posts)
    }

    fn posts_of(&mut self, block: &[u8]) -> PyResult<Posts> {
        let begin = match self.progress {
            Progress::Over => return Err(over()),
            Progress::Nothing => return Err(not_started()),
            // Nothing is sent before there is some content.
            Progress::Started if block.is_empty() => {
                return Ok(Posts {
                    id: None,
                    begin: None,
                    has_content: false,
                    count: 0,
                });
            }
            Progress::Started => {
                self.progress = Progress::Sent;
                self.owed = self.head.length;
                Some(self.head.to_response(Vec::new()))
            }
            Progress::Sent => None,
        };
        let has_content = !self.has_no_content();
        let count = match has_content {
            true => self.within_length(block.len()),
            false => 0,
        };
        Ok(Posts {
            id: self.id,
            begin,
            has_content,
            count,
        })
    }
}

#[pymethods]
impl WsgiCall {
    #[pyo3(signature = (status, headers, exc_info=None))]
    fn start_response<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, own) = (slf.py(), slf.get());
        let (progress, is_same) = own.with(py, |state| {
            let progress = state.progress;
            // The usual case: the same head as in the previous call.
            let is_same = progress == Progress::Nothing && state.head.is_of(status, headers);
            if is_same {
                state.progress = Progress::Started;
            }
            (progress, is_same)
        })?;
        if is_same {
            return Ok(slf.clone());
        }
        match (progress, exc_info) {
            (Progress::Nothing, _) | (Progress::Started, Some(_)) => {}
            (Progress::Over | Progress::Sent, Some(exc_info)) => return Err(reraised(exc_info)?),
            (Progress::Over, None) => return Err(over()),
            (Progress::Started | Progress::Sent, None) => return Err(called_before()),
        }
        // A list of another type runs Python when it is iterated over, so the state is not borrowed meanwhile.
        let mut head = own.with(py, |state| std::mem::take(&mut state.head))?;
        let read = head.read(status, headers);
        own.left_out.note(py, head.ours);
        let is_late = own.with(py, |state| {
            if matches!(state.progress, Progress::Sent | Progress::Over) {
                return true; // by what ran then
            }
            state.head = head;
            // Nothing of the written content was sent, or this call would have been refused.
            state.written.clear();
            state.progress = match read {
                Ok(()) => Progress::Started,
                Err(_) => Progress::Nothing,
            };
            false
        })?;
        if is_late {
            return Err(called_before());
        }
        read.map(|()| slf.clone())
    }

    /// `write`: sends a block at once.
    #[pyo3(signature = (data, /))]
    fn __call__(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(block) = data.cast::<PyBytes>() else {
            let kind = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "write() takes bytes, not {kind}"
            )));
        };
        if self.with(py, |state| state.progress == Progress::Over)? {
            return Err(over());
        }
        self.send(py, block.as_bytes())
    }
}

/// The exception of `exc_info`, to be raised again (PEP 3333, "The start_response() Callable").
fn reraised(exc_info: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let exception = exc_info.cast::<PyTuple>()?.get_item(1)?;
    Ok(PyErr::from_value(exception))
}

fn called_before() -> PyErr {
    PyRuntimeError::new_err(
        "start_response() was called before; to replace its response with an error response, pass exc_info",
    )
}

pub(super) fn over() -> PyErr {
    PyRuntimeError::new_err(
        "this request is over, or its application has returned: nothing can be sent for it any more",
    )
}

/// The application did not call `start_response`.
pub(super) fn not_started() -> PyErr {
    PyRuntimeError::new_err(
        "the application returned or sent content without calling start_response()",
    )
}

/// Lends what stands for a call, and reuses it when nothing else references it.
pub(super) struct Lender {
    caller: Caller,
    left_out: Arc<LeftOut>,
    spare: Option<Lent>,
}

/// A call and its bound method, made once.
pub(super) struct Lent {
    pub(super) call: Py<WsgiCall>,
    pub(super) start_response: Py<PyAny>,
}

/// The references to a call: ours and its method's.
const OF_CALL: OurReferences = OurReferences::of(2);
/// The references to that method: ours.
const OF_METHOD: OurReferences = OurReferences::of(1);

impl Lender {
    pub(super) fn new(caller: Caller, left_out: &Arc<LeftOut>) -> Lender {
        Lender {
            caller,
            left_out: Arc::clone(left_out),
            spare: None,
        }
    }

    /// The same without what a panicked call may have left.
    pub(super) fn renewed(&self) -> Lender {
        Lender::new(self.caller.clone(), &self.left_out)
    }

    #[inline]
    pub(super) fn lend(&mut self, py: Python<'_>, id: ExchangeId, is_head: bool) -> PyResult<Lent> {
        let lent = match self.spare.take() {
            Some(lent) => lent,
            None => {
                let call = Bound::new(
                    py,
                    WsgiCall::new(self.caller.clone(), Arc::clone(&self.left_out)),
                )?;
                let start_response = call.getattr(pyo3::intern!(py, "start_response"))?;
                Lent {
                    call: call.unbind(),
                    start_response: start_response.unbind(),
                }
            }
        };
        lent.call.get().begin(py, id, is_head)?;
        Ok(lent)
    }

    /// Takes back what was lent.
    #[inline]
    pub(super) fn give_back(&mut self, py: Python<'_>, lent: Lent) {
        if OF_CALL.are_all(py, &lent.call) && OF_METHOD.are_all(py, &lent.start_response) {
            self.spare = Some(lent);
        }
    }
}
