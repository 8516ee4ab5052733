//! Why TLS with a server failed, in terms that say what to do about it.

mod wording;

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::client::reported;

pub(super) use wording::{Peer, Reported, of_file};

/// Why TLS failed, as a client sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsFailure {
    /// The certificate is not issued by a known authority.
    UnknownIssuer,
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not begun.
    NotYetValid,
    /// The certificate is for other names.
    OtherName,
    /// The certificate cannot be used for another reason.
    BadCertificate,
    /// The server requires a certificate of the client.
    CertificateRequired,
    /// The server refuses the client's certificate.
    CertificateRefused,
    /// There is no version, cipher suite or protocol that both sides accept.
    NothingInCommon,
    /// The server does not speak TLS.
    NotTls,
    /// The server ended the connection during the handshake.
    Ended,
    /// Anything else.
    Other,
}

impl TlsFailure {
    /// All of them.
    pub const ALL: [TlsFailure; 11] = [
        TlsFailure::UnknownIssuer,
        TlsFailure::Expired,
        TlsFailure::NotYetValid,
        TlsFailure::OtherName,
        TlsFailure::BadCertificate,
        TlsFailure::CertificateRequired,
        TlsFailure::CertificateRefused,
        TlsFailure::NothingInCommon,
        TlsFailure::NotTls,
        TlsFailure::Ended,
        TlsFailure::Other,
    ];

    /// What an error of a transport with TLS means; `None`: the connection failed, not TLS.
    pub fn of(error: &io::Error) -> Option<TlsFailure> {
        if let Some(error) = reported(error) {
            return Some(TlsFailure::of_rustls(error));
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Some(TlsFailure::Ended),
            io::ErrorKind::InvalidData => Some(TlsFailure::Other),
            _ => None,
        }
    }

    fn of_rustls(error: &Error) -> TlsFailure {
        match error {
            Error::InvalidCertificate(error) => TlsFailure::of_certificate(error),
            Error::AlertReceived(alert) => TlsFailure::of_alert(*alert),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFailure::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => {
                TlsFailure::NothingInCommon
            }
            _ => TlsFailure::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> TlsFailure {
        match error {
            // An authority of the same name with another key: it was made anew.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsFailure::UnknownIssuer
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsFailure::Expired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsFailure::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFailure::OtherName
            }
            _ => TlsFailure::BadCertificate,
        }
    }

    fn of_alert(alert: AlertDescription) -> TlsFailure {
        match alert {
            AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
                TlsFailure::CertificateRequired
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied => TlsFailure::CertificateRefused,
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity
            | AlertDescription::NoApplicationProtocol => TlsFailure::NothingInCommon,
            _ => TlsFailure::Other,
        }
    }

    /// Whether the client refused the server's certificate, as it would again.
    pub fn is_of_certificate(self) -> bool {
        matches!(
            self,
            TlsFailure::UnknownIssuer
                | TlsFailure::Expired
                | TlsFailure::NotYetValid
                | TlsFailure::OtherName
                | TlsFailure::BadCertificate
        )
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TlsFailure::UnknownIssuer => "unknown_issuer",
            TlsFailure::Expired => "expired",
            TlsFailure::NotYetValid => "not_yet_valid",
            TlsFailure::OtherName => "other_name",
            TlsFailure::BadCertificate => "bad_certificate",
            TlsFailure::CertificateRequired => "certificate_required",
            TlsFailure::CertificateRefused => "certificate_refused",
            TlsFailure::NothingInCommon => "nothing_in_common",
            TlsFailure::NotTls => "not_tls",
            TlsFailure::Ended => "ended",
            TlsFailure::Other => "other",
        }
    }
}
