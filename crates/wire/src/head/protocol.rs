//! What differs between a head of HTTP/1 and the text of a decoded header block of HTTP/2.

use super::Control;
use super::request_line::{self, RequestLine};
use crate::error::{ErrorKind, Stop};
use crate::framing::BodyLength;

/// The protocol that a head is of.
pub(super) trait Protocol {
    fn request_line(&self, window: &[u8]) -> Result<RequestLine, Stop>;
    /// How the content is delimited if no field says it.
    fn unframed(&self) -> BodyLength;
    fn body_length(&self, control: &Control<'_>) -> Result<BodyLength, ErrorKind>;
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
}
