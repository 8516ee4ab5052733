//! Whether a KeyboardInterrupt comes from the user, or is only an exception that a handler raised.

use pyo3::prelude::*;

/// Whether the process's handler of SIGINT has raised it. A worker's handler raises nothing, and that of `asyncio.run` only at the second
/// signal; otherwise it is the exception of a request handler. The interpreter's own handler leaves no trace, so with that one the
/// exception is always attributed to the signal.
#[cold]
pub(crate) fn is_of_signal(py: Python<'_>, error: &PyErr) -> bool {
    // If it cannot be examined, it counts as the user's.
    was_raised_by_handler(py, error).unwrap_or(true)
}

fn was_raised_by_handler(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let mut handler = signal.call_method1("getsignal", (signal.getattr("SIGINT")?,))?;
    if handler.is(&signal.getattr("default_int_handler")?) {
        return Ok(true);
    }
    // The handler of `asyncio.run` is a partial of a method.
    for name in ["func", "__func__"] {
        if let Some(inner) = handler.getattr_opt(name)? {
            handler = inner;
        }
    }
    let Some(code) = handler.getattr_opt("__code__")? else {
        // Not a function: SIG_IGN raises nothing, and an object of another kind is unknown.
        return Ok(handler.is_callable());
    };
    let mut frame = error.traceback(py).map(Bound::into_any);
    while let Some(here) = frame.filter(|here| !here.is_none()) {
        if here.getattr("tb_frame")?.getattr("f_code")?.is(&code) {
            return Ok(true);
        }
        frame = Some(here.getattr("tb_next")?);
    }
    Ok(false)
}
