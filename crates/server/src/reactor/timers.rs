//! Acting on deadlines.
//!
//! Each connection computes its deadline, and the timer wheel only reminds of it. A reminder superseded by an earlier one is ignored; one
//! that is early sets the next.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Worker;
use crate::app::{Abort, App};
use crate::link::Fate;

impl<A: App> Worker<A> {
    /// Acts on deadlines before `now_ms`, up to which all input has been read. Those for which the pass has no time are left to the next.
    pub(super) fn expire(&mut self, now_ms: u64) {
        let began_ms = self.context.clock.tick();
        self.timers.expire(now_ms, &mut self.due);
        let due = std::mem::take(&mut self.due);
        for (index, key) in due.iter().copied().enumerate() {
            match self.reminders.get_mut(key as usize) {
                Some(standing) if *standing <= now_ms => *standing = u64::MAX,
                // Superseded by an earlier one, which has set the next.
                _ => continue,
            }
            self.with_connection(key as usize, |connection, context, app, _| {
                if connection.deadline_ms(context) <= now_ms {
                    connection.expire(context, app)
                } else {
                    Fate::Open
                }
            });
            if self.is_over(began_ms) {
                self.due = due.get(index + 1..).unwrap_or_default().to_vec();
                return;
            }
        }
    }

    /// Ends handlers that outlive their clients, and have exceeded their time.
    #[cold]
    pub(super) fn end_orphans(&mut self, now_ms: u64) {
        while let Some(orphan) = self.context.orphans.take_late(now_ms) {
            if self.app.owes_response(orphan.id) {
                let after_ms = orphan.after_ms;
                let why = Abort::OrphanTimeout { after_ms };
                // If the application panics, the others must still end.
                let _ = catch_unwind(AssertUnwindSafe(|| self.app.abort(orphan.id, why)));
            }
        }
    }
}
