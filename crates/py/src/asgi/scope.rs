//! The connection scope of a request.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::{Method, Version};

use super::extensions;
use super::fresh::{Extensions, Fresh};
use super::memo::{Addresses, Sections};
use crate::request::decoded;

/// Makes scopes. What repeats from request to request is made once.
pub(crate) struct Scopes {
    keys: Keys,
    /// The last scope: most of it is the same the next time. What of it can be changed is used again only if nobody did or can.
    template: Py<PyDict>,
    last: Last,
    versions: Fresh,
    extensions: Extensions,
    state: Option<Fresh>,
    root_path: String,
    clients: Addresses,
    servers: Addresses,
    sections: Sections,
}

/// What the template stands for.
#[derive(Default)]
struct Last {
    is_http10: bool,
    is_other_method: bool,
    path: Vec<u8>,
    query: Vec<u8>,
    client: Peer,
    server: Peer,
}

/// The keys of what differs from request to request.
struct Keys {
    asgi: Py<PyString>,
    extensions: Py<PyString>,
    http_version: Py<PyString>,
    method: Py<PyString>,
    path: Py<PyString>,
    raw_path: Py<PyString>,
    query_string: Py<PyString>,
    headers: Py<PyString>,
    client: Py<PyString>,
    server: Py<PyString>,
    state: Py<PyString>,
}

impl Keys {
    fn new(py: Python<'_>) -> Keys {
        let key = |name| PyString::intern(py, name).unbind();
        Keys {
            asgi: key("asgi"),
            extensions: key("extensions"),
            http_version: key("http_version"),
            method: key("method"),
            path: key("path"),
            raw_path: key("raw_path"),
            query_string: key("query_string"),
            headers: key("headers"),
            client: key("client"),
            server: key("server"),
            state: key("state"),
        }
    }
}

impl Scopes {
    pub(crate) fn new(
        py: Python<'_>,
        root_path: &str,
        state: Option<Py<PyDict>>,
    ) -> PyResult<Scopes> {
        let versions = PyDict::new(py);
        versions.set_item("version", "3.0")?;
        versions.set_item("spec_version", "2.5")?;
        let template = PyDict::new(py);
        let constants = [
            ("type", "http"),
            ("http_version", "1.1"),
            ("method", "GET"),
            ("scheme", "http"),
            ("root_path", root_path),
        ];
        for (key, value) in constants {
            template.set_item(PyString::intern(py, key), PyString::intern(py, value))?;
        }
        let keys = Keys::new(py);
        for key in [
            &keys.asgi,
            &keys.extensions,
            &keys.path,
            &keys.raw_path,
            &keys.headers,
            &keys.client,
            &keys.server,
        ] {
            template.set_item(key, py.None())?;
        }
        template.set_item(&keys.query_string, PyBytes::new(py, b""))?;
        if state.is_some() {
            template.set_item(&keys.state, py.None())?;
        }
        Ok(Scopes {
            keys,
            template: template.unbind(),
            last: Last::default(),
            versions: Fresh::new(versions.unbind()),
            extensions: Extensions::new(py, &extensions::NAMES),
            state: state.map(Fresh::new),
            root_path: root_path.to_owned(),
            clients: Addresses::default(),
            servers: Addresses::default(),
            sections: Sections::default(),
        })
    }

    /// A fresh scope: what an application changes in it, no other request sees.
    pub(crate) fn scope<'py>(
        &mut self,
        py: Python<'py>,
        request: &server::Request<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let keys = &self.keys;
        let template = self.template.bind(py);
        if let Some(versions) = self.versions.renewed(py)? {
            template.set_item(&keys.asgi, versions)?;
        }
        if let Some(extensions) = self.extensions.renewed(py)? {
            template.set_item(&keys.extensions, extensions)?;
        }
        if let Some(state) = &mut self.state
            && let Some(state) = state.renewed(py)?
        {
            template.set_item(&keys.state, state)?;
        }
        let slot = request.id.connection() as usize;
        let section = request.head.field_section;
        if let Some(headers) = self.sections.renewed(py, slot, section)? {
            template.set_item(&keys.headers, headers)?;
        }
        self.fill_template(py, request)?;
        self.template.bind(py).copy()
    }

    /// Sets what is not as it was the last time.
    fn fill_template(&mut self, py: Python<'_>, request: &server::Request<'_>) -> PyResult<()> {
        let (head, keys) = (request.head, &self.keys);
        let template = self.template.bind(py);
        let is_http10 = head.version == Version::Http10;
        if is_http10 != std::mem::replace(&mut self.last.is_http10, is_http10) {
            let version = if is_http10 { "1.0" } else { "1.1" };
            template.set_item(&keys.http_version, version)?;
        }
        let is_other_method = head.method != Method::Get;
        if is_other_method || self.last.is_other_method {
            self.last.is_other_method = is_other_method;
            let method = String::from_utf8_lossy(head.method_name).to_uppercase();
            template.set_item(&keys.method, method)?;
        }
        let path = match head.path {
            b"" => b"/",
            path => path,
        };
        if changes(&mut self.last.path, path) {
            template.set_item(&keys.path, path_of(py, &self.root_path, path)?)?;
            template.set_item(&keys.raw_path, PyBytes::new(py, path))?;
        }
        let query = head.query.unwrap_or_default();
        if changes(&mut self.last.query, query) {
            template.set_item(&keys.query_string, PyBytes::new(py, query))?;
        }
        let slot = request.id.connection() as usize;
        if self.last.client != *request.client {
            self.last.client = *request.client;
            let client = self.clients.address(py, slot, request.client)?;
            template.set_item(&keys.client, client)?;
        }
        if self.last.server != *request.server {
            self.last.server = *request.server;
            let server = self.servers.address(py, 0, request.server)?;
            template.set_item(&keys.server, server)?;
        }
        Ok(())
    }
}

/// The decoded path, which includes the root path: a proxy took it off, or passed the path on whole.
fn path_of<'py>(py: Python<'py>, root_path: &str, raw: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let path = decoded(py, raw);
    if root_path.is_empty() {
        return Ok(path);
    }
    let text = path.to_str()?;
    match text.strip_prefix(root_path) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(path),
        _ => Ok(PyString::new(py, &format!("{root_path}{text}"))),
    }
}

/// Whether `value` is not what is kept; then it is from now on.
fn changes(kept: &mut Vec<u8>, value: &[u8]) -> bool {
    if wire::is_same(kept, value) {
        return false;
    }
    kept.clear();
    kept.extend_from_slice(value);
    true
}
