//! Encrypts content from where it is into the records that are sent.
//!
//! rustls copies content into memory of its own, encrypts it there, and copies the record to its caller: two copies and an allocation for
//! each record (bench: tls-http2, stream). The suites of TLS 1.3 with AES-GCM therefore get an encrypter that writes the record of a
//! content straight to the [`Place`] that [`into_place`] lends, and returns an empty record to rustls, of which only the header appears.
//! Keys, sequence numbers and limits remain rustls' own. All other records, and other suites, are encrypted in the ordinary way.

#[cfg(target_arch = "x86_64")]
mod vaes;

use std::cell::Cell;
use std::sync::LazyLock;

use aws_lc_rs::aead::{self, Aad, TlsProtocolId, TlsRecordSealingKey};
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, Nonce, OutboundChunks, OutboundOpaqueMessage,
    OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm, UnsupportedOperationError,
    make_tls13_aad,
};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, aws_lc_rs as library};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls13CipherSuite,
};

/// The header of a record (RFC 8446 section 5.1).
pub(super) const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
type Header = [u8; HEADER_BYTES];
type NonceBytes = [u8; aead::NONCE_LEN];
/// What follows the content: its type, which is encrypted with it (RFC 8446 section 5.2), and the tag.
const TRAILER_BYTES: usize = 1 + TAG_BYTES;
/// A record is longer than its content by this.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;

/// How a connection encrypts content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encryption {
    /// Into memory of rustls.
    Ordinary,
    /// Into a [`Place`].
    IntoPlace,
}

impl Encryption {
    pub(super) fn of(suite: Option<SupportedCipherSuite>) -> Encryption {
        match suite.map(|suite| suite.suite()).and_then(algorithm_of) {
            Some(_) => Encryption::IntoPlace,
            None => Encryption::Ordinary,
        }
    }
}

/// Where the record of a content is written: `bytes` from `used` on.
#[derive(Default)]
pub(super) struct Place {
    pub(super) bytes: Vec<u8>,
    pub(super) used: usize,
}

thread_local! {
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// The cryptography of servers and clients.
pub(super) fn provider() -> CryptoProvider {
    static SEALING: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
        let suites = library::DEFAULT_CIPHER_SUITES.iter();
        suites.map(|suite| sealing(*suite)).collect()
    });
    CryptoProvider {
        cipher_suites: SEALING.clone(),
        ..library::default_provider()
    }
}

/// Lends `place` while `encrypt` runs, which has rustls encrypt one record of content. `place.used` shows whether the record was written
/// there.
pub(super) fn into_place<T>(place: &mut Place, encrypt: impl FnOnce() -> T) -> T {
    PLACE.set(Some(std::mem::take(place)));
    let result = encrypt();
    *place = PLACE.take().unwrap_or_default();
    result
}

fn algorithm_of(suite: CipherSuite) -> Option<&'static aead::Algorithm> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(&aead::AES_128_GCM),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(&aead::AES_256_GCM),
        _ => None,
    }
}

/// The same suite, with an encrypter that uses the place; others are returned unchanged.
fn sealing(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let (Some(algorithm), SupportedCipherSuite::Tls13(inner)) =
        (algorithm_of(suite.suite()), suite)
    else {
        return suite;
    };
    // The suites exist once in a process.
    let aead_alg = Box::leak(Box::new(Sealing {
        suite: suite.suite(),
        algorithm,
        inner: inner.aead_alg,
    }));
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: inner.common.suite,
            hash_provider: inner.common.hash_provider,
            confidentiality_limit: inner.common.confidentiality_limit,
        },
        hkdf_provider: inner.hkdf_provider,
        aead_alg,
        quic: None,
    })))
}

/// AES-GCM of a suite, with [`Sealer`] as its encrypter.
struct Sealing {
    suite: CipherSuite,
    algorithm: &'static aead::Algorithm,
    inner: &'static dyn Tls13AeadAlgorithm,
}

impl Tls13AeadAlgorithm for Sealing {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        #[cfg(target_arch = "x86_64")]
        if let Some(key) = vaes::key(self.suite, key.as_ref()) {
            return Box::new(Sealer { key, iv });
        }
        match TlsRecordSealingKey::new(self.algorithm, TlsProtocolId::TLS13, key.as_ref()) {
            Ok(key) => Box::new(Sealer { key, iv }),
            Err(_) => self.inner.encrypter(key, iv),
        }
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        #[cfg(target_arch = "x86_64")]
        if let Some(key) = vaes::key(self.suite, key.as_ref()) {
            return Box::new(vaes::Opener { key, iv });
        }
        self.inner.decrypter(key, iv)
    }

    fn key_len(&self) -> usize {
        self.inner.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.inner.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.inner.fips()
    }
}

/// A key that encrypts records.
trait SealingKey: Send + Sync {
    /// Encrypts `content`, and the octet `kind` after it, to `room`, which is longer than `content` by [`TRAILER_BYTES`]. The additional data
    /// are the header (RFC 8446 section 5.2).
    fn seal(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        content: &[u8],
        kind: u8,
        room: &mut [u8],
    ) -> Result<(), Error>;

    /// Encrypts `payload` where it is, and appends the tag.
    fn seal_in_place(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        payload: &mut PrefixedPayload,
    ) -> Result<(), Error>;
}

impl SealingKey for TlsRecordSealingKey {
    fn seal(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        content: &[u8],
        kind: u8,
        room: &mut [u8],
    ) -> Result<(), Error> {
        let (encrypted, trailer) = room
            .split_at_mut_checked(content.len())
            .ok_or(Error::EncryptError)?;
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let additional = Aad::from(header);
        self.seal_out_of_place_scatter(nonce, additional, content, encrypted, &[kind], trailer)
            .map_err(|_| Error::EncryptError)
    }

    fn seal_in_place(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        payload: &mut PrefixedPayload,
    ) -> Result<(), Error> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        self.seal_in_place_append_tag(nonce, Aad::from(header), payload)
            .map_err(|_| Error::EncryptError)
    }
}

/// Encrypts the records of one direction of a connection.
struct Sealer<K> {
    key: K,
    iv: Iv,
}

impl<K: SealingKey> MessageEncrypter for Sealer<K> {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence_number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let nonce = Nonce::new(&self.iv, sequence_number).0;
        if message.typ == ContentType::ApplicationData
            && let OutboundChunks::Single(content) = message.payload
            && let Some(mut place) = PLACE.take()
        {
            let sealed = self.seal(&mut place, content, nonce);
            PLACE.set(Some(place));
            return sealed.map(|()| record(PrefixedPayload::with_capacity(0)));
        }
        let length = message.payload.len() + TRAILER_BYTES;
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[u8::from(message.typ)]);
        self.key
            .seal_in_place(nonce, make_tls13_aad(length), &mut payload)?;
        Ok(record(payload))
    }

    fn encrypted_payload_len(&self, payload_bytes: usize) -> usize {
        payload_bytes + TRAILER_BYTES
    }
}

impl<K: SealingKey> Sealer<K> {
    /// Writes the whole record of `content` to `place`, which has room for it.
    fn seal(&mut self, place: &mut Place, content: &[u8], nonce: NonceBytes) -> Result<(), Error> {
        let end = place.used + content.len() + OVERHEAD_BYTES;
        let room = place.bytes.get_mut(place.used..end);
        let room = room.ok_or(Error::EncryptError)?;
        let (start, room) = room.split_at_mut(HEADER_BYTES);
        let header = make_tls13_aad(content.len() + TRAILER_BYTES);
        start.copy_from_slice(&header);
        let kind = u8::from(ContentType::ApplicationData);
        self.key.seal(nonce, header, content, kind, room)?;
        place.used = end;
        Ok(())
    }
}

/// A record as it appears: that of content (RFC 8446 section 5.2), in the version that every record names.
fn record(payload: PrefixedPayload) -> OutboundOpaqueMessage {
    OutboundOpaqueMessage::new(
        ContentType::ApplicationData,
        ProtocolVersion::TLSv1_2,
        payload,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypter(suite: SupportedCipherSuite) -> Box<dyn MessageEncrypter> {
        let SupportedCipherSuite::Tls13(suite) = suite else {
            panic!("{suite:?}");
        };
        suite
            .aead_alg
            .encrypter(AeadKey::from([7; 32]), Iv::from([3; 12]))
    }

    fn encrypt(
        encrypter: &mut dyn MessageEncrypter,
        kind: ContentType,
        content: &[u8],
        sequence_number: u64,
    ) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: kind,
            version: ProtocolVersion::TLSv1_2,
            payload: content.into(),
        };
        let encrypted = encrypter.encrypt(message, sequence_number);
        encrypted.expect("works").encode()
    }

    #[test]
    fn records_are_those_of_the_library_wherever_they_are_written() {
        let suite = library::cipher_suite::TLS13_AES_256_GCM_SHA384;
        let (mut theirs, mut ours) = (encrypter(suite), encrypter(sealing(suite)));
        let mut place = Place {
            bytes: vec![0; 40_000],
            used: 0,
        };
        let mut expected = Vec::new();
        for (sequence_number, length) in [1, 0, 15, 16_384, 33].into_iter().enumerate() {
            let (content, sequence_number) = (vec![b'x'; length], sequence_number as u64);
            let kind = ContentType::ApplicationData;
            let record = encrypt(&mut *theirs, kind, &content, sequence_number);
            assert_eq!(record.len(), length + OVERHEAD_BYTES);
            expected.extend(record);
            let aside = into_place(&mut place, || {
                encrypt(&mut *ours, kind, &content, sequence_number)
            });
            assert_eq!(aside, [23, 3, 3, 0, 0]);
        }
        assert_eq!(place.bytes[..place.used], expected);
        // A message of the handshake is not content, and without a place there is none.
        for (sequence_number, kind) in [(5, ContentType::Handshake), (6, ContentType::Alert)] {
            let record = encrypt(&mut *theirs, kind, b"message", sequence_number);
            let aside = into_place(&mut place, || {
                encrypt(&mut *ours, kind, b"message", sequence_number)
            });
            assert_eq!(aside, record);
        }
        let record = encrypt(&mut *theirs, ContentType::ApplicationData, b"last", 7);
        let ordinary = encrypt(&mut *ours, ContentType::ApplicationData, b"last", 7);
        assert_eq!(ordinary, record);
        assert_eq!(place.used, expected.len());
    }

    #[test]
    fn a_place_without_room_is_an_error_and_stays_as_it_is() {
        let suite = sealing(library::cipher_suite::TLS13_AES_256_GCM_SHA384);
        let mut encrypter = encrypter(suite);
        let mut place = Place {
            bytes: vec![0; 10],
            used: 0,
        };
        let message = OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_2,
            payload: b"content"[..].into(),
        };
        let encrypted = into_place(&mut place, || encrypter.encrypt(message, 0));
        assert!(encrypted.is_err());
        assert_eq!((place.bytes, place.used), (vec![0; 10], 0));
    }
}
