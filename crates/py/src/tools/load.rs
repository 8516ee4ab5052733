//! The load generator's binding: takes a plan as a dict, returns progress and report as JSON.
//!
//! `load::generator::Plan` documents what the keys of a plan mean; this module only converts them.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use ::load::generator::{Plan, Run};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::plan;

/// A load run.
#[pyclass(frozen, module = "bolide._core")]
pub(crate) struct Load {
    plan: Plan,
    run: OnceLock<Run>,
}

#[pymethods]
impl Load {
    #[new]
    fn new(plan: &Bound<'_, PyDict>) -> PyResult<Load> {
        let plan = plan::read(plan)?;
        plan.check().map_err(PyValueError::new_err)?;
        Ok(Load {
            plan,
            run: OnceLock::new(),
        })
    }

    /// Starts the run and returns at once.
    fn start(&self) -> PyResult<()> {
        if self.run.get().is_some() {
            return Err(PyRuntimeError::new_err("a load starts once"));
        }
        let run = Run::start(self.plan.clone()).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
            _ => PyOSError::new_err(error.to_string()),
        })?;
        self.run.get_or_init(|| run);
        Ok(())
    }

    /// Waits up to `timeout_s` seconds without the interpreter; returns whether the run has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(format!("timeout_s: {error}")))?;
        let run = self.started()?;
        Ok(py.detach(|| run.wait(timeout)))
    }

    /// Ends the run early.
    fn stop(&self) -> PyResult<()> {
        self.started()?.stop();
        Ok(())
    }

    /// The progress of the run, as a JSON object.
    fn progress(&self) -> PyResult<String> {
        Ok(self.started()?.progress().to_json())
    }

    /// The result of the run, as a JSON object.
    fn report(&self) -> PyResult<String> {
        match self.started()?.report()? {
            Some(report) => Ok(report.to_json()),
            None => Err(PyRuntimeError::new_err("the load has not ended")),
        }
    }
}

impl Load {
    fn started(&self) -> PyResult<&Run> {
        let run = self.run.get();
        run.ok_or_else(|| PyRuntimeError::new_err("the load has not started"))
    }
}
