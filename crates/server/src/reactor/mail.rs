//! Executing what handlers posted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Worker, panicked};
use crate::app::App;
use crate::connection::Connection;
use crate::id::{ConnectionId, ExchangeId};
use crate::link::Fate;
use crate::mailbox::{Command, Mail};
use crate::responder::messages::publication::Publication;

/// Connections that were touched are noted so often at least before those that were noted twice are left out.
const TOUCHED_MIN: usize = 1024;

/// Rounds in which notified handlers may post again before sockets get their turn.
const MAILS_PER_PASS: usize = 16;

/// Commands between two looks at the clock: some 10 us.
const COMMANDS_PER_TICK: usize = 64;

/// Whether what is posted may wait for the next pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// It ends with its share of the pass.
    Pass,
    /// No pass follows.
    None,
}

impl<A: App> Worker<A> {
    /// Executes posted commands, then sends once per connection. Commands posted meanwhile are executed too. Returns true if more may be
    /// waiting, because there was too much for one share of a pass, of which there are a few. A publication is executed as a whole.
    pub(super) fn take_mail(&mut self, bound: Bound) -> bool {
        if !self.postponed.is_empty() {
            self.notify();
        }
        // The event loop may have run for long since the last event. All rounds share one duration.
        let began_ms = self.context.clock.tick();
        for _ in 0..MAILS_PER_PASS {
            let mut mail = std::mem::take(&mut self.mail);
            self.context.mailbox.take(&mut mail);
            if mail.is_empty() {
                self.mail = mail;
                return false;
            }
            self.context.clock.tick();
            let may_be_more = !self.execute(&mut mail, bound, began_ms);
            if may_be_more {
                self.context.mailbox.give_back(mail);
            } else {
                self.mail = mail;
            }
            self.send_touched(bound, began_ms);
            self.context.charge_published();
            if may_be_more {
                return true;
            }
        }
        true
    }

    /// Executes commands in their order, up to the bound. Returns whether all were executed.
    fn execute(&mut self, mail: &mut VecDeque<Mail>, bound: Bound, began_ms: u64) -> bool {
        let mut until_tick = COMMANDS_PER_TICK;
        while let Some(mail) = mail.pop_front() {
            until_tick -= 1;
            match mail {
                Mail::Command(id, command) => {
                    let before_ms = self.context.clock.now_ms();
                    self.obey(id, command);
                    if self.context.clock.now_ms() != before_ms {
                        until_tick = 0; // A long part was sent, and took some time.
                    }
                }
                Mail::Publication(mut publication) => {
                    self.publish(&mut publication);
                    until_tick = 0;
                }
            }
            if until_tick == 0 {
                until_tick = COMMANDS_PER_TICK;
                self.context.clock.tick();
                if bound == Bound::Pass && self.is_over(began_ms) {
                    break;
                }
            }
        }
        mail.is_empty()
    }

    #[inline]
    fn obey(&mut self, id: ExchangeId, command: Command) {
        let key = id.connection() as usize;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let (context, app) = (&mut self.context, &mut self.app);
        let obey = AssertUnwindSafe(|| connection.obey(context, app, id, command));
        if catch_unwind(obey).is_err() {
            self.with_connection(key, |connection, context, app, _| {
                panicked(connection, context, app)
            });
        } else {
            let id = connection.id();
            self.touch(id);
        }
    }

    /// Sends what the executed commands have written, and continues with what that unblocks.
    fn send_touched(&mut self, bound: Bound, began_ms: u64) {
        let mut touched = std::mem::take(&mut self.touched);
        if touched.len() > 1 {
            self.send_before_calls(&mut touched);
        }
        for id in touched {
            let Some(key) = self.find(id) else {
                continue;
            };
            // Others have waited for their turn.
            let is_late = bound == Bound::Pass && self.is_over(began_ms);
            self.with_connection(key, |connection, context, app, _| {
                if is_late {
                    Fate::Again
                } else if context.mailbox.has_output() {
                    // New output must not wait for a call that this connection may make.
                    connection.send_written(context, app)
                } else {
                    connection.settle(context, app)
                }
            });
        }
    }

    /// Leaves a published message with each subscriber; all are sent once everything posted was executed.
    fn publish(&mut self, publication: &mut Publication) {
        let topics = &mut self.context.websockets.topics;
        let Some(topic) = topics.publish(&publication.topic) else {
            return;
        };
        publication.count(&self.context.websockets.published);
        while let Some(id) = self.context.websockets.topics.next(topic) {
            let key = id.connection() as usize;
            self.make_room(key, id, publication.plain().len());
            let Some(connection) = self.connections.get_mut(key) else {
                continue;
            };
            let (context, app) = (&mut self.context, &mut self.app);
            let publish = AssertUnwindSafe(|| connection.publish(context, app, id, publication));
            let is_published = catch_unwind(publish).is_ok();
            let touched = connection.id();
            self.touch(touched);
            if !is_published {
                self.with_connection(key, |connection, context, app, _| {
                    panicked(connection, context, app)
                });
            }
        }
    }

    /// Notes that a connection has something to do, once or a few times: publications of one round touch all their subscribers each.
    #[inline]
    fn touch(&mut self, id: ConnectionId) {
        if self.touched.last() == Some(&id) {
            return;
        }
        if self.touched.len() >= TOUCHED_MIN.max(2 * self.connections.len()) {
            self.touched
                .sort_unstable_by_key(|it| (it.key, it.generation));
            self.touched.dedup();
        }
        self.touched.push(id);
    }

    /// Sends what a subscriber is owed if one more frame would exceed its limit: what was published in a burst had no chance to leave.
    #[inline]
    fn make_room(&mut self, key: usize, id: ExchangeId, frame_bytes: usize) {
        let context = &self.context;
        let connection = self.connections.get(key);
        if connection.is_some_and(|it| !it.has_room_for(context, id, frame_bytes)) {
            self.with_connection(key, |connection, context, app, _| {
                connection.send_written(context, app)
            });
        }
    }

    /// Moves connections whose turn may call the application to the end, because requests wait for what they send, and sends what they
    /// have: no response waits for such a call.
    fn send_before_calls(&mut self, touched: &mut [ConnectionId]) {
        let has_input = |id: &ConnectionId| {
            let connection = self.connections.get(id.key as usize);
            connection.is_some_and(Connection::has_unused_input)
        };
        if !touched.iter().any(has_input) {
            return;
        }
        touched.sort_by_cached_key(has_input);
        let first = touched.partition_point(|id| !has_input(id));
        for id in touched.iter().skip(first) {
            if let Some(key) = self.find(*id) {
                self.with_connection(key, |connection, context, app, _| {
                    match connection.send_written(context, app) {
                        // Its own turn follows.
                        Fate::Again => Fate::Open,
                        fate => fate,
                    }
                });
            }
        }
    }
}
