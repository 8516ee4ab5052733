//! What a request is sent with and between whom, besides its head and content.

use std::sync::Arc;

use net::{Peer, TlsDetails};

use super::forwarded::Forwarded;

/// What the requests of a connection have in common, and what trusted proxies say of one of them.
///
/// A connection has one for the requests of which proxies say nothing: so they get a reference.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The client's address, according to the proxies that are trusted.
    pub client: Peer,
    /// The local address of the connection, which others share.
    pub server: Arc<Peer>,
    /// The connection's TLS session, if it has one.
    pub tls: Option<Arc<TlsDetails>>,
    /// What trusted proxies say of the request.
    pub forwarded: Option<Box<Forwarded>>,
}

impl Circumstances {
    /// Those of a connection whose TLS session, if it will have one, has not begun.
    pub(crate) fn between(client: Peer, server: Arc<Peer>) -> Circumstances {
        Circumstances {
            client,
            server,
            tls: None,
            forwarded: None,
        }
    }
}
