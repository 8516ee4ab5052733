//! The measured time second by second.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::error::Errors;
use super::report::Second;
use crate::Histogram;
use crate::histogram::Packed;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// What one thread counted in each second.
#[derive(Default)]
pub(super) struct Series {
    /// How many seconds have ended.
    ended: usize,
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
    /// What is shown of the latencies, if they are not kept.
    shown: Option<Shown>,
}

/// What is shown of the latencies of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Shown {
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// The seconds of all threads of a run. A day has 86,400, so latencies are not kept for each thread, and not at all if they are not
/// combined with those of other runs.
pub(super) struct Table {
    rows: Vec<Row>,
    /// How many threads have counted in each of the last seconds, whose first one this is.
    first: usize,
    counted: VecDeque<usize>,
    threads: usize,
    keeps_latencies: bool,
}

impl Table {
    pub(super) fn new(threads: usize, keeps_latencies: bool) -> Table {
        Table {
            rows: Vec::new(),
            first: 0,
            counted: VecDeque::new(),
            threads,
            keeps_latencies,
        }
    }

    /// Adds what a thread has counted in the second with this number.
    fn add(&mut self, number: usize, more: &Row) {
        if self.rows.len() <= number {
            self.rows.resize_with(number + 1, Row::default);
            self.counted.resize(number + 1 - self.first, 0);
        }
        if let Some(row) = self.rows.get_mut(number) {
            row.merge(more);
        }
        if let Some(count) = self.counted.get_mut(number.saturating_sub(self.first)) {
            *count += 1;
        }
        while self.counted.front().is_some_and(|it| *it >= self.threads) {
            if let Some(row) = self
                .rows
                .get_mut(self.first)
                .filter(|_| !self.keeps_latencies)
            {
                row.shorten();
            }
            self.counted.pop_front();
            self.first += 1;
        }
    }

    /// All seconds.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Series {
    /// Adds latencies to the current second.
    pub(super) fn add(&mut self, latencies_ns: &Histogram) {
        self.current_ns.merge(latencies_ns);
    }

    /// Ends a second, with what was counted from the start to its end.
    pub(super) fn end_second(&mut self, ok: u64, errors: &Errors, table: &mut Table) {
        let failed = errors.total();
        let row = Row {
            // A response may have been taken back.
            ok: ok.saturating_sub(self.ok),
            failed: failed - self.failed,
            latency_ns: self.current_ns.packed(),
            shown: None,
        };
        table.add(self.ended, &row);
        self.ended += 1;
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

    /// Keeps what is shown of the latencies instead of all.
    fn shorten(&mut self) {
        self.shown = self.shown();
        self.latency_ns = Packed::default();
    }

    /// What is shown of the latencies; `None`: there was no correct response.
    fn shown(&self) -> Option<Shown> {
        let latency_ns = self.latency_ns.unpacked();
        let shown = (latency_ns.total() > 0).then(|| Shown {
            p50_ns: latency_ns.percentile(50.0),
            p99_ns: latency_ns.percentile(99.0),
            max_ns: latency_ns.max(),
        });
        shown.or(self.shown)
    }

    /// The row as that of the second with this number.
    pub(super) fn second(&self, number: u64) -> Second {
        let shown = self.shown();
        let us = |ns: fn(&Shown) -> u64| shown.as_ref().map(|it| ns(it) as f64 / 1000.0);
        Second {
            second: number,
            ok: self.ok,
            failed: self.failed,
            p50_us: us(|it| it.p50_ns),
            p99_us: us(|it| it.p99_ns),
            max_us: us(|it| it.max_ns),
        }
    }
}

/// Adds rows to those of the same seconds.
pub(super) fn add_rows(all: &mut Vec<Row>, more: &[Row]) {
    if all.len() < more.len() {
        all.resize_with(more.len(), Row::default);
    }
    all.iter_mut().zip(more).for_each(|(row, it)| row.merge(it));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three seconds of two threads, of which the second one is late.
    fn counted(keeps_latencies: bool) -> Table {
        let mut table = Table::new(2, keeps_latencies);
        let mut threads = [Series::default(), Series::default()];
        for (thread, seconds) in [(0, 3), (1, 2)] {
            for second in 1..=seconds {
                let mut latencies_ns = Histogram::new();
                latencies_ns.record(second * 1_000_000 * (thread as u64 + 1), 10);
                threads[thread].add(&latencies_ns);
                threads[thread].end_second(second * 10, &Errors::default(), &mut table);
            }
        }
        table
    }

    #[test]
    fn latencies_of_a_second_are_kept_until_all_threads_have_counted() {
        let (short, all) = (counted(false), counted(true));
        let seconds = |table: &Table| {
            let rows = (0..).zip(table.rows());
            rows.map(|(number, row)| row.second(number))
                .collect::<Vec<_>>()
        };
        assert_eq!(seconds(&short), seconds(&all));
        let [first, second, last] = &seconds(&short)[..] else {
            panic!("{:?}", short.rows());
        };
        assert_eq!((first.ok, second.ok, last.ok), (20, 20, 10));
        assert_eq!((first.max_us, second.max_us), (Some(2000.0), Some(4000.0)));
        let kept = |table: &Table| {
            let rows = table.rows().iter();
            rows.map(|it| it.latency_ns != Packed::default())
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(&short), [false, false, true]);
        assert_eq!(kept(&all), [true, true, true]);
    }
}
