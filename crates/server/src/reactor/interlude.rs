//! Sending between two passes, while the application computes and cannot be called.
//!
//! Posted commands are executed as far as that does not call the application. The next pass does the rest.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Worker, panicked};
use crate::app::websocket::Closed;
use crate::app::{Abort, App, Outcome, Pulled, Request};
use crate::connection::Connection;
use crate::context::Context;
use crate::id::ExchangeId;
use crate::link::Fate;
use crate::mailbox::{Command, Mail};
use crate::responder::Responder;
use crate::response::FilePart;

/// How long posted commands are executed for.
const SENDING_MS_MAX: u64 = 20;

/// Replaces the application while it must not be called, and keeps its notifications.
#[derive(Default)]
pub(super) struct Postponed {
    short: Vec<(ExchangeId, FilePart)>,
    aborted: Vec<(ExchangeId, Abort)>,
    closed: Vec<(ExchangeId, Closed)>,
}

impl Postponed {
    pub(super) fn is_empty(&self) -> bool {
        self.aborted.is_empty() && self.short.is_empty() && self.closed.is_empty()
    }
}

impl App for Postponed {
    fn call(&mut self, _: &Request<'_>, _: &mut Responder) -> Outcome {
        debug_assert!(false, "nothing is read between two passes");
        Outcome::Responded
    }

    fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
        debug_assert!(false, "nothing is pulled between two passes");
        Pulled::Failed
    }

    fn content(&mut self, _: ExchangeId, _: &[u8], _: bool) -> bool {
        debug_assert!(false, "no content is given between two passes");
        true
    }

    fn writable(&mut self, _: ExchangeId) {}

    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        let file = Arc::clone(&part.file);
        self.short.push((id, FilePart { file, ..*part }));
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        self.aborted.push((id, why));
    }

    fn owes_response(&self, _: ExchangeId) -> bool {
        // It does not know yet, and is asked again.
        true
    }

    fn websocket_closed(&mut self, id: ExchangeId, closed: &Closed) {
        self.closed.push((id, closed.clone()));
    }
}

impl<A: App> Worker<A> {
    /// Sends what handlers posted between two passes, without calling the application. The next pass, which is due, does the rest. Returns
    /// true if sockets did not accept everything: the function may then be called again before that pass.
    pub fn send_posted(&mut self) -> bool {
        let mut mails = VecDeque::new();
        self.context.mailbox.finds_output();
        self.context.mailbox.take(&mut mails);
        let began_ms = self.context.clock.tick();
        let mut left = VecDeque::new();
        let (mut later, mut touched) = (HashSet::new(), HashSet::new());
        let mut has_left_publication = false;
        while let Some(mail) = mails.pop_front() {
            if self.context.clock.tick().saturating_sub(began_ms) > SENDING_MS_MAX {
                // The thread holds what the next pass needs.
                left.push_back(mail);
                left.append(&mut mails);
                break;
            }
            let Mail::Command(id, command) = mail else {
                has_left_publication = true;
                left.push_back(mail);
                continue;
            };
            // The application takes content: commands posted after that one wait for it. What is sent to a subscriber follows what was
            // published before.
            let is_after_publication = has_left_publication && command.is_of_websocket();
            if command.is_read()
                || matches!(command, Command::Open(_))
                || is_after_publication
                || later.contains(&id)
            {
                later.insert(id);
                left.push_back(Mail::Command(id, command));
                continue;
            }
            let key = id.connection() as usize;
            let Some(connection) = self.connections.get_mut(key) else {
                continue;
            };
            let (context, postponed) = (&mut self.context, &mut self.postponed);
            let obey = AssertUnwindSafe(|| connection.obey(context, postponed, id, command));
            if catch_unwind(obey).is_err() {
                self.with_postponed(key, panicked);
                continue;
            }
            if touched.insert(connection.id()) {
                self.touched.push(connection.id());
            }
        }
        self.context.mailbox.give_back(left);
        let again = std::mem::take(&mut self.unsent).into_iter();
        let again = again.filter(|id| !touched.contains(id));
        for id in std::mem::take(&mut self.touched).into_iter().chain(again) {
            if let Some(key) = self.find(id) {
                self.with_postponed(key, Connection::send_written);
            }
            let found = self.find(id).and_then(|key| self.connections.get(key));
            if found.is_some_and(Connection::has_unsent) {
                self.unsent.push(id);
            }
        }
        !self.unsent.is_empty()
    }

    /// Runs one connection's turn without the application, which must not be called here even if that panics.
    fn with_postponed(
        &mut self,
        key: usize,
        serve: impl FnOnce(&mut Connection, &mut Context, &mut Postponed) -> Fate,
    ) {
        let mut postponed = std::mem::take(&mut self.postponed);
        self.with_connection(key, |connection, context, _, _| {
            let turn = AssertUnwindSafe(|| serve(connection, context, &mut postponed));
            let served = catch_unwind(turn);
            served.unwrap_or_else(|_| panicked(connection, context, &mut postponed))
        });
        self.postponed = postponed;
    }

    /// Sends the application the notifications that were held between two passes.
    #[cold]
    pub(super) fn notify(&mut self) {
        let Postponed {
            short,
            aborted,
            closed,
        } = std::mem::take(&mut self.postponed);
        // If the application panics, the other notifications must still be sent.
        for (id, part) in short {
            let _ = catch_unwind(AssertUnwindSafe(|| self.app.file_was_short(id, &part)));
        }
        for (id, why) in aborted {
            let _ = catch_unwind(AssertUnwindSafe(|| self.app.abort(id, why)));
        }
        for (id, how) in closed {
            let _ = catch_unwind(AssertUnwindSafe(|| self.app.websocket_closed(id, &how)));
        }
    }
}
