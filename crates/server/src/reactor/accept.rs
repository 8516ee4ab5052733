//! Accepting connections: when, how many at once, and when they are left to other workers.
//!
//! Any worker that watches a listening socket may accept a connection from it. A worker that has clearly more connections than another,
//! its maximum, or an application that is occupied, asks that one ([`net::Siblings`]) and *rests*: it does not watch the listeners until it
//! has room again, is asked itself, or the other one has had its time. A single worker does none of this.
//!
//! Any worker *holds off* clients that use TLS while many handshakes wait for their next steps: it does not watch the listeners with TLS
//! until half of these are done or gone. The clients wait in the listening sockets, where they need no descriptor of the worker and another
//! worker may accept them. A drain accepts them too.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use net::{
    Accepted, Clock, LATE_AFTER_MS, Lack, Listener, Peer, Poller, Seat, TlsConfig, Token, Turn,
    memory,
};

use super::rush::Rush;
use super::{ASKED, LISTENER, Worker};
use crate::app::App;
use crate::context::metrics::Scarce;

/// Handshakes waiting for their next steps from which clients that use TLS are held off: some tenths of a second of work. Fewer if a worker has few
/// connections (half of them), so that those of other listeners have room.
const HANDSHAKES_QUEUED_MAX: u64 = 1024;
/// Connections accepted from one listener before the other listeners get their turn.
const ACCEPTS_PER_PASS: usize = 256;
/// How long a pass accepts. The first request of a connection is served at once, and a slow application must not delay the other
/// connections, the timers and the event loop for all of them.
const ACCEPTING_MAX_MS: u64 = 10;
/// How long accepting pauses when the process has no descriptor or memory left, or a listener cannot be watched.
const EXHAUSTED_MS: u64 = 250;
/// Nothing is scheduled.
const NEVER_MS: u64 = u64::MAX;

/// The listeners, and whether connections are accepted from them now.
pub(super) struct Accepting {
    slots: Vec<Slot>,
    seat: Option<Seat>,
    state: State,
    /// When resting ends, or a drain continues.
    resumes_ms: u64,
    /// Clients that use TLS are held off.
    is_holding_off: bool,
    rush: Rush,
}

struct Slot {
    listener: Listener,
    /// The local address of every connection; `None` if it listens on all addresses and each connection is queried.
    local: Option<Peer>,
    is_watched: bool,
    /// Maximum connections that waited when a drain began, which is how many it accepts. They are accepted in order of arrival, so none of
    /// them is missed, and new ones do not delay the end of the drain.
    drained_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The listeners are watched.
    Open,
    /// Other workers accept.
    Resting,
    /// The process has no descriptor or memory left.
    Exhausted,
    /// Waiting connections are accepted, then the listeners are closed.
    Draining,
}

/// The result of one pass over one listener.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// No connection waits.
    Empty,
    /// One may wait, and is accepted in the next pass.
    Later,
    /// One may wait, and accepting rests.
    Rests,
}

impl Accepting {
    pub(super) fn new() -> Accepting {
        Accepting {
            slots: Vec::new(),
            seat: None,
            state: State::Open,
            resumes_ms: NEVER_MS,
            is_holding_off: false,
            rush: Rush::default(),
        }
    }

    /// The maximum length of the next wait.
    #[inline]
    pub(super) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        match self.resumes_ms {
            NEVER_MS => None,
            at_ms => Some(at_ms.saturating_sub(now_ms)),
        }
    }

    /// Whether [`Worker::resume`] has something to do.
    #[inline]
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.resumes_ms <= now_ms
    }

    /// Whether a drain still has connections to accept.
    pub(super) fn is_draining(&self) -> bool {
        self.state == State::Draining && !self.slots.is_empty()
    }

    /// Whether other workers accept from the same listeners.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.seat.is_some()
    }

    /// Counts a new connection; `open` are open now.
    #[inline]
    pub(super) fn opened(&mut self, key: usize, open: usize, now_ms: u64) {
        let Some(seat) = &self.seat else {
            return;
        };
        seat.set_open(open);
        self.rush.opened(key, now_ms);
    }

    fn watch(&mut self, poller: &Poller) -> io::Result<()> {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_held_off = self.is_holding_off && slot.listener.is_secure();
            if !slot.is_watched && !is_held_off {
                poller.add_shared(&slot.listener, LISTENER | index as Token)?;
                slot.is_watched = true;
            }
        }
        Ok(())
    }

    fn unwatch(&mut self, poller: &Poller) {
        self.slots.iter_mut().for_each(|slot| slot.unwatch(poller));
    }

    /// Whether clients that use TLS are held off.
    #[inline]
    pub(super) fn is_holding_off(&self) -> bool {
        self.is_holding_off
    }

    /// Leaves clients that use TLS to the other workers, or to later.
    #[cold]
    fn hold_off(&mut self, poller: &Poller) {
        self.is_holding_off = true;
        for slot in &mut self.slots {
            if slot.listener.is_secure() {
                slot.unwatch(poller);
            }
        }
        if let Some(seat) = &self.seat {
            // Otherwise siblings with more connections would leave these clients to this worker.
            seat.pause();
        }
    }

    /// Lets other workers know that this one accepts.
    fn open_seat(&self) {
        if let Some(seat) = &self.seat
            && !self.slots.is_empty()
            && !self.is_holding_off
        {
            seat.open();
        }
    }

    /// Drops all listeners.
    pub(super) fn end(&mut self, poller: &Poller) {
        self.unwatch(poller);
        self.slots.clear();
        self.resumes_ms = NEVER_MS;
        self.is_holding_off = false;
        if let Some(seat) = &self.seat {
            seat.close();
        }
    }
}

impl Slot {
    fn unwatch(&mut self, poller: &Poller) {
        // Closing our copy would not be enough: other processes share the socket.
        if std::mem::take(&mut self.is_watched) {
            let _ = poller.remove(&self.listener);
        }
    }
}

impl<A: App> Worker<A> {
    /// Shares the connections of its listeners with other workers. To be called before the first listener is added.
    ///
    /// # Errors
    /// If the others cannot wake this one.
    pub fn join(&mut self, seat: Seat) -> io::Result<()> {
        seat.watch(&self.poller, ASKED)?;
        seat.set_open(self.admitted());
        self.accepting.seat = Some(seat);
        Ok(())
    }

    /// Accepts connections from a listening socket with the given `backlog`, which use `tls` if it is given.
    ///
    /// # Errors
    /// If it cannot be watched.
    pub fn add_listener(
        &mut self,
        socket: OwnedFd,
        backlog: usize,
        tls: Option<Arc<TlsConfig>>,
    ) -> io::Result<()> {
        // Its startup may have added routes.
        self.routes_changed();
        let listener = Listener::new(socket)?;
        let listener = match tls {
            Some(config) => listener.with_tls(config),
            None => listener,
        };
        let local = match listener.local() {
            Peer::Internet(address) if address.ip().is_unspecified() => None,
            local => Some(local),
        };
        self.accepting.slots.push(Slot {
            listener,
            local,
            is_watched: false,
            // The kernel queues one more.
            drained_max: backlog.saturating_add(1),
        });
        if let Err(error) = self.accepting.watch(&self.poller) {
            self.accepting.slots.pop();
            return Err(error);
        }
        self.accepting.open_seat();
        Ok(())
    }

    /// Has the next connections of its listeners that use TLS use this; open connections keep what they began with.
    pub fn renew_tls(&mut self, config: &Arc<TlsConfig>) {
        for slot in &mut self.accepting.slots {
            slot.listener.renew_tls(config);
        }
    }

    /// Accepts connections from a listener that is ready.
    pub(super) fn accept(&mut self, index: usize) {
        self.accept_until(index, Clock::tick_ms() + ACCEPTING_MAX_MS);
    }

    /// Accepts again because another worker asked for it.
    pub(super) fn accept_again(&mut self) {
        if let Some(seat) = &self.accepting.seat {
            // Before checking: a worker that asks later sees that it has to ask again.
            seat.acknowledge();
        }
        match self.accepting.state {
            // Each listener with a waiting connection is reported.
            State::Resting => self.resume(),
            State::Open => (0..self.accepting.slots.len()).for_each(|index| self.accept(index)),
            State::Exhausted | State::Draining => {}
        }
    }

    /// Counts a closed connection, after which this worker may accept again.
    #[inline]
    pub(super) fn closed(&mut self, key: usize) {
        let Some(seat) = &self.accepting.seat else {
            return;
        };
        seat.set_open(self.admitted());
        self.accepting.rush.closed(key, self.context.clock.now_ms());
        if self.accepting.state == State::Resting && (self.is_rush() || self.turn() == Turn::Ours) {
            self.resume();
        }
    }

    /// Continues after a rest, or in a drain.
    #[cold]
    pub(super) fn resume(&mut self) {
        self.accepting.resumes_ms = NEVER_MS;
        if self.accepting.state == State::Draining {
            return self.accept_the_last();
        }
        self.accepting.state = State::Open;
        if self.accepting.watch(&self.poller).is_err() {
            return self.exhausted();
        }
        self.accepting.open_seat();
    }

    /// Accepts clients that use TLS again, if half of the handshakes for which they were held off are done or gone.
    #[cold]
    pub(super) fn end_holding_off(&mut self) {
        if self.context.handshakes.queued > self.handshakes_queued_max() / 2 {
            return;
        }
        self.accepting.is_holding_off = false;
        self.note_awaited();
        if self.accepting.state == State::Open {
            self.resume();
        }
    }

    /// The number of handshakes waiting for their next steps from which clients that use TLS are held off.
    fn handshakes_queued_max(&self) -> u64 {
        (self.context.limits.connections_max / 2).min(HANDSHAKES_QUEUED_MAX)
    }

    /// Leaves new connections to others, and accepts those already waiting.
    pub(super) fn drain_listeners(&mut self) {
        self.accepting.unwatch(&self.poller);
        self.accepting.state = State::Draining;
        self.accepting.is_holding_off = false;
        if let Some(seat) = &self.accepting.seat {
            seat.close();
        }
        self.accept_the_last();
    }

    /// Accepts some of the connections that waited when a drain began: a client that considers itself connected is served.
    fn accept_the_last(&mut self) {
        let until_ms = Clock::tick_ms() + ACCEPTING_MAX_MS;
        while let Some(index) = self.accepting.slots.len().checked_sub(1) {
            match self.accept_until(index, until_ms) {
                Ended::Empty => drop(self.accepting.slots.pop()),
                Ended::Later => return self.accepting.resumes_ms = 0,
                Ended::Rests => return,
            }
        }
    }

    fn accept_until(&mut self, index: usize, until_ms: u64) -> Ended {
        memory::notice_limit();
        for _ in 0..self.accepts_max(index) {
            if !self.is_our_turn() {
                return Ended::Rests;
            }
            let is_draining = self.accepting.state == State::Draining;
            let Some(slot) = self.accepting.slots.get_mut(index) else {
                return Ended::Empty;
            };
            if is_draining && slot.drained_max == 0 {
                return Ended::Empty;
            }
            match slot.listener.accept() {
                Accepted::Connection(transport, client) => {
                    slot.drained_max -= usize::from(is_draining);
                    let server = slot.local.unwrap_or_else(|| transport.local());
                    self.open(transport, client, server);
                    if Clock::tick_ms() >= until_ms {
                        break;
                    }
                }
                Accepted::None => return Ended::Empty,
                Accepted::Lost => slot.drained_max -= usize::from(is_draining),
                // The last one that waited has the last descriptor.
                Accepted::Exhausted(_) if !slot.listener.has_waiting() => return Ended::Empty,
                Accepted::Exhausted(lack) if self.reap(scarce(lack)) => {}
                Accepted::Exhausted(_) => {
                    self.exhausted();
                    return Ended::Rests;
                }
            }
        }
        // The listener is reported again, unless its clients are held off.
        Ended::Later
    }

    /// How many connections may be accepted from a listener at once: those that use TLS fill the queue of handshakes, but do not exceed it by
    /// much.
    fn accepts_max(&mut self, index: usize) -> usize {
        let slot = self.accepting.slots.get(index);
        if !slot.is_some_and(|slot| slot.listener.is_secure())
            || self.accepting.state == State::Draining
        {
            return ACCEPTS_PER_PASS;
        }
        let (queued, queued_max) = (self.context.handshakes.queued, self.handshakes_queued_max());
        if queued > queued_max && !self.accepting.is_holding_off {
            self.accepting.hold_off(&self.poller);
        }
        match self.accepting.is_holding_off {
            true => 0,
            // Those of the last pass may not have been reported yet.
            false => ACCEPTS_PER_PASS.min((queued_max - queued) as usize / 2 + 1),
        }
    }

    /// Whether a drain may continue. Open connections end soon, so none needs to be refused.
    fn has_room_for_the_last(&mut self) -> bool {
        let has_room = self.admitted() < self.connections_max();
        if !has_room {
            self.accepting.resumes_ms = self.context.clock.now_ms() + LATE_AFTER_MS;
        }
        has_room
    }

    pub(super) fn connections_max(&self) -> usize {
        self.context.limits.connections_max as usize
    }

    fn turn(&self) -> Turn {
        let Some(seat) = &self.accepting.seat else {
            return Turn::Ours;
        };
        seat.turn(self.connections_max(), self.context.clock.now_ms())
    }

    /// Whether the next connection is probably part of a rush, which is not to be spread.
    fn is_rush(&self) -> bool {
        let now_ms = self.context.clock.now_ms();
        self.accepting.rush.is_on(now_ms) && self.admitted() < self.connections_max()
    }

    /// Whether this worker is to accept the next connection. If not, it rests.
    fn is_our_turn(&mut self) -> bool {
        if self.accepting.state == State::Draining {
            return self.has_room_for_the_last();
        }
        if self.accepting.is_shared() {
            if self.is_short() {
                return self.is_our_turn_without_room(State::Exhausted, EXHAUSTED_MS);
            }
            if self.app.is_occupied() {
                return self.is_our_turn_without_room(State::Resting, LATE_AFTER_MS);
            }
        }
        let turn = self.turn();
        if turn == Turn::Ours {
            return true;
        }
        if self.is_rush() {
            self.accepting.rush.exceed();
            return true;
        }
        self.leave_to(turn);
        self.rest(State::Resting, LATE_AFTER_MS);
        false
    }

    /// The same while too little memory is left for another connection, or the application is occupied: this worker would accept only to
    /// refuse, or to let the client wait, which it does if no other has room. It does not count among those that have room, however few
    /// connections it has. If it is not to accept, it rests in `state`.
    #[cold]
    fn is_our_turn_without_room(&mut self, state: State, for_ms: u64) -> bool {
        if let Some(seat) = &self.accepting.seat {
            seat.pause();
        }
        let turn = self.turn();
        if turn != Turn::Ours {
            self.rest(state, for_ms);
            self.leave_to(turn);
            return false;
        }
        self.accepting.open_seat();
        true
    }

    fn leave_to(&self, turn: Turn) {
        if let (Turn::Sibling(index), Some(seat)) = (turn, &self.accepting.seat) {
            seat.ask(index, self.context.clock.now_ms());
        }
    }

    fn rest(&mut self, state: State, for_ms: u64) {
        self.accepting.unwatch(&self.poller);
        self.accepting.state = state;
        self.accepting.resumes_ms = self.context.clock.now_ms() + for_ms;
    }

    /// Rests because nothing more can be opened; others may have the descriptors.
    #[cold]
    fn exhausted(&mut self) {
        if self.accepting.state == State::Draining {
            self.accepting.resumes_ms = self.context.clock.now_ms() + EXHAUSTED_MS;
            return;
        }
        self.rest(State::Exhausted, EXHAUSTED_MS);
        if let Some(seat) = &self.accepting.seat {
            seat.pause();
        }
        self.leave_to(self.turn());
    }
}

fn scarce(lack: Lack) -> Scarce {
    match lack {
        Lack::Descriptors => Scarce::Descriptors,
        Lack::Memory => Scarce::Memory,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use net::Interest;

    use super::*;
    use crate::app::{Abort, Outcome, Pulled, Request};
    use crate::id::ExchangeId;
    use crate::{Config, Responder};

    /// An application that gets no request.
    struct Nothing;

    impl App for Nothing {
        fn call(&mut self, _: &Request<'_>, _: &mut Responder) -> Outcome {
            unreachable!()
        }
        fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
            unreachable!()
        }
        fn content(&mut self, _: ExchangeId, _: &[u8], _: bool) -> bool {
            true
        }
        fn writable(&mut self, _: ExchangeId) {}
        fn abort(&mut self, _: ExchangeId, _: Abort) {}
    }

    #[test]
    fn a_listener_that_cannot_be_watched_again_is_tried_until_it_can() {
        let mut worker = Worker::new(Nothing, Config::default(), None, Arc::default()).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        worker.add_listener(socket.into(), 1, None).unwrap();
        worker.rest(State::Resting, 0);
        // The kernel refuses to watch a descriptor twice.
        let poller = worker.poller();
        let watch = |worker: &Worker<Nothing>| {
            let listener = &worker.accepting.slots.first().unwrap().listener;
            poller.add(listener, 0, Interest::NONE).unwrap();
        };
        watch(&worker);
        for _ in 0..3 {
            worker.resume();
            let wait_ms = worker.before_wait();
            assert!(matches!(wait_ms, Some(1..=EXHAUSTED_MS)), "{wait_ms:?}");
        }
        poller
            .remove(&worker.accepting.slots.first().unwrap().listener)
            .unwrap();
        worker.resume();
        assert!(worker.accepting.slots.first().unwrap().is_watched);
        assert_eq!(worker.before_wait(), None);
    }
}
