//! The load generator and the ceiling, which run without the interpreter.

mod load;
mod plan;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ::load::ceiling::Ceiling;
use net::Pair;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

pub(crate) use load::{Load, merged_progress, merged_report};

/// How often the ceiling checks for signals: one that arrives while it is busy interrupts no wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(200);

/// Responds to requests on an address without parsing them, until `seconds` have passed or an interrupt arrives; returns the number of
/// responses. `pair` is a certificate with its key, both in PEM, with which connections use TLS.
#[pyfunction]
#[pyo3(signature = (host, port, size, seconds=None, pair=None))]
pub(crate) fn ceiling(
    py: Python<'_>,
    host: &str,
    port: u16,
    size: usize,
    seconds: Option<f64>,
    pair: Option<(Vec<u8>, Vec<u8>)>,
) -> PyResult<u64> {
    let ip: IpAddr = host
        .parse()
        .map_err(|_| PyValueError::new_err(format!("{host:?} is not an IP address")))?;
    let mut left = seconds
        .map(Duration::try_from_secs_f64)
        .transpose()
        .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
    let mut ceiling = Ceiling::bind(SocketAddr::new(ip, port), size)?;
    if let Some((certificates, key)) = &pair {
        let pair = Pair { certificates, key };
        ceiling = ceiling.with_tls(pair).map_err(|error| {
            PyValueError::new_err(format!(
                "the certificate or its key cannot be used: {error}"
            ))
        })?;
    }
    loop {
        let begin = Instant::now();
        let slice = left.unwrap_or(SIGNALS_EVERY).min(SIGNALS_EVERY);
        let slice_s = Some(slice.as_secs_f64());
        let responses = py.detach(|| ceiling.run(slice_s, &AtomicBool::new(false)))?;
        match py.check_signals() {
            Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => return Ok(responses),
            other => other?,
        }
        left = left.map(|it| it.saturating_sub(begin.elapsed()));
        if left.is_some_and(|it| it.is_zero()) {
            return Ok(responses);
        }
    }
}
