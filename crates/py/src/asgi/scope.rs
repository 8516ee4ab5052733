//! The connection scope of a request.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use server::{Forwarded, Head};
use wire::{Method, Scheme, Version};

use super::extensions::Offered;
use super::fresh::{Extensions, Fresh};
use super::memo::{Addresses, Sections};
use crate::ffi::reuse::{OurReferences, version};
use crate::run::target::decoded;

/// From 2.4 on, applications wait for an error of `send()` in place of `http.disconnect`, and one that sends nothing never ends.
pub(super) const SPEC_VERSION: &str = "2.3";

/// The references to a scope that was given back: ours.
const OF_SCOPE: OurReferences = OurReferences::of(1);

/// Makes scopes. What repeats from request to request is made once.
pub(crate) struct Scopes {
    keys: Keys,
    template: Py<PyDict>,
    /// The last scope, which was given back unchanged: it holds the same items as the template.
    spare: Option<Py<PyDict>>,
    /// The version of the scope that was handed out (PEP 509).
    given: Option<u64>,
    last: Last,
    versions: Fresh,
    extensions: Extensions,
    state: Option<Fresh>,
    /// Those of a request that no proxy has passed on.
    scheme: &'static str,
    root_path: String,
    clients: Addresses,
    servers: Addresses,
    sections: Sections,
}

/// The request that the template describes. Each is set after its items, so that it never describes more than they do.
struct Last {
    version: Option<Version>,
    is_other_method: bool,
    path: Vec<u8>,
    query: Vec<u8>,
    client: Peer,
    server: Option<Peer>,
    /// What proxies have said of it.
    forwarded: Option<LastForwarded>,
}

/// What proxies have said of the last request.
#[derive(PartialEq, Eq)]
struct LastForwarded {
    scheme: &'static str,
    prefix: Box<str>,
}

/// The keys of the items that differ from request to request.
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
    scheme: Py<PyString>,
    root_path: Py<PyString>,
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
            scheme: key("scheme"),
            root_path: key("root_path"),
        }
    }
}

impl Scopes {
    pub(crate) fn new(
        py: Python<'_>,
        (scheme, root_path): (&'static str, &str),
        state: Option<Py<PyDict>>,
        (offered, has_request_ids): (Offered, bool),
    ) -> PyResult<Scopes> {
        let versions = PyDict::new(py);
        versions.set_item("version", "3.0")?;
        versions.set_item("spec_version", SPEC_VERSION)?;
        let template = PyDict::new(py);
        let constants = [
            ("type", "http"),
            ("http_version", ""),
            ("method", "GET"),
            ("scheme", scheme),
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
            spare: None,
            given: None,
            last: Last::none(),
            versions: Fresh::new(versions.unbind()),
            extensions: Extensions::new(py, offered.names(), has_request_ids),
            state: state.map(Fresh::new),
            scheme,
            root_path: root_path.to_owned(),
            clients: Addresses::default(),
            servers: Addresses::default(),
            sections: Sections::default(),
        })
    }

    /// A scope; changes that an application makes to it are not visible to other requests.
    pub(crate) fn scope<'py>(
        &mut self,
        py: Python<'py>,
        request: &server::Request<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.make(py, request).inspect_err(|_| self.forget())
    }

    /// Remembers nothing of any request. After a failure or a panic, what is remembered may not fit together, and would show one client's
    /// fields to another.
    #[cold]
    pub(crate) fn forget(&mut self) {
        self.spare = None;
        self.given = None;
        self.last = Last::none();
        self.extensions.forget();
        self.sections.forget();
    }

    #[inline]
    fn make<'py>(
        &mut self,
        py: Python<'py>,
        request: &server::Request<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scope = self.spare.take().map(|spare| spare.into_bound(py));
        self.renew(py, scope.as_ref(), request)?;
        let (scope, client) = match scope {
            Some(scope) if self.last.client == request.circumstances.client => (scope, None),
            Some(scope) => (scope, Some(self.client(py, request)?)),
            None => (
                self.template.bind(py).copy()?,
                Some(self.client(py, request)?),
            ),
        };
        if let Some(client) = client {
            scope.set_item(&self.keys.client, client)?;
        }
        self.given = version(&scope);
        Ok(scope)
    }

    /// Takes back a scope, if it was not changed and nothing else references it. Otherwise it is dropped now, with everything that was put
    /// into it.
    #[inline]
    pub(crate) fn give_back(&mut self, scope: Bound<'_, PyDict>) {
        if let given @ Some(_) = self.given.take()
            && version(&scope) == given
            && OF_SCOPE.are_all(scope.py(), scope.as_unbound())
        {
            self.spare = Some(scope.unbind());
        }
    }

    /// The client, which changes most often: it is in the scope only, not in the template.
    fn client<'py>(
        &mut self,
        py: Python<'py>,
        request: &server::Request<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (slot, client) = (
            request.id.connection() as usize,
            request.circumstances.client,
        );
        let address = self.clients.address(py, slot, &client)?;
        self.last.client = client;
        Ok(address)
    }

    /// Updates the template, and the last scope if it is as good as new, for `request`.
    fn renew(
        &mut self,
        py: Python<'_>,
        scope: Option<&Bound<'_, PyDict>>,
        request: &server::Request<'_>,
    ) -> PyResult<()> {
        let target = Target {
            template: self.template.bind(py),
            scope,
        };
        // The values in them are referenced by both, and by the cache that made them.
        let references = OurReferences::of(if scope.is_some() { 3 } else { 2 });
        let keys = &self.keys;
        target.renew(&keys.asgi, self.versions.renewed(py, references)?)?;
        let extensions = self.extensions.renewed(py, references, request)?;
        target.renew(&keys.extensions, extensions)?;
        if let Some(state) = &mut self.state {
            target.renew(&keys.state, state.renewed(py, references)?)?;
        }
        let slot = request.id.connection() as usize;
        let section = request.head.field_section();
        let headers = self
            .sections
            .renewed(py, references, slot, section.lines())?;
        target.renew(&keys.headers, headers)?;
        let now = request.circumstances;
        if self.last.server != Some(*now.server) {
            let server = self.servers.address(py, 0, &now.server)?;
            target.set(&keys.server, server)?;
            self.last.server = Some(*now.server);
        }
        let own = (self.scheme, self.root_path.as_str());
        if now.forwarded.is_some() || self.last.forwarded.is_some() {
            self.last
                .renew_forwarded(&target, keys, own, now.forwarded.as_deref())?;
        }
        self.last
            .renew_request_line(&target, keys, own.1, request.head)
    }
}

/// The dicts in which the items of the next scope are set.
struct Target<'a, 'py> {
    template: &'a Bound<'py, PyDict>,
    scope: Option<&'a Bound<'py, PyDict>>,
}

impl<'py> Target<'_, 'py> {
    fn set(&self, key: &Py<PyString>, value: Bound<'py, PyAny>) -> PyResult<()> {
        if let Some(scope) = self.scope {
            scope.set_item(key, &value)?;
        }
        self.template.set_item(key, value)
    }

    fn renew<T>(&self, key: &Py<PyString>, value: Option<Bound<'py, T>>) -> PyResult<()> {
        match value {
            Some(value) => self.set(key, value.into_any()),
            None => Ok(()),
        }
    }
}

impl Last {
    /// None at all: whatever the next one is, its items are set.
    fn none() -> Last {
        Last {
            version: None,
            is_other_method: true,
            // No path is empty, and no query has a line end.
            path: Vec::new(),
            query: b"\n".to_vec(),
            client: Peer::Local,
            server: None,
            forwarded: Some(LastForwarded {
                scheme: "",
                prefix: Box::default(),
            }),
        }
    }

    /// Updates what depends on what proxies say.
    #[cold]
    fn renew_forwarded(
        &mut self,
        target: &Target<'_, '_>,
        keys: &Keys,
        (own_scheme, own_root_path): (&'static str, &str),
        forwarded: Option<&Forwarded>,
    ) -> PyResult<()> {
        let forwarded = forwarded.map(|forwarded| LastForwarded {
            scheme: forwarded.scheme.map_or(own_scheme, Scheme::name),
            prefix: forwarded.prefix.clone(),
        });
        if forwarded == self.forwarded {
            return Ok(());
        }
        let py = target.template.py();
        let (scheme, prefix) = match &forwarded {
            Some(forwarded) => (forwarded.scheme, &*forwarded.prefix),
            None => (own_scheme, ""),
        };
        let root_path = PyString::new(py, &format!("{prefix}{own_root_path}"));
        target.set(&keys.scheme, PyString::intern(py, scheme).into_any())?;
        target.set(&keys.root_path, root_path.into_any())?;
        // The path includes the prefix.
        self.path.clear();
        self.forwarded = forwarded;
        Ok(())
    }

    fn renew_request_line(
        &mut self,
        target: &Target<'_, '_>,
        keys: &Keys,
        root_path: &str,
        head: Head<'_>,
    ) -> PyResult<()> {
        let py = target.template.py();
        let version = head.version();
        if self.version != Some(version) {
            let number = PyString::intern(py, version.number());
            target.set(&keys.http_version, number.into_any())?;
            self.version = Some(version);
        }
        let is_other_method = head.method() != Method::Get;
        if is_other_method || self.is_other_method {
            let method = String::from_utf8_lossy(head.method_name()).to_uppercase();
            target.set(&keys.method, PyString::new(py, &method).into_any())?;
            self.is_other_method = is_other_method;
        }
        let path = head.path();
        if !wire::is_same_throughout(&self.path, path) {
            let prefix = self.forwarded.as_ref().map_or("", |it| &*it.prefix);
            let decoded = path_of(py, (prefix, root_path), path)?;
            let raw = PyBytes::new(py, path);
            target.set(&keys.path, decoded.into_any())?;
            target.set(&keys.raw_path, raw.into_any())?;
            keep(&mut self.path, path);
        }
        let query = head.query().unwrap_or_default();
        if !wire::is_same_throughout(&self.query, query) {
            let value = PyBytes::new(py, query).into_any();
            target.set(&keys.query_string, value)?;
            keep(&mut self.query, query);
        }
        Ok(())
    }
}

/// The decoded path including the prefix that proxies have said, and the root path after it, whether a proxy stripped them or passed them on.
/// The asterisk of `OPTIONS *` is not a path and is kept as it is.
pub(super) fn path_of<'py>(
    py: Python<'py>,
    (prefix, root_path): (&str, &str),
    raw: &[u8],
) -> PyResult<Bound<'py, PyString>> {
    let path = decoded(py, raw);
    if prefix.is_empty() && root_path.is_empty() || raw == b"*" {
        return Ok(path);
    }
    let text = path.to_str()?;
    let rest = below(text, prefix);
    let rest = below(rest, root_path);
    let path = format!("{prefix}{root_path}{rest}");
    Ok(PyString::new(py, &path))
}

/// What follows a prefix in a path; the path itself, if it is not below that.
fn below<'a>(path: &'a str, prefix: &str) -> &'a str {
    match path.strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    }
}

/// Replaces a kept part of a target.
fn keep(kept: &mut Vec<u8>, value: &[u8]) {
    kept.clear();
    kept.extend_from_slice(value);
}
