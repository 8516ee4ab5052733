//! Calls the application on the reactor's thread (`--threads 1`): nothing is handed over, and nothing else is served meanwhile.
//!
//! What the application passes to `write` is sent at once, as far as the client takes it; blocks of an iterable are sent one by one.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use server::{Content, ExchangeId, Outcome, Pulled, Responder};
use wire::Method;

use super::blocks::{Blocks, KeptBlocks, Returned};
use super::call::{Caller, Framing, Lender, Progress, State, WsgiCall, not_started};
use super::environ::{Arrival, Environs};
use super::input::Input;
use super::unclosed::Unclosed;
use super::{Placement, WsgiApp, log};
use crate::ffi;
use crate::run::context::run_in;
use crate::run::coroutine::ends_task;
use crate::run::exchanges::Exchanges;
use crate::run::failure::{fail, refuse_for_memory};
use crate::run::memory::{append, copy};
use crate::run::runner::Runner;

/// What calls the application.
pub(super) struct Inline {
    app: Py<PyAny>,
    environs: Environs,
    lender: Lender,
    errors: Arc<log::ErrorLines>,
    streams: HashMap<ExchangeId, Stream>,
    pub(super) unclosed: Unclosed,
}

/// A response whose rest has not been sent.
struct Stream {
    blocks: Option<KeptBlocks>,
    /// All of the content was sent: no more blocks are requested.
    is_over: bool,
    /// The context of the call.
    context: Py<PyAny>,
    /// What remains of the announced Content-Length.
    owed: Option<u64>,
    title: String,
}

/// The outcome for a response whose content is complete.
enum Whole {
    /// It was written.
    Written,
    /// Its head was written; the content is shorter than its Content-Length.
    Short(Vec<u8>, Option<u64>),
}

impl Inline {
    pub(super) fn new(
        app: &Bound<'_, WsgiApp>,
        placement: &Placement,
        exchanges: &Arc<Exchanges>,
    ) -> PyResult<Inline> {
        let (py, own) = (app.py(), app.get());
        let constants = own.constants(py, placement)?;
        Ok(Inline {
            app: own.app.clone_ref(py),
            environs: Environs::new(&constants, &own.root_path, own.dropped.clone())?,
            lender: Lender::new(Caller::Reactor(Arc::clone(exchanges)), &own.left_out),
            errors: Arc::clone(&own.errors),
            streams: HashMap::new(),
            unclosed: Unclosed::new(Arc::clone(&own.errors)),
        })
    }

    pub(super) fn call(
        &mut self,
        runner: &mut Runner,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        if request.content == Content::Later {
            return Outcome::ReadContent;
        }
        ffi::attached(|py| match input_of(py, request) {
            Ok(input) => self.call_now(py, runner, request, input, responder),
            Err(error) => {
                if !refuse_for_memory(py, &error, request, responder) {
                    log::raised(py, &log::title(request.head), &error);
                    fail(responder);
                }
                Outcome::Responded
            }
        })
    }

    #[inline]
    fn call_now(
        &mut self,
        py: Python<'_>,
        runner: &mut Runner,
        request: &server::Request<'_>,
        input: Option<Bound<'_, Input>>,
        responder: &mut Responder,
    ) -> Outcome {
        let outcome = runner
            .call_begins(py, || self.environs.forget(py))
            .and_then(|()| self.respond(py, runner, request, input, responder));
        if !self.unclosed.is_kept() {
            runner.call_ends(py);
            if self.errors.has_unfinished() && !self.is_streaming(request.id) {
                self.errors.call_ended(py);
            }
        }
        outcome.unwrap_or_else(|error| {
            if ends_process(py, &error) {
                runner.keep_fatal(py, error);
            } else if !responder.is_broken() || !runner.exchanges.is_disconnection(py, &error) {
                log::raised(py, &log::title(request.head), &error);
            }
            fail(responder)
        })
    }

    /// Calls the application and writes its response.
    #[inline]
    fn respond(
        &mut self,
        py: Python<'_>,
        runner: &mut Runner,
        request: &server::Request<'_>,
        input: Option<Bound<'_, Input>>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        let head = request.head;
        let arrival = Arrival {
            circumstances: request.circumstances,
            connection: request.id.connection() as usize,
            content_bytes: match request.content {
                Content::Whole(content) => Some(content.len()),
                Content::Later => None,
            },
        };
        let environ = self.environs.environ(py, head, &arrival, input)?;
        let lent = self
            .lender
            .lend(py, request.id, head.method() == Method::Head)?;
        let start_response = lent.start_response.bind(py);
        let app = &self.app;
        let returned = runner.exchanges.lend(py, request.id, responder, || {
            let called = ffi::call_handler(py, app, [environ.as_any(), start_response]);
            called.and_then(|returned| Returned::read(returned, head))
        });
        self.environs.give_back(environ);
        let call = lent.call.get();
        let outcome = match returned {
            Ok(returned) => self.write(py, runner, request, call, returned, responder),
            Err(error) => Err(error),
        };
        let ending = call.end(py)?;
        if ending.has_surplus || ending.is_short {
            log::wrong_length(py, &log::title(head), ending.is_short);
        }
        self.lender.give_back(py, lent);
        outcome
    }

    /// Writes what the application returned, as far as it is available.
    #[inline]
    fn write(
        &mut self,
        py: Python<'_>,
        runner: &mut Runner,
        request: &server::Request<'_>,
        call: &WsgiCall,
        returned: Returned<'_>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        if responder.is_open() {
            return self.write_rest(py, runner, request, call, returned, responder);
        }
        match returned {
            Returned::Whole(content) => {
                match self.whole(py, call, content.as_bytes(), responder) {
                    Ok(Whole::Written) => Ok(Outcome::Responded),
                    // Only the head was written: the rest follows as a stream, which ends too early.
                    Ok(Whole::Short(first, owed)) => {
                        let stream = Stream::new(py, runner, request, owed, None);
                        stream.map(|stream| self.keep(stream, request.id, &first, responder))
                    }
                    Err(error) => Err(error),
                }
            }
            Returned::Blocks(first, blocks)
                if responder.can_send_now()
                    && call.with(py, |state| state.is_all(first.as_bytes()))? =>
            {
                self.unclosed.keep(request.head, blocks);
                let written = self.whole(py, call, first.as_bytes(), responder);
                written.map(|_| Outcome::RespondedEarly)
            }
            Returned::Nothing(blocks)
                if responder.can_send_now()
                    && call.with(py, |state| state.is_complete_without_content())? =>
            {
                self.unclosed.keep(request.head, blocks);
                let written = self.whole(py, call, b"", responder);
                written.map(|_| Outcome::RespondedEarly)
            }
            Returned::Nothing(blocks) => {
                blocks.close(|| log::title(request.head));
                self.write(py, runner, request, call, Returned::empty(), responder)
            }
            Returned::Blocks(first, blocks) => {
                match begin_stream(py, call, first.as_bytes(), responder) {
                    Ok(Some((first, owed))) => {
                        let stream = Stream::new(py, runner, request, owed, Some(blocks));
                        stream.map(|stream| self.keep(stream, request.id, &first, responder))
                    }
                    nothing_follows => {
                        blocks.close(|| log::title(request.head));
                        nothing_follows.map(|_| Outcome::Responded)
                    }
                }
            }
            Returned::File(remains) => {
                let post = |command| runner.exchanges.post(py, request.id, command);
                call.post_file(py, *remains, post)?;
                Ok(Outcome::Pending)
            }
        }
    }

    /// As [`Inline::write`], after blocks that were passed to `write`.
    #[cold]
    fn write_rest(
        &mut self,
        py: Python<'_>,
        runner: &mut Runner,
        request: &server::Request<'_>,
        call: &WsgiCall,
        returned: Returned<'_>,
        responder: &mut Responder,
    ) -> PyResult<Outcome> {
        match returned {
            Returned::Nothing(blocks) => {
                blocks.close(|| log::title(request.head));
                self.write_rest(py, runner, request, call, Returned::empty(), responder)
            }
            Returned::Whole(content) => {
                let push = |state: &mut State| state.push(responder, content.as_bytes());
                call.with(py, push)?;
                if responder.finish() {
                    return Ok(Outcome::Responded);
                }
                // It is shorter than announced, which `WsgiCall::end` reports.
                let stream = Stream::new(py, runner, request, None, None)?;
                Ok(self.keep(stream, request.id, b"", responder))
            }
            Returned::Blocks(first, blocks) => {
                let owed = call.with(py, |state| state.owed.take())?;
                let stream = Stream::new(py, runner, request, owed, Some(blocks))?;
                Ok(self.keep(stream, request.id, first.as_bytes(), responder))
            }
            Returned::File(remains) => {
                let post = |command| runner.exchanges.post(py, request.id, command);
                call.post_file(py, *remains, post)?;
                Ok(Outcome::Begun)
            }
        }
    }

    /// Writes a response whose content is complete.
    #[inline]
    fn whole(
        &mut self,
        py: Python<'_>,
        call: &WsgiCall,
        content: &[u8],
        responder: &mut Responder,
    ) -> PyResult<Whole> {
        call.with(py, |state| {
            if state.progress != Progress::Started {
                return Err(not_started());
            }
            let merged;
            let content = match state.written.is_empty() {
                true => content,
                false => {
                    let mut written = std::mem::take(&mut state.written);
                    append(&mut written, content)?;
                    merged = written;
                    &merged
                }
            };
            let framing = state.framing(content.len());
            let (status, fields) = (state.head.status, state.head.fields());
            Ok(match framing {
                Framing::Whole(length) => {
                    let within = content.get(..length).unwrap_or(content);
                    responder.respond(status, fields, within);
                    Whole::Written
                }
                Framing::HeadOnly(length) => {
                    responder.begin(status, fields, length);
                    Whole::Written
                }
                Framing::Short => {
                    responder.begin(status, fields, state.head.length);
                    Whole::Short(copy(content)?, state.head.length)
                }
            })
        })?
    }

    /// Writes the first block after the head, so that both are sent together, and keeps what follows.
    fn keep(
        &mut self,
        mut stream: Stream,
        id: ExchangeId,
        first: &[u8],
        responder: &mut Responder,
    ) -> Outcome {
        responder.push_part(first);
        stream.is_over = !stream.take_from_owed(first);
        self.streams.insert(id, stream);
        Outcome::Streaming
    }

    /// Appends the next block of a response.
    pub(super) fn pull(
        &mut self,
        runner: &mut Runner,
        id: ExchangeId,
        out: &mut Vec<u8>,
    ) -> Pulled {
        ffi::attached(|py| self.pull_block(py, runner, id, out))
    }

    fn pull_block(
        &mut self,
        py: Python<'_>,
        runner: &mut Runner,
        id: ExchangeId,
        out: &mut Vec<u8>,
    ) -> Pulled {
        let Some(mut stream) = self.streams.remove(&id) else {
            return Pulled::Failed;
        };
        runner.contexts.leave(py);
        match stream.next(py, out) {
            Ok(true) => {
                self.streams.insert(id, stream);
                Pulled::More
            }
            Ok(false) => {
                stream.close(py);
                self.errors.call_ended(py);
                if stream.owed.is_some_and(|owed| owed > 0) {
                    log::wrong_length(py, &stream.title, true);
                }
                Pulled::End
            }
            Err(error) => {
                stream.close(py);
                self.errors.call_ended(py);
                if ends_process(py, &error) {
                    runner.keep_fatal(py, error);
                } else {
                    log::raised(py, &stream.title, &error);
                }
                Pulled::Failed
            }
        }
    }

    /// Whether a response is still being streamed.
    pub(super) fn is_streaming(&self, id: ExchangeId) -> bool {
        self.streams.contains_key(&id)
    }

    /// The client of a response has disconnected.
    pub(super) fn abort(&mut self, id: ExchangeId) {
        if let Some(mut stream) = self.streams.remove(&id) {
            ffi::attached(|py| {
                stream.close(py);
                self.errors.call_ended(py);
            });
        }
    }
}

/// Whether an exception ends the process. A view runs in no task that could be cancelled, so its `CancelledError` is an exception like any
/// other.
pub(super) fn ends_process(py: Python<'_>, error: &PyErr) -> bool {
    ends_task(py, error) && !error.is_instance_of::<CancelledError>(py)
}

/// The content as a file; None if it is empty.
///
/// # Errors
/// `MemoryError`.
#[inline]
fn input_of<'py>(
    py: Python<'py>,
    request: &server::Request<'_>,
) -> PyResult<Option<Bound<'py, Input>>> {
    match request.content {
        Content::Whole(content @ [_, ..]) => Bound::new(py, Input::whole(copy(content)?)).map(Some),
        _ => Ok(None),
    }
}

/// Writes the head of a response whose blocks are pulled. Returns what to send first and the announced Content-Length, or `None` when no
/// content may follow.
fn begin_stream(
    py: Python<'_>,
    call: &WsgiCall,
    first: &[u8],
    responder: &mut Responder,
) -> PyResult<Option<(Vec<u8>, Option<u64>)>> {
    call.with(py, |state| {
        if state.progress != Progress::Started {
            return Err(not_started());
        }
        let mut parts = std::mem::take(&mut state.written);
        append(&mut parts, first)?;
        let (status, length) = (state.head.status, state.head.length);
        let has_parts = responder.begin(status, state.head.fields(), length);
        Ok(has_parts.then_some((parts, length)))
    })?
}

impl Stream {
    fn new(
        py: Python<'_>,
        runner: &mut Runner,
        request: &server::Request<'_>,
        owed: Option<u64>,
        blocks: Option<Blocks<'_>>,
    ) -> PyResult<Stream> {
        Ok(Stream {
            blocks: blocks.map(Blocks::keep),
            is_over: false,
            context: runner.contexts.take(py)?,
            owed,
            title: log::title(request.head),
        })
    }

    /// Appends the next block to `out`; false at the end.
    fn next(&mut self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<bool> {
        if self.is_over {
            return Ok(false);
        }
        let Some(kept) = &self.blocks else {
            return Ok(false);
        };
        let blocks = Blocks::bind(py, kept);
        let block = run_in(self.context.bind(py), || blocks.next())?;
        let Some(block) = block else {
            return Ok(false);
        };
        append(out, block.as_bytes())?;
        Ok(self.take_from_owed(out))
    }

    /// Counts a block; false when it exceeds the announced length, so that no more blocks are requested.
    fn take_from_owed(&mut self, block: &[u8]) -> bool {
        let Some(owed) = self.owed else {
            return true;
        };
        let length = block.len() as u64;
        self.owed = Some(owed.saturating_sub(length));
        let is_file = self.blocks.as_ref().is_some_and(|blocks| blocks.is_file);
        if is_file {
            return length < owed;
        }
        if length > owed {
            ffi::attached(|py| log::wrong_length(py, &self.title, false));
        }
        length <= owed
    }

    fn close(&mut self, py: Python<'_>) {
        let Some(kept) = self.blocks.take() else {
            return;
        };
        let closed = run_in(self.context.bind(py), || {
            Blocks::bind(py, &kept).close(|| self.title.clone());
            Ok(())
        });
        if let Err(error) = closed {
            error.write_unraisable(py, None);
        }
    }
}
