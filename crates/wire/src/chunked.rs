//! The chunked transfer coding (RFC 9112 7.1).
//!
//! ```text
//! chunked-body = *chunk last-chunk trailer-section CRLF
//! chunk        = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
//! chunk-size   = 1*HEXDIG
//! last-chunk   = 1*("0") [ chunk-ext ] CRLF
//! chunk-ext    = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
//! chunk-ext-name = token
//! chunk-ext-val  = token / quoted-string
//! trailer-section = *( field-line CRLF )
//! ```
//!
//! The decoder is one enum of named states. Every byte outside chunk data goes through
//! `ChunkedDecoder::step`, so it can stop and resume at any byte, holds no buffer, and never looks
//! at a byte twice. Only CRLF ends a line: recipients that end a chunk line at a lone LF or CR,
//! even inside an extension, see other messages than their peers (CVE-2025-55315, CVE-2025-43859).

use crate::error::{ErrorKind, ProtocolError};
use crate::framing::{Decoded, take_content};
use crate::grammar::{CR, LF, is_field_value_byte, is_ows, is_tchar};
use crate::limits::{
    CHUNK_EXTENSION_BYTES_MAX, CHUNK_SIZE_MAX, TRAILER_FIELD_LINES_MAX, TRAILER_SECTION_BYTES_MAX,
};
use crate::trailer::TrailerName;

/// The state of the decoder: what the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The first digit of chunk-size.
    SizeStart,
    /// Another digit, or what may follow chunk-size.
    Size,
    /// BWS that only a ";" may follow.
    BeforeSemicolon,
    /// BWS, or the first byte of chunk-ext-name.
    ExtNameStart,
    /// Another byte of chunk-ext-name, or what may follow it.
    ExtName,
    /// BWS after chunk-ext-name.
    AfterExtName,
    /// BWS, or the first byte of chunk-ext-val.
    ExtValueStart,
    /// Another byte of a token, or what may follow chunk-ext-val.
    ExtToken,
    /// Inside the quotes of a quoted-string.
    ExtQuoted,
    /// The byte after a backslash.
    ExtQuotedPair,
    /// After the closing quote.
    ExtQuotedEnd,
    /// The LF of a chunk line.
    SizeLf,
    /// Inside chunk-data.
    Data,
    /// The CR after chunk-data.
    DataCr,
    /// The LF after chunk-data.
    DataLf,
    /// The first byte of a trailer field line, or the CR of the final CRLF.
    TrailerStart,
    /// Another byte of a trailer field name, or its colon.
    TrailerName,
    /// A trailer field value.
    TrailerValue,
    /// The LF of a trailer field line.
    TrailerLf,
    /// The LF of the final CRLF.
    EndLf,
    /// After the message body.
    End,
}

/// Decodes the chunked coding; see the [module](self) for how.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// The size being read, then the chunk data still to come.
    size: u64,
    /// Digits of the size being read.
    size_digits: u8,
    /// Bytes of extensions so far, in the whole message body.
    extension_bytes: u32,
    /// Bytes of the trailer section so far.
    trailer_bytes: u32,
    /// Trailer field lines so far.
    trailer_lines: u32,
    /// The trailer field name being read.
    trailer_name: TrailerName,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new()
    }
}

impl ChunkedDecoder {
    /// A decoder at the first byte of chunked-body.
    pub const fn new() -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::SizeStart,
            size: 0,
            size_digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_lines: 0,
            trailer_name: TrailerName::new(),
        }
    }

    /// Decodes the next piece; the contract is that of [`crate::BodyDecoder::decode`].
    ///
    /// # Errors
    /// The coding is malformed or exceeds a limit.
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Decoded<'a>, ProtocolError> {
        let available = input.len();
        loop {
            match self.state {
                State::End => return Ok(Decoded::End),
                State::Data => return Ok(self.data(input)),
                _ => {}
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(Decoded::NeedMore);
            };
            self.state = self.step(byte).map_err(|kind| ProtocolError {
                kind,
                at: available - input.len(),
            })?;
            *input = rest;
        }
    }

    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Decoded<'a> {
        let decoded = take_content(&mut self.size, input);
        if self.size == 0 {
            self.state = State::DataCr;
        }
        decoded
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, ErrorKind> {
        match self.state {
            State::SizeStart | State::Size => self.size(byte),
            State::SizeLf => self.size_lf(byte),
            State::DataCr if byte == CR => Ok(State::DataLf),
            State::DataLf if byte == LF => Ok(self.next_chunk()),
            State::DataCr | State::DataLf => Err(ErrorKind::InvalidChunkEnd),
            State::TrailerStart => self.trailer_start(byte),
            State::TrailerName => self.trailer_name(byte),
            State::TrailerValue => self.trailer_value(byte),
            State::TrailerLf | State::EndLf => self.trailer_lf(byte),
            State::Data | State::End => Ok(self.state),
            _ => self.extension(byte),
        }
    }

    fn next_chunk(&mut self) -> State {
        self.size = 0;
        self.size_digits = 0;
        State::SizeStart
    }

    fn size(&mut self, byte: u8) -> Result<State, ErrorKind> {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return self.size_end(byte);
        };
        // Leading zeros do not change a size, but their number is limited too.
        self.size_digits += 1;
        let size = self
            .size
            .checked_mul(16)
            .map(|size| size | u64::from(digit));
        match size {
            Some(size) if size <= CHUNK_SIZE_MAX && self.size_digits <= 16 => {
                self.size = size;
                Ok(State::Size)
            }
            _ => Err(ErrorKind::ChunkSizeTooLarge),
        }
    }

    fn size_end(&mut self, byte: u8) -> Result<State, ErrorKind> {
        match byte {
            _ if self.size_digits == 0 => Err(ErrorKind::InvalidChunkSize),
            CR => Ok(State::SizeLf),
            b';' | b' ' | b'\t' => self.extension(byte),
            LF => Err(ErrorKind::BareLf),
            _ => Err(ErrorKind::InvalidChunkSize),
        }
    }

    fn size_lf(&mut self, byte: u8) -> Result<State, ErrorKind> {
        match (byte, self.size) {
            (LF, 0) => Ok(State::TrailerStart),
            (LF, _) => Ok(State::Data),
            _ => Err(ErrorKind::BareCr),
        }
    }

    fn extension(&mut self, byte: u8) -> Result<State, ErrorKind> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(ErrorKind::ChunkExtensionsTooLarge);
        }
        let next = match self.state {
            State::ExtNameStart => ext_name_start(byte),
            State::ExtName => ext_name(byte),
            State::AfterExtName => after_ext_name(byte),
            State::ExtValueStart => ext_value_start(byte),
            State::ExtToken => ext_token(byte),
            State::ExtQuoted => ext_quoted(byte),
            State::ExtQuotedPair => is_field_value_byte(byte).then_some(State::ExtQuoted),
            State::BeforeSemicolon => before_semicolon(byte),
            _ => ext_end(byte),
        };
        next.ok_or(if byte == LF {
            ErrorKind::BareLf
        } else {
            ErrorKind::InvalidChunkExtension
        })
    }

    fn trailer_start(&mut self, byte: u8) -> Result<State, ErrorKind> {
        if byte == CR {
            return Ok(State::EndLf);
        }
        self.trailer_lines += 1;
        if self.trailer_lines > TRAILER_FIELD_LINES_MAX {
            return Err(ErrorKind::TooManyTrailerFieldLines);
        }
        self.trailer_name = TrailerName::new();
        match byte {
            LF => Err(ErrorKind::BareLf),
            b' ' | b'\t' if self.trailer_lines > 1 => Err(ErrorKind::ObsoleteLineFolding),
            b':' => Err(ErrorKind::InvalidFieldName),
            _ => self.trailer_name(byte),
        }
    }

    fn trailer_name(&mut self, byte: u8) -> Result<State, ErrorKind> {
        self.count_trailer_byte()?;
        match byte {
            b':' if self.trailer_name.is_forbidden() => Err(ErrorKind::ForbiddenTrailerField),
            b':' => Ok(State::TrailerValue),
            _ if is_tchar(byte) => {
                self.trailer_name.push(byte);
                Ok(State::TrailerName)
            }
            LF => Err(ErrorKind::BareLf),
            CR => Err(ErrorKind::MissingColon),
            _ if is_ows(byte) => Err(ErrorKind::WhitespaceBeforeColon),
            _ => Err(ErrorKind::InvalidFieldName),
        }
    }

    fn trailer_value(&mut self, byte: u8) -> Result<State, ErrorKind> {
        self.count_trailer_byte()?;
        match byte {
            CR => Ok(State::TrailerLf),
            LF => Err(ErrorKind::BareLf),
            _ if is_field_value_byte(byte) => Ok(State::TrailerValue),
            _ => Err(ErrorKind::InvalidFieldValue),
        }
    }

    fn trailer_lf(&mut self, byte: u8) -> Result<State, ErrorKind> {
        match (byte, self.state) {
            (LF, State::EndLf) => Ok(State::End),
            (LF, _) => self.count_trailer_byte().map(|()| State::TrailerStart),
            _ => Err(ErrorKind::BareCr),
        }
    }

    fn count_trailer_byte(&mut self) -> Result<(), ErrorKind> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_SECTION_BYTES_MAX {
            return Err(ErrorKind::TrailerSectionTooLarge);
        }
        Ok(())
    }
}

/// What may follow a complete chunk-size or chunk-ext-val.
fn ext_end(byte: u8) -> Option<State> {
    match byte {
        b';' => Some(State::ExtNameStart),
        CR => Some(State::SizeLf),
        _ => is_ows(byte).then_some(State::BeforeSemicolon),
    }
}

fn before_semicolon(byte: u8) -> Option<State> {
    match byte {
        b';' => Some(State::ExtNameStart),
        _ => is_ows(byte).then_some(State::BeforeSemicolon),
    }
}

fn ext_name_start(byte: u8) -> Option<State> {
    match byte {
        b' ' | b'\t' => Some(State::ExtNameStart),
        _ => is_tchar(byte).then_some(State::ExtName),
    }
}

fn ext_name(byte: u8) -> Option<State> {
    match byte {
        b'=' => Some(State::ExtValueStart),
        b' ' | b'\t' => Some(State::AfterExtName),
        _ if is_tchar(byte) => Some(State::ExtName),
        _ => ext_end(byte),
    }
}

fn after_ext_name(byte: u8) -> Option<State> {
    match byte {
        b'=' => Some(State::ExtValueStart),
        b' ' | b'\t' => Some(State::AfterExtName),
        _ => before_semicolon(byte),
    }
}

fn ext_value_start(byte: u8) -> Option<State> {
    match byte {
        b'"' => Some(State::ExtQuoted),
        b' ' | b'\t' => Some(State::ExtValueStart),
        _ => is_tchar(byte).then_some(State::ExtToken),
    }
}

fn ext_token(byte: u8) -> Option<State> {
    match byte {
        _ if is_tchar(byte) => Some(State::ExtToken),
        _ => ext_end(byte),
    }
}

/// `quoted-string = DQUOTE *( qdtext / quoted-pair ) DQUOTE` (RFC 9110 5.6.4); its bytes are those
/// of a field value.
fn ext_quoted(byte: u8) -> Option<State> {
    match byte {
        b'"' => Some(State::ExtQuotedEnd),
        b'\\' => Some(State::ExtQuotedPair),
        _ => is_field_value_byte(byte).then_some(State::ExtQuoted),
    }
}
