//! The options about proxies in front of the server, and about the ids of requests, which these may give.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use server::{Config, Network, Proxies, RequestIdConfig, Untrusted};
use wire::{ForwardingField, ForwardingFields};

/// Sets the option `name`. Returns false if it is none about proxies.
///
/// # Errors
/// `ValueError` or `TypeError` when the value is not valid.
pub(super) fn set(config: &mut Config, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let proxies = &mut config.proxies;
    match name {
        "trusted_proxies" => {
            for text in value.extract::<Vec<String>>()? {
                trust(proxies, &text)?;
            }
        }
        "forwarded_fields" => proxies.fields = fields_of(&value.extract::<Vec<String>>()?)?,
        "untrusted_forwarded" => {
            proxies.untrusted = match value.extract()? {
                "keep" => Untrusted::Keep,
                "remove" => Untrusted::Remove,
                _ => {
                    let message = "untrusted_forwarded is keep or remove";
                    return Err(PyValueError::new_err(message));
                }
            };
        }
        "proxy_protocol" => proxies.expects_header = value.is_truthy()?,
        "request_id" => config.request_ids = request_ids_of(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The name of the field, and whether responses have it; None for no ids.
fn request_ids_of(value: &Bound<'_, PyAny>) -> PyResult<Option<RequestIdConfig>> {
    let Some((field_name, is_sent)) = value.extract::<Option<(String, bool)>>()? else {
        return Ok(None);
    };
    match wire::is_field_name(field_name.as_bytes()) {
        true => Ok(Some(RequestIdConfig {
            field_name,
            is_sent,
        })),
        false => Err(PyValueError::new_err(format!(
            "{field_name:?} is no name of a field"
        ))),
    }
}

/// `*` is every peer, `unix` every one on a UNIX socket.
fn trust(proxies: &mut Proxies, text: &str) -> PyResult<()> {
    if matches!(text, "*" | "unix") {
        proxies.trusts_unix = true;
    }
    let networks: &[&str] = match text {
        "*" => &["0.0.0.0/0", "::/0"],
        "unix" => &[],
        _ => &[text],
    };
    for text in networks {
        let network = Network::parse(text)
            .ok_or_else(|| PyValueError::new_err(format!("{text} is not a network")))?;
        proxies.networks.push(network);
    }
    Ok(())
}

fn fields_of(words: &[String]) -> PyResult<ForwardingFields> {
    let mut fields = ForwardingFields::default();
    for word in words {
        fields = fields.with(match word.as_str() {
            "for" => ForwardingField::For,
            "proto" => ForwardingField::Proto,
            "host" => ForwardingField::Host,
            "port" => ForwardingField::Port,
            "prefix" => ForwardingField::Prefix,
            "forwarded" => ForwardingField::Forwarded,
            _ => return Err(PyValueError::new_err(format!("no such field: {word}"))),
        });
    }
    Ok(fields)
}
