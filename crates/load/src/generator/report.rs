//! The results of a run as data. Users and the laboratory read them as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::channel::WebSocketReport;
use super::error::Errors;
use super::record::{Record, Snapshot};
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
    /// The median latency in microseconds; none if there was no correct response.
    pub p50_us: Option<f64>,
    /// The 99th percentile.
    pub p99_us: Option<f64>,
    /// The maximum.
    pub max_us: Option<f64>,
}

/// The results of a run, for the measured time unless stated otherwise. The measured time starts when the warm-up has ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// Correct responses per second; in an open loop, those that arrived in the measured time.
    pub requests_per_s: f64,
    /// Correct responses.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by class.
    pub errors: Errors,
    /// Correct responses before the measured time or, in an open loop, to requests that were due before it.
    pub warm_up_ok: u64,
    /// Requests that failed before the measured time.
    pub warm_up_failed: u64,
    /// Requests that were outstanding, or due, when the time was over: neither correct nor failed.
    pub unfinished: u64,
    /// Rows of (microseconds, count): for how long they had been sent or, in an open loop, due.
    pub unfinished_us: Vec<(f64, u64)>,
    /// The length of the measured time.
    pub seconds: f64,
    /// Latency of correct responses: in a closed loop from the send (with a connection per request, from the connect), in an open loop from
    /// the intended start.
    pub latency_us: Latency,
    /// Open loop: the same from the actual send.
    pub uncorrected_latency_us: Option<Latency>,
    /// Duration of successful connects with their TLS handshakes, for the whole run.
    pub connect_latency_us: Latency,
    /// Connections that could not be opened, for the whole run, by what prevented that: "no_port", "no_file", "no_route", "full_queue" (of a
    /// UNIX socket), "no_answer" or "errno_" and a number.
    pub connect_failures: BTreeMap<String, u64>,
    /// The non-empty buckets of `latency_us`: (middle in microseconds, count). Those of several runs can be added up; a percentile of the sum
    /// is the middle of its bucket, or the maximum if that is less.
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
    /// Requests that were sent again on another connection, because the server ended theirs without processing them, in the whole run.
    pub requeued: u64,
    /// Open loop: requests that were due, per second.
    pub offered_per_s: Option<f64>,
    /// Open loop: the share of them that got a correct response.
    pub achieved_share: Option<f64>,
    /// Open loop: requests that were due while no connection was free, and so waited for one.
    pub waited_for_connection: Option<u64>,
    /// Open loop: correct responses that arrived after the measured time, to requests that were due in it.
    pub drained: Option<u64>,
    /// Open loop with a duration: requests that were due and had no response, halfway through the measured time.
    pub backlog_half: Option<u64>,
    /// The same at its end. If they have become more, the rate was not achieved.
    pub backlog_end: Option<u64>,
    /// Open loop: the delay between the first moment at which a request could be sent (it was due, and a connection was free) and its send.
    pub schedule_lag_us: Option<Lag>,
    /// The share of the measured time during which the busiest thread worked: near 1, the generator was the limit. Polling shortly before a
    /// request is due does not count as work.
    pub generator_cpu: f64,
    /// The time during which all threads worked.
    pub generator_cpu_s: f64,
    /// The share of the measured time during which the busiest thread worked or waited for a processor; none if the kernel does not report
    /// that. Near 1, the generator was the limit, or other processes had its processor.
    pub generator_runnable: Option<f64>,
    /// The share of the measured time during which the thread that waited longest waited for a processor; none if the kernel does not report
    /// that.
    pub generator_waited: Option<f64>,
    /// The same as `generator_cpu_s` per request, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Connections that were opened, in the whole run.
    pub connections_opened: u64,
    /// Connections that were established at the end.
    pub connections_held: u64,
    /// The maximum number of connections established at a time.
    pub connections_max: u64,
    /// Connections that were open when the measured time started; none if the load did not wait for them.
    pub connections_at_start: Option<u64>,
    /// HTTP/2: the fewest streams that the server allows on a connection; none if it allows any number.
    pub streams_allowed: Option<u32>,
    /// HTTP/2: connections on which the server's settings arrived, in the whole run. Without any, it does not speak HTTP/2.
    pub settings_received: u64,
    /// How evenly connections were served.
    pub connections_served: Served,
    /// "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "WebSocket".
    pub protocol: String,
    /// Handshakes; none without TLS.
    pub tls: Option<TlsReport>,
    /// Handshakes and ends of WebSockets; none over HTTP.
    pub websocket: Option<WebSocketReport>,
    /// The measured time second by second.
    pub per_second: Vec<Second>,
    /// How long after its start the load started that waited for it; none if it did not wait.
    pub start_late_us: Option<f64>,
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
    /// Why TLS failed first; empty if it did not.
    pub tls_failure: String,
    /// Time since the last query.
    pub interval_s: f64,
    /// Correct responses since then, per second.
    pub interval_requests_per_s: f64,
    /// Their latencies.
    pub interval_latency_us: Lag,
}

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
    /// Summarises how many connections had each number of responses.
    fn of(counts: &BTreeMap<u64, u64>) -> Served {
        let number = counts.values().sum::<u64>();
        let total: f64 = counts
            .iter()
            .map(|(it, times)| *it as f64 * *times as f64)
            .sum();
        let square = |(it, times): (&u64, &u64)| (*it as f64).powi(2) * *times as f64;
        let squares: f64 = counts.iter().map(square).sum();
        let starved = counts.get(&0).copied().unwrap_or(0);
        let at = |place: u64| {
            let mut before = 0;
            let mut reached = counts.iter().filter(|(_, times)| {
                before += **times;
                before > place
            });
            reached.next().map_or(0, |(it, _)| *it)
        };
        Served {
            connections: number - starved,
            starved,
            min: at(0),
            median: at(number.saturating_sub(1) / 2),
            max: counts.last_key_value().map_or(0, |(it, _)| *it),
            fairness: match squares > 0.0 {
                true => total * total / (number as f64 * squares),
                false => 0.0,
            },
        }
    }
}

/// The non-empty buckets, in microseconds.
fn rows(histogram: &Histogram) -> Vec<(f64, u64)> {
    let buckets = histogram.buckets();
    buckets
        .map(|(middle_ns, count)| (middle_ns as f64 / 1000.0, count))
        .collect()
}

impl Report {
    /// The report of a record.
    pub(super) fn new(record: &Record) -> Report {
        let seconds = record.length_ns as f64 / 1e9;
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let is_open_loop = record.is_open_loop;
        let (ok, failed) = (record.ok, record.errors.total());
        let latency_ns = record.latency_ns.unpacked();
        let cpu_ns = record.cpu_ns as f64;
        let share_of = |ns: u64| per_second(ns as f64 / 1e9);
        let arrived = if is_open_loop { record.in_time } else { ok };
        Report {
            requests_per_s: per_second(arrived as f64),
            ok,
            failed,
            errors: record.errors,
            warm_up_ok: record.warm_up_ok,
            warm_up_failed: record.warm_up_failed,
            unfinished: record.unfinished,
            unfinished_us: rows(&record.unfinished_ns.unpacked()),
            seconds,
            latency_us: Latency::of(&latency_ns),
            uncorrected_latency_us: is_open_loop
                .then(|| Latency::of(&record.uncorrected_ns.unpacked())),
            connect_latency_us: Latency::of(&record.connect_ns.unpacked()),
            connect_failures: record.connect_failures.clone(),
            histogram: rows(&latency_ns),
            statuses: record.statuses.clone(),
            bytes_received: record.bytes,
            run_bytes_received: record.run_bytes,
            content_bytes_received: record.content_bytes,
            head_bytes_received: record.head_bytes,
            bytes_per_s: per_second(record.bytes as f64),
            requests_sent: record.requests_sent,
            requeued: record.requeued,
            offered_per_s: is_open_loop.then(|| per_second(record.offered as f64)),
            achieved_share: is_open_loop.then(|| ok as f64 / record.offered.max(1) as f64),
            waited_for_connection: is_open_loop.then_some(record.waited),
            drained: is_open_loop.then_some(record.drained),
            backlog_half: record.backlog_half,
            backlog_end: record.backlog_end,
            schedule_lag_us: is_open_loop.then(|| Lag::of(&record.lag_ns.unpacked())),
            generator_cpu: share_of(record.cpu_ns_max),
            generator_cpu_s: cpu_ns / 1e9,
            generator_runnable: record.runnable_ns_max.map(share_of),
            generator_waited: record.wait_ns_max.map(share_of),
            cpu_ns_per_request: cpu_ns / (ok + failed).max(1) as f64,
            connections_opened: record.opened,
            connections_held: record.held,
            connections_max: record.held_max,
            connections_at_start: record.open_at_start,
            settings_received: record.settings_received,
            streams_allowed: record.streams_allowed,
            connections_served: Served::of(&record.served),
            protocol: record.protocol.clone(),
            tls: record.tls.as_ref().map(|it| TlsReport::new(it, seconds)),
            websocket: record.websocket.clone(),
            per_second: (0..)
                .zip(&record.per_second)
                .map(|(number, row)| row.second(number))
                .collect(),
            start_late_us: record.start_late_ns.map(|it| it as f64 / 1000.0),
            was_stopped: record.was_stopped,
            server_software: record.server_software.clone(),
            first_status: record.first_status,
            first_content_bytes: record.first_content_bytes,
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
    /// The state that a snapshot shows.
    pub(super) fn of(snapshot: &Snapshot) -> Progress {
        Progress {
            phase: snapshot.phase.name(),
            elapsed_s: snapshot.elapsed_s,
            share_done: snapshot.share_done,
            ok: snapshot.ok,
            failed: snapshot.errors.total(),
            errors: snapshot.errors,
            connections_held: snapshot.connections_held,
            tls_failure: snapshot.tls_failure.clone(),
            interval_s: snapshot.interval_s,
            interval_requests_per_s: snapshot.interval_requests_per_s,
            interval_latency_us: Lag::of(&snapshot.interval_ns.unpacked()),
        }
    }

    /// The same as one JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_two_runs_have_the_percentiles_of_all_their_values() {
        let (mut low, mut high, mut all) = (Histogram::new(), Histogram::new(), Histogram::new());
        // From a microsecond to 17 minutes: 3,800 buckets.
        for number in 0..100_000 {
            let value = (1e3 * 1e9f64.powf(f64::from(number) / 1e5)) as u64;
            let part = if number % 3 == 0 { &mut low } else { &mut high };
            part.record(value, 1);
            all.record(value, 1);
        }
        let mut sum = BTreeMap::new();
        for (middle_us, count) in rows(&low).into_iter().chain(rows(&high)) {
            *sum.entry(middle_us.to_bits()).or_insert(0) += count;
        }
        let found: Vec<(f64, u64)> = sum
            .iter()
            .map(|it| (f64::from_bits(*it.0), *it.1))
            .collect();
        assert_eq!(found, rows(&all));
        assert!(found.len() > 3_000, "{}", found.len());
        let mut seen = 0;
        let mut reached = found.iter().filter(|it| {
            seen += it.1;
            seen >= 99_000
        });
        assert_eq!(reached.next().map(|it| it.0), Some(Latency::of(&all).p99));
    }

    #[test]
    fn connections_served_unequally_are_summarised() {
        let of = |counts: &[u64]| {
            let mut all = BTreeMap::new();
            counts
                .iter()
                .for_each(|it| *all.entry(*it).or_insert(0) += 1);
            Served::of(&all)
        };
        let expected = Served {
            connections: 2,
            starved: 2,
            min: 0,
            median: 0,
            max: 9,
            fairness: 0.4,
        };
        assert_eq!(of(&[9, 0, 3, 0]), expected);
        assert_eq!(of(&[5, 1, 3]).median, 3);
        assert_eq!(of(&[5, 1, 3, 4]).median, 3);
        assert_eq!(of(&[7; 100]).fairness, 1.0);
        assert_eq!(of(&[]), Served::default());
        assert_eq!(of(&[0, 0]).starved, 2);
    }
}
