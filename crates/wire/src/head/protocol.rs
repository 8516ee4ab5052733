//! What differs between a head of HTTP/1 and the text of a decoded header block of HTTP/2.

use super::Control;
use super::request_line::{self, RequestLine};
use crate::error::{ErrorKind, Stop};
use crate::field::{field_lines, list_members};
use crate::framing::BodyLength;

/// The protocol that a head is of.
pub(super) trait Protocol {
    fn request_line(&self, window: &[u8]) -> Result<RequestLine, Stop>;
    /// How the content is delimited if no field says it.
    fn unframed(&self) -> BodyLength;
    fn body_length(&self, control: &Control<'_>) -> Result<BodyLength, ErrorKind>;
    /// Whether the client asks for WebSocket.
    fn asks_websocket(&self, control: &Control<'_>, field_section: &[u8]) -> bool;
}

/// What the field lines say about an upgrade to WebSocket. Neither Upgrade nor Sec-WebSocket-Key is remembered (`field/harmless.rs`).
#[derive(Default)]
pub(super) struct Handshake {
    /// Upgrade names it.
    names_websocket: bool,
    /// Sec-WebSocket-Key is there.
    pub(super) has_key: bool,
}

impl Handshake {
    /// Reads a line of Upgrade.
    pub(super) fn read_upgrade(&mut self, value: &[u8]) {
        let mut protocols = list_members(value);
        self.names_websocket |=
            protocols.any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
    }
}

/// Bytes from the network.
pub(super) struct Http1;

impl Protocol for Http1 {
    #[inline(always)]
    fn request_line(&self, window: &[u8]) -> Result<RequestLine, Stop> {
        request_line::parse(window)
    }

    #[inline]
    fn unframed(&self) -> BodyLength {
        BodyLength::None
    }

    #[inline]
    fn body_length(&self, control: &Control<'_>) -> Result<BodyLength, ErrorKind> {
        Ok(control.body_length())
    }

    /// The Connection lines are read again: those that were remembered are not in `control`.
    #[inline]
    fn asks_websocket(&self, control: &Control<'_>, field_section: &[u8]) -> bool {
        control.websocket.names_websocket
            && !control.is_http10
            && is_upgrade_of_connection(field_section)
    }
}

/// Whether Connection lists `upgrade`. A proxy that removes the field, but forwards Upgrade, would not expect another protocol (RFC 9110
/// 7.8, RFC 6455 4.2.1).
#[cold]
fn is_upgrade_of_connection(field_section: &[u8]) -> bool {
    field_lines(field_section)
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| list_members(value))
        .any(|option| option.eq_ignore_ascii_case(b"upgrade"))
}

/// The text of a decoded header block.
pub(super) struct Decoded {
    pub(super) has_content: bool,
}

impl Protocol for Decoded {
    #[inline]
    fn request_line(&self, window: &[u8]) -> Result<RequestLine, Stop> {
        request_line::parse_decoded(window)
    }

    #[inline]
    fn unframed(&self) -> BodyLength {
        match self.has_content {
            true => BodyLength::Chunked,
            false => BodyLength::None,
        }
    }

    #[inline]
    fn body_length(&self, control: &Control<'_>) -> Result<BodyLength, ErrorKind> {
        match control.content_length {
            None => Ok(self.unframed()),
            Some(1..) if !self.has_content => Err(ErrorKind::ContentLengthWithoutContent),
            _ => Ok(control.body_length()),
        }
    }
    /// The decoder writes the line `Upgrade` of an extended CONNECT; HTTP/2 has no Connection.
    #[inline]
    fn asks_websocket(&self, control: &Control<'_>, _field_section: &[u8]) -> bool {
        control.websocket.names_websocket
    }
}
