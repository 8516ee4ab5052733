//! Doing what handlers posted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Worker, panicked};
use crate::app::App;

/// Rounds of handlers that post at once when they are told something, before sockets have their turn.
const MAILS_PER_PASS: usize = 16;

impl<A: App> Worker<A> {
    /// Does what handlers posted, then sends once per connection. What they post because of that is done too, up to a bound: true when
    /// more may be waiting.
    pub(super) fn take_mail(&mut self) -> bool {
        for _ in 0..MAILS_PER_PASS {
            let mut commands = std::mem::take(&mut self.commands);
            self.mailbox.take(&mut commands);
            if commands.is_empty() {
                self.commands = commands;
                return false;
            }
            for (id, command) in commands.drain(..) {
                let key = id.connection() as usize;
                let Some(connection) = self.connections.get_mut(key) else {
                    continue;
                };
                let (context, app) = (&mut self.context, &mut self.app);
                let obey = AssertUnwindSafe(|| connection.obey(context, app, id, command));
                if catch_unwind(obey).is_err() {
                    self.with_connection(key, |connection, context, app, _| {
                        panicked(connection, context, app)
                    });
                } else if self.touched.last() != Some(&connection.id()) {
                    self.touched.push(connection.id());
                }
            }
            self.commands = commands;
            for id in std::mem::take(&mut self.touched) {
                if let Some(key) = self.find(id) {
                    self.with_connection(key, |connection, context, app, _| {
                        connection.settle(context, app)
                    });
                }
            }
        }
        true
    }
}
