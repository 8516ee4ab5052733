//! Token buckets that processes share: how often something may happen for each of many keys.
//!
//! A bucket is one number, the time at which it is full again (the generic cell rate algorithm, ITU-T I.371): taking a token adds the time in
//! which one is refilled. So it needs no lock, and one that is full needs no memory: its place may be used for another key.
//!
//! The table has a fixed size. A key has eight places. If others use all of them, it gets the place of the bucket that will be full
//! first, which loses least. The hash is keyed, so nobody can choose keys that share their places.

use std::hash::{BuildHasher, Hash, RandomState};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use crate::shared::{Bucket, shared};

/// Places of the table: 1 MiB.
const PLACES: usize = 65_536;
/// Places among which a key may have one.
const WAYS: usize = 8;

/// The time of one process may be so much earlier than that of another one, which has taken a token.
const SKEW_NS: u64 = 1_000_000_000;

static OF_PROCESS: OnceLock<Rates> = OnceLock::new();

/// How fast a bucket is refilled, and how many tokens it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refill {
    /// Time in which one token is refilled.
    pub token_ns: u64,
    /// Tokens of a full bucket; at least 1.
    pub tokens: u64,
}

/// The buckets.
pub struct Rates {
    places: &'static [Bucket],
    hasher: RandomState,
}

impl Rates {
    /// Buckets that are all full, shared with processes that are forked later.
    ///
    /// # Errors
    /// If the process or the system has no memory left.
    pub fn new() -> io::Result<Rates> {
        Rates::with_places(PLACES)
    }

    fn with_places(places: usize) -> io::Result<Rates> {
        Ok(Rates {
            places: shared(places.next_multiple_of(WAYS))?,
            hasher: RandomState::new(),
        })
    }

    /// The buckets of this process and of those that it forks after its first call.
    ///
    /// # Errors
    /// As [`Rates::new`]. The next call tries again.
    pub fn of_process() -> io::Result<&'static Rates> {
        match OF_PROCESS.get() {
            Some(rates) => Ok(rates),
            None => {
                let rates = Rates::new()?;
                Ok(OF_PROCESS.get_or_init(|| rates))
            }
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The time until there is one, in nanoseconds.
    pub fn take(&self, key: impl Hash, now_ns: u64, refill: Refill) -> Result<(), u64> {
        // 0 is a place that was never used.
        let key = self.hasher.hash_one(key).max(1);
        let first = (key as usize % (self.places.len() / WAYS)) * WAYS;
        let ways = self.places.get(first..first + WAYS).unwrap_or_default();
        if let Some(bucket) = ways.iter().find(|it| it.key.load(Relaxed) == key) {
            return take_from(bucket, now_ns, refill);
        }
        let Some(victim) = ways.iter().min_by_key(|it| it.full_at_ns.load(Relaxed)) else {
            return Ok(());
        };
        // Another process may take the place at the same time: then both count there, or one of them begins anew.
        victim.key.store(key, Relaxed);
        victim
            .full_at_ns
            .store(now_ns.saturating_add(refill.token_ns), Relaxed);
        Ok(())
    }
}

fn take_from(bucket: &Bucket, now_ns: u64, refill: Refill) -> Result<(), u64> {
    let spare_ns = refill
        .token_ns
        .saturating_mul(refill.tokens.saturating_sub(1));
    let empty_at_ns = now_ns.saturating_add(spare_ns.saturating_add(refill.token_ns));
    let full_at_ns = &bucket.full_at_ns;
    let mut seen_ns = full_at_ns.load(Relaxed);
    loop {
        if seen_ns > empty_at_ns.saturating_add(SKEW_NS) {
            // It lacks no more tokens than it has: another limit applied before.
            match full_at_ns.compare_exchange_weak(seen_ns, empty_at_ns, Relaxed, Relaxed) {
                Ok(_) => seen_ns = empty_at_ns,
                Err(other_ns) => seen_ns = other_ns,
            }
            continue;
        }
        let due_ns = seen_ns.max(now_ns);
        let missing_ns = (due_ns - now_ns).saturating_sub(spare_ns);
        if missing_ns > 0 {
            return Err(missing_ns);
        }
        let next_ns = due_ns.saturating_add(refill.token_ns);
        match full_at_ns.compare_exchange_weak(seen_ns, next_ns, Relaxed, Relaxed) {
            Ok(_) => return Ok(()),
            Err(other_ns) => seen_ns = other_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn refill(token_ms: u64, tokens: u64) -> Refill {
        Refill {
            token_ns: token_ms * MS,
            tokens,
        }
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let rates = Rates::with_places(64).unwrap();
        let refill = refill(100, 3);
        for _ in 0..3 {
            assert_eq!(rates.take("a", 1000 * MS, refill), Ok(()));
        }
        assert_eq!(rates.take("a", 1000 * MS, refill), Err(100 * MS));
        assert_eq!(rates.take("a", 1040 * MS, refill), Err(60 * MS));
        assert_eq!(rates.take("b", 1040 * MS, refill), Ok(()));
        assert_eq!(rates.take("a", 1100 * MS, refill), Ok(()));
        assert_eq!(rates.take("a", 1100 * MS, refill), Err(100 * MS));
        // Never more than a full bucket.
        for _ in 0..3 {
            assert_eq!(rates.take("a", 60_000 * MS, refill), Ok(()));
        }
        assert!(rates.take("a", 60_000 * MS, refill).is_err());
    }

    #[test]
    fn a_bucket_of_another_limit_lacks_no_more_than_one_of_this_limit_can() {
        let rates = Rates::with_places(1).unwrap();
        let slow = refill(1000, 600);
        while rates.take("a", MS, slow).is_ok() {}
        let fast = refill(10, 100);
        assert_eq!(rates.take("a", MS, fast), Err(10 * MS));
        assert_eq!(rates.take("a", 11 * MS, fast), Ok(()));
        assert_eq!(rates.take("a", 11 * MS, fast), Err(10 * MS));
    }

    #[test]
    fn the_number_admitted_never_exceeds_burst_and_rate() {
        // A linear congruential generator: any schedule will do.
        let mut random = 1u64;
        for tokens in 1..20 {
            let rates = Rates::with_places(8).unwrap();
            let refill = refill(10, tokens);
            let (mut now_ns, mut admitted) = (0, 0);
            for _ in 0..2000 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                now_ns += (random >> 33) % (15 * MS);
                admitted += u64::from(rates.take(1, now_ns, refill).is_ok());
                assert!(admitted <= tokens + now_ns / refill.token_ns);
            }
            // Most of it was asked for and admitted.
            assert!(admitted > 1000, "{tokens}: {admitted}");
        }
    }

    #[test]
    fn a_full_table_forgets_the_bucket_that_is_full_first() {
        let rates = Rates::with_places(WAYS).unwrap();
        let refill = refill(1000, 1);
        for key in 0..WAYS as u64 {
            assert_eq!(rates.take(key, key * MS, refill), Ok(()));
        }
        // One more address gets the place of the first; the others are still limited.
        assert_eq!(rates.take(99, 10 * MS, refill), Ok(()));
        for key in 1..WAYS as u64 {
            assert!(rates.take(key, 10 * MS, refill).is_err(), "{key}");
        }
    }
}
