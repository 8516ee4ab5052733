//! A `contextvars` context for each call.
//!
//! Creating, entering and freeing one takes a tenth of a request's time. So one *lent* context stays the current one for many calls in a
//! row, as the idle task does (`task.rs`). If a call sets no variable, the context still holds the same mapping of variables, which is
//! immutable. A call that sets a variable or suspends keeps the context.
//!
//! A new idle task is created with the lent context, so that a handler that suspends has one context, and not one for itself and one for its
//! task. If a call keeps that context without the task, because it has set a variable or its response is pulled, the task is not lent
//! again: its context would hold what belongs to that call. Until a handler suspends, the tasks after it have contexts of their own, so that
//! an application that sets variables needs no new task for each call.

use pyo3::prelude::*;

use crate::ffi;
use crate::ffi::reuse::OurReferences;

/// Lends contexts that hold the server's own variables and nothing of any other request.
pub(crate) struct Contexts {
    pristine: Option<Pristine>,
    lent: Option<Py<PyAny>>,
    is_current: bool,
    /// The idle task was created with the lent context.
    is_of_task: bool,
    /// A call has kept the context of the idle task, without the task.
    is_task_left: bool,
    /// The next idle task has a context of its own.
    is_apart: bool,
    /// The references to the lent context while it is current and no other code has it.
    references: OurReferences,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            pristine: None,
            lent: None,
            is_current: false,
            is_of_task: false,
            is_task_left: false,
            is_apart: false,
            references: OF_CONTEXT,
        }
    }
}

/// A context for an idle task, or that a call continues in.
pub(crate) struct Taken {
    pub(crate) context: Py<PyAny>,
    /// It is both the lent one and that of the idle task.
    pub(crate) is_of_task: bool,
}

/// What every call starts with.
struct Pristine {
    context: Py<PyAny>,
    /// Its variables, if a context with others can be detected. Nothing runs in it, so they stay the same.
    variables: Option<usize>,
}

/// The references to a current context: ours and the thread's.
const OF_CONTEXT: OurReferences = OurReferences::of(2);
/// What no context has: it is dropped at the end of its call.
const OF_NONE: OurReferences = OurReferences::of(0);

impl Pristine {
    fn new(py: Python<'_>) -> PyResult<Pristine> {
        let context = ffi::copy_current_context(py)?;
        let detects_changes = detects_changes(py).unwrap_or(false);
        Ok(Pristine {
            variables: detects_changes.then(|| ffi::context_variables(&context)),
            context: context.unbind(),
        })
    }
}

impl Contexts {
    /// Makes a context without traces of other requests the current one.
    #[inline]
    pub(crate) fn enter(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.is_current {
            return Ok(());
        }
        self.enter_now(py)
    }

    /// A call has ended: its context stays current for the next one, or is dropped if it holds anything of this one. Returns true if the idle
    /// task has it too, and must not be lent again.
    #[inline]
    pub(crate) fn ended(&mut self, py: Python<'_>) -> bool {
        let is_unchanged = self
            .lent
            .as_ref()
            .zip(self.pristine.as_ref())
            .is_some_and(|(lent, pristine)| is_unchanged(lent.bind(py), pristine, self.references));
        if is_unchanged {
            return false;
        }
        self.discard(py);
        let is_task_left = std::mem::take(&mut self.is_task_left);
        self.is_apart |= is_task_left;
        is_task_left
    }

    /// Drops the current context, whatever it holds.
    pub(crate) fn discard(&mut self, py: Python<'_>) {
        self.leave(py);
        self.lent = None;
        self.is_task_left |= std::mem::take(&mut self.is_of_task);
        self.references = OF_CONTEXT;
    }

    /// The idle task is not lent again: nor is its context, which the loop enters once more.
    pub(crate) fn task_retires(&mut self) {
        if std::mem::take(&mut self.is_of_task) {
            self.references = OF_NONE;
        }
    }

    /// Takes the current context away, for the call that continues in it without the idle task. Not a copy: the call may have tokens of it.
    pub(crate) fn take(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.leave(py);
        let lent = self.lent.take();
        self.discard(py);
        match lent {
            Some(context) => Ok(context),
            None => Ok(ffi::copy_current_context(py)?.unbind()),
        }
    }

    /// Takes the current context away, for the call that continues in it with the idle task.
    pub(crate) fn take_with_task(&mut self, py: Python<'_>) -> PyResult<Taken> {
        let is_of_task = std::mem::take(&mut self.is_of_task) && self.lent.is_some();
        self.is_apart = false;
        Ok(Taken {
            context: self.take(py)?,
            is_of_task,
        })
    }

    /// The context for a new idle task: the lent one if `may_share`, and no earlier task has that.
    #[cold]
    pub(crate) fn for_task(&mut self, py: Python<'_>, may_share: bool) -> PyResult<Taken> {
        self.task_retires();
        let is_free = self.is_current && self.references != OF_NONE;
        let is_of_task = may_share && is_free && !self.is_apart;
        if let Some(lent) = self.lent.as_ref().filter(|_| is_of_task) {
            let context = lent.clone_ref(py);
            return Ok(Taken {
                context,
                is_of_task,
            });
        }
        let context = match &self.pristine {
            Some(pristine) => ffi::copy_context(pristine.context.bind(py))?,
            None => ffi::copy_current_context(py)?,
        };
        Ok(Taken {
            context: context.unbind(),
            is_of_task: false,
        })
    }

    /// An idle task has been created with the lent context, which is current.
    #[cold]
    pub(crate) fn task_has_it(&mut self, py: Python<'_>) {
        if let Some(lent) = &self.lent {
            self.is_of_task = true;
            self.references = OurReferences::now(lent.bind(py));
        }
    }

    /// Makes none of our contexts the current one.
    #[inline]
    pub(crate) fn leave(&mut self, py: Python<'_>) {
        if std::mem::take(&mut self.is_current)
            && let Some(lent) = &self.lent
            && let Err(error) = ffi::exit_context(lent.bind(py))
        {
            error.write_unraisable(py, None);
        }
    }

    /// From now on every call starts with what the current context holds. A foreign loop may call the server in a handler's context later.
    pub(crate) fn start_here(&mut self, py: Python<'_>) -> PyResult<()> {
        self.pristine = Some(Pristine::new(py)?);
        Ok(())
    }

    fn enter_now(&mut self, py: Python<'_>) -> PyResult<()> {
        let pristine = match self.pristine.take() {
            Some(pristine) => pristine,
            None => Pristine::new(py)?,
        };
        let lent = match self.lent.take() {
            Some(lent) => Ok(lent.into_bound(py)),
            None => {
                self.is_of_task = false;
                self.references = OF_CONTEXT;
                ffi::copy_context(pristine.context.bind(py))
            }
        };
        self.pristine = Some(pristine);
        let lent = lent?;
        ffi::enter_context(&lent)?;
        self.lent = Some(lent.unbind());
        self.is_current = true;
        Ok(())
    }
}

/// Runs a function in `context`, or in the current one if that is None.
pub(crate) fn run_in_its<T>(
    py: Python<'_>,
    context: Option<&Py<PyAny>>,
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    match context {
        Some(context) => run_in(context.bind(py), run),
        None => run(),
    }
}

/// Runs a function in `context`, whatever context is current.
pub(crate) fn run_in<T>(
    context: &Bound<'_, PyAny>,
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    ffi::enter_context(context)?;
    let result = run();
    ffi::exit_context(context)?;
    result
}

#[inline]
fn is_unchanged(lent: &Bound<'_, PyAny>, pristine: &Pristine, references: OurReferences) -> bool {
    pristine.variables == Some(ffi::context_variables(lent))
        && references.are_all(lent.py(), lent.as_unbound())
}

/// Tests whether this interpreter lets us distinguish a changed context from an unchanged one.
fn detects_changes(py: Python<'_>) -> PyResult<bool> {
    let one = ffi::copy_current_context(py)?;
    let other = ffi::copy_context(&one)?;
    if ffi::context_variables(&one) != ffi::context_variables(&other) {
        return Ok(false);
    }
    let variable = py
        .import("contextvars")?
        .call_method1("ContextVar", ("bolide",))?;
    other.call_method1("run", (variable.getattr("set")?, 1))?;
    Ok(ffi::context_variables(&one) != ffi::context_variables(&other))
}
