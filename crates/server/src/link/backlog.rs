//! Bytes that a socket did not accept, and how fast its peer takes what the socket holds.
//!
//! A socket accepts new bytes only when a third of its buffer is free, which may be megabytes. The peer's progress is therefore measured by
//! what its kernel acknowledges, checked several times within the longest allowed pause.

use net::memory::{self, NoMemory};

use crate::pace::Pace;
use crate::timeouts::Timeouts;

use super::Link;
use super::sending::Sending;

/// Time until the first check. Each interval is twice the previous one ...
const FIRST_CHECK_MS: u64 = 100;
/// ... until one longest pause contains this many checks. A stuck peer is detected at most a quarter of a pause late.
const CHECKS_PER_PAUSE: u64 = 4;
/// If the rest of a send buffer is longer than this, the buffer itself is kept instead of copying the rest.
const COPIED_BYTES_MAX: usize = 1 << 20;

pub(super) struct Backlog {
    bytes: Vec<u8>,
    /// How many of them have been sent.
    sent_bytes: usize,
    /// The peer's time; None if it is not limited.
    pace: Option<Pace>,
    checked_ms: u64,
    /// What the peer had acknowledged at the last check.
    acknowledged: i64,
    check_ms: u64,
    step_ms: u64,
}

impl Backlog {
    pub(super) fn new(acknowledged: i64, timeouts: &Timeouts, now_ms: u64) -> Backlog {
        let rule = timeouts.response_rule();
        let mut pace = rule.map(|rule| Pace::new(rule.pause_ms_max));
        if let Some(pace) = &mut pace {
            pace.run(now_ms);
        }
        let mut backlog = Backlog {
            bytes: Vec::new(),
            sent_bytes: 0,
            pace,
            checked_ms: now_ms,
            acknowledged,
            check_ms: u64::MAX,
            step_ms: FIRST_CHECK_MS,
        };
        backlog.plan_check(timeouts);
        backlog
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<Backlog>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent_bytes..).unwrap_or_default()
    }

    /// Appends bytes to send; `out` is empty then.
    ///
    /// # Errors
    /// If there is no memory for them. Nothing may be sent after them then.
    pub(super) fn push(&mut self, out: &mut Vec<u8>) -> Result<(), NoMemory> {
        if self.bytes.is_empty() && out.len() > COPIED_BYTES_MAX {
            self.bytes = std::mem::take(out);
            return Ok(());
        }
        memory::append(&mut self.bytes, out)?;
        out.clear();
        Ok(())
    }

    /// Keeps `out` without its first `sent_bytes`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, sent_bytes: usize) {
        let unsent = out.get(sent_bytes..).unwrap_or_default();
        if unsent.len() <= COPIED_BYTES_MAX
            && let Ok(copy) = memory::copy(unsent)
        {
            self.bytes = copy;
            self.sent_bytes = 0;
        } else {
            self.bytes = std::mem::take(out);
            self.sent_bytes = sent_bytes;
            self.release();
        }
    }

    /// `count` bytes have been sent. Returns true if those were all.
    pub(super) fn sent(&mut self, count: usize) -> bool {
        self.sent_bytes += count;
        if self.sent_bytes < self.bytes.len() {
            self.release();
            return false;
        }
        self.bytes = Vec::new();
        self.sent_bytes = 0;
        true
    }

    /// Frees memory once half of the bytes have been sent. At most twice the unsent bytes are held, and each byte is copied once or twice.
    /// If there is no memory for the copy, the buffer stays as it is.
    fn release(&mut self) {
        if self.sent_bytes * 2 >= self.bytes.len()
            && let Ok(copy) = memory::copy(self.unsent())
        {
            self.bytes = copy;
            self.sent_bytes = 0;
        }
    }

    /// See [`Pace::skip`].
    pub(super) fn skip(&mut self, from_ms: u64, to_ms: u64, timeouts: &Timeouts) {
        if let Some(pace) = &mut self.pace
            && self.checked_ms >= from_ms
        {
            pace.skip(from_ms, to_ms);
            self.checked_ms = to_ms;
            self.step_ms = FIRST_CHECK_MS;
            self.plan_check(timeouts);
        }
    }

    pub(super) fn check_ms(&self) -> u64 {
        self.check_ms
    }

    /// Records what the peer has acknowledged. Returns false if it has used up its time.
    pub(super) fn check(&mut self, acknowledged: i64, timeouts: &Timeouts, now_ms: u64) -> bool {
        let moved = acknowledged.saturating_sub(self.acknowledged).max(0) as u64;
        self.acknowledged = self.acknowledged.max(acknowledged);
        self.checked_ms = now_ms;
        if let (Some(pace), Some(rule)) = (&mut self.pace, timeouts.response_rule()) {
            pace.earn(moved, rule, now_ms);
        }
        self.plan_check(timeouts);
        self.pace.is_none_or(|pace| pace.end_ms(u64::MAX) > now_ms)
    }

    fn plan_check(&mut self, timeouts: &Timeouts) {
        let step_ms = (timeouts.write_timeout_ms / CHECKS_PER_PAUSE).clamp(1, self.step_ms);
        self.step_ms = step_ms.saturating_mul(2);
        let end_ms = self.pace.map_or(u64::MAX, |pace| pace.end_ms(u64::MAX));
        self.check_ms = match self.pace {
            Some(_) => end_ms.min(self.checked_ms.saturating_add(step_ms)),
            None => u64::MAX,
        };
    }
}

impl Link {
    /// How many bytes wait for the socket.
    pub(crate) fn unsent_bytes(&self) -> usize {
        match &self.sending {
            Sending::Full(backlog) => backlog.unsent().len(),
            Sending::Open | Sending::Arriving(_) | Sending::Lost => 0,
        }
    }
}
