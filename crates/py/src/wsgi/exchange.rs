//! `start_response` and `write`, and how far the answer of a request is.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use server::{Command, ExchangeId, FilePart, Response};

use super::head::Head;
use super::lane::Lane;
use crate::ffi::{self, Held};

/// What `write` may keep on the reactor's thread.
const WRITTEN_BYTES_MAX: usize = 64 << 20;

/// One call of the application. Its method is `start_response`; called, it is `write`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Exchange {
    state: Held<State>,
    /// The thread's side of the pool; `None` on the reactor's thread.
    lane: Option<Arc<Lane>>,
}

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Progress {
    /// No request is under way.
    #[default]
    Over,
    /// `start_response` was not called.
    Silent,
    /// It was; nothing was sent.
    Said,
    /// The head is on its way.
    Sent,
}

/// What is known of an answer.
#[derive(Default)]
pub(super) struct State {
    pub(super) progress: Progress,
    id: Option<ExchangeId>,
    is_head: bool,
    pub(super) head: Head,
    /// What `write` was given where nothing can be sent before the application returns.
    pub(super) written: Vec<u8>,
    /// Bytes that Content-Length announced and that were not sent.
    owed: Option<u64>,
    /// The application gave more than it had announced.
    has_surplus: bool,
}

/// How an answer that is there as a whole is framed.
pub(super) enum Framing {
    /// That many bytes of it are the content.
    Whole(usize),
    /// The head is all there is to send, with the length that a GET would have had (RFC 9110 section 8.6).
    HeadOnly(Option<u64>),
    /// It is shorter than its Content-Length: it cannot be completed.
    Short,
}

impl State {
    /// Whether the request or the status forbids content (RFC 9110 sections 9.3.2 and 6.4.1).
    pub(super) fn has_no_content(&self) -> bool {
        self.is_head || !wire::may_generate_content(self.head.status)
    }

    /// Whether nothing that still comes would be sent. Of a file, what lies behind the announced length is not asked for; a generator
    /// may have something to do behind its last block.
    pub(super) fn is_satisfied(&mut self, is_file: bool) -> bool {
        if is_file && self.owed == Some(0) {
            self.has_surplus = false;
            return true;
        }
        self.has_surplus || self.has_no_content()
    }

    /// Whether a first block is, by its announced length, all of the content.
    pub(super) fn is_all(&self, block: &[u8]) -> bool {
        self.progress == Progress::Said
            && self.written.is_empty()
            && !self.has_no_content()
            && self.head.length == Some(block.len() as u64)
    }

    /// Keeps a block for the time when the application has returned.
    fn keep_written(&mut self, block: &[u8]) -> PyResult<()> {
        if self.written.len() + block.len() > WRITTEN_BYTES_MAX {
            return Err(PyRuntimeError::new_err(
                "write() with one thread keeps everything until the application returns, and that is too much: return an iterable, or use --threads 2",
            ));
        }
        self.written.extend_from_slice(block);
        Ok(())
    }

    /// How a content of that length is framed.
    pub(super) fn framing(&mut self, length: usize) -> Framing {
        let said = self.head.length;
        if self.has_no_content() {
            let known = (length > 0).then_some(length as u64);
            return Framing::HeadOnly(said.or(known));
        }
        let Some(said) = said else {
            return Framing::Whole(length);
        };
        match usize::try_from(said) {
            Ok(said) if said <= length => {
                self.has_surplus |= said < length;
                Framing::Whole(said)
            }
            _ => Framing::Short,
        }
    }

    /// How much of a block is sent; the rest is more than was announced.
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

impl Exchange {
    fn new(lane: Option<Arc<Lane>>) -> Exchange {
        Exchange {
            state: Held::default(),
            lane,
        }
    }

    /// Gives `reach` the state, which must not run Python.
    pub(super) fn with<R>(
        &self,
        py: Python<'_>,
        reach: impl FnOnce(&mut State) -> R,
    ) -> PyResult<R> {
        let reached = self.state.with(py, reach);
        reached.ok_or_else(|| PyRuntimeError::new_err("this exchange is in use already"))
    }

    fn begin(&self, py: Python<'_>, id: ExchangeId, is_head: bool) -> PyResult<()> {
        self.with(py, |state| {
            state.progress = Progress::Silent;
            state.id = Some(id);
            state.is_head = is_head;
            state.owed = None;
            state.has_surplus = false;
        })
    }

    /// Sends a block behind the ones before it, the first one with the head, and waits while the client is too far behind.
    ///
    /// # Errors
    /// The disconnection, when the client is gone; `RuntimeError` when there is no head to send.
    pub(super) fn send(&self, py: Python<'_>, block: &[u8]) -> PyResult<()> {
        let Some(lane) = &self.lane else {
            return self.with(py, |state| state.keep_written(block))?;
        };
        let posts = self.with(py, |state| state.posts_of(block))??;
        let Some(id) = posts.id else {
            return Ok(());
        };
        if let Some(response) = posts.begin {
            lane.begin_answer(id, response, posts.has_content);
        }
        let part = block.get(..posts.count).unwrap_or(block);
        lane.write(py, id, part.to_vec())
    }

    /// The answer is over.
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

/// How the content of an answer was beside what Content-Length said.
pub(super) struct Ending {
    pub(super) is_short: bool,
    pub(super) has_surplus: bool,
}

impl State {
    /// What has to be posted for an answer that ends with part of a file.
    ///
    /// # Errors
    /// `RuntimeError` when there is no head to send.
    pub(super) fn posts_of_file(&mut self, mut part: FilePart) -> PyResult<Vec<Command>> {
        let mut posts = Vec::new();
        match self.progress {
            Progress::Over | Progress::Silent => return Err(silent()),
            Progress::Sent => {}
            Progress::Said => {
                let mut response = self.head.to_response(Vec::new());
                let whole = part.length + self.written.len() as u64;
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
        // Of a file, an application may send less than there is.
        let had_surplus = self.has_surplus;
        let length = usize::try_from(part.length).unwrap_or(usize::MAX);
        part.length = self.within_length(length) as u64;
        self.has_surplus = had_surplus;
        posts.extend([Command::WriteFile(part), Command::Finish]);
        Ok(posts)
    }

    fn posts_of(&mut self, block: &[u8]) -> PyResult<Posts> {
        let begin = match self.progress {
            Progress::Over => return Err(over()),
            Progress::Silent => return Err(silent()),
            // Nothing is sent before there is something of the content.
            Progress::Said if block.is_empty() => {
                return Ok(Posts {
                    id: None,
                    begin: None,
                    has_content: false,
                    count: 0,
                });
            }
            Progress::Said => {
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
impl Exchange {
    #[pyo3(signature = (status, headers, exc_info=None, /))]
    fn start_response<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, own) = (slf.py(), slf.get());
        let (progress, is_said) = own.with(py, |state| {
            let progress = state.progress;
            // What most calls say: the same as the one before.
            let is_said = progress == Progress::Silent && state.head.is_of(status, headers);
            if is_said {
                state.progress = Progress::Said;
            }
            (progress, is_said)
        })?;
        if is_said {
            return Ok(slf.clone());
        }
        match (progress, exc_info) {
            (Progress::Silent, _) | (Progress::Said, Some(_)) => {}
            (Progress::Over, _) => return Err(over()),
            (Progress::Sent, Some(exc_info)) => return Err(reraised(exc_info)?),
            (Progress::Said | Progress::Sent, None) => {
                return Err(PyRuntimeError::new_err(
                    "start_response() was called before; to replace its answer by one of an error, pass exc_info",
                ));
            }
        }
        // What is not a list runs Python when it is walked, which must not be while the state is held.
        let mut head = own.with(py, |state| std::mem::take(&mut state.head))?;
        let read = head.read(status, headers);
        own.with(py, |state| {
            state.head = head;
            // Nothing of it was sent, or this would have been refused.
            state.written.clear();
            state.progress = match read {
                Ok(()) => Progress::Said,
                Err(_) => Progress::Silent,
            };
        })?;
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

fn over() -> PyErr {
    PyRuntimeError::new_err("this request is over: nothing can be sent for it any more")
}

/// The application did not say what it answers.
pub(super) fn silent() -> PyErr {
    PyRuntimeError::new_err("the application gave content, or returned, without start_response()")
}

/// Lends the exchange of a call; used again when nobody kept it.
pub(super) struct Lender {
    lane: Option<Arc<Lane>>,
    spare: Option<Lent>,
}

/// An exchange and its bound method, made once.
pub(super) struct Lent {
    pub(super) exchange: Py<Exchange>,
    pub(super) start_response: Py<PyAny>,
}

/// References to an exchange that nobody else holds: ours and its method's.
const REFERENCES: isize = 2;

impl Lender {
    pub(super) fn new(lane: Option<Arc<Lane>>) -> Lender {
        Lender { lane, spare: None }
    }

    #[inline]
    pub(super) fn lend(&mut self, py: Python<'_>, id: ExchangeId, is_head: bool) -> PyResult<Lent> {
        let lent = match self.spare.take() {
            Some(lent) => lent,
            None => {
                let exchange = Bound::new(py, Exchange::new(self.lane.clone()))?;
                let start_response = exchange.getattr(pyo3::intern!(py, "start_response"))?;
                Lent {
                    exchange: exchange.unbind(),
                    start_response: start_response.unbind(),
                }
            }
        };
        lent.exchange.get().begin(py, id, is_head)?;
        Ok(lent)
    }

    /// Takes back what was lent.
    #[inline]
    pub(super) fn give_back(&mut self, lent: Lent) {
        if ffi::references(&lent.exchange) == REFERENCES
            && ffi::references(&lent.start_response) == 1
        {
            self.spare = Some(lent);
        }
    }
}
