//! The event loop and the tasks of asyncio, as far as requests need them.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyNone, PyType};

use crate::ffi::reuse::OurReferences;
use crate::ffi::{self, Reader};
use crate::run::context::Contexts;
use crate::run::coroutine::{RequestCoroutine, Suspended};

/// An event loop.
pub(crate) struct Asyncio {
    event_loop: Py<PyAny>,
    /// The attributes of a loop that is asyncio's own.
    attributes: Option<Py<PyDict>>,
    /// Its queue of handles; `None` for a loop that does not expose it.
    pub(crate) ready: Option<Py<PyAny>>,
    /// What lending tasks requires; None if requests have ordinary tasks.
    pub(crate) lending: Option<Lending>,
}

/// The parts of asyncio that a task is lent with.
pub(crate) struct Lending {
    event_loop: Py<PyAny>,
    /// The module `asyncio.tasks`.
    tasks: Py<PyAny>,
    task_type: Py<PyType>,
    enter_task: Py<PyAny>,
    leave_task: Py<PyAny>,
    current_task: Py<PyAny>,
    register_task: Py<PyAny>,
    unregister_task: Py<PyAny>,
    must_cancel: Reader,
    callbacks: Reader,
    get_name: Reader,
}

/// The references to what a task holds and we hold too.
const BESIDE_TASK: OurReferences = OurReferences::of(2);

/// A task whose first step is still to run.
pub(crate) struct Idle {
    pub(crate) task: Py<PyAny>,
    pub(crate) request_coroutine: Py<RequestCoroutine>,
    /// The scheduled first step, taken back from the loop; None if the loop has it.
    pub(crate) first_step: Option<Py<PyAny>>,
    /// The references to the task when it was new and current.
    references: OurReferences,
    name: Py<PyAny>,
    /// The task's own attributes, if it does not say whether it has any: an empty dict that only the task and we reference.
    attributes: Option<Py<PyDict>>,
}

impl Asyncio {
    /// The parts of this loop. `lends` if requests may share a task in their first step.
    ///
    /// # Errors
    /// If asyncio cannot be imported, or a loop of our own class lacks its queue.
    pub(crate) fn new(
        event_loop: &Bound<'_, PyAny>,
        owns_loop: bool,
        lends: bool,
    ) -> PyResult<Asyncio> {
        let ready = match owns_loop {
            true => Some(event_loop.getattr("_ready")?.unbind()),
            false => None,
        };
        let attributes = event_loop.getattr("__dict__").ok();
        let attributes = attributes.and_then(|found| found.cast_into::<PyDict>().ok());
        // A task class that is written in Python, as some debuggers install it, cannot be lent.
        let lending = lends.then(|| Lending::new(event_loop).ok()).flatten();
        Ok(Asyncio {
            event_loop: event_loop.clone().unbind(),
            attributes: attributes
                .filter(|it| it.contains("_debug").unwrap_or(false))
                .map(Bound::unbind),
            ready,
            lending,
        })
    }

    /// Whether the application has configured the loop in a way that requires ordinary tasks: with a task factory, or with reports on each
    /// step.
    pub(crate) fn wants_own_tasks(&self, py: Python<'_>) -> PyResult<bool> {
        if let Some(attributes) = &self.attributes {
            let attributes = attributes.bind(py);
            let debug = attributes.get_item(pyo3::intern!(py, "_debug"))?;
            let factory = attributes.get_item(pyo3::intern!(py, "_task_factory"))?;
            return Ok(
                debug.is_some_and(|debug| debug.is_truthy().unwrap_or(false))
                    || factory.is_some_and(|factory| !factory.is_none()),
            );
        }
        let event_loop = self.event_loop.bind(py);
        let debug = event_loop.call_method0(pyo3::intern!(py, "get_debug"))?;
        let factory = event_loop.call_method0(pyo3::intern!(py, "get_task_factory"))?;
        Ok(debug.is_truthy()? || !factory.is_none())
    }

    /// Whether callbacks wait for the loop to run them; true for a loop that does not expose this.
    pub(crate) fn has_callbacks(&self, py: Python<'_>) -> bool {
        let ready = self.ready.as_ref().map(|ready| ready.bind(py));
        ready.is_none_or(|ready| ffi::length(ready) > 0)
    }

    /// Has the loop create a task for this work. None if the task has ended already, as one of a task factory may have.
    ///
    /// # Errors
    /// Any error of the factory; the work is closed then.
    pub(crate) fn create_task(
        &self,
        py: Python<'_>,
        work: Box<Suspended>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let coroutine = Bound::new(py, RequestCoroutine::default())?;
        coroutine.get().take(py, work);
        let create = || -> PyResult<_> {
            let name = pyo3::intern!(py, "create_task");
            let task = self.event_loop.call_method1(py, name, (&coroutine,))?;
            let is_done = task.call_method0(py, pyo3::intern!(py, "done"))?;
            Ok((!is_done.is_truthy(py)?).then_some(task))
        };
        create().inspect_err(|_| {
            if let Some(work) = coroutine.get().leave(py) {
                // An exception raised while closing adds nothing.
                let _ = work.coroutine.call_method0(py, "close");
            }
        })
    }

    /// Returns a first step that was taken back to the loop.
    pub(crate) fn schedule(&self, py: Python<'_>, first_step: Option<Py<PyAny>>) -> PyResult<()> {
        if let (Some(ready), Some(first_step)) = (&self.ready, first_step) {
            ready.call_method1(py, pyo3::intern!(py, "append"), (first_step,))?;
        }
        Ok(())
    }

    /// Takes the first step of a new task back from the loop. None if the loop does not expose it.
    fn take_back(&self, py: Python<'_>, task: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let Some(ready) = &self.ready else {
            return Ok(None);
        };
        // Usually it is the last one. But another thread, or a finalizer, may have queued something after it.
        let (mut found, mut others) = (None, Vec::new());
        while found.is_none() && ffi::length(ready.bind(py)) > 0 {
            let handle = ready.call_method0(py, pyo3::intern!(py, "pop"))?;
            match is_step_of(handle.bind(py), task) {
                true => found = Some(handle),
                false => others.push(handle),
            }
        }
        for handle in others.into_iter().rev() {
            ready.call_method1(py, pyo3::intern!(py, "append"), (handle,))?;
        }
        Ok(found)
    }
}

/// Whether a handle is a step of this task.
fn is_step_of(handle: &Bound<'_, PyAny>, task: &Bound<'_, PyAny>) -> bool {
    let py = handle.py();
    let step = handle.getattr(pyo3::intern!(py, "_callback"));
    let owner = step.and_then(|step| step.getattr(pyo3::intern!(py, "__self__")));
    owner.is_ok_and(|owner| owner.is(task))
}

impl Lending {
    fn new(event_loop: &Bound<'_, PyAny>) -> PyResult<Lending> {
        let tasks = event_loop.py().import("asyncio.tasks")?;
        let function = |name: &str| -> PyResult<Py<PyAny>> { Ok(tasks.getattr(name)?.unbind()) };
        let task_type = tasks.getattr("Task")?.cast_into::<PyType>()?;
        Ok(Lending {
            event_loop: event_loop.clone().unbind(),
            must_cancel: Reader::new(&task_type, "_must_cancel")?,
            callbacks: Reader::new(&task_type, "_callbacks")?,
            get_name: Reader::new(&task_type, "get_name")?,
            task_type: task_type.unbind(),
            enter_task: function("_enter_task")?,
            leave_task: function("_leave_task")?,
            current_task: function("current_task")?,
            register_task: function("_register_task")?,
            unregister_task: function("_unregister_task")?,
            tasks: tasks.into_any().unbind(),
        })
    }

    /// Whether asyncio's class of tasks is still the one that is lent.
    pub(crate) fn lends_its_class(&self, py: Python<'_>) -> PyResult<bool> {
        let task_type = self.tasks.getattr(py, pyo3::intern!(py, "Task"))?;
        Ok(task_type.is(&self.task_type))
    }

    pub(crate) fn enter(&self, py: Python<'_>, task: &Py<PyAny>) -> PyResult<()> {
        let arguments = [self.event_loop.bind(py), task.bind(py)];
        ffi::call(py, &self.enter_task, arguments).map(drop)
    }

    pub(crate) fn leave(&self, py: Python<'_>, task: &Py<PyAny>) -> PyResult<()> {
        let arguments = [self.event_loop.bind(py), task.bind(py)];
        ffi::call(py, &self.leave_task, arguments).map(drop)
    }

    /// Whether a task is of asyncio's class, and not of one that may run its steps differently.
    pub(crate) fn lends(&self, task: &Bound<'_, PyAny>) -> bool {
        task.get_type().is(&self.task_type)
    }

    /// Whether no task runs now.
    #[inline]
    pub(crate) fn has_no_current(&self, py: Python<'_>) -> PyResult<bool> {
        let current = ffi::call(py, &self.current_task, [self.event_loop.bind(py)])?;
        Ok(current.is_none())
    }

    /// Leaves the current task, if it is not ours.
    #[cold]
    pub(crate) fn leave_caller(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let caller = ffi::call(py, &self.current_task, [self.event_loop.bind(py)])?.unbind();
        if caller.is_none(py) {
            return Ok(None);
        }
        self.leave(py, &caller)?;
        Ok(Some(caller))
    }

    /// Makes a task hidden: not in `all_tasks()`, and no warning if it is dropped; or shows it.
    pub(crate) fn show(&self, task: &Bound<'_, PyAny>, is_shown: bool) -> PyResult<()> {
        let register = match is_shown {
            true => &self.register_task,
            false => &self.unregister_task,
        };
        ffi::call(task.py(), register, [task])?;
        task.setattr(pyo3::intern!(task.py(), "_log_destroy_pending"), is_shown)
    }
}

impl Idle {
    /// A new task that is lent. It has the lent context, unless a foreign loop may run its first step at any time: that enters the context.
    pub(crate) fn new(
        py: Python<'_>,
        asyncio: &Asyncio,
        lending: &Lending,
        contexts: &mut Contexts,
    ) -> PyResult<Idle> {
        let taken = contexts.for_task(py, asyncio.ready.is_some())?;
        let idle = Idle::with_context(py, asyncio, lending, taken.context)?;
        if taken.is_of_task {
            contexts.task_has_it(py);
        }
        Ok(idle)
    }

    fn with_context(
        py: Python<'_>,
        asyncio: &Asyncio,
        lending: &Lending,
        context: Py<PyAny>,
    ) -> PyResult<Idle> {
        let request_coroutine = Py::new(py, RequestCoroutine::default())?;
        let keywords = PyDict::new(py);
        keywords.set_item("loop", &asyncio.event_loop)?;
        keywords.set_item("context", context)?;
        let task = lending
            .task_type
            .bind(py)
            .call((request_coroutine.clone_ref(py),), Some(&keywords))?;
        let first_step = asyncio.take_back(py, &task)?;
        lending.show(&task, false)?;
        let attributes = match ffi::has_attributes(&task) {
            Some(false) => None,
            _ => Some(ffi::attributes(&task)?.unbind()),
        };
        Ok(Idle {
            name: lending.get_name.read(&task)?.unbind(),
            attributes,
            references: OurReferences::now(&task),
            task: task.unbind(),
            request_coroutine,
            first_step,
        })
    }

    /// It is the current task from now on, with its references of that moment.
    pub(crate) fn with_current_references(self, py: Python<'_>) -> Idle {
        Idle {
            references: OurReferences::now(self.task.bind(py)),
            ..self
        }
    }

    /// Whether the loop has run its first step, which happens if the loop ran inside a handler.
    pub(crate) fn is_over(&self, py: Python<'_>) -> bool {
        let is_done = || self.task.call_method0(py, "done")?.is_truthy(py);
        self.first_step.is_none() && is_done().unwrap_or(false)
    }

    /// Whether a handler left anything on the task.
    #[inline]
    pub(crate) fn is_kept(&self, py: Python<'_>, lending: &Lending) -> bool {
        let task = self.task.bind(py);
        let has_attributes = match &self.attributes {
            None => ffi::has_attributes(task) != Some(false),
            Some(own) => !BESIDE_TASK.are_all(py, own) || !own.bind(py).is_empty(),
        };
        has_attributes
            || !self.references.are_all(py, &self.task)
            || !BESIDE_TASK.are_all(py, &self.request_coroutine)
            || !lending.get_name.reads(task, self.name.bind(py))
            || !lending.must_cancel.reads(task, &PyBool::new(py, false))
            || !lending.callbacks.reads(task, &PyNone::get(py))
    }

    /// A WebSocket keeps it: gives it the name that all such tasks share, instead of a string of its own (bench: idle), unless the handler
    /// has named it.
    #[cold]
    pub(crate) fn share_name(&self, py: Python<'_>, lending: &Lending) -> PyResult<()> {
        let task = self.task.bind(py);
        if lending.get_name.reads(task, self.name.bind(py)) {
            let shared = pyo3::intern!(py, "WebSocket");
            task.call_method1(pyo3::intern!(py, "set_name"), (shared,))?;
        }
        Ok(())
    }

    /// Whether its first step throws a cancellation into its coroutine.
    #[inline]
    pub(crate) fn is_cancelled(&self, py: Python<'_>, lending: &Lending) -> PyResult<bool> {
        lending.must_cancel.read(self.task.bind(py))?.is_truthy()
    }

    /// Runs the first step, in which the task takes what its coroutine waits for, if that was taken back from the loop. It runs at once, so
    /// that other code finds a task that waits and is woken in its turn.
    pub(crate) fn run_first_step(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(first_step) = &self.first_step {
            first_step.call_method0(py, pyo3::intern!(py, "_run"))?;
        }
        Ok(())
    }
}
