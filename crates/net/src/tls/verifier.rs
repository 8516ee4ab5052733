//! Whom a client trusts.
//!
//! A certificate that is itself given as an authority is accepted for the names in it, by any issuer and for any use,
//! as OpenSSL does: a self-signed certificate usually says that it is an authority, which webpki does not accept of a server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::Certificate;

/// Verifies certificates of one server.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None`: nothing is verified.
    trusted: Option<Trusted>,
    algorithms: WebPkiSupportedAlgorithms,
    /// The chain that was accepted first, from the server's certificate on. The same bytes have the same meaning.
    accepted: OnceLock<Vec<CertificateDer<'static>>>,
}

#[derive(Debug)]
struct Trusted {
    authorities: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// Trusts `authorities` and what they have issued. Those that webpki cannot read are left out, as long as there are others.
    ///
    /// # Errors
    /// If none can be used.
    pub(super) fn new(
        authorities: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Verifier, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let chains = builder
            .build()
            .map_err(|error| format!("cannot be used: {error}"))?;
        Ok(Verifier {
            trusted: Some(Trusted {
                authorities,
                chains,
            }),
            ..Verifier::of_nothing(provider)
        })
    }

    /// Accepts every certificate.
    pub(super) fn of_nothing(provider: &CryptoProvider) -> Verifier {
        Verifier {
            trusted: None,
            algorithms: provider.signature_verification_algorithms,
            accepted: OnceLock::new(),
        }
    }

    fn is_accepted(&self, certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> bool {
        self.accepted.get().is_some_and(|chain| {
            chain
                .split_first()
                .is_some_and(|(first, rest)| first == certificate && rest == others)
        })
    }
}

/// Whether a certificate names itself as its issuer.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    Certificate::read(certificate).is_some_and(|it| it.issuer() == it.subject())
}

/// Whether `time` is within the dates of a certificate.
fn verify_dates(certificate: &CertificateDer<'_>, time: UnixTime) -> Result<(), CertificateError> {
    let validity = Certificate::read(certificate).and_then(|it| it.validity());
    let (first, last) = validity.ok_or(CertificateError::BadEncoding)?;
    let since_1970 = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    };
    let (not_before, not_after) = (since_1970(first), since_1970(last));
    match time {
        _ if time < not_before => Err(CertificateError::NotValidYetContext { time, not_before }),
        _ if time > not_after => Err(CertificateError::ExpiredContext { time, not_after }),
        _ => Ok(()),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        if self.is_accepted(certificate, others) {
            return Ok(ServerCertVerified::assertion());
        }
        if trusted.authorities.contains(certificate) {
            verify_dates(certificate, now)?;
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        } else {
            let chains = &trusted.chains;
            let found = chains.verify_server_cert(certificate, others, name, ocsp_response, now);
            found.map_err(|error| match error {
                // webpki only says that it is an authority.
                Error::InvalidCertificate(CertificateError::Other(_))
                    if is_self_signed(certificate) =>
                {
                    CertificateError::UnknownIssuer.into()
                }
                error => error,
            })?;
        }
        self.accepted.get_or_init(|| {
            let others = others.iter().map(|it| it.clone().into_owned());
            std::iter::once(certificate.clone().into_owned())
                .chain(others)
                .collect()
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            Some(_) => verify_tls12_signature(message, certificate, signature, &self.algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            Some(_) => verify_tls13_signature(message, certificate, signature, &self.algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
