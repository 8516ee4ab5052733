//! The load generator and the ceiling, each run to its end without the interpreter.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ::load::generator::{Address, Limit, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Answers on an address without parsing, until `seconds` have passed or a signal comes; gives how many requests were answered.
#[pyfunction]
#[pyo3(signature = (host, port, size, seconds=None))]
pub(crate) fn ceiling(
    py: Python<'_>,
    host: &str,
    port: u16,
    size: usize,
    seconds: Option<f64>,
) -> PyResult<u64> {
    let ip: IpAddr = host
        .parse()
        .map_err(|_| PyValueError::new_err(format!("{host:?} is no IP address")))?;
    let answered =
        py.detach(|| ::load::ceiling::run(SocketAddr::new(ip, port), size, seconds, |_| {}))?;
    py.check_signals()?;
    Ok(answered)
}

/// Drives load as a plan says and gives the report.
///
/// Keys of the plan: address (`HOST:PORT` in digits, or `unix:PATH`), host, target, connections, pipeline_depth, is_persistent, and
/// one of duration_s and requests.
#[pyfunction]
pub(crate) fn load<'py>(py: Python<'py>, plan: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let options = options_of(plan)?;
    let report = py.detach(|| ::load::generator::run(&options))?;
    py.check_signals()?;
    py.import("json")?
        .call_method1("loads", (report.to_json(),))
}

fn options_of(plan: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (key, value) in plan {
        let key: String = key.extract()?;
        match key.as_str() {
            "address" => options.address = address_of(&value.extract::<String>()?)?,
            "host" => options.host = value.extract()?,
            "target" => options.target = value.extract()?,
            "connections" => options.connections = value.extract()?,
            "pipeline_depth" => options.pipeline_depth = value.extract()?,
            "is_persistent" => options.is_persistent = value.extract()?,
            "duration_s" if !value.is_none() => {
                let seconds = Duration::try_from_secs_f64(value.extract()?);
                options.limit = Limit::Duration(
                    seconds.map_err(|error| PyValueError::new_err(error.to_string()))?,
                );
            }
            "requests" if !value.is_none() => options.limit = Limit::Requests(value.extract()?),
            "duration_s" | "requests" => {}
            _ => return Err(PyValueError::new_err(format!("a plan has no {key}"))),
        }
    }
    Ok(options)
}

fn address_of(text: &str) -> PyResult<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Local(PathBuf::from(path)));
    }
    let address = text
        .parse()
        .map_err(|_| PyValueError::new_err(format!("{text:?} is no address with a port")))?;
    Ok(Address::Internet(address))
}
