//! The part of a connection that only WebSockets need.

use super::{Connection, Phase};
use crate::app::App;
use crate::context::Context;
use crate::id::ExchangeId;
use crate::link::{Fate, Turn};
use crate::responder::messages::publication::Publication;

impl Connection {
    /// Continues as a WebSocket.
    #[cold]
    pub(super) fn upgrade<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        if let Phase::H1(h1) = &mut self.phase
            && let Some(upgraded) = h1.upgrade()
        {
            self.phase = Phase::WebSocket(upgraded);
            return match context.is_draining() {
                true => self.drain(context, app),
                false => self.settle(context, app),
            };
        }
        Fate::Open
    }

    /// The server drains: a WebSocket is asked to leave. Other connections have a new deadline.
    pub(crate) fn drain<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        match &mut self.phase {
            Phase::WebSocket(websocket) => {
                let fate = websocket.drain(&mut Turn { link, context, app });
                self.conclude(context, app, fate)
            }
            Phase::H2(h2) => {
                h2.drain_websockets(&mut Turn { link, context, app });
                self.settle(context, app)
            }
            _ => Fate::Open,
        }
    }

    /// Whether the WebSocket `id` may be sent a published frame of `frame_bytes` before others have left.
    pub(crate) fn has_room_for(
        &self,
        context: &Context,
        id: ExchangeId,
        frame_bytes: usize,
    ) -> bool {
        match &self.phase {
            Phase::WebSocket(upgraded) if upgraded.websocket.id == id => {
                let unsent_bytes = self.link.unsent_bytes();
                upgraded
                    .websocket
                    .has_room_for(context, frame_bytes, unsent_bytes)
            }
            Phase::H2(h2) => h2.has_room_for(context, id, frame_bytes, self.link.unsent_bytes()),
            _ => true,
        }
    }

    /// Sends a message to the WebSocket `id`, which subscribes to its topic.
    pub(crate) fn publish<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        id: ExchangeId,
        publication: &mut Publication,
    ) {
        let link = &mut self.link;
        match &mut self.phase {
            Phase::WebSocket(upgraded) if upgraded.websocket.id == id => {
                let unsent_bytes = link.unsent_bytes();
                let turn = &mut Turn { link, context, app };
                let websocket = &mut upgraded.websocket;
                websocket.publish(turn, publication, unsent_bytes);
            }
            Phase::H1(h1) => h1.publish(&mut Turn { link, context, app }, id, publication),
            Phase::H2(h2) => h2.publish(&mut Turn { link, context, app }, id, publication),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::upgraded::Upgraded;

    #[test]
    fn a_websocket_needs_no_more_than_the_record_of_its_connection() {
        assert!(size_of::<Upgraded>() <= 112, "{}", size_of::<Upgraded>());
        assert!(
            size_of::<Connection>() <= 256,
            "{}",
            size_of::<Connection>()
        );
    }
}
