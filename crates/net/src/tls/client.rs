//! What a client expects of a server, and offers it.

use std::io;
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, Error, InconsistentKeys, SupportedProtocolVersion};

use super::failure::{Reported, of_file};
use super::sealing::provider;
use super::verifier::Verifier;

/// Sessions of one server that may be resumed later; rustls keeps no more tickets for it.
const RESUMABLE_MAX: usize = 8;

/// What a client expects of a server, and offers it. Files are in PEM (RFC 7468).
#[derive(Clone, Copy, Default)]
pub struct Expected<'a> {
    /// The name or the IP address for which the server's certificate has to be, and which the handshake asks for if it is a name.
    pub server_name: &'a str,
    /// The certificates to which the server's must lead, or which it may be; `None`: nothing is verified.
    pub authorities: Option<&'a [u8]>,
    /// The client's certificate with those that lead to a root, and its key.
    pub pair: Option<super::Pair<'a>>,
    /// Sessions are not resumed.
    pub is_always_full: bool,
    /// TLS 1.2 is not offered.
    pub is_tls13_only: bool,
    /// TLS 1.3 is not offered.
    pub is_tls12_only: bool,
    /// Protocols in the order of preference (RFC 7301).
    pub protocols: &'a [&'a [u8]],
}

/// What a client does in handshakes. Connections made from one of them resume each other's sessions.
pub struct TlsClientConfig {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

/// Why a client cannot be configured. Texts continue a sentence about the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsClientError {
    /// The file of authorities cannot be used.
    Authorities(String),
    /// The file of the client's certificate cannot be used.
    Certificate(String),
    /// The file of its key cannot be used.
    Key(String),
    /// The certificate is not for the key.
    Mismatch,
    /// Something else cannot be used; a sentence by itself.
    Other(String),
}

/// What both sides have agreed on in a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The session of an earlier connection was resumed, without certificates.
    pub is_resumed: bool,
    /// The version's number in the protocol: 0x0304 for TLS 1.3.
    pub version: u16,
    /// The number of the cipher suite (RFC 8446 appendix B.4).
    pub cipher_suite: u16,
}

impl TlsClientConfig {
    /// Makes the configuration.
    ///
    /// # Errors
    /// If a certificate, the key or the name cannot be used.
    pub fn new(expected: Expected<'_>) -> Result<TlsClientConfig, TlsClientError> {
        use TlsClientError as Wrong;
        let server_name = ServerName::try_from(expected.server_name)
            .map_err(|_| {
                Wrong::Other(format!(
                    "{:?} is not the name of a server",
                    expected.server_name
                ))
            })?
            .to_owned();
        let provider = Arc::new(provider());
        let verifier = match expected.authorities {
            Some(text) => certificates(text)
                .and_then(|found| Verifier::new(found, &provider))
                .map_err(Wrong::Authorities)?,
            None => Verifier::of_nothing(&provider),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(&expected).map_err(Wrong::Other)?)
            .map_err(|error| Wrong::Other(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match expected.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = certificates(pair.certificates).map_err(Wrong::Certificate)?;
                let key = PrivateKeyDer::from_pem_slice(pair.key).map_err(|_| {
                    Wrong::Key(String::from("has no key in PEM without a password"))
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| match error {
                        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Wrong::Mismatch,
                        error => Wrong::Key(format!("cannot be used: {}", of_file(&error))),
                    })?
            }
        };
        config.alpn_protocols = expected.protocols.iter().map(|it| it.to_vec()).collect();
        config.resumption = resumption(expected.is_always_full);
        Ok(TlsClientConfig {
            config: Arc::new(config),
            server_name,
        })
    }

    /// The same with sessions of its own, so that threads do not wait for each other.
    #[must_use]
    pub fn with_own_sessions(&self, is_always_full: bool) -> TlsClientConfig {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = resumption(is_always_full);
        TlsClientConfig {
            config: Arc::new(config),
            server_name: self.server_name.clone(),
        }
    }

    pub(super) fn connect(&self) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.server_name.clone())
    }
}

impl Agreement {
    /// The version's name.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            0x0303 => "TLS 1.2",
            0x0304 => "TLS 1.3",
            _ => "",
        }
    }

    /// The cipher suite's name, as IANA registered it.
    pub fn cipher_suite_name(&self) -> String {
        let name = format!("{:?}", rustls::CipherSuite::from(self.cipher_suite));
        name.replacen("TLS13_", "TLS_", 1)
    }
}

fn resumption(is_always_full: bool) -> Resumption {
    match is_always_full {
        true => Resumption::disabled(),
        false => Resumption::in_memory_sessions(RESUMABLE_MAX),
    }
}

fn versions(
    expected: &Expected<'_>,
) -> Result<&'static [&'static SupportedProtocolVersion], String> {
    const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
    const TLS13_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];
    const TLS12_ONLY: &[&SupportedProtocolVersion] = &[&TLS12];
    match (expected.is_tls13_only, expected.is_tls12_only) {
        (false, false) => Ok(BOTH),
        (true, false) => Ok(TLS13_ONLY),
        (false, true) => Ok(TLS12_ONLY),
        (true, true) => Err(String::from("no version of TLS is left")),
    }
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(String::from("has no certificate in PEM")),
    }
}

/// What rustls reported in this error, if it did.
pub(super) fn reported(error: &io::Error) -> Option<&rustls::Error> {
    let reported: &Reported = error.get_ref()?.downcast_ref()?;
    Some(&reported.error)
}
