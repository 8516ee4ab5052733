//! Which bounds a request has, and whether it begins now ([`crate::context::admission`]).

use std::net::IpAddr;

use net::Peer;
use wire::{BodyLength, RequestHead};

use super::{Link, Turn};
use crate::app::App;
use crate::app::head::Head;
use crate::context::admission::{Refused, Verdict};
use crate::context::proxies::Proxies;
use crate::context::waiting::Grant;

impl Link {
    /// The client whose requests are counted together: the one that trusted proxies name, or the peer. None for a trusted proxy itself, and
    /// for a client without an address.
    fn limited_client(&self, proxies: &Proxies, head: &RequestHead<'_>) -> Option<IpAddr> {
        let client = self.client_of(proxies, Some(head));
        let is_named = head.notes.is_forwarded() && client != self.circumstances.client;
        match client {
            Peer::Internet(address) if is_named || !proxies.trusts(&client) => Some(address.ip()),
            _ => None,
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
            Some(Grant::Begin) => return Verdict::Begin,
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

    /// What becomes of a request that could begin now.
    pub(crate) fn queue_verdict(&self) -> Verdict {
        match self.context.admission.limits_concurrency() {
            true => self.context.queue_verdict(self.app.running()),
            false => Verdict::Begin,
        }
    }
}
