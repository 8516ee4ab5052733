//! The length of a message body (RFC 9112 6), and how its content is decoded.

use crate::chunked::ChunkedDecoder;
use crate::error::{ErrorKind, ProtocolError};
use crate::grammar::{is_token, trim_ows};

/// How a request's body is delimited (RFC 9112 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLength {
    /// There is no content: rule 7, or a Content-Length of 0.
    None,
    /// This many bytes: rule 6.
    Known(u64),
    /// The chunked coding delimits itself: rule 4. In HTTP/2, the end of the stream (RFC 9113 8.1).
    Chunked,
}

/// One step of decoding a message body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'a> {
    /// The next content, never empty, borrowed from the input.
    Content(&'a [u8]),
    /// The input is consumed and the message body is not complete.
    NeedMore,
    /// The message body is complete; the rest of the input belongs to the next message.
    End,
}

/// Decodes one message body, of a request or of a response.
#[derive(Clone, Debug)]
pub enum BodyDecoder {
    /// This many bytes remain.
    Length(u64),
    /// RFC 9112 7.1.
    Chunked(ChunkedDecoder),
}

impl BodyDecoder {
    /// A decoder at the first byte after the head.
    pub fn new(length: BodyLength) -> BodyDecoder {
        match length {
            BodyLength::None => BodyDecoder::Length(0),
            BodyLength::Known(bytes) => BodyDecoder::Length(bytes),
            BodyLength::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new()),
        }
    }

    /// Decodes the next piece and advances `input` past what it used.
    ///
    /// Call it until it returns [`Decoded::NeedMore`] or [`Decoded::End`]. Bytes after the end stay
    /// in `input`. Cost: no allocation, no copy.
    ///
    /// # Errors
    /// The chunked coding is malformed or exceeds a limit; `at` counts from the start of `input` as
    /// it was passed in. The connection must end: where the next message starts is unknown.
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Decoded<'a>, ProtocolError> {
        match self {
            BodyDecoder::Chunked(decoder) => decoder.decode(input),
            BodyDecoder::Length(0) => Ok(Decoded::End),
            BodyDecoder::Length(remaining) => Ok(take_content(remaining, input)),
        }
    }

    /// Skips content of known length that was read elsewhere; no effect for other framings.
    pub fn skip(&mut self, bytes: u64) {
        if let BodyDecoder::Length(remaining) = self {
            *remaining = remaining.saturating_sub(bytes);
        }
    }

    /// Remaining bytes of content, if the framing defines their number.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(remaining) => Some(*remaining),
            BodyDecoder::Chunked(_) => None,
        }
    }
}

/// Takes up to `remaining` bytes, which is not 0.
#[inline]
pub(crate) fn take_content<'a>(remaining: &mut u64, input: &mut &'a [u8]) -> Decoded<'a> {
    if input.is_empty() {
        return Decoded::NeedMore;
    }
    let len = usize::try_from(*remaining)
        .unwrap_or(usize::MAX)
        .min(input.len());
    let (content, rest) = input.split_at(len);
    *remaining -= len as u64;
    *input = rest;
    Decoded::Content(content)
}

/// `Content-Length = 1*DIGIT` (RFC 9110 8.6), fitting 64 bits.
///
/// Deviation: a list of equal numbers, which a recipient may collapse, is refused.
pub(crate) fn content_length(value: &[u8]) -> Result<u64, ErrorKind> {
    let digits = trim_ows(value);
    if digits.is_empty() {
        return Err(ErrorKind::InvalidContentLength);
    }
    digits
        .iter()
        .try_fold(0_u64, |length, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            length.checked_mul(10)?.checked_add(digit)
        })
        .ok_or(ErrorKind::InvalidContentLength)
}

/// The kinds of Transfer-Encoding values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransferCodings {
    /// The final coding is chunked, and no other is.
    pub(crate) chunked: bool,
    /// There are codings besides chunked.
    pub(crate) others: bool,
}

/// Reads a Transfer-Encoding value (RFC 9112 6.1, 7):
/// ```text
/// Transfer-Encoding  = #transfer-coding
/// transfer-coding    = token *( OWS ";" OWS transfer-parameter )
/// ```
/// Deviation: empty list members are refused, not skipped. No real sender makes them, and
/// recipients that skip them differently have disagreed on framing.
pub(crate) fn transfer_codings(value: &[u8]) -> Result<TransferCodings, ErrorKind> {
    let mut codings = TransferCodings {
        chunked: false,
        others: false,
    };
    for member in value.split(|byte| *byte == b',').map(trim_ows) {
        let name_len = member
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(member.len());
        let name = trim_ows(member.get(..name_len).unwrap_or_default());
        if !is_token(name) {
            return Err(ErrorKind::InvalidTransferEncoding);
        }
        if codings.chunked {
            return Err(ErrorKind::ChunkedNotFinal);
        }
        if !name.eq_ignore_ascii_case(b"chunked") {
            codings.others = true;
        } else if name.len() == member.len() {
            codings.chunked = true;
        } else {
            // Chunked has no parameters (RFC 9112 7.1).
            return Err(ErrorKind::InvalidTransferEncoding);
        }
    }
    Ok(codings)
}

/// Accepts the only Transfer-Encoding value that a request may have: chunked alone.
pub(crate) fn request_transfer_encoding(value: &[u8]) -> Result<(), ErrorKind> {
    match transfer_codings(value)? {
        TransferCodings { others: false, .. } => Ok(()),
        TransferCodings { others: true, .. } => Err(ErrorKind::UnknownTransferCoding),
    }
}
