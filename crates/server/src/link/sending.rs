//! Sending: what the socket accepts goes to it, the rest waits, and the peer's progress is watched.
//!
//! | sending | means | who moves next |
//! | --- | --- | --- |
//! | `Open` | the socket accepts bytes | the protocol |
//! | `Full` | the socket did not accept bytes (possibly a file's, those of a frame that several connections send, or a TLS record's), and some may wait here | the peer, at its [`Pace`] |
//! | `Arriving` | everything is sent, but was not acknowledged at the last check | the peer, at its pace |
//! | `Lost` | some bytes will never be sent: the socket is broken, or there was no memory for them. Nothing may be sent after them | the reactor: the connection ends at once |

use net::memory::NoMemory;
use net::{FileSent, Sent};

use super::backlog::Backlog;
use super::{Broken, Link};
use crate::app::App;
use crate::context::Context;
use crate::response::FilePart;

/// Sending more than this takes a slow peer longer than the kernel, so its arrival is checked.
const LARGE_BYTES: usize = 65_536;

/// See the table above.
pub(super) enum Sending {
    Open,
    Full(Box<Backlog>),
    Arriving(Box<Backlog>),
    Lost,
}

/// Whether a peer receives what it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// Everything has arrived.
    Complete,
    /// Some has not arrived, and the peer is within its time.
    UnderWay,
    /// The peer has used up its time, or some can never arrive.
    Stuck,
}

impl Link {
    /// Whether the socket accepts nothing now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.sending, Sending::Full(_) | Sending::Lost)
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
            Sending::Open | Sending::Lost => 0,
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
        if self.is_full() {
            return self.hold(context);
        }
        self.note_arrival();
        let sent = self.transmit(&context.responder.out, is_followed);
        let result = self.sent(context, sent);
        context.clear_out();
        result
    }

    /// Sends parts that follow each other from where they are. Returns how many bytes the socket has accepted: none on a broken connection,
    /// which the next flush detects.
    pub(crate) fn send_parts(&mut self, context: &mut Context, parts: &[&[u8]]) -> usize {
        self.note_arrival();
        let sent = self.transport.send_parts(parts);
        let Ok(count) = self.accepted(context, sent) else {
            return 0;
        };
        self.took(context, count);
        count
    }

    /// Sends bytes from where they are. Returns how many the socket has accepted; the sender has to keep the others until it has room.
    pub(crate) fn send_from(
        &mut self,
        context: &mut Context,
        bytes: &[u8],
    ) -> Result<usize, Broken> {
        self.note_arrival();
        let sent = self.transport.send(bytes);
        let count = self.accepted(context, sent)?;
        self.took(context, count);
        if count < bytes.len() {
            self.sending = Sending::Full(self.blocked(context));
        }
        Ok(count)
    }

    /// Keeps the context's send buffer until the socket has room.
    fn hold(&mut self, context: &mut Context) -> Result<(), Broken> {
        let result = match &mut self.sending {
            Sending::Full(backlog) => backlog.push(&mut context.responder.out),
            _ => {
                context.clear_out();
                return Err(Broken);
            }
        };
        result.map_err(|NoMemory(bytes)| {
            context.clear_out();
            context.note_shortage(bytes);
            self.lose()
        })
    }

    /// Bytes are lost: nothing may be sent after them.
    #[cold]
    pub(crate) fn lose(&mut self) -> Broken {
        self.sending = Sending::Lost;
        Broken
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
        let count = self.accepted(context, sent)?;
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
        if self.guards_unsent {
            self.guard(true);
        }
        match std::mem::replace(&mut self.sending, Sending::Open) {
            Sending::Full(backlog) | Sending::Arriving(backlog) => backlog,
            Sending::Open | Sending::Lost => Box::new(self.backlog(context)),
        }
    }

    fn backlog(&self, context: &Context) -> Backlog {
        let acknowledged = self.acknowledged_bytes();
        Backlog::new(acknowledged, &context.timeouts, context.clock.now_ms())
    }

    pub(super) fn acknowledged_bytes(&self) -> i64 {
        // Negative on a UNIX socket, for which the kernel counts its overhead.
        self.sent_bytes as i64 - self.transport.unacknowledged_bytes() as i64
    }

    /// The responder has sent something during its call.
    #[cold]
    pub(crate) fn was_sent_in_call(&mut self, context: &mut Context) {
        let responder = &mut context.responder;
        let (count, is_broken) = (responder.sent_bytes, responder.is_broken());
        self.is_guarded |= responder.forget_sent();
        self.was_sent(context, count);
        if is_broken {
            self.lose();
        }
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
        if matches!(self.sending, Sending::Lost) {
            return Err(Broken);
        }
        let Sending::Full(mut backlog) = std::mem::replace(&mut self.sending, Sending::Open) else {
            return Ok(());
        };
        if self.transport.owes() {
            if !self.transport.flush() {
                return Err(self.lose());
            }
            self.moved_ms = context.clock.now_ms();
        }
        let mut is_sent = true;
        if !backlog.is_empty() && !self.transport.owes() {
            let sent = self.transmit(backlog.unsent(), is_followed);
            let count = self.accepted(context, sent)?;
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
            FileSent::Broken(ref error) => {
                context.note_broken(error);
                self.lose();
            }
            FileSent::Unreadable => {}
        }
        sent
    }

    /// The file that waited for the socket is not sent any more.
    pub(crate) fn drop_file(&mut self) {
        if let Sending::Full(backlog) = &self.sending
            && backlog.is_empty()
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
            // At the next tick: no event may report what was lost.
            Sending::Lost => 0,
        }
    }

    /// Checks how much the peer has received.
    pub(crate) fn check_delivery(&mut self, context: &Context) -> Delivery {
        if matches!(self.sending, Sending::Lost) {
            return Delivery::Stuck;
        }
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

    /// The number of bytes that the socket has accepted.
    #[inline]
    fn accepted(&mut self, context: &mut Context, sent: Sent) -> Result<usize, Broken> {
        match sent {
            Sent::Bytes(count) => Ok(count),
            Sent::Broken(error) => {
                context.note_broken(&error);
                Err(self.lose())
            }
        }
    }
}
