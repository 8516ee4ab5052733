//! The requests of a link whose peer is a proxy, or poses as one, or that have ids.

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
use crate::context::request_ids::RequestIds;
use crate::id::ExchangeId;
use crate::responder::Responder;

impl Link {
    /// A request as the application gets it. What trusted proxies say of it is kept in `place` until another one has such fields: so the
    /// others have nothing to drop.
    #[inline(always)]
    pub(crate) fn request<'a>(
        &'a self,
        (proxies, place): (&Proxies, &'a mut Option<Circumstances>),
        responder: &mut Responder,
        head: &'a RequestHead<'a>,
        (content, id): (Content<'a>, ExchangeId),
    ) -> Request<'a> {
        Request {
            head: Head::of(head),
            content,
            id,
            circumstances: match head.notes.is_any() {
                false => &self.circumstances,
                true => {
                    responder.identify(head.id_line());
                    self.circumstances_of(proxies, place, head)
                }
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
        let is_forwarded = head.notes.is_forwarded();
        match is_forwarded.then(|| self.read_forwarded(proxies, head)) {
            None | Some(None) => &self.circumstances,
            Some(Some(forwarded)) => place.insert(Circumstances {
                client: forwarded.client,
                forwarded: Some(Box::new(forwarded)),
                ..self.circumstances.clone()
            }),
        }
    }

    /// Who sent a request, as far as is known.
    pub(super) fn client_of(&self, proxies: &Proxies, head: Option<&RequestHead<'_>>) -> Peer {
        let head = head.filter(|head| head.notes.is_forwarded());
        let forwarded = head.and_then(|head| self.read_forwarded(proxies, head));
        forwarded.map_or(self.circumstances.client, |forwarded| forwarded.client)
    }

    /// Whether a trusted proxy says something of a request that cannot be read, so that its client is not known.
    pub(super) fn is_unreadable(&self, proxies: &Proxies, head: &RequestHead<'_>) -> bool {
        head.notes.is_forwarded()
            && self
                .claims(proxies, head)
                .is_some_and(|claims| claims.is_unreadable)
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
        if !self.is_trusted(proxies) {
            return None;
        }
        let lines = wire::field_lines(head.field_section);
        let trusts = |node: &Node| proxies.trusts_node(node);
        Some(wire::forwarded::claims(lines, proxies.fields, trusts))
    }

    /// Whether what the peer says is believed.
    fn is_trusted(&self, proxies: &Proxies) -> bool {
        !self.is_of_unknown && proxies.trusts(&self.circumstances.client)
    }

    /// The head of a request as it is after what proxies say of its host, without the fields that the application is not to get, and with its
    /// id. None if it stays as it is.
    fn rewritten(
        &self,
        proxies: &Proxies,
        ids: Option<&mut RequestIds>,
        head: &RequestHead<'_>,
    ) -> Option<OwnedHead> {
        let is_trusted = self.is_trusted(proxies);
        let claims = match head.notes.is_forwarded() {
            true => self.claims(proxies, head),
            false => None,
        };
        let host = claims.and_then(|claims| self.host_of(head, &claims));
        let ids = ids.map(|ids| {
            ids.identify(head, is_trusted);
            &*ids
        });
        let is_id = |name: &[u8]| ids.is_some_and(|ids| ids.is_spelled(name));
        let drops = |name: &[u8]| proxies.drops(name, is_trusted) || is_id(name);
        let mut lines = wire::field_lines(head.field_section);
        if host.is_none() && ids.is_none() && !lines.any(|(name, _)| drops(name)) {
            return None;
        }
        let id_line = ids.map_or(&b""[..], RequestIds::line);
        let text = wire::rewritten(head, drops, host.as_deref(), id_line);
        Some(OwnedHead::of_text(text, Head::of(head), ids.is_some()))
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
    /// The head of a request as the application gets it, if it is not the one that was received: after what proxies say, and with an id.
    #[cold]
    #[inline(never)]
    pub(crate) fn outer_head(&mut self, head: &RequestHead<'_>) -> Option<OwnedHead> {
        let context = &mut *self.context;
        let ids = context.request_ids.as_mut();
        if ids.is_none() && !head.notes.is_forwarded() {
            return None;
        }
        self.link.rewritten(&context.proxies, ids, head)
    }

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

    /// The same of a request that the application was just called for. Its response `is_complete`, or goes on.
    pub(crate) fn record_call(
        &self,
        began_ms: u64,
        (head, content): (&RequestHead<'_>, Content<'_>),
        sent: (u16, u64),
        is_complete: bool,
    ) -> Record {
        let mut record = self.record(began_ms, Some(head), sent);
        record.received(content.whole_bytes());
        self.context.note_call(&mut record, head, is_complete);
        record
    }
}
