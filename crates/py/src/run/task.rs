//! The asyncio task in which coroutines take their first step.
//!
//! A task per request would cost more than the rest of the request. So one *idle* task, which has never run, is made the current one while
//! coroutines run their first step. A coroutine that ends there leaves it idle for the next. One that suspends keeps it: the task then runs
//! its own first step, in which its [`RequestCoroutine`] yields the future that the coroutine waits for, and everything after that is plain
//! asyncio. An idle task on which a handler left a trace (a reference, a weak reference, a callback, a cancellation, a name, an attribute)
//! is never used again.
//!
//! Each request has an ordinary task, which the loop creates, if that is configured (`eager_tasks`), or if the application uses what only
//! ordinary tasks support: a task factory, asyncio's debug mode, a class of tasks written in Python, or a loop that runs inside a handler.
//!
//! [`RequestCoroutine`]: crate::run::coroutine::RequestCoroutine

use pyo3::prelude::*;

use crate::ffi::{self, Sent};
use crate::run::asyncio::{Asyncio, Idle, Lending};
use crate::run::context::Contexts;
use crate::run::coroutine::Suspended;

/// Lends the current task.
#[derive(Default)]
pub(crate) struct Tasks {
    asyncio: Option<Asyncio>,
    idle: Option<Idle>,
    is_current: bool,
    /// The task that called into the server (to drain it, for example), and continues after the pass.
    caller: Option<Py<PyAny>>,
}

impl Tasks {
    /// Binds it to a loop; `lends` says whether requests may share a task in their first step.
    pub(crate) fn attach(
        &mut self,
        event_loop: &Bound<'_, PyAny>,
        owns_loop: bool,
        lends: bool,
    ) -> PyResult<()> {
        self.asyncio = Some(Asyncio::new(event_loop, owns_loop, lends)?);
        Ok(())
    }

    /// Makes an idle task the current one. Returns false if none may be lent; `is_reentered` says that the application runs the loop in handlers.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        py: Python<'_>,
        contexts: &mut Contexts,
        is_reentered: impl FnOnce() -> bool,
    ) -> PyResult<bool> {
        if self.is_current {
            return Ok(true);
        }
        self.enter_now(py, contexts, is_reentered())
    }

    #[inline(never)]
    fn enter_now(
        &mut self,
        py: Python<'_>,
        contexts: &mut Contexts,
        is_reentered: bool,
    ) -> PyResult<bool> {
        let asyncio = self.asyncio.as_ref().ok_or_else(unattached)?;
        let Some(lending) = asyncio.lending.as_ref().filter(|_| !is_reentered) else {
            return Ok(false);
        };
        if asyncio.wants_own_tasks(py)? {
            return Ok(false);
        }
        let idle = match self.idle.take() {
            Some(idle) => idle,
            None if lending.lends_its_class(py)? => Idle::new(py, asyncio, lending, contexts)?,
            None => return Ok(false),
        };
        if lending.enter(py, &idle.task).is_err() {
            self.caller = lending.leave_caller(py)?;
            lending.enter(py, &idle.task)?;
        }
        self.is_current = true;
        self.idle = Some(idle.with_current_references(py));
        Ok(true)
    }

    /// Runs a coroutine's first step in the current task.
    #[inline]
    pub(crate) fn step<'py>(&self, py: Python<'py>, coroutine: &Bound<'py, PyAny>) -> Sent<'py> {
        match &self.idle {
            Some(idle) => {
                let step = || ffi::send(py, coroutine);
                idle.request_coroutine.get().shows(coroutine, step)
            }
            None => Sent::raised(unattached()),
        }
    }

    /// Makes no task of ours the current one.
    #[inline(always)]
    pub(crate) fn leave(&mut self, py: Python<'_>) {
        if self.is_current {
            self.leave_now(py);
        }
    }

    #[inline(never)]
    fn leave_now(&mut self, py: Python<'_>) {
        self.is_current = false;
        let lending = self.asyncio.as_ref().and_then(|it| it.lending.as_ref());
        let (Some(lending), Some(idle)) = (lending, &self.idle) else {
            return;
        };
        let left = lending
            .leave(py, &idle.task)
            .and_then(|()| match self.caller.take() {
                Some(caller) => lending.enter(py, &caller),
                None => Ok(()),
            });
        if let Err(error) = left {
            error.write_unraisable(py, None);
        }
    }

    /// What ran in the current task, if there is one, has ended in its first step: keeps the task idle, or drops it if a trace is left.
    #[inline]
    pub(crate) fn ended(&mut self, py: Python<'_>, contexts: &mut Contexts) {
        if !self.is_current {
            return;
        }
        let lending = self.asyncio.as_ref().and_then(|it| it.lending.as_ref());
        let is_kept = match (lending, &self.idle) {
            (Some(lending), Some(idle)) => idle.is_kept(py, lending),
            _ => true,
        };
        if is_kept {
            self.retire(py);
            contexts.task_retires();
        }
    }

    /// A coroutine suspended in its first step: it keeps the task. `is_of_task` if its context is the one that the task was created with.
    pub(crate) fn suspended(
        &mut self,
        py: Python<'_>,
        mut work: Box<Suspended>,
        is_of_task: bool,
    ) -> PyResult<Option<Py<PyAny>>> {
        let is_nested = self.caller.is_some();
        self.leave(py);
        let asyncio = self.asyncio.as_ref().ok_or_else(unattached)?;
        let lent = self.idle.take().filter(|idle| !idle.is_over(py));
        let (Some(lending), Some(idle)) = (&asyncio.lending, lent) else {
            return asyncio.create_task(py, work);
        };
        if !work.completion.is_of_request() {
            idle.share_name(py, lending)?;
        }
        work.is_in_task = is_of_task;
        idle.request_coroutine.get().take(py, work);
        lending.show(idle.task.bind(py), true)?;
        match is_nested || idle.is_cancelled(py, lending)? {
            // It would run the application, or run inside another task.
            true => asyncio.schedule(py, idle.first_step)?,
            false => idle.run_first_step(py)?,
        }
        Ok(Some(idle.task))
    }

    /// Has the loop create a task for work that has not started. None if it has ended already.
    pub(crate) fn create(
        &self,
        py: Python<'_>,
        work: Box<Suspended>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let asyncio = self.asyncio.as_ref().ok_or_else(unattached)?;
        asyncio.create_task(py, work)
    }

    /// Lets the idle task run to its end.
    pub(crate) fn retire(&mut self, py: Python<'_>) {
        self.leave(py);
        if let (Some(asyncio), Some(idle)) = (&self.asyncio, self.idle.take())
            && let Err(error) = asyncio.schedule(py, idle.first_step)
        {
            error.write_unraisable(py, None);
        }
    }

    /// A pass has ended. If the loop has the idle task's first step, it will soon run it, so that task is dropped.
    pub(crate) fn pass_ends(&mut self, py: Python<'_>) {
        self.leave(py);
        if self
            .idle
            .as_ref()
            .is_some_and(|idle| idle.first_step.is_none())
        {
            self.idle = None;
        }
    }

    /// What lending tasks requires; None if requests have ordinary tasks.
    #[inline]
    pub(crate) fn lending(&self) -> Option<&Lending> {
        self.asyncio.as_ref()?.lending.as_ref()
    }

    /// Whether callbacks wait for the loop to run them; true for a loop that does not expose this.
    pub(crate) fn has_callbacks(&self, py: Python<'_>) -> bool {
        let asyncio = self.asyncio.as_ref();
        asyncio.is_some_and(|asyncio| asyncio.has_callbacks(py))
    }
}

#[cold]
fn unattached() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("the server is not attached to an event loop")
}
