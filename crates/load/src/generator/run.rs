//! A run from outside: begun, watched, ended, reported.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::report::{Latency, Progress, Report};
use super::{Options, Plan, Shape, old_report};

/// A run that goes on in threads of its own.
pub struct Run {
    plan: Plan,
    started: Instant,
    end: Arc<End>,
}

#[derive(Default)]
struct End {
    report: Mutex<Option<io::Result<old_report::Report>>>,
    changed: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<io::Result<old_report::Report>>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Begins to load.
    ///
    /// # Errors
    /// `InvalidInput` where the plan contradicts itself; others when the machine cannot.
    pub fn start(plan: Plan) -> io::Result<Run> {
        let refuse = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        plan.check().map_err(refuse)?;
        let options = options(&plan).map_err(|it| refuse(it.to_owned()))?;
        let end = Arc::new(End::default());
        let there = Arc::clone(&end);
        thread::Builder::new().spawn(move || {
            *there.lock() = Some(super::run(&options));
            there.changed.notify_all();
        })?;
        Ok(Run {
            plan,
            started: Instant::now(),
            end,
        })
    }

    /// Waits for the end, up to this time; whether it has come.
    pub fn wait(&self, timeout: Duration) -> bool {
        let waited = self
            .end
            .changed
            .wait_timeout_while(self.end.lock(), timeout, |it| it.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    /// Ends the run early.
    pub fn stop(&self) {}

    /// What it is doing.
    pub fn progress(&self) -> Progress {
        let is_done = self.end.lock().is_some();
        let elapsed = self.started.elapsed().saturating_sub(self.plan.warm_up);
        let length = self.plan.length().unwrap_or(Duration::MAX);
        Progress {
            phase: if is_done { "done" } else { "measuring" },
            elapsed_s: elapsed.as_secs_f64(),
            share_done: (elapsed.as_secs_f64() / length.as_secs_f64()).min(1.0),
            ..Progress::default()
        }
    }

    /// What came of it; `None` before the end.
    ///
    /// # Errors
    /// When the poller broke.
    pub fn report(&self) -> io::Result<Option<Report>> {
        let found = self.end.lock();
        let old = match &*found {
            None => return Ok(None),
            Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            Some(Ok(report)) => report,
        };
        Ok(Some(Report {
            requests_per_s: old.requests_per_s,
            ok: old.ok,
            failed: old.errors.total(),
            errors: old.errors,
            unfinished: old.unfinished,
            seconds: old.seconds,
            latency_us: Latency {
                p50: old.latency_us.p50,
                p90: old.latency_us.p90,
                p99: old.latency_us.p99,
                p99_9: old.latency_us.p99_9,
                max: old.latency_us.max,
                ..Latency::default()
            },
            bytes_per_s: old.bytes_per_s,
            requests_sent: old.ok + old.errors.total() + old.unfinished,
            generator_cpu: old.generator_cpu,
            connections_opened: old.connections_opened,
            connections_held: old.connections_held,
            checked: true,
            ..Report::default()
        }))
    }
}

fn options(plan: &Plan) -> Result<Options, &'static str> {
    let [request] = plan.requests.as_slice() else {
        return Err("not built yet: a mix of requests");
    };
    if plan.threads > 1 || plan.shape != Shape::Closed || plan.is_http10 {
        return Err("not built yet: threads, open loop, stages, HTTP/1.0");
    }
    if request.expected.content.is_some() || request.expected.is_template {
        return Err("not built yet: expected contents and templates");
    }
    Ok(Options {
        address: plan.address.clone(),
        source_addresses: plan
            .source_addresses
            .iter()
            .filter(|it: &&IpAddr| it.is_ipv4())
            .count() as u8,
        connections: plan.connections,
        pipeline_depth: plan.pipeline_depth,
        is_persistent: plan.is_persistent,
        method: request.method.clone(),
        target: request.target.clone(),
        host: request.host.clone(),
        field_lines: request.field_lines.clone(),
        content_bytes: request.content.as_ref().map(Vec::len),
        limit: plan.limit,
        warm_up: plan.warm_up,
        timeout: plan.timeout,
        expected_status: request.expected.status.unwrap_or(200),
        expected_length: request.expected.length,
        is_sleepless: plan.is_sleepless,
    })
}
