//! The phases of a run for one thread.

use net::precise_ns;
use rustix::time::{ClockId, clock_gettime};

use super::super::Plan;
use super::super::series::SECOND_NS;

/// When the phases start and end. Times are the greatest value until they are known.
pub(super) struct Window {
    warm_up_ns: u64,
    length_ns: u64,
    /// When the load starts, and the schedule, if there is one.
    pub(super) origin_ns: u64,
    /// When the measured time starts.
    pub(super) start_ns: u64,
    /// When the measured time ends.
    pub(super) end_ns: u64,
    /// When the current second of the measured time ends.
    pub(super) second_end_ns: u64,
    /// The thread's processor time when the measured time started.
    start_cpu_ns: Option<u64>,
    /// How long the thread had waited for a processor then.
    start_wait_ns: Option<u64>,
    /// Time since then during which this thread was awake and had nothing to do.
    pub(super) idle_ns: u64,
}

impl Window {
    pub(super) fn new(plan: &Plan) -> Window {
        let ns = |it: std::time::Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
        Window {
            warm_up_ns: ns(plan.lead()),
            length_ns: plan.length().map_or(u64::MAX, ns),
            origin_ns: u64::MAX,
            start_ns: u64::MAX,
            end_ns: u64::MAX,
            second_end_ns: u64::MAX,
            start_cpu_ns: None,
            start_wait_ns: None,
            idle_ns: 0,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.origin_ns != u64::MAX
    }

    /// Sets the start, which is now known.
    pub(super) fn set(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
        self.start_ns = origin_ns.saturating_add(self.warm_up_ns);
        self.end_ns = self.start_ns.saturating_add(self.length_ns);
        self.second_end_ns = self.start_ns.saturating_add(SECOND_NS);
    }

    /// The next moment at which a phase starts or ends.
    pub(super) fn next_phase_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.origin_ns {
            self.origin_ns
        } else if now_ns < self.start_ns {
            self.start_ns
        } else if now_ns < self.end_ns {
            self.end_ns.min(self.second_end_ns)
        } else {
            u64::MAX
        }
    }

    /// Reads the thread's processor time when the measured time starts.
    pub(super) fn note_start(&mut self, now_ns: u64) {
        if now_ns >= self.start_ns && self.start_cpu_ns.is_none() {
            self.start_wait_ns = thread_wait_ns();
            self.start_cpu_ns = Some(thread_cpu_ns());
            self.idle_ns = 0;
        }
    }

    /// The length of the measured time if it ends now, in nanoseconds, and the processor time that this thread worked during it.
    pub(super) fn spent_ns(&self) -> (u64, u64) {
        let end_ns = self.end_ns.min(precise_ns());
        let since = |start_ns| thread_cpu_ns().saturating_sub(start_ns);
        let cpu_ns = self.start_cpu_ns.map_or(0, since);
        (
            end_ns.saturating_sub(self.start_ns),
            cpu_ns.saturating_sub(self.idle_ns),
        )
    }

    /// How long this thread has waited for a processor since the measured time started; `None`: that is not known.
    pub(super) fn waited_ns(&self) -> Option<u64> {
        let start_ns = self.start_wait_ns?;
        thread_wait_ns().map(|it| it.saturating_sub(start_ns))
    }
}

/// How long this thread has been ready to run without a processor; `None`: the kernel does not report it.
fn thread_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}
