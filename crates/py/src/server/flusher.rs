//! A thread that sends what an application has written while it continues computing: within 20 ms, if the interpreter lets other threads
//! run.
//!
//! Responses that are complete when a call ends, or that tasks post, are sent by the pass, several at once. An application that computes,
//! or blocks its thread, delays the pass. The specification requires that what it has sent is under way nevertheless, and clients of other
//! responses must not wait for that application. Sending inside `send()` would cost a system call for each part. So this thread checks
//! every few milliseconds whether calls and passes make progress, and sends if they do not. It sleeps while nothing is called.
//!
//! It sends with the interpreter attached, which gives it exclusive access. The reactor's thread releases the interpreter only inside a
//! call, for which it has lent its responder ([`crate::ffi::LentResponder`]), or while it has locked the worker.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use net::precise_ns;
use pyo3::prelude::*;
use server::{Responder, Worker};

use crate::interface::Interface;
use crate::run::exchanges::Exchanges;
use crate::run::watch::Moment;

/// What has not moved between two checks is sent: after one to two intervals, and the time to get the interpreter (5 ms).
const LOOK: Duration = Duration::from_millis(5);
/// Checks without anything to do, after which it sleeps.
const IDLE_LOOKS_MAX: u32 = 20;
/// Its calls are not deep.
const STACK_BYTES: usize = 256 * 1024;

/// The thread, which ends when this is dropped.
#[derive(Default)]
pub(super) struct Flusher {
    running: Mutex<Option<Running>>,
}

struct Running {
    thread: JoinHandle<()>,
    is_over: Arc<AtomicBool>,
    /// A forked child has no such thread.
    process: u32,
}

impl Flusher {
    /// Starts the thread, unless it is running.
    pub(super) fn start(
        &self,
        worker: &Arc<Mutex<Worker<Interface>>>,
        exchanges: &Arc<Exchanges>,
    ) -> std::io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let looks = Looks {
            worker: Arc::downgrade(worker),
            exchanges: Arc::clone(exchanges),
            is_over: Arc::clone(&is_over),
            has_unsent: Cell::new(false),
        };
        let thread = std::thread::Builder::new()
            .name("bolide-flusher".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || looks.run())?;
        exchanges.watch.is_watched_by(thread.thread().clone());
        *running = Some(Running {
            thread,
            is_over,
            process: std::process::id(),
        });
        Ok(())
    }

    /// Ends the thread.
    pub(super) fn stop(&self, py: Python<'_>) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(running) = running else {
            return;
        };
        running.is_over.store(true, Ordering::SeqCst);
        running.thread.thread().unpark();
        if running.process == std::process::id() {
            // It may be waiting for the interpreter. It has no result, and a panic of it has been reported.
            py.detach(|| drop(running.thread.join()));
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        Python::try_attach(|py| self.stop(py));
    }
}

/// What the thread checks.
struct Looks {
    worker: Weak<Mutex<Worker<Interface>>>,
    exchanges: Arc<Exchanges>,
    is_over: Arc<AtomicBool>,
    /// Sockets did not accept everything, and no pass has started since.
    has_unsent: Cell<bool>,
}

impl Looks {
    fn run(&self) {
        let mut idle_looks = 0;
        let mut before = self.exchanges.moment();
        // When it looked last, and after which look the call began that is under way.
        let mut looked_ns = precise_ns();
        let mut after_ns = looked_ns;
        // The call in which everything written before its start was sent.
        let mut sent_for = None;
        while !self.is_over.load(Ordering::SeqCst) {
            std::thread::park_timeout(LOOK);
            let now = self.exchanges.moment();
            if now != before {
                self.has_unsent.set(false); // the pass sends it
            }
            if now != before {
                after_ns = looked_ns;
            } else if now.is_in_call() {
                self.exchanges.watch.call_is_long(after_ns);
            }
            looked_ns = precise_ns();
            let has_mail = self.exchanges.has_mail() || self.has_unsent.get();
            let is_idle = now == before && !now.is_in_call() && !has_mail;
            idle_looks = if is_idle { idle_looks + 1 } else { 0 };
            if now == before && !is_idle {
                self.send(now, sent_for != Some(now));
                sent_for = Some(now);
            }
            if idle_looks > IDLE_LOOKS_MAX {
                self.sleep(now);
                idle_looks = 0;
            }
            before = now;
        }
    }

    /// Waits until something is called or posted.
    fn sleep(&self, before: Moment) {
        self.exchanges.watch.parks();
        // A call that starts just now may not have seen that; its start is visible by then.
        std::thread::park_timeout(LOOK);
        let is_idle = || self.exchanges.moment() == before && !self.exchanges.has_mail();
        if is_idle() {
            while self.exchanges.watch.is_parked() && !self.is_over.load(Ordering::SeqCst) {
                std::thread::park();
            }
        }
    }

    /// Sends what has been written. `is_first`: nothing was sent in this call.
    fn send(&self, now: Moment, is_first: bool) {
        let has_written = now.is_in_call() && (self.exchanges.watch.take_written() || is_first);
        let has_mail = self.exchanges.has_mail() || self.has_unsent.get();
        let has_mail = !now.is_in_call() && has_mail;
        if !has_written && !has_mail {
            return;
        }
        Python::try_attach(|py| {
            if has_written {
                let responder = &self.exchanges.responder;
                let has_left = responder.with(py, None, Responder::send_all_now);
                if has_left == Some(false) {
                    self.exchanges.watch.has_written();
                }
            }
            if has_mail && let Some(worker) = self.worker.upgrade() {
                // Nothing else locks it before this thread releases the interpreter; it is locked already while a pass is under way.
                let has_unsent = match worker.try_lock() {
                    Ok(mut worker) => worker.send_posted(),
                    Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().send_posted(),
                    Err(TryLockError::WouldBlock) => false,
                };
                self.has_unsent.set(has_unsent);
            }
        });
    }
}
