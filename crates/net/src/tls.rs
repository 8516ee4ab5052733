//! TLS (RFC 8446, RFC 5246) by rustls: what a server offers, what a client expects, and the session of one connection.

mod certificate;
mod client;
mod config;
mod der;
mod details;
mod encrypted_key;
mod failure;
mod key_kind;
mod pacing;
mod pair;
mod resumption;
mod revocation;
mod sealing;
mod selection;
mod self_signed;
mod session;
mod shared;
mod side;
mod tickets;
mod verifier;

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use self::certificate::Certificate;
pub use self::client::{Agreement, Expected, TlsClientConfig, TlsClientError};
pub use self::config::{Clients, Offer, TlsConfig, TlsError};
pub use self::details::TlsDetails;
pub use self::failure::TlsFailure;
pub use self::pair::{Pair, ServerPair, opened_key};
pub use self::revocation::RevocationList;
pub use self::self_signed::self_signed;
pub(crate) use self::session::Session;
pub(crate) use self::shared::Room;
pub use self::tickets::TicketSecret;

/// Maximum bytes that a session holds: an incomplete message, content that its reader has no room for, records that wait for the socket, and
/// what rustls needs. In a handshake that is most: the messages of both sides, and a client's chain of certificates.
pub const SESSION_BYTES_MAX: u64 = 424 * 1024;

/// Lets the cryptographic library collect its entropy, in the thread that will do handshakes. It takes tens of milliseconds, in which the
/// first client of a process, and those that it serves already, would wait. Nothing is to be done about a failure: a handshake reports it.
pub fn collect_entropy() {
    let _ = aws_lc_rs::rand::fill(&mut [0; 32]);
}

const HAS_BUFFERED: u8 = 1;
const OWES: u8 = 2;
const IS_UNREAD: u8 = 4;
const IS_HANDSHAKING: u8 = 8;
const IS_PLAIN: u8 = 16;

/// A session, and what is often asked about it.
///
/// The lock is never contended, since one thread at a time uses a transport. It makes sharing safe, and costs two atomic instructions for
/// each call that receives or sends.
pub(crate) struct Tls {
    session: Mutex<Session>,
    facts: AtomicU8,
    held_bytes: AtomicUsize,
}

impl Tls {
    pub(crate) fn new(config: &TlsConfig) -> Tls {
        Tls::with_session(Session::new(config), IS_HANDSHAKING)
    }

    pub(crate) fn client(config: &TlsClientConfig) -> Tls {
        Tls::with_session(Session::client(config), IS_HANDSHAKING | OWES)
    }

    fn with_session(session: Session, facts: u8) -> Tls {
        Tls {
            session: Mutex::new(session),
            facts: AtomicU8::new(facts),
            held_bytes: AtomicUsize::new(0),
        }
    }

    /// Uses the session, after which its facts may have changed.
    pub(crate) fn with<T>(&self, use_session: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_session(&mut session);
        let facts = [
            (session.has_buffered(), HAS_BUFFERED),
            (session.owes(), OWES),
            (session.is_unread(), IS_UNREAD),
            (session.is_handshaking(), IS_HANDSHAKING),
            (session.is_plain(), IS_PLAIN),
        ];
        let facts = facts.iter().filter(|(is_true, _)| *is_true);
        let facts = facts.fold(0, |all, (_, fact)| all | fact);
        self.facts.store(facts, Ordering::Relaxed);
        self.held_bytes
            .store(session.held_bytes(), Ordering::Relaxed);
        result
    }

    fn is(&self, fact: u8) -> bool {
        self.facts.load(Ordering::Relaxed) & fact != 0
    }

    /// See [`Session::has_buffered`].
    pub(crate) fn has_buffered(&self) -> bool {
        self.is(HAS_BUFFERED)
    }

    /// See [`Session::owes`].
    pub(crate) fn owes(&self) -> bool {
        self.is(OWES)
    }

    /// See [`Session::is_unread`].
    pub(crate) fn is_unread(&self) -> bool {
        self.is(IS_UNREAD)
    }

    /// See [`Session::is_handshaking`].
    pub(crate) fn is_handshaking(&self) -> bool {
        self.is(IS_HANDSHAKING)
    }

    /// See [`Session::is_plain`].
    pub(crate) fn is_plain(&self) -> bool {
        self.is(IS_PLAIN)
    }

    /// Bytes that the session holds, with this record.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Tls>() + self.held_bytes.load(Ordering::Relaxed)
    }
}
