//! Which side closes a connection whose end the server has announced.
//!
//! The side that closes first keeps the port for a minute, so the generator waits for the server. It must not wait each time for a server
//! that expects the client to close (RFC 9112 section 9.6).

use net::Received;

use super::super::connection::Stage;
use super::LoadThread;

/// How long a server may take to close after it has announced that.
const CLOSING_NS: u64 = 250_000_000;
/// A server that was late so often, and has closed no connection meanwhile, leaves closing to the client.
const LATE_MAX: u32 = 2;

/// What is known of a server that announces ends.
#[derive(Default)]
pub(super) struct Closing {
    /// How often it was late since it last closed a connection.
    late: u32,
    /// When it was late last.
    late_ns: u64,
}

impl Closing {
    fn is_left_to_client(&self) -> bool {
        self.late >= LATE_MAX
    }

    /// The server has not closed a connection, which has waited for that since then.
    fn note_late(&mut self, since_ns: u64, now_ns: u64) {
        // One pause of the server makes all late that wait at the time.
        if since_ns >= self.late_ns {
            self.late += 1;
            self.late_ns = now_ns;
        }
    }

    /// The server has closed a connection as announced.
    pub(super) fn note_closed(&mut self) {
        self.late = 0;
    }
}

impl LoadThread {
    /// The server has announced that it closes. Requests pipelined after the last response are sent again on another connection.
    pub(super) fn await_end(&mut self, index: usize, was_good: bool) {
        if self.closing.is_left_to_client() {
            self.look_for_end(index);
            return self.finish(index);
        }
        self.take_back_batch(index);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.stage = Stage::Ending {
                was_good,
                since_ns: self.now_ns,
            };
        }
    }

    /// Notes whether a server that was late before closes now.
    #[cold]
    fn look_for_end(&mut self, index: usize) {
        let connection = self.connections.get(index);
        let Some(socket) = connection.and_then(|it| it.socket.as_ref()) else {
            return;
        };
        if let Received::End | Received::Broken(_) = socket.receive(&mut self.buffer) {
            self.closing.note_closed();
        }
    }

    /// Closes a connection that has waited for its end for too long.
    #[cold]
    pub(super) fn sweep_ending(&mut self, index: usize, since_ns: u64) {
        if self.now_ns.saturating_sub(since_ns) <= CLOSING_NS {
            return;
        }
        // If this thread was late itself, the end may have arrived.
        self.receive(index, true);
        let stage = self.connections.get(index).map(|it| it.stage);
        let is_same = |it| matches!(it, Stage::Ending { since_ns: since, .. } if since == since_ns);
        if stage.is_some_and(is_same) {
            self.closing.note_late(since_ns, self.now_ns);
            self.finish(index);
        }
    }
}
