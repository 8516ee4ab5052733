//! Until when the session of a connection may be resumed.
//!
//! A ticket that is issued after a resumption contains the client's certificates again, which are not verified again. So it carries the time
//! until which the first ticket was valid. That is [`LIFETIME`] after the handshake in which the certificates were verified, or when the
//! first of them expires.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
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
pub(super) struct DatedVerifier(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DatedVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now)?;
        for certificate in std::iter::once(end_entity).chain(intermediates) {
            let validity = Certificate::read(certificate).and_then(|it| it.validity());
            // One whose dates cannot be read is not trusted for longer than this handshake.
            limit(validity.map_or(0, |(_, last)| u64::try_from(last).unwrap_or(0)));
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
