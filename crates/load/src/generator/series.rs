//! The measured time second by second.

use serde::{Deserialize, Serialize};

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

/// What was counted in one second.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Row {
    ok: u64,
    failed: u64,
    pub(super) latency_ns: Packed,
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
        self.end_rest();
    }

    /// Adds latencies that are in no second to those before.
    pub(super) fn end_rest(&mut self) {
        self.before_ns.merge(&self.current_ns);
        self.current_ns.clear();
    }

    /// All latencies of the seconds that have ended.
    pub(super) fn latency_ns(&self) -> &Histogram {
        &self.before_ns
    }
}

impl Row {
    fn merge(&mut self, other: &Row) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.latency_ns.merge(&other.latency_ns);
    }

    /// The row as that of the second with this number.
    pub(super) fn second(&self, number: u64) -> Second {
        let latency_ns = self.latency_ns.unpacked();
        let us = |ns: u64| (latency_ns.total() > 0).then_some(ns as f64 / 1000.0);
        Second {
            second: number,
            ok: self.ok,
            failed: self.failed,
            p50_us: us(latency_ns.percentile(50.0)),
            p99_us: us(latency_ns.percentile(99.0)),
            max_us: us(latency_ns.max()),
        }
    }
}

/// The rows of all threads as one table.
pub(super) fn table(series: &[&Series]) -> Vec<Row> {
    let mut all = Vec::new();
    series.iter().for_each(|it| add_rows(&mut all, &it.rows));
    all
}

/// Adds rows to those of the same seconds.
pub(super) fn add_rows(all: &mut Vec<Row>, more: &[Row]) {
    if all.len() < more.len() {
        all.resize_with(more.len(), Row::default);
    }
    all.iter_mut().zip(more).for_each(|(row, it)| row.merge(it));
}
