//! Requests that wait until fewer run: when they continue, or are refused.

use super::Worker;
use crate::app::App;
use crate::context::admission::LOOK_MS;

impl<A: App> Worker<A> {
    /// Continues with requests that waited, in the order of their arrival, as long as there are places.
    #[cold]
    pub(super) fn serve_queue(&mut self) {
        let began_ms = self.context.clock.now_ms();
        while let Some((place, grant)) = self.context.next_queued(self.app.running()) {
            let now_ms = self.context.clock.now_ms();
            self.context.admission.waited_ms = place.waited_ms(now_ms);
            if let Some(key) = self.find(place.connection) {
                self.with_connection(key, |connection, context, app, _| {
                    connection.granted(context, app, place.stream, grant)
                });
            }
            self.context.admission.waited_ms = 0;
            self.send_before_next();
            if self.is_over(began_ms) {
                return;
            }
        }
    }

    /// How long the next wait may last until a request that waits may continue.
    #[cold]
    pub(super) fn queue_wait_ms(&self) -> u64 {
        match self.context.queue_moves(self.app.running()) {
            true => 0,
            false => LOOK_MS,
        }
    }
}
