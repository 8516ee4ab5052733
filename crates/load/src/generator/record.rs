//! From what a report is made, in a form that can be combined with that of other runs without a loss: counts, and counts per bucket of a
//! histogram. Percentiles cannot be combined; they are computed from the sum.
//!
//! It crosses networks as JSON. Both sides have the same version of the generator, so that its form may change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::channel::WebSocketReport;
use super::error::Errors;
use super::load_thread::{Common, Outcome};
use super::report::{Progress, Report};
use super::series::{Row, add_rows};
use super::tls::TlsRecord;
use crate::Histogram;
use crate::histogram::Packed;

/// All that a run, or several, counted. [`Report`] explains the figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub(super) is_open_loop: bool,
    pub(super) protocol: String,
    pub(super) length_ns: u64,
    pub(super) ok: u64,
    pub(super) errors: Errors,
    pub(super) warm_up_ok: u64,
    pub(super) warm_up_failed: u64,
    pub(super) unfinished: u64,
    pub(super) unfinished_ns: Packed,
    pub(super) offered: u64,
    pub(super) waited: u64,
    pub(super) in_time: u64,
    pub(super) drained: u64,
    pub(super) backlog_half: Option<u64>,
    pub(super) backlog_end: Option<u64>,
    pub(super) latency_ns: Packed,
    pub(super) uncorrected_ns: Packed,
    pub(super) connect_ns: Packed,
    pub(super) connect_failures: BTreeMap<String, u64>,
    pub(super) lag_ns: Packed,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) bytes: u64,
    pub(super) run_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) head_bytes: u64,
    pub(super) requests_sent: u64,
    pub(super) requeued: u64,
    pub(super) cpu_ns: u64,
    pub(super) cpu_ns_max: u64,
    pub(super) runnable_ns_max: Option<u64>,
    /// How long the thread waited for a processor that waited longest; not that of `runnable_ns_max` in general.
    #[serde(default)]
    pub(super) wait_ns_max: Option<u64>,
    pub(super) opened: u64,
    pub(super) held: u64,
    pub(super) held_max: u64,
    pub(super) open_at_start: Option<u64>,
    pub(super) streams_allowed: Option<u32>,
    pub(super) settings_received: u64,
    /// How many connections had each number of correct responses.
    pub(super) served: BTreeMap<u64, u64>,
    pub(super) tls: Option<TlsRecord>,
    pub(super) websocket: Option<WebSocketReport>,
    pub(super) per_second: Vec<Row>,
    pub(super) start_late_ns: Option<u64>,
    pub(super) was_stopped: bool,
    pub(super) server_software: String,
    pub(super) first_status: u16,
    pub(super) first_content_bytes: u64,
}

/// The phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Connections are being opened, or wait for the start.
    #[default]
    Opening,
    /// What is counted is not measured yet.
    WarmUp,
    Measuring,
    Done,
}

/// The current state of a run, or of several. [`Progress`] explains the figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pub(super) phase: Phase,
    pub(super) elapsed_s: f64,
    pub(super) share_done: f64,
    pub(super) ok: u64,
    pub(super) errors: Errors,
    pub(super) connections_held: u64,
    /// Why TLS failed first.
    #[serde(default)]
    pub(super) tls_failure: String,
    pub(super) interval_s: f64,
    pub(super) interval_requests_per_s: f64,
    pub(super) interval_ns: Packed,
}

fn errors(outcomes: &[Outcome]) -> Errors {
    let mut all = Errors::default();
    for outcome in outcomes {
        all.merge(&outcome.tally.errors);
    }
    all
}

fn statuses(outcomes: &[Outcome]) -> BTreeMap<u16, u64> {
    let mut all = BTreeMap::new();
    for outcome in outcomes {
        let counted = (0..).zip(&outcome.tally.statuses);
        for (status, count) in counted.filter(|it| it.0 > 0 && *it.1 > 0) {
            *all.entry(status).or_insert(0) += count;
        }
    }
    all
}

/// How many connections that had a request had each number of correct responses.
fn served(outcomes: &[Outcome]) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for count in outcomes.iter().flat_map(|it| &it.served) {
        *all.entry(*count).or_insert(0) += 1;
    }
    all
}

fn connect_failures(outcomes: &[Outcome]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for outcome in outcomes {
        add(&mut all, &outcome.tally.connect_failures);
    }
    all
}

fn add<K: Clone + Ord>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *all.entry(key.clone()).or_insert(0) += count;
    }
}

/// The sum; `None` if one of them is not known.
fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

impl Record {
    /// Combines the outcomes of a run's threads.
    pub(super) fn new(common: &Common, outcomes: &[Outcome]) -> Record {
        let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
        let merged = |part: fn(&Outcome) -> &Histogram| {
            let mut all = Histogram::new();
            outcomes.iter().for_each(|it| all.merge(part(it)));
            all.packed()
        };
        let most = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).max().unwrap_or(0);
        let first = common.kinds.first().map(|it| it.first());
        let (held, held_max) = common.board.held();
        Record {
            is_open_loop: common.plan.is_open_loop(),
            protocol: common.plan.protocol.name().to_owned(),
            length_ns: most(|it| it.length_ns),
            ok: sum(|it| it.tally.ok),
            errors: errors(outcomes),
            warm_up_ok: sum(|it| it.tally.warm_up_ok),
            warm_up_failed: sum(|it| it.tally.warm_up_failed),
            unfinished: sum(|it| it.unfinished),
            unfinished_ns: merged(|it| &it.unfinished_ns),
            offered: sum(|it| it.offered),
            waited: sum(|it| it.waited),
            in_time: sum(|it| it.tally.in_time),
            drained: sum(|it| it.tally.drained),
            backlog_half: outcomes.iter().map(|it| it.backlog.half).sum(),
            backlog_end: outcomes.iter().map(|it| it.backlog.end).sum(),
            latency_ns: merged(|it| it.series.latency_ns()),
            uncorrected_ns: merged(|it| &it.tally.uncorrected_ns),
            connect_ns: merged(|it| &it.tally.connect_ns),
            connect_failures: connect_failures(outcomes),
            lag_ns: merged(|it| &it.tally.lag_ns),
            statuses: statuses(outcomes),
            bytes: sum(|it| it.tally.bytes),
            run_bytes: sum(|it| it.tally.run_bytes),
            content_bytes: sum(|it| it.tally.content_bytes),
            head_bytes: sum(|it| it.tally.head_bytes),
            requests_sent: sum(|it| it.tally.requests_sent),
            requeued: sum(|it| it.tally.requeued),
            cpu_ns: sum(|it| it.cpu_ns),
            cpu_ns_max: most(|it| it.cpu_ns),
            runnable_ns_max: outcomes
                .iter()
                .filter_map(|it| it.wait_ns.map(|wait_ns| it.cpu_ns + wait_ns))
                .max(),
            wait_ns_max: outcomes.iter().filter_map(|it| it.wait_ns).max(),
            opened: sum(|it| it.opened),
            held,
            held_max,
            open_at_start: outcomes.iter().map(|it| it.open_at_start).sum(),
            settings_received: sum(|it| it.tally.settings_received),
            streams_allowed: outcomes.iter().filter_map(|it| it.streams_allowed).min(),
            served: served(outcomes),
            tls: common.tls.is_some().then(|| {
                let counts = outcomes.iter().map(|it| &it.tally.tls);
                TlsRecord::new(counts, common.board.trust.is_hopeless())
            }),
            websocket: common.messages.is_some().then(|| {
                let counts = outcomes.iter().map(|it| &it.tally.websocket);
                counts.fold(WebSocketReport::default(), WebSocketReport::merge)
            }),
            per_second: common.board.seconds().rows().to_vec(),
            start_late_ns: outcomes.iter().filter_map(|it| it.start_late_ns).max(),
            was_stopped: outcomes.iter().any(|it| it.was_stopped),
            server_software: first
                .and_then(|it| it.server_software.get().cloned())
                .unwrap_or_default(),
            first_status: first.and_then(|it| it.status.get().copied()).unwrap_or(0),
            first_content_bytes: first
                .and_then(|it| it.content_bytes.get().copied())
                .unwrap_or(0),
        }
    }

    /// Adds what another run counted, which took place at the same time.
    ///
    /// The maximum of connections is the sum of both maxima, which may have been at different times.
    pub fn merge(&mut self, other: Record) {
        self.length_ns = self.length_ns.max(other.length_ns);
        self.ok += other.ok;
        self.errors.merge(&other.errors);
        self.warm_up_ok += other.warm_up_ok;
        self.warm_up_failed += other.warm_up_failed;
        self.unfinished += other.unfinished;
        self.unfinished_ns.merge(&other.unfinished_ns);
        self.offered += other.offered;
        self.waited += other.waited;
        self.in_time += other.in_time;
        self.drained += other.drained;
        self.backlog_half = both(self.backlog_half, other.backlog_half);
        self.backlog_end = both(self.backlog_end, other.backlog_end);
        self.latency_ns.merge(&other.latency_ns);
        self.uncorrected_ns.merge(&other.uncorrected_ns);
        self.connect_ns.merge(&other.connect_ns);
        add(&mut self.connect_failures, &other.connect_failures);
        self.lag_ns.merge(&other.lag_ns);
        add(&mut self.statuses, &other.statuses);
        self.bytes += other.bytes;
        self.run_bytes += other.run_bytes;
        self.content_bytes += other.content_bytes;
        self.head_bytes += other.head_bytes;
        self.requests_sent += other.requests_sent;
        self.requeued += other.requeued;
        self.cpu_ns += other.cpu_ns;
        self.cpu_ns_max = self.cpu_ns_max.max(other.cpu_ns_max);
        self.runnable_ns_max = self.runnable_ns_max.max(other.runnable_ns_max);
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
        self.opened += other.opened;
        self.held += other.held;
        self.held_max += other.held_max;
        self.open_at_start = both(self.open_at_start, other.open_at_start);
        let allowed = [self.streams_allowed, other.streams_allowed];
        self.streams_allowed = allowed.into_iter().flatten().min();
        self.settings_received += other.settings_received;
        add(&mut self.served, &other.served);
        if let (Some(all), Some(more)) = (&mut self.tls, &other.tls) {
            all.merge(more);
        }
        self.websocket = match (self.websocket.take(), other.websocket) {
            (Some(all), Some(more)) => Some(all.merge(&more)),
            (all, _) => all,
        };
        add_rows(&mut self.per_second, &other.per_second);
        self.start_late_ns = self.start_late_ns.max(other.start_late_ns);
        self.was_stopped |= other.was_stopped;
        if self.first_status == 0 {
            self.server_software = other.server_software;
            self.first_status = other.first_status;
            self.first_content_bytes = other.first_content_bytes;
        }
    }

    /// The report.
    pub fn report(&self) -> Report {
        Report::new(self)
    }

    /// The record as one JSON object on one line.
    pub fn to_json(&self) -> String {
        // Field names are strings and all numbers are finite: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what `to_json` wrote, maybe on another machine.
    ///
    /// # Errors
    /// If it is no record; one line that says where.
    pub fn from_json(text: &str) -> Result<Record, String> {
        let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let latencies = [
            &record.unfinished_ns,
            &record.latency_ns,
            &record.uncorrected_ns,
            &record.connect_ns,
            &record.lag_ns,
        ];
        let seconds = record.per_second.iter().map(|it| &it.latency_ns);
        let is_sound = latencies.into_iter().chain(seconds).all(Packed::is_sound);
        match is_sound {
            true => Ok(record),
            false => Err(String::from("a histogram is not what its counts are")),
        }
    }
}

impl Phase {
    /// The name in progress.
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::WarmUp => "warm_up",
            Phase::Measuring => "measuring",
            Phase::Done => "done",
        }
    }
}

impl Snapshot {
    /// Adds the state of another run, which takes place at the same time. Together they are as far as the slower one.
    pub fn merge(&mut self, other: &Snapshot) {
        self.phase = self.phase.min(other.phase);
        self.elapsed_s = self.elapsed_s.min(other.elapsed_s);
        self.share_done = self.share_done.min(other.share_done);
        self.ok += other.ok;
        self.errors.merge(&other.errors);
        self.connections_held += other.connections_held;
        if self.tls_failure.is_empty() {
            self.tls_failure.clone_from(&other.tls_failure);
        }
        self.interval_s = self.interval_s.max(other.interval_s);
        self.interval_requests_per_s += other.interval_requests_per_s;
        self.interval_ns.merge(&other.interval_ns);
    }

    /// What a display shows of it.
    pub fn progress(&self) -> Progress {
        Progress::of(self)
    }

    /// The snapshot as one JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what `to_json` wrote, maybe on another machine.
    ///
    /// # Errors
    /// If it is no snapshot; one line that says where.
    pub fn from_json(text: &str) -> Result<Snapshot, String> {
        let snapshot: Snapshot = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match snapshot.interval_ns.is_sound() {
            true => Ok(snapshot),
            false => Err(String::from("a histogram is not what its counts are")),
        }
    }
}
