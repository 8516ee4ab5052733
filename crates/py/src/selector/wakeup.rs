//! Waking the loop from other threads, which `loop.call_soon_threadsafe` does.
//!
//! asyncio wakes itself through a socket: the thread releases the interpreter to send, and the loop calls a callback that receives. Here it
//! is a descriptor of the reactor that is never read. Nothing is written while the loop's thread will check its queue before it waits. The
//! socket remains, for signals.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use net::{Poller, Waker};

/// How a loop that waits in the reactor is woken.
pub(super) struct Wakeup {
    waker: Waker,
    /// The next wait checks the loop's queue first, so it need not be woken.
    is_seen: AtomicBool,
    /// The loop's own set ends waits too.
    is_inside: AtomicBool,
}

impl Wakeup {
    /// Ends waits in the reactor's set.
    ///
    /// # Errors
    /// If the process or the system has no descriptor left.
    pub(super) fn new(poller: &Poller) -> io::Result<Wakeup> {
        let waker = Waker::new()?;
        waker.watch(poller)?;
        Ok(Wakeup {
            waker,
            is_seen: AtomicBool::new(false),
            is_inside: AtomicBool::new(false),
        })
    }

    /// The loop has work: ends its wait, or the next one.
    pub(super) fn wake(&self) {
        if !self.is_seen.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// The loop's thread is about to check whether the loop has work, and to wait if not. Returns true if it may have been given some.
    #[inline]
    pub(super) fn wait_begins(&self) -> bool {
        self.is_seen.swap(false, Ordering::SeqCst)
    }

    /// The loop's thread does not wait any more, and will check again before it does.
    #[inline]
    pub(super) fn wait_ends(&self) {
        self.is_seen.store(true, Ordering::SeqCst);
    }

    /// Whether the loop was woken since [`Wakeup::wait_begins`].
    pub(super) fn is_woken(&self) -> bool {
        self.is_seen.load(Ordering::SeqCst)
    }

    /// The loop is about to wait in a set of its own, without checking. Returns false if it must not: it may have been woken since it
    /// checked.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub(super) fn waits_inside(&self, own: &Poller) -> io::Result<bool> {
        if !self.is_inside.swap(true, Ordering::SeqCst) {
            self.waker.watch(own)?;
        }
        Ok(!self.is_seen.swap(false, Ordering::SeqCst))
    }
}
