//! The content of a close frame (RFC 6455 5.5.1, 7.4).

use super::failure::Failure;

/// Why a connection closes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The purpose is fulfilled.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The peer goes away: a page is left, a server stops.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// Data of a kind that is not accepted.
    pub const UNSUPPORTED: CloseCode = CloseCode(1003);
    /// There was no code. Never in a frame.
    pub const NO_STATUS: CloseCode = CloseCode(1005);
    /// The connection ended without a close frame. Never in a frame.
    pub const ABNORMAL: CloseCode = CloseCode(1006);
    /// Content that does not fit its kind, such as text that is not UTF-8.
    pub const INVALID_CONTENT: CloseCode = CloseCode(1007);
    /// A violation of the application's policy.
    pub const POLICY: CloseCode = CloseCode(1008);
    /// A message is too big.
    pub const TOO_BIG: CloseCode = CloseCode(1009);
    /// The server failed.
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);
    /// The server restarts; the client may connect again.
    pub const SERVICE_RESTART: CloseCode = CloseCode(1012);
    /// The server is overloaded.
    pub const TRY_AGAIN_LATER: CloseCode = CloseCode(1013);

    /// Whether it may be in a close frame: registered for that, or in the ranges of libraries and applications (RFC 6455 7.4.2).
    pub fn is_sendable(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// Code and reason of a close frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Close {
    /// The code; `None` if the frame has no content.
    pub code: Option<CloseCode>,
    /// The reason, at most 123 octets.
    pub reason: String,
}

impl Close {
    /// A code with a reason, of which a close frame has room for the start.
    pub fn new(code: CloseCode, reason: &str) -> Close {
        Close {
            code: Some(code),
            reason: fitting(reason).to_owned(),
        }
    }
}

/// The most octets that a reason has room for (RFC 6455 5.5).
pub(super) const REASON_BYTES_MAX: usize = 123;

/// Parses the content of a close frame, unmasked.
///
/// # Errors
/// If it has one octet, a code that must not be sent, or a reason that is not UTF-8.
pub(super) fn parse_close(content: &[u8]) -> Result<Close, Failure> {
    let Some((code, reason)) = content.split_first_chunk::<2>() else {
        return match content {
            [] => Ok(Close {
                code: None,
                reason: String::new(),
            }),
            _ => Err(Failure::CloseTooShort),
        };
    };
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.is_sendable() {
        return Err(Failure::CloseCodeInvalid);
    }
    match str::from_utf8(reason) {
        Ok(reason) => Ok(Close {
            code: Some(code),
            reason: reason.to_owned(),
        }),
        Err(_) => Err(Failure::CloseReasonNotUtf8),
    }
}

/// The reason, cut at a character so that it fits into a close frame.
pub(super) fn fitting(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default()
}
