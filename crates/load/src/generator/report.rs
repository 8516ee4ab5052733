//! The results of a run as data. Users and the laboratory read them as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::channel::WebSocketReport;
use super::error::Errors;
use super::load_thread::{Common, Outcome};
use super::series::{Series, table};
use super::tls::TlsReport;
use crate::Histogram;

/// A distribution of times in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "each is the percentile that it is called")]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub stdev: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

/// How late requests were sent, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "each is the percentile that it is called")]
pub struct Lag {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// How evenly connections were served: correct responses of the measured time on each connection that had a request. A connection that was
/// reopened counts as one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Served {
    /// Connections with at least one correct response.
    pub connections: u64,
    /// Connections without any.
    pub starved: u64,
    /// The fewest responses on a connection.
    pub min: u64,
    /// The median; the lower one of two.
    pub median: u64,
    /// The most.
    pub max: u64,
    /// Jain's index: 1 if all connections were served equally, 1/n if one of n was served alone.
    pub fairness: f64,
}

/// One second of the measured time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Second {
    /// Counted from 0.
    pub second: u64,
    /// Correct responses.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The median latency in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The maximum.
    pub max_us: f64,
}

/// The results of a run, for the measured time unless stated otherwise. The measured time starts when the warm-up has ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// Correct responses per second.
    pub requests_per_s: f64,
    /// Correct responses.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by class.
    pub errors: Errors,
    /// Requests that failed before the measured time.
    pub warm_up_failed: u64,
    /// Requests that were outstanding, or due, when the time was over: neither correct nor failed.
    pub unfinished: u64,
    /// The length of the measured time.
    pub seconds: f64,
    /// Latency of correct responses: in a closed loop from the send (with a connection per request, from the connect), in an open loop from
    /// the intended start.
    pub latency_us: Latency,
    /// Open loop: the same from the actual send.
    pub uncorrected_latency_us: Option<Latency>,
    /// Duration of successful connects with their TLS handshakes, for the whole run.
    pub connect_latency_us: Latency,
    /// Rows of (greatest value in microseconds, count) of `latency_us`, at most 200.
    pub histogram: Vec<(f64, u64)>,
    /// Complete responses by status, correct or not.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes received in the whole run: also before and after the measured time.
    pub run_bytes_received: u64,
    /// Bytes of content in complete responses, correct or not.
    pub content_bytes_received: u64,
    /// Bytes of the heads of complete responses.
    pub head_bytes_received: u64,
    /// Bytes received per second.
    pub bytes_per_s: f64,
    /// Requests that were completely sent, for the whole run: the number that the server's own counter shows. A message that is broadcast
    /// counts for each connection that has to receive it.
    pub requests_sent: u64,
    /// Open loop: requests that were due, per second.
    pub offered_per_s: Option<f64>,
    /// Open loop: the share of them that got a correct response.
    pub achieved_share: Option<f64>,
    /// Open loop: the delay between the first moment at which a request could be sent (it was due, and a connection was free) and its send.
    pub schedule_lag_us: Option<Lag>,
    /// The share of the measured time during which the busiest thread worked: near 1, the generator was the limit. Polling shortly before a
    /// request is due does not count as work.
    pub generator_cpu: f64,
    /// The time during which all threads worked.
    pub generator_cpu_s: f64,
    /// The same per request, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Connections that were opened, in the whole run.
    pub connections_opened: u64,
    /// Connections that were established at the end.
    pub connections_held: u64,
    /// The maximum number of connections established at a time.
    pub connections_max: u64,
    /// How evenly connections were served.
    pub connections_served: Served,
    /// "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "WebSocket".
    pub protocol: &'static str,
    /// Handshakes; none without TLS.
    pub tls: Option<TlsReport>,
    /// Handshakes and ends of WebSockets; none over HTTP.
    pub websocket: Option<WebSocketReport>,
    /// The measured time second by second.
    pub per_second: Vec<Second>,
    /// The run was ended early.
    pub was_stopped: bool,
    /// The Server field of the first response.
    pub server_software: String,
    /// The status of the first response; 0: there was none.
    pub first_status: u16,
    /// The content length of the first complete response in bytes.
    pub first_content_bytes: u64,
    /// Every response was checked. Always true.
    pub checked: bool,
}

/// The current state of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Progress {
    /// "opening", "warm_up", "measuring" or "done".
    pub phase: &'static str,
    /// Time since the measured time started.
    pub elapsed_s: f64,
    /// How much of the measured time, or of the requests, is done.
    pub share_done: f64,
    /// Correct responses in the measured time.
    pub ok: u64,
    /// Requests that failed, in the measured time.
    pub failed: u64,
    /// The same by class.
    pub errors: Errors,
    /// Connections that are established.
    pub connections_held: u64,
    /// Time since the last query.
    pub interval_s: f64,
    /// Correct responses since then, per second.
    pub interval_requests_per_s: f64,
    /// Their latencies.
    pub interval_latency_us: Lag,
}

/// Maximum number of rows of a merged histogram.
const HISTOGRAM_ROWS_MAX: usize = 200;

impl Latency {
    pub(super) fn of(histogram: &Histogram) -> Latency {
        let us = |per_cent| histogram.percentile(per_cent) as f64 / 1000.0;
        Latency {
            min: histogram.min() as f64 / 1000.0,
            mean: histogram.mean() / 1000.0,
            stdev: histogram.stdev() / 1000.0,
            p50: us(50.0),
            p75: us(75.0),
            p90: us(90.0),
            p95: us(95.0),
            p99: us(99.0),
            p99_9: us(99.9),
            p99_99: us(99.99),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

impl Lag {
    pub(super) fn of(histogram: &Histogram) -> Lag {
        let us = |per_cent| histogram.percentile(per_cent) as f64 / 1000.0;
        Lag {
            p50: us(50.0),
            p99: us(99.0),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

impl Served {
    /// Summarises the counts of all connections, in any order.
    fn of(mut counts: Vec<u64>) -> Served {
        counts.sort_unstable();
        let total = counts.iter().sum::<u64>() as f64;
        let squares: f64 = counts.iter().map(|it| (*it as f64).powi(2)).sum();
        let starved = counts.iter().take_while(|it| **it == 0).count();
        let at = |place: usize| counts.get(place).copied().unwrap_or(0);
        Served {
            connections: (counts.len() - starved) as u64,
            starved: starved as u64,
            min: at(0),
            median: at(counts.len().saturating_sub(1) / 2),
            max: counts.last().copied().unwrap_or(0),
            fairness: match squares > 0.0 {
                true => total * total / (counts.len() as f64 * squares),
                false => 0.0,
            },
        }
    }
}

/// The non-empty buckets, with neighbours merged until there are few enough.
pub(super) fn rows(histogram: &Histogram) -> Vec<(f64, u64)> {
    let buckets: Vec<(u64, u64)> = histogram.buckets().collect();
    let each = buckets.len().div_ceil(HISTOGRAM_ROWS_MAX).max(1);
    let row = |group: &[(u64, u64)]| {
        let upper_ns = group.last().map_or(0, |last| last.0);
        (upper_ns as f64 / 1000.0, group.iter().map(|it| it.1).sum())
    };
    buckets.chunks(each).map(row).collect()
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

/// Correct responses of each connection that had a request.
fn each_served(outcomes: &[Outcome]) -> Vec<u64> {
    let served = outcomes.iter().flat_map(|it| it.served.iter().copied());
    served.collect()
}

impl Report {
    /// Combines the outcomes of a run's threads.
    pub(super) fn new(common: &Common, outcomes: &[Outcome]) -> Report {
        let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
        let merged = |part: fn(&Outcome) -> &Histogram| {
            let mut all = Histogram::new();
            outcomes.iter().for_each(|it| all.merge(part(it)));
            all
        };
        let most = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).max().unwrap_or(0);
        let seconds = most(|it| it.length_ns) as f64 / 1e9;
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let errors = errors(outcomes);
        let latency_ns = merged(|it| it.series.latency_ns());
        let (ok, failed) = (sum(|it| it.tally.ok), errors.total());
        let offered = sum(|it| it.offered);
        let open_loop = common.plan.is_open_loop();
        let cpu_ns = sum(|it| it.cpu_ns) as f64;
        let series: Vec<&Series> = outcomes.iter().map(|it| &it.series).collect();
        let first = common.kinds.first().map(|it| it.first());
        let (connections_held, connections_max) = common.board.held();
        Report {
            requests_per_s: per_second(ok as f64),
            ok,
            failed,
            errors,
            warm_up_failed: sum(|it| it.tally.warm_up_failed),
            unfinished: sum(|it| it.unfinished),
            seconds,
            latency_us: Latency::of(&latency_ns),
            uncorrected_latency_us: open_loop
                .then(|| Latency::of(&merged(|it| &it.tally.uncorrected_ns))),
            connect_latency_us: Latency::of(&merged(|it| &it.tally.connect_ns)),
            histogram: rows(&latency_ns),
            statuses: statuses(outcomes),
            bytes_received: sum(|it| it.tally.bytes),
            run_bytes_received: sum(|it| it.tally.run_bytes),
            content_bytes_received: sum(|it| it.tally.content_bytes),
            head_bytes_received: sum(|it| it.tally.head_bytes),
            bytes_per_s: per_second(sum(|it| it.tally.bytes) as f64),
            requests_sent: sum(|it| it.tally.requests_sent),
            offered_per_s: open_loop.then(|| per_second(offered as f64)),
            achieved_share: open_loop.then(|| ok as f64 / offered.max(1) as f64),
            schedule_lag_us: open_loop.then(|| Lag::of(&merged(|it| &it.tally.lag_ns))),
            generator_cpu: per_second(most(|it| it.cpu_ns) as f64 / 1e9),
            generator_cpu_s: cpu_ns / 1e9,
            cpu_ns_per_request: cpu_ns / (ok + failed).max(1) as f64,
            connections_opened: sum(|it| it.opened),
            connections_held,
            connections_max,
            connections_served: Served::of(each_served(outcomes)),
            protocol: common.plan.protocol.name(),
            tls: common
                .tls
                .is_some()
                .then(|| TlsReport::new(outcomes.iter().map(|it| &it.tally.tls), seconds)),
            websocket: common.messages.is_some().then(|| {
                let counts = outcomes.iter().map(|it| &it.tally.websocket);
                counts.fold(WebSocketReport::default(), WebSocketReport::merge)
            }),
            per_second: table(&series),
            was_stopped: common.board.is_stopped(),
            server_software: first
                .and_then(|it| it.server_software.get().cloned())
                .unwrap_or_default(),
            first_status: first.and_then(|it| it.status.get().copied()).unwrap_or(0),
            first_content_bytes: first
                .and_then(|it| it.content_bytes.get().copied())
                .unwrap_or(0),
            checked: true,
        }
    }

    /// The report as one JSON object on one line.
    pub fn to_json(&self) -> String {
        // Field names are strings and all numbers are finite: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Progress {
    /// The same as one JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_served_unequally_are_summarised() {
        let found = Served::of(vec![9, 0, 3, 0]);
        let expected = Served {
            connections: 2,
            starved: 2,
            min: 0,
            median: 0,
            max: 9,
            fairness: 0.4,
        };
        assert_eq!(found, expected);
        assert_eq!(Served::of(vec![7; 100]).fairness, 1.0);
        assert_eq!(Served::of(Vec::new()), Served::default());
        assert_eq!(Served::of(vec![0, 0]).starved, 2);
    }
}
