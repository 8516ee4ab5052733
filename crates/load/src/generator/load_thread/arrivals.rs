//! The open loop: sends requests that are due on connections that are free.
//!
//! A request that finds all connections busy stays in the schedule until one is free. Its latency counts from when it was due, so it
//! includes the wait. Its lag counts from when it could be sent, so it includes only the generator's own delay.

use std::collections::VecDeque;

use net::precise_ns;

use super::super::connection::{Connection, Stage, Stamp};
use super::super::error::ErrorClass;
use super::LoadThread;

/// How many connections may fail to open in one pass before it continues: without a free port, each attempt takes up to a millisecond.
const DIALS_FAILED_MAX: u32 = 16;

/// How many requests were due and had no response yet. If they become more, the server does not achieve the rate.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Backlog {
    /// Halfway through the measured time.
    pub(in super::super) half: Option<u64>,
    /// At its end.
    pub(in super::super) end: Option<u64>,
}

impl LoadThread {
    /// Counts the backlog halfway and at the end, where the last second of the measured time ends too.
    #[cold]
    pub(super) fn note_backlog(&mut self) {
        let (start_ns, end_ns) = (self.window.start_ns, self.window.end_ns);
        if end_ns == u64::MAX || self.schedule.is_none() || self.backlog.end.is_some() {
            return;
        }
        let half_ns = start_ns + (end_ns - start_ns) / 2;
        if self.now_ns >= half_ns && self.backlog.half.is_none() {
            self.backlog.half = Some(self.without_response());
        }
        if self.now_ns >= end_ns {
            self.backlog.end = Some(self.without_response());
            self.waited += self.overdue_without_connection();
            self.end_second();
        }
    }

    /// How many requests have become due and have no response.
    fn without_response(&self) -> u64 {
        self.under_way + self.overdue()
    }

    /// How many requests have become due and are not sent.
    fn overdue(&self) -> u64 {
        let elapsed_ns = self.now_ns.saturating_sub(self.window.origin_ns);
        let due = self.schedule.as_ref().map(|it| it.due_before(elapsed_ns));
        self.rescheduled.len() as u64 + due.unwrap_or(0)
    }

    /// How many of them were not sent before, and are not because no connection is free.
    pub(super) fn overdue_without_connection(&self) -> u64 {
        match self.free.is_empty() {
            true => self.overdue() - self.rescheduled.len() as u64,
            false => 0,
        }
    }

    /// Sends what is due, as long as connections are free. One that cannot be opened is free again at once, so a few of those end it until
    /// the next pass: events and ticks have their turn.
    #[inline]
    pub(super) fn fire(&mut self) {
        while self.due_ns <= self.now_ns && self.dials_failed < DIALS_FAILED_MAX {
            let Some(index) = self.next_free() else {
                return;
            };
            self.send_due(index);
        }
    }

    /// The connection that has been free longest.
    fn next_free(&mut self) -> Option<usize> {
        while let Some(index) = self.free.pop_front() {
            let index = index as usize;
            if let Some(connection) = self.connections.get_mut(index) {
                connection.is_listed = false;
                if self.is_free(index) {
                    return Some(index);
                }
            }
        }
        None
    }

    /// Whether a connection can take a request. A closed one can: it is opened for that request.
    fn is_free(&self, index: usize) -> bool {
        let plan = &self.common.plan;
        let can = |it: &Connection| match it.stage {
            Stage::Closed => true,
            Stage::Open if plan.is_persistent => it.room(self.common.job(), plan.protocol) > 0,
            _ => false,
        };
        self.connections.get(index).is_some_and(can)
    }

    /// Appends a connection that can take a request to the queue of those that can.
    pub(super) fn list(&mut self, index: usize) {
        if self.schedule.is_none() || !self.is_free(index) {
            return;
        }
        if let Some(connection) = self.connections.get_mut(index)
            && !connection.is_listed
        {
            connection.is_listed = true;
            connection.free_since_ns = self.now_ns;
            self.free.push_back(index as u32);
        }
    }

    /// Sends the next request on this connection; if no other is free, all that are due and fit.
    fn send_due(&mut self, index: usize) {
        self.now_ns = precise_ns();
        let is_last = self.free.is_empty();
        let position = self.cursor;
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let room = if is_last {
            connection.room(self.common.job(), self.common.plan.protocol)
        } else {
            1
        };
        let free_since_ns = connection.free_since_ns;
        let mut count = 0;
        while count < room && self.due_ns <= self.now_ns {
            let intended_ns = self.due_ns;
            if let Some(connection) = self.connections.get_mut(index) {
                let stamp = Stamp {
                    intended_ns,
                    sent_ns: self.now_ns,
                    first_ns: u64::MAX,
                    position: position + count,
                    count: 1,
                };
                connection.add(stamp, self.common.job());
            }
            self.note_offered(intended_ns, free_since_ns);
            count += 1;
            self.pass_due();
        }
        self.assign_batch(index, position, count);
        self.cursor = self.common.mix.advanced(position, count);
        match self.connections.get(index).map(|it| it.stage) {
            Some(Stage::Closed) => self.dial_due(index),
            _ => self.flush(index),
        }
        self.list_again(index, free_since_ns);
    }

    /// Counts a request that is sent now. One that a server has refused was late, or waited, when it was first sent.
    #[inline]
    fn note_offered(&mut self, intended_ns: u64, free_since_ns: u64) {
        if intended_ns < self.window.start_ns {
            return;
        }
        self.offered += 1;
        if self.rescheduled.is_empty() {
            let could_ns = intended_ns.max(free_since_ns);
            let lag_ns = self.now_ns.saturating_sub(could_ns);
            self.tally.lag_ns.record(lag_ns, 1);
            self.waited += u64::from(free_since_ns > intended_ns);
        }
    }

    fn dial_due(&mut self, index: usize) {
        self.dial(index);
        let stage = self.connections.get(index).map(|it| it.stage);
        self.dials_failed += u32::from(stage == Some(Stage::Closed));
    }

    /// A connection with room for more requests keeps the time at which it became free.
    fn list_again(&mut self, index: usize, free_since_ns: u64) {
        self.list(index);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.free_since_ns = free_since_ns;
        }
    }

    /// Determines when the next request is due.
    pub(super) fn look_ahead(&mut self) {
        if self.is_draining {
            self.due_ns = u64::MAX;
            return;
        }
        if let Some(first_ns) = self.rescheduled.front() {
            self.due_ns = *first_ns;
            return;
        }
        let next = self.schedule.as_mut().and_then(|it| it.peek_ns());
        let origin_ns = self.window.origin_ns;
        self.due_ns = next.map_or(u64::MAX, |it| origin_ns.saturating_add(it));
    }

    /// With a number of requests, those fail that have been due for too long while the server allows no stream on any connection: no time
    /// would end the load.
    #[cold]
    pub(super) fn time_out_due(&mut self) {
        let (now_ns, timeout_ns) = (self.now_ns, self.timeout_ns);
        let is_late = |since_ns: u64| now_ns.saturating_sub(since_ns) > timeout_ns;
        let is_counted = self.schedule.is_some() && self.common.plan.requests_total().is_some();
        if !is_counted || self.under_way > 0 || !is_late(self.due_ns) {
            return;
        }
        let is_closed =
            |it: &Connection| it.stage == Stage::Open && it.closed_since_ns().is_some_and(is_late);
        if !self.connections.iter().all(is_closed) {
            return;
        }
        while is_late(self.due_ns) {
            let stamp = Stamp {
                intended_ns: self.due_ns,
                ..Stamp::ONE
            };
            self.offered += 1;
            self.waited += u64::from(self.rescheduled.is_empty());
            self.tally.fail([&stamp], ErrorClass::Timeout, now_ns);
            self.pass_due();
        }
    }

    /// Advances past the request that is due.
    fn pass_due(&mut self) {
        if self.rescheduled.pop_front().is_none()
            && let Some(schedule) = &mut self.schedule
        {
            schedule.advance();
        }
        self.look_ahead();
    }

    /// Makes requests due again that get no response without having failed.
    #[cold]
    pub(super) fn reschedule(&mut self, stamps: &VecDeque<Stamp>) {
        for stamp in stamps {
            for _ in 0..stamp.count {
                self.rescheduled.push_back(stamp.intended_ns);
                self.offered -= u64::from(stamp.intended_ns >= self.window.start_ns);
            }
        }
        self.look_ahead();
    }
}
