//! Requests that ask for a WebSocket (RFC 6455 4.2).
//!
//! A handshake has no request before it that is incomplete, and nothing after it is read until the application has decided. What arrived
//! with it belongs to the WebSocket; if the application refuses, the connection ends after the response.

use wire::{RequestHead, Version, field_lines, trim_ows};

use super::input::Refused;
use super::queue::{Encoding, Queued};
use super::{H1, Reading};
use crate::app::head::Head;
use crate::app::websocket::{Offer, Opening};
use crate::app::{App, Content};
use crate::context::refusal::LostUpgrade;
use crate::exchange::{Exchange, Progress};
use crate::id::ExchangeId;
use crate::link::Turn;
use crate::mailbox::Command;
use crate::responder::messages::publication::Publication;
use crate::responder::{Delimiter, Fields, Framing};
use crate::websocket::WebSocket;
use crate::websocket::opening::check_h1;
use crate::websocket::upgraded::Upgraded;

const SWITCHING_PROTOCOLS: u16 = 101;

/// Reports a request with Sec-WebSocket-Key that does not ask for WebSocket, as a proxy sends it that does not forward the upgrade.
#[cold]
pub(super) fn report_lost_upgrade<A: App>(turn: &mut Turn<'_, A>, head: &RequestHead<'_>) {
    let seen = Head::of(head);
    if !turn.app.takes_websocket(&seen) {
        let path = turn.app.has_websockets().then(|| seen.path());
        return turn.context.refusals.add_websocket(path);
    }
    let lost = match (head.version, names_websocket(head.field_section)) {
        (Version::Http10, _) => LostUpgrade::Version,
        (_, false) => LostUpgrade::Upgrade,
        (_, true) => LostUpgrade::Connection,
    };
    turn.context.refusals.add_lost_upgrade(lost);
}

fn names_websocket(field_section: &[u8]) -> bool {
    field_lines(field_section)
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"upgrade"))
        .flat_map(|(_, value)| value.split(|octet| *octet == b','))
        .any(|protocol| trim_ows(protocol).eq_ignore_ascii_case(b"websocket"))
}

impl H1 {
    /// Serves a request that asks for a WebSocket, if the application takes it as that. Returns false if not.
    #[cold]
    pub(super) fn handshake<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
    ) -> bool {
        let seen = Head::of(head);
        if !turn.app.takes_websocket(&seen) {
            let path = turn.app.has_websockets().then(|| seen.path());
            turn.context.refusals.add_websocket(path);
            return false;
        }
        let checked = check_h1(head, &turn.context.websockets);
        let handshake = match checked.and_then(|handshake| handshake.counted(turn, head)) {
            Ok(handshake) => handshake,
            Err(refused) => {
                let response = refused.response();
                self.refuse_with(turn, Refused::Head(head), refused.reason, &response);
                return true;
            }
        };
        let id = ExchangeId {
            connection: turn.link.id.key,
            sequence: turn.context.next_sequence(),
        };
        if !turn.context.responder.out.is_empty() {
            // Earlier responses do not wait for the application. What runs next detects a broken connection.
            let _ = turn.link.flush(turn.context, false);
        }
        let responder = &mut turn.context.responder;
        responder.message_begins(false);
        let said = (&turn.context.proxies, &mut turn.context.forwarded);
        let content = Content::Whole(b"");
        let request = turn.link.request(said, responder, head, (content, id));
        let field_section = head.field_section;
        let offer = Offer { field_section };
        turn.app.websocket(&request, &offer, responder);
        let began_ms = turn.now_ms();
        turn.context.clock.tick();
        self.reading = Reading::Handshake(Box::new(handshake));
        let queued = Queued {
            exchange: Exchange {
                record: turn.record(began_ms, Some(head), (0, 0)),
                ..Exchange::new(id, turn.now_ms(), turn.context.bounds.handler_timeout_ms)
            },
            encoding: Encoding {
                framing: Framing {
                    is_head: false,
                    version: Version::Http11,
                    persistent: false,
                },
                delimiter: Delimiter::End,
            },
            is_safe: false,
        };
        self.queue.push_back(queued);
        true
    }

    /// The application accepts.
    pub(super) fn accept<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        opening: &Opening,
    ) {
        let Reading::Handshake(handshake) = &mut self.reading else {
            return;
        };
        let Some(queued) = self
            .queue
            .back_mut()
            .filter(|queued| queued.exchange.id == id)
        else {
            return;
        };
        let exchange = &mut queued.exchange;
        if exchange.progress != Progress::Waiting {
            return;
        }
        let websocket = WebSocket::new(id, handshake, turn.context);
        let stamp = &turn.context.responder.stamp;
        let [server, date, ..] = stamp.sections(Fields::of_application(&opening.fields));
        let fields = [server, date, &handshake.fields(opening)].concat();
        wire::push_interim(exchange.out.tail(), SWITCHING_PROTOCOLS, &fields);
        exchange.progress = Progress::Done;
        exchange.record.begin(SWITCHING_PROTOCOLS, 0, &fields);
        queued.encoding.framing.persistent = true;
        self.reading = Reading::Upgraded(Box::new(websocket));
    }

    /// The WebSocket that the connection becomes, once the response that accepts it has been passed on to the link.
    pub(crate) fn upgrade(&mut self) -> Option<Upgraded> {
        let closing = Reading::Closing(super::Ending::Read);
        match std::mem::replace(&mut self.reading, closing) {
            Reading::Upgraded(websocket) => {
                Some(Upgraded::new(*websocket, std::mem::take(&mut self.input)))
            }
            reading => {
                self.reading = reading;
                None
            }
        }
    }

    /// Whether the handshake's response has been passed on to the link.
    #[inline]
    pub(super) fn is_upgraded(&self) -> bool {
        self.queue.is_empty() && matches!(self.reading, Reading::Upgraded(_))
    }

    /// Executes a command for the WebSocket before the connection has become one.
    pub(super) fn obey_websocket<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        command: Command,
    ) {
        if let Reading::Upgraded(websocket) = &mut self.reading
            && websocket.id == id
        {
            websocket.obey(turn, command);
        }
    }

    /// Sends a message to a subscriber whose connection has not become a WebSocket yet: it follows the response that accepts.
    pub(crate) fn publish<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        publication: &mut Publication,
    ) {
        if let Reading::Upgraded(websocket) = &mut self.reading
            && websocket.id == id
        {
            let unsent_bytes = turn.link.unsent_bytes();
            websocket.publish(turn, publication, unsent_bytes);
        }
    }

    /// As [`WebSocket::shared_burden`].
    pub(crate) fn shared_burden(&self, now_ms: u64) -> u64 {
        match &self.reading {
            Reading::Upgraded(websocket) => websocket.shared_burden(now_ms),
            _ => 0,
        }
    }

    /// The connection has ended before it became a WebSocket that the application has accepted.
    pub(super) fn lose_websocket<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if let Some(Upgraded { mut websocket, .. }) = self.upgrade() {
            websocket.lost(turn);
        }
    }
}
