//! Published messages that wait for the WebSockets of a connection: each of these has a limit, and all of them together have one.
//!
//! What waits is counted only when it may be too much. In between, `queued_bytes_max` of [`H2`] is what was counted, and what was published
//! since, of which some may have been sent.

use wire::websocket::{Role, frame_bytes};

use super::H2;
use super::handlers::guarded;
use super::stream::Stream;
use super::websocket::Carried;
use crate::app::App;
use crate::context::Context;
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::responder::messages::publication::Publication;

/// About what a frame takes besides its octets.
const RECORD_BYTES: usize = 80;

impl H2 {
    /// Whether the WebSocket `id` may be sent a published frame of `frame_bytes`; `link_bytes` wait for the socket.
    pub(crate) fn has_room_for(
        &self,
        context: &Context,
        id: ExchangeId,
        frame_bytes: usize,
        link_bytes: usize,
    ) -> bool {
        let index = self.index_of_exchange(id);
        let stream = index.and_then(|index| self.streams.get(index));
        stream.is_none_or(|stream| {
            let unsent_bytes = stream.unsent_bytes() + link_bytes;
            match stream.carried.as_deref() {
                Some(Carried::Open { websocket, .. }) => {
                    websocket.has_room_for(context, frame_bytes, unsent_bytes)
                        && self.has_room_for_all(context, frame_bytes, link_bytes)
                }
                Some(Carried::Offered { .. }) | None => true,
            }
        })
    }

    /// Whether one more frame is within the limit of the connection, or is the only one.
    #[inline]
    fn has_room_for_all(&self, context: &Context, frame_bytes: usize, link_bytes: usize) -> bool {
        let before_bytes = self.queued_bytes_max + link_bytes;
        let bytes = before_bytes + frame_bytes + RECORD_BYTES;
        bytes as u64 <= context.limits.websockets_queued_bytes_max() || before_bytes == 0
    }

    /// Sends a message that other subscribers of its topic receive too.
    pub(crate) fn publish<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        publication: &mut Publication,
    ) {
        let Some(index) = self.index_of_exchange(id) else {
            return;
        };
        let frame_bytes = publication.plain().len();
        let link_bytes = turn.link.unsent_bytes();
        if !self.has_room_for_all(turn.context, frame_bytes, link_bytes) {
            self.make_room(turn, index, frame_bytes);
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let unsent_bytes = stream.unsent_bytes() + link_bytes;
        let Some(Carried::Open { websocket, .. }) = stream.carried.as_deref_mut() else {
            return;
        };
        if !websocket.is_open() {
            return;
        }
        let frame_bytes = websocket.share(turn.context, publication).len();
        if !websocket.has_room_for(turn.context, frame_bytes, unsent_bytes) {
            return stream.close_slow(turn);
        }
        let before_bytes = websocket.queued_bytes();
        let _ = guarded(|| websocket.publish(turn, publication, unsent_bytes));
        self.queued_bytes_max += websocket.queued_bytes().saturating_sub(before_bytes);
    }

    /// Closes WebSockets, always the one that most waits for, until there is room for one more frame to that of a stream, or that is closed.
    #[cold]
    fn make_room<A: App>(&mut self, turn: &mut Turn<'_, A>, receiver: usize, frame_bytes: usize) {
        loop {
            self.queued_bytes_max = self.streams.iter().map(Stream::queued_bytes).sum();
            let link_bytes = turn.link.unsent_bytes();
            if self.has_room_for_all(turn.context, frame_bytes, link_bytes) {
                return;
            }
            let queued_bytes = |(index, stream): &(usize, &mut Stream)| match *index == receiver {
                true => stream.queued_bytes() + frame_bytes + RECORD_BYTES,
                false => stream.queued_bytes(),
            };
            let streams = self.streams.iter_mut().enumerate();
            let open = streams.filter(|(_, stream)| stream.has_open_websocket());
            let Some((index, most)) = open.max_by_key(queued_bytes) else {
                return;
            };
            most.close_slow(turn);
            if index == receiver {
                return;
            }
        }
    }
}

impl Stream {
    fn has_open_websocket(&self) -> bool {
        match self.carried.as_deref() {
            Some(Carried::Open { websocket, .. }) => websocket.is_open(),
            Some(Carried::Offered { .. }) | None => false,
        }
    }

    /// Memory of what waits to be sent to its WebSocket, if it carries one.
    fn queued_bytes(&self) -> usize {
        match self.carried.as_deref() {
            Some(Carried::Open { websocket, .. }) => self.output_bytes() + websocket.queued_bytes(),
            Some(Carried::Offered { .. }) | None => 0,
        }
    }

    /// Closes its WebSocket, whose client receives too slowly. Only a frame of which a part was sent precedes the close frame.
    #[cold]
    fn close_slow<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        self.keep_output(|chunk, sent_bytes| {
            let (mut start, mut end) = (0, 0);
            while end < sent_bytes {
                start = end;
                end += frame_bytes(chunk.get(start..)?, Role::Client)?;
            }
            Some((start, end))
        });
        if let Some(websocket) = self.carried.as_deref_mut().and_then(Carried::websocket) {
            let _ = guarded(|| websocket.close_slow(turn));
        }
    }
}
