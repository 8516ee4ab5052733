//! How a WebSocket ended, and the exception that says so.

use pyo3::prelude::*;
use pyo3::types::PyType;
use server::CloseCode;

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

impl End {
    /// The connection ended without a close frame, or was never a WebSocket.
    pub(crate) fn abnormal() -> End {
        End {
            code: CloseCode::ABNORMAL.0,
            reason: String::new(),
        }
    }

    /// The exception that reports it to a native handler.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        let make = || -> PyResult<Bound<'_, PyAny>> {
            let class = py.import("bolide.errors")?.getattr("WebSocketClosed")?;
            class
                .cast_into::<PyType>()?
                .call1((self.code, &self.reason))
        };
        make().map_or_else(|error| error, PyErr::from_value)
    }
}
