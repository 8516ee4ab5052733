//! The asyncio task in which coroutines take their first step.
//!
//! A task per request would cost more than the rest of the request. So one *idle* task, which has never run, is made the current one while
//! coroutines run their first step. A coroutine that ends there leaves it idle for the next. One that suspends keeps it: the task then runs
//! its own first step, in which its [`RequestCoroutine`] yields the future that the coroutine waits for, and everything after that is plain asyncio.
//! An idle task on which a handler left a trace (a reference, a weak reference, a callback, a cancellation, a name, an attribute) is never
//! used again.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::ffi::reuse::OurReferences;
use crate::ffi::{self, Reader};
use crate::run::coroutine::{RequestCoroutine, Suspended};

/// The parts of asyncio that are needed for it.
struct Asyncio {
    event_loop: Py<PyAny>,
    task_type: Py<PyType>,
    enter_task: Py<PyAny>,
    leave_task: Py<PyAny>,
    current_task: Py<PyAny>,
    register_task: Py<PyAny>,
    unregister_task: Py<PyAny>,
    must_cancel: Reader,
    callbacks: Reader,
    get_name: Reader,
    /// The loop's queue of handles; `None` for a loop that does not expose it.
    ready: Option<Py<PyAny>>,
}

/// A task whose first step is still to run.
struct Idle {
    task: Py<PyAny>,
    driver: Py<RequestCoroutine>,
    /// The scheduled first step, taken back from the loop.
    first_step: Option<Py<PyAny>>,
    /// The references to the task when it was new and current.
    references: OurReferences,
    name: Py<PyAny>,
    /// The task's own attributes: an empty dict that only the task and we reference.
    attributes: Py<PyDict>,
}

/// The references to what a task holds and we hold too.
const BESIDE_TASK: OurReferences = OurReferences::of(2);

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
    /// Binds it to a loop.
    pub(crate) fn attach(
        &mut self,
        event_loop: &Bound<'_, PyAny>,
        owns_loop: bool,
    ) -> PyResult<()> {
        let tasks = event_loop.py().import("asyncio.tasks")?;
        let function = |name: &str| -> PyResult<Py<PyAny>> { Ok(tasks.getattr(name)?.unbind()) };
        let ready = if owns_loop {
            Some(event_loop.getattr("_ready")?.unbind())
        } else {
            None
        };
        let task_type = tasks.getattr("Task")?.cast_into::<PyType>()?;
        self.asyncio = Some(Asyncio {
            must_cancel: Reader::new(&task_type, "_must_cancel")?,
            callbacks: Reader::new(&task_type, "_callbacks")?,
            get_name: Reader::new(&task_type, "get_name")?,
            event_loop: event_loop.clone().unbind(),
            task_type: task_type.unbind(),
            enter_task: function("_enter_task")?,
            leave_task: function("_leave_task")?,
            current_task: function("current_task")?,
            register_task: function("_register_task")?,
            unregister_task: function("_unregister_task")?,
            ready,
        });
        Ok(())
    }

    /// Makes an idle task the current one.
    #[inline]
    pub(crate) fn enter(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.is_current {
            return Ok(());
        }
        let Some(asyncio) = &self.asyncio else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "the server is not attached to an event loop",
            ));
        };
        let idle = match self.idle.take() {
            Some(idle) => idle,
            None => asyncio.new_idle(py)?,
        };
        if asyncio.enter(py, &idle.task).is_err() {
            self.caller = asyncio.leave_caller(py)?;
            asyncio.enter(py, &idle.task)?;
        }
        self.is_current = true;
        self.idle = Some(Idle {
            references: OurReferences::now(idle.task.bind(py)),
            ..idle
        });
        Ok(())
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
        let (Some(asyncio), Some(idle)) = (&self.asyncio, &self.idle) else {
            return;
        };
        let left = asyncio
            .leave(py, &idle.task)
            .and_then(|()| match self.caller.take() {
                Some(caller) => asyncio.enter(py, &caller),
                None => Ok(()),
            });
        if let Err(error) = left {
            error.write_unraisable(py, None);
        }
    }

    /// What ran in the current task, if there is one, has ended in its first step: keeps the task idle, or drops it if a trace is left.
    #[inline]
    pub(crate) fn ended(&mut self, py: Python<'_>) {
        if !self.is_current {
            return;
        }
        let is_kept = match (&self.asyncio, &self.idle) {
            (Some(asyncio), Some(idle)) => idle.is_kept(py, asyncio).unwrap_or(true),
            _ => true,
        };
        if is_kept {
            self.retire(py);
        }
    }

    /// A coroutine suspended in its first step: it keeps the task.
    pub(crate) fn suspended(
        &mut self,
        py: Python<'_>,
        work: Suspended,
    ) -> PyResult<Option<Py<PyAny>>> {
        self.leave(py);
        let (Some(asyncio), Some(idle)) = (&self.asyncio, self.idle.take()) else {
            return Ok(None);
        };
        idle.driver.borrow_mut(py).take(work);
        idle.task
            .setattr(py, pyo3::intern!(py, "_log_destroy_pending"), true)?;
        ffi::call(py, &asyncio.register_task, [idle.task.bind(py)])?;
        asyncio.schedule(py, idle.first_step)?;
        Ok(Some(idle.task))
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

    /// A pass has ended. If the loop does not expose its handles, it will soon run the idle task's first step, so that task is dropped.
    pub(crate) fn pass_ends(&mut self, py: Python<'_>) {
        self.leave(py);
        if self
            .asyncio
            .as_ref()
            .is_some_and(|asyncio| asyncio.ready.is_none())
        {
            self.idle = None;
        }
    }
}

impl Asyncio {
    fn enter(&self, py: Python<'_>, task: &Py<PyAny>) -> PyResult<()> {
        ffi::call(
            py,
            &self.enter_task,
            [self.event_loop.bind(py), task.bind(py)],
        )?;
        Ok(())
    }

    fn leave(&self, py: Python<'_>, task: &Py<PyAny>) -> PyResult<()> {
        ffi::call(
            py,
            &self.leave_task,
            [self.event_loop.bind(py), task.bind(py)],
        )?;
        Ok(())
    }

    /// Leaves the current task, if it is not ours.
    #[cold]
    fn leave_caller(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let caller = ffi::call(py, &self.current_task, [self.event_loop.bind(py)])?.unbind();
        if caller.is_none(py) {
            return Ok(None);
        }
        self.leave(py, &caller)?;
        Ok(Some(caller))
    }

    fn new_idle(&self, py: Python<'_>) -> PyResult<Idle> {
        let driver = Py::new(py, RequestCoroutine::default())?;
        let keywords = PyDict::new(py);
        keywords.set_item("loop", &self.event_loop)?;
        let task = self
            .task_type
            .call(py, (driver.clone_ref(py),), Some(&keywords))?;
        let first_step = match &self.ready {
            Some(ready) => Some(ready.call_method0(py, pyo3::intern!(py, "pop"))?),
            None => None,
        };
        // Until it has work it stays hidden: not in all_tasks(), and no warning if it is dropped.
        ffi::call(py, &self.unregister_task, [task.bind(py)])?;
        task.setattr(py, pyo3::intern!(py, "_log_destroy_pending"), false)?;
        Ok(Idle {
            name: self.get_name.read(task.bind(py))?.unbind(),
            attributes: ffi::attributes(task.bind(py))?.unbind(),
            references: OurReferences::now(task.bind(py)),
            task,
            driver,
            first_step,
        })
    }

    fn schedule(&self, py: Python<'_>, first_step: Option<Py<PyAny>>) -> PyResult<()> {
        if let (Some(ready), Some(first_step)) = (&self.ready, first_step) {
            ready.call_method1(py, pyo3::intern!(py, "append"), (first_step,))?;
        }
        Ok(())
    }
}

impl Idle {
    /// Whether a handler left anything on the task.
    #[inline]
    fn is_kept(&self, py: Python<'_>, asyncio: &Asyncio) -> PyResult<bool> {
        let task = self.task.bind(py);
        if !self.references.are_all(py, &self.task)
            || !BESIDE_TASK.are_all(py, &self.attributes)
            || !self.attributes.bind(py).is_empty()
            || !BESIDE_TASK.are_all(py, &self.driver)
            || !asyncio.get_name.read(task)?.is(&self.name)
        {
            return Ok(true);
        }
        let is_cancelled = asyncio.must_cancel.read(task)?.is_truthy()?;
        Ok(is_cancelled || !asyncio.callbacks.read(task)?.is_none())
    }
}
