//! Flow control (RFC 9113 5.2, 6.9): how much content either side may send.

use super::frame::STREAM_MAX;

const WINDOW_MAX: i64 = STREAM_MAX as i64;

/// How much may be sent. A change of settings can make it negative (RFC 9113 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWindow(i64);

/// A window became larger than allowed: FLOW_CONTROL_ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowOverflow;

impl SendWindow {
    /// A window of `bytes`.
    pub fn new(bytes: u32) -> SendWindow {
        SendWindow(i64::from(bytes))
    }

    /// How many bytes may be sent now.
    #[inline]
    pub fn available(self) -> usize {
        self.0.max(0) as usize
    }

    /// `bytes`, at most as many as are available, were sent.
    #[inline]
    pub fn use_up(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// The peer gave more room, or its settings changed the initial window by `bytes`.
    ///
    /// # Errors
    /// If it is larger than 2^31-1 then.
    #[inline]
    pub fn change(&mut self, bytes: i64) -> Result<(), WindowOverflow> {
        self.0 += bytes;
        match self.0 > WINDOW_MAX {
            true => Err(WindowOverflow),
            false => Ok(()),
        }
    }
}

/// How much the peer may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveWindow {
    /// What the peer may still send.
    available: u32,
    /// What was taken and not given back yet.
    taken: u32,
    /// What was taken and is given back by [`ReceiveWindow::give`] only.
    withheld: u32,
    /// What was given and is held again: so much is not given when it is taken.
    owed: u32,
    /// The window when nothing is held.
    size: u32,
}

impl ReceiveWindow {
    /// A window of `size` bytes.
    pub fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow {
            available: size,
            taken: 0,
            withheld: 0,
            owed: 0,
            size,
        }
    }

    /// A window of `size` bytes of which `available` may be sent at first.
    pub fn granted(size: u32, available: u32) -> ReceiveWindow {
        ReceiveWindow {
            available,
            taken: 0,
            withheld: 0,
            owed: 0,
            size,
        }
    }

    /// The peer sent `bytes`. Returns false if it was not allowed to: FLOW_CONTROL_ERROR.
    #[inline]
    #[must_use]
    pub fn receive(&mut self, bytes: u32) -> bool {
        match self.available.checked_sub(bytes) {
            Some(left) => {
                self.available = left;
                true
            }
            None => false,
        }
    }

    /// The window becomes `size` bytes, if that is more. What it grows by is given with what is taken next.
    pub fn grow(&mut self, size: u32) {
        self.taken = self.taken.saturating_add(size.saturating_sub(self.size));
        self.size = self.size.max(size);
    }

    /// Whether the peer may send anything.
    pub fn is_open(&self) -> bool {
        self.available > 0
    }

    /// What the peer may send, now or with the next increment.
    pub fn promised(&self) -> u64 {
        u64::from(self.available) + u64::from(self.taken)
    }

    /// What was taken and is given back by [`ReceiveWindow::give`] only.
    pub fn withheld(&self) -> u64 {
        u64::from(self.withheld)
    }

    /// The window when nothing is held, in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.size)
    }

    /// `bytes` that arrived are not held any more. Returns the increment to send, once it is worth a frame: half of the window.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> Option<u32> {
        let owed = self.owed.min(bytes);
        self.owed -= owed;
        self.taken = self.taken.saturating_add(bytes - owed);
        if self.taken < self.size.div_ceil(2) {
            return None;
        }
        self.give_taken()
    }

    /// `bytes` that arrived are not held by the window any more, but the peer may not send more yet: see [`ReceiveWindow::give`].
    pub fn withhold(&mut self, bytes: u32) {
        self.withheld = self.withheld.saturating_add(bytes);
    }

    /// What was withheld is given with what is taken next.
    pub fn stop_withholding(&mut self) {
        self.taken = self
            .taken
            .saturating_add(std::mem::take(&mut self.withheld));
    }

    /// `bytes` that were taken are held again: they are taken once more later. What the peer may send already stays.
    pub fn take_back(&mut self, bytes: u32) {
        let (taken, given) = (self.taken.min(bytes), bytes.saturating_sub(self.taken));
        self.taken -= taken;
        self.owed = self.owed.saturating_add(given);
    }

    /// The increment for everything that was taken or withheld.
    pub fn give(&mut self) -> Option<u32> {
        self.stop_withholding();
        self.give_taken()
    }

    fn give_taken(&mut self) -> Option<u32> {
        let increment = std::mem::take(&mut self.taken);
        self.available = self.available.saturating_add(increment);
        (increment > 0).then_some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_again_is_not_given_twice() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(80));
        assert_eq!(window.take(60), Some(60));
        assert_eq!(window.take(20), None);
        // All of it is held again, of which 60 were given.
        window.take_back(80);
        assert_eq!(window.take(80), None);
        assert!(window.receive(80) && !window.receive(1));
        assert_eq!(window.take(80), Some(100));
    }

    #[test]
    fn what_is_withheld_is_not_given_with_what_is_taken() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100));
        window.withhold(60);
        assert_eq!(window.take(40), None);
        assert!(!window.is_open());
        assert_eq!(window.give(), Some(100));
        assert!(window.receive(100));
        window.withhold(40);
        assert_eq!(window.take(50), Some(50));
        window.stop_withholding();
        assert_eq!(window.take(10), Some(50));
        assert!(window.receive(100) && !window.receive(1));
    }
}
