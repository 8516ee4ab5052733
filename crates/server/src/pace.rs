//! A minimum rate with a bounded credit, for incoming content and outgoing responses.
//!
//! A peer has a credit of time, which runs out while the server waits for it. Every byte that it moves adds the time that the byte takes at
//! the minimum rate, up to a bound. So a peer may pause, but not for longer than the bound, however fast it was before. A peer that stays
//! below the rate runs out of credit.

/// The rate, and how long a pause may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// 0: every byte restores the whole credit.
    pub(crate) bytes_per_s_min: u64,
    pub(crate) pause_ms_max: u64,
}

/// One peer's credit, in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    credit_us: u64,
    /// When the server started to wait for the peer, as far as the credit is accounted.
    runs: Option<u64>,
}

impl Pace {
    /// A credit in milliseconds that does not run yet.
    pub(crate) fn new(credit_ms: u64) -> Pace {
        Pace {
            credit_us: credit_ms.saturating_mul(1000),
            runs: None,
        }
    }

    /// The server waits for the peer.
    pub(crate) fn run(&mut self, now_ms: u64) {
        self.runs.get_or_insert(now_ms);
    }

    /// The server does not wait for the peer.
    pub(crate) fn pause(&mut self, now_ms: u64) {
        self.account(now_ms);
        self.runs = None;
    }

    /// The peer has moved `bytes`.
    pub(crate) fn earn(&mut self, bytes: u64, rule: Rule, now_ms: u64) {
        if bytes == 0 {
            return;
        }
        let most_us = rule.pause_ms_max.saturating_mul(1000);
        let earned_us = match rule.bytes_per_s_min {
            0 => most_us,
            rate => bytes.saturating_mul(1_000_000) / rate,
        };
        // Earned before it is spent: it is not known when the bytes moved.
        self.credit_us = self.credit_us.saturating_add(earned_us);
        self.account(now_ms);
        self.credit_us = self.credit_us.min(most_us.max(1));
    }

    /// The time between the two was not the peer's: a wait that started in it counts from its end.
    pub(crate) fn skip(&mut self, from_ms: u64, to_ms: u64) {
        self.runs = self.runs.map(|since_ms| match since_ms >= from_ms {
            true => since_ms.max(to_ms),
            false => since_ms,
        });
    }

    /// The peer could not move anything between the two: a wait lasts longer by as much as it includes of that.
    pub(crate) fn extend(&mut self, from_ms: u64, to_ms: u64) {
        self.runs = self
            .runs
            .map(|since_ms| since_ms + to_ms.saturating_sub(from_ms.max(since_ms)));
    }

    fn account(&mut self, now_ms: u64) {
        if let Some(since_ms) = &mut self.runs {
            let spent_ms = now_ms.saturating_sub(*since_ms);
            self.credit_us = self.credit_us.saturating_sub(spent_ms.saturating_mul(1000));
            *since_ms = now_ms;
        }
    }

    /// When the credit is used up if nothing moves and at most `credit_ms_max` of it counts; never, if the server does not wait for the
    /// peer.
    pub(crate) fn end_ms(&self, credit_ms_max: u64) -> u64 {
        let credit_ms = self.credit_us.div_ceil(1000).min(credit_ms_max);
        self.runs
            .map_or(u64::MAX, |since_ms| since_ms.saturating_add(credit_ms))
    }
}

/// For how long the server has waited for a peer.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Waits {
    ended_ms: u64,
    since_ms: Option<u64>,
}

impl Waits {
    /// The server waits from now on, or does not.
    pub(crate) fn change(&mut self, waits: bool, now_ms: u64) {
        match (waits, self.since_ms) {
            (true, None) => self.since_ms = Some(now_ms),
            (false, Some(since_ms)) => {
                self.ended_ms += now_ms.saturating_sub(since_ms);
                self.since_ms = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// All of it until now.
    pub(crate) fn sum_ms(&self, now_ms: u64) -> u64 {
        let running_ms = |since_ms| now_ms.saturating_sub(since_ms);
        self.ended_ms + self.since_ms.map_or(0, running_ms)
    }
}

/// Before that, a rate says nothing: a peer's first packets may take some round trips.
const RATE_AFTER_MS: u64 = 2000;

/// How many bytes per second arrived, if the server has waited for long enough to say that.
pub(crate) fn arrival_rate(bytes: u64, waited_ms: u64) -> Option<u64> {
    (waited_ms >= RATE_AFTER_MS).then(|| bytes.saturating_mul(1000) / waited_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        bytes_per_s_min: 100,
        pause_ms_max: 5000,
    };

    #[test]
    fn credit_is_earned_and_bounded() {
        let mut pace = Pace::new(2000);
        assert_eq!(pace.end_ms(u64::MAX), u64::MAX);
        pace.run(1000);
        assert_eq!(pace.end_ms(u64::MAX), 3000);
        pace.earn(100, RULE, 2000);
        assert_eq!(pace.end_ms(u64::MAX), 4000);
        pace.earn(1_000_000_000, RULE, 3000);
        assert_eq!(pace.end_ms(u64::MAX), 8000);
        assert_eq!(pace.end_ms(1500), 4500);
    }

    #[test]
    fn a_pause_costs_nothing() {
        let mut pace = Pace::new(2000);
        pace.run(1000);
        pace.pause(1500);
        assert_eq!(pace.end_ms(u64::MAX), u64::MAX);
        pace.run(9000);
        assert_eq!(pace.end_ms(u64::MAX), 10_500);
        pace.run(9500);
        assert_eq!(pace.end_ms(u64::MAX), 10_500);
    }

    #[test]
    fn time_in_which_nothing_could_move_is_added() {
        let mut pace = Pace::new(2000);
        pace.extend(0, 1000);
        assert_eq!(pace.end_ms(u64::MAX), u64::MAX);
        pace.run(1000);
        pace.extend(1500, 4500);
        assert_eq!(pace.end_ms(u64::MAX), 6000);
        pace.extend(0, 4500);
        assert_eq!(pace.end_ms(u64::MAX), 6500);
    }

    #[test]
    fn a_peer_at_the_rate_goes_on_and_one_below_it_ends() {
        for (bytes, goes_on) in [(10, true), (9, false)] {
            let mut pace = Pace::new(1000);
            pace.run(0);
            let now_ms = (100..=60_000).step_by(100).find(|&now_ms| {
                let is_over = pace.end_ms(u64::MAX) <= now_ms;
                pace.earn(bytes, RULE, now_ms);
                is_over
            });
            assert_eq!(now_ms.is_none(), goes_on, "{now_ms:?}");
        }
    }

    #[test]
    fn waits_are_added_and_rates_need_some_time() {
        let mut waits = Waits::default();
        waits.change(false, 500);
        waits.change(true, 1000);
        waits.change(true, 1500);
        assert_eq!(waits.sum_ms(2000), 1000);
        waits.change(false, 2000);
        assert_eq!(waits.sum_ms(9000), 1000);
        waits.change(true, 9000);
        assert_eq!(waits.sum_ms(10_000), 2000);
        assert_eq!(arrival_rate(4000, 1999), None);
        assert_eq!(arrival_rate(4000, 2000), Some(2000));
    }
}
