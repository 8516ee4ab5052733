//! Dicts that are separate for each scope, so that an application cannot change those of another request.
//!
//! The last one is reused for the next request if nothing else references it and it was not changed: it cannot be distinguished from a new
//! one then.

use std::sync::Arc;

use net::TlsDetails;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::ffi::reuse::{OurReferences, version};

/// A dict that was handed out, and its version at that time (PEP 509).
struct Given {
    dict: Py<PyDict>,
    version: Option<u64>,
}

impl Given {
    fn new(dict: &Bound<'_, PyDict>) -> Given {
        Given {
            dict: dict.clone().unbind(),
            version: version(dict),
        }
    }

    /// Whether it has just these references and is unchanged. Without versions this is unknown, and false.
    #[inline]
    fn is_as_new(&self, py: Python<'_>, references: OurReferences) -> bool {
        references.are_all(py, &self.dict)
            && self.version.is_some()
            && version(self.dict.bind(py)) == self.version
    }
}

/// Copies of an original that its owner may still change.
pub(crate) struct Fresh {
    original: Py<PyDict>,
    copied_version: Option<u64>,
    copy: Option<Given>,
}

impl Fresh {
    pub(crate) fn new(original: Py<PyDict>) -> Fresh {
        Fresh {
            original,
            copied_version: None,
            copy: None,
        }
    }

    /// A new copy, or None when the last one is as good as new: unchanged, with just `references` references.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: OurReferences,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let original = self.original.bind(py);
        let original_version = version(original);
        if let Some(copy) = &self.copy
            && copy.is_as_new(py, references)
            && self.copied_version == original_version
        {
            return Ok(None);
        }
        let copy = original.copy()?;
        self.copied_version = original_version;
        self.copy = Some(Given::new(&copy));
        Ok(Some(copy))
    }
}

/// The dict of supported extensions, each of which has an empty dict of its own, except those of TLS and of the request's id.
pub(crate) struct Extensions {
    names: Vec<Py<PyString>>,
    /// One of them is about the request, so that none is as good as new for the next.
    has_request_ids: bool,
    /// The session that the last dict describes.
    tls: Option<Arc<TlsDetails>>,
    given: Option<Given>,
    /// The dicts in it.
    inner: Vec<Given>,
}

/// The references to a dict inside the extensions that nothing else holds: theirs and ours.
const INNER_REFERENCES: OurReferences = OurReferences::of(2);

impl Extensions {
    pub(crate) fn new(
        py: Python<'_>,
        names: impl Iterator<Item = &'static str>,
        has_request_ids: bool,
    ) -> Extensions {
        Extensions {
            names: names
                .map(|name| PyString::intern(py, name).unbind())
                .collect(),
            has_request_ids,
            tls: None,
            given: None,
            inner: Vec::new(),
        }
    }

    /// A new dict, or None when the last one is as good as new: unchanged throughout, with just `references` references.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: OurReferences,
        request: &server::Request<'_>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let tls = request.circumstances.tls.as_ref();
        let mut inner = self.inner.iter();
        if is_same(self.tls.as_ref(), tls)
            && let Some(given) = &self.given
            && given.is_as_new(py, references)
            && inner.all(|given| given.is_as_new(py, INNER_REFERENCES))
        {
            return Ok(None);
        }
        // Until the new one is complete, so that no failure leaves the description of another session.
        self.forget();
        let dict = PyDict::new(py);
        for name in &self.names {
            let nothing = PyDict::new(py);
            dict.set_item(name, &nothing)?;
            self.inner.push(Given::new(&nothing));
        }
        if let Some(details) = tls {
            let session = tls_extension(py, details)?;
            dict.set_item(pyo3::intern!(py, "tls"), &session)?;
            self.inner.push(Given::new(&session));
        }
        if let Some(id) = request.head.request_id() {
            set_request_id(&dict, id)?;
        }
        self.tls = tls.cloned();
        self.given = (!self.has_request_ids).then(|| Given::new(&dict));
        Ok(Some(dict))
    }

    /// Remembers no dict any more.
    pub(super) fn forget(&mut self) {
        self.given = None;
        self.inner.clear();
    }
}

/// Whether two sessions have the same description. Most clients of a server have.
#[inline]
fn is_same(one: Option<&Arc<TlsDetails>>, other: Option<&Arc<TlsDetails>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
        _ => false,
    }
}

/// Adds the extension that has the id of a request.
pub(super) fn set_request_id(extensions: &Bound<'_, PyDict>, id: &str) -> PyResult<()> {
    let py = extensions.py();
    let extension = PyDict::new(py);
    extension.set_item("id", id)?;
    extensions.set_item(pyo3::intern!(py, "bolide.request_id"), extension)
}

/// The extension that describes a TLS session (asgiref, "TLS Extension").
pub(super) fn tls_extension<'py>(
    py: Python<'py>,
    details: &TlsDetails,
) -> PyResult<Bound<'py, PyDict>> {
    let session = PyDict::new(py);
    let chain = PyTuple::new(py, details.client_pems().collect::<Vec<_>>())?;
    let name = details.client().map(|client| client.subject());
    session.set_item("server_cert", details.server_pem())?;
    session.set_item("client_cert_chain", chain)?;
    session.set_item("client_cert_name", name)?;
    // A client whose certificate is not valid cannot connect.
    session.set_item("client_cert_error", py.None())?;
    session.set_item("tls_version", details.version)?;
    session.set_item("cipher_suite", details.cipher_suite)?;
    Ok(session)
}
