//! The header of a frame (RFC 6455 5.2).

use super::failure::Failure;

/// The most octets of a header: two, a length of eight, a key of four.
pub const HEAD_BYTES_MAX: usize = 14;

/// The most octets of a control frame's content (RFC 6455 5.5).
pub(super) const CONTROL_BYTES_MAX: u64 = 125;

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Which side of the connection we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Our frames have no mask, the peer's must have one.
    Server,
    /// Our frames have a mask, the peer's must not have one.
    Client,
}

/// What a frame is (RFC 6455 11.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation,
    /// The first fragment of a text.
    Text,
    /// The first fragment of binary data.
    Binary,
    /// The end of the connection.
    Close,
    /// Demands a pong.
    Ping,
    /// The response to a ping, or unsolicited.
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// Whether it is a control frame, which may be between the fragments of a message.
    pub fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHead {
    pub(super) opcode: Opcode,
    /// Whether it is the last fragment of its message.
    pub(super) is_last: bool,
    /// The first reserved bit, which says that the message is compressed (RFC 7692 6).
    pub(super) is_compressed: bool,
    /// The octets of content.
    pub(super) length: u64,
    /// The key of the mask.
    pub(super) key: Option<[u8; 4]>,
}

/// Parses the header at the start of `bytes`: it and its octets, or `None` if more are needed.
///
/// Wrong bits are detected in the octet that has them, even if the rest is missing.
///
/// # Errors
/// What RFC 6455 5.1, 5.2 and 5.5 forbid for a single frame. Which frame may follow which is the receiver's matter.
#[inline]
pub(super) fn parse_head(bytes: &[u8], us: Role) -> Result<Option<(FrameHead, usize)>, Failure> {
    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let opcode = first_octet(first)?;
    let Some((&second, rest)) = rest.split_first() else {
        return Ok(None);
    };
    second_octet(opcode, second, us)?;
    let Some((length, rest)) = length(second & !MASKED, rest)? else {
        return Ok(None);
    };
    let (key, rest) = match us {
        Role::Client => (None, rest),
        Role::Server => match rest.split_first_chunk::<4>() {
            Some((key, rest)) => (Some(*key), rest),
            None => return Ok(None),
        },
    };
    let head = FrameHead {
        opcode,
        is_last: first & FIN != 0,
        is_compressed: first & RSV1 != 0,
        length,
        key,
    };
    Ok(Some((head, bytes.len() - rest.len())))
}

/// The octets of the frame at the start of `bytes`, which the peer of `us` writes; `None` if its header is wrong or not all there.
pub fn frame_bytes(bytes: &[u8], us: Role) -> Option<usize> {
    let (head, head_bytes) = parse_head(bytes, us).ok()??;
    let content_bytes = usize::try_from(head.length).ok()?;
    head_bytes.checked_add(content_bytes)
}

/// Checks the bits of the first octet.
#[inline]
fn first_octet(octet: u8) -> Result<Opcode, Failure> {
    let opcode = Opcode::of(octet & 0x0f).ok_or(Failure::ReservedOpcode)?;
    if octet & RESERVED & !RSV1 != 0 {
        return Err(Failure::ReservedBit);
    }
    if opcode.is_control() && octet & FIN == 0 {
        return Err(Failure::ControlFragmented);
    }
    // Only the first frame of a message may have the bit (RFC 7692 6).
    let may_be_compressed = matches!(opcode, Opcode::Text | Opcode::Binary);
    if octet & RSV1 != 0 && !may_be_compressed {
        return Err(Failure::ReservedBit);
    }
    Ok(opcode)
}

/// Checks the bits of the second octet.
#[inline]
fn second_octet(opcode: Opcode, octet: u8, us: Role) -> Result<(), Failure> {
    match (us, octet & MASKED != 0) {
        (Role::Server, false) => return Err(Failure::Unmasked),
        (Role::Client, true) => return Err(Failure::Masked),
        _ => {}
    }
    match opcode.is_control() && u64::from(octet & !MASKED) > CONTROL_BYTES_MAX {
        true => Err(Failure::ControlTooLong),
        false => Ok(()),
    }
}

/// The length that starts with `short`, and what follows it.
#[inline]
fn length(short: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, Failure> {
    match short {
        126 => {
            let Some((octets, rest)) = rest.split_first_chunk::<2>() else {
                return Ok(None);
            };
            let length = u64::from(u16::from_be_bytes(*octets));
            match length < 126 {
                true => Err(Failure::LengthNotMinimal),
                false => Ok(Some((length, rest))),
            }
        }
        127 => {
            let Some((octets, rest)) = rest.split_first_chunk::<8>() else {
                return Ok(None);
            };
            let length = u64::from_be_bytes(*octets);
            if length > i64::MAX as u64 {
                return Err(Failure::LengthTooLarge);
            }
            match length <= u64::from(u16::MAX) {
                true => Err(Failure::LengthNotMinimal),
                false => Ok(Some((length, rest))),
            }
        }
        short => Ok(Some((u64::from(short), rest))),
    }
}

/// Appends a header.
#[inline]
pub(super) fn push_head(out: &mut Vec<u8>, head: FrameHead) {
    let fin = if head.is_last { FIN } else { 0 };
    let compressed = if head.is_compressed { RSV1 } else { 0 };
    let masked = if head.key.is_some() { MASKED } else { 0 };
    let first = fin | compressed | head.opcode.bits();
    match head.length {
        short @ 0..126 => out.extend_from_slice(&[first, masked | short as u8]),
        medium @ 126..=0xffff => {
            out.extend_from_slice(&[first, masked | 126]);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.extend_from_slice(&[first, masked | 127]);
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
    if let Some(key) = head.key {
        out.extend_from_slice(&key);
    }
}
