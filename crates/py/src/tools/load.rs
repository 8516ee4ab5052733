//! The load generator's binding: takes a plan as a dict, returns progress and report as JSON.
//!
//! `load::generator::Plan` documents what the keys of a plan mean; this module only converts them.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use ::load::generator::{Plan, Record, Run, Snapshot};
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

    /// Whether the connections of a gated run are open.
    fn is_ready(&self) -> PyResult<bool> {
        Ok(self.started()?.is_ready())
    }

    /// Starts the load of a gated run at this time of the monotonic clock.
    fn begin(&self, at_ns: u64) -> PyResult<()> {
        self.started()?.begin(at_ns);
        Ok(())
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

    /// The same, for `merged_progress`.
    fn snapshot(&self) -> PyResult<String> {
        Ok(self.started()?.snapshot().to_json())
    }

    /// The result of the run, for `merged_report`.
    fn record(&self) -> PyResult<String> {
        match self.started()?.record()? {
            Some(record) => Ok(record.to_json()),
            None => Err(PyRuntimeError::new_err("the load has not ended")),
        }
    }

    /// The result of the run, as a JSON object.
    fn report(&self) -> PyResult<String> {
        match self.started()?.report()? {
            Some(report) => Ok(report.to_json()),
            None => Err(PyRuntimeError::new_err("the load has not ended")),
        }
    }
}

/// The report of what several runs counted at the same time, of which these are the records.
#[pyfunction]
pub(crate) fn merged_report(records: Vec<String>) -> PyResult<String> {
    let mut merged: Option<Record> = None;
    for text in &records {
        let record = Record::from_json(text).map_err(PyValueError::new_err)?;
        match &mut merged {
            Some(all) => all.merge(record),
            None => merged = Some(record),
        }
    }
    let merged = merged.ok_or_else(|| PyValueError::new_err("there is no record"))?;
    Ok(merged.report().to_json())
}

/// The progress of several runs that take place at the same time, of which these are the snapshots.
#[pyfunction]
pub(crate) fn merged_progress(snapshots: Vec<String>) -> PyResult<String> {
    let mut merged: Option<Snapshot> = None;
    for text in &snapshots {
        let snapshot = Snapshot::from_json(text).map_err(PyValueError::new_err)?;
        match &mut merged {
            Some(all) => all.merge(&snapshot),
            None => merged = Some(snapshot),
        }
    }
    let merged = merged.ok_or_else(|| PyValueError::new_err("there is no snapshot"))?;
    Ok(merged.progress().to_json())
}

impl Load {
    fn started(&self) -> PyResult<&Run> {
        let run = self.run.get();
        run.ok_or_else(|| PyRuntimeError::new_err("the load has not started"))
    }
}
