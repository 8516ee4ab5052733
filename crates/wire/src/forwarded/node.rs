//! Nodes: who sent a request to a proxy (RFC 7239 section 6).
//!
//! ```text
//! node      = nodename [ ":" node-port ]
//! nodename  = IPv4address / "[" IPv6address "]" / "unknown" / obfnode
//! obfnode   = "_" 1*( ALPHA / DIGIT / "." / "_" / "-")
//! node-port = port / obfport
//! port      = 1*5DIGIT
//! obfport   = "_" 1*(ALPHA / DIGIT / "." / "_" / "-")
//! ```
//!
//! An entry of X-Forwarded-For has the same form. There an IPv6 address may also be without brackets, and nginx writes `unix:` for a client
//! on a UNIX socket.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::{FromStr, from_utf8};

/// Who sent a request to a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// An address, and the port if it is known.
    Address(IpAddr, Option<u16>),
    /// A client on a UNIX socket.
    Unix,
    /// The proxy does not know it, or does not disclose it: `unknown`, or an identifier of its own.
    Hidden,
}

impl Node {
    /// The value of `for` in Forwarded.
    pub(super) fn of_forwarded(value: &[u8]) -> Option<Node> {
        if let [b'[', rest @ ..] = value {
            let end = rest.iter().position(|byte| *byte == b']')?;
            let (address, suffix) = rest.split_at(end);
            let port = port_suffix(suffix.get(1..)?)?;
            return Some(address_of::<Ipv6Addr>(address)?.at(port));
        }
        let end = value.iter().position(|byte| *byte == b':');
        let (name, suffix) = value.split_at(end.unwrap_or(value.len()));
        let port = port_suffix(suffix)?;
        if name.eq_ignore_ascii_case(b"unknown") || is_obfuscated(name) {
            return Some(Node::Hidden);
        }
        Some(address_of::<Ipv4Addr>(name)?.at(port))
    }

    /// An entry of X-Forwarded-For.
    pub(super) fn of_x_forwarded_for(entry: &[u8]) -> Option<Node> {
        if entry == b"unix:" {
            return Some(Node::Unix);
        }
        match address_of::<Ipv6Addr>(entry) {
            Some(node) => Some(node),
            None => Node::of_forwarded(entry),
        }
    }

    /// The one of two that says more; None if they are not the same.
    pub(super) fn with(self, other: Node) -> Option<Node> {
        match (self, other) {
            (Node::Address(one, port), Node::Address(other, None)) if one == other => {
                Some(Node::Address(one, port))
            }
            (Node::Address(one, None), Node::Address(other, port)) if one == other => {
                Some(Node::Address(one, port))
            }
            (one, other) => (one == other).then_some(one),
        }
    }

    fn at(self, port: Option<u16>) -> Node {
        match self {
            Node::Address(address, _) => Node::Address(address, port),
            other => other,
        }
    }
}

/// An address without a port. One of IPv4 that is written as one of IPv6 (RFC 4291 section 2.5.5.2) is the same.
fn address_of<A: FromStr + Into<IpAddr>>(text: &[u8]) -> Option<Node> {
    let address: A = from_utf8(text).ok()?.parse().ok()?;
    let address: IpAddr = address.into();
    Some(Node::Address(address.to_canonical(), None))
}

/// Nothing, or a colon and a port, which is known unless it is obfuscated. None if it is neither.
fn port_suffix(bytes: &[u8]) -> Option<Option<u16>> {
    match bytes {
        [] => Some(None),
        [b':', port @ ..] if is_obfuscated(port) => Some(None),
        [b':', port @ ..] if (1..=5).contains(&port.len()) => {
            let is_number = port.iter().all(u8::is_ascii_digit);
            let port = from_utf8(port).ok().filter(|_| is_number)?;
            port.parse().ok().map(Some)
        }
        _ => None,
    }
}

/// Whether it is an `obfnode` or an `obfport`.
fn is_obfuscated(bytes: &[u8]) -> bool {
    let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    matches!(bytes, [b'_', rest @ ..] if !rest.is_empty() && rest.iter().all(is_of_it))
}
