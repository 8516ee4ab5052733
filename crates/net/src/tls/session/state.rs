//! What others ask of a session.

use rustls::HandshakeKind;

use super::super::{Agreement, TlsDetails};
use super::{Phase, Session};

/// What rustls holds for a connection after its handshake, in bytes.
const ESTABLISHED_BYTES: usize = 3584;
/// The same before it, without what depends on the length of the peer's messages.
const HANDSHAKING_BYTES: usize = 4608;
/// The same for that: a chain of certificates, and the messages that are signed.
const SHAKEN_BYTES_MAX: usize = 256 * 1024;

impl Session {
    /// Whether the sending side is to be shut down now.
    pub(crate) fn is_shutdown_due(&self) -> bool {
        self.is_shutting_down && !self.owes()
    }

    /// Whether the peer has still to complete the handshake.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Handshaking)
    }

    /// Whether a server has received the whole ClientHello: it has chosen its certificate.
    pub(crate) fn has_client_hello(&self) -> bool {
        self.chosen.is_some()
    }

    /// Whether the peer does not speak TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether records wait for the socket.
    pub(crate) fn owes(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Bytes of records that wait for the socket.
    pub(crate) fn owed_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Whether content was received that its reader has not taken.
    pub(super) fn has_content(&self) -> bool {
        self.read < self.content.len()
    }

    /// Whether [`Session::receive`] has something to report that no event announces.
    pub(crate) fn has_buffered(&self) -> bool {
        self.has_content() || !self.is_alive() && !self.is_over_reported
    }

    /// Bytes of content that its reader has not taken.
    pub(crate) fn content_bytes(&self) -> usize {
        self.content.len() - self.read
    }

    /// Whether the socket may have input that an event reported, although the last read of it brought less than there was room for.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// What applications may know of it; None before the handshake is complete.
    pub(crate) fn details(&self) -> Option<TlsDetails> {
        let (connection, chosen) = (self.connection.as_ref()?, self.chosen.as_ref()?);
        let chain = connection.peer_certificates().unwrap_or_default();
        Some(TlsDetails {
            version: connection.protocol_version()?.into(),
            cipher_suite: connection.negotiated_cipher_suite()?.suite().into(),
            server_name: chosen.name.clone(),
            server_certificate: chosen.certificate().map(<[u8]>::to_vec),
            client_certificates: chain.iter().map(|der| der.to_vec()).collect(),
        })
    }

    /// What both sides have agreed on; None before the handshake is complete.
    pub(crate) fn agreement(&self) -> Option<Agreement> {
        let connection = self.connection.as_ref()?;
        Some(Agreement {
            is_resumed: connection.handshake_kind()? == HandshakeKind::Resumed,
            version: connection.protocol_version()?.into(),
            cipher_suite: connection.negotiated_cipher_suite()?.suite().into(),
        })
    }

    /// The protocol that both sides have agreed on (RFC 7301).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.as_ref()?.alpn_protocol()
    }

    /// Bytes that this session holds in memory, with what rustls holds for it.
    pub(crate) fn held_bytes(&self) -> usize {
        let own = self.incoming.capacity() + self.content.capacity() + self.outgoing.capacity();
        own + match &self.connection {
            None => 0,
            Some(_) if self.is_handshaking() => {
                HANDSHAKING_BYTES + (2 * self.shaken_bytes).min(SHAKEN_BYTES_MAX)
            }
            Some(connection) => {
                let chain = connection.peer_certificates().unwrap_or_default();
                ESTABLISHED_BYTES + chain.iter().map(|der| der.len()).sum::<usize>()
            }
        }
    }
}
