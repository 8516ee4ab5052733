//! The connection scope of a request.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use wire::Version;

use crate::request::decoded;

/// Makes scopes. What repeats from request to request is made once: the constant items, the addresses and the last header list.
pub(crate) struct Scopes {
    template: Py<PyDict>,
    state: Option<Py<PyDict>>,
    root_path: String,
    client: Option<(Peer, Py<PyAny>)>,
    server: Option<(Peer, Py<PyAny>)>,
    /// The last field section and its list. Not for sections with credentials: see `wire::SectionMemo`.
    section: Vec<u8>,
    headers: Option<Py<PyList>>,
}

/// What only one client should know: how long a comparison takes must not tell another.
const CREDENTIALS: [&[u8]; 3] = [b"cookie", b"authorization", b"proxy-authorization"];
/// Longer sections are decoded each time.
const SECTION_BYTES_MAX: usize = 4096;

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
        template.set_item("type", "http")?;
        template.set_item("asgi", versions)?;
        template.set_item("http_version", "1.1")?;
        template.set_item("method", "GET")?;
        template.set_item("scheme", "http")?;
        template.set_item("root_path", root_path)?;
        // All keys are there, so that a copy never has to grow.
        for key in [
            "path",
            "raw_path",
            "query_string",
            "headers",
            "client",
            "server",
        ] {
            template.set_item(key, py.None())?;
        }
        if state.is_some() {
            template.set_item("state", py.None())?;
        }
        Ok(Scopes {
            template: template.unbind(),
            state,
            root_path: root_path.to_owned(),
            client: None,
            server: None,
            section: Vec::new(),
            headers: None,
        })
    }

    /// A fresh scope: what an application changes in it, no other request sees.
    pub(crate) fn scope<'py>(
        &mut self,
        py: Python<'py>,
        request: &server::Request<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let head = request.head;
        let scope = self.template.bind(py).copy()?;
        let versions = scope.get_item(pyo3::intern!(py, "asgi"))?;
        if let Some(versions) = versions {
            scope.set_item(
                pyo3::intern!(py, "asgi"),
                versions.cast::<PyDict>()?.copy()?,
            )?;
        }
        if head.version == Version::Http10 {
            scope.set_item(pyo3::intern!(py, "http_version"), "1.0")?;
        }
        if head.method_name != b"GET" {
            let method = String::from_utf8_lossy(head.method_name).to_uppercase();
            scope.set_item(pyo3::intern!(py, "method"), method)?;
        }
        let path = match head.path {
            b"" => b"/",
            path => path,
        };
        let text = decoded(py, path);
        let text = match self.root_path.is_empty() {
            true => text,
            false => PyString::new(py, &format!("{}{}", self.root_path, text.to_str()?)),
        };
        scope.set_item(pyo3::intern!(py, "path"), text)?;
        scope.set_item(pyo3::intern!(py, "raw_path"), PyBytes::new(py, path))?;
        let query = PyBytes::new(py, head.query.unwrap_or_default());
        scope.set_item(pyo3::intern!(py, "query_string"), query)?;
        let headers = self.headers(py, head.field_section)?;
        scope.set_item(pyo3::intern!(py, "headers"), headers)?;
        let client = address(py, &mut self.client, *request.client)?;
        scope.set_item(pyo3::intern!(py, "client"), client)?;
        let server = address(py, &mut self.server, *request.server)?;
        scope.set_item(pyo3::intern!(py, "server"), server)?;
        if let Some(state) = &self.state {
            scope.set_item(pyo3::intern!(py, "state"), state.bind(py).copy()?)?;
        }
        Ok(scope)
    }

    /// A list of its own, of pairs that may be shared: they cannot be changed.
    fn headers<'py>(&mut self, py: Python<'py>, section: &[u8]) -> PyResult<Bound<'py, PyList>> {
        if let Some(headers) = &self.headers
            && wire::is_same(&self.section, section)
        {
            let headers = headers.bind(py);
            return Ok(headers.get_slice(0, headers.len()));
        }
        let headers = PyList::empty(py);
        let mut has_credentials = false;
        for (name, value) in wire::field_lines(section) {
            has_credentials |= CREDENTIALS.iter().any(|own| name.eq_ignore_ascii_case(own));
            let name = PyBytes::new_with(py, name.len(), |bytes| {
                bytes.copy_from_slice(name);
                bytes.make_ascii_lowercase();
                Ok(())
            })?;
            headers.append(PyTuple::new(py, [name, PyBytes::new(py, value)])?)?;
        }
        self.headers = None;
        if section.len() <= SECTION_BYTES_MAX && !has_credentials {
            self.section.clear();
            self.section.extend_from_slice(section);
            self.headers = Some(headers.get_slice(0, headers.len()).unbind());
        }
        Ok(headers)
    }
}

/// `(host, port)`, or None for a peer without an address.
fn address<'py>(
    py: Python<'py>,
    last: &mut Option<(Peer, Py<PyAny>)>,
    peer: Peer,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some((known, address)) = last
        && *known == peer
    {
        return Ok(address.bind(py).clone());
    }
    let made = match peer {
        Peer::Internet(address) => (address.ip().to_string(), address.port())
            .into_pyobject(py)?
            .into_any(),
        Peer::Local => py.None().into_bound(py),
    };
    *last = Some((peer, made.clone().unbind()));
    Ok(made)
}
