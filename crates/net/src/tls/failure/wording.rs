//! What rustls reports, in words: what the peer did, or what is wrong with a certificate.
//!
//! rustls' own texts are names of its sources. They remain where nothing better is known.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use rustls::{
    AlertDescription, CertificateError, Error, InconsistentKeys, InvalidMessage, PeerIncompatible,
};

/// Whom an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tls) enum Peer {
    Client,
    Server,
}

/// An error of a session.
#[derive(Debug)]
pub(in crate::tls) struct Reported {
    pub(in crate::tls) error: Error,
    pub(in crate::tls) peer: Peer,
}

impl std::error::Error for Reported {}

impl fmt::Display for Reported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, peer) = (&self.error, self.peer);
        match error {
            Error::InvalidCertificate(error) => {
                let what = of_certificate(error);
                write!(formatter, "the certificate of {peer} {what}")
            }
            Error::AlertReceived(alert) => formatter.write_str(&of_alert(*alert, peer)),
            Error::PeerIncompatible(error) => formatter.write_str(&incompatible(error, peer)),
            Error::PeerMisbehaved(what) => {
                write!(formatter, "{peer} violates the protocol ({what:?})")
            }
            // As the type of a record, and as the first octets of a message.
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => write!(formatter, "what {peer} sent is not TLS"),
            Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => {
                write!(formatter, "a message of {peer}'s handshake is too long")
            }
            Error::InvalidMessage(what) => {
                write!(formatter, "{peer} sent a malformed message ({what:?})")
            }
            Error::NoCertificatesPresented => write!(formatter, "{peer} sent no certificate"),
            Error::NoApplicationProtocol => {
                write!(formatter, "{peer} offers no protocol in common (ALPN)")
            }
            Error::DecryptError => write!(formatter, "a record of {peer} cannot be decrypted"),
            Error::PeerSentOversizedRecord => {
                write!(formatter, "{peer} sent a record that is too long")
            }
            error => formatter.write_str(&of_file(error)),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Peer::Client => "the client",
            Peer::Server => "the server",
        })
    }
}

/// What is wrong with a certificate or a key of ours. The text is a sentence about it.
pub(in crate::tls) fn of_file(error: &Error) -> Cow<'static, str> {
    match error {
        Error::InvalidCertificate(error) => format!("its certificate {}", of_certificate(error)),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            return "the key is not that of the certificate".into();
        }
        error => error.to_string(),
    }
    .into()
}

/// What is wrong with a certificate. The text continues a sentence about it.
fn of_certificate(error: &CertificateError) -> Cow<'static, str> {
    use CertificateError as Wrong;
    let text = match error {
        Wrong::BadEncoding => "is malformed",
        Wrong::Expired => "has expired",
        Wrong::ExpiredContext { time, not_after } => {
            return format!("expired {} ago", between(not_after, time)).into();
        }
        Wrong::NotValidYet => "is not valid yet; is a clock wrong?",
        Wrong::NotValidYetContext { time, not_before } => {
            let later = between(time, not_before);
            return format!("is valid only in {later}; is a clock wrong?").into();
        }
        Wrong::Revoked => "is revoked",
        Wrong::UnhandledCriticalExtension => "has a critical extension that is not supported",
        Wrong::UnknownIssuer => "is not issued by a trusted authority",
        Wrong::BadSignature => "is not signed with the key of its issuer",
        Wrong::UnknownRevocationStatus => "has an issuer without a revocation list",
        Wrong::ExpiredRevocationList | Wrong::ExpiredRevocationListContext { .. } => {
            "has an issuer whose revocation list has expired"
        }
        Wrong::UnsupportedSignatureAlgorithmContext { .. }
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed in a way that is not supported (SHA-1, or a short key?)"
        }
        Wrong::NotValidForName => "is for other names",
        Wrong::NotValidForNameContext {
            expected,
            presented,
        } => return other_names(&expected.to_str(), presented).into(),
        Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
            "is for another purpose (extendedKeyUsage)"
        }
        Wrong::Other(error) => return of_webpki(&error.0.to_string()),
        error => return format!("cannot be used: {error}").into(),
    };
    text.into()
}

/// What webpki reports without a counterpart in rustls; its texts are names of its sources.
fn of_webpki(name: &str) -> Cow<'static, str> {
    match name {
        "UnsupportedCertVersion" => {
            "is of X.509 version 1, without extensions; issue it again with extensions"
        }
        "CaUsedAsEndEntity" => "is that of an authority (basicConstraints)",
        "EndEntityUsedAsCa" => "has an issuer that is not an authority (basicConstraints)",
        "NameConstraintViolation" => "has a name that its authority may not sign",
        "PathLenConstraintViolated" | "MaximumPathDepthExceeded" => "has too long a chain",
        "MalformedExtensions" | "ExtensionValueInvalid" | "EmptyEkuExtension" => {
            "has a malformed extension"
        }
        "InvalidSerialNumber" => "has a malformed serial number",
        name => return format!("cannot be used: {name}").into(),
    }
    .into()
}

/// `presented` are names as webpki writes them: `DnsName("a.test")`.
fn other_names(expected: &str, presented: &[String]) -> String {
    const SHOWN_MAX: usize = 3;
    let names = presented.iter().map(|name| {
        let value = name
            .split_once('(')
            .map_or(name.as_str(), |(_, value)| value);
        value.trim_end_matches(')').trim_matches('"')
    });
    let mut shown: Vec<&str> = names.take(SHOWN_MAX).collect();
    if presented.len() > SHOWN_MAX {
        shown.push("...");
    }
    match shown.is_empty() {
        true => format!("is not for {expected}: it has no name (subjectAltName)"),
        false => format!("is not for {expected}, but for {}", shown.join(", ")),
    }
}

/// A duration in the unit that suits it.
fn between(from: &rustls::pki_types::UnixTime, until: &rustls::pki_types::UnixTime) -> String {
    let seconds = until.as_secs().saturating_sub(from.as_secs());
    let (count, unit) = match Duration::from_secs(seconds).as_secs() {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Why the peer ended the connection (RFC 8446 section 6.2).
fn of_alert(alert: AlertDescription, peer: Peer) -> String {
    use AlertDescription as Alert;
    let (ours, remedy) = match peer {
        Peer::Client => (
            "the certificate",
            "; does its file have the intermediate certificate?",
        ),
        Peer::Server => ("the client's certificate", ""),
    };
    match alert {
        Alert::UnknownCA => format!("{peer} does not trust {ours}{remedy}"),
        Alert::CertificateUnknown => format!("{peer} does not accept {ours}{remedy}"),
        Alert::BadCertificate => format!("{peer} cannot use {ours} (bad_certificate)"),
        Alert::UnsupportedCertificate => format!("to {peer}, {ours} is for another purpose"),
        Alert::CertificateExpired => format!("to {peer}, {ours} has expired; is a clock wrong?"),
        Alert::CertificateRevoked => format!("to {peer}, {ours} is revoked"),
        Alert::CertificateRequired | Alert::NoCertificate => {
            format!("{peer} requires a certificate")
        }
        Alert::AccessDenied => format!("{peer} denies access"),
        Alert::ProtocolVersion => format!("{peer} accepts none of the versions of TLS"),
        Alert::HandshakeFailure => {
            format!("{peer} accepts none of the cipher suites, groups or signatures")
        }
        Alert::InsufficientSecurity => format!("{peer} requires stronger cipher suites"),
        Alert::NoApplicationProtocol => format!("{peer} accepts none of the protocols (ALPN)"),
        Alert::UnrecognisedName => format!("{peer} has no certificate for the name"),
        Alert::InternalError => format!("{peer} reports an internal error"),
        Alert::UserCanceled => format!("{peer} cancelled the handshake"),
        alert => format!("{peer} ended the connection with the alert {alert:?}"),
    }
}

/// What both sides do not have in common.
fn incompatible(error: &PeerIncompatible, peer: Peer) -> String {
    use PeerIncompatible as Lack;
    match error {
        // Every client of TLS 1.2 sends that extension.
        Lack::SignatureAlgorithmsExtensionRequired | Lack::Tls12NotOffered => {
            format!("{peer} offers only TLS 1.1 or older")
        }
        Lack::Tls12NotOfferedOrEnabled | Lack::SupportedVersionsExtensionRequired => {
            format!("{peer} offers no version of TLS that is enabled")
        }
        Lack::ServerDoesNotSupportTls12Or13 => format!("{peer} speaks only TLS 1.1 or older"),
        Lack::ServerTlsVersionIsDisabledByOurConfig => {
            format!("{peer} accepts none of the versions of TLS")
        }
        Lack::NoCipherSuitesInCommon => format!("{peer} offers no cipher suite in common"),
        Lack::NoKxGroupsInCommon
        | Lack::NamedGroupsExtensionRequired
        | Lack::KeyShareExtensionRequired => format!("{peer} offers no key exchange in common"),
        Lack::NoSignatureSchemesInCommon | Lack::NoCertificateRequestSignatureSchemesInCommon => {
            format!("{peer} cannot verify this kind of key")
        }
        Lack::NoEcPointFormatsInCommon
        | Lack::UncompressedEcPointsRequired
        | Lack::EcPointsExtensionRequired => {
            format!("{peer} does not accept uncompressed points of curves")
        }
        error => format!("{peer} is not compatible ({error:?})"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;
    use rustls::pki_types::UnixTime;

    use super::*;

    fn from(error: impl Into<Error>, peer: Peer) -> String {
        let error = error.into();
        Reported { error, peer }.to_string()
    }

    #[test]
    fn what_a_client_did_is_in_words() {
        use AlertDescription as Alert;
        for (error, text) in [
            (
                PeerIncompatible::SignatureAlgorithmsExtensionRequired.into(),
                "the client offers only TLS 1.1 or older",
            ),
            (
                PeerIncompatible::NoCipherSuitesInCommon.into(),
                "the client offers no cipher suite in common",
            ),
            (
                InvalidMessage::InvalidContentType.into(),
                "what the client sent is not TLS",
            ),
            (
                Error::AlertReceived(Alert::UnknownCA),
                "the client does not trust the certificate; does its file have the intermediate certificate?",
            ),
            (
                Error::AlertReceived(Alert::CertificateExpired),
                "to the client, the certificate has expired; is a clock wrong?",
            ),
            (
                Error::AlertReceived(Alert::ProtocolVersion),
                "the client accepts none of the versions of TLS",
            ),
            (
                Error::AlertReceived(Alert::BadRecordMac),
                "the client ended the connection with the alert BadRecordMac",
            ),
            (
                Error::NoCertificatesPresented,
                "the client sent no certificate",
            ),
            (
                CertificateError::Revoked.into(),
                "the certificate of the client is revoked",
            ),
        ] {
            assert_eq!(from(error, Peer::Client), text);
        }
        let alert = Error::AlertReceived(Alert::UnknownCA);
        let text = "the server does not trust the client's certificate";
        assert_eq!(from(alert, Peer::Server), text);
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_in_words() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (time, not_after) = (at(86_400 * 3), at(86_400));
        let expired = CertificateError::ExpiredContext { time, not_after };
        let text = "the certificate of the server expired 2 days ago";
        assert_eq!(from(expired, Peer::Server), text);
        let presented = ["DnsName(\"a.test\")", "IpAddress(::1)"].map(str::to_owned);
        let other = CertificateError::NotValidForNameContext {
            expected: "b.test".try_into().unwrap(),
            presented: presented.to_vec(),
        };
        let text = "the certificate of the server is not for b.test, but for a.test, ::1";
        assert_eq!(from(other, Peer::Server), text);
        let unknown = OtherError(Arc::new(std::io::Error::other("Else")));
        let text = "its certificate cannot be used: Else";
        assert_eq!(of_file(&CertificateError::Other(unknown).into()), text);
        let mismatch = Error::InconsistentKeys(InconsistentKeys::KeyMismatch);
        assert_eq!(of_file(&mismatch), "the key is not that of the certificate");
    }
}
