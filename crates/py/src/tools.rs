//! The load generator and the ceiling, which run without the interpreter.

mod load;
mod plan;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ::load::generator::{Address, Limit, Plan, Request};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) use load::Load;

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
    let plan = plan_of(plan)?;
    let report = py.detach(|| ::load::generator::run(&plan))?;
    py.check_signals()?;
    py.import("json")?
        .call_method1("loads", (report.to_json(),))
}

fn plan_of(given: &Bound<'_, PyDict>) -> PyResult<Plan> {
    let mut plan = Plan::default();
    let mut request = Request::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "address" => plan.address = address_of(&value.extract::<String>()?)?,
            "host" => request.host = value.extract()?,
            "target" => request.target = value.extract()?,
            "connections" => plan.connections = value.extract()?,
            "pipeline_depth" => plan.pipeline_depth = value.extract()?,
            "is_persistent" => plan.is_persistent = value.extract()?,
            "duration_s" if !value.is_none() => {
                let seconds = Duration::try_from_secs_f64(value.extract()?);
                plan.limit = Limit::Duration(
                    seconds.map_err(|error| PyValueError::new_err(error.to_string()))?,
                );
            }
            "requests" if !value.is_none() => plan.limit = Limit::Requests(value.extract()?),
            "duration_s" | "requests" => {}
            _ => return Err(PyValueError::new_err(format!("a plan has no {key}"))),
        }
    }
    plan.requests = vec![request];
    Ok(plan)
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
