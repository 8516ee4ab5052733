//! What an idle WebSocket does not have: it is allocated when it is needed first. There may be very many idle ones (bench: idle).

use super::WebSocket;
use crate::context::clients::ClientPlace;
use crate::context::topics::Subscription;

/// What most WebSockets never need.
#[derive(Default)]
pub(super) struct Rare {
    /// Content of the last ping that no pong was sent for.
    pub(super) ping: Box<[u8]>,
    pub(super) subscriptions: Vec<Subscription>,
    /// Counts it for its client, if the connection is a proxy's.
    client: Option<Box<ClientPlace>>,
    /// When our close frame was sent; None while it waits for the socket, whose pace limits that.
    pub(super) closing_ms: Option<u64>,
    /// At least what the application has received and not taken, if that is enough for it.
    pub(super) untaken_bytes: usize,
}

impl Rare {
    pub(super) fn of(client: Box<ClientPlace>) -> Rare {
        Rare {
            client: Some(client),
            ..Rare::default()
        }
    }

    /// Whether nothing of it is needed any more.
    fn is_over(&self) -> bool {
        self.subscriptions.capacity() == 0
            && self.client.is_none()
            && self.closing_ms.is_none()
            && self.untaken_bytes == 0
    }

    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let subscriptions = self.subscriptions.capacity() * size_of::<Subscription>();
        size_of::<Rare>() + self.untaken_bytes + subscriptions + self.ping.len()
    }
}

impl WebSocket {
    /// When our close frame was sent, if it was.
    pub(super) fn closing_ms(&self) -> Option<u64> {
        self.rare.as_ref()?.closing_ms
    }

    /// No pong is to be sent any more. Returns the content of the ping.
    pub(super) fn forget_ping(&mut self) -> Box<[u8]> {
        self.has_ping = false;
        let Some(rare) = &mut self.rare else {
            return Box::default();
        };
        let content = std::mem::take(&mut rare.ping);
        if rare.is_over() {
            self.rare = None;
        }
        content
    }
}
