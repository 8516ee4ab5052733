//! The head of a response, as a client reads it (RFC 9113 8.3.2).

use super::{FieldAt, Part, Role, malformed};
use crate::h2::block::{BlockError, BlockLimits};
use crate::h2::kind::Kind;

/// What is known of the response.
#[derive(Default)]
pub(in crate::h2) struct Response {
    /// From 100 to 999; 0 until it is known.
    pub(in crate::h2) status: u16,
    has_content_length: bool,
}

impl Role for Response {
    fn pseudo(
        &mut self,
        kind: Kind,
        part: Part,
        text: &[u8],
        _: &BlockLimits,
    ) -> Result<(), BlockError> {
        if kind != Kind::Status {
            return Err(malformed(
                "A response has a pseudo-header field of a request.",
            ));
        }
        if self.status != 0 {
            return Err(malformed("The status is given more than once."));
        }
        let digits = text.get(part.0..part.1).unwrap_or_default();
        let number = |number, digit: &u8| number * 10 + u16::from(digit.wrapping_sub(b'0'));
        self.status = digits.iter().take(3).fold(0, number);
        if self.status == 101 {
            return Err(malformed("HTTP/2 has no status 101."));
        }
        Ok(())
    }

    fn begin(&mut self, text: &mut Vec<u8>) -> Result<(), BlockError> {
        if self.status == 0 {
            return Err(malformed("The status is missing."));
        }
        text.clear();
        Ok(())
    }

    fn field(&mut self, kind: Kind, _: FieldAt, _: &mut Vec<u8>) -> Result<(), BlockError> {
        let is_content_length = kind == Kind::ContentLength;
        if is_content_length && self.has_content_length {
            return Err(malformed("Content-Length is given more than once."));
        }
        self.has_content_length |= is_content_length;
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> Result<(), BlockError> {
        Ok(())
    }
}
