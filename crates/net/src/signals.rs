//! What the process does on SIGPIPE, which the application determines and may change at any time; and the stack of its handlers.
//!
//! With `unsafe`: neither the standard library nor `rustix` provides this.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Handlers can interrupt each other: one of each signal at once.
const NESTED_MAX: usize = 64;
/// Room for a handler beyond what the kernel stores. One of them may write the stacks of all threads.
const HANDLER_BYTES: usize = 8192;

/// Whether the process ignores SIGPIPE. Otherwise the signal ends it, or runs a handler, which might raise an exception anywhere.
///
/// Cost: one short system call.
#[inline]
pub(crate) fn is_sigpipe_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action nothing is changed, and the current one is written to memory of its size.
    if unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, so it was written.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

/// Gives this thread a stack on which the handlers of all signals fit at once. faulthandler installs one on which five of Python's own
/// handlers fit, and a process that is continued after a stop gets all the signals that have come.
///
/// Its memory, about a megabyte of addresses, is not returned; only what is written to occupies memory.
///
/// # Errors
/// If the thread is running on such a stack.
pub fn widen_signal_stack() -> io::Result<()> {
    // SAFETY: it only reads what the kernel has passed to the process, and returns 0 for what it has not.
    let kernel_bytes = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    let bytes = NESTED_MAX * (kernel_bytes.max(libc::MINSIGSTKSZ) + HANDLER_BYTES);
    let memory: &'static mut [u8] = Box::leak(vec![0; bytes].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: memory.len(),
    };
    // SAFETY: the memory is never freed and used by nothing else, and the old stack need not be stored.
    match unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
