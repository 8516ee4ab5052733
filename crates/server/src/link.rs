//! A transport and its buffers: bytes that the socket did not accept, how fast the peer takes them, what the socket is watched for, and
//! closing in two steps. Independent of the protocol.
//!
//! | sending | means | who moves next |
//! | --- | --- | --- |
//! | `Open` | the socket accepts bytes | the protocol |
//! | `Full` | the socket did not accept bytes (possibly a file's, or a TLS record's), and some may wait here | the peer, at its [`Pace`] |
//! | `Arriving` | everything is sent, but was not acknowledged at the last check | the peer, at its pace |
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
mod session;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use net::memory::NoMemory;
use net::{FileSent, Interest, Peer, Poller, Received, Sent, Token, Transport};

use self::backlog::Backlog;
use self::departure::Departure;
use crate::app::App;
use crate::app::circumstances::Circumstances;
use crate::context::Context;
use crate::id::ConnectionId;
use crate::response::FilePart;

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
    /// It has finished: it is closed in two steps. `has_unread` if the peer sent more than was read.
    End { has_unread: bool },
    /// It was truncated: it is reset as soon as what was sent has arrived.
    Cut,
    /// It is closed at once: nothing is owed.
    Close,
    /// It has become a WebSocket: it changes its protocol, and continues.
    Upgrade,
    /// It is reset now: an ordinary close would look like the end of a response.
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Receiving {
    Open,
    Ending,
    Ended,
}

enum Sending {
    Open,
    Full(Box<Backlog>),
    Arriving(Box<Backlog>),
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

/// Whether a peer receives what it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// Everything has arrived.
    Complete,
    /// Some has not arrived, and the peer is within its time.
    UnderWay,
    /// The peer has used up its time.
    Stuck,
}

/// The connection is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// A response of at most this length fits into the first packets of a connection (RFC 6928): closing right after it loses nothing.
const PROMPT_BYTES: u64 = 14_600;

/// Sending more than this takes a slow peer longer than the kernel, so its arrival is checked.
const LARGE_BYTES: usize = 65_536;

/// One end of a connection.
pub(crate) struct Link {
    /// Shared with [`crate::responder::batch::Exits`].
    pub(crate) transport: Arc<Transport>,
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
    /// Total bytes that the socket accepted.
    sent_bytes: u64,
    /// The last time the socket accepted bytes or reported that the peer sends no more.
    moved_ms: u64,
    /// Set once the peer has ended its side while something was owed to it.
    departure: Option<Box<Departure>>,
}

impl Link {
    pub(crate) fn new(
        transport: Arc<Transport>,
        id: ConnectionId,
        (client, server): (Peer, Peer),
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

    // Sending.

    /// Whether the socket accepts nothing now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.sending, Sending::Full(_))
    }

    /// Whether what was sent had not arrived at the last check.
    pub(crate) fn is_arriving(&self) -> bool {
        matches!(self.sending, Sending::Arriving(_))
    }

    /// When the socket last accepted bytes, or the peer ended its side.
    pub(crate) fn moved_ms(&self) -> u64 {
        self.moved_ms
    }

    /// Bytes of responses that are held here.
    pub(crate) fn held_bytes(&self) -> usize {
        let unsent = match &self.sending {
            Sending::Open => 0,
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog.held_bytes(),
        };
        match self.transport.is_secure() {
            true => unsent + self.transport.held_bytes() + self.details_bytes(),
            false => unsent,
        }
    }

    /// Sends the context's send buffer and keeps what the socket does not accept. With `is_followed`, a file or the end of the connection
    /// follows at once and shares the last packet.
    #[inline]
    pub(crate) fn flush(&mut self, context: &mut Context, is_followed: bool) -> Result<(), Broken> {
        if let Sending::Full(backlog) = &mut self.sending {
            let Err(NoMemory(bytes)) = backlog.push(&mut context.responder.out) else {
                return Ok(());
            };
            // Nothing may be sent after lost bytes.
            backlog.lose();
            context.clear_out();
            context.note_shortage(bytes);
            return Err(Broken);
        }
        self.note_arrival();
        let sent = self.transmit(&context.responder.out, is_followed);
        let result = self.sent(context, sent);
        context.clear_out();
        result
    }

    /// If everything sent before has arrived, what is sent now gets its own time.
    #[inline]
    fn note_arrival(&mut self) {
        if self.is_arriving() && self.transport.unacknowledged_bytes() == 0 {
            self.sending = Sending::Open;
        }
    }

    #[inline]
    fn transmit(&self, bytes: &[u8], is_followed: bool) -> Sent {
        match is_followed {
            true => self.transport.send_more(bytes),
            false => self.transport.send(bytes),
        }
    }

    #[inline]
    fn sent(&mut self, context: &mut Context, sent: Sent) -> Result<(), Broken> {
        let count = accepted(context, sent)?;
        self.took(context, count);
        if count < context.responder.out.len() {
            let mut backlog = self.blocked(context);
            backlog.take(&mut context.responder.out, count);
            self.sending = Sending::Full(backlog);
        }
        Ok(())
    }

    #[inline]
    fn took(&mut self, context: &mut Context, count: usize) {
        self.sent_bytes += count as u64;
        self.moved_ms = context.clock.now_ms();
        context.share.count_bytes(count);
        if count > LARGE_BYTES || self.transport.owes() {
            self.note_under_way(context);
        }
    }

    /// What was sent takes a slow peer some time, or waits for the socket.
    #[cold]
    fn note_under_way(&mut self, context: &Context) {
        if self.transport.owes() {
            self.sending = Sending::Full(self.blocked(context));
        } else if matches!(self.sending, Sending::Open) {
            self.sending = Sending::Arriving(Box::new(self.backlog(context)));
        }
    }

    /// Creates the backlog of a socket that has just become full.
    #[cold]
    fn blocked(&mut self, context: &Context) -> Box<Backlog> {
        match std::mem::replace(&mut self.sending, Sending::Open) {
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog,
            Sending::Open => Box::new(self.backlog(context)),
        }
    }

    fn backlog(&self, context: &Context) -> Backlog {
        let acknowledged = self.acknowledged_bytes();
        Backlog::new(acknowledged, &context.timeouts, context.clock.now_ms())
    }

    fn acknowledged_bytes(&self) -> i64 {
        // Negative on a UNIX socket, for which the kernel counts its overhead.
        self.sent_bytes as i64 - self.transport.unacknowledged_bytes() as i64
    }

    /// The responder has sent something during its call.
    #[cold]
    pub(crate) fn was_sent_in_call(&mut self, context: &mut Context) {
        let count = context.responder.sent_bytes;
        self.is_guarded |= context.responder.forget_sent();
        self.was_sent(context, count);
    }

    /// `bytes` were sent during the application's call.
    #[cold]
    pub(crate) fn was_sent(&mut self, context: &mut Context, count: usize) {
        self.note_arrival();
        self.took(context, count);
    }

    /// The socket accepts bytes again: sends what waits.
    pub(crate) fn resume(
        &mut self,
        context: &mut Context,
        is_followed: bool,
    ) -> Result<(), Broken> {
        let Sending::Full(mut backlog) = std::mem::replace(&mut self.sending, Sending::Open) else {
            return Ok(());
        };
        if backlog.is_lost() {
            self.sending = Sending::Full(backlog);
            return Err(Broken);
        }
        if self.transport.owes() {
            if !self.transport.flush() {
                return Err(Broken);
            }
            self.moved_ms = context.clock.now_ms();
        }
        let mut is_sent = true;
        if !backlog.is_empty() && !self.transport.owes() {
            let sent = self.transmit(backlog.unsent(), is_followed);
            let count = accepted(context, sent)?;
            self.took(context, count);
            is_sent = backlog.sent(count);
        }
        self.sending = match is_sent && backlog.is_empty() && !self.transport.owes() {
            true => Sending::Arriving(backlog),
            false => Sending::Full(backlog),
        };
        Ok(())
    }

    /// Sends from a file as [`Transport::send_file`] does, and records a full socket.
    pub(crate) fn send_file<A: App>(
        &mut self,
        context: &mut Context,
        app: &A,
        part: &FilePart,
        length: u64,
    ) -> FileSent {
        self.note_arrival();
        let transport = &*self.transport;
        let sent = app.step_back(|| transport.send_file(&part.file, part.offset, length));
        match sent {
            FileSent::Bytes(count) => self.took(context, count as usize),
            FileSent::Blocked => self.sending = Sending::Full(self.blocked(context)),
            FileSent::Broken(ref error) => context.note_broken(error),
            FileSent::Unreadable => {}
        }
        sent
    }

    /// The file that waited for the socket is not sent any more.
    pub(crate) fn drop_file(&mut self) {
        if let Sending::Full(backlog) = &self.sending
            && backlog.is_empty()
            && !backlog.is_lost()
            && !self.transport.owes()
        {
            self.sending = Sending::Open;
        }
    }

    /// When to check again how much the peer has received; never, if nothing is known to be under way.
    pub(crate) fn delivery_check_ms(&self) -> u64 {
        match &self.sending {
            Sending::Open => u64::MAX,
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog.check_ms(),
        }
    }

    /// Checks how much the peer has received.
    pub(crate) fn check_delivery(&mut self, context: &Context) -> Delivery {
        let acknowledged = self.acknowledged_bytes();
        let is_complete = self.transport.unacknowledged_bytes() == 0 && !self.is_full();
        if is_complete {
            self.sending = Sending::Open;
            return Delivery::Complete;
        }
        if matches!(self.sending, Sending::Open) {
            self.sending = Sending::Arriving(Box::new(self.backlog(context)));
        }
        let (Sending::Full(backlog) | Sending::Arriving(backlog)) = &mut self.sending else {
            return Delivery::Complete;
        };
        match backlog.check(acknowledged, &context.timeouts, context.clock.now_ms()) {
            true => Delivery::UnderWay,
            false => Delivery::Stuck,
        }
    }

    /// The clock moved during a turn: a wait that started in it counts from its end.
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64, context: &Context) {
        if self.moved_ms >= from_ms {
            self.moved_ms = to_ms;
        }
        if let Sending::Full(backlog) | Sending::Arriving(backlog) = &mut self.sending {
            backlog.skip(from_ms, to_ms, &context.timeouts);
        }
    }

    // Watching.

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
        matches!(self.circumstances.client, Peer::Internet(_))
    }

    /// Whether the end of this process is to reset the connection, however it ends. On while an ordinary close would look like the end of a
    /// response.
    pub(crate) fn guard(&mut self, is_on: bool) {
        if self.is_guarded != is_on {
            self.is_guarded = is_on;
            self.transport.set_reset_on_close(is_on);
        }
    }

    /// First step: shuts down the sending side. Returns true if the second step has to wait, because closing now could destroy data that
    /// the peer has not read: it sent more than was read, or much is still on its way.
    pub(crate) fn shut(&mut self, context: &Context, has_unread: bool) -> bool {
        // In a first turn that took no time, everything was read just now: what has arrived since is like what arrives after the close.
        let was_read = self.watch == Watch::None && context.share.has_taken_no_time();
        let has_unread = || has_unread || !was_read && self.transport.unread_bytes() > 0;
        let is_on_its_way = || {
            let may_be = self.sent_bytes > PROMPT_BYTES;
            may_be && self.transport.unacknowledged_bytes() > PROMPT_BYTES
        };
        let waits = !self.has_ended() && (has_unread() || is_on_its_way());
        // The end of the sending side follows an announcement only after that was sent.
        let waits = !self.transport.announce_end() || waits;
        if waits || net::has_forked() {
            self.transport.shutdown_send();
        }
        waits
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
            Fate::End { .. } => {}
            _ if is_copied => self.transport.shutdown_both(),
            _ => {}
        }
    }
}

/// The number of bytes that the socket has accepted.
#[inline]
fn accepted(context: &mut Context, sent: Sent) -> Result<usize, Broken> {
    match sent {
        Sent::Bytes(count) => Ok(count),
        Sent::Broken(error) => {
            context.note_broken(&error);
            Err(Broken)
        }
    }
}

impl ConnectionId {
    /// Its token in the poller.
    pub(crate) fn token(self) -> Token {
        Token::from(self.generation) << 32 | Token::from(self.key)
    }
}

impl<A> Turn<'_, A> {
    /// Milliseconds of the monotonic clock.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.context.clock.now_ms()
    }
}
