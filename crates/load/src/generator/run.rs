//! The public interface of a run: start, progress, end and report.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use net::precise_ns;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::Plan;
use super::load_thread::{Common, LoadThread, Outcome};
use super::record::{Phase, Record, Snapshot};
use super::report::{Progress, Report};

/// Descriptors needed besides those of connections: the poller's and the timer's of each thread, and those that are open already.
const OTHER_DESCRIPTORS: u64 = 50;

/// A run, which continues in threads of its own. Dropping it ends it.
pub struct Run {
    common: Arc<Common>,
    ending: Arc<Ending>,
}

/// The outcomes of the threads.
#[derive(Default)]
struct Ending {
    outcomes: Mutex<Vec<io::Result<Outcome>>>,
    changed: Condvar,
}

impl Ending {
    fn lock(&self) -> MutexGuard<'_, Vec<io::Result<Outcome>>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a plan to its end and returns the report.
///
/// # Errors
/// As [`Run::start`], or if a poller fails. Failures of the server are not errors but counted in the report.
pub fn run(plan: &Plan) -> io::Result<Report> {
    let run = Run::start(plan.clone())?;
    while !run.wait(Duration::from_secs(3600)) {}
    let report = run.report()?;
    report.ok_or_else(|| io::Error::other("the run has ended without a report"))
}

impl Run {
    /// Starts the run.
    ///
    /// # Errors
    /// `InvalidInput` if the plan contradicts itself; others if the machine lacks a resource.
    pub fn start(plan: Plan) -> io::Result<Run> {
        let refuse = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        plan.check().map_err(refuse)?;
        let held = crate::raise_descriptor_limit();
        let needed = plan.own_connections() + 2 * plan.threads as u64 + OTHER_DESCRIPTORS;
        if held < needed {
            return Err(io::Error::other(format!(
                "{needed} open files are needed and {held} are allowed; raise the limit (ulimit -Hn)"
            )));
        }
        let common = Arc::new(Common::new(plan).map_err(refuse)?);
        // All of them first: if one cannot be created, nothing has been started.
        let load_threads: Vec<LoadThread> = (0..common.plan.threads)
            .map(|index| LoadThread::new(Arc::clone(&common), index))
            .collect::<io::Result<_>>()?;
        let ending = Arc::new(Ending::default());
        let has_count = common.plan.requests_total().is_some();
        if has_count && !common.plan.is_open_loop() && !common.plan.is_gated {
            common.board.start(precise_ns());
        }
        let run = Run { common, ending };
        for (index, load_thread) in load_threads.into_iter().enumerate() {
            run.spawn(index, load_thread)?;
        }
        Ok(run)
    }

    fn spawn(&self, index: usize, load_thread: LoadThread) -> io::Result<()> {
        let (common, ending) = (Arc::clone(&self.common), Arc::clone(&self.ending));
        let cpus = &self.common.plan.cpus;
        let turn = index.checked_rem(cpus.len());
        let cpu = turn.and_then(|it| cpus.get(it)).copied();
        let load = move || {
            let load = AssertUnwindSafe(|| bind_to(cpu).and_then(|()| load_thread.run()));
            let panicked = |_| Err(io::Error::other("a thread of the generator panicked"));
            let outcome = catch_unwind(load).unwrap_or_else(panicked);
            if outcome.is_err() {
                // The others would wait for this one to start.
                common.board.stop();
            }
            ending.lock().push(outcome);
            ending.changed.notify_all();
        };
        let name = format!("load-{index}");
        thread::Builder::new().name(name).spawn(load)?;
        Ok(())
    }

    /// Waits for the end, up to this time; returns whether the run has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let threads = self.common.plan.threads;
        let waited = self
            .ending
            .changed
            .wait_timeout_while(self.ending.lock(), timeout, |it| it.len() < threads);
        let (outcomes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        outcomes.len() >= threads
    }

    /// Whether a gated run has opened its connections, as far as they could be opened, and waits for [`Run::begin`].
    pub fn is_ready(&self) -> bool {
        self.common.board.is_opened()
    }

    /// Starts the load of a gated run at this time of the monotonic clock.
    pub fn begin(&self, at_ns: u64) {
        self.common.board.start(at_ns);
    }

    /// Ends the run early; the report covers the time until then.
    pub fn stop(&self) {
        self.common.board.stop();
    }

    /// The state of the run, and what was counted since the last call of this or of [`Run::snapshot`].
    pub fn progress(&self) -> Progress {
        Progress::of(&self.snapshot())
    }

    /// The same in a form that can be combined with that of other runs.
    pub fn snapshot(&self) -> Snapshot {
        let (plan, board) = (&self.common.plan, &self.common.board);
        let now_ns = precise_ns();
        let mut live = board.live();
        let (ok, errors) = live.sum();
        let warm_up_ns = plan.lead().as_nanos() as u64;
        let origin_ns = board.origin_ns();
        let start_ns = origin_ns.map(|it| it.saturating_add(warm_up_ns));
        let elapsed_s = start_ns.map_or(0.0, |it| now_ns.saturating_sub(it) as f64 / 1e9);
        let is_done = self.wait(Duration::ZERO);
        let share = |index| plan.share(plan.requests_total().unwrap_or(0), index);
        let share_done = match plan.length() {
            Some(length) => elapsed_s / length.as_secs_f64(),
            None => {
                let total = (0..plan.threads).map(share).sum::<u64>();
                (ok + errors.total()) as f64 / total.max(1) as f64
            }
        };
        let queried_ns = live.queried_ns.max(start_ns.unwrap_or(now_ns)).min(now_ns);
        let interval_s = (now_ns - queried_ns) as f64 / 1e9;
        let responses = live.interval_ns.total() as f64;
        let snapshot = Snapshot {
            phase: match (origin_ns, start_ns) {
                _ if is_done => Phase::Done,
                (Some(origin_ns), _) if now_ns < origin_ns => Phase::Opening,
                (_, Some(start_ns)) if now_ns < start_ns => Phase::WarmUp,
                (_, Some(_)) => Phase::Measuring,
                (_, None) => Phase::Opening,
            },
            elapsed_s,
            share_done: share_done.min(1.0),
            ok,
            errors,
            connections_held: board.held().0,
            tls_failure: board.trust.first_failure(),
            interval_s,
            interval_requests_per_s: if interval_s > 0.0 {
                responses / interval_s
            } else {
                0.0
            },
            interval_ns: live.interval_ns.packed(),
        };
        live.interval_ns.clear();
        live.queried_ns = now_ns;
        snapshot
    }

    /// The report; `None` before the end.
    ///
    /// # Errors
    /// If a poller failed, a thread panicked, or one could not be bound to its CPU.
    pub fn report(&self) -> io::Result<Option<Report>> {
        Ok(self.record()?.map(|it| Report::new(&it)))
    }

    /// From what the report is made, in a form that can be combined with that of other runs; `None` before the end.
    ///
    /// # Errors
    /// As [`Run::report`].
    pub fn record(&self) -> io::Result<Option<Record>> {
        let mut found = self.ending.lock();
        if found.len() < self.common.plan.threads {
            return Ok(None);
        }
        if let Some(Err(error)) = found.iter().find(|it| it.is_err()) {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        let outcomes: Vec<Outcome> = found.drain(..).flatten().collect();
        let record = Record::new(&self.common, &outcomes);
        found.extend(outcomes.into_iter().map(Ok));
        Ok(Some(record))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bind_to(cpu: Option<usize>) -> io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot run on CPU {cpu}: {error}")))
}
