//! Certificates, keys, versions and protocols that a server offers.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate chain and its private key, both in PEM (RFC 7468).
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// The server's certificate first, then those that lead to a root.
    pub certificates: &'a [u8],
    /// A key in PKCS #8, PKCS #1 or SEC 1, without a password.
    pub key: &'a [u8],
}

/// What a server offers in handshakes.
pub struct TlsConfig {
    config: Arc<ServerConfig>,
}

/// Why a pair cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// The file with the certificates has none.
    NoCertificate,
    /// The file with the key has none, or one with a password.
    NoKey,
    /// A file is not PEM.
    NotPem(String),
    /// The certificate does not belong to the key, or either cannot be used.
    Unusable(String),
}

impl TlsConfig {
    /// Offers TLS 1.3 and 1.2 with one pair, and `protocols` in the order of preference (RFC 7301).
    ///
    /// # Errors
    /// If the pair cannot be used.
    pub fn new(pair: Pair<'_>, protocols: &[&[u8]]) -> Result<TlsConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (chain, key) = (certificates(pair.certificates)?, private_key(pair.key)?);
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(TlsConfig {
            config: Arc::new(config),
        })
    }

    pub(super) fn rustls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(chain) if chain.is_empty() => Err(TlsError::NoCertificate),
        Ok(chain) => Ok(chain),
        Err(error) => Err(TlsError::NotPem(error.to_string())),
    }
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey,
        error => TlsError::NotPem(error.to_string()),
    })
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::NoCertificate => formatter.write_str("has no certificate in PEM"),
            TlsError::NoKey => formatter.write_str("has no private key in PEM without a password"),
            TlsError::NotPem(error) => write!(formatter, "is not PEM: {error}"),
            TlsError::Unusable(error) => formatter.write_str(error),
        }
    }
}
