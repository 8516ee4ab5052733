//! What a run came to.

use std::fmt::Write as _;

use super::tally::{Errors, Tally};

/// Percentiles of the time from a batch's send to each answer, in microseconds.
///
/// With a connection per request the time begins with the connect.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// The longest, exact.
    pub max: f64,
}

/// What a run came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Answers that were right, per second.
    pub requests_per_s: f64,
    /// Answers that were right.
    pub ok: u64,
    /// Requests that failed, warm-up included.
    pub errors: Errors,
    /// Requests that were under way when the time was over: neither right nor failed.
    pub unfinished: u64,
    /// The time that was measured, without the warm-up.
    pub seconds: f64,
    /// How long right answers took.
    pub latency_us: Latency,
    /// Bytes received in the measured time, per second.
    pub bytes_per_s: f64,
    /// The share of the measured time that this thread was running: near 1, the generator was the limit.
    pub generator_cpu: f64,
    /// Connections opened, warm-up included.
    pub connections_opened: u64,
    /// Connections that were established when the run ended.
    pub connections_held: u64,
    /// Status and length of every answer were checked. Always true.
    pub checked: bool,
}

/// What only the driver knows at the end.
pub(super) struct Ending {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) unfinished: u64,
    pub(super) connections_opened: u64,
    pub(super) connections_held: u64,
}

impl Report {
    pub(super) fn new(tally: &Tally, ending: &Ending) -> Report {
        let per_second = |count: f64| {
            if ending.seconds > 0.0 {
                count / ending.seconds
            } else {
                0.0
            }
        };
        let us = |per_cent| tally.latency_ns.percentile(per_cent) as f64 / 1000.0;
        Report {
            requests_per_s: per_second(tally.ok as f64),
            ok: tally.ok,
            errors: tally.errors,
            unfinished: ending.unfinished,
            seconds: ending.seconds,
            latency_us: Latency {
                p50: us(50.0),
                p90: us(90.0),
                p99: us(99.0),
                p99_9: us(99.9),
                max: tally.latency_ns.max() as f64 / 1000.0,
            },
            bytes_per_s: per_second(tally.bytes as f64),
            generator_cpu: per_second(ending.cpu_seconds),
            connections_opened: ending.connections_opened,
            connections_held: ending.connections_held,
            checked: true,
        }
    }

    /// The report as one JSON object on one line.
    pub fn to_json(&self) -> String {
        let mut errors = String::new();
        for (class, count) in self.errors.iter() {
            let comma = if errors.is_empty() { "" } else { ", " };
            let _ = write!(errors, "{comma}\"{}\": {count}", class.name());
        }
        let Latency {
            p50,
            p90,
            p99,
            p99_9,
            max,
        } = self.latency_us;
        format!(
            "{{\"requests_per_s\": {:.1}, \"ok\": {}, \"errors\": {{{errors}}}, \"unfinished\": {}, \"seconds\": {:.6}, \
             \"latency_us\": {{\"p50\": {p50:.1}, \"p90\": {p90:.1}, \"p99\": {p99:.1}, \"p99_9\": {p99_9:.1}, \"max\": {max:.1}}}, \
             \"bytes_per_s\": {:.1}, \"generator_cpu\": {:.4}, \"connections_opened\": {}, \"connections_held\": {}, \"checked\": {}}}",
            self.requests_per_s,
            self.ok,
            self.unfinished,
            self.seconds,
            self.bytes_per_s,
            self.generator_cpu,
            self.connections_opened,
            self.connections_held,
            self.checked,
        )
    }
}
