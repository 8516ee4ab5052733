//! What the process does on SIGPIPE. The application determines that, and may change it at any time.
//!
//! With `unsafe`: neither the standard library nor `rustix` provides this.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

/// Whether the process ignores SIGPIPE. Otherwise the signal ends it, or runs a handler, which might raise an exception anywhere.
///
/// Cost: one short system call.
#[inline]
pub(crate) fn is_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action nothing is changed, and the current one is written to memory of its size.
    if unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, so it was written.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}
