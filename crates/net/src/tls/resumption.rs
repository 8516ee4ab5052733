//! Until when the session of a connection may be resumed.
//!
//! A ticket that is issued after a resumption contains the client's certificates again, which are not verified again. So it carries the time
//! until which the first ticket was valid. That is [`LIFETIME`] after the handshake in which the certificates were verified, or when the
//! first of them, or of the revocation lists of their authorities, expires.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName, Error,
    SignatureScheme, client::danger::HandshakeSignatureValid,
};

use super::certificate::Certificate;

/// How long a session is resumed, from its full handshake on: as long as the keys of its first ticket are kept at most.
pub(super) const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

thread_local! {
    /// That of the connection whose records are being processed, in seconds since 1970.
    static UNTIL_S: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Processes records of a connection whose session may be resumed until `until_s`, and returns until when it may be afterwards.
///
/// rustls passes neither to what makes tickets, nor between the handshakes of a session.
pub(super) fn within<R>(until_s: u64, process: impl FnOnce() -> R) -> (R, u64) {
    UNTIL_S.set(until_s);
    let result = process();
    (result, UNTIL_S.replace(u64::MAX))
}

/// The session of the connection that is being processed is not resumed from then on.
pub(super) fn limit(until_s: u64) {
    UNTIL_S.set(UNTIL_S.get().min(until_s));
}

/// Until when a ticket for that connection is valid, if it is issued now.
pub(super) fn until_s() -> u64 {
    UNTIL_S.get().min(now_s() + LIFETIME.as_secs())
}

/// Seconds since 1970, by the clock that the dates of certificates are compared with.
pub(super) fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Verifies clients' certificates, and limits the resumption of their sessions by their dates.
#[derive(Debug)]
pub(super) struct DatedVerifier {
    pub(super) first: Verifier,
    /// The same with the revocation lists of other keys of the authorities.
    pub(super) others: Vec<Verifier>,
}

/// What verifies certificates with some revocation lists.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) lists: Vec<DatedList>,
}

/// Until when a revocation list is valid.
#[derive(Debug)]
pub(super) struct DatedList {
    /// Its authority, in DER.
    pub(super) issuer: Vec<u8>,
    pub(super) until_s: u64,
}

impl Verifier {
    /// Limits the resumption by the dates of a client's certificates, and of the lists of their issuers.
    fn limit<'a>(&self, chain: impl Iterator<Item = &'a CertificateDer<'a>>) {
        for certificate in chain {
            let certificate = Certificate::read(certificate);
            let validity = certificate.and_then(|it| it.validity());
            // One whose dates cannot be read is not trusted for longer than this handshake.
            limit(validity.map_or(0, |(_, last)| u64::try_from(last).unwrap_or(0)));
            let issuer = certificate.map(|it| it.issuer_der()).unwrap_or_default();
            let lists = self.lists.iter().filter(|list| list.issuer == issuer);
            lists.for_each(|list| limit(list.until_s));
        }
    }
}

/// Whether certificates were refused because a list, or one of them, is signed by another key of the authority than the one that was tried.
/// webpki reports that only if it has found nothing worse, such as that one is revoked.
fn is_about_key(error: &Error) -> bool {
    use CertRevocationListError as OfList;
    use CertificateError as OfCertificate;
    matches!(
        error,
        Error::InvalidCertRevocationList(
            OfList::BadSignature | OfList::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
        ) | Error::InvalidCertificate(
            OfCertificate::BadSignature
                | OfCertificate::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
        )
    )
}

impl ClientCertVerifier for DatedVerifier {
    fn offer_client_auth(&self) -> bool {
        self.first.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.first.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.first.verifier.root_hint_subjects()
    }

    /// One of the verifiers must accept the certificates, and each of the others must too, or find that its lists are by other keys. Otherwise
    /// a client that is revoked might be accepted because of another list, or because it sends certificates that hide why it is refused.
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut result = None;
        for with in std::iter::once(&self.first).chain(&self.others) {
            match with
                .verifier
                .verify_client_cert(end_entity, intermediates, now)
            {
                Ok(verified) => {
                    with.limit(std::iter::once(end_entity).chain(intermediates));
                    result = Some(Ok(verified));
                }
                Err(error) if is_about_key(&error) => {
                    result = result.or(Some(Err(error)));
                }
                Err(error) => return Err(error),
            }
        }
        // There is a first one.
        result.unwrap_or(Err(CertificateError::UnknownIssuer.into()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first
            .verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first
            .verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.first.verifier.supported_verify_schemes()
    }
}
