//! What a thread of the pool does with its jobs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use server::{Command, ExchangeId, Head, HeadMemo, SlowRequests};
use wire::Method;

use super::blocks::{Blocks, Returned};
use super::call::{Caller, Ending, Framing, Lender, Progress, WsgiCall, not_started};
use super::environ::{Arrival, Environs};
use super::input::Input;
use super::lane::Lane;
use super::pool::{Job, Pool};
use super::reports::Counts;
use super::{Placement, WsgiApp, log};
use crate::ffi;
use crate::run::context::Contexts;
use crate::run::log::{Late, log_detail, log_late_handler, log_shortage};
use crate::run::memory::copy;

/// What one thread keeps from job to job.
pub(super) struct Thread {
    app: Py<PyAny>,
    pool: Arc<Pool>,
    lane: Arc<Lane>,
    environs: Environs,
    lender: Lender,
    contexts: Contexts,
    memo: HeadMemo,
    disconnected: Py<PyAny>,
    errors: Arc<log::ErrorLines>,
    /// Where slow requests are watched, and Python's number of this thread.
    slow: Option<(Arc<SlowRequests>, u64)>,
}

impl Thread {
    /// `None` when the pool has all its threads.
    pub(super) fn new(
        py: Python<'_>,
        app: &WsgiApp,
        pool: &Arc<Pool>,
        placement: &Placement,
    ) -> PyResult<Option<Thread>> {
        let Some(lane) = pool.lane() else {
            return Ok(None);
        };
        let constants = app.constants(py, placement)?;
        let number = py.import("_thread")?.call_method0("get_ident")?.extract()?;
        let slow = lane.slow().map(|slow| (slow, number));
        Ok(Some(Thread {
            app: app.app.clone_ref(py),
            pool: Arc::clone(pool),
            environs: Environs::new(&constants, &app.root_path, Arc::clone(&app.dropped))?,
            lender: Lender::new(Caller::Thread(Arc::clone(&lane)), &app.left_out),
            lane,
            contexts: Contexts::default(),
            memo: HeadMemo::default(),
            disconnected: app.disconnected.clone_ref(py),
            errors: Arc::clone(&app.errors),
            slow,
        }))
    }

    /// Takes jobs until the pool is closed.
    pub(super) fn run(mut self, py: Python<'_>) {
        let mut responses = 0;
        loop {
            let job = match self.pool.take(&self.lane) {
                Some(job) => job,
                None => {
                    self.pool.responded(&mut responses, true);
                    let Some(job) = py.detach(|| self.pool.wait(&self.lane)) else {
                        // CPython 3.14 runs the thread in a context of its own, which it leaves next.
                        self.contexts.leave(py);
                        return;
                    };
                    job
                }
            };
            self.pool.responded(&mut responses, false);
            let id = job.id;
            let done = catch_unwind(AssertUnwindSafe(|| self.job(py, job)));
            ffi::leave_if_forked(py, None);
            if done.is_err() {
                self.forget_panicked(py, id);
            }
            self.lane.end();
            responses += 1;
        }
    }

    /// State that a panicked call left must not reach the next call.
    #[cold]
    fn forget_panicked(&mut self, py: Python<'_>, id: ExchangeId) {
        self.lane.post(id, Command::Fail);
        self.contexts.discard(py);
        self.environs.forget(py);
        self.lender = self.lender.renewed();
    }

    fn job(&mut self, py: Python<'_>, mut job: Job) {
        self.lane.takes(&job);
        let Some(read) = job.head.read_with(&mut self.memo) else {
            return self.lane.post(job.id, Command::Fail);
        };
        if let Some((slow, number)) = &self.slow {
            slow.runs_in(job.id, *number);
        }
        let head = read.head();
        let content = job.content.take();
        let result = self
            .contexts
            .enter(py)
            .and_then(|()| self.respond(py, &job, content, head));
        self.contexts.ended(py);
        self.errors.call_ended(py);
        if let Err(error) = result {
            self.lane.post(job.id, Command::Fail);
            if !error.matches(py, &self.disconnected).unwrap_or(false) || !self.lane.is_gone() {
                log::raised(py, &log::title(head), &error);
            }
        }
    }

    /// Calls the application and posts its response.
    fn respond(
        &mut self,
        py: Python<'_>,
        job: &Job,
        content: Option<Vec<u8>>,
        head: Head<'_>,
    ) -> PyResult<()> {
        let content_bytes = content.as_ref().map(Vec::len);
        let input = match content {
            Some(content) if content.is_empty() => None,
            Some(content) => Some(Bound::new(py, Input::whole(content))?),
            None => Some(Bound::new(
                py,
                Input::later(Arc::clone(&self.lane), job.id),
            )?),
        };
        let arrival = Arrival {
            circumstances: &job.circumstances,
            connection: job.id.connection() as usize,
            content_bytes,
        };
        let environ = self.environs.environ(py, head, &arrival, input)?;
        let lent = self
            .lender
            .lend(py, job.id, head.method() == Method::Head)?;
        let start_response = lent.start_response.bind(py);
        let returned = ffi::call_from_thread(py, &self.app, [environ.as_any(), start_response]);
        self.environs.give_back(environ);
        let call = lent.call.get();
        let mut unclosed = None;
        let posted = returned
            .and_then(|returned| Returned::read(returned, head))
            .and_then(|returned| match returned {
                Returned::Whole(content) => self.post_whole(py, call, job.id, content.as_bytes()),
                Returned::File(remains) => {
                    self.lane.end_spool(job.id);
                    let post = |command| self.lane.post(job.id, command);
                    call.post_file(py, *remains, post)?;
                    Ok(Whole::Complete)
                }
                Returned::Blocks(first, blocks) => {
                    let sent = self.post_blocks(py, call, job.id, first.as_bytes(), &blocks);
                    unclosed = Some(blocks);
                    sent
                }
                Returned::Nothing(blocks) => {
                    unclosed = Some(blocks);
                    self.post_whole(py, call, job.id, b"")
                }
            });
        let is_complete = matches!(posted, Ok(Whole::Complete));
        let ended = call.end(py);
        self.lender.give_back(py, lent);
        let ended = ended.and_then(|ending| self.end(py, job.id, head, posted, ending));
        if let Some(blocks) = unclosed {
            if ended.is_err() {
                self.lane.post(job.id, Command::Fail);
            }
            // The client does not wait for what the application does now.
            self.lane.notify();
            end_blocks(py, blocks, is_complete, head);
        }
        ended
    }

    /// Posts a response block by block, or as a whole if the first one is all of its announced length.
    fn post_blocks(
        &self,
        py: Python<'_>,
        call: &WsgiCall,
        id: ExchangeId,
        first: &[u8],
        blocks: &Blocks<'_>,
    ) -> PyResult<Whole> {
        if call.with(py, |state| state.is_all(first))? {
            return self.post_whole(py, call, id, first);
        }
        send_blocks(py, call, first, blocks)?;
        Ok(Whole::No)
    }

    /// Posts the end of a response, unless it is complete.
    fn end(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        head: Head<'_>,
        posted: PyResult<Whole>,
        ending: Ending,
    ) -> PyResult<()> {
        let is_short = match posted? {
            Whole::Complete => ending.is_short,
            Whole::Short => true,
            Whole::No => {
                self.lane.end_spool(id);
                self.lane.post(id, Command::Finish);
                ending.is_short
            }
        };
        if ending.has_surplus || is_short {
            log::wrong_length(py, &log::title(head), is_short);
        }
        Ok(())
    }

    /// Posts a response whose remaining content, or all of it, is complete.
    fn post_whole(
        &self,
        py: Python<'_>,
        call: &WsgiCall,
        id: ExchangeId,
        content: &[u8],
    ) -> PyResult<Whole> {
        if call.with(py, |state| state.progress == Progress::Sent)? {
            call.send(py, content)?;
            return Ok(Whole::No);
        }
        let (command, rest) = call.with(py, |state| {
            if state.progress != Progress::Started {
                return Err(not_started());
            }
            Ok(match state.framing(content.len()) {
                Framing::Whole(length) => {
                    let within = content.get(..length).unwrap_or(content);
                    (
                        Command::Respond(state.head.to_response(copy(within)?)),
                        None,
                    )
                }
                Framing::HeadOnly(length) => {
                    let mut response = state.head.to_response(Vec::new());
                    response.length = length;
                    (Command::Begin(response), None)
                }
                Framing::Short => {
                    let response = state.head.to_response(Vec::new());
                    (Command::Begin(response), Some(copy(content)?))
                }
            })
        })??;
        self.lane.post(id, command);
        let Some(rest) = rest else {
            return Ok(Whole::Complete);
        };
        self.lane.post(id, Command::Write(rest));
        self.lane.post(id, Command::Finish);
        Ok(Whole::Short)
    }
}

/// The outcome for a response whose content was complete.
enum Whole {
    /// It was posted as a whole.
    Complete,
    /// It was posted, with less content than announced.
    Short,
    /// Its head had been sent before: the end still has to be posted.
    No,
}

/// Sends block after block.
fn send_blocks(py: Python<'_>, call: &WsgiCall, first: &[u8], blocks: &Blocks<'_>) -> PyResult<()> {
    call.send(py, first)?;
    while !call.with(py, |state| state.is_satisfied(blocks.is_file))? {
        match blocks.next()? {
            Some(block) => call.send(py, block.as_bytes())?,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Closes an iterable after its response. If that was complete with its first block, the application has not been asked for its end yet.
fn end_blocks(py: Python<'_>, blocks: Blocks<'_>, is_complete: bool, head: Head<'_>) {
    let title = || log::title(head);
    let rest = match is_complete {
        true => blocks.rest(),
        false => Ok(None),
    };
    match rest {
        Ok(None) => {}
        Ok(Some(_)) => log::wrong_length(py, &title(), false),
        Err(error) => log::raised(py, &title(), &error),
    }
    blocks.close(title);
}

/// Logs what the reactor reports, until the pool is closed.
pub(super) fn report(py: Python<'_>, pool: &Pool) {
    while let Some(counts) = py.detach(|| pool.reports.wait()) {
        report_late_views(py, &counts);
        if counts.full > 0 {
            log::warning(
                py,
                &format!(
                    "{} request(s) refused with 503: every thread is busy and the queue is full (threads, queue_max)",
                    counts.full
                ),
            );
        }
        for line in &counts.warnings {
            log::warning(py, line);
        }
        for line in &counts.details {
            log_detail(py, line);
        }
        if let Some(failure) = &counts.spool_failure {
            log::warning(py, failure);
        }
        if let Some(shortage) = &counts.shortage {
            log_shortage(py, shortage);
        }
        if counts.short_files > 0 {
            log::warning(py, &counts.of_short_files());
        }
        if counts.late > 0 {
            log::warning(
                py,
                &format!(
                    "{} request(s) refused with 503: no thread took them in time (threads, queue_timeout_ms)",
                    counts.late
                ),
            );
        }
        py.detach(|| pool.reports.pause());
    }
}

/// Warns of views that did not respond in time, so that the server has responded.
fn report_late_views(py: Python<'_>, counts: &Counts) {
    let mut memo = HeadMemo::default();
    for view in &counts.late_views {
        let title = view
            .head
            .read_with(&mut memo)
            .map(|read| log::title(read.head()));
        let late = match view.has_begun {
            true => Late::Handler,
            false => Late::Thread,
        };
        log_late_handler(py, title.as_deref(), view.after_ms, late);
    }
    if counts.more_late_views > 0 {
        let after_ms = counts.late_views.last().map_or(0, |view| view.after_ms);
        let title = format!("{} more request(s)", counts.more_late_views);
        log_late_handler(py, Some(&title), after_ms, Late::Handler);
    }
}

/// The pool has no place for another thread.
pub(super) fn too_many() -> PyErr {
    PyRuntimeError::new_err("the server has all its threads already")
}
