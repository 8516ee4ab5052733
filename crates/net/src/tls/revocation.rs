//! Lists of certificates that authorities have revoked (RFC 5280 section 5).
//!
//! webpki verifies them. This module reads what decides which lists are used ([`choice`]), and what the log says of one.

mod choice;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests;

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::{self, PemObject as _};

use super::certificate::{TIMES, distinguished_name, extension, unix_time};
use super::config::{TlsError, not_pem};
use super::der::{INTEGER, Reader, SEQUENCE};

pub(super) use self::choice::choose;

const EXTENSIONS: u8 = 0xa0;
const AUTHORITY_KEY_IDENTIFIER: &[u8] = b"\x55\x1d\x23";
const CRL_NUMBER: &[u8] = b"\x55\x1d\x14";
const ISSUING_DISTRIBUTION_POINT: &[u8] = b"\x55\x1d\x1c";
/// The identifier itself in the first of those extensions.
const KEY_IDENTIFIER: u8 = 0x80;

/// One list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevocationList {
    /// Which of the given files it is in.
    pub file: usize,
    /// The authority whose certificates it is about, as in RFC 4514.
    pub issuer: String,
    /// When it was issued, in seconds since 1970.
    pub issued: i64,
    /// The last second of its validity since 1970, if it has an end.
    pub valid_until: Option<i64>,
    /// Its length.
    pub bytes: usize,
    /// There is a newer one, so it is not used.
    pub is_superseded: bool,
}

/// A list with what decides whether another one supersedes it.
pub(super) struct Found {
    pub(super) list: RevocationList,
    pub(super) der: CertificateRevocationListDer<'static>,
    /// Its authority, in DER.
    pub(super) issuer: Vec<u8>,
    /// Which key of the authority has signed it, if it says so.
    key: Option<Vec<u8>>,
    /// About which of the authority's certificates it is, if not about all, in DER.
    scope: Option<Vec<u8>>,
    /// Its number without leading zeros, if it has one.
    number: Vec<u8>,
}

/// Reads the lists of a file in PEM; at least one.
///
/// # Errors
/// If there is none, or one of them is malformed. [`choose`] does not find everything that webpki refuses.
pub(super) fn read(file: usize, text: &[u8]) -> Result<Vec<Found>, TlsError> {
    let bad = |text: &str| TlsError::BadList(file, text.to_owned());
    let found: Result<Vec<_>, pem::Error> =
        CertificateRevocationListDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| bad(not_pem(&error)))?;
    if found.is_empty() {
        return Err(TlsError::NoList(file));
    }
    let described = found
        .into_iter()
        .map(|der| describe(file, der).ok_or_else(|| bad("it has a malformed list")));
    described.collect()
}

fn describe(file: usize, der: CertificateRevocationListDer<'static>) -> Option<Found> {
    let mut list = Reader::new(&der).enter(SEQUENCE)?.enter(SEQUENCE)?;
    list.pass_over(INTEGER); // the version
    list.next()?; // the signature's algorithm
    let issuer = list.enter(SEQUENCE)?;
    let issued = unix_time(list.next()?)?;
    let mut ahead = list;
    let next_update = ahead.next().filter(|it| TIMES.contains(&it.tag));
    let extensions = list.find(|element| element.tag == EXTENSIONS);
    let extensions = extensions.and_then(|it| Reader::new(it.content).enter(SEQUENCE));
    let value = |identifier| extensions.and_then(|it| extension(it, identifier));
    let key = value(AUTHORITY_KEY_IDENTIFIER).and_then(|mut it| it.enter(SEQUENCE));
    let key = key.and_then(|mut it| it.read(KEY_IDENTIFIER));
    let number = value(CRL_NUMBER).and_then(|mut it| it.read(INTEGER));
    let number = number.unwrap_or_default().iter();
    Some(Found {
        list: RevocationList {
            file,
            issuer: distinguished_name(issuer),
            issued,
            valid_until: next_update.and_then(unix_time),
            bytes: der.len(),
            is_superseded: false,
        },
        issuer: issuer.rest().to_vec(),
        key: key.map(<[u8]>::to_vec),
        scope: value(ISSUING_DISTRIBUTION_POINT).map(|it| it.rest().to_vec()),
        number: number.copied().skip_while(|byte| *byte == 0).collect(),
        der,
    })
}
