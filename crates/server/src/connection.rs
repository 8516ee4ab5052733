//! One connection: a link, and the protocol used over it.
//!
//! | phase | until | then |
//! | --- | --- | --- |
//! | `Handshake` | the TLS handshake is complete; `tls_handshake_timeout_ms` | `Preface`; closed |
//! | `Preface` | a PROXY header has arrived, if one is expected; `header_timeout_ms` | `Handshake`, `Preface`; closed |
//! | `Preface` | the first bytes arrive, which select the protocol; `header_timeout_ms` | the protocol; `Lingering`, or closed |
//! | `H1` | a handshake is accepted ([`Fate::Upgrade`]) | `WebSocket` |
//! | `H1`, `H2`, `WebSocket` | the protocol has finished ([`Fate::End`]) or was truncated ([`Fate::Cut`]) | `Lingering`, `Cutting`, or closed |
//! | `Lingering` | the peer ends its side, or has received everything and is silent for `linger_timeout_ms`; it sends for too long | closed |
//! | `Lingering` | it is stuck | reset |
//! | `Cutting` | the peer has received what was sent; it is stuck | reset |
//! | `Handshake` without a whole ClientHello, `Lingering` | its place is needed (`reactor/reaping.rs`) | closed |
//!
//! Two invariants hold. Every open connection has a deadline, an application that owes a response, or a turn that is due. When all
//! applications have responded and all peers have ended, nothing is left (`tests/model/main.rs`).

pub(crate) mod admission;
mod handshake;
pub(crate) mod holding;
mod preface;
mod proxy_header;
mod websocket;

use std::sync::Arc;

use net::{Peer, Poller, Received};

use self::handshake::Handshake;
use self::preface::First;
use crate::app::{Abort, App};
use crate::context::Context;
use crate::context::metrics::HandshakeEnd;
use crate::exchange::Unfinished;
use crate::h1::H1;
use crate::h2::H2;
use crate::id::{ConnectionId, ExchangeId};
use crate::link::{Delivery, Fate, Link, Turn, Unread};
use crate::mailbox::Command;
use crate::responder::batch::Exit;
use crate::timeouts::Timeouts;
use crate::websocket::upgraded::Upgraded;

/// Maximum bytes that are discarded of a connection while the server stops.
const STOPPING_DISCARDED_BYTES: u64 = 1 << 20;

enum Phase {
    Handshake(Handshake),
    Preface {
        since_ms: u64,
        first: First,
    },
    H1(H1),
    H2(Box<H2>),
    WebSocket(Upgraded),
    Lingering {
        /// When to check whether everything has arrived, or the last time the peer sent anything after it had.
        arrived: Arrived,
        since_ms: u64,
    },
    Cutting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrived {
    CheckedAt(u64),
    Since(u64),
}

/// One connection and its state.
pub(crate) struct Connection {
    link: Link,
    phase: Phase,
    /// The connection exceeds the limit and only gets a refusal.
    is_turned_away: bool,
    /// It is in the reactor's queue of turns.
    has_turn: bool,
    /// Bytes that it is charged for.
    accounted_bytes: usize,
    /// Since when they are many.
    holds_since_ms: u64,
}

/// Runs `$serve` for the protocol of a connection, whichever it is.
macro_rules! with_protocol {
    ($phase:expr, $protocol:ident => $serve:expr, _ => $otherwise:expr) => {
        match $phase {
            Phase::H1($protocol) => $serve,
            Phase::H2($protocol) => $serve,
            Phase::WebSocket($protocol) => $serve,
            Phase::Handshake(_)
            | Phase::Preface { .. }
            | Phase::Lingering { .. }
            | Phase::Cutting => $otherwise,
        }
    };
}

impl Connection {
    pub(crate) fn new(
        transport: Arc<Exit>,
        id: ConnectionId,
        peers: (Peer, Arc<Peer>),
        (now_ms, expects_header): (u64, bool),
    ) -> Connection {
        let phase = Phase::first(now_ms, transport.is_handshaking(), expects_header);
        Connection {
            link: Link::new(transport, id, peers, now_ms),
            phase,
            is_turned_away: false,
            has_turn: false,
            accounted_bytes: 0,
            holds_since_ms: now_ms,
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> ConnectionId {
        self.link.id
    }

    /// Reads available bytes into `buffer` without serving them; see [`Connection::received`].
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Received {
        self.link.receive(buffer)
    }

    /// Whether the next input starts a request or continues its head.
    #[inline]
    pub(crate) fn waits_for_request(&self) -> bool {
        match &self.phase {
            Phase::H1(h1) => h1.waits_for_request(),
            Phase::H2(h2) => h2.waits_for_request(),
            Phase::WebSocket(websocket) => websocket.waits_for_message(&self.link),
            Phase::Handshake(_)
            | Phase::Preface { .. }
            | Phase::Lingering { .. }
            | Phase::Cutting => false,
        }
    }

    /// Reads once and serves what was read.
    pub(crate) fn readable<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        buffer: &mut [u8],
        has_ended: bool,
    ) -> Fate {
        if !self.takes_input(context) {
            self.note_unread(true);
            self.hold_back(context);
            return Fate::Open;
        }
        if let Phase::H1(h1) = &mut self.phase
            && let Some(room) = h1.room(context, app)
        {
            let room_bytes = room.len();
            let received = self.link.receive_into(room);
            self.link.note(&received, room_bytes, has_ended, context);
            let link = &mut self.link;
            let turn = &mut Turn { link, context, app };
            let fate = match received {
                Received::Bytes(count) => {
                    h1.filled(turn, count);
                    h1.settle(turn)
                }
                received => h1.received(turn, &received, &[]),
            };
            return self.conclude(context, app, fate);
        }
        if let Phase::Preface { .. } = self.phase
            && let Some(fate) = self.proxy_header(context, buffer, has_ended)
        {
            return fate;
        }
        let received = self.link.receive(buffer);
        self.received(context, app, received, buffer, has_ended)
    }

    /// Serves what was read into `buffer`.
    #[inline]
    pub(crate) fn received<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        received: Received,
        buffer: &mut [u8],
        has_ended: bool,
    ) -> Fate {
        self.link.note(&received, buffer.len(), has_ended, context);
        if let Phase::H1(h1) = &mut self.phase {
            let link = &mut self.link;
            let fate = h1.received(&mut Turn { link, context, app }, &received, buffer);
            return self.conclude(context, app, fate);
        }
        self.received_otherwise(context, app, received, buffer)
    }

    fn received_otherwise<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        received: Received,
        buffer: &mut [u8],
    ) -> Fate {
        if matches!(self.phase, Phase::Handshake(_)) {
            if let Received::End | Received::Broken(_) = received {
                self.leave_handshake(context, HandshakeEnd::Failed);
                let has_failed = match &received {
                    Received::Broken(error) => self.note_failure(context, error),
                    _ => false,
                };
                // An alert may have been sent, which input that is still under way must not destroy.
                return self.end(
                    context,
                    match has_failed {
                        true => Unread::Some,
                        false => Unread::Possible,
                    },
                );
            }
            if self.link.is_handshaking() {
                return Fate::Open;
            }
            if !self.complete_handshake(context) {
                return self.end(context, Unread::Possible);
            }
        }
        let link = &mut self.link;
        match (&mut self.phase, received) {
            (Phase::H2(h2), received) => {
                let fate = h2.received(&mut Turn { link, context, app }, &received, buffer);
                self.conclude(context, app, fate)
            }
            (Phase::WebSocket(websocket), received) => {
                let fate = websocket.received(&mut Turn { link, context, app }, &received, buffer);
                self.conclude(context, app, fate)
            }
            (_, Received::Blocked) => Fate::Open,
            (_, Received::End | Received::Broken(_)) => Fate::Close,
            (Phase::Preface { .. }, Received::Bytes(count)) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                self.start(context, app, bytes)
            }
            (Phase::Lingering { arrived, .. }, Received::Bytes(_)) => {
                if let Arrived::Since(since_ms) = arrived {
                    *since_ms = context.clock.now_ms();
                }
                Fate::Open
            }
            (_, Received::Bytes(_)) => Fate::Open,
        }
    }

    /// The kernel reports that the peer sends no more, and there is nothing to read.
    pub(crate) fn peer_ended<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        match &mut self.phase {
            Phase::H1(h1) => h1.peer_ended(&mut Turn { link, context, app }),
            Phase::H2(h2) => h2.peer_ended(&mut Turn { link, context, app }),
            Phase::Handshake(_)
            | Phase::Preface { .. }
            | Phase::WebSocket(_)
            | Phase::Lingering { .. } => {
                link.note_peer_end(context.clock.now_ms());
            }
            Phase::Cutting => {
                link.note_peer_end(context.clock.now_ms());
                // The peer's end acknowledged what it has received.
                return self.cut(context);
            }
        }
        Fate::Open
    }

    /// The socket accepts bytes again.
    pub(crate) fn writable<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        if !self.link.send_owed() {
            return self.abandon(context, app);
        }
        let is_lingering = matches!(self.phase, Phase::Lingering { .. });
        if is_lingering && self.link.has_ended() && !self.link.owes() {
            return Fate::End(Unread::Nothing);
        }
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = with_protocol!(&mut self.phase,
            protocol => protocol.writable(turn), _ => Fate::Open);
        self.conclude(context, app, fate)
    }

    /// Sends and continues as far as possible.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = with_protocol!(&mut self.phase,
            protocol => protocol.settle(turn), _ => Fate::Open);
        self.conclude(context, app, fate)
    }

    /// `bytes` of its unsent bytes were sent while another connection had its turn.
    #[cold]
    pub(crate) fn was_sent(&mut self, context: &mut Context, count: usize) {
        self.link.was_sent(context, count);
    }

    /// Whether something that was written and is next has not been sent.
    pub(crate) fn has_unsent(&self) -> bool {
        let has_output = match &self.phase {
            Phase::H1(h1) => h1.has_output(),
            phase => with_protocol!(phase, protocol => protocol.has_file(), _ => false),
        };
        self.link.is_full() || has_output
    }

    /// Whether it has read more than it could use, so that a request may start in its turn.
    pub(crate) fn has_unused_input(&self) -> bool {
        with_protocol!(&self.phase, protocol => protocol.has_unused_input(), _ => false)
    }

    /// Sends what has been written, and requests another turn.
    pub(crate) fn send_written<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = with_protocol!(&mut self.phase,
            protocol => protocol.send_written(turn), _ => Fate::Open);
        self.conclude(context, app, fate)
    }

    #[inline]
    pub(crate) fn is_turned_away(&self) -> bool {
        self.is_turned_away
    }

    /// Requests another turn. Returns true if it was not in the queue of turns already.
    pub(crate) fn asks_turn(&mut self) -> bool {
        !std::mem::replace(&mut self.has_turn, true)
    }

    /// Runs the turn that it requested with [`Fate::Again`].
    pub(crate) fn proceed<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        buffer: &mut [u8],
    ) -> Fate {
        self.has_turn = false;
        if self.link.has_buffered() && self.takes_input(context) {
            return self.readable(context, app, buffer, false);
        }
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = with_protocol!(&mut self.phase,
            protocol => protocol.proceed(turn), _ => Fate::Open);
        self.conclude(context, app, fate)
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        match &mut self.phase {
            Phase::H1(_) | Phase::H2(_) | Phase::WebSocket(_) => {
                let link = &mut self.link;
                let turn = &mut Turn { link, context, app };
                let fate = with_protocol!(&mut self.phase,
                    protocol => protocol.expire(turn), _ => Fate::Open);
                self.conclude(context, app, fate)
            }
            Phase::Preface { .. } => self.late_preface(context),
            Phase::Handshake(_) => self.late_handshake(context),
            Phase::Cutting => match self.link.check_delivery(context) {
                Delivery::UnderWay if self.link.delivery_check_ms() < u64::MAX => Fate::Open,
                _ => Fate::Reset,
            },
            Phase::Lingering { arrived, since_ms } => match arrived {
                _ if lingering_end_ms(*since_ms, context) <= context.clock.now_ms() => Fate::Close,
                Arrived::Since(_) => Fate::Close,
                Arrived::CheckedAt(_) => {
                    let delivery = self.link.check_delivery(context);
                    let now_ms = context.clock.now_ms();
                    match delivery {
                        Delivery::Stuck => return Fate::Reset,
                        Delivery::Complete => *arrived = Arrived::Since(now_ms),
                        Delivery::UnderWay => *arrived = Arrived::CheckedAt(now_ms),
                    }
                    Fate::Open
                }
            },
        }
    }

    /// Executes a command that a handler posted. Nothing is sent before [`Connection::settle`].
    pub(crate) fn obey<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        id: ExchangeId,
        command: Command,
    ) {
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        with_protocol!(&mut self.phase, protocol => protocol.obey(turn, id, command), _ => ());
    }

    /// Notifies every handler still working for this connection that it has ended.
    pub(crate) fn abandon<A: App>(&mut self, context: &mut Context, app: &mut A) -> Fate {
        let link = &mut self.link;
        match &mut self.phase {
            Phase::H1(h1) => h1.abandon(&mut Turn { link, context, app }, Abort::Disconnected),
            Phase::H2(h2) => h2.abandon(&mut Turn { link, context, app }, Abort::Disconnected),
            Phase::WebSocket(websocket) => websocket.abandon(&mut Turn { link, context, app }),
            Phase::Cutting => Fate::Reset,
            Phase::Handshake(_) | Phase::Preface { .. } | Phase::Lingering { .. } => Fate::Close,
        }
    }

    /// The server shuts down: requests without a started response get a 503, everything else is given up.
    pub(crate) fn stop<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        buffer: &mut [u8],
        unfinished: &mut Unfinished,
    ) -> Fate {
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = with_protocol!(&mut self.phase,
            protocol => protocol.stop(turn, unfinished), _ => self.abandon(context, app));
        let has_begun = !matches!(
            self.phase,
            Phase::Handshake(_)
                | Phase::Preface {
                    first: First::ProxyHeader,
                    ..
                }
        );
        if fate != Fate::Reset && has_begun {
            self.say_end(context, buffer);
        }
        fate
    }

    /// Ends the sending side, and discards what has arrived: unread input would make the kernel reset the connection and discard the response.
    fn say_end(&mut self, context: &Context, buffer: &mut [u8]) {
        if !self.link.shut(context, Unread::Some) {
            return;
        }
        // What arrives after the last read would be unread.
        self.link.end_input();
        let mut left = STOPPING_DISCARDED_BYTES;
        while left > 0
            && let Received::Bytes(count) = self.link.receive(buffer)
        {
            left = left.saturating_sub(count as u64);
        }
    }

    /// Takes the first step of closing a connection that has finished.
    #[inline]
    fn conclude<A: App>(&mut self, context: &mut Context, app: &mut A, fate: Fate) -> Fate {
        match fate {
            Fate::End(unread) => self.end(context, unread),
            Fate::Cut => self.cut(context),
            Fate::Upgrade => self.upgrade(context, app),
            Fate::Open if self.link.has_buffered() && self.takes_input(context) => Fate::Again,
            fate => fate,
        }
    }

    fn end(&mut self, context: &Context, unread: Unread) -> Fate {
        if !self.link.shut(context, unread) || context.timeouts.linger_timeout_ms == 0 {
            return Fate::End(unread);
        }
        let now_ms = context.clock.now_ms();
        let arrived = match self.link.check_delivery(context) {
            Delivery::Complete => Arrived::Since(now_ms),
            Delivery::UnderWay | Delivery::Stuck => Arrived::CheckedAt(now_ms),
        };
        self.phase = Phase::Lingering {
            arrived,
            since_ms: now_ms,
        };
        Fate::Open
    }

    /// A reset discards what has not arrived.
    fn cut(&mut self, context: &Context) -> Fate {
        let waits = self.link.can_reset() && context.timeouts.linger_timeout_ms > 0;
        if waits {
            self.link.push();
        }
        if waits && self.link.check_delivery(context) == Delivery::UnderWay {
            self.phase = Phase::Cutting;
            return Fate::Open;
        }
        Fate::Reset
    }

    /// When the connection has to act; `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline_ms(&self, context: &Context) -> u64 {
        match &self.phase {
            Phase::H1(h1) => h1.deadline_ms(&self.link, context),
            Phase::H2(h2) => h2.deadline_ms(&self.link, context),
            Phase::WebSocket(websocket) => websocket.deadline_ms(&self.link, context),
            Phase::Handshake(handshake) => handshake.deadline_ms(context),
            Phase::Preface { since_ms, .. } => {
                let end_ms = Timeouts::end_ms(*since_ms, context.timeouts.header_timeout_ms);
                match context.draining_since_ms {
                    Some(drain_ms) => {
                        end_ms.min(drain_ms.max(*since_ms) + context.draining_idle_ms)
                    }
                    None => end_ms,
                }
            }
            Phase::Lingering { arrived, since_ms } => {
                let (Arrived::CheckedAt(moved_ms) | Arrived::Since(moved_ms)) = arrived;
                let end_ms = moved_ms.saturating_add(context.timeouts.linger_timeout_ms);
                let end_ms = end_ms.min(lingering_end_ms(*since_ms, context));
                match arrived {
                    Arrived::CheckedAt(_) => end_ms.min(self.link.delivery_check_ms()),
                    Arrived::Since(_) => end_ms,
                }
            }
            // Without a minimum rate, arrival is awaited for as long as a peer may linger.
            Phase::Cutting => {
                let linger_ms = context.timeouts.linger_timeout_ms.max(1);
                match self.link.delivery_check_ms() {
                    u64::MAX => self.link.moved_ms().saturating_add(linger_ms),
                    check_ms => check_ms,
                }
            }
        }
    }

    /// The clock moved during a turn: waits that started in it count from its end.
    #[cold]
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64, context: &Context) {
        self.link.exclude_turn(from_ms, to_ms, context);
        match &mut self.phase {
            Phase::H1(h1) => h1.exclude_turn(from_ms, to_ms),
            Phase::H2(h2) => h2.exclude_turn(from_ms, to_ms),
            Phase::WebSocket(upgraded) => upgraded.websocket.exclude_turn(from_ms, to_ms),
            Phase::Preface { since_ms, .. } if *since_ms >= from_ms => *since_ms = to_ms,
            _ => {}
        }
    }

    #[inline]
    fn takes_input(&self, context: &Context) -> bool {
        match &self.phase {
            Phase::H1(h1) => h1.takes_input(&self.link, context),
            Phase::H2(h2) => h2.takes_input(&self.link),
            Phase::WebSocket(websocket) => websocket.takes_input(&self.link, context),
            Phase::Handshake(_) | Phase::Preface { .. } | Phase::Lingering { .. } => true,
            Phase::Cutting => false,
        }
    }

    /// If `is_left`, reported input was not read, and has to be reported again.
    pub(crate) fn note_unread(&mut self, is_left: bool) {
        if is_left {
            self.link.note_unread();
        }
    }

    /// Makes the poller watch for what the connection waits for.
    #[inline]
    pub(crate) fn update_watch(&mut self, poller: &Poller, context: &Context) {
        let is_read = self.takes_input(context);
        self.link.update_watch(poller, is_read);
    }

    /// Closes the socket.
    pub(crate) fn close(mut self, poller: &Poller, context: &mut Context, fate: Fate) {
        self.leave_handshake(context, HandshakeEnd::Failed);
        context.charge(self.accounted_bytes, 0);
        self.link.close(poller, fate);
    }
}

fn lingering_end_ms(since_ms: u64, context: &Context) -> u64 {
    since_ms.saturating_add(context.timeouts.lingering_ms_max())
}
