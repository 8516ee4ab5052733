//! What a run came to, as data; its JSON is what users and benches read.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tally::Errors;
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

/// One second of the measured time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Second {
    /// Counted from 0.
    pub second: u64,
    /// Answers that were right.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The median latency in microseconds.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// What a run came to. Everything is of the measured time, which begins when the warm-up has ended, unless it says otherwise.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// Answers that were right, per second.
    pub requests_per_s: f64,
    /// Answers that were right.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by class.
    pub errors: Errors,
    /// Requests that failed before the measured time.
    pub warm_up_failed: u64,
    /// Requests that were under way, or due, when the time was over: neither right nor failed.
    pub unfinished: u64,
    /// The length of the measured time.
    pub seconds: f64,
    /// How long right answers took: in a closed loop from the send (with a connection per request, from the connect), in an open loop
    /// from the intended start.
    pub latency_us: Latency,
    /// Open loop: the same from the actual send.
    pub uncorrected_latency_us: Option<Latency>,
    /// How long connects took that came about, of the whole run.
    pub connect_latency_us: Latency,
    /// Rows of (greatest value in microseconds, count) of `latency_us`, at most 200.
    pub histogram: Vec<(f64, u64)>,
    /// Whole answers by status, right or not.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes of content in whole answers, right or not.
    pub content_bytes_received: u64,
    /// Bytes of heads of whole answers.
    pub head_bytes_received: u64,
    /// Bytes received per second.
    pub bytes_per_s: f64,
    /// Requests that left whole, of the whole run: what the server's own counter says.
    pub requests_sent: u64,
    /// Open loop: requests that were to be sent, per second.
    pub offered_per_s: Option<f64>,
    /// Open loop: the share of them that was answered right.
    pub achieved_share: Option<f64>,
    /// Open loop: the time from the first moment at which a request could be sent (it was due, and a connection was free) to its send.
    pub schedule_lag_us: Option<Lag>,
    /// The share of the measured time that the busiest thread was running: near 1, the generator was the limit.
    pub generator_cpu: f64,
    /// The time that all threads were running.
    pub generator_cpu_s: f64,
    /// The same per request, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Connections that were begun, of the whole run.
    pub connections_opened: u64,
    /// Connections that were established at the end.
    pub connections_held: u64,
    /// The most connections that were established at a time.
    pub connections_max: u64,
    /// The measured time second by second.
    pub per_second: Vec<Second>,
    /// The run was ended early.
    pub was_stopped: bool,
    /// The Server field of the first answer.
    pub server_software: String,
    /// The status of the first answer; 0: there was none.
    pub first_status: u16,
    /// The content length of the first whole answer in bytes.
    pub first_content_bytes: u64,
    /// Every answer was checked. Always true.
    pub checked: bool,
}

/// What a run is doing.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Progress {
    /// "opening", "warm_up", "measuring" or "done".
    pub phase: &'static str,
    /// Time since the measured time began.
    pub elapsed_s: f64,
    /// How much of the measured time, or of the requests, is done.
    pub share_done: f64,
    /// Answers that were right, in the measured time.
    pub ok: u64,
    /// Requests that failed, in the measured time.
    pub failed: u64,
    /// The same by class.
    pub errors: Errors,
    /// Connections that are established.
    pub connections_held: u64,
    /// Time since the last question.
    pub interval_s: f64,
    /// Right answers since then, per second.
    pub interval_requests_per_s: f64,
    /// Their latencies.
    pub interval_latency_us: Lag,
}

/// Rows that a histogram is merged to at most.
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

/// The buckets that are not empty, neighbours merged until there are few enough.
pub(super) fn rows(histogram: &Histogram) -> Vec<(f64, u64)> {
    let buckets: Vec<(u64, u64)> = histogram.buckets().collect();
    let each = buckets.len().div_ceil(HISTOGRAM_ROWS_MAX).max(1);
    let row = |group: &[(u64, u64)]| {
        let upper_ns = group.last().map_or(0, |last| last.0);
        (upper_ns as f64 / 1000.0, group.iter().map(|it| it.1).sum())
    };
    buckets.chunks(each).map(row).collect()
}

impl Report {
    /// The report as one JSON object on one line.
    pub fn to_json(&self) -> String {
        // Names of fields are strings and all numbers are finite: nothing can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Progress {
    /// The same as one JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
