//! Values beside nodes and hosts: schemes, ports and prefixes of paths.

use core::str::from_utf8;

use crate::host;

/// The scheme of a URI (RFC 9110 section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The scheme of that name. That of a WebSocket is the same as that of the request which opens it.
    pub(super) fn of(name: &[u8]) -> Option<Scheme> {
        let is = |scheme: &str| name.eq_ignore_ascii_case(scheme.as_bytes());
        match () {
            () if is("https") || is("wss") => Some(Scheme::Https),
            () if is("http") || is("ws") => Some(Scheme::Http),
            () => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of a URI that names none (RFC 9110 sections 4.2.1 and 4.2.2).
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A port that something can listen on.
pub(super) fn port(value: &[u8]) -> Option<u16> {
    let is_number = value.len() <= 5 && value.iter().all(u8::is_ascii_digit);
    let number = from_utf8(value).ok().filter(|_| is_number)?;
    number.parse().ok().filter(|port| *port != 0)
}

/// Longer prefixes are not believed: each request that waits keeps its own.
const PREFIX_BYTES_MAX: usize = 256;
/// The same for hosts. No name in DNS has more than 253 octets (RFC 1035 3.1), and a port has five digits.
const HOST_BYTES_MAX: usize = 260;

/// A host with an optional port.
pub(super) fn is_host(value: &[u8]) -> bool {
    value.len() <= HOST_BYTES_MAX && host::is_host(value)
}

/// The first segments of a path, without slashes at their end; None if it is not that, or empty.
///
/// What a browser would read as a host (`//host`, `/\host`), what names other segments (`..`), and what has to be decoded is refused.
pub(super) fn prefix(value: &[u8]) -> Option<&[u8]> {
    let end = value.iter().rposition(|byte| *byte != b'/')?;
    let value = value.get(..=end)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:@/".contains(byte);
    let mut segments = value.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    let are_names =
        segments.all(|segment| !segment.is_empty() && segment != b"." && segment != b"..");
    let is_short = value.len() <= PREFIX_BYTES_MAX;
    (is_short && are_names && value.iter().all(is_plain)).then_some(value)
}
