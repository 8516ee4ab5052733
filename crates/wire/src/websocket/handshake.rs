//! The opening handshake (RFC 6455 4).

use base64::Engine;
use base64::alphabet;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{PAD, STANDARD};

use crate::field::{field_lines, list_members};
use crate::framing::BodyLength;
use crate::grammar::is_token;
use crate::head::RequestHead;
use crate::method::{Method, Version};

/// The only version (RFC 6455 4.1).
pub const VERSION: &[u8] = b"13";

/// What a server appends to the key (RFC 6455 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Reads keys. The last character of a key has four bits that mean nothing, which some clients (and the example of RFC 6455 4.1) set.
const KEYS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    PAD.with_decode_allow_trailing_bits(true),
);

/// The octets of a Sec-WebSocket-Accept value.
pub const ACCEPT_BYTES: usize = 28;

/// Why a handshake is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Refusal {
    /// The method is not GET (RFC 6455 4.1).
    MethodNotGet,
    /// HTTP/1.0 has no upgrade (RFC 6455 4.1).
    VersionTooOld,
    /// The request has content.
    HasContent,
    /// Sec-WebSocket-Key is missing.
    KeyMissing,
    /// Sec-WebSocket-Key is there more than once (RFC 6455 11.3.1).
    KeyRepeated,
    /// Sec-WebSocket-Key is not 16 octets in base64 (RFC 6455 4.2.1).
    KeyInvalid,
    /// Sec-WebSocket-Version is there more than once (RFC 6455 11.3.5).
    VersionRepeated,
    /// Sec-WebSocket-Version is missing or not 13: 426 with the version (RFC 6455 4.4).
    VersionUnsupported,
    /// Sec-WebSocket-Protocol is not a list of tokens (RFC 6455 4.1).
    SubprotocolInvalid,
    /// Sec-WebSocket-Protocol has a value twice (RFC 6455 4.1).
    SubprotocolRepeated,
}

impl Refusal {
    /// The status of the response.
    pub fn status(self) -> u16 {
        match self {
            Refusal::VersionUnsupported => 426,
            _ => 400,
        }
    }

    /// The reason, for the response and for logs.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::MethodNotGet => "a WebSocket handshake needs the method GET",
            Refusal::VersionTooOld => "a WebSocket handshake needs HTTP/1.1",
            Refusal::HasContent => "a WebSocket handshake has no content",
            Refusal::KeyMissing => "Sec-WebSocket-Key is missing",
            Refusal::KeyRepeated => "Sec-WebSocket-Key is repeated",
            Refusal::KeyInvalid => "Sec-WebSocket-Key is not 16 octets in base64",
            Refusal::VersionRepeated => "Sec-WebSocket-Version is repeated",
            Refusal::VersionUnsupported => "Sec-WebSocket-Version must be 13",
            Refusal::SubprotocolInvalid => "Sec-WebSocket-Protocol is not a list of tokens",
            Refusal::SubprotocolRepeated => "Sec-WebSocket-Protocol has a value twice",
        }
    }
}

/// The most subprotocols that a client may offer: each is compared with the others.
const SUBPROTOCOLS_MAX: usize = 100;

/// Checks the handshake of HTTP/1.1, a request that asks for the upgrade to WebSocket: the value for Sec-WebSocket-Accept.
///
/// # Errors
/// If it is not what RFC 6455 4.2.1 demands.
pub fn check_upgrade(head: &RequestHead<'_>) -> Result<[u8; ACCEPT_BYTES], Refusal> {
    if head.method != Method::Get {
        return Err(Refusal::MethodNotGet);
    }
    if head.version != Version::Http11 {
        return Err(Refusal::VersionTooOld);
    }
    if head.body_length != BodyLength::None {
        return Err(Refusal::HasContent);
    }
    let key = check_fields(head.field_section)?.ok_or(Refusal::KeyMissing)?;
    let mut octets = [0; 18];
    match KEYS.decode_slice(key, &mut octets) {
        Ok(16) => Ok(accept_value(key)),
        _ => Err(Refusal::KeyInvalid),
    }
}

/// Checks the handshake of HTTP/2, an extended CONNECT with the protocol `websocket` (RFC 8441 5).
///
/// # Errors
/// As [`check_upgrade`], without what concerns method, version and key.
pub fn check_connect(field_section: &[u8]) -> Result<(), Refusal> {
    check_fields(field_section).map(|_| ())
}

/// Checks the fields that both forms have; the key, if there is one.
fn check_fields(field_section: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let (mut key, mut version) = (None, None);
    for (name, value) in field_lines(field_section) {
        if name.eq_ignore_ascii_case(b"sec-websocket-key") && key.replace(value).is_some() {
            return Err(Refusal::KeyRepeated);
        }
        if name.eq_ignore_ascii_case(b"sec-websocket-version") && version.replace(value).is_some() {
            return Err(Refusal::VersionRepeated);
        }
    }
    if version != Some(VERSION) {
        return Err(Refusal::VersionUnsupported);
    }
    check_subprotocols(field_section)?;
    Ok(key)
}

/// The subprotocols that the client offers, in its order.
pub fn subprotocols(field_section: &[u8]) -> impl Iterator<Item = &[u8]> {
    field_lines(field_section)
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-protocol"))
        .flat_map(|(_, value)| list_members(value))
}

/// The values of the client's Sec-WebSocket-Extensions lines.
pub fn extensions(field_section: &[u8]) -> impl Iterator<Item = &[u8]> {
    field_lines(field_section)
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-extensions"))
        .map(|(_, value)| value)
}

fn check_subprotocols(field_section: &[u8]) -> Result<(), Refusal> {
    let mut known: Vec<&[u8]> = Vec::new();
    for subprotocol in subprotocols(field_section) {
        if !is_token(subprotocol) || known.len() == SUBPROTOCOLS_MAX {
            return Err(Refusal::SubprotocolInvalid);
        }
        if known.contains(&subprotocol) {
            return Err(Refusal::SubprotocolRepeated);
        }
        known.push(subprotocol);
    }
    Ok(())
}

/// The octets of a Sec-WebSocket-Key value.
pub const KEY_BYTES: usize = 24;

/// The value of Sec-WebSocket-Key for 16 octets, which a client selects at random for each connection (RFC 6455 4.1).
pub fn key_value(octets: [u8; 16]) -> [u8; KEY_BYTES] {
    let mut value = [0; KEY_BYTES];
    let written = STANDARD.encode_slice(octets, &mut value);
    debug_assert_eq!(written, Ok(KEY_BYTES));
    value
}

/// The value of Sec-WebSocket-Accept for a key (RFC 6455 4.2.2).
pub fn accept_value(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let mut digest = sha1_smol::Sha1::new();
    digest.update(key);
    digest.update(GUID);
    let mut value = [0; ACCEPT_BYTES];
    let written = STANDARD.encode_slice(digest.digest().bytes(), &mut value);
    debug_assert_eq!(written, Ok(ACCEPT_BYTES));
    value
}
