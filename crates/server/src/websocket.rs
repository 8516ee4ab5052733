//! A WebSocket after its handshake, independent of what carries it (RFC 6455): HTTP/1.1 after a 101 ([`upgraded`]), or a stream of HTTP/2.
//!
//! | state | event | then |
//! | --- | --- | --- |
//! | `Open` | a message arrives | the application receives it |
//! | `Open` | the application closes | close frame; `Closing` |
//! | `Open` | shutdown, no pong, too much to send, no memory | close frame, the application is notified; `Closing` |
//! | `Open` | the peer's close frame | close frame, the application is notified; `Ended` |
//! | `Open` | a violation of the protocol or of a limit | close frame, the application is notified; `Ended` |
//! | `Closing` | a message arrives | it is dropped |
//! | `Closing` | the peer's close frame, a violation, `websocket_close_timeout_ms` | the application is notified if it was not; `Ended` |
//! | `Open`, `Closing` | the carrier ends | the application is notified if it was not; `Ended` |
//! | `Ended` | everything has been sent | the carrier ends |
//!
//! What arrives is unmasked in the worker's receive buffer and passed on from there. What the application writes during that call is written
//! straight to the worker's send buffer; what is posted waits in [`outgoing`] until the carrier's turn. Only [`liveness`] decides who owes the
//! next move, and until when.

mod closing;
mod liveness;
pub(crate) mod opening;
mod outgoing;
mod rare;
pub(crate) mod upgraded;

use net::memory::{NoMemory, append, is_there};
use wire::websocket::extension::Agreement;
use wire::websocket::{
    CloseCode, Content, Event, Failure, Incoming, Inflater, Kind, Receiver, Role,
};

use self::opening::Handshake;
use self::outgoing::{MOVED_BYTES_MIN, Outgoing};
use self::rare::Rare;
use crate::app::App;
use crate::app::websocket::Appetite;
use crate::context::Context;
use crate::context::metrics::OpenWebSocket;
use crate::id::ExchangeId;
use crate::link::{Broken, Turn};
use crate::mailbox::Command;
use crate::responder::messages::MessageWriter;
use crate::responder::messages::publication::{Publication, SharedFrame};
use crate::responder::{Coding, new_deflater};

/// Why no more is read from a WebSocket that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The peer's last frame was read.
    Read,
    /// The peer may have sent more.
    Unread,
    /// What was owed to the peer cannot be sent.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Our close frame was written.
    Closing(Report),
    Ended {
        ending: Ending,
        /// The application was notified of the end.
        is_reported: bool,
    },
}

/// When the application is notified of the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Report {
    /// It has closed: when the peer has closed too.
    AtEnd,
    /// The server has closed where it could not call the application: in the next turn.
    Due,
    Made,
}

/// Why [`WebSocket::receive`] stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// All input was used.
    Used,
    /// The application has enough.
    Fed,
    /// The connection has used its share of the pass.
    Turn,
}

/// The code of the close frame when the server stops: the client may connect again, to another worker or server.
pub(crate) const STOPPING: (CloseCode, &str) =
    (CloseCode::SERVICE_RESTART, "the server is stopping");

/// One WebSocket.
pub(crate) struct WebSocket {
    pub(crate) id: ExchangeId,
    state: State,
    receiver: Receiver,
    appetite: Appetite,
    /// What compresses its messages, if that was negotiated.
    coding: Option<Box<Coding>>,
    outgoing: Outgoing,
    /// When something last arrived, or was last expected to, or when a ping was sent after that.
    since_ms: u64,
    /// What an idle one does not have.
    rare: Option<Box<Rare>>,
    /// Counts it as long as it exists.
    _open: OpenWebSocket,
    /// A ping was sent after something last arrived.
    is_pinged: bool,
    /// There is a ping that no pong was sent for.
    has_ping: bool,
    /// A message was written since the application was last notified that everything was sent.
    awaits_writable: bool,
    /// The input of the connection that it owns may be used in the next turn.
    waits_for_turn: bool,
}

/// A longer message, or as much more of one that is incomplete, ends the turn of its connection: to decompress 64 KiB takes some 100 us, but
/// the longest message tens of milliseconds.
const LONG_BYTES: usize = 64 * 1024;

/// Passes a message to the application, unless it is long and the budget does not allow that.
#[inline]
fn pass_message<A: App>(
    turn: &mut Turn<'_, A>,
    id: ExchangeId,
    kind: Kind,
    content: Content<'_>,
) -> Appetite {
    if content.len() > LONG_BYTES && !turn.context.budget.admits(content.len() as u64) {
        turn.context.budget_refusal();
        return Appetite::NoMemory;
    }
    turn.context.metrics.message_received();
    turn.app.message(id, kind, content)
}

/// What compresses the messages in both directions.
type Codings = (Incoming, Coding);

/// What an agreement requires.
///
/// # Errors
/// If there is no memory for it.
fn codings(agreement: Agreement, level: u32) -> Result<Codings, NoMemory> {
    let Agreement { server, client, .. } = agreement;
    let incoming = match client.keeps_context {
        true if !is_there(Inflater::BYTES) => return Err(NoMemory(Inflater::BYTES)),
        true => {
            let inflater = Inflater::new(true);
            Incoming::WithContext(Box::new(inflater.map_err(|lack| NoMemory(lack.0))?))
        }
        false => Incoming::WithoutContext(None),
    };
    let coding = match server.keeps_context {
        true => Coding::WithContext(Box::new(new_deflater(level, server.window, true)?)),
        false => Coding::Alone(server.window),
    };
    Ok((incoming, coding))
}

impl WebSocket {
    /// One whose handshake is accepted. Without memory for what its agreement requires, nothing is compressed, and the agreement is taken
    /// back.
    pub(crate) fn new(id: ExchangeId, handshake: &mut Handshake, context: &Context) -> WebSocket {
        let level = context.websockets.config.compression.level();
        let agreement = handshake.agreement;
        let agreed = agreement.and_then(|agreement| codings(agreement, level).ok());
        if agreed.is_none() {
            handshake.agreement = None;
        }
        let (incoming, coding) = agreed.unwrap_or((Incoming::Plain, Coding::Plain));
        let coding = match coding {
            Coding::Plain => None,
            coding => Some(Box::new(coding)),
        };
        let client = handshake.client.take();
        WebSocket {
            id,
            state: State::Open,
            receiver: Receiver::new(Role::Server, incoming),
            appetite: Appetite::More,
            coding,
            outgoing: Outgoing::default(),
            since_ms: context.clock.now_ms(),
            is_pinged: false,
            rare: client.map(|client| Box::new(Rare::of(client))),
            has_ping: false,
            awaits_writable: false,
            waits_for_turn: false,
            _open: context.metrics.websocket_opened(),
        }
    }

    // Receiving.

    /// Whether it can use more input now.
    #[inline]
    pub(crate) fn takes_input(&self) -> bool {
        match self.state {
            State::Open => self.appetite == Appetite::More,
            State::Closing(_) => true,
            State::Ended { .. } => false,
        }
    }

    /// Serves `input` from its start until something stops that. Returns how many bytes were used. What is to be sent is in the send buffer
    /// then, after what was there; `can_send_now` if nothing has to be sent before it.
    #[inline]
    pub(crate) fn receive<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        input: &mut [u8],
        can_send_now: bool,
    ) -> (usize, Pause) {
        self.heard(turn.context.clock.now_ms());
        let message_bytes = self.receiver.message_bytes();
        let (mut used, mut has_messages) = (0, false);
        let pause = loop {
            if !self.takes_input() {
                break Pause::Fed;
            }
            let rest = input.get_mut(used..).unwrap_or_default();
            if rest.is_empty() {
                break Pause::Used;
            }
            let shared = &mut turn.context.websockets;
            let received = self
                .receiver
                .receive(rest, &shared.limits, &mut shared.inflaters);
            match received {
                Ok((count, Some(Event::Message(kind, content)))) => {
                    used += count;
                    if content.len() > LONG_BYTES {
                        turn.context.share.use_up();
                    }
                    if self.state == State::Open {
                        let bytes = content.len();
                        self.appetite = pass_message(turn, self.id, kind, content);
                        has_messages = true;
                        if self.appetite == Appetite::Enough {
                            self.rare.get_or_insert_default().untaken_bytes = bytes;
                        }
                        if self.appetite == Appetite::NoMemory {
                            has_messages = false;
                            self.refuse_message(turn, can_send_now, bytes);
                            break Pause::Used;
                        }
                    }
                    let context = &mut *turn.context;
                    if context.share.is_used_by_request(&mut context.clock) {
                        break Pause::Turn;
                    }
                }
                Ok((count, None)) => {
                    used += count;
                    if self.receiver.message_bytes() > message_bytes + LONG_BYTES {
                        turn.context.share.use_up();
                    }
                    break Pause::Used;
                }
                Ok((count, Some(event))) => {
                    used += count;
                    if matches!(event, Event::Close(_)) {
                        self.run_if(&mut has_messages, turn, can_send_now);
                    }
                    self.control(turn, event);
                }
                Err(failure) => {
                    self.run_if(&mut has_messages, turn, can_send_now);
                    // It may have been found late in a long message.
                    turn.context.share.use_up();
                    self.fail(turn, failure);
                }
            }
        };
        self.run_if(&mut has_messages, turn, can_send_now);
        let used = match self.state {
            State::Ended { .. } => input.len(),
            State::Open | State::Closing(_) => used,
        };
        match turn.context.share.is_used_up() {
            true => (used, Pause::Turn),
            false => (used, pause),
        }
    }

    /// The application has no memory for a message of `bytes`; it receives those before it.
    #[cold]
    fn refuse_message<A: App>(&mut self, turn: &mut Turn<'_, A>, can_send_now: bool, bytes: usize) {
        self.run(turn, can_send_now);
        self.fail(turn, Failure::NoMemory(wire::websocket::NoMemory(bytes)));
    }

    /// Runs the application if it has received messages, which are not new to it then.
    #[inline]
    fn run_if<A: App>(
        &mut self,
        has_messages: &mut bool,
        turn: &mut Turn<'_, A>,
        can_send_now: bool,
    ) {
        if std::mem::take(has_messages) {
            self.run(turn, can_send_now);
        }
    }

    /// Runs the application, which has received messages. What it sends is written to the send buffer.
    #[inline]
    fn run<A: App>(&mut self, turn: &mut Turn<'_, A>, can_send_now: bool) {
        let responder = &mut turn.context.responder;
        responder.messages_begin(can_send_now, turn.context.share.ends_ms());
        self.swap_coding(&mut responder.messages);
        let before = responder.out.len();
        turn.app.messages_end(self.id, responder);
        self.swap_coding(&mut responder.messages);
        self.awaits_writable |= responder.out.len() != before;
        if responder.is_turn_over() {
            turn.context.share.use_up();
        }
        let lack = responder.messages.lack.take();
        if responder.sent_bytes > 0 {
            self.awaits_writable = true;
            turn.link.was_sent_in_call(turn.context);
        }
        if let Some(NoMemory(bytes)) = lack {
            turn.context.note_message_shortage(bytes);
        }
    }

    /// Anything but a message, or a message that nobody waits for.
    #[cold]
    fn control<A: App>(&mut self, turn: &mut Turn<'_, A>, event: Event<'_>) {
        match event {
            Event::Message(..) | Event::Pong(_) => {}
            // A pong for the last of several pings is enough (RFC 6455 5.5.3), so a peer that does not read cannot make them pile up.
            Event::Ping(content) if self.state == State::Open => {
                self.rare.get_or_insert_default().ping = (*content).into();
                self.has_ping = true;
            }
            Event::Ping(_) => {}
            Event::Close(close) => self.peer_closed(turn, &close),
        }
    }

    // Sending.

    /// Executes what the application posted. Nothing is sent before the carrier's turn.
    pub(crate) fn obey<A: App>(&mut self, turn: &mut Turn<'_, A>, command: Command) {
        if self.state != State::Open {
            return;
        }
        let context = &mut *turn.context;
        match command {
            Command::Message(kind, content) => {
                if let Err(lack) = self.post(context, kind, &content) {
                    drop(content);
                    self.close_short(turn, lack);
                }
            }
            Command::Close(close) => self.close(context, &close),
            Command::Fail => self.close_after_failure(context),
            Command::Read => {
                self.appetite = Appetite::More;
                if let Some(rare) = &mut self.rare {
                    rare.untaken_bytes = 0;
                }
                self.heard(context.clock.now_ms());
            }
            Command::Subscribe(topic) => {
                let topics = &mut context.websockets.topics;
                let subscriptions = &mut self.rare.get_or_insert_default().subscriptions;
                let subscribed = topics.subscribe(self.id, topic, subscriptions);
                if let Err(lack) = subscribed {
                    self.close_short(turn, lack);
                }
            }
            Command::Unsubscribe(topic) => {
                if let Some(rare) = &mut self.rare {
                    let topics = &mut context.websockets.topics;
                    topics.unsubscribe(&topic, &mut rare.subscriptions);
                }
            }
            _ => {}
        }
    }

    fn post(&mut self, context: &mut Context, kind: Kind, content: &[u8]) -> Result<(), NoMemory> {
        self.awaits_writable = true;
        let messages = &mut context.responder.messages;
        self.swap_coding(messages);
        let written = self.outgoing.write(|out| messages.push(out, kind, content));
        self.swap_coding(messages);
        written
    }

    /// Lends what compresses its messages to what writes them, or takes it back. Without any, what a call that panicked has left there is
    /// dropped.
    #[inline]
    fn swap_coding(&mut self, messages: &mut MessageWriter) {
        match self.coding.as_deref_mut() {
            Some(own) => std::mem::swap(&mut messages.coding, own),
            None => messages.coding = Coding::Plain,
        }
    }

    /// Whether neither side has closed it.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Memory of what waits here to be sent, as if nothing of it was shared.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.outgoing.queued_bytes()
    }

    /// What it adds to the burden of its connection by the frames that it shares with others.
    pub(crate) fn shared_burden(&self, now_ms: u64) -> u64 {
        self.outgoing.shared_burden(now_ms)
    }

    /// Whether a published frame of `frame_bytes` is within the limit, or is the only one. `unsent_bytes` wait for the socket already.
    pub(crate) fn has_room_for(
        &self,
        context: &Context,
        frame_bytes: usize,
        unsent_bytes: usize,
    ) -> bool {
        let queued_bytes = unsent_bytes + self.outgoing.queued_bytes_with(frame_bytes);
        queued_bytes as u64 <= context.limits.websocket_queued_bytes_max
            || unsent_bytes == 0 && self.outgoing.is_empty()
    }

    /// The frame in which it receives a published message.
    #[inline]
    pub(crate) fn share<'a>(
        &self,
        context: &mut Context,
        publication: &'a mut Publication,
    ) -> &'a SharedFrame {
        let messages = &mut context.responder.messages;
        let coding = self.coding.as_deref().unwrap_or(&Coding::Plain);
        messages.share(coding, publication)
    }

    /// Sends a message that other subscribers of its topic receive too. `unsent_bytes` wait for the socket already.
    pub(crate) fn publish<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        publication: &mut Publication,
        unsent_bytes: usize,
    ) {
        if self.state != State::Open {
            return;
        }
        let frame = self.share(turn.context, publication);
        if !self.has_room_for(turn.context, frame.len(), unsent_bytes) {
            return self.close_slow(turn);
        }
        let now_ms = turn.context.clock.now_ms();
        match self.outgoing.push_shared(frame, now_ms) {
            Ok(()) => turn.context.metrics.messages_sent(1),
            Err(lack) => self.close_short(turn, lack),
        }
    }

    /// What was written to the send buffer follows what waits.
    pub(crate) fn absorb(&mut self, context: &mut Context) {
        if !context.responder.out.is_empty() {
            let taken = self.outgoing.take(&mut context.responder.out);
            context.clear_out();
            if let Err(lack) = taken {
                self.lack(context, lack);
            }
        }
    }

    /// Whether something waits to be sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty() || self.has_ping
    }

    /// How many bytes wait to be sent.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.outgoing.unsent_bytes()
    }

    /// Sends from a long frame that others send too, if that is next, without a copy for this one. Returns false if it is not.
    ///
    /// # Errors
    /// If the connection is broken.
    #[inline]
    pub(crate) fn send_shared<A>(&mut self, turn: &mut Turn<'_, A>) -> Result<bool, Broken> {
        if turn.context.responder.out.is_empty()
            && !self.may_send_pong()
            && let Some(unsent) = self.outgoing.long_shared()
        {
            let sent_bytes = turn.link.send_from(turn.context, unsent)?;
            self.outgoing.was_sent(sent_bytes);
            return Ok(true);
        }
        Ok(false)
    }

    /// Moves what waits to the send buffer, as much as should be sent at once.
    pub(crate) fn emit(&mut self, context: &mut Context) {
        let bytes_max = context.limits.send_buffer_bytes_max as usize;
        // Before a long frame, of which each waits for the client, and otherwise after whole frames; not after all that wait: there may be more
        // of them for ever.
        if self.outgoing.long_shared().is_some() {
            self.push_pong(context);
        }
        let out = &mut context.responder.out;
        if !self.outgoing.is_empty()
            && let Err(lack) = self.outgoing.move_to(out, bytes_max)
        {
            return self.lack(context, lack);
        }
        self.push_pong(context);
    }

    /// Moves everything that waits to the output of a stream.
    pub(crate) fn drain_to(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        while self.has_unsent() {
            self.emit(context);
            self.pass_on(context, out);
        }
    }

    /// Moves what was written to the send buffer to the output of a stream.
    pub(crate) fn pass_on(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        let written = &mut context.responder.out;
        if out.is_empty() && written.len() >= MOVED_BYTES_MIN {
            *out = std::mem::take(written);
            return;
        }
        let passed = append(out, written);
        context.clear_out();
        if let Err(lack) = passed {
            self.lack(context, lack);
        }
    }

    /// Whether the application has to be notified when everything is sent.
    pub(crate) fn takes_writable_notice(&mut self) -> bool {
        std::mem::take(&mut self.awaits_writable) && self.state == State::Open
    }

    /// Everything has been sent: the application may send more.
    #[inline]
    pub(crate) fn notify_writer<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        self.was_sent(turn.context);
        if self.takes_writable_notice() {
            turn.app.writable(self.id);
        }
    }

    /// Everything has been passed on to the socket: the time that the peer has to return a close frame starts.
    #[inline]
    pub(crate) fn was_sent(&mut self, context: &Context) {
        if let State::Closing(_) = self.state {
            let closing_ms = &mut self.rare.get_or_insert_default().closing_ms;
            closing_ms.get_or_insert(context.clock.now_ms());
        }
    }

    /// Why it has ended, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        match self.state {
            State::Ended { ending, .. } => Some(ending),
            State::Open | State::Closing(_) => None,
        }
    }

    /// Memory held by a message of which a part has arrived.
    pub(crate) fn message_bytes(&self) -> usize {
        self.receiver.message_bytes()
    }

    /// Memory held, in bytes, besides its record, and frames that it shares with others.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let rare = self.rare.as_ref().map_or(0, |rare| rare.held_bytes());
        let coding = self.coding.as_ref();
        let coding = coding.map_or(0, |coding| size_of::<Coding>() + coding.held_bytes());
        self.receiver.held_bytes() + self.outgoing.held_bytes() + coding + rare
    }
}
