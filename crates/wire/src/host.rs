//! The value of Host and the authority of an absolute-form target, which replaces it.
//!
//! ```text
//! Host     = uri-host [ ":" port ]                   RFC 9110 7.2
//! uri-host = IP-literal / IPv4address / reg-name     RFC 3986 3.2.2
//! port     = *DIGIT                                  RFC 3986 3.2.3
//! ```
//!
//! Neither userinfo (RFC 9110 4.2.4) nor a path is part of it.

use std::borrow::Cow;

use crate::field::field_lines;
use crate::grammar::{CRLF, is_reg_name_byte};
use crate::scan;

/// The field section that an application gets: the authority of an absolute-form target replaces the
/// value of Host, and a Host that is missing is added (RFC 9112 3.2.2).
///
/// Cost: a copy of the section if there is an authority, else nothing.
#[inline]
pub fn effective_field_section<'a>(
    field_section: &'a [u8],
    authority: Option<&[u8]>,
) -> Cow<'a, [u8]> {
    match authority {
        None => Cow::Borrowed(field_section),
        Some(authority) => Cow::Owned(with_host(field_section, authority)),
    }
}

#[cold]
fn with_host(field_section: &[u8], authority: &[u8]) -> Vec<u8> {
    let mut section = Vec::with_capacity(field_section.len() + authority.len() + 8);
    let mut has_host = false;
    for (name, value) in field_lines(field_section) {
        let is_host = name.eq_ignore_ascii_case(b"host");
        has_host |= is_host;
        push_line(&mut section, name, if is_host { authority } else { value });
    }
    if !has_host {
        // A client should send it first (RFC 9110 7.2).
        let rest = std::mem::take(&mut section);
        push_line(&mut section, b"Host", authority);
        section.extend_from_slice(&rest);
    }
    section
}

pub(crate) fn push_line(section: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, CRLF] {
        section.extend_from_slice(part);
    }
}

/// Reads the first field line if it is a Host of the usual kind, and returns the value and what follows the line: the exact spelling `Host:
/// `, then letters, digits, dots and hyphens, then an optional port.
///
/// A client should send Host first (RFC 9110 7.2) and nearly every one does. So for most requests the name is not searched, and the value
/// is scanned only once (bench: head, short).
#[inline]
pub(crate) fn usual_host_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, from_value) = bytes.split_first_chunk()?;
    if name != b"Host: " {
        return None;
    }
    let mut rest = scan::skip_host(from_value);
    if rest.len() == from_value.len() {
        return None;
    }
    if let [b':', port @ ..] = rest {
        rest = scan::skip_class(port, |byte| byte.is_ascii_digit());
    }
    let value = from_value.get(..from_value.len() - rest.len())?;
    match rest.split_first_chunk() {
        Some((end, rest)) if end == CRLF => Some((value, rest)),
        _ => None,
    }
}

/// Whether a value is a host with an optional port; an empty one is not.
pub(crate) fn is_host(value: &[u8]) -> bool {
    if let [b'[', rest @ ..] = value {
        let Some(end) = rest.iter().position(|byte| *byte == b']') else {
            return false;
        };
        let (address, suffix) = rest.split_at(end);
        return is_ip_literal(address) && is_port_suffix(suffix.get(1..).unwrap_or_default());
    }
    let end = value
        .iter()
        .position(|byte| *byte == b':')
        .unwrap_or(value.len());
    let (name, suffix) = value.split_at(end);
    !name.is_empty() && is_reg_name(name) && is_port_suffix(suffix)
}

/// The host of a valid value, an IPv6 address in its brackets, and the digits of its port.
pub fn host_and_port(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let (host, digits) = value.split_at(value.len() - digits.count());
    match host {
        [host @ .., b':'] => (host, Some(digits)),
        _ => (value, None),
    }
}

/// Nothing, or a colon and digits.
fn is_port_suffix(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// `pct-encoded = "%" HEXDIG HEXDIG` (RFC 3986 2.1), else the bytes of a registered name.
fn is_reg_name(mut name: &[u8]) -> bool {
    loop {
        match name {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                name = rest;
            }
            [b'%', ..] => return false,
            [byte, rest @ ..] if is_reg_name_byte(*byte) => name = rest,
            _ => return false,
        }
    }
}

/// `IP-literal = "[" ( IPv6address / IPvFuture ) "]"`; no IPvFuture has ever been defined.
fn is_ip_literal(address: &[u8]) -> bool {
    core::str::from_utf8(address).is_ok_and(|text| text.parse::<core::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{effective_field_section, host_and_port};

    #[test]
    fn a_host_is_separate_from_its_port() {
        for (value, expected) in [
            ("a", ("a", None)),
            ("a1", ("a1", None)),
            ("a:80", ("a", Some("80"))),
            ("a:", ("a", Some(""))),
            ("127.0.0.1", ("127.0.0.1", None)),
            ("[::1]", ("[::1]", None)),
            ("[::1]:80", ("[::1]", Some("80"))),
        ] {
            let (host, port) = host_and_port(value.as_bytes());
            let expected = (expected.0.as_bytes(), expected.1.map(str::as_bytes));
            assert_eq!((host, port), expected, "{value}");
        }
    }

    #[test]
    fn the_authority_of_the_target_replaces_host() {
        for (section, expected) in [
            ("Host: a\r\n", "Host: b:81\r\n"),
            (
                "A: 1\r\nhOST:\t a\t\r\nB:2 \r\n",
                "A: 1\r\nhOST: b:81\r\nB: 2\r\n",
            ),
            ("", "Host: b:81\r\n"),
            ("X-Host: a\r\n", "Host: b:81\r\nX-Host: a\r\n"),
        ] {
            let effective = effective_field_section(section.as_bytes(), Some(b"b:81"));
            assert_eq!(
                effective.escape_ascii().to_string(),
                expected.as_bytes().escape_ascii().to_string()
            );
            let same = effective_field_section(section.as_bytes(), None);
            assert_eq!(*same, *section.as_bytes());
        }
    }
}
