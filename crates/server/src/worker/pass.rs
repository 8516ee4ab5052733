//! Serving what a wait found ready.
//!
//! What came is read from a few connections, then all of it is served, then the answers are sent ([`crate::group`]): the kernel's code, the
//! application's and ours are larger than what the processor keeps at hand, and each pushes the others out.

use net::{Readiness, Received};

use super::{
    ACCEPTING_MAX, AHEAD_BYTES, AHEAD_MAX, CONTENT_BYTES_PER_PASS, FOREIGN, LISTENER,
    RECEIVE_BYTES, SINGLE_BYTES_MAX, Worker,
};
use crate::app::{Abort, App};
use crate::connection::Fate;

/// What was read ahead.
type Ahead = [Option<(Readiness, Received)>; AHEAD_MAX];

impl<A: App> Worker<A> {
    /// Serves everything that the last wait found ready. True when something is ready that is not ours.
    pub fn dispatch(&mut self) -> bool {
        let mut is_foreign_ready = false;
        if self.core.clock.refresh() {
            self.core.stamp.refresh(self.core.clock.unix_s());
        }
        self.core.content_bytes = 0;
        self.core.group.open();
        while self.core.content_bytes < CONTENT_BYTES_PER_PASS
            && let Some(event) = self.events.get(self.next_event)
        {
            let ahead = self.read_ahead();
            if ahead.iter().all(Option::is_none) {
                self.next_event += 1;
                is_foreign_ready |= event.token == FOREIGN;
                self.serve(event);
            }
            for (index, (event, received)) in ahead.into_iter().flatten().enumerate() {
                self.next_event += 1;
                self.serve_ahead(event, received, index);
            }
        }
        self.send_group();
        self.take_mail();
        if self.timers.is_due(self.core.clock.now_ms()) {
            self.expire();
        }
        is_foreign_ready
    }

    /// Reads from the next connections, as long as each of them waits for a request.
    fn read_ahead(&mut self) -> Ahead {
        let mut ahead = [const { None }; AHEAD_MAX];
        if self.events.get(self.next_event + 1).is_none() {
            return ahead;
        }
        let places = self.receive.chunks_exact_mut(AHEAD_BYTES);
        for (index, (read, place)) in ahead.iter_mut().zip(places).enumerate() {
            let Some(event) = self.events.get(self.next_event + index) else {
                break;
            };
            let is_input = event.token < LISTENER && event.is_readable() && !event.is_writable();
            let connection = self.connections.get(event.token as usize);
            let Some(connection) = connection.filter(|it| is_input && it.waits_for_request())
            else {
                break;
            };
            let received = connection.transport.receive(place);
            let is_batch = matches!(received, Received::Bytes(count) if count > SINGLE_BYTES_MAX);
            *read = Some((event, received));
            if is_batch {
                break;
            }
        }
        ahead
    }

    /// Serves what was read ahead into the `index`-th place.
    fn serve_ahead(&mut self, event: Readiness, received: Received, index: usize) {
        let start = index * AHEAD_BYTES;
        self.with_connection(event.token as usize, |connection, core, app, receive| {
            let place = receive.get(start..start + AHEAD_BYTES).unwrap_or_default();
            connection.received(core, app, received, place, event.has_ended())
        });
        self.send_group_if_due();
    }

    /// Serves one event.
    fn serve(&mut self, event: Readiness) {
        if event.token >= FOREIGN {
            return;
        }
        if event.token >= LISTENER {
            return self.accept((event.token & !LISTENER) as usize, ACCEPTING_MAX);
        }
        self.with_connection(event.token as usize, |connection, core, app, receive| {
            if event.has_ended() && !event.is_readable() {
                connection.peer_ended(core, app);
            }
            if event.is_writable() {
                connection.writable(core, app)
            } else if event.is_readable() {
                let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                connection.readable(core, app, buffer, event.has_ended())
            } else if event.has_ended() && !event.is_hung_up() {
                Fate::Open
            } else {
                connection.close(core, app, Abort::Disconnected)
            }
        });
        self.send_group_if_due();
    }

    fn send_group_if_due(&mut self) {
        if self.core.group.is_due() {
            self.send_group();
            self.core.group.open();
        }
    }

    /// Sends the answers that waited for each other.
    fn send_group(&mut self) {
        for index in 0.. {
            let core = &mut self.core;
            let Some(key) = core.group.leave(index, &mut core.out) else {
                return;
            };
            self.with_connection(key as usize, |connection, core, app, _| {
                connection.settle(core, app)
            });
            // Nobody takes them if the connection is no more.
            self.core.out.clear();
        }
    }
}
