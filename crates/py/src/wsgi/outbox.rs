//! How threads of the pool reach the reactor: its mailbox, and the descriptor that wakes it.
//!
//! A wake-up costs a system call and, on a busy machine, a turn of the scheduler. So a busy reactor is not woken: it checks its mailbox
//! before it waits. And a thread that will soon post more does not wake a reactor that will wake by itself within a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use net::{Poller, Waker};
use server::{Command, ExchangeId, Mailbox};

/// The reactor is busy.
const AWAKE: u8 = 0;
/// It waits for at most a millisecond.
const DOZES: u8 = 1;
/// It waits for an event.
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

    /// Lets the waker wake the thread waiting in `poller`.
    pub(super) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        self.waker.watch(poller)
    }

    /// Posts a command without waking the reactor.
    pub(super) fn post(&self, id: ExchangeId, command: Command) {
        self.mailbox.post(id, command);
    }

    /// Makes sure that the reactor checks its mailbox now.
    pub(super) fn notify(&self) {
        // With the swap, only one of several posters wakes it.
        if self.reactor.load(Ordering::SeqCst) != AWAKE
            && self.reactor.swap(AWAKE, Ordering::SeqCst) != AWAKE
        {
            self.waker.wake();
        }
    }

    /// Makes sure that the reactor checks its mailbox within a millisecond.
    pub(super) fn notify_soon(&self) {
        if self.reactor.load(Ordering::SeqCst) == SLEEPS {
            self.notify();
        }
    }

    /// The reactor is about to wait. Returns false if it must not, because there is mail.
    pub(super) fn wait_begins(&self, is_short: bool) -> bool {
        let state = if is_short { DOZES } else { SLEEPS };
        self.reactor.store(state, Ordering::SeqCst);
        // Checked after the store: a thread that posts later sees that the reactor waits.
        let may_wait = self.mailbox.is_empty();
        if !may_wait {
            self.wait_ends();
        }
        may_wait
    }

    /// The reactor has woken up.
    pub(super) fn wait_ends(&self) {
        self.reactor.store(AWAKE, Ordering::SeqCst);
    }
}
