//! HTTP/2 without I/O (RFC 9113, RFC 7541), in both roles: frames, header compression, the states of streams and the windows.
//!
//! [`Decoder`] and [`Encoder`] translate between header blocks and the sections that the rest of the crate has. A decoded request is
//! rendered as the text of an HTTP/1 head, which [`crate::parse_decoded_request`] accepts, so that all that reads heads exists once.
//!
//! Where to read: [`frame`] parses and writes frames, [`settings`], [`stream`] and [`window`] are the rules of a connection; `hpack` is
//! RFC 7541 (integers, strings, tables), `kind` says what one field line is, `section` checks the lines of a block and writes the text,
//! [`decoder`] and [`encoder`] connect them; [`priority`] is RFC 9218. Every rule has a case in `vectors/`.

pub mod block;
pub mod decoder;
pub mod encoder;
pub mod error;
pub mod frame;
mod hpack;
mod kind;
pub mod priority;
mod section;
pub mod settings;
pub mod stream;
pub mod window;

pub use block::{BlockError, BlockLimits};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{ErrorCode, Scope, Violation};
pub use frame::{FRAME_BYTES_MAX, Frame, HEADER_BYTES, PREFACE, Parsed, parse};
pub use priority::Priority;
pub use stream::{Opened, State};
pub use window::{ReceiveWindow, SendWindow, WindowOverflow};
