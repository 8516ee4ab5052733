//! How threads of the pool reach the reactor: its mailbox, and the descriptor that wakes it.
//!
//! A wake-up costs a system call and, on a busy machine, a turn of the scheduler. So nobody wakes a reactor that is at work: it looks
//! into its mailbox before it waits. And who has more to say in a moment leaves one asleep that will wake by itself in a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use net::{Poller, Waker};
use server::{Command, ExchangeId, Mailbox};

/// The reactor is at work.
const AWAKE: u8 = 0;
/// It waits, a millisecond at most.
const DOZES: u8 = 1;
/// It waits for something to happen.
const SLEEPS: u8 = 2;

/// The reactor as its threads see it.
pub(super) struct Outbox {
    mailbox: Arc<Mailbox>,
    waker: Waker,
    reactor: AtomicU8,
}

impl Outbox {
    pub(super) fn new(mailbox: Arc<Mailbox>, waker: Waker) -> Outbox {
        Outbox {
            mailbox,
            waker,
            reactor: AtomicU8::new(AWAKE),
        }
    }

    /// Lets the waker wake a set.
    pub(super) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        self.waker.watch(poller)
    }

    /// Posts a command; the reactor is not woken by it.
    pub(super) fn post(&self, id: ExchangeId, command: Command) {
        self.mailbox.post(id, command);
    }

    /// Sees to it that the reactor looks into its mailbox now.
    pub(super) fn notify(&self) {
        // The swap lets one of several posters wake it.
        if self.reactor.load(Ordering::SeqCst) != AWAKE
            && self.reactor.swap(AWAKE, Ordering::SeqCst) != AWAKE
        {
            self.waker.wake();
        }
    }

    /// Sees to it that the reactor looks into its mailbox within a millisecond.
    pub(super) fn notify_soon(&self) {
        if self.reactor.load(Ordering::SeqCst) == SLEEPS {
            self.notify();
        }
    }

    /// The reactor is about to wait. False when it must not, for there is mail.
    pub(super) fn wait_begins(&self, is_short: bool) -> bool {
        let state = if is_short { DOZES } else { SLEEPS };
        self.reactor.store(state, Ordering::SeqCst);
        // Looked at behind the store: whoever posts later sees that the reactor waits.
        let may_wait = self.mailbox.is_empty();
        if !may_wait {
            self.wait_ends();
        }
        may_wait
    }

    /// The reactor is at work again.
    pub(super) fn wait_ends(&self) {
        self.reactor.store(AWAKE, Ordering::SeqCst);
    }
}
