//! Error codes, and what an error ends (RFC 9113 5.4, 7).

use std::fmt;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error: an orderly end.
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// This side failed.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    /// The peer exceeded a window.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// The peer did not acknowledge settings in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    /// A frame arrived for a stream that the peer had ended.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    /// A frame has a wrong length.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// The stream was refused before anything processed it: the request may be repeated.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// The stream is no longer needed.
    pub const CANCEL: ErrorCode = ErrorCode(8);
    /// A header block cannot be decoded.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// The peer causes more work than it may.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
    /// The request has to be sent over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(13);

    /// The registered name.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            _ => "unknown",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "unknown" => write!(formatter, "error {:#x}", self.0),
            name => formatter.write_str(name),
        }
    }
}

/// What a violation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One stream: RST_STREAM (RFC 9113 5.4.2).
    Stream(u32),
    /// The connection: GOAWAY (RFC 9113 5.4.1).
    Connection,
}

/// A violation of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// What it ends.
    pub scope: Scope,
    /// The error code to send.
    pub code: ErrorCode,
    /// What was wrong.
    pub reason: &'static str,
}

impl Violation {
    /// A violation that ends the connection.
    #[cold]
    pub const fn of_connection(code: ErrorCode, reason: &'static str) -> Violation {
        Violation {
            scope: Scope::Connection,
            code,
            reason,
        }
    }

    /// A violation that ends a stream.
    #[cold]
    pub const fn of_stream(stream: u32, code: ErrorCode, reason: &'static str) -> Violation {
        Violation {
            scope: Scope::Stream(stream),
            code,
            reason,
        }
    }
}
