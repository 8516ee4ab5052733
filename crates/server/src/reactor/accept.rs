//! Taking connections in: when, how many at once, and when they are left to other workers.
//!
//! A connection that waits in a listening socket is anybody's who watches it. A worker that has clearly more connections than another, or
//! as many as it may have, asks that one ([`net::Siblings`]) and *rests*: it does not watch the listeners until it has room again, is
//! asked itself, or the other one has had its time. A worker alone does nothing of this.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use net::{Accepted, LATE_AFTER_MS, Listener, Peer, Poller, Seat, Token, Turn};

use super::{ASKED, LISTENER, Worker};
use crate::app::App;

/// Connections accepted from one listener before the others have their turn.
const ACCEPTS_PER_PASS: usize = 256;
/// How long a pass accepts. The first request of a connection is served at once, and an application that takes its time over each must not
/// keep the other connections, the timers and the loop waiting for all of them.
const ACCEPTING_MAX: Duration = Duration::from_millis(10);
/// How long accepting rests when the process has no descriptor left, or a listener cannot be watched.
const EXHAUSTED_MS: u64 = 250;
/// A connection that ends so soon was no load worth spreading.
const SHORT_MS: u64 = 10;
/// How many of those that ended lately count.
const SHORT_MAX: u32 = 64;
/// Nothing is to be done later.
const NEVER_MS: u64 = u64::MAX;

/// The listeners, and whether connections are taken from them now.
pub(super) struct Accepting {
    slots: Vec<Slot>,
    seat: Option<Seat>,
    state: State,
    /// When resting ends, or a drain goes on.
    resumes_ms: u64,
    short: Short,
}

/// Connections that end as soon as they have come. A worker that serves such ones may go on ahead of the others: its next ones will be
/// short too, and to have another worker woken for each costs more than to serve it (bench: churn).
#[derive(Default)]
struct Short {
    /// When each connection was accepted, by its key.
    accepted_ms: Vec<u64>,
    /// How many have ended, less those that were accepted in their place.
    ended: u32,
    last_ms: u64,
}

struct Slot {
    listener: Listener,
    /// The address every connection of it reaches; `None` when it listens on all addresses and each has to be asked.
    local: Option<Peer>,
    is_watched: bool,
    /// How many connections can have waited here when a drain began: so many are accepted in it. They are accepted in the order in which
    /// they came, so that none of these is left, and who goes on coming does not keep the drain from its end.
    drained_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The listeners are watched.
    Open,
    /// It is others' turn.
    Resting,
    /// The process has no descriptor left.
    Exhausted,
    /// What waits is taken in, then the listeners are closed.
    Draining,
}

/// How one pass over one listener ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// No connection waits.
    Empty,
    /// One may, and is taken in the next pass.
    Later,
    /// One may, and accepting rests.
    Rests,
}

impl Accepting {
    pub(super) fn new() -> Accepting {
        Accepting {
            slots: Vec::new(),
            seat: None,
            state: State::Open,
            resumes_ms: NEVER_MS,
            short: Short::default(),
        }
    }

    /// How long a wait may last for our sake.
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

    /// Whether connections that wait are still to be taken in by a drain.
    pub(super) fn is_draining(&self) -> bool {
        self.state == State::Draining && !self.slots.is_empty()
    }

    /// Counts a connection in; `open` are there now.
    #[inline]
    pub(super) fn opened(&mut self, key: usize, open: usize, now_ms: u64) {
        let Some(seat) = &self.seat else {
            return;
        };
        seat.set_open(open);
        self.short.opened(key, open, now_ms);
    }

    fn watch(&mut self, poller: &Poller) -> io::Result<()> {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !slot.is_watched {
                poller.add_shared(&slot.listener, LISTENER | index as Token)?;
                slot.is_watched = true;
            }
        }
        Ok(())
    }

    fn unwatch(&mut self, poller: &Poller) {
        for slot in &mut self.slots {
            // Closing our copy would not be enough: the socket is shared with other processes.
            if std::mem::take(&mut slot.is_watched) {
                let _ = poller.remove(&slot.listener);
            }
        }
    }

    /// Forgets all listeners.
    pub(super) fn end(&mut self, poller: &Poller) {
        self.unwatch(poller);
        self.slots.clear();
        self.resumes_ms = NEVER_MS;
        if let Some(seat) = &self.seat {
            seat.leave();
        }
    }
}

impl Short {
    fn opened(&mut self, key: usize, open: usize, now_ms: u64) {
        if self.accepted_ms.len() <= key {
            self.accepted_ms.resize(key + 1, 0);
        }
        if let Some(accepted_ms) = self.accepted_ms.get_mut(key) {
            *accepted_ms = now_ms;
        }
        // One that has hardly come together with others would have been ours anyway.
        self.ended = self.ended.saturating_sub(u32::from(open > 1));
    }

    fn closed(&mut self, key: usize, now_ms: u64) {
        let accepted_ms = self.accepted_ms.get(key).copied().unwrap_or_default();
        if now_ms.saturating_sub(accepted_ms) > SHORT_MS {
            return;
        }
        if now_ms.saturating_sub(self.last_ms) > SHORT_MS {
            self.ended = 0;
        }
        self.ended = SHORT_MAX.min(self.ended + 1);
        self.last_ms = now_ms;
    }

    /// How many more connections this worker may have for their sake.
    fn ahead(&self, now_ms: u64) -> u32 {
        match now_ms.saturating_sub(self.last_ms) <= SHORT_MS {
            true => self.ended,
            false => 0,
        }
    }
}

impl<A: App> Worker<A> {
    /// Shares the connections of its listeners with other workers, from before the first of them is added.
    ///
    /// # Errors
    /// When they cannot wake this one.
    pub fn join(&mut self, seat: Seat) -> io::Result<()> {
        seat.watch(&self.poller, ASKED)?;
        seat.set_open(self.connections.len());
        self.accepting.seat = Some(seat);
        Ok(())
    }

    /// Accepts connections from now on from a listening socket, in which up to `backlog` of them wait.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub fn add_listener(&mut self, socket: OwnedFd, backlog: usize) -> io::Result<()> {
        let listener = Listener::new(socket)?;
        let local = match listener.local() {
            Peer::Internet(address) if address.ip().is_unspecified() => None,
            local => Some(local),
        };
        self.accepting.slots.push(Slot {
            listener,
            local,
            is_watched: false,
            // The kernel lets one more wait.
            drained_max: backlog.saturating_add(1),
        });
        if let Err(error) = self.accepting.watch(&self.poller) {
            self.accepting.slots.pop();
            return Err(error);
        }
        if let Some(seat) = &self.accepting.seat {
            seat.take_part();
        }
        Ok(())
    }

    /// Takes in what waits at a listener that is ready.
    pub(super) fn accept(&mut self, index: usize) {
        self.accept_until(index, Instant::now() + ACCEPTING_MAX);
    }

    /// Comes when another worker asks for it.
    pub(super) fn come(&mut self) {
        if let Some(seat) = &self.accepting.seat {
            // Before looking: who asks after that finds that it has to ask again.
            seat.come();
        }
        match self.accepting.state {
            // Each that has something is reported.
            State::Resting => self.resume(),
            State::Open => (0..self.accepting.slots.len()).for_each(|index| self.accept(index)),
            State::Exhausted | State::Draining => {}
        }
    }

    /// Counts a connection out, which may make the next one ours.
    #[inline]
    pub(super) fn closed(&mut self, key: usize) {
        let Some(seat) = &self.accepting.seat else {
            return;
        };
        seat.set_open(self.connections.len());
        self.accepting
            .short
            .closed(key, self.context.clock.now_ms());
        if self.accepting.state == State::Resting && self.turn() == Turn::Ours {
            self.resume();
        }
    }

    /// Goes on after a rest, or in a drain.
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
        if let Some(seat) = &self.accepting.seat
            && !self.accepting.slots.is_empty()
        {
            seat.take_part();
        }
    }

    /// Leaves new connections to others, and takes in those that wait already.
    pub(super) fn drain_listeners(&mut self) {
        self.accepting.unwatch(&self.poller);
        self.accepting.state = State::Draining;
        if let Some(seat) = &self.accepting.seat {
            seat.leave();
        }
        self.accept_the_last();
    }

    /// Takes in some of those that waited when a drain began: whoever is connected, as far as its client knows, is served.
    fn accept_the_last(&mut self) {
        let until = Instant::now() + ACCEPTING_MAX;
        while let Some(index) = self.accepting.slots.len().checked_sub(1) {
            match self.accept_until(index, until) {
                Ended::Empty => drop(self.accepting.slots.pop()),
                Ended::Later => return self.accepting.resumes_ms = 0,
                Ended::Rests => return,
            }
        }
    }

    fn accept_until(&mut self, index: usize, until: Instant) -> Ended {
        for _ in 0..ACCEPTS_PER_PASS {
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
                    if Instant::now() >= until {
                        break;
                    }
                }
                Accepted::None => return Ended::Empty,
                Accepted::Lost => {}
                Accepted::Exhausted(_) => {
                    self.exhausted();
                    return Ended::Rests;
                }
            }
        }
        // The listener is reported again.
        Ended::Later
    }

    /// Whether a drain may go on. Who has a connection gives it back soon, so that nobody needs to be turned away.
    fn has_room_for_the_last(&mut self) -> bool {
        let has_room = self.connections.len() < self.context.limits.connections_max as usize;
        if !has_room {
            self.accepting.resumes_ms = self.context.clock.now_ms() + LATE_AFTER_MS;
        }
        has_room
    }

    fn turn(&self) -> Turn {
        let Some(seat) = &self.accepting.seat else {
            return Turn::Ours;
        };
        let (most, now_ms) = (
            self.context.limits.connections_max,
            self.context.clock.now_ms(),
        );
        seat.turn(most as usize, self.accepting.short.ahead(now_ms), now_ms)
    }

    /// Whether the next connection is for us to accept. If not, this worker rests.
    fn is_our_turn(&mut self) -> bool {
        if self.accepting.state == State::Draining {
            return self.has_room_for_the_last();
        }
        let turn = self.turn();
        if turn == Turn::Ours {
            return true;
        }
        self.leave_to(turn);
        self.rest(State::Resting, LATE_AFTER_MS);
        false
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

    /// Rests because nothing more can be opened; others may have what it takes.
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
