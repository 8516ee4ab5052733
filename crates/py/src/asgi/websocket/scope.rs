//! The connection scope of a WebSocket. A handshake is rare, so each scope is made from scratch.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::{Head, Offer, Request};

use super::super::fresh::{set_request_id, tls_extension};
use super::super::memo::address_of;
use super::super::scope::path_of;
use crate::ffi;

/// `send()` raises an `OSError` when the client has disconnected, as 2.4 specifies; frameworks do nothing else with it, unlike for requests.
const SPEC_VERSION: &str = "2.4";

/// What the scopes of an application have in common.
pub(in crate::asgi) struct SocketScopes {
    scheme: &'static str,
    root_path: String,
    state: Option<Py<PyDict>>,
}

impl SocketScopes {
    /// `scheme` is that of requests.
    pub(in crate::asgi) fn new(
        scheme: &str,
        root_path: &str,
        state: Option<Py<PyDict>>,
    ) -> SocketScopes {
        SocketScopes {
            scheme: of_websocket(scheme),
            root_path: root_path.to_owned(),
            state,
        }
    }

    pub(super) fn scope<'py>(
        &self,
        py: Python<'py>,
        request: &Request<'_>,
        offer: &Offer<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (head, now) = (request.head, request.circumstances);
        let forwarded = now.forwarded.as_ref();
        let scheme = match forwarded.and_then(|forwarded| forwarded.scheme) {
            Some(scheme) => of_websocket(scheme.name()),
            None => self.scheme,
        };
        let prefix = forwarded.map_or("", |forwarded| &*forwarded.prefix);
        let versions = PyDict::new(py);
        versions.set_item("version", "3.0")?;
        versions.set_item("spec_version", SPEC_VERSION)?;
        let scope = PyDict::new(py);
        scope.set_item("type", "websocket")?;
        scope.set_item("asgi", versions)?;
        scope.set_item("http_version", head.version().number())?;
        scope.set_item("scheme", scheme)?;
        let root = (prefix, self.root_path.as_str());
        scope.set_item("path", path_of(py, root, head.path())?)?;
        scope.set_item("raw_path", PyBytes::new(py, head.path()))?;
        let query = head.query().unwrap_or_default();
        scope.set_item("query_string", PyBytes::new(py, query))?;
        scope.set_item("root_path", format!("{prefix}{}", self.root_path))?;
        scope.set_item("headers", headers(py, head)?)?;
        scope.set_item("client", address_of(py, &now.client)?)?;
        scope.set_item("server", address_of(py, &now.server)?)?;
        scope.set_item("subprotocols", subprotocols(py, offer)?)?;
        if let Some(state) = &self.state {
            scope.set_item("state", state.bind(py).copy()?)?;
        }
        let extensions = PyDict::new(py);
        extensions.set_item("websocket.http.response", PyDict::new(py))?;
        if let Some(details) = &now.tls {
            extensions.set_item("tls", tls_extension(py, details)?)?;
        }
        if let Some(id) = head.request_id() {
            set_request_id(&extensions, id)?;
        }
        scope.set_item("extensions", extensions)?;
        Ok(scope)
    }
}

fn of_websocket(scheme: &str) -> &'static str {
    if scheme == "https" { "wss" } else { "ws" }
}

fn headers<'py>(py: Python<'py>, head: Head<'_>) -> PyResult<Bound<'py, PyList>> {
    let headers = PyList::empty(py);
    for (name, value) in head.field_section().lines() {
        let name = PyBytes::new(py, &name.to_ascii_lowercase());
        headers.append(PyTuple::new(py, [name, PyBytes::new(py, value)])?)?;
    }
    Ok(headers)
}

fn subprotocols<'py>(py: Python<'py>, offer: &Offer<'_>) -> PyResult<Bound<'py, PyList>> {
    let offered = offer.subprotocols();
    let names: Vec<Bound<'_, PyString>> = offered.map(|name| ffi::latin1(py, name)).collect();
    PyList::new(py, names)
}
