//! What a worker does while its connections hold nearly as much as they may ([`crate::context::budget`]).

use super::Worker;
use crate::app::App;
use crate::context::budget::{Burden, Holder, Relief};
use crate::context::metrics::Relieved;

const MIB: u64 = 1 << 20;

impl<A: App> Worker<A> {
    /// Lets content continue that is admitted now, and ends holders if that is due.
    #[cold]
    pub(super) fn relieve(&mut self) {
        let now_ms = self.context.clock.now_ms();
        match self.context.budget.check(now_ms) {
            Relief::None => {}
            Relief::Release => self.release(),
            Relief::End {
                until_bytes,
                is_exceeded,
            } => {
                self.end_holders(until_bytes, is_exceeded);
                self.release();
            }
        }
    }

    /// How long the next wait may last until more is to be done.
    #[inline]
    pub(super) fn relief_wait_ms(&self, now_ms: u64) -> Option<u64> {
        let budget = &self.context.budget;
        budget.is_pressed().then(|| budget.wait_ms(now_ms))
    }

    fn release(&mut self) {
        for key in 0..self.connections.capacity() {
            let connection = self.connections.get(key);
            if connection.is_some_and(|it| it.is_held_back()) {
                self.with_connection(key, |connection, context, app, _| {
                    connection.release(context, app)
                });
            }
        }
    }

    /// Ends what connections hold, the heaviest burdens first, until all hold no more than `until_bytes`.
    fn end_holders(&mut self, until_bytes: u64, is_exceeded: bool) {
        let now_ms = self.context.clock.now_ms();
        let holders = self.holders(is_exceeded, now_ms);
        let held_before = self.context.budget.held_bytes();
        let mut count = 0;
        for (_, key) in holders {
            let before = self.context.budget.held_bytes();
            if before <= until_bytes {
                break;
            }
            self.with_connection(key, |connection, context, app, _| {
                connection.end_holding(context, app)
            });
            self.context.charge_published();
            count += u64::from(self.context.budget.held_bytes() < before);
        }
        let held_bytes = self.context.budget.held_bytes();
        if count == 0 {
            if is_exceeded {
                self.context.budget.rest(now_ms);
            }
            return;
        }
        let freed_mib = held_before.saturating_sub(held_bytes).div_ceil(MIB);
        let (held_mib, max_mib) = (held_bytes / MIB, self.context.budget.bytes_max() / MIB);
        let reason = format!("{freed_mib} MiB; clients hold {held_mib} of {max_mib} MiB now");
        for _ in 0..count {
            self.context.metrics.relieved(Relieved::Ended);
            self.context.refusals.add_holder(&reason);
        }
    }

    /// The connections that may end, in that order. Unless the budget `is_exceeded`, handlers keep what has arrived for them, and idle
    /// connections end only if that ends the pressure.
    fn holders(&self, is_exceeded: bool, now_ms: u64) -> Vec<(Burden, usize)> {
        let mut holders: Vec<(Burden, usize)> = Vec::new();
        if holders.try_reserve_exact(self.connections.len()).is_err() {
            return holders;
        }
        let open = self.connections.iter();
        holders.extend(open.filter_map(|(key, it)| Some((it.burden(now_ms)?, key))));
        if !is_exceeded {
            let idle = holders.iter().filter(|(it, _)| it.holder == Holder::Idle);
            let idle_bytes: u64 = idle.map(|(it, _)| it.bytes).sum();
            let budget = &self.context.budget;
            let is_enough = budget.held_bytes() <= budget.low_bytes().saturating_add(idle_bytes);
            holders.retain(|(it, _)| match it.holder {
                Holder::Peer => true,
                Holder::Handler => false,
                Holder::Idle => is_enough,
            });
        }
        holders.sort_unstable_by(|one, other| other.cmp(one));
        holders
    }

    /// Checks that the sum is that of what all connections really hold.
    #[cfg(debug_assertions)]
    pub(super) fn check_sum(&self) {
        /// Checking more takes too long.
        const CHECKED_MAX: usize = 256;
        if self.connections.len() > CHECKED_MAX {
            return;
        }
        let published = self.context.websockets.charged_bytes as u64;
        let mut sum = self.context.budget.departed_bytes() + published;
        for (_, connection) in &self.connections {
            let (charged, held) = (connection.accounted_bytes(), connection.held_bytes());
            assert_eq!(charged, held, "a connection is charged for what it holds");
            sum += charged as u64;
        }
        assert_eq!(
            sum,
            self.context.budget.held_bytes(),
            "the sum is that of all connections"
        );
    }
}
