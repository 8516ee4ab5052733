//! Octets that a server cannot predict (RFC 6455 5.3).

use rustix::rand::{GetRandomFlags, getrandom};

/// Random octets. On a kernel that has none, they are zeros: a generator has nothing to protect.
pub(super) fn random<const COUNT: usize>() -> [u8; COUNT] {
    let mut octets = [0; COUNT];
    let _ = getrandom(&mut octets, GetRandomFlags::empty());
    octets
}
