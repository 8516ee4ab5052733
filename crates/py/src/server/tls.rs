//! What the server offers in TLS handshakes, as Python configures it.

use std::os::fd::IntoRawFd as _;
use std::sync::Arc;

use net::{Clients, Offer, Pair, RevocationList, ServerPair, TlsError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The certificates, keys and rules of a server. It is created before workers are forked, so that they share it.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct TlsConfig {
    pub(super) config: Arc<net::TlsConfig>,
}

/// What the keys of tickets derive from, in memory that only forks of this process have.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct TicketSecret {
    secret: Arc<net::TicketSecret>,
}

#[pymethods]
impl TicketSecret {
    #[new]
    fn new() -> PyResult<TicketSecret> {
        let secret = net::TicketSecret::new();
        let secret = secret.map_err(|_| PyOSError::new_err("the system has no random numbers"))?;
        Ok(TicketSecret {
            secret: Arc::new(secret),
        })
    }

    /// Forgets what belongs to earlier periods.
    fn advance(&self) {
        self.secret.advance();
    }
}

/// A pair of a certificate chain and a key in PEM, and the key's password if it has one.
type GivenPair = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);

/// A certificate of a [`TlsConfig`], as the core's types describe it.
#[pyclass(module = "bolide._core", frozen, get_all)]
pub(crate) struct CertificateFacts {
    names: Vec<String>,
    addresses: Vec<String>,
    first_s: i64,
    last_s: i64,
    fingerprint: String,
    disorder: Option<String>,
    absent_issuer: Option<String>,
    rsa_bits: Option<usize>,
}

impl CertificateFacts {
    fn of(pair: &ServerPair) -> CertificateFacts {
        let (first_s, last_s) = pair.validity;
        CertificateFacts {
            names: pair.names.clone(),
            addresses: pair.addresses.iter().map(ToString::to_string).collect(),
            first_s,
            last_s,
            fingerprint: pair.fingerprint.clone(),
            disorder: pair.disorder.clone(),
            absent_issuer: pair.absent_issuer.clone(),
            rsa_bits: pair.rsa_bits,
        }
    }
}

/// A revocation list of a [`TlsConfig`].
#[pyclass(module = "bolide._core", frozen, get_all)]
pub(crate) struct RevocationFacts {
    file: usize,
    issuer: String,
    first_s: i64,
    last_s: Option<i64>,
    size_bytes: usize,
    is_superseded: bool,
}

impl RevocationFacts {
    fn of(list: &RevocationList) -> RevocationFacts {
        RevocationFacts {
            file: list.file,
            issuer: list.issuer.clone(),
            first_s: list.issued,
            last_s: list.valid_until,
            size_bytes: list.bytes,
            is_superseded: list.is_superseded,
        }
    }
}

#[pymethods]
impl TlsConfig {
    #[new]
    #[pyo3(signature = (pairs, *, protocols, minimum="1.2", client_ca=None, client_crl=Vec::new(), client_certificate="none", tickets=None))]
    fn new(
        pairs: Vec<GivenPair>,
        protocols: Vec<String>,
        minimum: &str,
        client_ca: Option<Vec<u8>>,
        client_crl: Vec<Vec<u8>>,
        client_certificate: &str,
        tickets: Option<&TicketSecret>,
    ) -> PyResult<TlsConfig> {
        let pairs = pairs.iter().enumerate();
        let pairs = pairs.map(|(index, pair)| read(pair).map_err(|error| named(&error, index)));
        let authorities = client_ca.as_deref();
        let clients = match (client_certificate, authorities) {
            ("none", _) => None,
            (word, Some(authorities)) => Some(Clients {
                authorities,
                lists: &client_crl,
                is_optional: word == "optional",
            }),
            (_, None) => return Err(PyValueError::new_err("client_ca is missing")),
        };
        let offer = Offer {
            pairs: pairs.collect::<PyResult<_>>()?,
            protocols: protocols.into_iter().map(String::into_bytes).collect(),
            is_tls13_only: minimum == "1.3",
            clients,
            tickets: tickets.map(|tickets| Arc::clone(&tickets.secret)),
        };
        let config = net::TlsConfig::offer(offer).map_err(|error| match error {
            TlsError::NoList(index) | TlsError::BadList(index, _) => named(&error, index),
            _ => PyValueError::new_err(("client_ca", 0, kind(&error), error.to_string())),
        })?;
        Ok(TlsConfig {
            config: Arc::new(config),
        })
    }

    /// Of each pair its certificate.
    #[getter]
    fn certificates(&self) -> Vec<CertificateFacts> {
        self.config
            .pairs()
            .iter()
            .map(CertificateFacts::of)
            .collect()
    }

    /// The revocation lists, the newest first.
    #[getter]
    fn revocation_lists(&self) -> Vec<RevocationFacts> {
        self.config
            .lists()
            .iter()
            .map(RevocationFacts::of)
            .collect()
    }
}

fn read((certificates, key, password): &GivenPair) -> Result<ServerPair, TlsError> {
    let pair = Pair { certificates, key };
    ServerPair::read(pair, password.as_deref())
}

/// An error whose arguments are the option at fault, the index of its pair, the kind of error, and a text.
fn named(error: &TlsError, index: usize) -> PyErr {
    let option = match error {
        TlsError::NoCertificate
        | TlsError::BadCertificate(_)
        | TlsError::OldVersion(_)
        | TlsError::Order { .. } => "certificate",
        TlsError::NoList(_) | TlsError::BadList(..) => "client_crl",
        TlsError::WrongPassword => "key_password_file",
        _ => "key",
    };
    PyValueError::new_err((option, index, kind(error), error.to_string()))
}

fn kind(error: &TlsError) -> &'static str {
    match error {
        TlsError::NoCertificate | TlsError::NoKey | TlsError::NoList(_) => "missing",
        TlsError::Order { .. } => "order",
        TlsError::OldVersion(_) => "version",
        TlsError::UnusableKey(_) => "unusable",
        TlsError::Locked => "locked",
        TlsError::WrongPassword => "password",
        TlsError::UnknownEncryption => "encryption",
        TlsError::Mismatch => "mismatch",
        TlsError::BadCertificate(_)
        | TlsError::BadKey(_)
        | TlsError::BadList(..)
        | TlsError::Unusable(_) => "bad",
    }
}

/// Opens a key in PEM with its password, without the interpreter; a key that has none is returned as it is. The index in an error is 0.
#[pyfunction]
pub(crate) fn opened_key<'py>(
    py: Python<'py>,
    key: Vec<u8>,
    password: Vec<u8>,
) -> PyResult<Bound<'py, PyBytes>> {
    let opened = py.detach(|| net::opened_key(&key, &password));
    let opened = opened.map_err(|error| named(&error, 0))?;
    Ok(PyBytes::new(
        py,
        opened.as_ref().map_or(key.as_slice(), String::as_bytes),
    ))
}

/// Makes a certificate for names and addresses that only its own key has signed, and its key; both in PEM.
#[pyfunction]
pub(crate) fn self_signed<'py>(
    py: Python<'py>,
    names: Vec<String>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (certificate, key) = net::self_signed(&names).map_err(PyOSError::new_err)?;
    Ok((
        PyBytes::new(py, certificate.as_bytes()),
        PyBytes::new(py, key.as_bytes()),
    ))
}

/// Writes bytes to a file that has no name and is only in memory; returns its descriptor, which the caller closes.
#[pyfunction]
pub(crate) fn memory_file(content: &[u8]) -> PyResult<i32> {
    Ok(net::memory_file(content)?.into_raw_fd())
}
