//! A certificate chain and its private key, read from PEM (RFC 7468).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::certificate::{self, Certificate, to_pem};
use super::config::{TlsError, certificates, not_pem};
use super::encrypted_key::{Locked, is_locked, unlocked};
use super::failure::of_file;
use super::key_kind::{rsa_bits, unusable};
use super::sealing::provider;

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
    /// Its IP addresses, for which clients do not ask (RFC 6066 section 3).
    pub addresses: Vec<IpAddr>,
    /// The first and the last second of its validity, since 1970.
    pub validity: (i64, i64),
    /// The SHA-256 fingerprint of the certificate.
    pub fingerprint: String,
    /// What is wrong with the order of the chain, which some clients do not accept.
    pub disorder: Option<String>,
    /// The issuer of a certificate that is alone in its file, unless that is the certificate itself.
    pub absent_issuer: Option<String>,
    /// The length of its key in bits, if that is an RSA key.
    pub rsa_bits: Option<usize>,
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
        if read.version() < 3 {
            return Err(TlsError::OldVersion(read.version()));
        }
        ParsedCertificate::try_from(&der)
            .map_err(|error| TlsError::BadCertificate(of_file(&error).into_owned()))?;
        let key = private_key(pair.key, password)?;
        if let Some(reason) = unusable(&key) {
            return Err(TlsError::UnusableKey(reason));
        }
        let rsa_bits = rsa_bits(&key);
        let disorder = disorder(&chain);
        let is_alone = chain.len() == 1 && read.issuer() != read.subject();
        let key = certified(chain, key)?;
        Ok(ServerPair {
            key: Arc::new(key),
            names: read.dns_names(),
            addresses: read.addresses(),
            validity: read.validity().ok_or_else(unreadable)?,
            fingerprint: certificate::fingerprint(&der),
            disorder,
            absent_issuer: is_alone.then(|| read.issuer()),
            rsa_bits,
        })
    }
}

/// Opens a key in PEM that has a password, and returns it in PEM without one; None if it has none.
///
/// Cost: up to seconds of processor time, as the encryption asks for.
///
/// # Errors
/// If the password is another one, or the way of its encryption is not supported.
pub fn opened_key(key: &[u8], password: &[u8]) -> Result<Option<String>, TlsError> {
    if !is_locked(key) {
        return Ok(None);
    }
    match unlocked(key, password) {
        Ok(key) => Ok(Some(to_pem("PRIVATE KEY", key.secret_pkcs8_der()))),
        Err(Locked::Wrong) => Err(TlsError::WrongPassword),
        Err(Locked::Unknown) => Err(TlsError::UnknownEncryption),
    }
}

/// Puts a chain and its key together.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    let provider = provider();
    let signing_key = provider.key_provider.load_private_key(key);
    let key = signing_key.map_err(|error| TlsError::BadKey(of_file(&error).into_owned()))?;
    let is_for_key = |certificate: &CertificateDer<'static>| {
        CertifiedKey::new(vec![certificate.clone()], Arc::clone(&key)).keys_match()
    };
    let Some(first) = chain.first() else {
        return Err(TlsError::NoCertificate);
    };
    match is_for_key(first) {
        // A key that does not say what its public half is cannot be compared.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            let place = chain.iter().position(|it| is_for_key(it).is_ok());
            return Err(place.map_or(TlsError::Mismatch, |index| TlsError::Order {
                place: index + 1,
                subject: subject(chain.get(index)),
            }));
        }
        Err(error) => return Err(TlsError::BadKey(of_file(&error).into_owned())),
    }
    Ok(CertifiedKey::new(chain, key))
}

/// The first certificate after the server's own that has not issued the one before it. TLS 1.2 does not allow that (RFC 5246 section 7.4.2),
/// and clients that do not search the chain refuse it.
fn disorder(chain: &[CertificateDer<'_>]) -> Option<String> {
    let read: Vec<_> = chain
        .iter()
        .map(|der| Certificate::read(der))
        .collect::<Option<_>>()?;
    let pairs = read.iter().zip(read.iter().skip(1)).enumerate();
    let mut wrong = pairs.filter(|(_, (issued, next))| issued.issuer() != next.subject());
    let (index, (issued, next)) = wrong.next()?;
    let (issuer, place) = (issued.issuer(), index + 2);
    let remedy = match read.iter().position(|it| it.subject() == issuer) {
        Some(other) if other > index => format!("move certificate {} there", other + 1),
        Some(_) => "remove it".to_owned(),
        None => format!("put that of {issuer} there"),
    };
    Some(format!(
        "is out of order: certificate {place} ({}) has not issued the one before it; {remedy}",
        next.subject()
    ))
}

fn subject(certificate: Option<&CertificateDer<'_>>) -> String {
    let read = certificate.and_then(|der| Certificate::read(der));
    read.map_or_else(String::new, |it| it.subject())
}

impl fmt::Debug for ServerPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        formatter.write_str(&self.fingerprint)
    }
}

fn private_key(text: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let opened = match password {
        Some(password) => opened_key(text, password)?,
        None if is_locked(text) => return Err(TlsError::Locked),
        None => None,
    };
    let text = opened.as_ref().map_or(text, String::as_bytes);
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey,
        error => TlsError::BadKey(not_pem(&error).to_owned()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// Whatever is wrong with a file, what is said of it contains nothing of the key that may be in it.
    #[test]
    fn no_error_quotes_the_file() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let both = certificate.clone() + &key;
        let secret: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
        let mut broken = vec![both.replace("-----END PRIVATE KEY-----", "")];
        let ends = both.match_indices('\n').map(|(at, _)| at);
        broken.extend(ends.map(|at| [&both[..at], &both[at + 1..]].concat()));
        broken.extend(
            secret
                .iter()
                .map(|line| both.replace(line, &format!("{line}?"))),
        );
        let texts = broken.iter().flat_map(|text| {
            let text = text.as_bytes();
            let pairs = [
                (text, text),
                (text, key.as_bytes()),
                (certificate.as_bytes(), text),
            ];
            pairs.map(|(certificates, key)| ServerPair::read(Pair { certificates, key }, None))
        });
        let texts: Vec<String> = texts
            .filter_map(|read| read.err().map(|it| it.to_string()))
            .collect();
        assert!(texts.len() > broken.len());
        for text in texts {
            assert!(text.len() < 80, "{text}");
            for line in &secret {
                let part = &line[..8];
                let as_numbers = format!("{:?}", part.as_bytes());
                assert!(!text.contains(part), "{text}");
                assert!(
                    !text.contains(as_numbers.trim_matches(['[', ']'])),
                    "{text}"
                );
            }
        }
    }
}
