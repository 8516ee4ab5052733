//! The kernel's state of a socket's queue, which `rustix` has no safe function for.

#![allow(
    unsafe_code,
    reason = "each block calls the kernel with a request whose layout it states"
)]

use std::ffi::c_int;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` on x86, ARM and RISC-V.
const OUTGOING_QUEUE: Opcode = 0x5411;

/// Bytes that were sent on `socket` and that the peer's kernel has not acknowledged (TCP), or that its program has not read (UNIX, with the
/// kernel's own overhead). 0 if the kernel does not report it.
///
/// Cost: one system call.
pub(crate) fn unacknowledged_bytes(socket: impl AsFd) -> u64 {
    // SAFETY: the request stores exactly one C int (tcp(7), unix(7): SIOCOUTQ).
    let request = unsafe { Getter::<OUTGOING_QUEUE, c_int>::new() };
    // SAFETY: the descriptor is open while it is borrowed, and the request is one that only reads the kernel's state.
    let bytes = unsafe { ioctl(socket, request) };
    bytes.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
}
