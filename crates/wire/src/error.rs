//! The errors of a peer, and the one table of their status codes and reasons.

/// A message that must be refused, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Byte offset in the input of that call, if one is known, else 0.
    pub at: usize,
}

impl core::fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "{} (byte {})", self.kind.reason(), self.at)
    }
}

impl core::error::Error for ProtocolError {}

/// One variant for each kind of error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorKind {
    /// A CR that no LF follows (RFC 9112 2.2).
    BareCr,
    /// An LF that no CR precedes (RFC 9112 2.2). Deviation: a recipient may accept it; we do not.
    BareLf,
    /// The method is empty or holds a byte that a token must not (RFC 9112 3.1).
    InvalidMethod,
    /// The method is longer than any we would serve (RFC 9112 3).
    MethodTooLong,
    /// CONNECT, which only a proxy serves (RFC 9110 9.3.6).
    ConnectRefused,
    /// The request target is empty or holds a byte that must not be there (RFC 9112 3.2).
    InvalidTarget,
    /// The request target carries a fragment (RFC 9110 4.1, RFC 9112 3.2).
    FragmentInTarget,
    /// The request target has no form that fits the method (RFC 9112 3.2).
    InvalidTargetForm,
    /// The target `*` with a method other than OPTIONS (RFC 9112 3.2.4), as the preface of HTTP/2 has (RFC 9113 3.4).
    AsteriskFormWithoutOptions,
    /// An absolute-form target's authority is empty, has userinfo or is malformed (RFC 9110 4.2).
    InvalidAuthority,
    /// The request line does not end in a well-formed HTTP version (RFC 9112 2.3).
    InvalidVersion,
    /// A major version that is not supported (RFC 9110 15.6.6).
    UnsupportedVersion,
    /// The request line passes its limit (RFC 9110 15.5.15).
    RequestLineTooLong,
    /// White space before the first field line (RFC 9112 2.2).
    LeadingWhitespace,
    /// A field value continued on a second line (RFC 9112 5.2).
    ObsoleteLineFolding,
    /// A field name is empty or holds a byte that a token must not (RFC 9110 5.1).
    InvalidFieldName,
    /// White space between field name and colon (RFC 9112 5.1).
    WhitespaceBeforeColon,
    /// A field line without a colon (RFC 9112 5).
    MissingColon,
    /// A field value holds a control byte (RFC 9110 5.5).
    InvalidFieldValue,
    /// The field lines pass the limit in bytes (RFC 6585 5).
    HeaderSectionTooLarge,
    /// The field lines pass the limit in number (RFC 6585 5).
    TooManyFieldLines,
    /// An HTTP/1.1 request without Host (RFC 9112 3.2).
    MissingHost,
    /// More than one Host, even if equal (RFC 9112 3.2).
    DuplicateHost,
    /// A Host value that is not a host with an optional port (RFC 9112 3.2).
    InvalidHost,
    /// An empty Host although the target includes an authority (RFC 9112 3.2).
    EmptyHost,
    /// Content-Length is not one decimal number (RFC 9110 8.6).
    InvalidContentLength,
    /// More than one Content-Length, even if equal (RFC 9112 6.3 rule 5).
    DuplicateContentLength,
    /// Content-Length announces content, but a stream of HTTP/2 ended with its header section (RFC 9113 8.1.1).
    ContentLengthWithoutContent,
    /// Transfer-Encoding is not a list of codings (RFC 9112 6.1).
    InvalidTransferEncoding,
    /// More than one Transfer-Encoding line (RFC 9112 6.1).
    DuplicateTransferEncoding,
    /// Chunked is repeated or is not the final coding (RFC 9112 6.3 rule 4).
    ChunkedNotFinal,
    /// A transfer coding that is not implemented (RFC 9112 6.1).
    UnknownTransferCoding,
    /// Transfer-Encoding in an HTTP/1.0 message (RFC 9112 6.1).
    TransferEncodingInHttp10,
    /// Both Content-Length and Transfer-Encoding (RFC 9112 6.1).
    ContentLengthWithTransferEncoding,
    /// An expectation other than 100-continue (RFC 9110 10.1.1).
    UnknownExpectation,
    /// A chunk size is empty or not hexadecimal (RFC 9112 7.1).
    InvalidChunkSize,
    /// A chunk size that no implementation could hold (RFC 9112 7.1).
    ChunkSizeTooLarge,
    /// A chunk extension that does not follow the grammar (RFC 9112 7.1.1).
    InvalidChunkExtension,
    /// The chunk extensions of one message body pass their limit (RFC 9112 7.1.1).
    ChunkExtensionsTooLarge,
    /// Chunk data that CRLF does not follow (RFC 9112 7.1).
    InvalidChunkEnd,
    /// A trailer field that is allowed in header sections only (RFC 9110 6.5.1).
    ForbiddenTrailerField,
    /// The trailer section passes its limit in bytes (RFC 9112 7.1.2).
    TrailerSectionTooLarge,
    /// The trailer section passes its limit in lines (RFC 9112 7.1.2).
    TooManyTrailerFieldLines,
    /// A status line without version, three-digit status or well-formed reason (RFC 9112 4).
    InvalidStatusLine,
}

impl ErrorKind {
    /// The status code of the response to this error.
    ///
    /// 502 means a response that a client could not read; no response is sent for it.
    pub fn status(self) -> u16 {
        self.status_and_reason().0
    }

    /// One short sentence for the response's content and the debug log.
    pub fn reason(self) -> &'static str {
        self.status_and_reason().1
    }

    /// The table.
    #[cold]
    fn status_and_reason(self) -> (u16, &'static str) {
        match self {
            ErrorKind::BareCr => (400, "A CR is not followed by LF."),
            ErrorKind::BareLf => (400, "A line ends in LF without CR."),
            ErrorKind::InvalidMethod => (400, "The method is not a token."),
            ErrorKind::MethodTooLong => (501, "The method is too long."),
            ErrorKind::ConnectRefused => (501, "CONNECT is not served: this is not a proxy."),
            ErrorKind::InvalidTarget => (400, "The request target holds a forbidden byte."),
            ErrorKind::FragmentInTarget => (400, "The request target has a fragment."),
            ErrorKind::InvalidTargetForm => (400, "The request target does not fit the method."),
            ErrorKind::AsteriskFormWithoutOptions => (
                400,
                "The target * needs OPTIONS; HTTP/2, which starts with PRI *, is not enabled.",
            ),
            ErrorKind::InvalidAuthority => (400, "The request target's authority is malformed."),
            ErrorKind::InvalidVersion => (400, "The HTTP version is malformed."),
            ErrorKind::UnsupportedVersion => (505, "This HTTP version is not supported."),
            ErrorKind::RequestLineTooLong => (414, "The request line is too long."),
            ErrorKind::LeadingWhitespace => (400, "White space precedes the first field line."),
            ErrorKind::ObsoleteLineFolding => (400, "A field value is folded over two lines."),
            ErrorKind::InvalidFieldName => (400, "A field name is not a token."),
            ErrorKind::WhitespaceBeforeColon => (400, "White space follows a field name."),
            ErrorKind::MissingColon => (400, "A field line has no colon."),
            ErrorKind::InvalidFieldValue => (400, "A field value holds a control byte."),
            ErrorKind::HeaderSectionTooLarge => (431, "The header section is too large."),
            ErrorKind::TooManyFieldLines => (431, "There are too many field lines."),
            ErrorKind::MissingHost => (400, "Host is missing."),
            ErrorKind::DuplicateHost => (400, "Host is given more than once."),
            ErrorKind::InvalidHost => (400, "Host is malformed."),
            ErrorKind::EmptyHost => (400, "Host is empty although the target has an authority."),
            ErrorKind::InvalidContentLength => (400, "Content-Length is not a decimal number."),
            ErrorKind::DuplicateContentLength => (400, "Content-Length is given more than once."),
            ErrorKind::ContentLengthWithoutContent => {
                (400, "Content-Length announces content that is missing.")
            }
            ErrorKind::InvalidTransferEncoding => (400, "Transfer-Encoding is malformed."),
            ErrorKind::DuplicateTransferEncoding => {
                (400, "Transfer-Encoding is given more than once.")
            }
            ErrorKind::ChunkedNotFinal => (400, "Chunked is not the single final coding."),
            ErrorKind::UnknownTransferCoding => (501, "A transfer coding is not implemented."),
            ErrorKind::TransferEncodingInHttp10 => (400, "Transfer-Encoding in HTTP/1.0."),
            ErrorKind::ContentLengthWithTransferEncoding => (
                400,
                "Content-Length and Transfer-Encoding exclude each other.",
            ),
            ErrorKind::UnknownExpectation => (417, "Only 100-continue can be expected."),
            ErrorKind::InvalidChunkSize => (400, "A chunk size is not hexadecimal."),
            ErrorKind::ChunkSizeTooLarge => (400, "A chunk size is too large."),
            ErrorKind::InvalidChunkExtension => (400, "A chunk extension is malformed."),
            ErrorKind::ChunkExtensionsTooLarge => (413, "The chunk extensions are too large."),
            ErrorKind::InvalidChunkEnd => (400, "A chunk is longer than its size."),
            ErrorKind::ForbiddenTrailerField => (400, "A field must not be in the trailer."),
            ErrorKind::TrailerSectionTooLarge => (431, "The trailer section is too large."),
            ErrorKind::TooManyTrailerFieldLines => (431, "There are too many trailer lines."),
            ErrorKind::InvalidStatusLine => (502, "The status line is malformed."),
        }
    }
}

/// Why parsing stopped before the end: the inner form of `Incomplete` and of an error.
///
/// It lets the parsing functions use `?` for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// All available bytes are fine.
    Incomplete,
    /// Refused at this offset.
    Refused(ErrorKind, usize),
}

impl Stop {
    /// Converts it for a caller: to `incomplete`, or to an error.
    #[cold]
    pub(crate) fn into_result<T>(self, incomplete: T) -> Result<T, ProtocolError> {
        match self {
            Stop::Incomplete => Ok(incomplete),
            Stop::Refused(kind, at) => Err(ProtocolError { kind, at }),
        }
    }

    /// The same stop seen from a buffer that starts `offset` bytes earlier.
    #[cold]
    pub(crate) fn shifted(self, offset: usize) -> Stop {
        match self {
            Stop::Incomplete => Stop::Incomplete,
            Stop::Refused(kind, at) => Stop::Refused(kind, at + offset),
        }
    }
}
