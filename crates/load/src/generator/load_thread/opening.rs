//! The pace at which connections are opened for the first time.
//!
//! The server's kernel establishes a connection and queues it until the server accepts it; a listener's queue may be as short as 100. What
//! the server sends says that it has accepted. One that takes long to respond says nothing, so a connection that has been established for
//! a while counts as accepted, until the first one is late: then the queue was full, and only what is sent counts.

use super::{LoadThread, OPENING_MAX};

/// How long the start may take without any connection that gets opened; then the load starts with those that are open.
const OPENING_NS: u64 = 3_000_000_000;
/// How much longer it may take for each connection.
const OPENING_EACH_NS: u64 = 500_000;
/// After this time an established connection counts as accepted.
const ACCEPTED_NS: u64 = 50_000_000;
/// A full queue drops what asks for a connection, and the kernel asks again after a second.
const LATE_NS: u64 = 900_000_000;

/// How far a thread's connections are opened, and for how long the load waits for them.
pub(super) struct Opening {
    /// The first connection that may be among those being opened.
    first: usize,
    /// A connection was late.
    was_late: bool,
    /// The load starts then at the latest.
    last_ns: u64,
    /// The measured time has started.
    has_started: bool,
    /// How many connections were open then; `None`: the load did not wait for them.
    pub(super) open_at_start: Option<u64>,
}

impl Opening {
    /// For this many connections, from now on.
    pub(super) fn new(connections: usize, now_ns: u64) -> Opening {
        Opening {
            first: 0,
            was_late: false,
            last_ns: now_ns + OPENING_NS + connections as u64 * OPENING_EACH_NS,
            has_started: false,
            open_at_start: None,
        }
    }

    /// Until when the load waits if no more connections get opened.
    pub(super) fn end_ns(&self, now_ns: u64) -> u64 {
        self.last_ns.min(now_ns.saturating_add(OPENING_NS))
    }

    /// A connection was established for the first time, after this time.
    pub(super) fn note_established(&mut self, took_ns: u64) {
        self.was_late |= took_ns > LATE_NS;
    }
}

impl LoadThread {
    /// Lets others be opened in place of connections that the server has accepted by now.
    #[cold]
    pub(super) fn settle_accepted(&mut self) {
        if self.opening == 0 || self.pace.was_late {
            return;
        }
        let mut first = None;
        for index in self.pace.first..self.unopened {
            let Some(connection) = self.connections.get(index) else {
                break;
            };
            let age_ns = self.now_ns.saturating_sub(connection.connect_ns);
            if !connection.is_new {
                continue;
            }
            match connection.is_established && age_ns > ACCEPTED_NS {
                true => self.settle(index),
                false => first = first.or(Some(index)),
            }
        }
        self.pace.first = first.unwrap_or(self.unopened);
    }

    /// Counts the connections that are open when the measured time starts.
    #[cold]
    pub(super) fn note_start(&mut self) {
        let is_now = self.now_ns >= self.window.start_ns;
        if !is_now || std::mem::replace(&mut self.pace.has_started, true) {
            return;
        }
        if self.waits_for_connections() {
            let open = self.connections.iter().filter(|it| it.is_established);
            self.pace.open_at_start = Some(open.count() as u64);
        }
    }

    /// Whether the load starts when all connections are open.
    fn waits_for_connections(&self) -> bool {
        let plan = &self.common.plan;
        let is_counted = plan.requests_total().is_some() && self.schedule.is_none();
        if !plan.is_persistent || plan.has_changing_connections() {
            return false;
        }
        let is_batchless = plan.is_gated || self.schedule.is_some() || plan.protocol.is_broadcast();
        is_batchless || (!is_counted && self.target > OPENING_MAX)
    }
}
