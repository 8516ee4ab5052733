//! The pace at which connections are opened for the first time.
//!
//! The server's kernel establishes a connection and queues it until the server accepts it; a listener's queue may be as short as 100. What
//! the server sends says that it has accepted. One that takes long to respond says nothing, so a connection that has been established for
//! a while counts as accepted. If one was late, the queue was full: then the pace is that of the responses so far, or half of what it was.

use super::super::Plan;
use super::{Connection, LoadThread, OPENING_MAX, TICK_NS};

/// How long the start may take without any connection that gets opened; then the load starts with those that are open.
const OPENING_NS: u64 = 3_000_000_000;
/// How much longer it may take for each connection, unless another process decides when the load starts.
const OPENING_EACH_NS: u64 = 1_000_000;
/// After this time, for each thread, an established connection counts as accepted, as long as none was late: 2,000 per second do.
const ACCEPTED_NS: u64 = 50_000_000;
/// The same at most.
const ACCEPTED_NS_MAX: u64 = 1_000_000_000;
/// A full queue drops what asks for a connection, and the kernel asks again after a second.
const LATE_NS: u64 = 900_000_000;

/// How far a thread's connections are opened, and for how long the load waits for them.
pub(super) struct Opening {
    /// The first connection that may be among those being opened.
    first: usize,
    /// After this time an established connection counts as accepted.
    accepted_ns: u64,
    begin_ns: u64,
    /// When that time was changed; that connections opened before are late does not change it again.
    changed_ns: u64,
    /// Connections that have had a response.
    pub(super) responded: u64,
    /// The load starts then at the latest.
    last_ns: u64,
    /// The measured time has started.
    has_started: bool,
    /// How many connections were open then; `None`: the load did not wait for them.
    pub(super) open_at_start: Option<u64>,
}

impl Opening {
    /// For a thread of this plan, from now on.
    pub(super) fn new(plan: &Plan, now_ns: u64) -> Opening {
        let each_ns = if plan.is_gated { 0 } else { OPENING_EACH_NS };
        Opening {
            first: 0,
            accepted_ns: (ACCEPTED_NS * plan.threads as u64).min(ACCEPTED_NS_MAX),
            begin_ns: now_ns,
            changed_ns: now_ns,
            responded: 0,
            last_ns: now_ns + OPENING_NS + plan.own_connections() * each_ns,
            has_started: false,
            open_at_start: None,
        }
    }

    /// Until when the load waits if no more connections get opened.
    pub(super) fn end_ns(&self, now_ns: u64) -> u64 {
        self.last_ns.min(now_ns.saturating_add(OPENING_NS))
    }

    /// A connection was established for the first time.
    pub(super) fn note_established(&mut self, connect_ns: u64, now_ns: u64) {
        let is_late = now_ns.saturating_sub(connect_ns) > LATE_NS;
        if !is_late || connect_ns < self.changed_ns {
            return;
        }
        let elapsed_ns = now_ns.saturating_sub(self.begin_ns);
        let responding_ns = (OPENING_MAX as u64 * elapsed_ns).checked_div(self.responded);
        let slower_ns = responding_ns.unwrap_or(0).max(2 * self.accepted_ns);
        self.accepted_ns = slower_ns.min(ACCEPTED_NS_MAX);
        self.changed_ns = now_ns;
    }
}

impl LoadThread {
    /// Lets others be opened in place of connections that the server has accepted by now.
    #[cold]
    pub(super) fn settle_accepted(&mut self) {
        if self.opening == 0 {
            return;
        }
        // Evenly, because a queue has no room for all of them at once.
        let mut left = (OPENING_MAX as u64 * TICK_NS).div_ceil(self.pace.accepted_ns);
        let mut first = None;
        for index in self.pace.first..self.unopened {
            let Some(connection) = self.connections.get(index) else {
                break;
            };
            let age_ns = self.now_ns.saturating_sub(connection.connect_ns);
            if !connection.is_new {
                continue;
            }
            if left > 0 && connection.is_established && age_ns > self.pace.accepted_ns {
                left -= 1;
                self.settle(index);
            } else {
                first = first.or(Some(index));
            }
        }
        self.pace.first = first.unwrap_or(self.unopened);
    }

    /// Whether connections are opened, and nothing is sent before the load starts. A number of requests includes the time of opening, so
    /// that its load has always started.
    pub(super) fn is_waiting(&self) -> bool {
        self.opening_end_ns.is_some() && self.now_ns < self.window.origin_ns
    }

    /// Whether requests are assigned to connections that are open.
    pub(super) fn opens_without_requests(&self) -> bool {
        let is_broadcast = self.common.plan.protocol.is_broadcast();
        self.is_waiting() || self.schedule.is_some() || is_broadcast
    }

    /// Whether the load can start without waiting for anything.
    pub(super) fn is_open(&self) -> bool {
        let (plan, is_closed_loop) = (&self.common.plan, self.schedule.is_none());
        // A connection for one request is opened for it.
        let opens_later = is_closed_loop && !plan.is_persistent;
        let is_few = is_closed_loop && !plan.is_gated && !plan.protocol.is_broadcast();
        let waits = !is_few || self.target > OPENING_MAX;
        !waits
            || opens_later
            || plan.has_changing_connections()
            || (self.unopened == self.target && self.has_opened())
    }

    /// Whether those whose opening was started are open. The server may not have accepted the last ones yet.
    fn has_opened(&self) -> bool {
        let rest = self.connections.get(self.pace.first..self.unopened);
        let is_established = |it: &Connection| !it.is_new || it.is_established;
        self.opening == 0
            || (self.is_waiting() && rest.unwrap_or_default().iter().all(is_established))
    }

    /// Whether nothing but time says that the server has accepted connections, and no other process waits for them.
    pub(super) fn is_paced_by_time(&self) -> bool {
        self.is_waiting() && self.schedule.is_none() && !self.common.plan.is_gated
    }

    /// Counts the connections that are open when the measured time starts, and forgets which ones had a request before.
    #[cold]
    pub(super) fn note_start(&mut self) {
        let is_now = self.now_ns >= self.window.start_ns;
        if !is_now || std::mem::replace(&mut self.pace.has_started, true) {
            return;
        }
        if self.schedule.is_some() {
            // One that had its last request before is not starved.
            let start_ns = self.window.start_ns;
            for connection in &mut self.connections {
                let is_due = connection.stamps().any(|it| it.intended_ns >= start_ns);
                connection.is_used = is_due || connection.served > 0;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn late_connections_slow_the_opening_down_once_a_time() {
        let mut opening = Opening::new(&Plan::default(), 0);
        opening.note_established(0, LATE_NS);
        assert_eq!(opening.accepted_ns, ACCEPTED_NS);
        // Nothing has responded: half the pace. All of the same time are late because of the same full queue.
        opening.note_established(0, SECOND_NS);
        opening.note_established(SECOND_NS - 1, 2 * SECOND_NS);
        assert_eq!(opening.accepted_ns, 2 * ACCEPTED_NS);
        // 250 connections per second have had a response: 100 in 0.4 s.
        opening.responded = 750;
        opening.note_established(2 * SECOND_NS - 1, 3 * SECOND_NS);
        assert_eq!(opening.accepted_ns, 400_000_000);
        opening.note_established(4 * SECOND_NS, 5 * SECOND_NS);
        opening.note_established(6 * SECOND_NS, 7 * SECOND_NS);
        assert_eq!(opening.accepted_ns, ACCEPTED_NS_MAX);
    }

    #[test]
    fn the_load_waits_as_long_as_connections_get_opened() {
        let mut plan = Plan {
            connections: 1_000,
            threads: 2,
            ..Plan::default()
        };
        let opening = Opening::new(&plan, 0);
        assert_eq!(opening.accepted_ns, 2 * ACCEPTED_NS);
        assert_eq!(opening.end_ns(0), 3 * SECOND_NS);
        assert_eq!(opening.end_ns(2 * SECOND_NS), 4 * SECOND_NS);
        plan.is_gated = true;
        assert_eq!(Opening::new(&plan, 0).end_ns(SECOND_NS), 3 * SECOND_NS);
    }
}
