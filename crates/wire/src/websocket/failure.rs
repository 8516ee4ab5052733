//! Why a connection fails (RFC 6455 7.1.7), and the close code of each reason.

use super::close::CloseCode;
use super::memory::NoMemory;

/// What the peer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Failure {
    /// A reserved bit is set that no extension defines (RFC 6455 5.2).
    ReservedBit,
    /// An opcode that is not defined (RFC 6455 5.2).
    ReservedOpcode,
    /// A client sent a frame without a mask (RFC 6455 5.1).
    Unmasked,
    /// A server sent a frame with a mask (RFC 6455 5.1).
    Masked,
    /// A length in more octets than it needs (RFC 6455 5.2).
    LengthNotMinimal,
    /// A length of more than 63 bits (RFC 6455 5.2).
    LengthTooLarge,
    /// A control frame with more than 125 octets (RFC 6455 5.5).
    ControlTooLong,
    /// A control frame in fragments (RFC 6455 5.5).
    ControlFragmented,
    /// A continuation of no message (RFC 6455 5.4).
    NothingToContinue,
    /// A new message before the end of a fragmented one (RFC 6455 5.4).
    MessageInterrupted,
    /// A close frame with one octet (RFC 6455 5.5.1).
    CloseTooShort,
    /// A close code that must not be sent (RFC 6455 7.4).
    CloseCodeInvalid,
    /// A close reason that is not UTF-8 (RFC 6455 5.5.1).
    CloseReasonNotUtf8,
    /// A text message that is not UTF-8 (RFC 6455 8.1).
    TextNotUtf8,
    /// Compressed content that cannot be decompressed (RFC 7692 7.2.2).
    NotDeflated,
    /// A message over its limit (RFC 6455 10.4).
    MessageTooLong,
    /// A message in more fragments than its limit (RFC 6455 10.4).
    TooManyFragments,
    /// There is no memory for what arrived.
    NoMemory(NoMemory),
}

impl From<NoMemory> for Failure {
    fn from(lack: NoMemory) -> Failure {
        Failure::NoMemory(lack)
    }
}

impl Failure {
    /// The code of the close frame that reports it.
    pub fn code(self) -> CloseCode {
        match self {
            Failure::CloseReasonNotUtf8 | Failure::TextNotUtf8 | Failure::NotDeflated => {
                CloseCode::INVALID_CONTENT
            }
            Failure::MessageTooLong | Failure::TooManyFragments => CloseCode::TOO_BIG,
            Failure::NoMemory(_) => CloseCode::TRY_AGAIN_LATER,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }

    /// The reason for the close frame and for logs, at most 123 octets.
    pub fn reason(self) -> &'static str {
        match self {
            Failure::ReservedBit => "a reserved bit is set",
            Failure::ReservedOpcode => "the opcode is reserved",
            Failure::Unmasked => "the frame has no mask",
            Failure::Masked => "the frame has a mask",
            Failure::LengthNotMinimal => "the length has more octets than it needs",
            Failure::LengthTooLarge => "the length has more than 63 bits",
            Failure::ControlTooLong => "the control frame has more than 125 octets",
            Failure::ControlFragmented => "the control frame is fragmented",
            Failure::NothingToContinue => "there is no message to continue",
            Failure::MessageInterrupted => "the previous message has not ended",
            Failure::CloseTooShort => "the close frame has half a code",
            Failure::CloseCodeInvalid => "the close code must not be sent",
            Failure::CloseReasonNotUtf8 => "the close reason is not UTF-8",
            Failure::TextNotUtf8 => "the text is not UTF-8",
            Failure::NotDeflated => "the content cannot be decompressed",
            Failure::MessageTooLong => "the message is too long",
            Failure::TooManyFragments => "the message has too many fragments",
            Failure::NoMemory(_) => "the server is short of memory",
        }
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl core::error::Error for Failure {}
