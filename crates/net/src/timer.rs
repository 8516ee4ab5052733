//! Deadlines: a hashed timer wheel with coarse ticks.
//!
//! An owner keeps its true deadline and sets a *reminder* here. When the reminder fires, the owner compares both, and acts or sets another
//! reminder. So a deadline that moves with every request (keep-alive) costs nothing until its old reminder fires, once per timeout.

/// The resolution of a deadline in milliseconds: a timeout may fire up to one tick late, never early.
pub const TICK_MS: u64 = 128;

const SLOTS: usize = 512;

/// Reminders, each represented by a key of its owner.
pub struct TimerWheel {
    slots: Vec<Vec<(u64, u32)>>,
    /// The first tick that has not fired yet.
    next_tick: u64,
    count: usize,
    /// No earlier slot holds a reminder, so that a wait need not look through them.
    nearest_tick: u64,
}

impl TimerWheel {
    /// An empty wheel that starts at `now_ms`.
    pub fn new(now_ms: u64) -> TimerWheel {
        TimerWheel {
            slots: vec![Vec::new(); SLOTS],
            next_tick: now_ms / TICK_MS,
            count: 0,
            nearest_tick: u64::MAX,
        }
    }

    /// Sets a reminder with `key` at the first tick that is not before `at_ms`. A key may have several.
    ///
    /// Cost: a push; allocates only while the wheel grows.
    pub fn remind(&mut self, key: u32, at_ms: u64) {
        let tick = at_ms.div_ceil(TICK_MS).max(self.next_tick);
        if let Some(slot) = self.slots.get_mut(tick as usize % SLOTS) {
            slot.push((tick, key));
            self.count += 1;
            self.nearest_tick = self.nearest_tick.min(tick);
        }
    }

    /// How long a wait may last before a reminder can be due; `None` when there is none.
    ///
    /// If the nearest reminder belongs to a later turn of the wheel, this is too short, which costs one idle pass.
    pub fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        let at_ms = self.nearest_tick.saturating_mul(TICK_MS);
        (self.count > 0).then(|| at_ms.saturating_sub(now_ms))
    }

    /// The tick of the first slot that holds a reminder.
    fn find_nearest(&self) -> u64 {
        let ahead = (0..SLOTS as u64).find(|ahead| {
            let slot = self.slots.get((self.next_tick + ahead) as usize % SLOTS);
            slot.is_some_and(|slot| !slot.is_empty())
        });
        ahead.map_or(u64::MAX, |ahead| self.next_tick + ahead)
    }

    /// Whether a tick has passed since the last [`TimerWheel::expire`]: a cheap check for every pass.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.count > 0 && now_ms / TICK_MS >= self.next_tick
    }

    /// Moves every key that is due at `now_ms` to `due`.
    pub fn expire(&mut self, now_ms: u64, due: &mut Vec<u32>) {
        let last = now_ms / TICK_MS;
        let passed = (last + 1).saturating_sub(self.next_tick).min(SLOTS as u64);
        for tick in (last + 1 - passed)..=last {
            if let Some(slot) = self.slots.get_mut(tick as usize % SLOTS) {
                let before = slot.len();
                slot.retain(|&(at, key)| {
                    if at <= last {
                        due.push(key);
                    }
                    at > last
                });
                self.count -= before - slot.len();
                if slot.is_empty() && slot.capacity() > 64 {
                    *slot = Vec::new();
                }
            }
        }
        self.next_tick = self.next_tick.max(last + 1);
        self.nearest_tick = self.find_nearest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(wheel: &mut TimerWheel, now_ms: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.expire(now_ms, &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn a_reminder_fires_not_before_its_time_and_at_most_a_tick_late() {
        let start = 1_000_003;
        for delay in [0, 1, 127, 128, 1000, 65_535, 65_536, 200_000] {
            let mut wheel = TimerWheel::new(start);
            wheel.remind(7, start + delay);
            if delay > 0 {
                assert_eq!(fired(&mut wheel, start + delay - 1), [], "{delay}");
            }
            assert_eq!(fired(&mut wheel, start + delay + TICK_MS), [7], "{delay}");
            assert_eq!(wheel.wait_ms(start), None);
        }
    }

    #[test]
    fn the_wait_leads_to_the_nearest_reminder() {
        let mut wheel = TimerWheel::new(0);
        wheel.remind(1, 75_000);
        wheel.remind(2, 10_000);
        let mut now = 0;
        let mut seen = Vec::new();
        let mut passes = 0;
        while let Some(wait) = wheel.wait_ms(now) {
            now += wait;
            wheel.expire(now, &mut seen);
            passes += 1;
        }
        assert_eq!(seen, [2, 1]);
        assert!((75_000..75_000 + TICK_MS).contains(&now), "{now}");
        assert!(passes <= 3, "{passes} passes");
    }

    #[test]
    fn a_long_pause_fires_everything_once() {
        let mut wheel = TimerWheel::new(0);
        for key in 0..1000 {
            wheel.remind(key, u64::from(key) * 50);
        }
        let all: Vec<u32> = (0..1000).collect();
        assert_eq!(fired(&mut wheel, 10_000_000), all);
        assert_eq!(fired(&mut wheel, 20_000_000), []);
    }
}
