//! What the kernel says and gives: the state of a socket's queue, which `rustix` has no safe function for, and random octets.

#![allow(
    unsafe_code,
    reason = "each block calls the kernel with a request whose layout it states"
)]

use std::ffi::c_int;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::precise_ns;

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

/// Random octets, for what has to differ between processes, restarts and machines, and not for secrets. If the kernel has none, they come from
/// the clock and the process.
pub fn random_octets<const COUNT: usize>() -> [u8; COUNT] {
    let mut octets = [0; COUNT];
    let filled = getrandom(&mut octets, GetRandomFlags::empty());
    if filled.is_ok_and(|count| count == COUNT) {
        return octets;
    }
    let mut state = precise_ns() ^ u64::from(std::process::id()) << 32;
    for octet in &mut octets {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *octet = (state >> 56) as u8;
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::random_octets;

    #[test]
    fn two_draws_differ() {
        assert_ne!(random_octets::<16>(), random_octets::<16>());
    }
}
