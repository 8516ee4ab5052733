//! Private keys with a password, as `openssl` writes them: PKCS #8 with PBES2 (RFC 8018), PBKDF2 and AES in CBC mode.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::der::{INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE};

/// More iterations than anyone uses would keep the server from starting. A key with more is not supported.
const ITERATIONS_MAX: u32 = 50_000_000;
const PBES2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d";
const PBKDF2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c";
/// The hash functions of PBKDF2; the default is the first one.
const HASHES: [(&[u8], pbkdf2::Algorithm); 4] = [
    (
        b"\x2a\x86\x48\x86\xf7\x0d\x02\x07",
        pbkdf2::PBKDF2_HMAC_SHA1,
    ),
    (
        b"\x2a\x86\x48\x86\xf7\x0d\x02\x09",
        pbkdf2::PBKDF2_HMAC_SHA256,
    ),
    (
        b"\x2a\x86\x48\x86\xf7\x0d\x02\x0a",
        pbkdf2::PBKDF2_HMAC_SHA384,
    ),
    (
        b"\x2a\x86\x48\x86\xf7\x0d\x02\x0b",
        pbkdf2::PBKDF2_HMAC_SHA512,
    ),
];
/// The ciphers, with the length of their keys.
const CIPHERS: [(&[u8], &Algorithm, usize); 3] = [
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x02", &AES_128, 16),
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x16", &AES_192, 24),
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x2a", &AES_256, 32),
];
const LABEL: &str = "ENCRYPTED PRIVATE KEY";
const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Why a key with a password cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Locked {
    /// It is encrypted in another way than this module knows.
    Unknown,
    /// The password is another one.
    Wrong,
}

/// Whether a file in PEM has a key with a password.
pub(super) fn is_locked(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.contains(LABEL) || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// Decrypts the key of a file in PEM.
pub(super) fn unlocked(
    text: &[u8],
    password: &[u8],
) -> Result<PrivatePkcs8KeyDer<'static>, Locked> {
    let text = String::from_utf8_lossy(text);
    let section = section(&text).ok_or(Locked::Unknown)?;
    // The parser does not know the label, so the key is given one that it knows.
    let section = section.replace(LABEL, "CERTIFICATE");
    let der = CertificateDer::from_pem_slice(section.as_bytes()).map_err(|_| Locked::Unknown)?;
    let method = Method::read(&der).ok_or(Locked::Unknown)?;
    let key = method.decrypt(password).ok_or(Locked::Wrong)?;
    // A wrong password passes the check of the padding once in 256 times.
    let is_key = Reader::new(&key).enter(SEQUENCE).is_some();
    is_key
        .then(|| PrivatePkcs8KeyDer::from(key))
        .ok_or(Locked::Wrong)
}

/// The section with the key of a file that may have certificates too.
fn section(text: &str) -> Option<&str> {
    let (start, _) = text.match_indices(BEGIN).next()?;
    let section = text.get(start..)?;
    let (end, _) = section.match_indices(END).next()?;
    section.get(..end + END.len())
}

/// How a key is encrypted, and its encrypted bytes.
struct Method<'a> {
    hash: pbkdf2::Algorithm,
    iterations: NonZeroU32,
    salt: &'a [u8],
    cipher: &'static Algorithm,
    key_bytes: usize,
    vector: [u8; 16],
    encrypted: &'a [u8],
}

impl<'a> Method<'a> {
    fn read(der: &'a [u8]) -> Option<Method<'a>> {
        let mut outer = Reader::new(der).enter(SEQUENCE)?;
        let mut scheme = outer.enter(SEQUENCE)?;
        if scheme.read(OBJECT_IDENTIFIER)? != PBES2 {
            return None;
        }
        let mut parts = scheme.enter(SEQUENCE)?;
        let mut derivation = parts.enter(SEQUENCE)?;
        if derivation.read(OBJECT_IDENTIFIER)? != PBKDF2 {
            return None;
        }
        let mut derivation = derivation.enter(SEQUENCE)?;
        let salt = derivation.read(OCTET_STRING)?;
        let add = |number: u32, byte: &u8| number.checked_mul(256)?.checked_add(u32::from(*byte));
        let iterations = derivation.read(INTEGER)?.iter().try_fold(0, add)?;
        derivation.pass_over(INTEGER); // the length of the key, which the cipher determines
        let hash = match derivation.enter(SEQUENCE) {
            None => HASHES.first(),
            Some(mut hash) => {
                let identifier = hash.read(OBJECT_IDENTIFIER)?;
                HASHES.iter().find(|(known, _)| *known == identifier)
            }
        };
        let mut cipher = parts.enter(SEQUENCE)?;
        let identifier = cipher.read(OBJECT_IDENTIFIER)?;
        let vector = cipher.read(OCTET_STRING)?.try_into().ok()?;
        let mut known = CIPHERS.iter().filter(|(known, ..)| *known == identifier);
        let (_, cipher, key_bytes) = known.next()?;
        Some(Method {
            hash: hash?.1,
            iterations: NonZeroU32::new(iterations).filter(|it| it.get() <= ITERATIONS_MAX)?,
            salt,
            cipher,
            key_bytes: *key_bytes,
            vector,
            encrypted: outer.read(OCTET_STRING)?,
        })
    }

    fn decrypt(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut key = vec![0; self.key_bytes];
        pbkdf2::derive(self.hash, self.iterations, self.salt, password, &mut key);
        let key = UnboundCipherKey::new(self.cipher, &key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let context = DecryptionContext::Iv128(FixedLength::from(self.vector));
        let mut bytes = self.encrypted.to_vec();
        let length = key.decrypt(&mut bytes, context).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::super::certificate::to_pem;
    use super::*;

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [&[tag, content.len() as u8][..], &content].concat()
    }

    /// A key of which only the form is right.
    fn key(iterations: u32) -> String {
        let identifier = |bytes: &[u8]| element(OBJECT_IDENTIFIER, &[bytes]);
        let count = element(INTEGER, &[&iterations.to_be_bytes()]);
        let derivation = element(SEQUENCE, &[&element(OCTET_STRING, &[b"salt"]), &count]);
        let derivation = element(SEQUENCE, &[&identifier(PBKDF2), &derivation]);
        let vector = element(OCTET_STRING, &[&[0; 16]]);
        let cipher = element(SEQUENCE, &[&identifier(CIPHERS[0].0), &vector]);
        let parts = element(SEQUENCE, &[&derivation, &cipher]);
        let scheme = element(SEQUENCE, &[&identifier(PBES2), &parts]);
        let encrypted = element(OCTET_STRING, &[&[0; 32]]);
        to_pem(LABEL, &element(SEQUENCE, &[&scheme, &encrypted]))
    }

    #[test]
    fn more_iterations_than_are_supported_are_no_wrong_password() {
        let failure = |iterations| unlocked(key(iterations).as_bytes(), b"a").unwrap_err();
        assert_eq!(failure(1), Locked::Wrong);
        assert_eq!(failure(ITERATIONS_MAX + 1), Locked::Unknown);
        assert_eq!(failure(0), Locked::Unknown);
    }
}
