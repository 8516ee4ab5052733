//! Which bounds a request has, and whether it begins now ([`crate::context::admission`]).

use std::net::{IpAddr, Ipv6Addr};

use net::Peer;
use wire::{BodyLength, RequestHead};

use super::{Link, Turn};
use crate::app::App;
use crate::app::head::Head;
use crate::context::admission::{Refused, Verdict};
use crate::context::clients::ClientPlace;
use crate::context::proxies::Proxies;
use crate::context::waiting::Grant;

/// A client has as many connections and WebSockets as it may have.
pub(crate) struct ClientIsFull;

impl Link {
    /// The client whose requests are counted together: the one that trusted proxies name, or the peer. None for a trusted proxy itself, and
    /// for a client without an address, or whose address a proxy does not disclose: they would be one, and health checks are among them. All of a proxy's clients that cannot be read are one, with the address of the proxy: otherwise a client
    /// that spoils the field would have no limit.
    fn limited_client(&self, proxies: &Proxies, head: &RequestHead<'_>) -> Option<IpAddr> {
        if self.is_unreadable(proxies, head) {
            return Some(self.unread_client());
        }
        let client = self.client_of(proxies, Some(head));
        let is_named = head.notes.is_forwarded() && client != self.circumstances.client;
        match client {
            Peer::Internet(address) if is_named || !proxies.trusts(&client) => Some(address.ip()),
            _ => None,
        }
    }

    /// The address of all clients of this peer that cannot be read.
    fn unread_client(&self) -> IpAddr {
        match self.circumstances.client {
            Peer::Internet(proxy) => proxy.ip(),
            _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

impl<A: App> Turn<'_, A> {
    /// Determines the bounds of a request that has arrived, and what becomes of it. A handshake of a WebSocket never waits.
    #[cold]
    pub(crate) fn admit(&mut self, head: &RequestHead<'_>, is_handshake: bool) -> Verdict {
        let context = &mut *self.context;
        let bounds = context
            .admission
            .bounds_of(head.path, context.usual_bounds());
        context.bounds = bounds.with(self.app.bounds(&Head::of(head)));
        match context.admission.grant.take() {
            Some(Grant::Begin) => {
                context.bounds.has_waited = true;
                return Verdict::Begin;
            }
            Some(Grant::Refuse) => return Verdict::Refuse(Refused::QueueTimeout),
            None => context.admission.waited_ms = 0,
        }
        if context.admission.clients.limits_rates()
            && let Some(client) = self.link.limited_client(&context.proxies, head)
            && let Err(retry_after_s) = context
                .admission
                .clients
                .requested(client, context.clock.now_ms())
        {
            return Verdict::Refuse(Refused::Rate {
                client,
                retry_after_s,
            });
        }
        let is_too_long = matches!(head.body_length, BodyLength::Known(length) if length > context.bounds.body_bytes_max);
        match is_handshake || is_too_long {
            true => Verdict::Begin,
            false => self.queue_verdict(),
        }
    }

    /// Counts a WebSocket for the client that a proxy names, as the client's connection would be counted without the proxy.
    ///
    /// # Errors
    /// If the client has as many as it may have.
    #[cold]
    pub(crate) fn place_client(
        &mut self,
        head: &RequestHead<'_>,
    ) -> Result<Option<ClientPlace>, ClientIsFull> {
        let context = &mut *self.context;
        if !head.notes.is_forwarded() || !context.admission.clients.limits_connections() {
            return Ok(None);
        }
        let client = self.link.client_of(&context.proxies, Some(head));
        let address = match client {
            _ if self.link.is_unreadable(&context.proxies, head) => self.link.unread_client(),
            Peer::Internet(address) if client != self.link.circumstances.client => address.ip(),
            _ => return Ok(None),
        };
        let place = context.admission.clients.place(address);
        if place.is_none() {
            context.refuse_client(&client);
            return Err(ClientIsFull);
        }
        Ok(place)
    }

    /// What becomes of a request that could begin now.
    pub(crate) fn queue_verdict(&self) -> Verdict {
        match self.context.admission.limits_concurrency() {
            true => self.context.queue_verdict(self.app.running()),
            false => Verdict::Begin,
        }
    }
}
