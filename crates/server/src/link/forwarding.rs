//! The requests of a link whose peer is a proxy, or poses as one.

use std::borrow::Cow;
use std::net::SocketAddr;

use net::Peer;
use wire::{Claims, Node, RequestHead, Scheme, host_and_port};

use super::{Link, Turn};
use crate::app::circumstances::Circumstances;
use crate::app::forwarded::Forwarded;
use crate::app::head::{Head, OwnedHead};
use crate::app::{App, Content, Request};
use crate::context::proxies::Proxies;
use crate::context::record::Record;
use crate::id::ExchangeId;

impl Link {
    /// A request as the application gets it. What trusted proxies say of it is kept in `place` until another one has such fields: so the
    /// others have nothing to drop.
    #[inline(always)]
    pub(crate) fn request<'a>(
        &'a self,
        (proxies, place): (&Proxies, &'a mut Option<Circumstances>),
        head: &'a RequestHead<'a>,
        (content, id): (Content<'a>, ExchangeId),
    ) -> Request<'a> {
        Request {
            head: Head::of(head),
            content,
            id,
            circumstances: match head.is_forwarded {
                false => &self.circumstances,
                true => self.circumstances_of(proxies, place, head),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn circumstances_of<'a>(
        &'a self,
        proxies: &Proxies,
        place: &'a mut Option<Circumstances>,
        head: &RequestHead<'_>,
    ) -> &'a Circumstances {
        match self.read_forwarded(proxies, head) {
            None => &self.circumstances,
            Some(forwarded) => place.insert(Circumstances {
                client: forwarded.client,
                forwarded: Some(Box::new(forwarded)),
                ..self.circumstances.clone()
            }),
        }
    }

    /// Who sent a request, as far as is known.
    pub(super) fn client_of(&self, proxies: &Proxies, head: Option<&RequestHead<'_>>) -> Peer {
        let head = head.filter(|head| head.is_forwarded);
        let forwarded = head.and_then(|head| self.read_forwarded(proxies, head));
        forwarded.map_or(self.circumstances.client, |forwarded| forwarded.client)
    }

    fn read_forwarded(&self, proxies: &Proxies, head: &RequestHead<'_>) -> Option<Forwarded> {
        let claims = self.claims(proxies, head)?;
        let server = match claims.host.is_some() || claims.port.is_some() {
            true => self.server_of(head, &claims),
            false => None,
        };
        Some(Forwarded {
            client: claims.client.map_or(self.circumstances.client, peer_of),
            scheme: claims.scheme,
            server,
            prefix: String::from_utf8_lossy(claims.prefix.unwrap_or_default()).into(),
        })
    }

    fn claims<'a>(&self, proxies: &Proxies, head: &RequestHead<'a>) -> Option<Claims<'a>> {
        if self.is_of_unknown || !proxies.trusts(&self.circumstances.client) {
            return None;
        }
        let lines = wire::field_lines(head.field_section);
        let trusts = |node: &Node| proxies.trusts_node(node);
        Some(wire::forwarded::claims(lines, proxies.fields, trusts))
    }

    /// The head of a request as it is after what proxies say of its host, and without the fields that the application is not to get. None if
    /// it stays as it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn rewritten(&self, proxies: &Proxies, head: &RequestHead<'_>) -> Option<OwnedHead> {
        let claims = self.claims(proxies, head);
        let is_trusted = claims.is_some();
        let host = claims.and_then(|claims| self.host_of(head, &claims));
        let drops = |name: &[u8]| proxies.drops(name, is_trusted);
        let mut lines = wire::field_lines(head.field_section);
        if host.is_none() && !lines.any(|(name, _)| drops(name)) {
            return None;
        }
        let text = wire::rewritten(head, drops, host.as_deref());
        Some(OwnedHead::of_text(text, Head::of(head)))
    }

    /// The scheme of what the client sent.
    fn scheme_of(&self, claims: &Claims<'_>) -> Scheme {
        let own = match self.is_secure() {
            true => Scheme::Https,
            false => Scheme::Http,
        };
        claims.scheme.unwrap_or(own)
    }

    /// What Host would be without proxies, if they say something else than it is.
    fn host_of<'a>(&self, head: &RequestHead<'a>, claims: &Claims<'a>) -> Option<Vec<u8>> {
        let received = head.authority.or(head.host).unwrap_or_default();
        let host = claims.host.clone().unwrap_or(Cow::Borrowed(received));
        let host = match claims.port {
            None => host.into_owned(),
            Some(_) if host.is_empty() => return None,
            Some(port) => {
                let mut name = host_and_port(&host).0.to_vec();
                if port != self.scheme_of(claims).default_port() {
                    name.extend_from_slice(format!(":{port}").as_bytes());
                }
                name
            }
        };
        (host != received).then_some(host)
    }

    /// The host and port that the client connected to. The head may have been rewritten already.
    fn server_of(&self, head: &RequestHead<'_>, claims: &Claims<'_>) -> Option<(Box<str>, u16)> {
        let received = head.authority.or(head.host).unwrap_or_default();
        let host = self.host_of(head, claims);
        let (name, port) = host_and_port(host.as_deref().unwrap_or(received));
        let port = port.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let name = String::from_utf8_lossy(name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let default_port = || self.scheme_of(claims).default_port();
        (!name.is_empty()).then(|| (name.into(), port.unwrap_or_else(default_port)))
    }
}

/// The client, as if it were connected.
fn peer_of(node: Node) -> Peer {
    match node {
        Node::Address(address, port) => {
            Peer::Internet(SocketAddr::new(address, port.unwrap_or_default()))
        }
        Node::Unix | Node::Hidden => Peer::Local,
    }
}

impl<A: App> Turn<'_, A> {
    /// Who sent a request, for its line in the access log; the peer, if there is no log.
    pub(crate) fn client_for_log(&self, head: Option<&RequestHead<'_>>) -> Peer {
        match self.context.log.is_some() {
            true => self.link.client_of(&self.context.proxies, head),
            false => self.link.circumstances.client,
        }
    }

    /// What is to be recorded of a request, which has a status and so many bytes of content already.
    pub(crate) fn record(
        &self,
        began_ms: u64,
        head: Option<&RequestHead<'_>>,
        sent: (u16, u64),
    ) -> Record {
        let sender = (self.client_for_log(head), || {
            self.link.circumstances.tls.as_ref()
        });
        let head = head.map(Head::of);
        self.context.record(sender, head, began_ms, sent)
    }
}
