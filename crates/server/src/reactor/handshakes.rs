//! TLS handshakes, which take turns with requests.
//!
//! A step of a handshake takes about as long as a hundred requests. An event of a connection that is shaking hands is therefore only noted,
//! and after the events of a wait a few steps are done. Clients that are being served wait for those few at most, however many handshakes
//! there are.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use net::memory::{NoMemory, reserve_place};

use super::Worker;
use crate::app::App;
use crate::connection::Connection;
use crate::context::Context;
use crate::id::ConnectionId;
use crate::limits::RECEIVE_BYTES;
use crate::link::Fate;

/// Steps of one pass. More would gain nothing: the rest of a pass costs a hundredth of them.
const STEPS_PER_PASS: usize = 4;
/// No further step starts after that: with RSA keys, one step takes a millisecond or more.
const STEPS_MAX: Duration = Duration::from_millis(1);

/// Connections that wait for the next step of their handshakes.
#[derive(Default)]
pub(super) struct Handshakes {
    due: VecDeque<ConnectionId>,
    /// Those that wait for a place first, in order of arrival.
    waiting: VecDeque<ConnectionId>,
}

impl Handshakes {
    /// Adds a connection that is shaking hands, unless it is among them. Returns false if there is no memory for that: it has to end, because
    /// nothing else would give it a turn.
    pub(super) fn add(&mut self, context: &mut Context, connection: &mut Connection) -> bool {
        let id = connection.id();
        let handshake = connection.handshake();
        match handshake.is_some_and(|it| it.queue(context)) {
            true => push(&mut self.due, context, id),
            false => true,
        }
    }
}

impl<A: App> Worker<A> {
    /// Whether a step of a handshake can be done now.
    #[inline]
    pub(super) fn has_handshakes(&self) -> bool {
        !self.handshakes.due.is_empty() || self.has_place() && !self.handshakes.waiting.is_empty()
    }

    fn has_place(&self) -> bool {
        self.context.handshakes.taken < self.context.limits.tls_handshakes_max
    }

    /// Does some steps of handshakes.
    #[cold]
    pub(super) fn serve_handshakes(&mut self) {
        let began = Instant::now();
        for _ in 0..STEPS_PER_PASS {
            let Some(key) = self.next_handshake() else {
                break;
            };
            self.with_connection(key, |connection, context, app, receive| {
                let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                connection.shake_hands(context, app, buffer)
            });
            self.send_before_next();
            if began.elapsed() >= STEPS_MAX {
                break;
            }
        }
        let Handshakes { due, waiting } = &mut self.handshakes;
        for queue in [due, waiting] {
            if queue.len() > 2 * self.connections.len() {
                // Most of them are closed.
                let connections = &self.connections;
                queue.retain(|id| {
                    let connection = connections.get(id.key as usize);
                    connection.is_some_and(|it| it.id() == *id)
                });
            }
        }
        self.note_awaited();
    }

    /// Notes whether handshakes wait to be accepted.
    pub(super) fn note_awaited(&mut self) {
        self.context.handshakes.are_held_off = self.accepting.is_holding_off();
    }

    /// Takes the next connection that has a place.
    fn next_handshake(&mut self) -> Option<usize> {
        loop {
            let awaited = match self.has_place() {
                true => self.handshakes.waiting.pop_front(),
                false => None,
            };
            let id = match awaited {
                Some(id) => id,
                None => self.handshakes.due.pop_front()?,
            };
            let Some(key) = self.find(id) else {
                continue;
            };
            let connection = self.connections.get_mut(key);
            let Some(handshake) = connection.and_then(Connection::handshake) else {
                return Some(key);
            };
            if handshake.takes_place(&mut self.context) {
                return Some(key);
            }
            match push(&mut self.handshakes.waiting, &mut self.context, id) {
                true => handshake.awaits_place(&mut self.context.handshakes),
                false => self.close(key, Fate::Close),
            }
        }
    }
}

/// Returns false without memory for it.
fn push(queue: &mut VecDeque<ConnectionId>, context: &mut Context, id: ConnectionId) -> bool {
    match reserve_place(queue) {
        Ok(()) => queue.push_back(id),
        Err(NoMemory(bytes)) => {
            context.note_shortage(bytes);
            return false;
        }
    }
    true
}
