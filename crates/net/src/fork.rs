//! Whether this process has forked since it serves: a child's copies of descriptors outlive ours, so that closing a socket neither ends
//! its connection nor takes it out of an epoll set.
//!
//! A child that is made by `vfork` or `posix_spawn` (as `subprocess` does) is not noticed, and need not be: its copies end when it
//! executes its program.
//!
//! With `unsafe`: neither the standard library nor `rustix` has this.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static HAS_FORKED: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

/// Notes every fork of this process from now on. Only the first call does anything.
pub fn watch_forks() {
    WATCH.call_once(|| {
        // SAFETY: the handlers only store to an atomic, which fork allows in both processes, and they live as long as the process.
        let failure = unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
        if failure != 0 {
            // Nothing will be noted: as if it had.
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
