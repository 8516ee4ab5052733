//! Runs an application's coroutines with a lent task and a lent context.

use std::mem::MaybeUninit;
use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use server::{Abort, ExchangeId};

use crate::ffi::UnwrittenBytes;
use crate::run::context::Contexts;
use crate::run::coroutine::{Ahead, Completion, RequestCoroutine, Suspended};
use crate::run::exchanges::Exchanges;
use crate::run::log::{Late, log_late_handler};
use crate::run::running::Running;
use crate::run::task::Tasks;
use crate::run::yielded::Yielded;

/// One per worker, whatever the interface.
pub(crate) struct Runner {
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) tasks: Tasks,
    /// What [`Exchanges::tasks_asked`] was when the current task was lent.
    tasks_asked: u32,
    pub(crate) contexts: Contexts,
    /// A call is under way. If it is still set when the next one starts, the last one panicked.
    is_calling: bool,
    /// Memory that the server requested and has not yet read into.
    room: Option<UnwrittenBytes>,
    /// An exception that ends the process rather than fails a handler (KeyboardInterrupt).
    pub(crate) fatal: Option<PyErr>,
}

impl Runner {
    pub(crate) fn new(exchanges: Arc<Exchanges>) -> Runner {
        Runner {
            exchanges,
            tasks: Tasks::default(),
            tasks_asked: 0,
            contexts: Contexts::default(),
            is_calling: false,
            room: None,
            fatal: None,
        }
    }

    /// A call starts: makes a context without traces of other requests the current one. If the last one panicked, `forget` drops what else it
    /// may have left half done.
    #[inline]
    pub(crate) fn call_begins(&mut self, py: Python<'_>, forget: impl FnOnce()) -> PyResult<()> {
        if std::mem::replace(&mut self.is_calling, true) {
            self.forget_panicked(py);
            forget();
        }
        self.contexts.enter(py)
    }

    /// A call has ended, as far as it ran without waiting.
    #[inline]
    pub(crate) fn call_ends(&mut self, py: Python<'_>) {
        self.is_calling = false;
        if self.contexts.ended(py) {
            self.tasks.retire(py);
        }
    }

    /// State that a panicked call left on the task and in the context must not reach the next call.
    #[cold]
    fn forget_panicked(&mut self, py: Python<'_>) {
        self.tasks.retire(py);
        self.contexts.task_retires();
        self.contexts.discard(py);
    }

    /// Makes a task that is lent the current one, for a coroutine's first step. Returns false if each request has a task of its own.
    #[inline]
    pub(crate) fn lends(&mut self, py: Python<'_>) -> PyResult<bool> {
        let asked = self.exchanges.tasks_asked();
        if asked != self.tasks_asked {
            self.tasks_asked = asked;
            self.tasks.leave(py);
        }
        let is_reentered = || self.exchanges.is_reentered();
        self.tasks.enter(py, &mut self.contexts, is_reentered)
    }

    /// What ran in the lent task has ended in its first step.
    #[inline]
    pub(crate) fn ended(&mut self, py: Python<'_>) {
        self.tasks.ended(py, &mut self.contexts);
    }

    /// Starts an ordinary task, whose context is a copy of the current one. None if it has ended already.
    pub(crate) fn begin_task(
        &self,
        py: Python<'_>,
        coroutine: Bound<'_, PyAny>,
        completion: impl Completion + 'static,
    ) -> PyResult<Option<Py<PyAny>>> {
        let running = Running::new(&self.exchanges, completion.is_of_request())?;
        let work = Box::new(Suspended {
            coroutine: coroutine.unbind(),
            context: None,
            is_in_task: true,
            ahead: None,
            running,
            completion,
        });
        let number = work.running.number();
        let task = self.tasks.create(py, work)?;
        if let Some(task) = &task {
            Running::has_task(&self.exchanges, number, task.clone_ref(py));
        }
        Ok(task)
    }

    /// Hands the task and the context over to a coroutine that suspended in its first step.
    pub(crate) fn suspended(
        &mut self,
        py: Python<'_>,
        coroutine: Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
        completion: impl Completion + 'static,
    ) -> PyResult<Option<Py<PyAny>>> {
        let running = Running::new(&self.exchanges, completion.is_of_request())?;
        let taken = self.contexts.take_with_task(py)?;
        let work = Box::new(Suspended {
            coroutine: coroutine.unbind(),
            context: Some(taken.context),
            is_in_task: false,
            ahead: Some(Ahead::Yielded(Yielded::of(future))),
            running,
            completion,
        });
        let number = work.running.number();
        let task = self.tasks.suspended(py, work, taken.is_of_task)?;
        if let Some(task) = &task {
            Running::has_task(&self.exchanges, number, task.clone_ref(py));
        }
        Ok(task)
    }

    /// Memory for content that a handler waits for.
    pub(crate) fn content_room(
        &mut self,
        py: Python<'_>,
        bytes: usize,
    ) -> Option<&mut [MaybeUninit<u8>]> {
        let kept = self.room.take().filter(|room| room.length(py) == bytes);
        let room = match kept {
            Some(room) => room,
            None => UnwrittenBytes::new(py, bytes).ok()?,
        };
        Some(self.room.insert(room).memory(py))
    }

    /// Content was read into that memory: passes it to the application.
    pub(crate) fn content_was_read(
        &mut self,
        py: Python<'_>,
        id: ExchangeId,
        bytes: usize,
        is_last: bool,
    ) {
        let room = self.room.take();
        match room.map(|room| room.into_bytes(py, bytes)) {
            Some(Ok(part)) => self.exchanges.take_part(py, id, Some(part), is_last),
            Some(Err(error)) => {
                error.write_unraisable(py, None);
                self.exchanges.disconnect(py, id);
            }
            None => self.exchanges.disconnect(py, id),
        }
    }

    /// Keeps an exception that ends the process until the end of the pass. A cancellation ends only its handler.
    pub(crate) fn keep_fatal(&mut self, py: Python<'_>, error: PyErr) {
        if !error.is_instance_of::<CancelledError>(py) {
            self.fatal = Some(error);
        }
    }

    /// An exchange ended before its response was complete: notifies its handler, or cancels it.
    pub(crate) fn abort(&mut self, py: Python<'_>, id: ExchangeId, why: Abort) {
        self.tasks.leave(py);
        let is_discarding = self.exchanges.change(id, |open| open.is_discarding);
        if why == Abort::Refused && is_discarding == Some(true) {
            // Its response has no content and is complete. What it still sends is discarded, and nothing else will end it: it may be a stream
            // that lasts as long as its client stays.
            return self.exchanges.peer_ended(py, id);
        }
        if let Abort::HandlerTimeout { after_ms } | Abort::OrphanTimeout { after_ms } = why
            && let Some(task) = self.exchanges.change(id, |open| open.task.take())
        {
            let has_client = why != Abort::OrphanTimeout { after_ms };
            self.end_late_handler(py, task, (after_ms, has_client));
        }
        self.exchanges.disconnect(py, id);
    }

    /// Cancels a handler that has exceeded its time, and logs it.
    fn end_late_handler(
        &self,
        py: Python<'_>,
        task: Option<Py<PyAny>>,
        (after_ms, has_client): (u64, bool),
    ) {
        let coroutine = |task: &Py<PyAny>| task.call_method0(py, "get_coro").ok();
        let title = task.as_ref().and_then(coroutine).and_then(|coroutine| {
            let coroutine = coroutine.bind(py).cast::<RequestCoroutine>().ok()?;
            coroutine.get().title(py)
        });
        let late = match has_client {
            true => Late::Handler,
            false => Late::Orphan,
        };
        log_late_handler(py, title.as_deref(), after_ms, late);
        if let Some(task) = task
            && let Err(error) = task.call_method0(py, "cancel")
        {
            error.write_unraisable(py, None);
        }
    }

    /// Another application runs next: nothing lent stays current, but it can be lent again.
    pub(crate) fn steps_aside(&mut self, py: Python<'_>) {
        self.tasks.leave(py);
        self.contexts.leave(py);
    }

    /// A pass has ended: what runs now is not ours.
    pub(crate) fn pass_ends(&mut self, py: Python<'_>) {
        self.tasks.pass_ends(py);
        self.contexts.leave(py);
    }

    /// The server stops.
    pub(crate) fn stop(&mut self, py: Python<'_>) {
        self.tasks.retire(py);
        self.contexts.task_retires();
        self.contexts.leave(py);
    }
}
