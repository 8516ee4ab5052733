//! The options about proxies in front of the server.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use server::{Network, Proxies, Untrusted};
use wire::{ForwardingField, ForwardingFields};

/// Sets the option `name`. Returns false if it is none about proxies.
///
/// # Errors
/// `ValueError` or `TypeError` when the value is not valid.
pub(super) fn set(proxies: &mut Proxies, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
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
        _ => return Ok(false),
    }
    Ok(true)
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
