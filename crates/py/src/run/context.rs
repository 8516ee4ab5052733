//! A `contextvars` context for each call.
//!
//! Creating, entering and freeing one takes a tenth of a request's time. So one *lent* context stays the current one for many calls in a
//! row, as the idle task does (`task.rs`). If a call sets no variable, the context still holds the same mapping of variables, which is
//! immutable. A call that sets a variable or suspends keeps the context.

use pyo3::prelude::*;

use crate::ffi;
use crate::ffi::reuse::OurReferences;

/// Lends contexts that hold the server's own variables and nothing of any other request.
#[derive(Default)]
pub(crate) struct Contexts {
    pristine: Option<Pristine>,
    lent: Option<Py<PyAny>>,
    is_current: bool,
}

/// What every call starts with.
struct Pristine {
    context: Py<PyAny>,
    /// Its variables, if a context with others can be detected. Nothing runs in it, so they stay the same.
    variables: Option<usize>,
}

/// The references to a current context: ours and the thread's.
const OF_CONTEXT: OurReferences = OurReferences::of(2);
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

    /// A call has ended: its context stays current for the next one, or is dropped if it holds anything of this one.
    #[inline]
    pub(crate) fn ended(&mut self, py: Python<'_>) {
        let is_unchanged = self
            .lent
            .as_ref()
            .zip(self.pristine.as_ref())
            .is_some_and(|(lent, pristine)| is_unchanged(lent.bind(py), pristine));
        if !is_unchanged {
            self.discard(py);
        }
    }

    /// Drops the current context, whatever it holds.
    pub(crate) fn discard(&mut self, py: Python<'_>) {
        self.leave(py);
        self.lent = None;
    }

    /// Takes the current context away, for the call that continues in it.
    pub(crate) fn take(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.leave(py);
        match self.lent.take() {
            Some(context) => Ok(context),
            None => Ok(ffi::copy_current_context(py)?.unbind()),
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
            None => ffi::copy_context(pristine.context.bind(py)),
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
fn is_unchanged(lent: &Bound<'_, PyAny>, pristine: &Pristine) -> bool {
    pristine.variables == Some(ffi::context_variables(lent))
        && OF_CONTEXT.are_all(lent.py(), lent.as_unbound())
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
