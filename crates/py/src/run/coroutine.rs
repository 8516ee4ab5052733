//! The coroutine of the task that a request runs in, for a request that suspended in its first step or has a task of its own from the
//! start.

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyAttributeError, PyKeyboardInterrupt, PyStopIteration};
use pyo3::prelude::*;

use crate::ffi::{self, Awaitable, GilCell, Lent, Sent};
use crate::run::awaitable::awaitable;
use crate::run::context::run_in_its;
use crate::run::interrupt::is_of_signal;
use crate::run::running::Running;
use crate::run::yielded::Yielded;

/// A coroutine that continues in a task. With what it is for, it is one block of memory.
pub(crate) struct Suspended<C: ?Sized = dyn Completion> {
    pub(crate) coroutine: Py<PyAny>,
    /// The context that it started in; None if only the task has it.
    pub(crate) context: Option<Py<PyAny>>,
    /// That is the task's own, so it is the current one when the task runs.
    pub(crate) is_in_task: bool,
    /// What the coroutine did in a step that was not its task's, until the task has taken it.
    pub(crate) ahead: Option<Ahead>,
    /// Dropped when the coroutine has ended.
    pub(crate) running: Running,
    pub(crate) completion: C,
}

/// What a coroutine did in its first step, or in one that a message resumed.
pub(crate) enum Ahead {
    /// It waits for this.
    Yielded(Yielded),
    /// It has returned.
    Returned(Py<PyAny>),
    /// It has raised. Not a `Result` of both, which would take 8 bytes more.
    Raised(Box<PyErr>),
}

/// The purpose of a coroutine: what its end means for its exchange. It acts in the coroutine's context, which is `context` if it is known as an
/// object.
pub(crate) trait Completion: Send + Sync {
    /// Whether its handler responds to a request, instead of serving a WebSocket.
    fn is_of_request(&self) -> bool {
        true
    }

    /// The coroutine returned.
    ///
    /// # Errors
    /// An exception that ends the task.
    fn returned(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<After>;

    /// The coroutine raised.
    ///
    /// # Errors
    /// An exception that ends the task.
    fn raised(
        &mut self,
        py: Python<'_>,
        context: Option<&Py<PyAny>>,
        error: PyErr,
    ) -> PyResult<After>;

    /// The coroutine will never be resumed.
    fn closed(&mut self, py: Python<'_>);

    /// Method and path of the request, for the log.
    fn title(&self, py: Python<'_>) -> Option<String>;
}

/// What follows the end of a coroutine.
pub(crate) enum After {
    Coroutine(Py<PyAny>),
    End,
}

/// A coroutine in the sense of `collections.abc.Coroutine`, written in Rust. Debuggers see the coroutine in it.
#[pyclass(module = "bolide._core", frozen)]
#[derive(Default)]
pub(crate) struct RequestCoroutine {
    state: GilCell<State>,
    /// The coroutine of the current step.
    running: Lent,
}

enum State {
    Waiting(Box<Suspended>),
    /// It has no work. The coroutine that ended last, if there was one.
    Ended(Option<Py<PyAny>>),
}

impl Default for State {
    fn default() -> State {
        State::Ended(None)
    }
}

impl State {
    fn work(&self) -> Option<&Suspended> {
        match self {
            State::Waiting(work) => Some(work),
            State::Ended(_) => None,
        }
    }
}

impl RequestCoroutine {
    /// Continues with this work.
    pub(crate) fn take(&self, py: Python<'_>, work: Box<Suspended>) {
        self.put_back(py, work);
    }

    #[inline]
    fn put_back(&self, py: Python<'_>, work: Box<Suspended>) {
        let next = State::Waiting(work);
        let before = self.state.with(py, |state| std::mem::replace(state, next));
        drop(before);
    }

    /// Takes the work away.
    pub(crate) fn leave(&self, py: Python<'_>) -> Option<Box<Suspended>> {
        let taken = self.state.with(py, |state| match state {
            State::Waiting(_) => std::mem::take(state),
            State::Ended(_) => State::default(),
        });
        match taken {
            Some(State::Waiting(work)) => Some(work),
            _ => None,
        }
    }

    /// Runs a coroutine's step, while debuggers see that coroutine.
    #[inline]
    pub(crate) fn shows<R>(&self, coroutine: &Bound<'_, PyAny>, step: impl FnOnce() -> R) -> R {
        self.running.during(coroutine, step)
    }

    /// Whether a step of it is under way.
    pub(crate) fn is_running(&self, py: Python<'_>) -> bool {
        self.running.get(py).is_some()
    }

    /// Method and path of the request that waits in it, for the log.
    pub(crate) fn title(&self, py: Python<'_>) -> Option<String> {
        let title = |state: &mut State| state.work()?.completion.title(py);
        self.state.with(py, title).flatten()
    }

    /// The coroutine that debuggers see.
    fn shown<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if let Some(running) = self.running.get(py) {
            return Some(running);
        }
        let at_rest = |state: &mut State| {
            let shown = match state {
                State::Waiting(work) => Some(&work.coroutine),
                State::Ended(ended) => ended.as_ref(),
            };
            shown.map(|coroutine| coroutine.bind(py).clone())
        };
        self.state.with(py, at_rest).flatten()
    }

    /// Runs a step of the coroutine while its task waits for `awaited`. Returns true if the coroutine waits for the same again, so that
    /// nothing changes for the task. If not, the task has to be resumed, and finds what the coroutine did.
    pub(crate) fn step_ahead(&self, py: Python<'_>, awaited: &Bound<'_, PyAny>) -> bool {
        let Some(mut work) = self.leave(py) else {
            return false;
        };
        // Without a known context, it needs that of the task.
        if work.ahead.is_none() && work.context.is_some() {
            let coroutine = work.coroutine.bind(py).clone();
            let step = || work.step(py, work.context.as_ref(), None);
            let ahead = match self.shows(&coroutine, step).unwrap_or_else(Sent::raised) {
                Sent::Yielded(value) if value.is(awaited) => {
                    self.put_back(py, work);
                    return true;
                }
                Sent::Yielded(value) => Ahead::Yielded(Yielded::of(value)),
                Sent::Returned(value) => Ahead::Returned(value.unbind()),
                Sent::Raised(error) => Ahead::Raised(error),
            };
            work.ahead = Some(ahead);
        }
        self.put_back(py, work);
        false
    }

    /// Resumes the work, with or without an exception. The work is out of the object meanwhile, so that nothing is borrowed while Python
    /// runs.
    fn resume<'py>(&self, py: Python<'py>, mut thrown: Option<PyErr>) -> Sent<'py> {
        let none = || Sent::Returned(py.None().into_bound(py));
        let Some(mut work) = self.leave(py) else {
            return thrown.map_or_else(none, Sent::raised);
        };
        let mut ended = None;
        match work.ahead.take() {
            Some(Ahead::Yielded(yielded))
                if thrown
                    .as_ref()
                    .is_none_or(|cancelled| yielded.is_cancelled_with(py, cancelled)) =>
            {
                self.put_back(py, work);
                return Sent::Yielded(yielded.hand_over(py).into_bound(py));
            }
            // A cancellation since then comes too late.
            Some(Ahead::Returned(value)) => (ended, thrown) = (Some(Ok(value)), None),
            Some(Ahead::Raised(error)) => (ended, thrown) = (Some(Err(error)), None),
            Some(Ahead::Yielded(_)) | None => {}
        }
        loop {
            let coroutine = work.coroutine.bind(py).clone();
            let step = || match ended.take() {
                Some(Ok(value)) => Ok(Sent::Returned(value.into_bound(py))),
                Some(Err(error)) => Ok(Sent::Raised(error)),
                None => work.step(py, work.context_beside_task(), thrown.take()),
            };
            // Whatever fails, the work is not dropped without a response.
            let after = match self.shows(&coroutine, step).unwrap_or_else(Sent::raised) {
                Sent::Yielded(value) => {
                    self.put_back(py, work);
                    return Sent::Yielded(value);
                }
                Sent::Returned(value) => work.returned(py, &value),
                Sent::Raised(error) => work.raised(py, *error),
            };
            if let Ok(After::Coroutine(next)) = after {
                work.coroutine = next;
                continue;
            }
            let ended = State::Ended(Some(coroutine.unbind()));
            let before = self.state.with(py, |state| std::mem::replace(state, ended));
            drop(before);
            return after.err().map_or_else(none, Sent::raised);
        }
    }
}

impl Awaitable for RequestCoroutine {
    fn step<'py>(&self, py: Python<'py>) -> Sent<'py> {
        self.resume(py, None)
    }

    fn throw<'py>(&self, py: Python<'py>, error: PyErr) -> Sent<'py> {
        self.resume(py, Some(error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(mut work) = self.leave(py) {
            work.completion.closed(py);
            work.coroutine.call_method0(py, "close")?;
        }
        Ok(())
    }
}

awaitable! {
    impl RequestCoroutine {
        #[getter]
        fn __name__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            match self.shown(py) {
                Some(coroutine) => coroutine.getattr("__name__"),
                None => Ok(pyo3::intern!(py, "request").clone().into_any()),
            }
        }

        #[getter]
        fn __qualname__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            match self.shown(py) {
                Some(coroutine) => coroutine.getattr("__qualname__"),
                None => Ok(pyo3::intern!(py, "bolide.request").clone().into_any()),
            }
        }

        /// The attributes of a coroutine (`cr_frame`, `cr_await` and so on), which are those of the one in it.
        fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
            let shown = self.shown(py).filter(|_| name.starts_with("cr_"));
            match shown {
                Some(coroutine) => coroutine.getattr(name),
                None => Err(PyAttributeError::new_err(format!(
                    "the coroutine of a request has no attribute {name:?} now"
                ))),
            }
        }
    }
}

impl Suspended {
    /// The context to enter when its task runs, whose own is the current one.
    fn context_beside_task(&self) -> Option<&Py<PyAny>> {
        self.context.as_ref().filter(|_| !self.is_in_task)
    }

    /// The coroutine has returned, in its task.
    fn returned(&mut self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<After> {
        self.complete(py, |completion, context| {
            completion.returned(py, context, value)
        })
    }

    /// The coroutine has raised, in its task.
    fn raised(&mut self, py: Python<'_>, error: PyErr) -> PyResult<After> {
        self.complete(py, |completion, context| {
            completion.raised(py, context, error)
        })
    }

    /// Acts on the coroutine's end in its context, as asyncio does. Should that be entered already, the exchange ends nevertheless.
    fn complete(
        &mut self,
        py: Python<'_>,
        act: impl FnOnce(&mut dyn Completion, Option<&Py<PyAny>>) -> PyResult<After>,
    ) -> PyResult<After> {
        let beside_task = self.context_beside_task().map(|it| it.clone_ref(py));
        let entered = beside_task.filter(|it| ffi::enter_context(it.bind(py)).is_ok());
        let after = act(&mut self.completion, self.context.as_ref());
        if let Some(entered) = entered
            && let Err(error) = ffi::exit_context(entered.bind(py))
        {
            error.write_unraisable(py, None);
        }
        after
    }

    /// Runs the coroutine up to its next suspension, in a context, or in the current one.
    fn step<'py>(
        &self,
        py: Python<'py>,
        context: Option<&Py<PyAny>>,
        thrown: Option<PyErr>,
    ) -> PyResult<Sent<'py>> {
        let coroutine = self.coroutine.bind(py);
        let sent = run_in_its(py, context, || {
            let Some(error) = thrown else {
                return Ok(ffi::send(py, coroutine));
            };
            Ok(
                match coroutine.call_method1("throw", (error.into_value(py),)) {
                    Ok(value) => Sent::Yielded(value),
                    Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                        Sent::Returned(error.value(py).getattr("value")?)
                    }
                    Err(error) => Sent::raised(error),
                },
            )
        });
        ffi::leave_if_forked(py, None);
        sent
    }
}

/// Whether an exception concerns the task, and is not only a failure of the handler. SystemExit is only a failure: argparse and click raise
/// it for invalid arguments, and one request must not end the process for all others. So is a KeyboardInterrupt that no signal has raised.
pub(crate) fn ends_task(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<CancelledError>(py)
        || error.is_instance_of::<PyKeyboardInterrupt>(py) && is_of_signal(py, error)
}
