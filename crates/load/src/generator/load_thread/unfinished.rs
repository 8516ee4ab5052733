//! Requests without a response when the time is over, and for how long each has been due.

use super::LoadThread;
use crate::Histogram;

/// Ages of requests that were due and not sent are counted in this many steps, because there may be millions.
const STEPS_MAX: u64 = 1000;

impl LoadThread {
    /// For how long the requests without a response have been sent or, in an open loop, due.
    pub(super) fn ages_under_way_ns(&self) -> Histogram {
        // After the measured time, an open loop has gone on waiting for them.
        let is_open_loop = self.schedule.is_some();
        let end_ns = if is_open_loop {
            self.now_ns
        } else {
            self.end_ns()
        };
        let mut ages_ns = Histogram::new();
        for stamp in self.connections.iter().flat_map(|it| it.stamps()) {
            match is_open_loop {
                true if stamp.intended_ns < self.window.start_ns => {}
                true => record(&mut ages_ns, end_ns, stamp.intended_ns, stamp.count.into()),
                false => record(&mut ages_ns, end_ns, stamp.since_ns(), stamp.count.into()),
            }
        }
        ages_ns
    }

    /// For how long requests of the measured time that were not sent have been due, rounded down.
    pub(super) fn ages_overdue_ns(&mut self) -> Histogram {
        let mut ages_ns = Histogram::new();
        if !self.window.is_known() {
            return ages_ns;
        }
        let (start_ns, end_ns) = (self.window.start_ns, self.end_ns());
        let due = self.rescheduled.iter().copied();
        for due_ns in due.filter(|it| (start_ns..end_ns).contains(it)) {
            record(&mut ages_ns, end_ns, due_ns, 1);
        }
        let Some(schedule) = &mut self.schedule else {
            return ages_ns;
        };
        let origin_ns = self.window.origin_ns;
        schedule.skip_to(start_ns.saturating_sub(origin_ns));
        let mut left = schedule.due_before(end_ns.saturating_sub(origin_ns));
        let step = left.div_ceil(STEPS_MAX);
        while left > 0 {
            let count = step.min(left);
            schedule.skip(count - 1);
            let youngest_ns = schedule.peek_ns().unwrap_or(u64::MAX);
            record(
                &mut ages_ns,
                end_ns,
                origin_ns.saturating_add(youngest_ns),
                count,
            );
            schedule.skip(1);
            left -= count;
        }
        ages_ns
    }

    fn end_ns(&self) -> u64 {
        self.window.end_ns.min(self.now_ns)
    }
}

fn record(ages_ns: &mut Histogram, end_ns: u64, since_ns: u64, count: u64) {
    ages_ns.record(end_ns.saturating_sub(since_ns), count);
}
