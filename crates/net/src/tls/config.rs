//! Certificates, keys, versions and protocols that a server offers.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::failure::of_file;
use super::pair::{Pair, ServerPair};
use super::resumption::{DatedList, DatedVerifier, Verifier};
use super::revocation::{self, Found, RevocationList};
use super::sealing::provider;
use super::selection::Selection;
use super::tickets::{TicketSecret, Ticketer};

/// What a server offers in handshakes.
pub struct TlsConfig {
    config: Arc<ServerConfig>,
    selection: Arc<Selection>,
    lists: Vec<RevocationList>,
}

/// What a [`TlsConfig`] is made of.
#[derive(Default)]
pub struct Offer<'a> {
    /// A client gets the first one whose certificate has the name that it asks for, or else the first of all.
    pub pairs: Vec<ServerPair>,
    /// Protocols in the order of preference (RFC 7301).
    pub protocols: Vec<Vec<u8>>,
    /// TLS 1.2 is refused.
    pub is_tls13_only: bool,
    /// What clients are asked for, if they are.
    pub clients: Option<Clients<'a>>,
    /// By which sessions are resumed; without it, they are not.
    pub tickets: Option<Arc<TicketSecret>>,
}

/// What clients have to present.
#[derive(Clone, Copy)]
pub struct Clients<'a> {
    /// The certificates, in PEM, to which a client's certificate must lead.
    pub authorities: &'a [u8],
    /// Files, in PEM, with lists of certificates that are revoked. With one, every authority of a client's chain needs a valid list.
    pub lists: &'a [Vec<u8>],
    /// A client without a certificate is served too.
    pub is_optional: bool,
}

/// Why something cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// The file with certificates has none.
    NoCertificate,
    /// The file with certificates has a certificate that cannot be read.
    BadCertificate(String),
    /// The certificate is of this version of X.509, which has no extensions.
    OldVersion(u8),
    /// The file with the key has none.
    NoKey,
    /// The file with the key has one that cannot be read or used.
    BadKey(String),
    /// The key has a password, which is not known.
    Locked,
    /// The key has another password.
    WrongPassword,
    /// The key is encrypted in a way that is not supported.
    UnknownEncryption,
    /// The certificate is not for this key.
    Mismatch,
    /// A later certificate of the file is for this key: its place from 1 on, and its subject.
    Order {
        /// From 1 on.
        place: usize,
        /// As in RFC 4514.
        subject: String,
    },
    /// The key is of a kind or length that cannot be used; the text continues a sentence about its file.
    UnusableKey(String),
    /// The file of this index has no revocation list.
    NoList(usize),
    /// The file of this index has a revocation list that cannot be used.
    BadList(usize, String),
    /// The server cannot offer what is asked for.
    Unusable(String),
}

impl TlsConfig {
    /// Offers TLS 1.3 and 1.2 with one pair, and `protocols` in the order of preference (RFC 7301).
    ///
    /// # Errors
    /// If the pair cannot be used.
    pub fn new(pair: Pair<'_>, protocols: &[&[u8]]) -> Result<TlsConfig, TlsError> {
        TlsConfig::offer(Offer {
            pairs: vec![ServerPair::read(pair, None)?],
            protocols: protocols.iter().map(|name| name.to_vec()).collect(),
            ..Offer::default()
        })
    }

    /// Offers what is asked for.
    ///
    /// # Errors
    /// If there is no pair, or the authorities of clients cannot be used.
    pub fn offer(offer: Offer<'_>) -> Result<TlsConfig, TlsError> {
        const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        let versions = if offer.is_tls13_only {
            &BOTH[..1]
        } else {
            BOTH
        };
        let provider = Arc::new(provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(unusable)?;
        let (verifier, lists) = match offer.clients {
            None => (WebPkiClientVerifier::no_client_auth(), Vec::new()),
            Some(clients) => verifier(clients, &provider)?,
        };
        let builder = builder.with_client_cert_verifier(verifier);
        let selection = Arc::new(Selection::new(offer.pairs).ok_or(TlsError::NoCertificate)?);
        let mut config = builder.with_cert_resolver(Arc::clone(&selection) as _);
        config.alpn_protocols = offer.protocols;
        // A session's state is in its ticket, so that any worker can resume it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match offer.tickets {
            Some(secret) => {
                let context = context_of(offer.clients);
                config.ticketer = Arc::new(Ticketer { secret, context });
            }
            None => config.send_tls13_tickets = 0,
        }
        Ok(TlsConfig {
            config: Arc::new(config),
            selection,
            lists,
        })
    }

    /// The revocation lists, the newest first.
    pub fn lists(&self) -> &[RevocationList] {
        &self.lists
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> &[ServerPair] {
        self.selection.pairs()
    }

    pub(super) fn rustls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// The certificates of a file in PEM; at least one.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(chain) if chain.is_empty() => Err(TlsError::NoCertificate),
        Ok(chain) => Ok(chain),
        Err(error) => Err(TlsError::BadCertificate(not_pem(&error).to_owned())),
    }
}

/// What is wrong with a file in PEM. The parser's own text quotes the line, which may be a part of a key.
pub(super) fn not_pem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it is not PEM: an END line is missing",
        pem::Error::IllegalSectionStart { .. } => "it is not PEM: a BEGIN line is malformed",
        pem::Error::Base64Decode(_) => "it is not PEM: a section is not base64",
        pem::Error::SectionTooLarge => "it is not PEM: a section is too long",
        _ => "it is not PEM",
    }
}

/// What verifies the certificates of clients. A list whose time is over says nothing about a certificate that was revoked since then, so
/// clients that it is about are refused.
pub(super) fn verifier(
    clients: Clients<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<dyn ClientCertVerifier>, Vec<RevocationList>), TlsError> {
    let roots = Arc::new(roots(clients.authorities)?);
    let mut found = Vec::new();
    for (file, text) in clients.lists.iter().enumerate() {
        found.extend(revocation::read(file, text)?);
    }
    let mut verifiers = Vec::new();
    for lists in revocation::choose(&mut found)? {
        verifiers.push(Verifier {
            verifier: with_lists(&lists, clients.is_optional, (&roots, provider))?,
            lists: lists.iter().filter_map(|it| dated(it)).collect(),
        });
    }
    let first = verifiers.pop().ok_or_else(|| unusable("no verifier"))?;
    let others = verifiers;
    let lists = found.into_iter().map(|it| it.list).collect();
    Ok((Arc::new(DatedVerifier { first, others }), lists))
}

/// What verifies certificates with lists. Only if that cannot be made, each list is tried, so that the error names its file.
fn with_lists(
    lists: &[&Found],
    is_optional: bool,
    with: (&Arc<RootCertStore>, &Arc<CryptoProvider>),
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let build = |lists: &[&Found]| {
        let (roots, provider) = (Arc::clone(with.0), Arc::clone(with.1));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .with_crls(lists.iter().map(|it| it.der.clone()))
            .enforce_revocation_expiration();
        match is_optional {
            true => verifier.allow_unauthenticated().build(),
            false => verifier.build(),
        }
    };
    let failed = match build(lists) {
        Ok(verifier) => return Ok(verifier),
        Err(error) => error,
    };
    for list in lists {
        build(&[*list]).map_err(|error| TlsError::BadList(list.list.file, error.to_string()))?;
    }
    Err(unusable(failed))
}

/// The last second at which webpki uses a list is the one before its end.
fn dated(found: &Found) -> Option<DatedList> {
    let until = found.list.valid_until?.saturating_sub(1);
    Some(DatedList {
        issuer: found.issuer.clone(),
        until_s: u64::try_from(until).unwrap_or(0),
    })
}

fn roots(authorities: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::BadCertificate(of_file(&error).into_owned()))?;
    }
    Ok(roots)
}

/// What a ticket depends on: a client that resumes a session is not asked for its certificate again.
fn context_of(clients: Option<Clients<'_>>) -> Vec<u8> {
    clients.map_or_else(Vec::new, |clients| {
        let mut context = vec![u8::from(clients.is_optional)];
        let lists = clients.lists.iter().map(Vec::as_slice);
        for file in std::iter::once(clients.authorities).chain(lists) {
            context.extend_from_slice(digest::digest(&digest::SHA256, file).as_ref());
        }
        context
    })
}

fn unusable(error: impl fmt::Display) -> TlsError {
    TlsError::Unusable(error.to_string())
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            TlsError::NoCertificate => "it has no certificate in PEM",
            TlsError::NoKey => "it has no private key in PEM",
            TlsError::Locked => "its key has a password",
            TlsError::WrongPassword => "its key has another password",
            TlsError::UnknownEncryption => "its key is encrypted in a way that is not supported",
            TlsError::Mismatch => "the certificate is not for this key",
            TlsError::NoList(_) => "it has no revocation list in PEM",
            TlsError::OldVersion(version) => {
                return write!(formatter, "{version}");
            }
            TlsError::Order { place, subject } => {
                return write!(formatter, "certificate {place} ({subject}) is for its key");
            }
            TlsError::BadCertificate(error)
            | TlsError::BadKey(error)
            | TlsError::UnusableKey(error)
            | TlsError::BadList(_, error)
            | TlsError::Unusable(error) => error,
        };
        formatter.write_str(text)
    }
}
