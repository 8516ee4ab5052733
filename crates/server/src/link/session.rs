//! The part of a link that only TLS needs: what the transport holds, and what applications may know of the session, which is collected for
//! the first request and shared by all of them.

use std::cell::OnceCell;
use std::sync::Arc;

use net::TlsDetails;

use super::Link;

/// Empty before the first request.
pub(super) type KnownSession = OnceCell<Option<Arc<TlsDetails>>>;

impl Link {
    /// What applications may know of the TLS session; None on a plain connection.
    #[inline]
    pub(crate) fn tls(&self) -> Option<&Arc<TlsDetails>> {
        if !self.transport.is_secure() {
            return None;
        }
        let details = || self.transport.tls_details().map(Arc::new);
        self.tls.get_or_init(details).as_ref()
    }

    /// Bytes of what was collected for them.
    #[inline]
    pub(super) fn details_bytes(&self) -> usize {
        match self.tls.get() {
            Some(Some(details)) => details.held_bytes(),
            _ => 0,
        }
    }

    /// Whether the peer has sent something that was not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.transport.unread_bytes() > 0
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
