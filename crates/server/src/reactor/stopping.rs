//! The end of a worker: draining, which lets requests finish, and stopping, which does not wait.

use super::Worker;
use super::mail::Bound;
use crate::app::App;
use crate::exchange::Unfinished;
use crate::link::Fate;

impl<A: App> Worker<A> {
    /// Stops accepting, and ends every connection after its next response, an idle one soon.
    pub fn drain(&mut self) {
        self.context.draining_since_ms = Some(self.context.clock.tick());
        self.context.budget.lose_patience();
        self.drain_listeners();
        for key in self.keys() {
            // Its deadline has changed.
            self.with_connection(key, |connection, context, app, _| {
                connection.drain(context, app)
            });
        }
    }

    /// Keeps idle connections for so long in a drain, instead of half a second. Then a request that is on its way is lost if it takes longer.
    pub fn set_draining_idle(&mut self, idle_ms: u64) {
        self.context.draining_idle_ms = idle_ms;
    }

    /// Whether [`Worker::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.context.is_draining()
    }

    /// Whether no connection is open, or waiting to be accepted by a drain.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && !self.accepting.is_draining()
    }

    /// Closes everything now. Requests without a started response get a 503.
    pub fn stop(&mut self) -> Unfinished {
        self.accepting.end(&self.poller);
        // What handlers have posted since the last pass is part of their responses.
        self.take_mail(Bound::None);
        self.send_batch();
        let mut unfinished = Unfinished::default();
        for key in self.keys() {
            self.with_connection(key, |connection, context, app, buffer| {
                match connection.stop(context, app, buffer, &mut unfinished) {
                    Fate::Open => Fate::Close,
                    fate => fate,
                }
            });
        }
        // Nothing runs later.
        let now_ms = self.context.clock.now_ms();
        self.report_shortages(now_ms);
        self.report_refusals(now_ms);
        unfinished
    }
}
