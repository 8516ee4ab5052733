//! The header of the PROXY protocol, with which each connection starts if the server expects it, before TLS.
//!
//! | peer | what it sends | then |
//! | --- | --- | --- |
//! | trusted | a valid header | the addresses are those of the header; TLS or HTTP follows |
//! | trusted | anything else, or nothing within `header_timeout_ms` | closed |
//! | not trusted | anything | closed |
//!
//! The header is left in the socket until all of it has arrived, so that what follows it is read as if it had not been there.

use net::{Peer, Received};
use wire::{PROXY_HEADER_BYTES_MAX, ProxyHeader, parse_proxy_header};

use super::handshake::Handshake;
use super::preface::First;
use super::{Connection, Phase};
use crate::context::Context;
use crate::link::Fate;

const NOT_TRUSTED: &str = "--trusted-proxies does not name it";

impl Connection {
    /// Reads the header, if that comes next. Returns None when what follows it may be read.
    #[cold]
    pub(super) fn proxy_header(
        &mut self,
        context: &mut Context,
        buffer: &mut [u8],
        has_ended: bool,
    ) -> Option<Fate> {
        let Phase::Preface {
            first: First::ProxyHeader,
            ..
        } = self.phase
        else {
            return None;
        };
        if !context.proxies.trusts(&self.link.circumstances.client) {
            return self.refuse_connection(context, NOT_TRUSTED);
        }
        let end = buffer.len().min(PROXY_HEADER_BYTES_MAX);
        let room = buffer.get_mut(..end).unwrap_or_default();
        let count = match self.link.transport.peek(room) {
            Received::Bytes(count) => count,
            Received::Blocked => return Some(Fate::Open),
            Received::End | Received::Broken(_) => return Some(Fate::Close),
        };
        match parse_proxy_header(room.get(..count).unwrap_or_default()) {
            Ok(Some((header, length))) => {
                // It has arrived, so it is read at once.
                self.link
                    .transport
                    .take_peeked(room.get_mut(..length).unwrap_or_default());
                self.is_of(context, header);
                let (key, client) = (self.link.id.key, self.link.circumstances.client);
                if !context.takes_known_client(key, &client) {
                    context.refuse_client(&client);
                    return Some(Fate::Close);
                }
                self.header_ends(context)
            }
            Ok(None) if has_ended => Some(Fate::Close),
            Ok(None) => Some(Fate::Open),
            Err(error) => self.refuse_connection(context, error.reason()),
        }
    }

    fn refuse_connection(&self, context: &mut Context, reason: &str) -> Option<Fate> {
        let client = &self.link.circumstances.client;
        context.refusals.add_proxy_header(client, reason);
        Some(Fate::Close)
    }

    /// The connection is that of another client than the peer.
    fn is_of(&mut self, context: &mut Context, header: ProxyHeader) {
        match header {
            ProxyHeader::Own => {}
            ProxyHeader::Unknown => self.link.is_of_unknown = true,
            ProxyHeader::Of(client, server) => {
                self.link.circumstances.client = Peer::Internet(client);
                let server = context.addresses.shared(Peer::Internet(server));
                self.link.circumstances.server = server;
            }
            ProxyHeader::OfUnix => self.link.circumstances.client = Peer::Local,
        }
    }

    fn header_ends(&mut self, context: &Context) -> Option<Fate> {
        let now_ms = context.clock.now_ms();
        if self.link.is_handshaking() {
            self.phase = Phase::Handshake(Handshake::new(now_ms));
            // Its next event is for the handshakes.
            self.link.note_unread();
            return Some(Fate::Open);
        }
        self.phase = Phase::preface(now_ms);
        None
    }
}
