//! The environ of a request (PEP 3333, "environ Variables").
//!
//! What repeats from request to request is made once. A template holds all constants and the addresses; for each kind of client another one
//! holds the items of its last field section too ([`super::environ_memo`]). The environ of a request is a copy of it with the few items that
//! differ.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use net::{Peer, TlsDetails};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::{Circumstances, Forwarded, Head};
use wire::{FieldLines, Method, Version};

use super::environ_forwarded::set_forwarded;
use super::environ_memo::{Item, Keys, Section};
use super::environ_tls::tls_items;
use super::input::Input;
use crate::ffi;
use crate::ffi::reuse::{OurReferences, version};

/// Number of field sections that are remembered, by connection, several of which share a slot: about 5 KB each with a browser's fields.
const SECTIONS: usize = 16;
/// Number of client ports whose text is remembered.
const PORTS: usize = 256;

/// The references to an environ that was given back: ours.
const OF_ENVIRON: OurReferences = OurReferences::of(1);

/// What an environ consists of besides the head.
pub(super) struct Arrival<'a> {
    pub(super) circumstances: &'a Circumstances,
    /// The connection's index among the open ones.
    pub(super) connection: usize,
    /// The length of the content, if it has arrived completely.
    pub(super) content_bytes: Option<usize>,
}

/// What differs between the environs of plain requests: GET, without content, over TCP, with the field names that are remembered.
#[derive(Default)]
struct Plain {
    target: Vec<u8>,
    port: u16,
}

/// Makes environs. One per thread that calls the application.
pub(super) struct Environs {
    /// The constants and the addresses.
    template: Py<PyDict>,
    sections: [Option<Section>; SECTIONS],
    /// The slot of the last section.
    last: usize,
    /// What differs between the current section and the remembered one.
    items: Vec<Item>,
    /// Some of them are remembered from now on.
    has_new_values: bool,
    keys: Keys,
    root_path: Vec<u8>,
    client: Option<IpAddr>,
    client_text: Py<PyString>,
    /// The version that the template holds.
    version: Option<Version>,
    server: Option<Peer>,
    /// The session that the template describes, and the keys of its items.
    tls: Option<Arc<TlsDetails>>,
    tls_keys: Vec<Py<PyString>>,
    ports: Vec<Option<(u16, Py<PyString>)>>,
    /// The environ of the last plain request, if nothing else references it and it was not changed, so that it cannot be distinguished from
    /// a new one.
    spare: Option<Py<PyDict>>,
    /// The version (PEP 509) of the environ that was handed out, if its request is a plain one.
    given: Option<u64>,
    /// The request that the spare environ, or the one handed out, describes.
    plain: Plain,
    /// Number of fields left out because their name has an underscore.
    dropped: Arc<AtomicU64>,
}

impl Environs {
    /// `constants` are the items that every environ starts with.
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
            ("SERVER_PROTOCOL", ""),
            ("REMOTE_ADDR", ""),
            ("REMOTE_PORT", ""),
        ] {
            template.set_item(PyString::intern(py, key), PyString::intern(py, value))?;
        }
        template.set_item("SCRIPT_NAME", ffi::latin1(py, root_path.as_bytes()))?;
        Ok(Environs {
            template: template.unbind(),
            sections: [const { None }; SECTIONS],
            last: 0,
            items: Vec::new(),
            has_new_values: false,
            keys: Keys::default(),
            root_path: root_path.as_bytes().to_vec(),
            client: None,
            client_text: pyo3::intern!(py, "").clone().unbind(),
            version: None,
            server: None,
            tls: None,
            tls_keys: Vec::new(),
            ports: (0..PORTS).map(|_| None).collect(),
            spare: None,
            given: None,
            plain: Plain::default(),
            dropped,
        })
    }

    /// An environ; changes that an application makes to it are not visible to other requests.
    #[inline]
    pub(super) fn environ<'py>(
        &mut self,
        py: Python<'py>,
        head: Head<'_>,
        arrival: &Arrival<'_>,
        input: Option<Bound<'py, Input>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let environ = self.make(py, head, arrival, input);
        environ.inspect_err(|_| self.forget(py))
    }

    /// Remembers nothing of any request. After a failure or a panic, what is remembered may not fit together, and would show one client's
    /// fields to another. The client's address is remembered in one step.
    #[cold]
    pub(super) fn forget(&mut self, py: Python<'_>) {
        self.spare = None;
        self.given = None;
        self.sections = [const { None }; SECTIONS];
        self.items.clear();
        self.version = None;
        self.server = None;
        self.forget_tls(py);
    }

    #[inline]
    fn make<'py>(
        &mut self,
        py: Python<'py>,
        head: Head<'_>,
        arrival: &Arrival<'_>,
        input: Option<Bound<'py, Input>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let now = arrival.circumstances;
        self.set_addresses(py, now)?;
        if now.tls.as_ref().map(Arc::as_ptr) != self.tls.as_ref().map(Arc::as_ptr) {
            self.set_tls(py, now.tls.as_ref())?;
        }
        self.set_version(py, head.version())?;
        self.given = None;
        let section = head.field_section();
        let lines = section.lines();
        let is_known = self.recall(py, arrival.connection, lines)?;
        let unknown = (!is_known).then_some(lines);
        if let Some(forwarded) = &now.forwarded {
            return self.forwarded(py, head, arrival, (unknown, forwarded, input));
        }
        let is_plain = is_known && head.method() == Method::Get && !head.has_content();
        let Peer::Internet(client) = now.client else {
            let environ = self.new_environ(py, head, arrival, unknown)?;
            set_input(&environ, input)?;
            environ.del_item(pyo3::intern!(py, "REMOTE_PORT"))?;
            return Ok(environ);
        };
        let port = client.port();
        if !is_plain && self.has_new_values {
            self.spare = None;
        }
        if is_plain && let Some(environ) = self.spare.take() {
            let environ = environ.into_bound(py);
            self.set_items(&environ)?;
            self.renew(&environ, head, port)?;
            self.given = version(&environ);
            return Ok(environ);
        }
        let environ = self.new_environ(py, head, arrival, unknown)?;
        set_input(&environ, input)?;
        environ.set_item(pyo3::intern!(py, "REMOTE_PORT"), self.port(py, port))?;
        if is_plain {
            self.given = version(&environ);
            self.plain.port = port;
            self.plain.target.clear();
            self.plain.target.extend_from_slice(head.target());
        }
        Ok(environ)
    }

    /// The environ of a request that trusted proxies have passed on. It is not reused. `unknown` is as for [`Environs::new_environ`].
    #[cold]
    fn forwarded<'py>(
        &mut self,
        py: Python<'py>,
        head: Head<'_>,
        arrival: &Arrival<'_>,
        (unknown, forwarded, input): (
            Option<FieldLines<'_>>,
            &Forwarded,
            Option<Bound<'py, Input>>,
        ),
    ) -> PyResult<Bound<'py, PyDict>> {
        if self.has_new_values {
            self.spare = None;
        }
        let environ = self.new_environ(py, head, arrival, unknown)?;
        set_input(&environ, input)?;
        set_forwarded(&environ, forwarded, &arrival.circumstances.server)?;
        if !forwarded.prefix.is_empty() {
            let prefix = forwarded.prefix.as_bytes();
            let script_name = [prefix, &self.root_path].concat();
            let script_name = ffi::latin1(py, &script_name);
            environ.set_item(pyo3::intern!(py, "SCRIPT_NAME"), script_name)?;
            let path = path_info(head.path(), prefix);
            let path = below(&path, &self.root_path);
            environ.set_item(pyo3::intern!(py, "PATH_INFO"), ffi::latin1(py, path))?;
        }
        Ok(environ)
    }

    /// Takes back an environ, if it can be reused.
    #[inline]
    pub(super) fn give_back(&mut self, environ: Bound<'_, PyDict>) {
        if let given @ Some(_) = self.given.take()
            && version(&environ) == given
            && OF_ENVIRON.are_all(environ.py(), environ.as_unbound())
        {
            self.spare = Some(environ.unbind());
        }
    }

    /// Turns the environ of one plain request into that of another.
    #[inline]
    fn renew(&mut self, environ: &Bound<'_, PyDict>, head: Head<'_>, port: u16) -> PyResult<()> {
        let py = environ.py();
        if self.plain.port != port {
            environ.set_item(pyo3::intern!(py, "REMOTE_PORT"), self.port(py, port))?;
            self.plain.port = port;
        }
        if !wire::is_same_throughout(&self.plain.target, head.target()) {
            self.set_target(environ, head)?;
            if head.query().is_none() {
                let key = pyo3::intern!(py, "QUERY_STRING");
                environ.set_item(key, pyo3::intern!(py, ""))?;
            }
            self.plain.target.clear();
            self.plain.target.extend_from_slice(head.target());
        }
        Ok(())
    }

    /// Copies the template, and sets the items of this request except the client's port. `unknown` is its section, unless that was
    /// recalled.
    fn new_environ<'py>(
        &mut self,
        py: Python<'py>,
        head: Head<'_>,
        arrival: &Arrival<'_>,
        unknown: Option<FieldLines<'_>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let environ = match unknown {
            None => self.recalled(py)?,
            Some(section) => self.learned(py, section)?,
        };
        if head.method() != Method::Get {
            let method = method_name(py, head);
            environ.set_item(pyo3::intern!(py, "REQUEST_METHOD"), method)?;
        }
        self.set_target(&environ, head)?;
        if head.content_length().is_none()
            && let Some(content_bytes) = arrival.content_bytes
        {
            set_length(&environ, content_bytes)?;
        }
        Ok(environ)
    }

    fn set_target(&self, environ: &Bound<'_, PyDict>, head: Head<'_>) -> PyResult<()> {
        let py = environ.py();
        let (target, path) = (ffi::latin1(py, head.target()), head.path());
        let is_plain = self.root_path.is_empty() && !path.contains(&b'%');
        if is_plain && path.len() == head.target().len() {
            environ.set_item(pyo3::intern!(py, "PATH_INFO"), &target)?;
        } else {
            let path = path_info(path, &self.root_path);
            environ.set_item(pyo3::intern!(py, "PATH_INFO"), ffi::latin1(py, &path))?;
        }
        if let Some(query) = head.query() {
            let query = ffi::latin1(py, query);
            environ.set_item(pyo3::intern!(py, "QUERY_STRING"), query)?;
        }
        environ.set_item(pyo3::intern!(py, "RAW_URI"), &target)?;
        environ.set_item(pyo3::intern!(py, "REQUEST_URI"), target)
    }

    /// Updates the addresses in the template when they have changed.
    #[inline]
    fn set_addresses(&mut self, py: Python<'_>, circumstances: &Circumstances) -> PyResult<()> {
        let client = match circumstances.client {
            Peer::Internet(address) => Some(address.ip()),
            Peer::Unix(_) | Peer::Local => None,
        };
        let is_server = self.server == Some(*circumstances.server);
        if client == self.client && is_server {
            return Ok(());
        }
        self.spare = None;
        let template = self.template.bind(py);
        if client != self.client {
            let text = client.map(|ip| ip.to_string()).unwrap_or_default();
            let text = PyString::new(py, &text);
            template.set_item(pyo3::intern!(py, "REMOTE_ADDR"), &text)?;
            self.client_text = text.unbind();
            self.client = client;
        }
        if !is_server {
            let (name, port) = match *circumstances.server {
                Peer::Internet(address) => (address.ip().to_string(), address.port().to_string()),
                Peer::Unix(_) | Peer::Local => ("localhost".to_owned(), "80".to_owned()),
            };
            let (name, port) = (PyString::new(py, &name), PyString::new(py, &port));
            self.sections = [const { None }; SECTIONS];
            template.set_item(pyo3::intern!(py, "SERVER_NAME"), name)?;
            template.set_item(pyo3::intern!(py, "SERVER_PORT"), port)?;
            self.server = Some(*circumstances.server);
        }
        Ok(())
    }

    /// Updates the items of a TLS session in the template when they have changed, which is rare unless clients have certificates.
    fn set_tls(&mut self, py: Python<'_>, tls: Option<&Arc<TlsDetails>>) -> PyResult<()> {
        if self.tls.as_ref() != tls {
            self.spare = None;
            self.sections = [const { None }; SECTIONS];
            self.forget_tls(py);
            let template = self.template.bind(py);
            for (key, value) in tls.into_iter().flat_map(|details| tls_items(details)) {
                let key = PyString::new(py, &key);
                template.set_item(&key, value)?;
                self.tls_keys.push(key.unbind());
            }
        }
        self.tls = tls.cloned();
        Ok(())
    }

    /// Removes the items of a session from the template.
    fn forget_tls(&mut self, py: Python<'_>) {
        self.tls = None;
        let template = self.template.bind(py);
        for key in self.tls_keys.drain(..) {
            if let Err(error) = template.del_item(key) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// Updates the version in the template when it has changed.
    #[inline]
    fn set_version(&mut self, py: Python<'_>, version: Version) -> PyResult<()> {
        if self.version == Some(version) {
            return Ok(());
        }
        self.spare = None;
        set_version(self.template.bind(py), Some(version))?;
        self.version = Some(version);
        Ok(())
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

    /// Whether the section is one of the last ones except for some values, which are then in `items`.
    #[inline]
    fn recall(
        &mut self,
        py: Python<'_>,
        connection: usize,
        section: FieldLines<'_>,
    ) -> PyResult<bool> {
        self.items.clear();
        self.has_new_values = false;
        if let Some(last) = self.last()
            && last.client == self.client
            && last.version == self.version
            && last.is_same(section)
        {
            self.count_dropped(last.dropped);
            return Ok(true);
        }
        let after_kind = self.last().and_then(|last| last.skip_kind(section));
        if after_kind.is_none() && self.last != connection % SECTIONS {
            self.last = connection % SECTIONS;
            self.spare = None;
        }
        let Some(Some(known)) = self.sections.get_mut(self.last) else {
            return Ok(false);
        };
        if known.client != self.client {
            let key = pyo3::intern!(py, "REMOTE_ADDR");
            known.environ.bind(py).set_item(key, &self.client_text)?;
            known.client = self.client;
        }
        if known.version != self.version {
            set_version(known.environ.bind(py), self.version)?;
            known.version = self.version;
        }
        let Some(has_changed) = known.recall(py, section, after_kind, &mut self.items)? else {
            self.forget_section();
            return Ok(false);
        };
        self.has_new_values = has_changed;
        let dropped = known.dropped;
        self.count_dropped(dropped);
        Ok(true)
    }

    fn last(&self) -> Option<&Section> {
        self.sections.get(self.last)?.as_ref()
    }

    #[cold]
    fn forget_section(&mut self) {
        self.spare = None;
        if let Some(place) = self.sections.get_mut(self.last) {
            *place = None;
        }
    }

    /// A copy of what is remembered of the current section, with the items that differ.
    fn recalled<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let known = self.last().map_or(&self.template, |known| &known.environ);
        let environ = known.bind(py).copy()?;
        self.set_items(&environ)?;
        Ok(environ)
    }

    fn set_items(&mut self, environ: &Bound<'_, PyDict>) -> PyResult<()> {
        while let Some((key, value)) = self.items.pop() {
            environ.set_item(key, value)?;
        }
        Ok(())
    }

    /// A copy of the template with the items of a section, which is remembered if possible.
    fn learned<'py>(
        &mut self,
        py: Python<'py>,
        section: FieldLines<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let template = self.template.bind(py);
        let learned = self
            .keys
            .learn(template, (self.client, self.version), section)?;
        self.count_dropped(learned.dropped);
        if let Some(place) = self.sections.get_mut(self.last) {
            *place = learned.section;
        }
        Ok(learned.environ)
    }

    fn count_dropped(&self, count: u64) {
        if count > 0 {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cold]
fn set_version(environ: &Bound<'_, PyDict>, version: Option<Version>) -> PyResult<()> {
    let py = environ.py();
    let name = PyString::intern(py, version.map_or("", Version::name));
    environ.set_item(pyo3::intern!(py, "SERVER_PROTOCOL"), name)
}

fn set_input(environ: &Bound<'_, PyDict>, input: Option<Bound<'_, Input>>) -> PyResult<()> {
    match input {
        Some(input) => environ.set_item(pyo3::intern!(environ.py(), "wsgi.input"), input),
        None => Ok(()),
    }
}

/// Describes content of previously unknown length as it is now: complete, and of known length (RFC 9112 section 7.1.3).
fn set_length(environ: &Bound<'_, PyDict>, content_bytes: usize) -> PyResult<()> {
    let py = environ.py();
    let length = PyString::new(py, itoa::Buffer::new().format(content_bytes));
    environ.set_item(pyo3::intern!(py, "CONTENT_LENGTH"), length)?;
    let coding = pyo3::intern!(py, "HTTP_TRANSFER_ENCODING");
    match environ.contains(coding)? {
        true => environ.del_item(coding),
        false => Ok(()),
    }
}

/// The decoded path below the root path, whether a proxy passed that on or stripped it. The asterisk of `OPTIONS *` is below none: an empty
/// path would be the application's root.
fn path_info(path: &[u8], root_path: &[u8]) -> Vec<u8> {
    let path = server::percent_decode(path);
    below(&path, root_path).to_vec()
}

/// What follows a prefix in a path; the path itself, if it is not below that.
fn below<'a>(path: &'a [u8], prefix: &[u8]) -> &'a [u8] {
    match path.strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest,
        _ => path,
    }
}

fn method_name<'py>(py: Python<'py>, head: Head<'_>) -> Bound<'py, PyString> {
    match head.method() {
        Method::Head => pyo3::intern!(py, "HEAD").clone(),
        Method::Post => pyo3::intern!(py, "POST").clone(),
        Method::Put => pyo3::intern!(py, "PUT").clone(),
        _ => ffi::latin1(py, head.method_name()),
    }
}
