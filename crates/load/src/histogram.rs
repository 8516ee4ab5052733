//! A log-linear histogram of fixed size: exact below 128, within 0.8 % above.
//!
//! Every power of two is divided into 128 equal buckets. A value is read back as the middle of its bucket, so the error is at most half a
//! bucket: 1/256 of the value.

use serde::{Deserialize, Serialize};

const BUCKETS_LOG2: u32 = 7;
const BUCKETS: usize = 1 << BUCKETS_LOG2;
const GROUPS: usize = 64 - BUCKETS_LOG2 as usize + 1;

/// Counts of values. It takes 58 KiB whatever is recorded.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    min: u64,
    max: u64,
    sum: u128,
}

/// A compact copy of a histogram: its non-empty buckets, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Packed {
    counts: Vec<(u32, u64)>,
    total: u64,
    min: u64,
    max: u64,
    sum: u128,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; GROUPS * BUCKETS].into_boxed_slice(),
            total: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }

    /// Counts `value`, `times` times.
    ///
    /// Cost: one addition, whatever `times` is.
    pub fn record(&mut self, value: u64, times: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += times;
        }
        if times > 0 {
            self.total += times;
            self.sum += u128::from(value) * u128::from(times);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    /// How many values were recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The greatest value, exact; 0 when nothing was recorded.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The least value, exact; 0 when nothing was recorded.
    pub fn min(&self) -> u64 {
        self.min.min(self.max)
    }

    /// The mean, exact; 0 when nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.total.max(1) as f64
    }

    /// The standard deviation; 0 when nothing was recorded.
    pub fn stdev(&self) -> f64 {
        let mean = self.mean();
        let squares = self.counts.iter().enumerate().map(|(index, count)| {
            let apart = middle(index) as f64 - mean;
            apart * apart * *count as f64
        });
        (squares.sum::<f64>() / self.total.max(1) as f64).sqrt()
    }

    /// Every non-empty bucket: its middle, and how many values it holds. Buckets of two histograms with the same middle are the same
    /// bucket, so counts can be added up.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|it| *it.1 > 0);
        filled.map(|(index, count)| (middle(index), *count))
    }

    /// The value that `per_cent` of all values do not exceed; 0 when nothing was recorded.
    pub fn percentile(&self, per_cent: f64) -> u64 {
        let rank = (self.total as f64 * per_cent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(index).clamp(self.min.min(self.max), self.max);
            }
        }
        self.max
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// A compact copy.
    pub fn packed(&self) -> Packed {
        let filled = self.counts.iter().enumerate().filter(|it| *it.1 > 0);
        Packed {
            counts: filled.map(|it| (it.0 as u32, *it.1)).collect(),
            total: self.total,
            min: self.min,
            max: self.max,
            sum: self.sum,
        }
    }

    /// Adds everything that `other` counted.
    pub fn merge_packed(&mut self, other: &Packed) {
        for (index, more) in &other.counts {
            if let Some(count) = self.counts.get_mut(*index as usize) {
                *count += more;
            }
        }
        self.total += other.total;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
        self.min = u64::MAX;
        self.max = 0;
        self.sum = 0;
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Packed {
    /// The histogram that was copied.
    pub fn unpacked(&self) -> Histogram {
        let mut all = Histogram::new();
        all.merge_packed(self);
        all
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Packed) {
        if other.total > 0 {
            let mut all = self.unpacked();
            all.merge_packed(other);
            *self = all.packed();
        }
    }

    /// Whether it can be a copy of a histogram: it may have come from another machine.
    pub fn is_sound(&self) -> bool {
        let is_bucket = |it: &(u32, u64)| (it.0 as usize) < GROUPS * BUCKETS;
        let counted = self
            .counts
            .iter()
            .try_fold(0u64, |sum, it| sum.checked_add(it.1));
        self.counts.iter().all(is_bucket) && counted == Some(self.total)
    }
}

impl Default for Packed {
    fn default() -> Packed {
        Histogram::new().packed()
    }
}

fn bucket(value: u64) -> usize {
    let group = (u64::BITS - value.leading_zeros()).saturating_sub(BUCKETS_LOG2);
    if group == 0 {
        return value as usize;
    }
    let within = (value >> (group - 1)) as usize & (BUCKETS - 1);
    group as usize * BUCKETS + within
}

fn middle(index: usize) -> u64 {
    let (group, within) = (index / BUCKETS, (index % BUCKETS) as u64);
    if group == 0 {
        return within;
    }
    let width = 1u64 << (group - 1);
    ((BUCKETS as u64 + within) << (group - 1)) + (width - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_again_within_one_per_cent() {
        let mut value = 1u64;
        while value < u64::MAX / 3 {
            for probe in [value - 1, value, value + 1, value * 2 - 1] {
                let found = middle(bucket(probe));
                assert!(found.abs_diff(probe) * 128 <= probe, "{probe} {found}");
            }
            value += value / 3 + 1;
        }
        assert!(bucket(u64::MAX) < GROUPS * BUCKETS);
    }

    #[test]
    fn buckets_rise_with_the_value_and_leave_no_gap() {
        let mut last = bucket(0);
        for value in 1..100_000 {
            let next = bucket(value);
            assert!(next == last || next == last + 1, "{value}");
            last = next;
        }
    }

    #[test]
    fn copies_are_added_up_exactly() {
        let (mut low, mut high, mut all) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in (1..2_000_000_000).step_by(999_983) {
            let part = if value % 2 == 0 { &mut low } else { &mut high };
            part.record(value, value % 7);
            all.record(value, value % 7);
        }
        let mut sum = low.packed();
        sum.merge(&high.packed());
        assert!(sum.is_sound());
        assert_eq!(sum, all.packed());
        assert_eq!(sum.unpacked().percentile(99.9), all.percentile(99.9));
        sum.merge(&Packed::default());
        assert_eq!(sum, all.packed());
        sum.total += 1;
        assert!(!sum.is_sound());
    }

    #[test]
    fn percentiles_of_a_known_series() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(99.0), 0);
        for value in 1..=100 {
            histogram.record(value, 10);
        }
        assert_eq!(histogram.total(), 1000);
        assert_eq!(histogram.percentile(50.0), 50);
        assert_eq!(histogram.percentile(99.0), 99);
        assert_eq!(histogram.percentile(100.0), 100);
        // Of a single value, all are that value, and not the middle of its bucket.
        for value in [1_000_000, 1_003_905] {
            let mut single = Histogram::new();
            single.record(value, 1);
            assert_eq!(
                (single.percentile(0.0), single.percentile(50.0)),
                (value, value)
            );
        }
        let mut sum = histogram.clone();
        sum.merge(&histogram);
        assert_eq!(
            (sum.total(), sum.percentile(90.0), sum.max()),
            (2000, 90, 100)
        );
    }
}
