//! A certificate chain and its private key, read from PEM (RFC 7468).

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::certificate::{self, Certificate};
use super::config::{TlsError, certificates, provider};
use super::encrypted_key::{Locked, is_locked, unlocked};

/// A certificate chain and its private key, both in PEM.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// The server's certificate first, then those that lead to a root.
    pub certificates: &'a [u8],
    /// A key in PKCS #8, PKCS #1 or SEC 1.
    pub key: &'a [u8],
}

/// A pair that a server can use.
pub struct ServerPair {
    pub(super) key: Arc<CertifiedKey>,
    /// The DNS names of the certificate.
    pub names: Vec<String>,
    /// The first and the last second of its validity, since 1970.
    pub validity: (i64, i64),
    /// The SHA-256 fingerprint of the certificate.
    pub fingerprint: String,
}

impl ServerPair {
    /// Reads a pair whose key may have a password.
    ///
    /// # Errors
    /// If it cannot be used; the error contains nothing of the key.
    pub fn read(pair: Pair<'_>, password: Option<&[u8]>) -> Result<ServerPair, TlsError> {
        let chain = certificates(pair.certificates)?;
        let der = chain.first().cloned().ok_or(TlsError::NoCertificate)?;
        let unreadable = || TlsError::BadCertificate("it has a malformed certificate".to_owned());
        let read = Certificate::read(&der).ok_or_else(unreadable)?;
        ParsedCertificate::try_from(&der)
            .map_err(|error| TlsError::BadCertificate(error.to_string()))?;
        let key = private_key(pair.key, password)?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch,
            error => TlsError::BadKey(error.to_string()),
        })?;
        Ok(ServerPair {
            key: Arc::new(key),
            names: read.dns_names(),
            validity: read.validity().ok_or_else(unreadable)?,
            fingerprint: certificate::fingerprint(&der),
        })
    }
}

impl fmt::Debug for ServerPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        formatter.write_str(&self.fingerprint)
    }
}

fn private_key(text: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, TlsError> {
    if is_locked(text) {
        let password = password.ok_or(TlsError::Locked)?;
        return match unlocked(text, password) {
            Ok(key) => Ok(key.into()),
            Err(Locked::Wrong) => Err(TlsError::WrongPassword),
            Err(Locked::Unknown) => Err(TlsError::UnknownEncryption),
        };
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey,
        // The parser's text may quote the line.
        _ => TlsError::BadKey("it is not PEM".to_owned()),
    })
}
