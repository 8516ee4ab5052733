//! WebSocket without I/O (RFC 6455, RFC 7692), in both roles: the handshake, frames, messages and their compression.
//!
//! [`Receiver`] takes the octets that arrive and yields messages and control frames. It unmasks where the octets are, and copies only what
//! is incomplete, fragmented or compressed. It allocates for octets that have arrived, never for a length that was announced. [`Sender`]
//! writes frames. Without memory for a message, both fail with [`NoMemory`].
//!
//! Where to read: `frame` is the header of a frame, `mask` and `utf8` are the loops over every octet, [`receiver`] is the state of what
//! arrives, `deflate` compresses messages and [`extension`] negotiates it, [`handshake`] decides about the opening handshake. Every rule has
//! a case in `vectors/`.

mod close;
mod deflate;
pub mod extension;
mod failure;
mod frame;
pub mod handshake;
mod incoming;
mod mask;
mod memory;
pub mod receiver;
mod sender;
mod utf8;

pub use close::{Close, CloseCode};
pub use deflate::{Deflater, Inflater, Inflaters, NotDeflated, WindowBits};
pub use failure::Failure;
pub use frame::{HEAD_BYTES_MAX, Opcode, Role, frame_bytes};
pub use incoming::Incoming;
pub use mask::apply_mask;
pub use memory::{NoMemory, Reserve, reserve_exact};
pub use receiver::{Content, Event, Kind, MessageLimits, Receiver};
pub use sender::{CONTROL_FRAME_BYTES_MAX, Sender};
