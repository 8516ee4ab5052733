//! `request.tls`: what a native handler sees of its connection's TLS session.

use std::sync::Arc;

use net::TlsDetails;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// A TLS session. Nothing is decoded before it is asked for.
#[pyclass(frozen, module = "bolide._core")]
pub(crate) struct Tls {
    details: Arc<TlsDetails>,
}

impl Tls {
    pub(super) fn new(details: Arc<TlsDetails>) -> Tls {
        Tls { details }
    }
}

#[pymethods]
impl Tls {
    #[getter]
    fn version(&self) -> &'static str {
        self.details.version_name()
    }

    #[getter]
    fn cipher(&self) -> &'static str {
        self.details.cipher_name()
    }

    #[getter]
    fn server_name(&self) -> Option<&str> {
        self.details.server_name.as_deref()
    }

    #[getter]
    fn client_name(&self) -> Option<String> {
        Some(self.details.client()?.subject())
    }

    /// The client's certificate in DER, as ssl and cryptography read it.
    #[getter]
    fn client_certificate<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let der = self.details.client_certificates.first()?;
        Some(PyBytes::new(py, der))
    }

    /// The client's certificate in PEM, and those that it sent after it.
    #[getter]
    fn client_chain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.details.client_pems().collect::<Vec<_>>())
    }

    fn __repr__(&self) -> String {
        format!(
            "<Tls {} {}>",
            self.details.version_name(),
            self.details.cipher_name()
        )
    }
}
