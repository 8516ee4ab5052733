//! What one thread counts during a run.

use std::collections::{BTreeMap, VecDeque};

use crate::Histogram;

use super::channel::WebSocketReport;
use super::checker::{Facts, Verdict};
use super::connection::Stamp;
use super::error::{ErrorClass, Errors};
use super::tls::TlsCounts;

/// Statuses have three digits.
const STATUSES: usize = 1000;

/// How verdicts are counted.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Latency counts from the intended start.
    pub(super) is_open_loop: bool,
    pub(super) deadline_ns: u64,
}

/// Counts of one thread, for the measured time unless stated otherwise.
pub(super) struct Tally {
    rules: Rules,
    /// When the measured time starts; the greatest value until that is known, and when it is over.
    pub(super) start_ns: u64,
    /// When it ends; the greatest value until that is known, and if a number of requests ends it.
    pub(super) end_ns: u64,
    is_over: bool,
    pub(super) ok: u64,
    /// Open loop: correct responses that arrived in the measured time, also those to requests that were due before it.
    pub(super) in_time: u64,
    /// Open loop: correct responses that arrived after it, to requests that were due in it.
    pub(super) drained: u64,
    pub(super) errors: Errors,
    /// Correct responses before the measured time or, in an open loop, to requests that were due before it.
    pub(super) warm_up_ok: u64,
    pub(super) warm_up_failed: u64,
    pub(super) bytes: u64,
    /// For the whole run.
    pub(super) run_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) head_bytes: u64,
    pub(super) statuses: Vec<u64>,
    /// For the whole run.
    pub(super) requests_sent: u64,
    /// For the whole run.
    pub(super) requeued: u64,
    /// Closed loop: requests that got a response, or failed, after the measured time, and for how long they had been sent when it was over.
    pub(super) unfinished_ns: Histogram,
    /// Latencies that were not passed on yet.
    pub(super) recent_ns: Histogram,
    /// Latencies of `drained`, which are in no second.
    pub(super) drained_ns: Histogram,
    pub(super) uncorrected_ns: Histogram,
    pub(super) lag_ns: Histogram,
    /// For the whole run.
    pub(super) connect_ns: Histogram,
    /// For the whole run.
    pub(super) connect_failures: BTreeMap<String, u64>,
    /// HTTP/2: connections on which the server's settings arrived, for the whole run.
    pub(super) settings_received: u64,
    pub(super) tls: TlsCounts,
    /// For the whole run.
    pub(super) websocket: WebSocketReport,
}

impl Tally {
    pub(super) fn new(rules: Rules) -> Tally {
        Tally {
            rules,
            start_ns: u64::MAX,
            end_ns: u64::MAX,
            is_over: false,
            ok: 0,
            in_time: 0,
            drained: 0,
            errors: Errors::default(),
            warm_up_ok: 0,
            warm_up_failed: 0,
            bytes: 0,
            run_bytes: 0,
            content_bytes: 0,
            head_bytes: 0,
            statuses: vec![0; STATUSES],
            requests_sent: 0,
            requeued: 0,
            unfinished_ns: Histogram::new(),
            recent_ns: Histogram::new(),
            drained_ns: Histogram::new(),
            uncorrected_ns: Histogram::new(),
            lag_ns: Histogram::new(),
            connect_ns: Histogram::new(),
            connect_failures: BTreeMap::new(),
            settings_received: 0,
            tls: TlsCounts::default(),
            websocket: WebSocketReport::default(),
        }
    }

    /// Records a verdict about the oldest outstanding requests. Returns how many of them were counted as correct.
    #[inline]
    pub(super) fn record(
        &mut self,
        stamps: &mut VecDeque<Stamp>,
        verdict: &Verdict,
        now_ns: u64,
    ) -> u64 {
        let ok_before = self.ok;
        let mut rest = verdict.count;
        while rest > 0 {
            let Some(stamp) = stamps.front_mut() else {
                break;
            };
            let count = rest.min(stamp.count);
            let left = *stamp;
            rest -= count;
            stamp.count -= count;
            stamp.position += count;
            if stamp.count == 0 {
                stamps.pop_front();
            }
            self.record_equal(&left, count, verdict, now_ns);
        }
        self.ok - ok_before
    }

    /// Records a verdict about one request, which `stamp` is. Returns whether it was counted as correct.
    #[inline]
    pub(super) fn record_one(&mut self, stamp: &Stamp, verdict: &Verdict, now_ns: u64) -> bool {
        let ok_before = self.ok;
        self.record_equal(stamp, 1, verdict, now_ns);
        self.ok > ok_before
    }

    #[inline]
    fn record_equal(&mut self, stamp: &Stamp, count: u32, verdict: &Verdict, now_ns: u64) {
        let count = u64::from(count);
        let uncorrected_ns = now_ns.saturating_sub(stamp.sent_ns);
        let latency_ns = match self.rules.is_open_loop {
            true => now_ns.saturating_sub(stamp.intended_ns),
            false => now_ns.saturating_sub(stamp.since_ns()),
        };
        if !self.is_measured(stamp, now_ns) {
            match verdict.error {
                _ if self.is_over => {}
                _ if self.is_too_late(now_ns) => self.note_unfinished(stamp, count),
                Some(_) => self.warm_up_failed += count,
                None => self.note_warm_up(count, latency_ns, now_ns),
            }
            return;
        }
        self.note(&verdict.facts, count);
        if let Some(error) = verdict.error {
            self.errors.add(error, count);
        } else if latency_ns > self.rules.deadline_ns {
            self.errors.add(ErrorClass::Late, count);
        } else {
            self.ok += count;
            let is_drained = self.rules.is_open_loop && now_ns > self.end_ns;
            let latencies_ns = match is_drained {
                true => &mut self.drained_ns,
                false => &mut self.recent_ns,
            };
            latencies_ns.record(latency_ns, count);
            if self.rules.is_open_loop {
                self.uncorrected_ns.record(uncorrected_ns, count);
                match is_drained {
                    true => self.drained += count,
                    false => self.in_time += count,
                }
            }
        }
    }

    /// Counts correct responses that are not measured; in an open loop, those that arrive in the measured time are in its rate.
    fn note_warm_up(&mut self, count: u64, latency_ns: u64, now_ns: u64) {
        self.warm_up_ok += count;
        let is_in_time = (self.start_ns..=self.end_ns).contains(&now_ns);
        if is_in_time && latency_ns <= self.rules.deadline_ns {
            self.in_time += count;
        }
    }

    /// Correct responses that arrived in the measured time.
    pub(super) fn arrived(&self) -> u64 {
        match self.rules.is_open_loop {
            true => self.in_time,
            false => self.ok,
        }
    }

    #[inline]
    fn note(&mut self, facts: &Facts, count: u64) {
        self.content_bytes += facts.content_bytes * count;
        self.head_bytes += facts.head_bytes * count;
        if let Some(total) = self.statuses.get_mut(usize::from(facts.status)) {
            *total += count;
        }
    }

    /// In an open loop the intended start decides, otherwise the end.
    #[inline]
    fn is_measured(&self, stamp: &Stamp, now_ns: u64) -> bool {
        match self.rules.is_open_loop {
            true => stamp.intended_ns >= self.start_ns,
            false => (self.start_ns..=self.end_ns).contains(&now_ns),
        }
    }

    /// Closed loop: the measured time is over. In an open loop, responses are still waited for then.
    #[inline]
    pub(super) fn is_too_late(&self, now_ns: u64) -> bool {
        !self.rules.is_open_loop && now_ns > self.end_ns
    }

    #[cold]
    fn note_unfinished(&mut self, stamp: &Stamp, count: u64) {
        let age_ns = self.end_ns.saturating_sub(stamp.since_ns());
        self.unfinished_ns.record(age_ns, count);
    }

    /// Counts requests that get no response as failed in this way.
    #[cold]
    pub(super) fn fail<'a>(
        &mut self,
        stamps: impl IntoIterator<Item = &'a Stamp>,
        class: ErrorClass,
        now_ns: u64,
    ) {
        if self.is_over {
            return;
        }
        for stamp in stamps {
            let count = u64::from(stamp.count);
            match self.is_measured(stamp, now_ns) {
                true => self.errors.add(class, count),
                false if !self.is_too_late(now_ns) => self.warm_up_failed += count,
                false if stamp.sent_ns > 0 => self.note_unfinished(stamp, count),
                false => {}
            }
        }
    }

    /// Counts a connection that could not be opened because of this.
    #[cold]
    pub(super) fn note_connect_failure(&mut self, cause: String) {
        if !self.is_over {
            *self.connect_failures.entry(cause).or_insert(0) += 1;
        }
    }

    /// The load is over: from now on responses are only invalidated.
    pub(super) fn end(&mut self) {
        self.start_ns = u64::MAX;
        self.is_over = true;
    }

    /// Unexpected bytes followed the responses of a connection, of which `served` were counted as correct: any of them may be the response
    /// to another request, so all count as failed. Their latencies stay in the distribution.
    #[cold]
    pub(super) fn invalidate(&mut self, served: u64, now_ns: u64) {
        if served > 0 {
            self.ok = self.ok.saturating_sub(served);
            self.in_time = self.in_time.saturating_sub(served);
            self.drained = self.drained.min(self.ok);
            self.errors.add(ErrorClass::UnexpectedBytes, served);
        } else if now_ns >= self.start_ns {
            self.errors.add(ErrorClass::UnexpectedBytes, 1);
        } else if !self.is_over {
            self.warm_up_failed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_after_the_time_of_a_closed_loop_is_unfinished() {
        let mut tally = Tally::new(Rules {
            is_open_loop: false,
            deadline_ns: u64::MAX,
        });
        (tally.start_ns, tally.end_ns) = (1_000, 2_000);
        let stamp = Stamp {
            sent_ns: 1_900,
            ..Stamp::ONE
        };
        let verdict = Verdict {
            consumed: 0,
            count: 1,
            error: None,
            closes: false,
            facts: Facts::default(),
        };
        for (now_ns, is_counted) in [(999, false), (1_000, true), (2_000, true), (2_001, false)] {
            assert_eq!(tally.record_one(&stamp, &verdict, now_ns), is_counted);
        }
        tally.fail([&stamp, &Stamp::ONE], ErrorClass::Timeout, 2_001);
        assert_eq!((tally.ok, tally.errors.total()), (2, 0));
        assert_eq!((tally.warm_up_ok, tally.warm_up_failed), (1, 0));
        let ages_ns = &tally.unfinished_ns;
        assert_eq!(
            (ages_ns.total(), ages_ns.min(), ages_ns.max()),
            (2, 100, 100)
        );
    }
}
