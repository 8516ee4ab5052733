//! What a task in `receive()` waits for.
//!
//! asyncio's tasks wait for any object that has the methods of a future. This one calls the task's wake-up in the task's context, as the
//! loop would, but where the message arrives. A future of asyncio would wake the task in the loop's next iteration, which costs more than
//! the rest of an echo.

use std::sync::Arc;

use pyo3::exceptions::asyncio::{CancelledError, InvalidStateError};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ffi::{self, GilCell};
use crate::run::asyncio::Lending;
use crate::run::context::run_in;
use crate::run::coroutine::RequestCoroutine;
use crate::run::exchanges::Exchanges;

/// A task that runs a handler, and its coroutine.
type Owner = (Py<PyAny>, Py<RequestCoroutine>);

/// A function to call, in a context if one is given.
type Callback = (Py<PyAny>, Option<Py<PyAny>>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Pending,
    Done,
    Cancelled,
}

#[derive(Clone, Copy, Default)]
struct Marks {
    progress: Progress,
    /// An `await` yields it, and no task has taken it yet.
    is_blocking: bool,
    /// Something else took it in a step of its owner, whose task waits for it meanwhile as far as asyncio knows.
    is_shared: bool,
}

#[derive(Default)]
struct State {
    /// The task's.
    first: Option<Callback>,
    /// The task of the first callback, if that is known to run a handler.
    owner: Option<Owner>,
    rare: Option<Box<Rare>>,
}

/// What an arrival that only a task awaits does not have.
#[derive(Default)]
struct Rare {
    /// What `cancel()` was called with.
    message: Option<Py<PyAny>>,
    /// What others than the task have added.
    others: Vec<Callback>,
}

impl State {
    /// The owner, and the callbacks.
    #[inline]
    fn take_all(&mut self) -> (Option<Owner>, Option<Callback>, Vec<Callback>) {
        (self.owner.take(), self.first.take(), self.take_others())
    }

    /// The callbacks after the first.
    fn take_others(&mut self) -> Vec<Callback> {
        let rare = self.rare.as_mut();
        rare.map(|rare| std::mem::take(&mut rare.others))
            .unwrap_or_default()
    }
}

/// An object like a future.
#[pyclass(module = "bolide._core", frozen, weakref)]
pub(crate) struct Arrival {
    exchanges: Arc<Exchanges>,
    state: GilCell<State, Marks>,
}

impl Arrival {
    /// One that is pending, for an `await` to yield.
    pub(super) fn new(py: Python<'_>, exchanges: &Arc<Exchanges>) -> PyResult<Py<Arrival>> {
        let marks = Marks {
            progress: Progress::Pending,
            is_blocking: true,
            is_shared: false,
        };
        let exchanges = Arc::clone(exchanges);
        let state = GilCell::beside(marks, State::default());
        Py::new(py, Arrival { exchanges, state })
    }

    /// It is waited for again: it is pending still, or only we have had it since it was done.
    pub(super) fn expect_again(&self, py: Python<'_>) {
        let mut marks = self.state.small(py);
        if marks.progress == Progress::Done {
            marks.progress = Progress::Pending;
            marks.is_shared = false;
        }
        marks.is_blocking = true;
        self.state.set_small(py, marks);
    }

    fn with<R>(&self, py: Python<'_>, reach: impl FnOnce(&mut State) -> R) -> PyResult<R> {
        self.state.reach(py, reach)
    }

    /// Whether nobody has cancelled or fired it.
    #[inline]
    pub(super) fn is_pending(&self, py: Python<'_>) -> bool {
        self.state.small(py).progress == Progress::Pending
    }

    /// Leaves the state of waiting. Returns false if it was left before.
    #[inline]
    fn ends_as(&self, py: Python<'_>, progress: Progress) -> bool {
        let marks = self.state.small(py);
        let was_pending = marks.progress == Progress::Pending;
        if was_pending {
            self.state.set_small(py, Marks { progress, ..marks });
        }
        was_pending
    }

    /// Something has arrived: resumes the task that waits. With `lending` at once, unless another task runs now; otherwise in the loop's
    /// next iteration.
    ///
    /// A coroutine that waits for the same again after its step needs nothing of its task but that it is the current one meanwhile.
    ///
    /// # Errors
    /// What ends the process.
    pub(super) fn arrive(slf: &Bound<'_, Arrival>, lending: Option<&Lending>) -> PyResult<()> {
        let py = slf.py();
        let Some(lending) = lending else {
            return Arrival::fire(slf, false);
        };
        let Some((task, coroutine)) = slf.get().owner(py, lending)? else {
            return Arrival::fire(slf, lending.has_no_current(py).unwrap_or(false));
        };
        if lending.enter(py, &task).is_err() {
            return Arrival::fire(slf, false);
        }
        let waits_again = coroutine.get().step_ahead(py, slf.as_any());
        if let Err(error) = lending.leave(py, &task) {
            error.write_unraisable(py, Some(task.bind(py)));
        }
        match waits_again {
            true => Ok(()),
            false => Arrival::fire(slf, true),
        }
    }

    /// The task that waits and its coroutine, if it is a task that runs a handler.
    fn owner(&self, py: Python<'_>, lending: &Lending) -> PyResult<Option<Owner>> {
        let is_pending = self.is_pending(py);
        let (known, callback) = self.with(py, |state| {
            let known = state.owner.as_ref();
            let known = known.map(|(task, own)| (task.clone_ref(py), own.clone_ref(py)));
            let callback = match (&known, &state.first) {
                (None, Some((callback, _))) => Some(callback.clone_ref(py)),
                _ => None,
            };
            (known.filter(|_| is_pending), callback)
        })?;
        let Some(callback) = callback else {
            return Ok(known);
        };
        let find = || -> PyResult<Option<Owner>> {
            let task = callback.getattr(py, pyo3::intern!(py, "__self__"))?;
            if !lending.lends(task.bind(py)) {
                return Ok(None);
            }
            let coroutine = task.call_method0(py, pyo3::intern!(py, "get_coro"))?;
            let coroutine = coroutine.bind(py).cast::<RequestCoroutine>();
            Ok(coroutine.ok().map(|own| (task, own.clone().unbind())))
        };
        let owner = find().unwrap_or(None);
        if let Some((task, own)) = &owner {
            let owner = (task.clone_ref(py), own.clone_ref(py));
            let before = self.with(py, |state| state.owner.replace(owner))?;
            drop(before);
        }
        Ok(owner)
    }

    /// Whether a step of the owner is under way, which [`Arrival::arrive`] runs while its task is registered here.
    #[cold]
    fn is_owner_running(&self, py: Python<'_>) -> bool {
        let is_running = |state: &mut State| {
            let owner = state.owner.as_ref();
            owner.is_some_and(|(_, coroutine)| coroutine.get().is_running(py))
        };
        self.with(py, is_running).unwrap_or(false)
    }

    /// Nothing will resume the task that waits.
    pub(in crate::run) fn forget(&self, py: Python<'_>) {
        let taken = self.with(py, |state| {
            (state.owner.take(), state.first.take(), state.take_others())
        });
        drop(taken);
    }

    /// Resumes the task that waits, if it still does: at once, or in the loop's next iteration.
    ///
    /// # Errors
    /// What ends the process.
    pub(super) fn fire(slf: &Bound<'_, Arrival>, is_direct: bool) -> PyResult<()> {
        let py = slf.py();
        if !slf.get().ends_as(py, Progress::Done) {
            return Ok(());
        }
        let (_owner, first, others) = slf.get().with(py, State::take_all)?;
        for (callback, context) in first.into_iter().chain(others) {
            match context {
                Some(context) if is_direct => run_now(slf, &callback, context.bind(py))?,
                context => slf.get().call_soon(slf, &callback, context.as_ref())?,
            }
        }
        Ok(())
    }

    /// Has the loop call a function with this.
    #[cold]
    fn call_soon(
        &self,
        slf: &Bound<'_, Arrival>,
        callback: &Py<PyAny>,
        context: Option<&Py<PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let Some(event_loop) = self.exchanges.event_loop.get(py) else {
            return Ok(());
        };
        let keywords = PyDict::new(py);
        if let Some(context) = context {
            keywords.set_item("context", context)?;
        }
        event_loop.call_method(py, "call_soon", (callback, slf), Some(&keywords))?;
        Ok(())
    }
}

/// Calls a task's wake-up as the loop would. What it raises ends the process, or is only reported.
fn run_now(
    arrival: &Bound<'_, Arrival>,
    callback: &Py<PyAny>,
    context: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = arrival.py();
    match run_in(context, || ffi::call(py, callback, [arrival.as_any()])) {
        Ok(_) => Ok(()),
        Err(error)
            if error.is_instance_of::<PyKeyboardInterrupt>(py)
                || error.is_instance_of::<PySystemExit>(py) =>
        {
            Err(error)
        }
        Err(error) => {
            error.write_unraisable(py, None);
            Ok(())
        }
    }
}

#[pymethods]
impl Arrival {
    #[getter(_asyncio_future_blocking)]
    fn is_blocking(&self, py: Python<'_>) -> bool {
        self.state.small(py).is_blocking
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, py: Python<'_>, is_blocking: bool) {
        let marks = self.state.small(py);
        // The owner itself does not run once it waits: it is a task that the application started eagerly, or what steps an awaitable by hand.
        let is_taken = marks.is_blocking && !is_blocking;
        let is_shared = marks.is_shared || is_taken && self.is_owner_running(py);
        let marks = Marks {
            is_blocking,
            is_shared,
            ..marks
        };
        self.state.set_small(py, marks);
    }

    fn get_loop(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let event_loop = self.exchanges.event_loop.get(py);
        event_loop.map(|event_loop| event_loop.clone_ref(py))
    }

    #[pyo3(signature = (callback, /, *, context=None))]
    fn add_done_callback(
        slf: &Bound<'_, Arrival>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        if !slf.get().is_pending(py) {
            return slf.get().call_soon(slf, &callback, context.as_ref());
        }
        slf.get().with(py, |state| match &state.first {
            None => state.first = Some((callback, context)),
            Some(_) => {
                let rare = state.rare.get_or_insert_default();
                rare.others.push((callback, context));
            }
        })
    }

    fn remove_done_callback(&self, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = callback.py();
        let (first, others) = self.with(py, |state| (state.first.take(), state.take_others()))?;
        let (mut kept, mut removed) = (Vec::new(), 0);
        for (own, context) in first.into_iter().chain(others) {
            match own.bind(py).eq(callback)? {
                true => removed += 1,
                false => kept.push((own, context)),
            }
        }
        self.with(py, |state| {
            // Comparing them may have run Python, which may have added some.
            let added = state.first.take().into_iter().chain(state.take_others());
            kept.extend(added);
            let mut kept = kept.into_iter();
            state.first = kept.next();
            let others: Vec<Callback> = kept.collect();
            if !others.is_empty() {
                state.rare.get_or_insert_default().others = others;
            }
        })?;
        Ok(removed)
    }

    fn done(&self, py: Python<'_>) -> bool {
        !self.is_pending(py)
    }

    pub(super) fn cancelled(&self, py: Python<'_>) -> bool {
        self.state.small(py).progress == Progress::Cancelled
    }

    fn result(&self, py: Python<'_>) -> PyResult<()> {
        let message = self.with(py, |state| {
            let rare = state.rare.as_ref();
            let message = rare.and_then(|rare| rare.message.as_ref());
            message.map(|message| message.clone_ref(py))
        })?;
        match (self.state.small(py).progress, message) {
            (Progress::Done, _) => Ok(()),
            (Progress::Pending, _) => Err(InvalidStateError::new_err("Result is not set.")),
            (Progress::Cancelled, Some(message)) => Err(CancelledError::new_err((message,))),
            (Progress::Cancelled, None) => Err(CancelledError::new_err(())),
        }
    }

    fn exception(&self, py: Python<'_>) -> PyResult<()> {
        self.result(py)
    }

    /// While the owner runs, who cancels what is shared is unknown. A task for which this returns false remembers its cancellation
    /// itself, and the end of the step resumes all that wait.
    #[pyo3(signature = (msg=None))]
    fn cancel(slf: &Bound<'_, Arrival>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let py = slf.py();
        if slf.get().state.small(py).is_shared && slf.get().is_owner_running(py) {
            return Ok(false);
        }
        if !slf.get().ends_as(py, Progress::Cancelled) {
            return Ok(false);
        }
        let (_owner, first, others) = slf.get().with(py, |state| {
            let callbacks = state.take_all();
            if msg.is_some() {
                state.rare.get_or_insert_default().message = msg;
            }
            callbacks
        })?;
        for (callback, context) in first.into_iter().chain(others) {
            slf.get().call_soon(slf, &callback, context.as_ref())?;
        }
        Ok(true)
    }
}
