//! HTTP/2 without I/O (RFC 9113): its parts that need neither a socket nor a clock.
//!
//! [`Decoder`] and [`Encoder`] translate between header blocks and the sections that the rest of the crate has. A decoded request is
//! rendered as the text of an HTTP/1 head, which [`crate::parse_decoded_request`] accepts, so that all that reads heads exists once.
//!
//! Where to read: `hpack` is RFC 7541 (integers, strings, tables), `kind` says what one field line is, `section` checks the lines of a
//! block and writes the text, [`decoder`] and [`encoder`] connect them. Every rule has a case in `vectors/`.

pub mod block;
pub mod decoder;
pub mod encoder;
mod hpack;
mod kind;
mod section;

pub use block::{BlockError, BlockLimits};
pub use decoder::Decoder;
pub use encoder::Encoder;
