//! Closing idle connections for new ones, when there are as many as may be or no descriptor is left: those first that have waited longest for a
//! request. One with a request in flight, however slow, stays.

use super::Worker;
use crate::app::App;
use crate::context::metrics::Scarce;

/// One of so many connections is closed at once, so that finding them takes little for each new one.
const PART_REAPED: usize = 128;
/// So many more are tried, because requests of some may have arrived.
const SPARE_TRIED: usize = 64;
/// Milliseconds for which a connection stays at least: its request may be on its way.
const IDLE_MS_MIN: u64 = 1000;
/// How long nothing is searched for after nothing was found.
const REST_MS: u64 = 100;

impl<A: App> Worker<A> {
    /// Closes the oldest idle connections. Returns whether there is room now.
    #[cold]
    pub(super) fn reap(&mut self, scarce: Scarce) -> bool {
        let now_ms = self.context.clock.tick();
        if now_ms < self.reaping_rests_until_ms {
            return false;
        }
        // Idle connections may have responses among these.
        self.send_batch();
        self.context.responder.batch.open();
        let before = self.connections.len();
        let wanted = before / PART_REAPED + 1;
        let until_ms = now_ms.saturating_sub(IDLE_MS_MIN);
        for (_, key) in self.oldest_idle(wanted + SPARE_TRIED, until_ms) {
            if before - self.connections.len() == wanted {
                break;
            }
            self.with_connection(key, |connection, context, app, _| {
                connection.reap(context, app)
            });
        }
        let count = before - self.connections.len();
        if count == 0 {
            self.reaping_rests_until_ms = now_ms + REST_MS;
            return false;
        }
        self.context.metrics.reaped(scarce, count);
        let reason = match scarce {
            Scarce::Places => "connections_max are open",
            Scarce::Descriptors => "no file descriptor was left",
        };
        self.context.refusals.add_reaped(count, reason);
        true
    }

    /// Up to `count` connections that have waited longest for a request, at least since `until_ms`, the first of them first.
    fn oldest_idle(&self, count: usize, until_ms: u64) -> Vec<(u64, usize)> {
        let mut idle = Vec::new();
        if idle.try_reserve_exact(self.connections.len()).is_err() {
            return idle;
        }
        let open = self.connections.iter();
        let since = open.filter_map(|(key, it)| Some((it.idle_since_ms()?, key)));
        idle.extend(since.filter(|(since_ms, _)| *since_ms <= until_ms));
        if idle.len() > count {
            idle.select_nth_unstable(count);
            idle.truncate(count);
        }
        idle.sort_unstable();
        idle
    }
}
