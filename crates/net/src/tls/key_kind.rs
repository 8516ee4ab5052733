//! Which keys no client accepts, or rustls does not know, for messages that say what to do.

use rustls::pki_types::PrivateKeyDer;

use super::der::{INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, dotted};

/// The parameters of a key in SEC 1 (RFC 5915).
const PARAMETERS: u8 = 0xa0;
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
/// Kinds of keys that cannot be used.
const KINDS: [(&[u8], &str); 6] = [
    (b"\x2a\x86\x48\xce\x38\x04\x01", "DSA"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", "RSA-PSS"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x03\x01", "Diffie-Hellman"),
    (b"\x2b\x65\x6e", "X25519"),
    (b"\x2b\x65\x6f", "X448"),
    (b"\x2b\x65\x71", "Ed448"),
];
/// P-256, P-384 and P-521.
const CURVES: [&[u8]; 3] = [
    b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
    b"\x2b\x81\x04\x00\x22",
    b"\x2b\x81\x04\x00\x23",
];
/// Names of curves that cannot be used.
const OTHER_CURVES: [(&[u8], &str); 6] = [
    (b"\x2b\x81\x04\x00\x0a", "secp256k1"),
    (b"\x2b\x81\x04\x00\x21", "P-224"),
    (b"\x2a\x86\x48\xce\x3d\x03\x01\x01", "P-192"),
    (b"\x2b\x24\x03\x03\x02\x08\x01\x01\x07", "brainpoolP256r1"),
    (b"\x2b\x24\x03\x03\x02\x08\x01\x01\x0b", "brainpoolP384r1"),
    (b"\x2b\x24\x03\x03\x02\x08\x01\x01\x0d", "brainpoolP512r1"),
];
/// The lengths of RSA keys, in bits, that the cryptography accepts.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// Why a key cannot be used, by its kind; None if it may be usable. The text contains nothing of it.
pub(super) fn unusable(key: &PrivateKeyDer<'_>) -> Option<String> {
    match key {
        PrivateKeyDer::Pkcs1(key) => unusable_rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => unusable_ec(key.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(key) => {
            let mut key = Reader::new(key.secret_pkcs8_der()).enter(SEQUENCE)?;
            key.read(INTEGER)?;
            let mut algorithm = key.enter(SEQUENCE)?;
            match algorithm.read(OBJECT_IDENTIFIER)? {
                RSA => unusable_rsa(key.read(OCTET_STRING)?),
                EC => unusable_curve(algorithm.read(OBJECT_IDENTIFIER)),
                kind => {
                    let (_, name) = KINDS.iter().find(|(known, _)| *known == kind)?;
                    Some(format!("has a key for {name}, which is not usable"))
                }
            }
        }
        _ => None,
    }
}

/// The length of an RSA key in bits; None for other keys.
pub(super) fn rsa_bits(key: &PrivateKeyDer<'_>) -> Option<usize> {
    match key {
        PrivateKeyDer::Pkcs1(key) => modulus_bits(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => {
            let mut key = Reader::new(key.secret_pkcs8_der()).enter(SEQUENCE)?;
            key.read(INTEGER)?;
            let kind = key.enter(SEQUENCE)?.read(OBJECT_IDENTIFIER)?;
            modulus_bits(key.read(OCTET_STRING).filter(|_| kind == RSA)?)
        }
        _ => None,
    }
}

fn modulus_bits(key: &[u8]) -> Option<usize> {
    let mut key = Reader::new(key).enter(SEQUENCE)?;
    key.read(INTEGER)?;
    let modulus = key.read(INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let modulus = modulus.get(zeros..)?;
    Some(8 * modulus.len() - modulus.first()?.leading_zeros() as usize)
}

fn unusable_rsa(key: &[u8]) -> Option<String> {
    let bits = modulus_bits(key)?;
    match (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        true => None,
        false => Some(format!(
            "has an RSA key of {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are usable"
        )),
    }
}

fn unusable_ec(key: &[u8]) -> Option<String> {
    let key = Reader::new(key).enter(SEQUENCE)?;
    let parameters = key.into_iter().find(|it| it.tag == PARAMETERS)?;
    unusable_curve(Reader::new(parameters.content).read(OBJECT_IDENTIFIER))
}

/// Parameters without an identifier are those of a curve without a name.
fn unusable_curve(curve: Option<&[u8]>) -> Option<String> {
    const USABLE: &str = "P-256, P-384 and P-521 are usable";
    let Some(curve) = curve else {
        return Some(format!(
            "has an ECDSA key on a curve that is not named; {USABLE}"
        ));
    };
    if CURVES.contains(&curve) {
        return None;
    }
    let known = OTHER_CURVES.iter().find(|(known, _)| *known == curve);
    let name = known.map_or_else(|| dotted(curve), |(_, name)| (*name).to_owned());
    Some(format!("has an ECDSA key on the curve {name}; {USABLE}"))
}
