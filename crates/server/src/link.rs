//! A transport and its buffers: bytes that the socket did not accept, how fast the peer takes them, what the socket is watched for, and
//! closing in two steps. Independent of the protocol.
//!
//! | receiving | means |
//! | --- | --- |
//! | `Open` | the peer may send more |
//! | `Ending` | the kernel reports that the peer sends no more; what it sent before may be unread |
//! | `Ended` | the end was read |

pub(crate) mod admission;
mod backlog;
mod departure;
mod forwarding;
mod sending;
mod session;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use net::{Interest, Peer, Poller, Received, Token};

use self::departure::Departure;
pub(crate) use self::sending::Delivery;
use self::sending::Sending;
use crate::app::circumstances::Circumstances;
use crate::app::{Abort, App};
use crate::context::Context;
use crate::id::{ConnectionId, ExchangeId};
use crate::responder::batch::Exit;

/// What a connection may use in its turn.
pub(crate) struct Turn<'a, A> {
    pub(crate) link: &'a mut Link,
    pub(crate) context: &'a mut Context,
    pub(crate) app: &'a mut A,
}

/// What happens to a connection after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its socket, its application or its deadline moves it next.
    Open,
    /// It has more to do, and continues after the other connections' turns.
    Again,
    /// It has finished: it is closed in two steps.
    End(Unread),
    /// It was truncated: it is reset as soon as what was sent has arrived.
    Cut,
    /// It is closed at once: nothing is owed.
    Close,
    /// It has become a WebSocket: it changes its protocol, and continues.
    Upgrade,
    /// It is reset now: an ordinary close would look like the end of a response.
    Reset,
}

/// What the peer of a connection that ends may have sent besides what was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// Nothing: it announced that its request was the last one.
    Nothing,
    /// A request: it does not expect the end.
    Possible,
    /// More than was read.
    Some,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Receiving {
    Open,
    Ending,
    Ended,
}

/// What the poller watches the socket for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watch {
    /// Nothing yet: this is the first turn of the connection.
    None,
    /// As `None`, but the last read may have left input.
    NoneMissed,
    For(Interest),
    /// As `For`, but the last read may have left input, which an edge-triggered set does not report again.
    Missed(Interest),
}

/// The connection is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// A response of at most this length fits into the first packets of a connection (RFC 6928): closing right after it loses nothing.
const PROMPT_BYTES: u64 = 14_600;

/// One end of a connection.
pub(crate) struct Link {
    /// Shared with [`crate::responder::batch::Exits`].
    pub(crate) transport: Arc<Exit>,
    pub(crate) id: ConnectionId,
    /// Those of requests of which proxies say nothing.
    pub(crate) circumstances: Circumstances,
    /// The requests are those of a client whose address its proxy does not know: what they say of clients is not the proxy's word.
    pub(crate) is_of_unknown: bool,
    receiving: Receiving,
    sending: Sending,
    watch: Watch,
    /// The kernel resets the connection when the socket is closed.
    is_guarded: bool,
    /// It is to do that while something is unsent: the end of the connection is that of a complete response.
    guards_unsent: bool,
    /// Total bytes that the socket accepted.
    sent_bytes: u64,
    /// The last time the socket accepted bytes or reported that the peer sends no more.
    moved_ms: u64,
    /// Set once the peer has ended its side while something was owed to it.
    departure: Option<Box<Departure>>,
}

impl Link {
    pub(crate) fn new(
        transport: Arc<Exit>,
        id: ConnectionId,
        (client, server): (Peer, Arc<Peer>),
        now_ms: u64,
    ) -> Link {
        Link {
            transport,
            id,
            circumstances: Circumstances::between(client, server),
            is_of_unknown: false,
            receiving: Receiving::Open,
            sending: Sending::Open,
            watch: Watch::None,
            is_guarded: false,
            guards_unsent: false,
            sent_bytes: 0,
            moved_ms: now_ms,
            departure: None,
        }
    }

    // Receiving.

    /// Reads into `buffer`; see [`Link::note`].
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Received {
        self.transport.receive(buffer)
    }

    /// Reads into uninitialized memory; see [`Link::note`].
    pub(crate) fn receive_into(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> Received {
        self.transport.receive_into(room)
    }

    /// Records the result of a read into `room_bytes` of memory: whether input may be left, and the peer's end. `has_ended` if the kernel
    /// reported the end with the event.
    #[inline]
    pub(crate) fn note(
        &mut self,
        received: &Received,
        room_bytes: usize,
        has_ended: bool,
        context: &mut Context,
    ) {
        match received {
            Received::Bytes(count) => {
                context.metrics.received(*count);
                if has_ended || self.transport.may_be_unread(*count, room_bytes) {
                    self.note_unread();
                }
            }
            Received::End => {
                self.note_peer_end(context.clock.now_ms());
                self.receiving = Receiving::Ended;
            }
            // A record in part, or without content, was read, and there may be more.
            Received::Blocked => {
                if has_ended || self.transport.may_be_unread(0, room_bytes) {
                    self.note_unread();
                }
            }
            Received::Broken(error) => context.note_broken(error),
        }
    }

    /// The socket may have input that was reported already.
    pub(crate) fn note_unread(&mut self) {
        self.watch = match self.watch {
            Watch::None | Watch::NoneMissed => Watch::NoneMissed,
            Watch::For(interest) | Watch::Missed(interest) => Watch::Missed(interest),
        };
    }

    /// The peer sends no more, although there may be unread input.
    pub(crate) fn note_peer_end(&mut self, now_ms: u64) {
        if self.receiving == Receiving::Open {
            self.receiving = Receiving::Ending;
            self.moved_ms = now_ms;
        }
    }

    /// Whether the peer is known to send no more.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.receiving != Receiving::Open
    }

    /// Whether everything that the peer sent has been read.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.receiving == Receiving::Ended
    }

    /// The peer sends no more while a handler works for it: starts to check whether the peer is still present.
    pub(crate) fn watch_departure(&mut self, now_ms: u64) {
        if self.departure.is_none() {
            let departure = Departure::new(self.acknowledged_bytes(), now_ms);
            self.departure = Some(Box::new(departure));
        }
    }

    /// As [`Link::watch_departure`], for a request that begins: a peer that seemed to be gone may have received responses since.
    pub(crate) fn watch_departure_anew(&mut self, now_ms: u64) {
        if self.seems_gone() {
            self.departure = None;
        }
        self.watch_departure(now_ms);
    }

    /// Whether a peer that sends no more appears not to receive either.
    pub(crate) fn seems_gone(&self) -> bool {
        self.departure
            .as_ref()
            .is_some_and(|departure| departure.is_complete())
    }

    /// Checks whether the peer is still present. Returns true when it is first detected to be gone.
    pub(crate) fn check_departure(&mut self, now_ms: u64) -> bool {
        let is_owed = self.is_full() || self.transport.unacknowledged_bytes() > 0;
        let acknowledged = self.acknowledged_bytes();
        self.departure
            .as_mut()
            .is_some_and(|departure| departure.check(acknowledged, is_owed, now_ms))
    }

    // Watching.

    /// Whether the poller watches the socket. If not, only the deadline ends the connection.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.watch, Watch::For(_) | Watch::Missed(_))
    }

    /// Watches the socket for input if `is_read`, for room if it is full, and for the peer's end until that is known.
    #[inline]
    pub(crate) fn update_watch(&mut self, poller: &Poller, is_read: bool) {
        let wanted = Interest {
            read: is_read && self.receiving != Receiving::Ended,
            write: self.is_full() || self.transport.owes(),
            end: self.receiving == Receiving::Open,
        };
        if self.watch != Watch::For(wanted) {
            self.watch_for(poller, wanted);
        }
    }

    fn watch_for(&mut self, poller: &Poller, wanted: Interest) {
        let token = self.id.token();
        let socket = self.transport.as_fd();
        let watched = match self.watch {
            Watch::None | Watch::NoneMissed => poller.add_edge(socket, token, wanted),
            Watch::For(_) | Watch::Missed(_) => poller.modify_edge(socket, token, wanted),
        };
        // If this fails (the system's limit of watches), only the deadline ends the connection.
        if watched.is_ok() {
            self.watch = Watch::For(wanted);
        }
    }

    // Closing.

    /// Sends held bytes now: a file that should have followed was empty, and the kernel delays what precedes it.
    pub(crate) fn push(&self) {
        self.transport.push();
    }

    /// Whether the peer can detect a reset. On a UNIX socket it sees an ordinary end.
    pub(crate) fn can_reset(&self) -> bool {
        self.transport.is_tcp
    }

    /// Whether the end of this process is to reset the connection, however it ends. On while an ordinary close would look like the end of a
    /// response.
    pub(crate) fn guard(&mut self, is_on: bool) {
        if self.is_guarded != is_on {
            self.is_guarded = is_on;
            self.transport.set_reset_on_close(is_on);
        }
    }

    /// As [`Link::guard`], for a complete response that ends with the connection, until the socket has accepted it. `unsent` follows at
    /// once.
    ///
    /// Cost: nothing for a short one, which the socket accepts.
    pub(crate) fn guard_until_sent(&mut self, unsent: &[u8]) {
        self.guards_unsent = true;
        if self.is_full() || unsent.len() as u64 > PROMPT_BYTES {
            self.guard(true);
        }
    }

    /// First step: ends the sending side, if that cannot wait for the second. Returns true if the second step has to wait, because closing
    /// now could destroy data that the peer has not read: it sent more than was read, or much is still on its way.
    ///
    /// A request that arrives between these system calls and the close makes that a reset. If one is possible, the sending side ends before
    /// input is looked for: a peer that has received the end does not see the reset (TCP on Linux).
    pub(crate) fn shut(&mut self, context: &Context, unread: Unread) -> bool {
        let ends_first = unread == Unread::Possible && !self.has_ended();
        if ends_first {
            self.end_before_request();
        }
        let has_unread = || match unread {
            // In a first turn that took no time, everything was read just now.
            Unread::Nothing if self.watch == Watch::None && context.share.has_taken_no_time() => {
                false
            }
            Unread::Nothing | Unread::Possible => self.transport.unread_bytes() > 0,
            Unread::Some => true,
        };
        let is_on_its_way = || {
            let may_be = self.sent_bytes > PROMPT_BYTES;
            may_be && self.transport.unacknowledged_bytes() > PROMPT_BYTES
        };
        let waits = !self.has_ended() && (has_unread() || is_on_its_way());
        // The end of the sending side follows an announcement only after that was sent.
        let waits = !self.transport.announce_end() || waits;
        if !ends_first && (waits || net::has_forked()) {
            self.transport.shutdown_send();
        }
        waits
    }

    /// Ends the connection for a peer that may be sending a request.
    fn end_before_request(&self) {
        if !self.end_input() {
            self.transport.shutdown_send();
        }
    }

    /// Ends both sides of a UNIX socket, after the announcement of the end; what has arrived can still be read. It would report a reset even to
    /// a peer that has received the end, so nothing may arrive after that. Returns false if it is not one, or the announcement is still to be
    /// sent.
    pub(crate) fn end_input(&self) -> bool {
        let ends = !self.transport.is_tcp && self.transport.announce_end();
        if ends {
            self.transport.shutdown_both();
        }
        ends
    }

    /// Second step: closes the socket. A child process may hold a copy of the descriptor; that copy neither keeps the connection open nor
    /// causes events here.
    pub(crate) fn close(self, poller: &Poller, fate: Fate) {
        let is_copied = net::has_forked();
        if is_copied && matches!(self.watch, Watch::For(_) | Watch::Missed(_)) {
            let _ = poller.remove(self.transport.as_fd());
        }
        if fate != Fate::Reset {
            self.transport.announce_end();
        }
        match fate {
            Fate::Reset => self.transport.reset(),
            // The first step was taken, and the second need not wait.
            Fate::End(_) => {}
            _ if is_copied => self.transport.shutdown_both(),
            _ => {}
        }
    }
}

impl ConnectionId {
    /// Its token in the poller.
    pub(crate) fn token(self) -> Token {
        Token::from(self.generation) << 32 | Token::from(self.key)
    }
}

impl<A: App> Turn<'_, A> {
    /// Notifies the handler of an exchange that its response ends. That closes the generator of a streamed response, which may take any
    /// amount of time: the responses that wait are sent first.
    #[cold]
    pub(crate) fn abort(&mut self, id: ExchangeId, why: Abort) {
        self.context.responder.batch.send_now();
        self.app.abort(id, why);
    }
}

impl<A> Turn<'_, A> {
    /// Milliseconds of the monotonic clock.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.context.clock.now_ms()
    }
}
