//! Frames (RFC 9113 4, 6): bytes to frames and back.
//!
//! [`parse`] checks everything about a frame that does not depend on the state of its stream or connection. A frame is complete or not:
//! no part of a payload is passed on before the rest.

use super::error::{ErrorCode, Violation};
use super::settings::{self, SettingsPayload};

/// What a client sends first (RFC 9113 3.4); a SETTINGS frame follows.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// Every endpoint accepts payloads of this length (RFC 9113 4.2).
pub const FRAME_BYTES_MAX: usize = 16_384;
/// Stream identifiers have 31 bits.
pub const STREAM_MAX: u32 = 0x7fff_ffff;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 0x10;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;

/// One frame, borrowed from the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A part of a content.
    Data {
        /// The stream.
        stream: u32,
        /// The content, without padding.
        content: &'a [u8],
        /// What it takes of the windows: the whole payload (RFC 9113 6.9.1).
        window_bytes: u32,
        /// The content ends.
        is_last: bool,
    },
    /// The start of a header block.
    Headers {
        /// The stream.
        stream: u32,
        /// A fragment of the block.
        block: &'a [u8],
        /// Nothing follows the block on this stream.
        is_last: bool,
        /// The block is complete.
        is_whole: bool,
        /// The stream depends on itself (RFC 7540 5.3.1).
        depends_on_itself: bool,
    },
    /// More of a header block.
    Continuation {
        /// The stream.
        stream: u32,
        /// A fragment of the block.
        block: &'a [u8],
        /// The block is complete.
        is_whole: bool,
    },
    /// The sender ends a stream.
    ResetStream {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// Settings of the sender.
    Settings(SettingsPayload<'a>),
    /// The sender has applied our settings.
    SettingsAck,
    /// To be returned.
    Ping([u8; 8]),
    /// A ping of ours that returned.
    Pong([u8; 8]),
    /// The sender accepts no more streams.
    GoAway {
        /// The last stream that it processes.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// More room for content; on stream 0, for that of the connection.
    WindowUpdate {
        /// The stream.
        stream: u32,
        /// Bytes, not 0.
        increment: u32,
    },
    /// PRIORITY, which has no effect (RFC 9113 5.3.2).
    Priority {
        /// The stream.
        stream: u32,
    },
    /// The client wants a response sooner or later than it has said before (RFC 9218 7.1).
    PriorityUpdate {
        /// The stream of the response, not 0.
        stream: u32,
        /// As a value of the field `priority`.
        value: &'a [u8],
    },
    /// A type that is not known, which is ignored (RFC 9113 4.1).
    Unknown {
        /// The type.
        kind: u8,
    },
}

/// The result of [`parse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// A frame, and the number of bytes that it takes.
    Frame(Frame<'a>, usize),
    /// The frame has not arrived as a whole.
    Incomplete,
    /// A frame that violates the rules of its own stream only, and the number of bytes that it takes.
    Violated(Violation, usize),
}

/// Parses the frame at the start of `input`. Cost: one look at its header; no copy.
///
/// # Errors
/// If the connection must end.
#[inline]
pub fn parse(input: &[u8], payload_bytes_max: usize) -> Result<Parsed<'_>, Violation> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Parsed::Incomplete);
    };
    let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *header;
    let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
    let stream = u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_MAX;
    if length > payload_bytes_max {
        return Err(Violation::of_connection(
            ErrorCode::FRAME_SIZE_ERROR,
            "a frame is longer than allowed",
        ));
    }
    check_header(kind, flags, stream, length)?;
    let Some(payload) = rest.get(..length) else {
        return Ok(Parsed::Incomplete);
    };
    let used = HEADER_BYTES + length;
    let frame = match kind {
        DATA => data(flags, stream, payload)?,
        HEADERS => headers(flags, stream, payload)?,
        CONTINUATION => Frame::Continuation {
            stream,
            block: payload,
            is_whole: flags & END_HEADERS != 0,
        },
        WINDOW_UPDATE => match number(payload) & STREAM_MAX {
            0 if stream == 0 => return Err(no_increment(stream)),
            0 => return Ok(Parsed::Violated(no_increment(stream), used)),
            increment => Frame::WindowUpdate { stream, increment },
        },
        PRIORITY if payload.len() != 5 => return Ok(Parsed::Violated(bad_priority(stream), used)),
        PRIORITY if number(payload) & STREAM_MAX == stream => {
            return Ok(Parsed::Violated(depends_on_itself(stream), used));
        }
        PRIORITY => Frame::Priority { stream },
        RST_STREAM => Frame::ResetStream {
            stream,
            code: ErrorCode(number(payload)),
        },
        SETTINGS if flags & ACK != 0 => Frame::SettingsAck,
        SETTINGS => Frame::Settings(SettingsPayload::new(payload)?),
        PING => ping(flags, payload),
        GOAWAY => Frame::GoAway {
            last_stream: number(payload) & STREAM_MAX,
            code: ErrorCode(number(payload.get(4..).unwrap_or_default())),
        },
        PRIORITY_UPDATE => priority_update(payload)?,
        _ => Frame::Unknown { kind },
    };
    Ok(Parsed::Frame(frame, used))
}

/// A DATA frame of which a part has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialData {
    /// Its stream.
    pub stream: u32,
    /// The length that it will have, padding included.
    pub payload_bytes: u32,
    /// How much of its content has arrived, without padding.
    pub content_bytes: u32,
}

/// The DATA frame at the start of `input`, of which at least the header has arrived; None for other frames.
pub fn partial_data(input: &[u8]) -> Option<PartialData> {
    let (header, payload) = input.split_first_chunk::<HEADER_BYTES>()?;
    let [l0, l1, l2, DATA, flags, s0, s1, s2, s3] = *header else {
        return None;
    };
    let payload_bytes = u32::from_be_bytes([0, l0, l1, l2]);
    let (length, arrived) = match (flags & PADDED != 0, payload) {
        (false, _) => (payload_bytes, payload.len()),
        (true, []) => (0, 0),
        (true, [padding_bytes, rest @ ..]) => {
            let length = payload_bytes.saturating_sub(1 + u32::from(*padding_bytes));
            (length, rest.len())
        }
    };
    Some(PartialData {
        stream: u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_MAX,
        payload_bytes,
        content_bytes: length.min(u32::try_from(arrived).unwrap_or(u32::MAX)),
    })
}

/// Checks the length and the stream that frames of a type must have. Wrong ones end the connection, before the payload arrives.
#[inline]
fn check_header(kind: u8, flags: u8, stream: u32, length: usize) -> Result<(), Violation> {
    let (is_stream_right, is_length_right) = match kind {
        DATA | HEADERS | CONTINUATION | PRIORITY => (stream != 0, true),
        RST_STREAM => (stream != 0, length == 4),
        SETTINGS if flags & ACK != 0 => (stream == 0, length == 0),
        SETTINGS => (stream == 0, length.is_multiple_of(settings::SETTING_BYTES)),
        PING => (stream == 0, length == 8),
        PRIORITY_UPDATE => (stream == 0, length >= 4),
        GOAWAY => (stream == 0, length >= 8),
        WINDOW_UPDATE => (true, length == 4),
        // No endpoint of this crate allows them (RFC 9113 6.6, 8.4).
        PUSH_PROMISE => (false, true),
        _ => (true, true),
    };
    if !is_stream_right {
        return Err(Violation::of_connection(
            ErrorCode::PROTOCOL_ERROR,
            "a frame of this type is not allowed on this stream",
        ));
    }
    match is_length_right {
        true => Ok(()),
        false => Err(Violation::of_connection(
            ErrorCode::FRAME_SIZE_ERROR,
            "a frame has the wrong length for its type",
        )),
    }
}

#[inline]
fn data(flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, Violation> {
    Ok(Frame::Data {
        stream,
        content: without_padding(flags, payload)?,
        window_bytes: payload.len() as u32,
        is_last: flags & END_STREAM != 0,
    })
}

#[inline]
fn headers(flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, Violation> {
    let mut block = without_padding(flags, payload)?;
    let mut depends_on_itself = false;
    if flags & HAS_PRIORITY != 0 {
        let Some((priority, rest)) = block.split_first_chunk::<5>() else {
            return Err(Violation::of_connection(
                ErrorCode::FRAME_SIZE_ERROR,
                "a HEADERS frame is too short for its priority",
            ));
        };
        depends_on_itself = number(priority) & STREAM_MAX == stream;
        block = rest;
    }
    Ok(Frame::Headers {
        stream,
        block,
        is_last: flags & END_STREAM != 0,
        is_whole: flags & END_HEADERS != 0,
        depends_on_itself,
    })
}

#[inline]
fn without_padding(flags: u8, payload: &[u8]) -> Result<&[u8], Violation> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let padded = payload.split_first().and_then(|(padding, rest)| {
        let length = rest.len().checked_sub(usize::from(*padding))?;
        rest.get(..length)
    });
    padded.ok_or(Violation::of_connection(
        ErrorCode::PROTOCOL_ERROR,
        "the padding is longer than the frame",
    ))
}

fn ping(flags: u8, payload: &[u8]) -> Frame<'_> {
    let data = payload.first_chunk().copied().unwrap_or_default();
    match flags & ACK != 0 {
        true => Frame::Pong(data),
        false => Frame::Ping(data),
    }
}

#[cold]
fn priority_update(payload: &[u8]) -> Result<Frame<'_>, Violation> {
    match number(payload) & STREAM_MAX {
        0 => Err(Violation::of_connection(
            ErrorCode::PROTOCOL_ERROR,
            "a PRIORITY_UPDATE frame is for stream 0",
        )),
        stream => Ok(Frame::PriorityUpdate {
            stream,
            value: payload.get(4..).unwrap_or_default(),
        }),
    }
}

#[inline]
fn number(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cold]
fn no_increment(stream: u32) -> Violation {
    let reason = "a WINDOW_UPDATE has an increment of 0";
    match stream {
        0 => Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason),
        stream => Violation::of_stream(stream, ErrorCode::PROTOCOL_ERROR, reason),
    }
}

#[cold]
fn bad_priority(stream: u32) -> Violation {
    let reason = "a PRIORITY frame has the wrong length";
    Violation::of_stream(stream, ErrorCode::FRAME_SIZE_ERROR, reason)
}

/// A stream depends on itself (RFC 7540 5.3.1).
#[cold]
pub fn depends_on_itself(stream: u32) -> Violation {
    let reason = "a stream depends on itself";
    Violation::of_stream(stream, ErrorCode::PROTOCOL_ERROR, reason)
}

// Writing.

#[inline]
fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER_BYTES] {
    let [_, l0, l1, l2] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [l0, l1, l2, kind, flags, s0, s1, s2, s3]
}

/// Appends the header of a DATA frame; `length` bytes of content have to follow.
#[inline]
pub fn push_data_header(out: &mut Vec<u8>, stream: u32, length: usize, is_last: bool) {
    let flags = if is_last { END_STREAM } else { 0 };
    out.extend_from_slice(&header(length, DATA, flags, stream));
}

/// Appends a DATA frame.
#[inline]
pub fn push_data(out: &mut Vec<u8>, stream: u32, content: &[u8], is_last: bool) {
    push_data_header(out, stream, content.len(), is_last);
    out.extend_from_slice(content);
}

/// Appends HEADERS with the block that `write` appends, and CONTINUATION frames if it is longer than `payload_bytes_max`.
#[inline]
pub fn push_headers(
    out: &mut Vec<u8>,
    stream: u32,
    is_last: bool,
    payload_bytes_max: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    write(out);
    let length = out.len() - start - HEADER_BYTES;
    if length > payload_bytes_max {
        return split_headers(out, start, stream, is_last, payload_bytes_max);
    }
    let flags = END_HEADERS | if is_last { END_STREAM } else { 0 };
    if let Some(place) = out.get_mut(start..start + HEADER_BYTES) {
        place.copy_from_slice(&header(length, HEADERS, flags, stream));
    }
}

#[cold]
fn split_headers(
    out: &mut Vec<u8>,
    start: usize,
    stream: u32,
    is_last: bool,
    payload_bytes_max: usize,
) {
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let last = block.len().div_ceil(payload_bytes_max.max(1)) - 1;
    for (index, fragment) in block.chunks(payload_bytes_max.max(1)).enumerate() {
        let (kind, mut flags) = match index {
            0 if is_last => (HEADERS, END_STREAM),
            0 => (HEADERS, 0),
            _ => (CONTINUATION, 0),
        };
        flags |= if index == last { END_HEADERS } else { 0 };
        out.extend_from_slice(&header(fragment.len(), kind, flags, stream));
        out.extend_from_slice(fragment);
    }
}

/// Appends RST_STREAM.
pub fn push_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    out.extend_from_slice(&header(4, RST_STREAM, 0, stream));
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends SETTINGS: identifiers and values.
pub fn push_settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    let length = values.len() * settings::SETTING_BYTES;
    out.extend_from_slice(&header(length, SETTINGS, 0, 0));
    for (identifier, value) in values {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of settings.
pub fn push_settings_ack(out: &mut Vec<u8>) {
    out.extend_from_slice(&header(0, SETTINGS, ACK, 0));
}

/// Appends PRIORITY_UPDATE; `value` is that of the field `priority`.
pub fn push_priority_update(out: &mut Vec<u8>, stream: u32, value: &[u8]) {
    out.extend_from_slice(&header(4 + value.len(), PRIORITY_UPDATE, 0, 0));
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends PING.
pub fn push_ping(out: &mut Vec<u8>, data: [u8; 8]) {
    out.extend_from_slice(&header(8, PING, 0, 0));
    out.extend_from_slice(&data);
}

/// Appends the response to a PING.
pub fn push_pong(out: &mut Vec<u8>, data: [u8; 8]) {
    out.extend_from_slice(&header(8, PING, ACK, 0));
    out.extend_from_slice(&data);
}

/// Appends GOAWAY; `reason` is for humans.
pub fn push_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, reason: &str) {
    out.extend_from_slice(&header(8 + reason.len(), GOAWAY, 0, 0));
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
}

/// Appends WINDOW_UPDATE.
pub fn push_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    out.extend_from_slice(&header(4, WINDOW_UPDATE, 0, stream));
    out.extend_from_slice(&increment.to_be_bytes());
}
