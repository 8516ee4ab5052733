//! The options of the access log.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{AccessLog, LogFormat};

use super::duplicate;

/// The log that the options name, if they name one.
pub(super) fn of_options(options: &Bound<'_, PyDict>) -> PyResult<Option<AccessLog>> {
    let format = match options.get_item("access_log_format")? {
        Some(text) => parsed(&text.extract::<String>()?)?,
        None => LogFormat::combined(),
    };
    let fd: Option<i32> = options
        .get_item("access_log")?
        .and_then(|value| value.extract().transpose())
        .transpose()?;
    let log = |fd| Ok(AccessLog::new(duplicate(fd)?.into(), format)?);
    fd.map(log).transpose()
}

/// Raises ValueError with the end of a sentence about a text that is no format of the access log.
#[pyfunction]
pub(crate) fn check_access_log_format(text: &str) -> PyResult<()> {
    parsed(text).map(drop)
}

fn parsed(text: &str) -> PyResult<LogFormat> {
    LogFormat::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
