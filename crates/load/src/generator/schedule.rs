//! When requests are sent in an open loop, and how many connections a closed loop has: load over time, without a clock.

use std::time::Duration;

use super::plan::Stage;

/// Intended starts, in nanoseconds since the start of the schedule. With several threads, each of n has every n-th start.
pub(super) struct Schedule {
    parts: Vec<Part>,
    /// The part that contains the next start.
    part: usize,
    /// The number of the next start among all threads' starts.
    next: u64,
    /// The distance between this thread's starts, in starts of all threads.
    step: u64,
    /// The first number that is not part of the schedule.
    end: u64,
}

/// A stage and its position in the schedule.
struct Part {
    start_s: f64,
    /// Starts before it.
    start_count: f64,
    /// Starts before the next part.
    end_count: f64,
    rate: f64,
    /// How much the rate rises per second.
    slope: f64,
}

impl Schedule {
    /// A schedule of `stages` for thread `index` of `threads`, with no more than `limit` starts, if there is a limit.
    pub(super) fn new(stages: &[Stage], index: usize, threads: usize, limit: Option<u64>) -> Self {
        let (mut start_s, mut start_count) = (0.0, 0.0);
        let mut parts = Vec::new();
        for stage in stages {
            let length_s = stage.duration.as_secs_f64();
            let end_count = start_count + length_s * (stage.from + stage.to) / 2.0;
            parts.push(Part {
                start_s,
                start_count,
                end_count,
                rate: stage.from,
                slope: (stage.to - stage.from) / length_s,
            });
            (start_s, start_count) = (start_s + length_s, end_count);
        }
        // A start exactly at the end is left out; sums of fractions are not exact.
        let end = (start_count - 1e-6).ceil().max(0.0) as u64;
        Schedule {
            parts,
            part: 0,
            next: index as u64,
            step: threads as u64,
            end: limit.map_or(end, |limit| limit.min(end)),
        }
    }

    /// When the next request is due; `None`: there is none.
    pub(super) fn peek_ns(&mut self) -> Option<u64> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next as f64;
        while self.parts.get(self.part)?.end_count <= number {
            self.part += 1;
        }
        Some((self.parts.get(self.part)?.when_s(number) * 1e9) as u64)
    }

    /// Skips all requests that are due before this time.
    pub(super) fn skip_to(&mut self, at_ns: u64) {
        self.skip(self.due_before(at_ns));
    }

    /// Skips this many requests.
    pub(super) fn skip(&mut self, count: u64) {
        self.next += count * self.step;
    }

    /// How many of the next requests are due before this time.
    pub(super) fn due_before(&self, at_ns: u64) -> u64 {
        let is_before = |number: u64| self.when_ns(number).is_some_and(|it| it < at_ns);
        // Starts are in ascending order, so a binary search finds the first that is not before.
        let (mut skipped, mut left) = (0, self.end.saturating_sub(self.next).div_ceil(self.step));
        while left > 0 {
            let half = left / 2;
            match is_before(self.next + (skipped + half) * self.step) {
                true => (skipped, left) = (skipped + half + 1, left - half - 1),
                false => left = half,
            }
        }
        skipped
    }

    /// When start `number` is due, independent of the current position.
    fn when_ns(&self, number: u64) -> Option<u64> {
        let number = number as f64;
        let part = self.parts.iter().find(|it| it.end_count > number)?;
        Some((part.when_s(number) * 1e9) as u64)
    }

    /// Advances past the next request.
    pub(super) fn advance(&mut self) {
        self.next += self.step;
    }
}

impl Part {
    /// When start `number` is due: when the area below the rate reaches it.
    fn when_s(&self, number: f64) -> f64 {
        let count = number - self.start_count;
        let root = (self.rate * self.rate + 2.0 * self.slope * count)
            .max(0.0)
            .sqrt();
        match self.rate + root {
            0.0 => self.start_s,
            sum => self.start_s + 2.0 * count / sum,
        }
    }
}

/// The number of connections at a given time.
pub(super) fn connections_at(stages: &[Stage], elapsed: Duration) -> f64 {
    let mut rest_s = elapsed.as_secs_f64();
    for stage in stages {
        let length_s = stage.duration.as_secs_f64();
        if rest_s < length_s {
            return stage.from + (stage.to - stage.from) * rest_s / length_s;
        }
        rest_s -= length_s;
    }
    stages.last().map_or(0.0, |last| last.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(length_s: f64, from: f64, to: f64) -> Stage {
        Stage {
            duration: Duration::from_secs_f64(length_s),
            from,
            to,
        }
    }

    fn starts(stages: &[Stage], index: usize, threads: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(stages, index, threads, None);
        let mut found = Vec::new();
        while let Some(at_ns) = schedule.peek_ns() {
            found.push(at_ns);
            schedule.advance();
        }
        found
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let expected: Vec<u64> = (0..30).map(|it| it * 100_000_000).collect();
        let found = starts(&[stage(3.0, 10.0, 10.0)], 0, 1);
        assert_eq!(found.len(), 30);
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|it| it.0.abs_diff(*it.1) < 2)
        );
    }

    #[test]
    fn threads_share_the_same_starts() {
        let stages = [
            stage(1.0, 0.0, 500.0),
            stage(1.0, 500.0, 500.0),
            stage(0.5, 500.0, 0.0),
        ];
        let mut shared: Vec<u64> = (0..3).flat_map(|it| starts(&stages, it, 3)).collect();
        shared.sort_unstable();
        assert_eq!(shared, starts(&stages, 0, 1));
        assert_eq!(shared.len(), 250 + 500 + 125);
    }

    #[test]
    fn a_ramp_reaches_half_of_its_starts_late() {
        let found = starts(&[stage(10.0, 0.0, 100.0)], 0, 1);
        assert_eq!(found.len(), 500);
        // The area below a rising line: half of it is after the root of one half.
        let half_s = found[250] as f64 / 1e9;
        assert!((half_s - 10.0 * 0.5f64.sqrt()).abs() < 0.01, "{half_s}");
        assert!(found.windows(2).all(|it| it[0] < it[1]));
    }

    #[test]
    fn a_pause_has_no_starts() {
        let found = starts(
            &[
                stage(1.0, 10.0, 10.0),
                stage(1.0, 0.0, 0.0),
                stage(1.0, 10.0, 10.0),
            ],
            0,
            1,
        );
        assert_eq!(found.len(), 20);
        assert_eq!((found[9] / 1_000_000, found[10] / 1_000_000), (900, 2000));
    }

    #[test]
    fn what_is_skipped_is_what_would_have_been_passed() {
        let stages = [
            stage(1.0, 0.0, 500.0),
            stage(0.5, 0.0, 0.0),
            stage(1.0, 500.0, 200.0),
        ];
        for (index, at_ns) in [
            (0, 0),
            (1, 1),
            (2, 700_000_000),
            (0, 1_600_000_000),
            (1, 9e9 as u64),
        ] {
            let all = starts(&stages, index, 3);
            let before = all.iter().filter(|it| **it < at_ns).count();
            let mut schedule = Schedule::new(&stages, index, 3, None);
            assert_eq!(schedule.due_before(at_ns), before as u64);
            schedule.skip_to(at_ns);
            assert_eq!(schedule.peek_ns(), all.get(before).copied());
            assert_eq!(schedule.due_before(at_ns), 0);
        }
    }

    #[test]
    fn a_limit_ends_it() {
        let mut schedule = Schedule::new(&[stage(1.0, 1000.0, 1000.0)], 1, 2, Some(4));
        schedule.advance();
        assert!(schedule.peek_ns().is_some());
        schedule.advance();
        assert_eq!(schedule.peek_ns(), None);
    }

    #[test]
    fn connections_ramp_and_stay() {
        let stages = [stage(2.0, 0.0, 10.0), stage(1.0, 10.0, 4.0)];
        let at = |seconds| connections_at(&stages, Duration::from_secs_f64(seconds));
        assert_eq!((at(0.0), at(1.0), at(2.5), at(9.0)), (0.0, 5.0, 7.0, 4.0));
    }
}
