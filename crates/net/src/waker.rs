//! Wakes a reactor from another thread.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use crate::poller::{Interest, Poller, Token};

/// The token of a waker. Its readiness only means that the wait is over.
const WAKER: Token = Token::MAX - 1;

/// A descriptor that a reactor watches only to be woken.
pub struct Waker {
    counter: OwnedFd,
}

impl Waker {
    /// A waker that is not watched yet.
    ///
    /// # Errors
    /// When the process or the system has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker {
            counter: eventfd(0, flags)?,
        })
    }

    /// Lets it wake the thread waiting in `poller`. Edge-triggered: each wake-up is reported once, and the counter is never read.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub fn watch(&self, poller: &Poller) -> io::Result<()> {
        self.watch_as(poller, WAKER)
    }

    /// As [`Waker::watch`], with a token that identifies the waker.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub fn watch_as(&self, poller: &Poller, token: Token) -> io::Result<()> {
        poller.add_edge(&self.counter, token, Interest::READ)
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        // Fails only after 2^64 wake-ups without a wait: then one is pending anyway.
        let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Events;

    #[test]
    fn a_wake_up_ends_one_wait_and_is_not_reported_again() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        waker.watch(&poller).unwrap();
        let mut events = Events::default();
        poller.wait(&mut events, Some(0)).unwrap();
        assert_eq!(events.iter().count(), 0);
        for _ in 0..2 {
            waker.wake();
            waker.wake();
            // This would block forever if the wake-up were lost.
            poller.wait(&mut events, None).unwrap();
            assert_eq!(events.iter().count(), 1);
            poller.wait(&mut events, Some(0)).unwrap();
            assert_eq!(events.iter().count(), 0);
        }
    }
}
