//! Whether this process has forked since it serves. A child's copies of descriptors outlive ours, so closing a socket neither ends its
//! connection nor removes it from an epoll set.
//!
//! A child created by `vfork` or `posix_spawn` (as `subprocess` does) is not detected, and need not be: its copies are closed when it
//! executes its program.
//!
//! With `unsafe`: neither the standard library nor `rustix` provides this.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static HAS_FORKED: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

/// Records every fork of this process from now on. Only the first call has an effect.
pub fn watch_forks() {
    WATCH.call_once(|| {
        // SAFETY: the handlers only store to an atomic, which fork allows in both processes, and they live as long as the process.
        let failure = unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
        if failure != 0 {
            // No fork will be recorded: assume one.
            HAS_FORKED.store(true, Ordering::Relaxed);
        }
    });
}

/// Whether a child may hold copies of this process's descriptors.
#[inline]
pub fn has_forked() -> bool {
    HAS_FORKED.load(Ordering::Relaxed)
}

extern "C" fn before() {
    HAS_FORKED.store(true, Ordering::Relaxed);
}

/// A child that serves has connections of its own.
extern "C" fn in_child() {
    HAS_FORKED.store(false, Ordering::Relaxed);
}
