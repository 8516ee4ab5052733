//! Writes frames.

use super::close::{Close, fitting};
use super::deflate::{Deflater, NotDeflated};
use super::frame::{CONTROL_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, Opcode, Role, push_head};
use super::mask::apply_mask;
use super::memory::NoMemory;
use super::receiver::Kind;

/// The most octets of a control frame.
pub const CONTROL_FRAME_BYTES_MAX: usize = HEAD_BYTES_MAX + CONTROL_BYTES_MAX as usize;

/// Writes the frames of one role.
///
/// A client's frames need a key that the peer cannot predict (RFC 6455 5.3): each method takes one, which a server's frames ignore.
///
/// A message that there is no memory for is an error, and `out` is as before. A control frame is short: a caller that has to go on without
/// memory reserves [`CONTROL_FRAME_BYTES_MAX`] before.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    us: Role,
}

impl Sender {
    /// The frames of `us`.
    pub fn new(us: Role) -> Sender {
        Sender { us }
    }

    /// Appends a message in one frame.
    ///
    /// # Errors
    /// If there is no memory for it.
    #[inline]
    pub fn push_message(
        self,
        out: &mut Vec<u8>,
        kind: Kind,
        content: &[u8],
        key: [u8; 4],
    ) -> Result<(), NoMemory> {
        reserve_frame(out, content.len())?;
        self.push_frame(out, kind.opcode(), false, content, key);
        Ok(())
    }

    /// Appends a message in one frame, compressed; as it is, if it cannot be compressed.
    ///
    /// Returns the octets of its content on the wire.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn push_deflated(
        self,
        out: &mut Vec<u8>,
        kind: Kind,
        content: &[u8],
        key: [u8; 4],
        deflater: &mut Deflater,
    ) -> Result<usize, NoMemory> {
        let mut compressed = Vec::new();
        let (is_compressed, content) = match deflater.deflate(content, &mut compressed) {
            Ok(()) => (true, &compressed[..]),
            Err(NotDeflated::Incomplete) => (false, content),
            Err(NotDeflated::NoMemory(lack)) => return Err(lack),
        };
        reserve_frame(out, content.len())?;
        self.push_frame(out, kind.opcode(), is_compressed, content, key);
        Ok(content.len())
    }

    /// Appends a ping with `content`, at most 125 octets.
    pub fn push_ping(self, out: &mut Vec<u8>, content: &[u8], key: [u8; 4]) {
        self.push_control(out, Opcode::Ping, content, key);
    }

    /// Appends the response to a ping with `content`, at most 125 octets.
    pub fn push_pong(self, out: &mut Vec<u8>, content: &[u8], key: [u8; 4]) {
        self.push_control(out, Opcode::Pong, content, key);
    }

    /// Appends a close frame. A reason that is too long is cut at a character; without a code there is none.
    pub fn push_close(self, out: &mut Vec<u8>, close: &Close, key: [u8; 4]) {
        let mut content = Vec::new();
        if let Some(code) = close.code {
            content.extend_from_slice(&code.0.to_be_bytes());
            content.extend_from_slice(fitting(&close.reason).as_bytes());
        }
        self.push_control(out, Opcode::Close, &content, key);
    }

    fn push_control(self, out: &mut Vec<u8>, opcode: Opcode, content: &[u8], key: [u8; 4]) {
        debug_assert!(content.len() <= 125);
        self.push_frame(out, opcode, false, content, key);
    }

    /// Appends a frame. `out` has room for it, unless it is a control frame.
    #[inline]
    fn push_frame(
        self,
        out: &mut Vec<u8>,
        opcode: Opcode,
        is_compressed: bool,
        content: &[u8],
        key: [u8; 4],
    ) {
        let key = match self.us {
            Role::Client => Some(key),
            Role::Server => None,
        };
        let head = FrameHead {
            opcode,
            is_last: true,
            is_compressed,
            length: content.len() as u64,
            key,
        };
        push_head(out, head);
        let start = out.len();
        out.extend_from_slice(content);
        if let (Some(key), Some(content)) = (key, out.get_mut(start..)) {
            apply_mask(content, key, 0);
        }
    }
}

/// Makes room for a frame with so many octets of content.
#[inline]
fn reserve_frame(out: &mut Vec<u8>, content_bytes: usize) -> Result<(), NoMemory> {
    let bytes = content_bytes.saturating_add(HEAD_BYTES_MAX);
    out.try_reserve(bytes).map_err(|_| NoMemory(bytes))
}
