//! The load generator and the ceiling, which run without the interpreter.

mod load;
mod plan;

use std::net::{IpAddr, SocketAddr};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
