//! What trusted proxies say of a request.

use net::Peer;
use wire::Scheme;

/// What trusted proxies say of a request. The host is not among it: it has replaced that of the head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// The client, whose port is 0 if it is not known; the peer, if nothing was said of it.
    pub client: Peer,
    /// The scheme that the client used.
    pub scheme: Option<Scheme>,
    /// The host and port that the client connected to, if one of them was said.
    pub server: Option<(Box<str>, u16)>,
    /// The start of the path that proxies have removed, without a slash at its end; empty without one.
    pub prefix: Box<str>,
}
