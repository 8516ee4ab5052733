//! A transport and what waits on it: bytes that the socket refused, how fast the peer takes them, what the socket is watched for, and
//! the close in two steps. Knows no protocol.
//!
//! | sending | means | who moves next |
//! | --- | --- | --- |
//! | `Open` | the socket takes bytes | the protocol |
//! | `Full` | the socket refused bytes (which may be a file's), and some may wait here | the peer, at its [`Pace`] |
//! | `Arriving` | all is sent, and was not acknowledged when somebody looked | the peer, at its pace |
//!
//! | receiving | means |
//! | --- | --- |
//! | `Open` | the peer may send more |
//! | `Ending` | the kernel says that the peer sends no more; what it sent before may be unread |
//! | `Ended` | the end was read |

mod backlog;
mod departure;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use net::{FileSent, Interest, Peer, Poller, Received, Sent, Token, Transport};

use self::backlog::Backlog;
use self::departure::Departure;
use crate::app::App;
use crate::context::Context;
use crate::id::ConnectionId;
use crate::response::FilePart;

/// What a connection may use in its turn.
pub(crate) struct Turn<'a, A> {
    pub(crate) link: &'a mut Link,
    pub(crate) context: &'a mut Context,
    pub(crate) app: &'a mut A,
}

/// What becomes of a connection after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its socket, its application or its deadline moves it next.
    Open,
    /// It has more to do, and goes on when others had their turn.
    Again,
    /// All is said: it is closed in two steps. `has_unread` when the peer sent more than was read.
    End { has_unread: bool },
    /// It ends before all is said: it is reset as soon as what was sent has arrived.
    Cut,
    /// It is closed at once: nothing is owed.
    Close,
    /// It is cut: the peer must not take its end for the end of a response.
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

/// What the poller knows of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watch {
    None,
    For(Interest),
    /// As `For`; but the last read may have left something, which an edge-triggered set does not report again.
    Missed(Interest),
}

/// Whether a peer takes what it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// All of it has arrived.
    Complete,
    /// It takes its time, and has some left.
    UnderWay,
    /// It has used up its time.
    Stuck,
}

/// The connection is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// A response of at most so many bytes leaves with the first packets of a connection (RFC 6928): closing right after it loses nothing.
const PROMPT_BYTES: u64 = 14_600;

/// More than this at once takes a slow peer longer than it takes the kernel: it is looked at when it has arrived.
const LARGE_BYTES: usize = 65_536;

/// One end of a connection.
pub(crate) struct Link {
    /// Shared with [`crate::batch::Exits`].
    transport: Arc<Transport>,
    pub(crate) id: ConnectionId,
    pub(crate) client: Peer,
    pub(crate) server: Peer,
    receiving: Receiving,
    sending: Sending,
    watch: Watch,
    /// The kernel resets the connection when the socket is closed.
    is_guarded: bool,
    /// All bytes that the socket took.
    sent_bytes: u64,
    /// The last time the socket took bytes, or told that the peer sends no more.
    moved_ms: u64,
    /// Once the peer has ended its side while something was owed to it.
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
            client,
            server,
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

    /// Reads into memory of which nothing has been written; see [`Link::note`].
    pub(crate) fn receive_into(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> Received {
        self.transport.receive_into(room)
    }

    /// Notes what a read into room for `room_bytes` brought: whether it may have left something, and the peer's end. `has_ended` when the
    /// kernel said so with the event.
    #[inline]
    pub(crate) fn note(
        &mut self,
        received: &Received,
        room_bytes: usize,
        has_ended: bool,
        now_ms: u64,
    ) {
        match received {
            Received::Bytes(count) => {
                if has_ended || *count == room_bytes || self.transport.has_buffered() {
                    self.note_unread();
                }
            }
            Received::End => {
                self.note_peer_end(now_ms);
                self.receiving = Receiving::Ended;
            }
            Received::Blocked | Received::Broken(_) => {}
        }
    }

    /// The socket may have input that was reported already.
    pub(crate) fn note_unread(&mut self) {
        if let Watch::For(interest) = self.watch {
            self.watch = Watch::Missed(interest);
        }
    }

    /// The peer sends no more, though there may be something to read.
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

    /// Whether everything that the peer sent is read.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.receiving == Receiving::Ended
    }

    /// The peer sends no more, and a handler works for it: from now on it is observed whether it is still there.
    pub(crate) fn doubt_peer(&mut self, now_ms: u64) {
        if self.departure.is_none() {
            let departure = Departure::new(self.acknowledged_bytes(), now_ms);
            self.departure = Some(Box::new(departure));
        }
    }

    /// When to look whether a peer that sends no more is still there; never, if that is known or not in doubt.
    pub(crate) fn departure_check_ms(&self) -> u64 {
        self.departure
            .as_ref()
            .map_or(u64::MAX, |departure| departure.check_ms())
    }

    /// Whether a peer that sends no more was found to take nothing any more either.
    pub(crate) fn seems_gone(&self) -> bool {
        self.departure
            .as_ref()
            .is_some_and(|departure| departure.is_complete())
    }

    /// Looks whether the peer is still there. True when it has just been found gone.
    pub(crate) fn check_departure(&mut self, now_ms: u64) -> bool {
        let is_owed = self.is_full() || self.transport.unacknowledged_bytes() > 0;
        let acknowledged = self.acknowledged_bytes();
        self.departure
            .as_mut()
            .is_some_and(|departure| departure.check(acknowledged, is_owed, now_ms))
    }

    // Sending.

    /// Whether the socket takes nothing now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.sending, Sending::Full(_))
    }

    /// Whether what was sent had not arrived when it was looked at.
    pub(crate) fn is_arriving(&self) -> bool {
        matches!(self.sending, Sending::Arriving(_))
    }

    /// When the socket last took bytes, or the peer ended its side.
    pub(crate) fn moved_ms(&self) -> u64 {
        self.moved_ms
    }

    /// Bytes of responses that are kept here.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.sending {
            Sending::Open => 0,
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog.held_bytes(),
        }
    }

    /// Sends the context's send buffer and keeps what the socket refuses. With `is_followed`, a file or the end of the connection follows
    /// at once, and leaves in the same packet.
    #[inline]
    pub(crate) fn flush(&mut self, context: &mut Context, is_followed: bool) -> Result<(), Broken> {
        if let Sending::Full(backlog) = &mut self.sending {
            backlog.push(&mut context.responder.out);
            return Ok(());
        }
        self.note_arrival();
        let sent = self.transmit(&context.responder.out, is_followed);
        let result = self.sent(context, sent);
        context.clear_out();
        result
    }

    /// If all that was under way has arrived, what is sent now has its own time.
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
        let Sent::Bytes(count) = sent else {
            return Err(Broken);
        };
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
        if count > LARGE_BYTES && matches!(self.sending, Sending::Open) {
            self.sending = Sending::Arriving(Box::new(self.backlog(context)));
        }
    }

    /// A backlog for a socket that has just become full.
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
        // Negative on a UNIX socket, where the kernel counts its overhead.
        self.sent_bytes as i64 - self.transport.unacknowledged_bytes() as i64
    }

    /// The responder has sent something during its call.
    #[cold]
    pub(crate) fn was_sent_in_call(&mut self, context: &mut Context) {
        let count = context.responder.sent_bytes;
        self.is_guarded |= context.responder.forget_sent();
        self.was_sent(context, count);
    }

    /// So many bytes were sent while the application was called.
    #[cold]
    pub(crate) fn was_sent(&mut self, context: &mut Context, count: usize) {
        self.note_arrival();
        self.took(context, count);
    }

    /// The socket takes bytes again: sends what waits.
    pub(crate) fn resume(
        &mut self,
        context: &mut Context,
        is_followed: bool,
    ) -> Result<(), Broken> {
        let Sending::Full(mut backlog) = std::mem::replace(&mut self.sending, Sending::Open) else {
            return Ok(());
        };
        if !backlog.is_empty() {
            let Sent::Bytes(count) = self.transmit(backlog.unsent(), is_followed) else {
                return Err(Broken);
            };
            self.took(context, count);
            if !backlog.sent(count) {
                self.sending = Sending::Full(backlog);
                return Ok(());
            }
        }
        self.sending = Sending::Arriving(backlog);
        Ok(())
    }

    /// Sends from a file as [`Transport::send_file`] does; a socket that takes nothing is noted.
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
            FileSent::Unreadable | FileSent::Broken(_) => {}
        }
        sent
    }

    /// What waited for the socket is a file that is not sent any more.
    pub(crate) fn drop_file(&mut self) {
        if let Sending::Full(backlog) = &self.sending
            && backlog.is_empty()
        {
            self.sending = Sending::Open;
        }
    }

    /// When to look again how much the peer has taken; never, if nothing is known to be under way.
    pub(crate) fn delivery_check_ms(&self) -> u64 {
        match &self.sending {
            Sending::Open => u64::MAX,
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog.check_ms(),
        }
    }

    /// Looks how much the peer has taken.
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

    /// A turn took from one time to another: what began in it began at its end.
    pub(crate) fn turn_took(&mut self, from_ms: u64, to_ms: u64, context: &Context) {
        if self.moved_ms >= from_ms {
            self.moved_ms = to_ms;
        }
        if let Sending::Full(backlog) | Sending::Arriving(backlog) = &mut self.sending {
            backlog.skip(from_ms, to_ms, &context.timeouts);
        }
    }

    // Watching.

    /// Watches the socket for reading if `is_read`, for room if it is full, and for the peer's end until that is known.
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
            Watch::None => poller.add_edge(socket, token, wanted),
            Watch::For(_) | Watch::Missed(_) => poller.modify_edge(socket, token, wanted),
        };
        // Failing (the system's limit of watches) leaves the connection to its deadline.
        if watched.is_ok() {
            self.watch = Watch::For(wanted);
        }
    }

    // Closing.

    /// Nothing follows, though it was said: a file had nothing, and the kernel keeps what precedes it for a while.
    pub(crate) fn push(&self) {
        self.transport.push();
    }

    /// Whether the peer can be shown a reset; on a UNIX socket it sees an ordinary end.
    pub(crate) fn can_reset(&self) -> bool {
        matches!(self.client, Peer::Internet(_))
    }

    /// Whether the end of this process, however it ends, is to reset the connection: as long as its end would be taken for the end of a
    /// response.
    pub(crate) fn guard(&mut self, is_on: bool) {
        if self.is_guarded != is_on {
            self.is_guarded = is_on;
            self.transport.set_reset_on_close(is_on);
        }
    }

    /// First step: ends our sending side. True when the second has to wait, because closing now could reset away what the peer has not
    /// read: it sent more than was read, or much is still on its way.
    pub(crate) fn shut(&mut self, has_unread: bool) -> bool {
        let has_unread = || has_unread || self.transport.unread_bytes() > 0;
        let is_on_its_way = || {
            let may_be = self.sent_bytes > PROMPT_BYTES;
            may_be && self.transport.unacknowledged_bytes() > PROMPT_BYTES
        };
        let waits = !self.has_ended() && (has_unread() || is_on_its_way());
        if waits || net::has_forked() {
            self.transport.shutdown_send();
        }
        waits
    }

    /// Second step: the socket is let go. Where a child may hold a copy of its descriptor, that neither keeps it open nor has its events
    /// reported here.
    pub(crate) fn close(self, poller: &Poller, fate: Fate) {
        let is_copied = net::has_forked();
        if is_copied && self.watch != Watch::None {
            let _ = poller.remove(self.transport.as_fd());
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

impl ConnectionId {
    /// What the poller knows it by.
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
