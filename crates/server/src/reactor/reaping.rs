//! Closing connections for new ones, when there are as many as may be, or no descriptor or memory is left for another.
//!
//! | connection | who first | is closed |
//! | --- | --- | --- |
//! | waits for a request | has waited longest | after [`IDLE_MS_MIN`] |
//! | waits for the whole ClientHello of its TLS handshake | the same | the same |
//! | lingers, and its peer has received everything | the same | the same |
//! | its request arrives slowly, and nothing else is waited for | sends least per second | with 503, if none is idle, it sends less than [`SLOW_BYTES_PER_S`] and all of that was read |
//! | any other | | never |
//!
//! A client whose request ends so may send it again, because no response has begun. Without this, as many clients as there may be connections
//! could keep everybody else away, each with a few hundred bytes per second.

use super::{RECEIVE_BYTES, Worker};
use crate::app::App;
use crate::connection::holding::IDLE_MS_MIN;
use crate::context::metrics::{Scarce, Victims};

/// One of so many connections is closed at once, so that finding them takes little for each new one.
const IDLE_PART: usize = 128;
/// The same for those whose requests arrive slowly: they lose what they have sent.
const SLOW_PART: usize = 1024;
/// So many more are tried, because requests of some may have arrived, or more of them.
const SPARE_TRIED: usize = 64;
/// A client that sends more is not slow: half of what a telephone line carried.
const SLOW_BYTES_PER_S: u64 = 4096;
/// How long nothing is searched for after nothing was found.
const REST_MS: u64 = 100;

impl<A: App> Worker<A> {
    /// Closes connections for new ones. Returns whether there is room now.
    #[cold]
    pub(super) fn reap(&mut self, scarce: Scarce) -> bool {
        let now_ms = self.context.clock.tick();
        if now_ms < self.reaping_rests_until_ms {
            return false;
        }
        // Idle connections may have responses among these.
        let is_in_pass = self.context.responder.batch.is_open();
        self.send_batch();
        if is_in_pass {
            self.context.responder.batch.open();
        }
        let has_room = self.close_for_others(Victims::Idle, scarce, now_ms)
            || self.close_for_others(Victims::Slow, scarce, now_ms);
        if !has_room {
            self.reaping_rests_until_ms = now_ms + REST_MS;
        }
        has_room
    }

    fn close_for_others(&mut self, victims: Victims, scarce: Scarce, now_ms: u64) -> bool {
        let before = self.connections.len();
        let part = match victims {
            Victims::Idle => IDLE_PART,
            Victims::Slow => SLOW_PART,
        };
        let wanted = before / part + 1;
        for (_, key) in self.first_of(victims, wanted + SPARE_TRIED, now_ms) {
            if before - self.connections.len() == wanted {
                break;
            }
            self.with_connection(key, |connection, context, app, receive| match victims {
                Victims::Idle => connection.reap(context, app),
                Victims::Slow => {
                    let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                    connection.end_slow(context, app, buffer)
                }
            });
        }
        let count = before - self.connections.len();
        if count > 0 {
            self.context.metrics.reaped(victims, scarce, count);
            let reason = match scarce {
                Scarce::Places => "connections_max are open",
                Scarce::Descriptors => "no file descriptor was left",
                Scarce::Memory => "the system had no memory for another",
            };
            self.context.refusals.add_reaped(victims, count, reason);
        }
        count > 0
    }

    /// Up to `count` connections that may be closed, in the order of the table above.
    fn first_of(&self, victims: Victims, count: usize, now_ms: u64) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        if found.try_reserve_exact(self.connections.len()).is_err() {
            return found;
        }
        let idle_until_ms = now_ms.saturating_sub(IDLE_MS_MIN);
        for (key, connection) in &self.connections {
            let rank = match victims {
                Victims::Idle => connection.idle_since_ms().filter(|it| *it <= idle_until_ms),
                Victims::Slow => {
                    let rate = connection.arrival_rate(now_ms);
                    rate.filter(|rate| *rate < SLOW_BYTES_PER_S)
                }
            };
            found.extend(rank.map(|rank| (rank, key)));
        }
        if found.len() > count {
            found.select_nth_unstable(count);
            found.truncate(count);
        }
        found.sort_unstable();
        found
    }
}
