//! The measured time: where the warm-up ends and the run does.

use std::time::Duration;

use net::precise_ns;
use rustix::time::{ClockId, clock_gettime};

use super::super::{Limit, Options};

/// The measured time.
pub(super) struct Window {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) start_cpu_ns: u64,
    pub(super) is_warm: bool,
}

impl Window {
    pub(super) fn new(options: &Options) -> Window {
        let now_ns = precise_ns();
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (warm_up_ns, length_ns) = match options.limit {
            Limit::Duration(length) => (ns(options.warm_up), ns(length)),
            Limit::Requests(_) => (0, u64::MAX),
        };
        let start_ns = now_ns.saturating_add(warm_up_ns);
        Window {
            start_ns,
            end_ns: start_ns.saturating_add(length_ns),
            start_cpu_ns: thread_cpu_ns(),
            is_warm: warm_up_ns == 0,
        }
    }

    /// The warm-up is over. The pass that noticed may have been late: the measured time keeps its length.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.saturating_add(now_ns - self.start_ns);
        self.start_ns = now_ns;
        self.start_cpu_ns = thread_cpu_ns();
        self.is_warm = true;
    }

    pub(super) fn next_ns(&self) -> u64 {
        if self.is_warm {
            self.end_ns
        } else {
            self.start_ns
        }
    }
}

/// The time this thread has run.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
