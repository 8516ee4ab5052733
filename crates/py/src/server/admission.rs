//! The options about limits for each client, requests at once, and bounds by path.

use pyo3::prelude::*;
use server::{AdmissionConfig, Overrides};

/// A rule: the prefix of paths, `body_bytes_max`, `handler_timeout_ms`.
type Rule = (String, Option<u64>, Option<u64>);

/// Sets the option `name`. Returns false if it is none of these.
///
/// # Errors
/// `ValueError` or `TypeError` when the value is not valid.
pub(super) fn set(
    config: &mut AdmissionConfig,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    match name {
        "client_ipv6_prefix_bits" => config.ipv6_prefix_bits = value.extract()?,
        "path_limits" => {
            for (prefix, body_bytes_max, handler_timeout_ms) in value.extract::<Vec<Rule>>()? {
                let overrides = Overrides {
                    body_bytes_max,
                    handler_timeout_ms,
                };
                config.rules.add(&prefix, overrides);
            }
        }
        _ => match config.limits.get_mut(name) {
            Some(number) => *number = value.extract()?,
            None => return Ok(false),
        },
    }
    Ok(true)
}

/// Has the processes that are forked later share the rates of clients with this one.
///
/// # Errors
/// `MemoryError` if there is none for them.
#[pyfunction]
pub(crate) fn share_client_rates() -> PyResult<()> {
    net::Rates::of_process()?;
    Ok(())
}
