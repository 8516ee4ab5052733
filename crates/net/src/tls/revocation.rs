//! Lists of certificates that authorities have revoked (RFC 5280 section 5).
//!
//! webpki reads and verifies them. This module only reads what the log says of one.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::server::WebPkiClientVerifier;

use super::certificate::{distinguished_name, unix_time};
use super::config::{TlsError, not_pem};
use super::der::{INTEGER, Reader, SEQUENCE};

/// One list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevocationList {
    /// Which of the given files it is in.
    pub file: usize,
    /// The authority whose certificates it is about, as in RFC 4514.
    pub issuer: String,
    /// The last second of its validity since 1970, if it has an end.
    pub valid_until: Option<i64>,
}

/// Reads the lists of a file in PEM; at least one.
///
/// # Errors
/// If there is none, or one of them cannot be used.
pub(super) fn read(
    (file, text): (usize, &[u8]),
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Vec<(RevocationList, CertificateRevocationListDer<'static>)>, TlsError> {
    let bad = |text: &str| TlsError::BadList(file, text.to_owned());
    let found: Result<Vec<_>, pem::Error> =
        CertificateRevocationListDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| bad(not_pem(&error)))?;
    if found.is_empty() {
        return Err(TlsError::NoList(file));
    }
    let described = found.into_iter().map(|der| {
        let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
        WebPkiClientVerifier::builder_with_provider(roots, provider)
            .with_crls([der.clone()])
            .build()
            .map_err(|error| bad(&error.to_string()))?;
        let list = describe(file, &der).ok_or_else(|| bad("it has a malformed list"))?;
        Ok((list, der))
    });
    described.collect()
}

fn describe(file: usize, der: &[u8]) -> Option<RevocationList> {
    let mut list = Reader::new(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
    list.pass_over(INTEGER); // the version
    list.next()?; // the signature's algorithm
    let issuer = distinguished_name(list.enter(SEQUENCE)?);
    list.next()?; // the time at which it was issued
    let next_update = list.next();
    Some(RevocationList {
        file,
        issuer,
        valid_until: next_update.and_then(unix_time),
    })
}
