//! The measured time second by second.

use super::error::Errors;
use super::report::Second;
use crate::Histogram;
use crate::histogram::Packed;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// What one thread counted in each second.
#[derive(Default)]
pub(super) struct Series {
    rows: Vec<Row>,
    /// Latencies of the current second.
    current_ns: Histogram,
    /// Latencies of all seconds before it.
    before_ns: Histogram,
    ok: u64,
    failed: u64,
}

struct Row {
    ok: u64,
    failed: u64,
    latency_ns: Packed,
}

impl Series {
    /// Adds latencies to the current second.
    pub(super) fn add(&mut self, latencies_ns: &Histogram) {
        self.current_ns.merge(latencies_ns);
    }

    /// Ends a second, with what was counted from the start to its end.
    pub(super) fn end_second(&mut self, ok: u64, errors: &Errors) {
        let failed = errors.total();
        self.rows.push(Row {
            // A response may have been taken back.
            ok: ok.saturating_sub(self.ok),
            failed: failed - self.failed,
            latency_ns: self.current_ns.packed(),
        });
        (self.ok, self.failed) = (ok, failed);
        self.before_ns.merge(&self.current_ns);
        self.current_ns.clear();
    }

    /// All latencies of the seconds that have ended.
    pub(super) fn latency_ns(&self) -> &Histogram {
        &self.before_ns
    }
}

/// The rows of all threads as one table.
pub(super) fn table(series: &[&Series]) -> Vec<Second> {
    let length = series.iter().map(|it| it.rows.len()).max().unwrap_or(0);
    let mut latency_ns = Histogram::new();
    let second = |index: usize| {
        let mut row = Second {
            second: index as u64,
            ..Second::default()
        };
        latency_ns.clear();
        for part in series.iter().filter_map(|it| it.rows.get(index)) {
            row.ok += part.ok;
            row.failed += part.failed;
            latency_ns.merge_packed(&part.latency_ns);
        }
        row.p50_us = latency_ns.percentile(50.0) as f64 / 1000.0;
        row.p99_us = latency_ns.percentile(99.0) as f64 / 1000.0;
        row.max_us = latency_ns.max() as f64 / 1000.0;
        row
    };
    (0..length).map(second).collect()
}
