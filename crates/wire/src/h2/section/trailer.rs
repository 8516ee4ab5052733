//! Trailer sections (RFC 9113 8.1): no pseudo-header fields, and no field that must come before the content.

use super::{FieldAt, Part, Role, malformed};
use crate::h2::block::{BlockError, BlockLimits};
use crate::h2::kind::Kind;
use crate::trailer::is_forbidden_trailer;

/// The trailer section of a request or of a response.
pub(in crate::h2) struct Trailer;

impl Role for Trailer {
    fn pseudo(&mut self, _: Kind, _: Part, _: &[u8], _: &BlockLimits) -> Result<(), BlockError> {
        Err(malformed("A trailer section has a pseudo-header field."))
    }

    fn begin(&mut self, _: &mut Vec<u8>) -> Result<(), BlockError> {
        Ok(())
    }

    fn field(&mut self, _: Kind, line: FieldAt, text: &mut Vec<u8>) -> Result<(), BlockError> {
        let name = text.get(line.start..).unwrap_or_default();
        if is_forbidden_trailer(name.get(..line.name_len).unwrap_or_default()) {
            return Err(malformed("A field must not be in the trailer."));
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> Result<(), BlockError> {
        Ok(())
    }
}
