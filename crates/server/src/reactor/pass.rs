//! Serving the events of a wait.
//!
//! Input is read from a few connections, then all of it is served, then the responses are sent ([`crate::responder::batch`]). The code of the kernel,
//! of the application and of the server each need more than the processor's caches hold, so alternating between them evicts them.

use net::{Readiness, Received, Token, memory};

use super::mail::Bound;
use super::{AHEAD_BYTES, AHEAD_MAX, ASKED, FOREIGN, LISTENER, Worker};
use crate::app::App;
use crate::context::share::TURN_MS;
use crate::exchange::content::ROOM_BYTES_MAX;
use crate::id::ConnectionId;
use crate::limits::RECEIVE_BYTES;
use crate::link::Fate;
use crate::responder::Responder;

/// More than this is a batch of requests, or content: it is served before the next connection is read.
const SINGLE_BYTES_MAX: usize = 768;
/// Content passed on in one pass before its readers run: it is still in the processor's cache when they take it, and its memory is reused
/// for the next part (bench: asgi-upload).
const CONTENT_BYTES_PER_PASS: usize = 2 * ROOM_BYTES_MAX;
/// How long a pass serves events, and after that remaining turns. Longer than a turn, so that a slow client does not fill a pass.
const PASS_MS: u64 = 2 * TURN_MS;
/// The same while the owner's event loop waits for the end of the pass.
const SHARED_PASS_MS: u64 = TURN_MS;

/// What was read ahead is served even if the pass has lasted long. If that took longer than this, nothing is read ahead for some time:
/// reading ahead gains nothing when calls are slow.
const AHEAD_MS_MAX: u64 = TURN_MS / 2;
/// How long nothing is read ahead then.
const AHEAD_REST_MS: u64 = 1000;

/// Passes after which deadlines are checked even if there is more to read: some seconds.
const UNREAD_PASSES_MAX: u32 = 64;

/// Input that was read ahead.
type Ahead = [Option<(Readiness, Received)>; AHEAD_MAX];

impl<A: App> Worker<A> {
    /// Serves the events of the last wait, for a bounded time. Returns true if a foreign descriptor is ready.
    pub fn dispatch(&mut self) -> bool {
        if self.context.clock.refresh() {
            let unix_s = self.context.clock.unix_s();
            self.context.responder.refresh(unix_s);
            memory::notice_limit();
        }
        let waited_ms = self.context.clock.now_ms();
        self.context.content_bytes = 0;
        // Every connection in it has its turn in this pass.
        self.unsent.clear();
        self.context.responder.batch.open();
        if self.accepting.is_shared() {
            self.accept_first();
        }
        let is_foreign_ready = self.serve_events();
        if !self.turns.is_empty() {
            self.serve_turns();
        }
        self.send_batch();
        if self.has_handshakes() {
            self.serve_handshakes();
        }
        self.take_mail(Bound::Pass);
        if self.context.has_queue() {
            self.serve_queue();
        }
        let is_due = self.timers.is_due(waited_ms) || !self.due.is_empty();
        if is_due && self.has_read_all() {
            self.expire(waited_ms);
        }
        if !self.context.orphans.is_empty() {
            self.end_orphans(waited_ms);
        }
        self.context.charge_departed(self.app.departed_bytes());
        self.context.charge_published();
        if self.context.budget.is_pressed() {
            self.relieve();
        }
        if self.accepting.is_holding_off() {
            self.end_holding_off();
        }
        if self.accepting.is_due(self.context.clock.now_ms()) {
            self.resume();
        }
        if !self.turns.is_empty() {
            self.leave_output();
        }
        #[cfg(debug_assertions)]
        self.check_sum();
        is_foreign_ready
    }

    /// Whether events of the last wait may lead to calls: not if the wait was only ended for its owner.
    pub fn has_calls(&self) -> bool {
        let events = self.events.iter().skip(self.next_event);
        let mut events = events.map(|event| event.token);
        events.any(|token| token < FOREIGN || token == ASKED)
    }

    /// Leaves output of connections that wait for another turn to [`Worker::send_posted`], in case the next pass is late.
    #[cold]
    fn leave_output(&mut self) {
        for id in &self.turns {
            let connection = self.connections.get(id.key as usize);
            let has_unsent = connection.is_some_and(|it| it.id() == *id && it.has_unsent());
            if has_unsent {
                self.unsent.push(*id);
                self.context.mailbox.leaves_output();
            }
        }
    }

    /// Whether everything that had arrived when the wait ended has been read. Until then no peer is late. After some passes with more to
    /// read, deadlines are checked nevertheless.
    fn has_read_all(&mut self) -> bool {
        let may_be_more = self.has_events() || self.events.is_full();
        self.unread_passes = match may_be_more && self.unread_passes < UNREAD_PASSES_MAX {
            true => self.unread_passes + 1,
            false => 0,
        };
        self.unread_passes == 0
    }

    fn serve_events(&mut self) -> bool {
        let began_ms = self.context.clock.now_ms();
        let mut is_foreign_ready = false;
        while self.context.content_bytes < CONTENT_BYTES_PER_PASS
            && let Some(event) = self.events.get(self.next_event)
        {
            let ahead_ms = self.context.clock.now_ms();
            let ahead = self.read_ahead(ahead_ms);
            if ahead.iter().all(Option::is_none) {
                self.next_event += 1;
                is_foreign_ready |= event.token == FOREIGN;
                self.note_followers();
                self.serve(event);
            }
            for (index, (event, received)) in ahead.into_iter().flatten().enumerate() {
                self.next_event += 1;
                self.note_followers();
                self.serve_ahead(event, received, index);
            }
            let now_ms = self.context.clock.now_ms();
            if now_ms.saturating_sub(ahead_ms) >= AHEAD_MS_MAX {
                self.ahead_rests_until_ms = now_ms + AHEAD_REST_MS;
            }
            if self.is_over(began_ms) {
                // The foreign set does not wait for what is left to the next pass.
                return is_foreign_ready || self.is_foreign_left();
            }
        }
        is_foreign_ready
    }

    /// Notes whether the event after the one that is served now is a connection's input.
    #[inline]
    fn note_followers(&mut self) {
        let next = self.events.get(self.next_event);
        let is_followed = next.is_some_and(|it| it.token < LISTENER && it.is_readable());
        self.context.responder.batch.event_begins(is_followed);
    }

    /// Whether a pass that started at `began_ms` has lasted long enough.
    #[inline]
    pub(super) fn is_over(&mut self, began_ms: u64) -> bool {
        let lasted_ms = self.context.clock.now_ms().saturating_sub(began_ms);
        lasted_ms >= SHARED_PASS_MS && (lasted_ms >= PASS_MS || self.app.is_waited_for())
    }

    #[cold]
    fn is_foreign_left(&self) -> bool {
        let left = self.events.iter().skip(self.next_event);
        left.into_iter().any(|event| event.token == FOREIGN)
    }

    /// Runs the turns of connections that have more to do.
    #[cold]
    fn serve_turns(&mut self) {
        // A connection whose response waits may have its turn, because its transport holds more input.
        self.send_batch();
        let began_ms = self.context.clock.now_ms();
        for _ in 0..self.turns.len() {
            let next = self.turns.pop_front();
            if let Some(key) = next.and_then(|id| self.find(id)) {
                self.with_connection(key, |connection, context, app, receive| {
                    let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                    connection.proceed(context, app, buffer)
                });
            }
            self.send_before_next();
            if self.is_over(began_ms) {
                return;
            }
        }
    }

    /// Reads from the next connections, as long as each of them waits for a request.
    fn read_ahead(&mut self, now_ms: u64) -> Ahead {
        let mut ahead = [const { None }; AHEAD_MAX];
        if self.events.get(self.next_event + 1).is_none() || now_ms < self.ahead_rests_until_ms {
            return ahead;
        }
        let places = self.receive.chunks_exact_mut(AHEAD_BYTES);
        for (index, (read, place)) in ahead.iter_mut().zip(places).enumerate() {
            let Some(event) = self.events.get(self.next_event + index) else {
                break;
            };
            let is_input = event.token < LISTENER && event.is_readable() && !event.is_writable();
            let id = connection_of(event.token);
            let connection = self.connections.get(id.key as usize);
            let Some(connection) =
                connection.filter(|it| is_input && it.id() == id && it.waits_for_request())
            else {
                break;
            };
            let received = connection.receive(place);
            let is_batch = matches!(received, Received::Bytes(count) if count > SINGLE_BYTES_MAX);
            *read = Some((event, received));
            if is_batch {
                break;
            }
        }
        ahead
    }

    /// Serves the input that was read ahead into slot `index`.
    fn serve_ahead(&mut self, event: Readiness, received: Received, index: usize) {
        let start = index * AHEAD_BYTES;
        if let Some(key) = self.find(connection_of(event.token)) {
            self.with_connection(key, |connection, context, app, receive| {
                let place = receive.get_mut(start..start + AHEAD_BYTES);
                let place = place.unwrap_or_default();
                connection.received(context, app, received, place, event.has_ended())
            });
        }
        self.send_before_next();
    }

    /// Serves one event.
    fn serve(&mut self, event: Readiness) {
        if event.token >= LISTENER {
            return match self.accepting.is_shared() {
                true => (), // New connections were accepted first.
                false => self.take_in(event.token),
            };
        }
        let Some(key) = self.find(connection_of(event.token)) else {
            // The connection is closed, and another one may have its slot.
            return;
        };
        if let Some(connection) = self.connections.get_mut(key)
            && connection.handshake().is_some()
        {
            if event.is_hung_up() {
                // No step can complete it. Waiting for its turn, it would only keep its descriptor.
                return self.close(key, Fate::Close);
            }
            if !self.handshakes.add(&mut self.context, connection) {
                self.close(key, Fate::Close);
            }
            return;
        }
        self.with_connection(key, |connection, context, app, receive| {
            if event.has_ended() && !event.is_readable() {
                let fate = connection.peer_ended(context, app);
                if fate != Fate::Open {
                    return fate;
                }
            }
            if event.is_writable() {
                let fate = connection.writable(context, app);
                if fate != Fate::Open || !event.is_readable() {
                    connection.note_unread(event.is_readable());
                    return fate;
                }
            }
            if event.is_readable() {
                let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                connection.readable(context, app, buffer, event.has_ended())
            } else if event.has_ended() && !event.is_hung_up() {
                Fate::Open
            } else {
                connection.abandon(context, app)
            }
        });
        self.send_before_next();
    }

    /// Accepts new connections before the calls of this pass: other workers rely on that and do not check meanwhile.
    fn accept_first(&mut self) {
        for index in self.next_event.. {
            let Some(event) = self.events.get(index) else {
                return;
            };
            self.take_in(event.token);
        }
    }

    /// Accepts connections if the token is that of a listener, or of another worker's request.
    fn take_in(&mut self, token: Token) {
        if token == ASKED {
            self.accept_again();
        } else if (LISTENER..FOREIGN).contains(&token) {
            self.accept((token & !LISTENER) as usize);
        }
    }

    /// Sends output that must not wait for a call that the next connection may make.
    #[inline]
    pub(super) fn send_before_next(&mut self) {
        self.send_batch_if_due();
        if self.context.mailbox.has_output() {
            // A call of this pass posted it. The end of the pass takes what this leaves.
            let _ = self.take_mail(Bound::Pass);
        }
    }

    fn send_batch_if_due(&mut self) {
        if self
            .context
            .responder
            .batch
            .is_due(self.context.clock.now_ms())
        {
            self.send_batch();
            self.context.responder.batch.open();
        }
    }

    /// Sends the responses that waited for each other.
    pub(super) fn send_batch(&mut self) {
        for index in 0.. {
            let context = &mut self.context;
            let Responder { batch, out, .. } = &mut context.responder;
            let Some(left) = batch.take_next(index, out) else {
                return;
            };
            if let Some(key) = self.find(left.connection) {
                self.with_connection(key, |connection, context, app, _| {
                    if left.sent_bytes > 0 {
                        connection.was_sent(context, left.sent_bytes);
                    }
                    match left.is_broken {
                        true => connection.abandon(context, app),
                        false => connection.settle(context, app),
                    }
                });
            }
            // The connection no longer exists.
            self.context.responder.out.clear();
        }
    }
}

fn connection_of(token: Token) -> ConnectionId {
    ConnectionId {
        key: token as u32,
        generation: (token >> 32) as u32,
    }
}
