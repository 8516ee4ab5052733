//! The items of an environ that trusted proxies have a say in, besides the path and the client's address.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::Forwarded;
use wire::Scheme;

/// Sets the scheme, the port of the client, and the name and port of the server. `server` is the local address.
pub(super) fn set_forwarded(
    environ: &Bound<'_, PyDict>,
    forwarded: &Forwarded,
    server: &Peer,
) -> PyResult<()> {
    let py = environ.py();
    let port_text = |port: u16| PyString::new(py, &port.to_string());
    let remote_port = pyo3::intern!(py, "REMOTE_PORT");
    match forwarded.client {
        Peer::Internet(client) if client.port() != 0 => {
            environ.set_item(remote_port, port_text(client.port()))?;
        }
        _ => environ.del_item(remote_port)?,
    }
    if let Some(scheme) = forwarded.scheme {
        set_scheme(environ, scheme)?;
    }
    let server_port = pyo3::intern!(py, "SERVER_PORT");
    match (&forwarded.server, forwarded.scheme) {
        (Some((name, port)), _) => {
            environ.set_item(pyo3::intern!(py, "SERVER_NAME"), &**name)?;
            environ.set_item(server_port, port_text(*port))
        }
        // A UNIX socket has no port of its own.
        (None, Some(scheme)) if !matches!(server, Peer::Internet(_)) => {
            environ.set_item(server_port, port_text(scheme.default_port()))
        }
        _ => Ok(()),
    }
}

fn set_scheme(environ: &Bound<'_, PyDict>, scheme: Scheme) -> PyResult<()> {
    let py = environ.py();
    environ.set_item(pyo3::intern!(py, "wsgi.url_scheme"), scheme.name())?;
    let https = pyo3::intern!(py, "HTTPS");
    match scheme {
        Scheme::Https => environ.set_item(https, pyo3::intern!(py, "on")),
        Scheme::Http if environ.contains(https)? => environ.del_item(https),
        Scheme::Http => Ok(()),
    }
}
