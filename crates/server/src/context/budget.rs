//! How much memory the peers of one worker may make it hold, and what that means now.
//!
//! The sum is exact: after each turn a connection is charged what its buffers have allocated ([`crate::connection::Connection::account`]), so no
//! buffer can be forgotten on its way from one place to another.
//!
//! | pressure | from | until | content |
//! | --- | --- | --- | --- |
//! | `None` | | the high mark | is read |
//! | `High` | the high mark | the low mark | new requests get 503 unless they are short; of those that have started, what fits easily is read |
//! | `Over` | the budget | the high mark, or less | the same, and holders end ([`crate::reactor`]) |
//!
//! The budget holds because of one invariant: while there is pressure, whatever can grow can also be ended, or is not admitted.
//!
//! | held | grows under pressure | is ended ([`Holder`]) |
//! | --- | --- | --- |
//! | parts of requests and messages, requests that wait, responses that the peer does not read | yes | first |
//! | what a running handler has not asked for, responses that wait for an earlier one | yes | then, if the budget is exceeded |
//! | sessions and tables of an idle connection | yes | last |
//! | requests on which handlers work, with their content | as [`Budget::admits_request`] allows | never |
//!
//! So what handlers work on can exceed the budget by [`HOLDER_BYTES_MIN`] for each connection, besides its tables and its TLS session. A usual
//! request is served whatever the pressure is.

/// The high mark: this much of the budget, in sixteenths.
const HIGH_SIXTEENTHS: u64 = 13;
/// The low mark. Lower, so that what was held back is not held back again at once.
const LOW_SIXTEENTHS: u64 = 11;
/// Content is read under pressure if the rest of it takes at most one of so many parts of what is left: several are read at the same time. Each
/// check that finds pressure halves it, so that one can finish at last.
const PARTS_LEFT: u64 = 4;
/// A request begins under pressure if it takes at most one of so many parts of what is left: many may start at the same time.
const NEW_PARTS_LEFT: u64 = 64;
/// How long pressure may last before holders end, although the budget is not exceeded. Pressure that returns within this time after holders had
/// to end is the same: what their peers have in flight fills the budget again at once.
const PATIENCE_MS: u64 = 5000;
/// How often is checked under pressure what may continue, and what ends.
const CHECK_MS: u64 = 250;
/// How long ends are not tried again after none was possible.
const REST_MS: u64 = 50;
/// A connection that holds less is not worth looking at when it began to. As much may always be held for the requests that run on one: a few
/// usual ones, or one with very many cookies.
pub(crate) const HOLDER_BYTES_MIN: usize = 16 * 1024;

/// The content of a 503 for a request that the budget does not allow.
pub(crate) const BUDGET: &str =
    "The server holds as much as it may for its clients; try again shortly.";

/// How near the budget is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pressure {
    None,
    High,
    Over,
}

/// What a worker does at a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relief {
    /// It is too early for one.
    None,
    /// What was held back may continue, as far as it is admitted.
    Release,
    /// Holders end until so many bytes are held, then the same.
    End {
        until_bytes: u64,
        /// The budget is exceeded: even those end of which a handler takes what they make the server hold.
        is_exceeded: bool,
    },
}

/// Why a connection holds memory that its end would free. Those that are greater end first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Holder {
    /// It waits for a request.
    Idle,
    /// A handler that runs has not taken what has arrived, or is slower than those after it.
    Handler,
    /// Its peer has sent a part of something, or more than may start, or does not read.
    Peer,
}

/// How much is won by the end of a connection: the greatest ends first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Burden {
    pub(crate) holder: Holder,
    /// How much it holds, times how long; of an idle one only how long.
    pub(crate) weight: u64,
    pub(crate) bytes: u64,
}

/// Time of pressure.
#[derive(Clone, Copy, Debug)]
struct Spell {
    since_ms: u64,
    /// Holders had to end.
    is_forced: bool,
}

/// What all connections of a worker hold, and may hold.
#[derive(Debug)]
pub(crate) struct Budget {
    held_bytes: u64,
    /// The part of it that is of clients that have left: the application has not taken their messages.
    departed_bytes: u64,
    /// `u64::MAX` if there is none.
    bytes_max: u64,
    high_bytes: u64,
    low_bytes: u64,
    pressure: Pressure,
    /// Beyond this, the pressure is higher than is known.
    alarm_bytes: u64,
    /// The one that lasts.
    spell: Option<Spell>,
    /// When the last one in which holders had to end began, and when it was over.
    forced_ms: Option<(u64, u64)>,
    /// How long pressure may last.
    patience_ms: u64,
    check_ms: u64,
    parts_left: u64,
    /// Nothing could be ended: it is not tried again before.
    rests_until_ms: u64,
}

impl Budget {
    /// 0 is no budget.
    pub(crate) fn new(bytes_max: u64) -> Budget {
        let bytes_max = if bytes_max == 0 { u64::MAX } else { bytes_max };
        let sixteenths = |count| match bytes_max {
            u64::MAX => u64::MAX,
            bytes => (bytes / 16).saturating_mul(count),
        };
        let high_bytes = sixteenths(HIGH_SIXTEENTHS);
        Budget {
            held_bytes: 0,
            departed_bytes: 0,
            bytes_max,
            high_bytes,
            low_bytes: sixteenths(LOW_SIXTEENTHS),
            pressure: Pressure::None,
            alarm_bytes: high_bytes,
            spell: None,
            forced_ms: None,
            patience_ms: PATIENCE_MS,
            check_ms: 0,
            parts_left: PARTS_LEFT,
            rests_until_ms: 0,
        }
    }

    /// What all connections hold.
    #[inline]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// What they may hold; 0 for any amount.
    pub(crate) fn bytes_max(&self) -> u64 {
        match self.bytes_max {
            u64::MAX => 0,
            bytes => bytes,
        }
    }

    /// Charges a connection for `after` bytes instead of `before`. Returns whether the budget is exceeded now, and was not.
    #[inline]
    pub(crate) fn charge(&mut self, before: usize, after: usize) -> bool {
        self.held_bytes = self.held_bytes - before as u64 + after as u64;
        self.held_bytes > self.alarm_bytes && self.raise()
    }

    /// What is held for clients that have left. As [`Budget::charge`].
    #[inline]
    pub(crate) fn charge_departed(&mut self, bytes: u64) -> bool {
        bytes != self.departed_bytes && {
            let before = std::mem::replace(&mut self.departed_bytes, bytes);
            self.charge(before as usize, bytes as usize)
        }
    }

    #[cfg(debug_assertions)]
    pub(crate) fn departed_bytes(&self) -> u64 {
        self.departed_bytes
    }

    #[cold]
    fn raise(&mut self) -> bool {
        let is_over = self.held_bytes > self.bytes_max;
        (self.pressure, self.alarm_bytes) = match is_over {
            true => (Pressure::Over, u64::MAX),
            false => (Pressure::High, self.bytes_max),
        };
        is_over
    }

    /// Whether content is held back.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressure != Pressure::None
    }

    /// Whether so many bytes more may be read of something that has started.
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        match self.pressure {
            Pressure::None => true,
            _ => bytes <= self.left_bytes() / self.parts_left,
        }
    }

    /// Whether a request may begin that takes so many bytes until its response. `others_bytes` are held for requests of its connection
    /// that have begun.
    #[cold]
    pub(crate) fn admits_request(&self, bytes: u64, others_bytes: u64) -> bool {
        !self.is_pressed()
            || bytes <= self.left_bytes() / NEW_PARTS_LEFT
            || bytes.saturating_add(others_bytes) <= HOLDER_BYTES_MIN as u64
    }

    /// Whether so many bytes more do not exceed the budget.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        !self.is_pressed() || bytes as u64 <= self.left_bytes()
    }

    /// Whether there would be pressure with so many bytes more.
    pub(crate) fn is_near(&self, bytes: u64) -> bool {
        self.held_bytes.saturating_add(bytes) > self.high_bytes
    }

    /// The pressure is over when no more than this is held.
    pub(crate) fn low_bytes(&self) -> u64 {
        self.low_bytes
    }

    fn left_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.held_bytes)
    }

    /// The worker stops: who is waited for has no time any more.
    pub(crate) fn lose_patience(&mut self) {
        self.patience_ms = 0;
    }

    /// How long the next wait may last until a check is due.
    #[cold]
    pub(crate) fn wait_ms(&self, now_ms: u64) -> u64 {
        match (self.spell, self.pressure) {
            (None, _) => 0,
            (Some(_), Pressure::Over) => self.rests_until_ms.saturating_sub(now_ms),
            (Some(_), Pressure::None | Pressure::High) => self.check_ms.saturating_sub(now_ms),
        }
    }

    /// Nothing could be ended.
    pub(crate) fn rest(&mut self, now_ms: u64) {
        self.rests_until_ms = now_ms + REST_MS;
    }

    /// What is to be done now. Called while there is pressure.
    #[cold]
    pub(crate) fn check(&mut self, now_ms: u64) -> Relief {
        let spell = match self.spell {
            Some(spell) => spell,
            None => self.begin_spell(now_ms),
        };
        if self.held_bytes <= self.low_bytes {
            self.pressure = Pressure::None;
            self.alarm_bytes = self.high_bytes;
            self.spell = None;
            self.forced_ms = spell.is_forced.then_some((spell.since_ms, now_ms));
            self.parts_left = PARTS_LEFT;
            return Relief::Release;
        }
        let is_patient = now_ms.saturating_sub(spell.since_ms) < self.patience_ms;
        if self.pressure == Pressure::Over && now_ms >= self.rests_until_ms {
            // More than is necessary, so that this is not repeated at once; and all the way if it has been repeated for long.
            let until_bytes = match is_patient {
                true => self.high_bytes + (self.bytes_max - self.high_bytes) / 2,
                false => self.low_bytes,
            };
            (self.pressure, self.alarm_bytes) = (Pressure::High, self.bytes_max);
            return self.end(until_bytes, true);
        }
        if now_ms < self.check_ms {
            return Relief::None;
        }
        self.check_ms = now_ms + CHECK_MS;
        self.parts_left = (self.parts_left / 2).max(1);
        if is_patient {
            return Relief::Release;
        }
        let step_bytes = (self.high_bytes - self.low_bytes) / 4;
        let until_bytes = self.held_bytes.saturating_sub(step_bytes);
        self.end(until_bytes.max(self.low_bytes), false)
    }

    /// Pressure has begun, or returned.
    fn begin_spell(&mut self, now_ms: u64) -> Spell {
        self.check_ms = now_ms + CHECK_MS;
        let last = self.forced_ms.take();
        let is_same = |until_ms: u64| now_ms.saturating_sub(until_ms) < PATIENCE_MS;
        let spell = Spell {
            since_ms: match last {
                Some((since_ms, until_ms)) if is_same(until_ms) => since_ms,
                _ => now_ms,
            },
            is_forced: false,
        };
        self.spell = Some(spell);
        spell
    }

    fn end(&mut self, until_bytes: u64, is_exceeded: bool) -> Relief {
        if let Some(spell) = &mut self.spell {
            spell.is_forced = true;
        }
        Relief::End {
            until_bytes,
            is_exceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1000;

    /// A budget of 1600 bytes, whose marks are 1300 and 1100.
    fn holding(bytes: usize) -> Budget {
        let mut budget = Budget::new(1600);
        budget.charge(0, bytes);
        budget
    }

    fn end(until_bytes: u64) -> Relief {
        Relief::End {
            until_bytes,
            is_exceeded: false,
        }
    }

    fn end_exceeded(until_bytes: u64) -> Relief {
        Relief::End {
            until_bytes,
            is_exceeded: true,
        }
    }

    #[test]
    fn pressure_lasts_from_the_high_mark_to_the_low_one() {
        let mut budget = holding(1300);
        assert!(!budget.is_pressed());
        assert!(!budget.charge(0, 1));
        assert!(budget.is_pressed());
        budget.charge(200, 0);
        assert_eq!(budget.check(START_MS), Relief::None);
        assert!(budget.is_pressed());
        budget.charge(1, 0);
        assert_eq!(budget.check(START_MS), Relief::Release);
        assert!(!budget.is_pressed());
        assert_eq!(budget.held_bytes(), 1100);
    }

    #[test]
    fn what_fits_easily_is_admitted() {
        let budget = holding(1301);
        assert!(budget.admits((1600 - 1301) / 4));
        assert!(!budget.admits((1600 - 1301) / 4 + 1));
        assert!(!holding(1700).admits(1));
        let mut later = holding(1301);
        let checks_ms = [0, CHECK_MS, 2 * CHECK_MS];
        for ms in checks_ms {
            later.check(START_MS + ms);
        }
        assert!(later.admits(1600 - 1301) && !later.admits(1600 - 1300));
        assert!(holding(1300).admits(u64::MAX));
    }

    #[test]
    fn holders_end_when_the_budget_is_exceeded() {
        let mut budget = holding(1500);
        assert!(budget.charge(0, 101));
        // Known already.
        assert!(!budget.charge(0, 1000));
        assert_eq!(budget.wait_ms(START_MS), 0);
        assert_eq!(budget.check(START_MS), end_exceeded(1450));
        budget.charge(1101, 0);
        assert!(budget.charge(0, 101));
        assert_eq!(budget.check(START_MS), end_exceeded(1450));
        assert!(budget.charge(0, 1000));
        let late = end_exceeded(1100);
        assert_eq!(budget.check(START_MS + PATIENCE_MS), late);
    }

    #[test]
    fn holders_end_when_pressure_lasts() {
        let mut budget = holding(1400);
        assert_eq!(budget.wait_ms(START_MS), 0);
        assert_eq!(budget.check(START_MS), Relief::None);
        assert_eq!(budget.wait_ms(START_MS), CHECK_MS);
        assert_eq!(budget.check(START_MS + CHECK_MS), Relief::Release);
        let late_ms = START_MS + PATIENCE_MS;
        assert_eq!(budget.check(late_ms), end(1350));
        assert_eq!(budget.check(late_ms + CHECK_MS - 1), Relief::None);
        budget.charge(290, 0);
        assert_eq!(budget.check(late_ms + CHECK_MS), end(1100));
    }

    #[test]
    fn pressure_that_returns_after_holders_had_to_end_has_no_patience() {
        let mut budget = holding(1400);
        budget.check(START_MS);
        let late_ms = START_MS + PATIENCE_MS;
        assert_eq!(budget.check(late_ms), end(1350));
        budget.charge(300, 0);
        assert_eq!(budget.check(late_ms + 10), Relief::Release);
        budget.charge(0, 201);
        assert_eq!(budget.check(late_ms + 20), Relief::None);
        let next_ms = late_ms + 20 + CHECK_MS;
        assert_eq!(budget.check(next_ms), end(1251));
        // Everything continues for long enough.
        budget.charge(201, 0);
        assert_eq!(budget.check(next_ms + 10), Relief::Release);
        budget.charge(0, 201);
        let calm_ms = next_ms + 10 + PATIENCE_MS;
        budget.check(calm_ms);
        assert_eq!(budget.check(calm_ms + CHECK_MS), Relief::Release);
    }

    #[test]
    fn pressure_that_ends_by_itself_is_forgotten() {
        let mut budget = holding(1400);
        budget.check(START_MS);
        budget.charge(300, 0);
        assert_eq!(budget.check(START_MS + 4000), Relief::Release);
        budget.charge(0, 300);
        budget.check(START_MS + 4010);
        let next_ms = START_MS + PATIENCE_MS;
        assert_eq!(budget.check(next_ms), Relief::Release);
    }

    #[test]
    fn a_worker_that_stops_has_no_patience() {
        let mut budget = holding(1400);
        budget.lose_patience();
        budget.check(START_MS);
        assert_eq!(budget.check(START_MS + CHECK_MS), end(1350));
    }

    #[test]
    fn short_requests_are_admitted() {
        let admits = |held, bytes, others| holding(held).admits_request(bytes, others);
        let much = HOLDER_BYTES_MIN as u64;
        assert!(admits(1408, 3, much) && !admits(1408, 4, much));
        assert!(!admits(1408, u64::MAX, 0) && admits(1300, u64::MAX, much));
        // One connection may have a few when nothing is left.
        assert!(admits(1600, much, 0) && !admits(1600, much + 1, 0));
        assert!(admits(9999, 1, much - 1) && !admits(9999, 2, much - 1));
    }

    #[test]
    fn what_arrives_fits_or_exceeds_the_budget() {
        assert!(holding(1500).has_room(100) && !holding(1500).has_room(101));
        assert!(holding(1300).has_room(usize::MAX));
        assert!(!holding(1200).is_near(100) && holding(1200).is_near(101));
    }

    #[test]
    fn idle_connections_end_last_and_the_heaviest_of_their_kind_first() {
        let burden = |holder, weight| Burden {
            holder,
            weight,
            bytes: 1,
        };
        let idle = burden(Holder::Idle, u64::MAX);
        assert!(idle < burden(Holder::Handler, 1));
        assert!(burden(Holder::Handler, u64::MAX) < burden(Holder::Peer, 1));
        assert!(burden(Holder::Peer, 1) < burden(Holder::Peer, 2));
    }

    #[test]
    fn what_is_held_for_clients_that_have_left_counts() {
        let mut budget = holding(1000);
        assert!(!budget.charge_departed(301));
        assert!(budget.is_pressed());
        assert!(budget.charge_departed(601));
        assert!(!budget.charge_departed(601));
        budget.charge_departed(0);
        assert_eq!(budget.held_bytes(), 1000);
        assert_eq!(budget.check(START_MS), Relief::Release);
    }

    #[test]
    fn without_a_budget_nothing_is_held_back() {
        let mut budget = Budget::new(0);
        assert!(!budget.charge(0, usize::MAX / 2));
        assert!(!budget.is_pressed() && budget.admits(u64::MAX));
        assert!(!budget.is_near(u64::MAX));
        assert_eq!(budget.bytes_max(), 0);
    }
}
