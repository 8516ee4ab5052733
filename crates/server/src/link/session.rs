//! The part of a link that only TLS needs: what the transport holds, and what applications may know of the session, which is collected
//! after the handshake and shared by all requests.

use std::sync::Arc;

use super::Link;

impl Link {
    /// The TLS handshake is complete: collects what applications may know of the session.
    pub(crate) fn note_session(&mut self) {
        self.circumstances.tls = self.transport.tls_details().map(Arc::new);
    }

    /// Whether there is something that they may know of it.
    pub(crate) fn has_session(&self) -> bool {
        self.circumstances.tls.is_some()
    }

    /// Bytes of what was collected for them.
    pub(super) fn details_bytes(&self) -> usize {
        let details = self.circumstances.tls.as_ref();
        details.map_or(0, |details| details.held_bytes())
    }

    /// Whether the peer has sent something that was not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.transport.unread_bytes() > 0
    }

    /// Whether the peer has sent something that was not read, which an event reports.
    pub(crate) fn will_read(&self) -> bool {
        self.is_watched() && self.has_unread()
    }

    /// Whether input was read from the socket that [`Link::receive`] has not returned: no event reports it.
    #[inline]
    pub(crate) fn has_buffered(&self) -> bool {
        self.transport.has_buffered()
    }

    /// Sends bytes that the transport accepted and the socket did not. Returns false if the connection is broken.
    #[inline]
    pub(crate) fn send_owed(&self) -> bool {
        self.transport.flush()
    }

    /// Whether such bytes are left.
    pub(crate) fn owes(&self) -> bool {
        self.transport.owes()
    }

    /// Whether the TLS handshake is not complete.
    #[inline]
    pub(crate) fn is_handshaking(&self) -> bool {
        self.transport.is_handshaking()
    }

    /// Whether the whole ClientHello has arrived.
    pub(crate) fn has_client_hello(&self) -> bool {
        self.transport.has_client_hello()
    }

    /// Whether the peer does not use TLS, although it has to.
    pub(crate) fn lacks_tls(&self) -> bool {
        self.transport.lacks_tls()
    }

    /// Whether TLS is used, or has to be.
    pub(crate) fn is_secure(&self) -> bool {
        self.transport.is_secure()
    }
}
