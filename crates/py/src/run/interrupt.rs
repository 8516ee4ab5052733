//! Whether a KeyboardInterrupt is a person's, or only an exception that a handler raised.

use pyo3::prelude::*;

/// Whether the process's handler of SIGINT has raised it. A worker's raises nothing, and the one of `asyncio.run` only at the second signal; what
/// is left is the exception of a handler. The interpreter's own leaves no trace, so with that one it is always taken for the signal's.
#[cold]
pub(crate) fn is_of_signal(py: Python<'_>, error: &PyErr) -> bool {
    // What cannot be examined is a person's wish to stop.
    was_raised_by_handler(py, error).unwrap_or(true)
}

fn was_raised_by_handler(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let mut handler = signal.call_method1("getsignal", (signal.getattr("SIGINT")?,))?;
    if handler.is(&signal.getattr("default_int_handler")?) {
        return Ok(true);
    }
    // That of `asyncio.run` is a partial of a method.
    for name in ["func", "__func__"] {
        if let Some(inner) = handler.getattr_opt(name)? {
            handler = inner;
        }
    }
    let Some(code) = handler.getattr_opt("__code__")? else {
        // No function: SIG_IGN raises nothing, and of an object of another kind nothing is known.
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
