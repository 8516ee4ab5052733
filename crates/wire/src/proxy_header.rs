//! The header of the PROXY protocol, versions 1 and 2 (haproxy.org, "The PROXY protocol", 2020/03/05), with which a proxy says at the start of a connection
//! whose it is.
//!
//! ```text
//! version 1 = "PROXY " ("TCP4" / "TCP6") SP source SP destination SP source-port SP destination-port CRLF
//!           / "PROXY UNKNOWN" *OCTET CRLF
//! version 2 = 12 octets of signature, version and command, family and transport, length (2 octets), addresses, TLVs
//! ```
//!
//! | version 2 | result |
//! | --- | --- |
//! | LOCAL | the connection is the proxy's own; the rest is ignored |
//! | PROXY of family UNSPEC | that of a client whose addresses the proxy does not know, as with UNKNOWN of version 1 |
//! | PROXY of AF_INET, AF_INET6, AF_UNIX with STREAM | the addresses |
//! | any other | malformed: a stream is not of datagrams, and what is unassigned must be refused (2.2) |
//!
//! An address of IPv4 in the form of IPv6, which a proxy writes if the two addresses are of different families, is that of IPv4.
//!
//! TLVs are skipped, except that a checksum (PP2_TYPE_CRC32C) is verified, as it must be. One that exceeds the header makes it malformed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::{FromStr, from_utf8};

/// Maximum length of a header. Version 1 has 107 at most; TLVs of version 2 that describe a TLS session with a certificate take some hundred.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// The longest line of version 1, with its end (2.1).
const LINE_BYTES_MAX: usize = 107;
const LINE_START: &[u8] = b"PROXY ";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The part of version 2 that has the length of the rest.
const FIXED_BYTES: usize = 16;
const CRC32C: u8 = 3;

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyHeader {
    /// The proxy's own, as for a check of health: the addresses are those of the connection itself.
    Own,
    /// That of a client whose address the proxy does not know.
    Unknown,
    /// That of a client: its address, and the one that it connected to.
    Of(SocketAddr, SocketAddr),
    /// That of a client on a UNIX socket of the proxy's machine.
    OfUnix,
}

/// Why a header is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyHeaderError {
    /// The connection starts with something else.
    Missing,
    /// It does not have the form above.
    Malformed,
    /// It is longer than [`PROXY_HEADER_BYTES_MAX`].
    TooLong,
    /// Its checksum is wrong.
    Checksum,
}

impl ProxyHeaderError {
    /// The reason, for the log.
    pub const fn reason(self) -> &'static str {
        match self {
            ProxyHeaderError::Missing => "it starts with something else",
            ProxyHeaderError::Malformed => "it is malformed",
            ProxyHeaderError::TooLong => "it is longer than 4096 bytes",
            ProxyHeaderError::Checksum => "its checksum is wrong",
        }
    }
}

/// Parses the header at the start of a connection. Returns it with its length; None if more octets are needed.
///
/// # Errors
/// The connection must be closed.
pub fn parse_proxy_header(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    match input {
        _ if is_start(input, LINE_START) => line(input),
        _ if is_start(input, SIGNATURE) => binary(input),
        _ => Err(ProxyHeaderError::Missing),
    }
}

/// Whether the input starts with `start`, as far as it goes.
fn is_start(input: &[u8], start: &[u8]) -> bool {
    input.iter().zip(start).all(|(byte, own)| byte == own)
}

fn line(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let window = input.get(..LINE_BYTES_MAX).unwrap_or(input);
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return match window.len() < LINE_BYTES_MAX {
            true => Ok(None),
            false => Err(ProxyHeaderError::Malformed),
        };
    };
    let header = window
        .get(LINE_START.len()..end)
        .and_then(|rest| rest.strip_suffix(b"\r"))
        .and_then(|rest| from_utf8(rest).ok())
        .and_then(of_words);
    let header = header.ok_or(ProxyHeaderError::Malformed)?;
    Ok(Some((header, end + 1)))
}

/// What follows `PROXY ` in a line.
fn of_words(text: &str) -> Option<ProxyHeader> {
    let mut words = text.split(' ');
    let read = match words.next()? {
        "UNKNOWN" => return (!text.contains('\r')).then_some(ProxyHeader::Unknown),
        "TCP4" => address::<Ipv4Addr>,
        "TCP6" => address::<Ipv6Addr>,
        _ => return None,
    };
    let (source, destination) = (read(words.next()?)?, read(words.next()?)?);
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then_some(ProxyHeader::Of(
        canonical(source, source_port),
        canonical(destination, destination_port),
    ))
}

/// An address of IPv4 in its own form, if it is one (RFC 4291 section 2.5.5.2), so that it is compared as such.
fn canonical(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.to_canonical(), port)
}

fn address<A: FromStr + Into<IpAddr>>(text: &str) -> Option<IpAddr> {
    text.parse::<A>().ok().map(Into::into)
}

/// A decimal number without leading zeros (2.1).
fn port(text: &str) -> Option<u16> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_number = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn binary(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some(&[kind, family, high, low]) = input.get(SIGNATURE.len()..FIXED_BYTES) else {
        // What is wrong already is refused at once.
        return match input.get(SIGNATURE.len()) {
            Some(kind) if !matches!(kind, 0x20 | 0x21) => Err(ProxyHeaderError::Malformed),
            _ => Ok(None),
        };
    };
    let is_local = match kind {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > PROXY_HEADER_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let Some(all) = input.get(..length) else {
        return Ok(None);
    };
    if is_local {
        return Ok(Some((ProxyHeader::Own, length)));
    }
    let rest = all.get(FIXED_BYTES..).unwrap_or_default();
    let (header, tlvs) = addresses(family, rest).ok_or(ProxyHeaderError::Malformed)?;
    check_tlvs(all, tlvs)?;
    Ok(Some((header, length)))
}

/// The addresses at the start of what follows the fixed part, and the TLVs after them.
fn addresses(family: u8, bytes: &[u8]) -> Option<(ProxyHeader, &[u8])> {
    match family {
        0x00 => Some((ProxyHeader::Unknown, bytes)),
        0x11 => of_internet::<4>(bytes),
        0x21 => of_internet::<16>(bytes),
        0x31 => Some((ProxyHeader::OfUnix, bytes.get(2 * 108..)?)),
        _ => None,
    }
}

fn of_internet<const N: usize>(bytes: &[u8]) -> Option<(ProxyHeader, &[u8])>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk()?;
    let (destination_port, rest) = rest.split_first_chunk()?;
    let header = ProxyHeader::Of(
        canonical((*source).into(), u16::from_be_bytes(*source_port)),
        canonical((*destination).into(), u16::from_be_bytes(*destination_port)),
    );
    Some((header, rest))
}

/// Checks the form of the TLVs at the end of a header, and its checksum if it has one.
fn check_tlvs(header: &[u8], mut tlvs: &[u8]) -> Result<(), ProxyHeaderError> {
    while !tlvs.is_empty() {
        let [kind, high, low, rest @ ..] = tlvs else {
            return Err(ProxyHeaderError::Malformed);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, after) = rest
            .split_at_checked(length)
            .ok_or(ProxyHeaderError::Malformed)?;
        if *kind == CRC32C {
            let value: [u8; 4] = value.try_into().map_err(|_| ProxyHeaderError::Malformed)?;
            let start = header.len() - rest.len();
            if u32::from_be_bytes(value) != checksum(header, start) {
                return Err(ProxyHeaderError::Checksum);
            }
        }
        tlvs = after;
    }
    Ok(())
}

/// The CRC32C (RFC 3720 B.4) of a header in which the four octets from `start` on are 0.
fn checksum(header: &[u8], start: usize) -> u32 {
    let octets = header.iter().enumerate().map(|(index, octet)| {
        let is_own = (start..start + 4).contains(&index);
        if is_own { 0 } else { *octet }
    });
    !octets.fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(octet), |crc, _| {
            let is_odd = crc & 1 == 1;
            crc >> 1 ^ if is_odd { 0x82f6_3b78 } else { 0 }
        })
    })
}
