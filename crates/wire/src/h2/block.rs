//! Limits on a header block, and why one is refused.

/// Limits on one decoded header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes of all fields, decoded: name, value and 32 for each (RFC 9113 6.5.2), pseudo-header fields and cookie crumbs included.
    pub section_bytes_max: usize,
    /// Number of fields, cookie crumbs included; pseudo-header fields are not counted, because each may appear only once.
    pub lines_max: usize,
    /// Bytes of `:path`.
    pub target_bytes_max: usize,
}

/// Why a header block is refused.
///
/// After every variant but the first, the table is in step with the peer's, so other streams of the connection can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockError {
    /// The block cannot be decoded, or copies far more from the table than it has octets: a connection error of type COMPRESSION_ERROR (RFC 9113 4.3).
    Compression,
    /// The message is malformed: a stream error of type PROTOCOL_ERROR (RFC 9113 8.1.1). One sentence says why.
    Malformed(&'static str),
    /// The fields pass a limit in bytes or number: status 431.
    TooLarge,
    /// `:path` passes its limit: status 414.
    TargetTooLong,
    /// An extended CONNECT for something else than WebSocket: status 501 (RFC 9220 3).
    UnknownProtocol,
}

impl core::fmt::Display for BlockError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(match self {
            BlockError::Compression => "The header block cannot be decoded.",
            BlockError::Malformed(reason) => reason,
            BlockError::TooLarge => "The header section is too large.",
            BlockError::TargetTooLong => "The request target is too long.",
            BlockError::UnknownProtocol => "Extended CONNECT is for WebSocket only.",
        })
    }
}

impl core::error::Error for BlockError {}
