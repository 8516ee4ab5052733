//! A fresh `contextvars` context for each coroutine.
//!
//! Making and freeing one costs a tenth of a request. A handler that set no variable leaves its
//! context as it was, and then it serves the next one: nobody holds it, and its mapping of
//! variables, which is immutable, is still the very one it began with.

use pyo3::prelude::*;

use crate::ffi;

/// Lends contexts that hold what the server's own holds, and nothing of any other request.
#[derive(Default)]
pub(crate) struct Contexts {
    pristine: Option<Py<PyAny>>,
    spare: Option<Py<PyAny>>,
    can_tell_changes: bool,
}

impl Contexts {
    /// A context without a trace of another request.
    #[inline]
    pub(crate) fn fresh<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(spare) = self.spare.take() {
            return Ok(spare.into_bound(py));
        }
        if self.pristine.is_none() {
            self.pristine = Some(ffi::copy_current_context(py)?.unbind());
            self.can_tell_changes = can_tell_changes(py).unwrap_or(false);
        }
        match &self.pristine {
            Some(pristine) => ffi::copy_context(pristine.bind(py)),
            None => ffi::copy_current_context(py),
        }
    }

    /// Takes a context back from a coroutine that has ended.
    #[inline]
    pub(crate) fn ended(&mut self, context: Bound<'_, PyAny>) {
        let Some(pristine) = &self.pristine else {
            return;
        };
        let py = context.py();
        let is_unchanged = self.can_tell_changes
            && ffi::context_variables(&context) == ffi::context_variables(pristine.bind(py))
            && ffi::first_weak_reference(&context) == 0;
        let context = context.unbind();
        if is_unchanged && ffi::references(&context) == 1 {
            self.spare = Some(context);
        }
    }
}

/// Tries out whether a changed context can be told from an unchanged one in this interpreter.
fn can_tell_changes(py: Python<'_>) -> PyResult<bool> {
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
