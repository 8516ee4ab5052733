//! The options of the access log.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{AccessLog, LogFormat, Selection};

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
    let selection = selection(options)?;
    let log = |fd| Ok(AccessLog::new(duplicate(fd)?.into(), format, selection)?);
    fd.map(log).transpose()
}

fn selection(options: &Bound<'_, PyDict>) -> PyResult<Selection> {
    let mut selection = Selection::default();
    if let Some(share) = options.get_item("access_log_sample")? {
        selection.share = share.extract()?;
    }
    let only: Vec<String> = match options.get_item("access_log_only")? {
        Some(only) => only.extract()?,
        None => Vec::new(),
    };
    selection.errors = only.iter().any(|word| word == "errors");
    if let Some(slow_ms) = options.get_item("access_log_slow_ms")?
        && only.iter().any(|word| word == "slow")
    {
        selection.slow_ms = Some(slow_ms.extract()?);
    }
    Ok(selection)
}

/// Raises ValueError with the end of a sentence about a text that is no format of the access log.
#[pyfunction]
pub(crate) fn check_access_log_format(text: &str) -> PyResult<()> {
    parsed(text).map(drop)
}

fn parsed(text: &str) -> PyResult<LogFormat> {
    LogFormat::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
