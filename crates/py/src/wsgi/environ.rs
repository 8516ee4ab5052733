//! The environ of a request (PEP 3333, "environ Variables").
//!
//! What repeats from request to request is made once: a template holds every constant, the addresses and, as field sections repeat on a
//! connection and mostly across connections, the items of the last one. A request's environ is a copy of it with the few that differ.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::{Method, RequestHead, Version};

use super::input::Input;
use crate::ffi;

/// What only one client should know: how long a comparison takes must not tell another.
const CREDENTIALS: [&[u8]; 3] = [b"cookie", b"authorization", b"proxy-authorization"];
/// Items of longer sections are made each time.
const SECTION_BYTES_MAX: usize = 4096;
/// Field names whose keys are remembered; peers choose them, so there is an end to it.
const KEYS_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 64;
/// Client ports of which the text is remembered.
const PORTS: usize = 256;

/// What an environ is made of besides the head.
pub(super) struct Circumstances<'a> {
    pub(super) client: &'a Peer,
    pub(super) server: &'a Peer,
}

/// What differs between the environs of plain requests: GET, of HTTP/1.1, without content, over TCP, with the field section that is
/// remembered.
#[derive(Default)]
struct Plain {
    target: Vec<u8>,
    port: u16,
}

/// Makes environs. One per thread that calls the application.
pub(super) struct Environs {
    /// The constants and the addresses.
    template: Py<PyDict>,
    /// The same with the items of the last field section. Not for sections with credentials: see `wire::SectionMemo`.
    last: Py<PyDict>,
    section: Vec<u8>,
    root_path: Vec<u8>,
    keys: HashMap<Box<[u8]>, Py<PyString>>,
    client: Option<IpAddr>,
    server: Option<Peer>,
    ports: Vec<Option<(u16, Py<PyString>)>>,
    /// The environ of the last plain request, if nobody holds it any more and nobody changed it: nobody can tell that it is not new.
    spare: Option<Py<PyDict>>,
    /// The version (PEP 509) of the environ that is given out, if its request is a plain one.
    given: Option<u64>,
    /// What stands in the spare one or in the one that is given out.
    plain: Plain,
    /// Fields that were left out because their name has an underscore.
    dropped: Arc<AtomicU64>,
    last_dropped: u64,
}

impl Environs {
    /// `constants` are the items that every environ begins with.
    pub(super) fn new(
        constants: &Bound<'_, PyDict>,
        root_path: &str,
        dropped: Arc<AtomicU64>,
    ) -> PyResult<Environs> {
        let py = constants.py();
        let template = constants.copy()?;
        for (key, value) in [
            ("REQUEST_METHOD", "GET"),
            ("SCRIPT_NAME", ""),
            ("PATH_INFO", "/"),
            ("QUERY_STRING", ""),
            ("RAW_URI", "/"),
            ("REQUEST_URI", "/"),
            ("SERVER_NAME", "localhost"),
            ("SERVER_PORT", "80"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REMOTE_ADDR", ""),
            ("REMOTE_PORT", ""),
        ] {
            template.set_item(PyString::intern(py, key), PyString::intern(py, value))?;
        }
        template.set_item("SCRIPT_NAME", ffi::latin1(py, root_path.as_bytes()))?;
        Ok(Environs {
            last: template.copy()?.unbind(),
            template: template.unbind(),
            section: Vec::new(),
            root_path: root_path.as_bytes().to_vec(),
            keys: HashMap::new(),
            client: None,
            server: None,
            ports: (0..PORTS).map(|_| None).collect(),
            spare: None,
            given: None,
            plain: Plain::default(),
            dropped,
            last_dropped: 0,
        })
    }

    /// A fresh environ: what an application changes in it, no other request sees.
    #[inline]
    pub(super) fn environ<'py>(
        &mut self,
        py: Python<'py>,
        head: &RequestHead<'_>,
        circumstances: &Circumstances<'_>,
        input: Option<Bound<'py, Input>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.set_addresses(py, circumstances)?;
        self.given = None;
        let is_plain = head.method == Method::Get
            && head.version == Version::Http11
            && head.authority.is_none()
            && input.is_none()
            && wire::is_same(&self.section, head.field_section);
        let Peer::Internet(client) = circumstances.client else {
            let environ = self.new_environ(py, head, input)?;
            environ.del_item(pyo3::intern!(py, "REMOTE_PORT"))?;
            return Ok(environ);
        };
        let port = client.port();
        if is_plain && let Some(environ) = self.spare.take() {
            self.count_dropped(self.last_dropped);
            let environ = environ.into_bound(py);
            self.renew(&environ, head, port)?;
            self.given = ffi::version(&environ);
            return Ok(environ);
        }
        let environ = self.new_environ(py, head, input)?;
        environ.set_item(pyo3::intern!(py, "REMOTE_PORT"), self.port(py, port))?;
        if is_plain {
            self.given = ffi::version(&environ);
            self.plain.port = port;
            self.plain.target.clear();
            self.plain.target.extend_from_slice(head.target);
        }
        Ok(environ)
    }

    /// Takes back what was given out, if it may be given out again.
    #[inline]
    pub(super) fn give_back(&mut self, environ: Bound<'_, PyDict>) {
        if let Some(version) = self.given.take()
            && ffi::version(&environ) == Some(version)
        {
            let environ = environ.unbind();
            if ffi::references(&environ) == 1 {
                self.spare = Some(environ);
            }
        }
    }

    /// Makes of the environ of a plain request that of another.
    #[inline]
    fn renew(
        &mut self,
        environ: &Bound<'_, PyDict>,
        head: &RequestHead<'_>,
        port: u16,
    ) -> PyResult<()> {
        let py = environ.py();
        if self.plain.port != port {
            environ.set_item(pyo3::intern!(py, "REMOTE_PORT"), self.port(py, port))?;
            self.plain.port = port;
        }
        if self.plain.target != head.target {
            self.set_target(environ, head)?;
            if head.query.is_none() {
                let key = pyo3::intern!(py, "QUERY_STRING");
                environ.set_item(key, pyo3::intern!(py, ""))?;
            }
            self.plain.target.clear();
            self.plain.target.extend_from_slice(head.target);
        }
        Ok(())
    }

    /// Copies the template, and sets what this request has of its own but the client's port.
    fn new_environ<'py>(
        &mut self,
        py: Python<'py>,
        head: &RequestHead<'_>,
        input: Option<Bound<'py, Input>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let environ = self.with_fields(py, head.field_section)?;
        if head.method != Method::Get {
            let method = method_name(py, head);
            environ.set_item(pyo3::intern!(py, "REQUEST_METHOD"), method)?;
        }
        self.set_target(&environ, head)?;
        if head.version == Version::Http10 {
            let version = pyo3::intern!(py, "HTTP/1.0");
            environ.set_item(pyo3::intern!(py, "SERVER_PROTOCOL"), version)?;
        }
        if let Some(authority) = head.authority {
            // It replaces Host (RFC 9112 section 3.2.2).
            let authority = ffi::latin1(py, authority);
            environ.set_item(pyo3::intern!(py, "HTTP_HOST"), authority)?;
        }
        if let Some(input) = input {
            environ.set_item(pyo3::intern!(py, "wsgi.input"), input)?;
        }
        Ok(environ)
    }

    fn set_target(&self, environ: &Bound<'_, PyDict>, head: &RequestHead<'_>) -> PyResult<()> {
        let py = environ.py();
        let target = ffi::latin1(py, head.target);
        let is_plain = self.root_path.is_empty() && !head.path.contains(&b'%');
        if is_plain && head.path.len() == head.target.len() && head.target != b"*" {
            environ.set_item(pyo3::intern!(py, "PATH_INFO"), &target)?;
        } else {
            let path = path_info(head.path, &self.root_path);
            environ.set_item(pyo3::intern!(py, "PATH_INFO"), ffi::latin1(py, &path))?;
        }
        if let Some(query) = head.query {
            let query = ffi::latin1(py, query);
            environ.set_item(pyo3::intern!(py, "QUERY_STRING"), query)?;
        }
        environ.set_item(pyo3::intern!(py, "RAW_URI"), &target)?;
        environ.set_item(pyo3::intern!(py, "REQUEST_URI"), target)
    }

    /// The addresses stand in the templates, and change there when they change.
    fn set_addresses(&mut self, py: Python<'_>, circumstances: &Circumstances<'_>) -> PyResult<()> {
        let client = match circumstances.client {
            Peer::Internet(address) => Some(address.ip()),
            Peer::Unix(_) | Peer::Local => None,
        };
        if client != self.client {
            let text = client.map(|ip| ip.to_string()).unwrap_or_default();
            self.set_in_templates(py, "REMOTE_ADDR", &text)?;
            self.client = client;
        }
        if self.server.as_ref() != Some(circumstances.server) {
            let (name, port) = match circumstances.server {
                Peer::Internet(address) => (address.ip().to_string(), address.port().to_string()),
                Peer::Unix(_) | Peer::Local => ("localhost".to_owned(), "80".to_owned()),
            };
            self.set_in_templates(py, "SERVER_NAME", &name)?;
            self.set_in_templates(py, "SERVER_PORT", &port)?;
            self.server = Some(*circumstances.server);
        }
        Ok(())
    }

    fn set_in_templates(&mut self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        self.spare = None;
        let value = PyString::new(py, value);
        self.template.bind(py).set_item(key, &value)?;
        self.last.bind(py).set_item(key, value)
    }

    fn port<'py>(&mut self, py: Python<'py>, port: u16) -> Bound<'py, PyString> {
        let Some(place) = self.ports.get_mut(usize::from(port) % PORTS) else {
            return PyString::new(py, &port.to_string());
        };
        match place {
            Some((known, text)) if *known == port => text.bind(py).clone(),
            _ => {
                let text = PyString::new(py, itoa::Buffer::new().format(port));
                *place = Some((port, text.clone().unbind()));
                text
            }
        }
    }

    /// A copy of the template with the items of a field section.
    fn with_fields<'py>(
        &mut self,
        py: Python<'py>,
        section: &[u8],
    ) -> PyResult<Bound<'py, PyDict>> {
        if wire::is_same(&self.section, section) {
            self.count_dropped(self.last_dropped);
            return self.last.bind(py).copy();
        }
        let environ = self.template.bind(py).copy()?;
        let mut has_credentials = false;
        let mut dropped = 0;
        for (name, value) in wire::field_lines(section) {
            if name.contains(&b'_') {
                // Its key would be that of the name with a hyphen, which a proxy may have set or removed.
                dropped += 1;
                continue;
            }
            has_credentials |= CREDENTIALS.iter().any(|own| name.eq_ignore_ascii_case(own));
            self.set_field(&environ, name, value)?;
        }
        self.count_dropped(dropped);
        if section.len() <= SECTION_BYTES_MAX && !has_credentials {
            self.section.clear();
            self.section.extend_from_slice(section);
            self.last = environ.copy()?.unbind();
            self.spare = None;
            self.last_dropped = dropped;
        }
        Ok(environ)
    }

    fn count_dropped(&self, count: u64) {
        if count > 0 {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Sets the item of a field line, behind the ones of that name before it.
    fn set_field(
        &mut self,
        environ: &Bound<'_, PyDict>,
        name: &[u8],
        value: &[u8],
    ) -> PyResult<()> {
        let py = environ.py();
        let key = self.key(py, name);
        let Some(before) = environ.get_item(&key)? else {
            return environ.set_item(key, ffi::latin1(py, value));
        };
        let separator = match name.eq_ignore_ascii_case(b"cookie") {
            true => "; ",
            false => ",",
        };
        let value = ffi::latin1(py, value);
        environ.set_item(key, before.add(separator)?.add(value)?)
    }

    fn key<'py>(&mut self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
        if let Some(key) = self.keys.get(name) {
            return key.bind(py).clone();
        }
        let key = PyString::intern(py, &key_of(name));
        if name.len() <= KEY_BYTES_MAX {
            if self.keys.len() >= KEYS_MAX {
                self.keys.clear();
            }
            self.keys.insert(name.into(), key.clone().unbind());
        }
        key
    }
}

/// `HTTP_` and the name in upper case; two have no prefix (RFC 3875 section 4.1).
fn key_of(name: &[u8]) -> String {
    let in_capitals = |byte: &u8| match byte {
        b'-' => '_',
        other => char::from(other.to_ascii_uppercase()),
    };
    let key: String = name.iter().map(in_capitals).collect();
    match key.as_str() {
        "CONTENT_TYPE" | "CONTENT_LENGTH" => key,
        _ => format!("HTTP_{key}"),
    }
}

/// The decoded path below the root path. The root path may be there (a proxy passed the path on) or not (it took it away).
fn path_info(path: &[u8], root_path: &[u8]) -> Vec<u8> {
    if path == b"*" {
        // `OPTIONS *` is about the server, not about a resource: there is no path.
        return Vec::new();
    }
    let path = server::percent_decode(path);
    match path.strip_prefix(root_path) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest.to_vec(),
        _ => path,
    }
}

fn method_name<'py>(py: Python<'py>, head: &RequestHead<'_>) -> Bound<'py, PyString> {
    match head.method {
        Method::Head => pyo3::intern!(py, "HEAD").clone(),
        Method::Post => pyo3::intern!(py, "POST").clone(),
        Method::Put => pyo3::intern!(py, "PUT").clone(),
        _ => ffi::latin1(py, head.method_name),
    }
}
