//! AES-GCM for processors that have VAES but no AVX-512, by ring.
//!
//! aws-lc has code for AVX-512, and otherwise encrypts one block per instruction. With VAES and AVX2 that can be two, and ring has code for
//! that, which takes half the time (bench: tls-http2, stream). Both write the same bytes.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce as RingNonce, UnboundKey};
use rustls::crypto::cipher::{
    InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, Nonce, PrefixedPayload,
    make_tls13_aad,
};
use rustls::{CipherSuite, Error};

use super::{Header, NonceBytes, SealingKey, TAG_BYTES};

/// A key of a TLS 1.3 suite; None if aws-lc is faster on this processor, or the suite has another cipher.
pub(super) fn key(suite: CipherSuite, key: &[u8]) -> Option<LessSafeKey> {
    match is_fastest() {
        true => key_of_any(suite, key),
        false => None,
    }
}

fn is_fastest() -> bool {
    is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("avx2")
        && !is_x86_feature_detected!("avx512f")
}

/// As [`key`], on any processor.
fn key_of_any(suite: CipherSuite, key: &[u8]) -> Option<LessSafeKey> {
    let algorithm = match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128_GCM,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256_GCM,
        _ => return None,
    };
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

impl SealingKey for LessSafeKey {
    fn seal(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        content: &[u8],
        kind: u8,
        room: &mut [u8],
    ) -> Result<(), Error> {
        let length = content.len();
        let (text, tag) = room
            .split_at_mut_checked(length + 1)
            .ok_or(Error::EncryptError)?;
        let (copy, last) = text.split_at_mut(length);
        copy.copy_from_slice(content);
        last.fill(kind);
        let nonce = RingNonce::assume_unique_for_key(nonce);
        let sealed = self.seal_in_place_separate_tag(nonce, Aad::from(header), text);
        tag.copy_from_slice(sealed.map_err(|_| Error::EncryptError)?.as_ref());
        Ok(())
    }

    fn seal_in_place(
        &mut self,
        nonce: NonceBytes,
        header: Header,
        payload: &mut PrefixedPayload,
    ) -> Result<(), Error> {
        let nonce = RingNonce::assume_unique_for_key(nonce);
        self.seal_in_place_append_tag(nonce, Aad::from(header), payload)
            .map_err(|_| Error::EncryptError)
    }
}

/// Decrypts the records of one direction of a connection.
pub(super) struct Opener {
    pub(super) key: LessSafeKey,
    pub(super) iv: Iv,
}

impl MessageDecrypter for Opener {
    fn decrypt<'a>(
        &mut self,
        mut record: InboundOpaqueMessage<'a>,
        sequence_number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut record.payload;
        if payload.len() < TAG_BYTES {
            return Err(Error::DecryptError);
        }
        let nonce = RingNonce::assume_unique_for_key(Nonce::new(&self.iv, sequence_number).0);
        let additional = Aad::from(make_tls13_aad(payload.len()));
        let opened = self.key.open_in_place(nonce, additional, payload);
        let length = opened.map_err(|_| Error::DecryptError)?.len();
        payload.truncate(length);
        record.into_tls13_unpadded_message()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{Algorithm, TlsProtocolId, TlsRecordSealingKey};
    use rustls::crypto::cipher::{MessageEncrypter, OutboundPlainMessage};
    use rustls::{ContentType, ProtocolVersion};

    use super::super::{HEADER_BYTES, Place, Sealer, into_place};
    use super::*;

    const SUITES: [(CipherSuite, &Algorithm, usize); 2] = [
        (
            CipherSuite::TLS13_AES_128_GCM_SHA256,
            &aws_lc_rs::aead::AES_128_GCM,
            16,
        ),
        (
            CipherSuite::TLS13_AES_256_GCM_SHA384,
            &aws_lc_rs::aead::AES_256_GCM,
            32,
        ),
    ];
    const KEY: [u8; 32] = [7; 32];

    fn iv() -> Iv {
        Iv::from([3; 12])
    }

    fn of_aws(algorithm: &'static Algorithm, length: usize) -> Sealer<TlsRecordSealingKey> {
        let key = TlsRecordSealingKey::new(algorithm, TlsProtocolId::TLS13, &KEY[..length]);
        Sealer {
            key: key.expect("a key"),
            iv: iv(),
        }
    }

    fn of_ring(suite: CipherSuite, length: usize) -> LessSafeKey {
        key_of_any(suite, &KEY[..length]).expect("a key")
    }

    fn message(content: &[u8]) -> OutboundPlainMessage<'_> {
        OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_2,
            payload: content.into(),
        }
    }

    /// One record in memory of rustls, and one in a place.
    fn records(sealer: &mut dyn MessageEncrypter, content: &[u8], number: u64) -> [Vec<u8>; 2] {
        let ordinary = sealer.encrypt(message(content), number).expect("works");
        let mut place = Place {
            bytes: vec![0; 20_000],
            used: 0,
        };
        let aside = into_place(&mut place, || sealer.encrypt(message(content), number + 1));
        assert_eq!(aside.expect("works").encode(), [23, 3, 3, 0, 0]);
        place.bytes.truncate(place.used);
        [ordinary.encode(), place.bytes]
    }

    #[test]
    fn both_libraries_write_the_same_records() {
        for (suite, algorithm, length) in SUITES {
            let mut aws = of_aws(algorithm, length);
            let (key, iv) = (of_ring(suite, length), iv());
            let mut ring = Sealer { key, iv };
            for (index, bytes) in [0, 1, 15, 16, 17, 1400, 16_384].into_iter().enumerate() {
                let (content, number) = (vec![b'x'; bytes], 2 * index as u64);
                let expected = records(&mut aws, &content, number);
                assert_eq!(records(&mut ring, &content, number), expected, "{bytes}");
            }
        }
    }

    #[test]
    fn a_record_is_opened_as_it_was_sealed() {
        for (suite, algorithm, length) in SUITES {
            let mut aws = of_aws(algorithm, length);
            let (key, iv) = (of_ring(suite, length), iv());
            let mut opener = Opener { key, iv };
            let mut open = |record: &mut [u8], number| {
                let (kind, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
                let record = InboundOpaqueMessage::new(kind, version, record);
                let opened = opener.decrypt(record, number)?;
                Ok::<_, Error>((opened.typ, opened.payload.to_vec()))
            };
            for (index, bytes) in [0, 1, 16, 1400, 16_384].into_iter().enumerate() {
                let (content, number) = (vec![b'x'; bytes], 2 * index as u64);
                let [record, _] = records(&mut aws, &content, number);
                let sealed = &record[HEADER_BYTES..];
                for altered in [0, sealed.len() - 1] {
                    let mut sealed = sealed.to_vec();
                    sealed[altered] ^= 1;
                    assert_eq!(open(&mut sealed, number), Err(Error::DecryptError));
                }
                let mut other = sealed.to_vec();
                assert_eq!(open(&mut other, number + 1), Err(Error::DecryptError));
                let opened = open(&mut sealed.to_vec(), number).expect("opens");
                assert_eq!(opened, (ContentType::ApplicationData, content));
            }
            assert_eq!(open(&mut [0; TAG_BYTES - 1], 5), Err(Error::DecryptError));
        }
    }

    #[test]
    fn other_ciphers_and_keys_are_not_for_it() {
        let other = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        assert!(key_of_any(other, &KEY).is_none());
        assert!(key_of_any(CipherSuite::TLS13_AES_256_GCM_SHA384, &KEY[..16]).is_none());
    }
}
