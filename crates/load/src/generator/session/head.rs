//! The heads of responses: decoded, or recognised as the same bytes with the same meaning.

use wire::h2::{BlockError, BlockLimits, Decoder};
use wire::{ResponseBodyLength, ResponseHead, Version, field_lines};

use super::super::checker::{Kind, Response};
use super::request::KEPT_MAX;

/// As generous as for HTTP/1.
const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 64 * 1024,
    lines_max: 1000,
    target_bytes_max: 0,
};

/// Decodes the header blocks of one connection.
pub(super) struct Heads {
    decoder: Decoder,
    /// The last head of each kind of request.
    known: Vec<Known>,
    /// The text of the head that is decoded.
    text: Vec<u8>,
    section: Vec<u8>,
}

/// A head that did not change the table, so it has the same meaning as long as nothing else does.
#[derive(Default)]
struct Known {
    block: Vec<u8>,
    kind: usize,
    generation: u64,
    /// The start of its response; `None`: there is none yet.
    start: Option<Start>,
}

/// What a head means for the response that it begins.
#[derive(Clone, Copy)]
pub(in super::super) struct Start {
    pub(in super::super) status: u16,
    /// Bytes of the frames.
    pub(in super::super) head_bytes: u64,
    /// The announced length of the content.
    pub(in super::super) length: Option<u64>,
    /// The head is as expected.
    pub(in super::super) is_same: bool,
}

/// The meaning of a block.
#[derive(PartialEq, Eq)]
pub(super) enum Meaning {
    /// The response begins.
    Final,
    /// 1xx: its response will follow.
    Interim,
}

impl Heads {
    pub(super) fn new(kinds: usize) -> Heads {
        let mut known = Vec::new();
        known.resize_with(kinds.clamp(1, KEPT_MAX), Known::default);
        Heads {
            decoder: Decoder::new(wire::h2::settings::TABLE_BYTES as usize),
            known,
            text: Vec::new(),
            section: Vec::new(),
        }
    }

    /// Begins the response to a request of this kind with a header block, which took `head_bytes` in frames.
    ///
    /// # Errors
    /// Why the response, or the connection, must be refused.
    #[inline]
    pub(super) fn begin(
        &mut self,
        block: &[u8],
        head_bytes: usize,
        index: usize,
        kind: &Kind,
        response: &mut Response,
    ) -> Result<Meaning, BlockError> {
        let place = index % self.known.len().max(1);
        if let Some(known) = self.known.get(place)
            && let Some(start) = &known.start
            && known.generation == self.decoder.generation()
            && known.kind == index
            && known.block == block
        {
            response.repeat(start);
            return Ok(Meaning::Final);
        }
        self.decode(block, head_bytes, index, kind, response)
    }

    fn decode(
        &mut self,
        block: &[u8],
        head_bytes: usize,
        index: usize,
        kind: &Kind,
        response: &mut Response,
    ) -> Result<Meaning, BlockError> {
        let generation = self.decoder.generation();
        let status = self.decoder.response(block, &LIMITS, &mut self.section)?;
        if status < 200 {
            response.skip_interim(head_bytes);
            return Ok(Meaning::Interim);
        }
        let length = match kind.is_head() || matches!(status, 204 | 304) {
            true => Some(0),
            false => content_length(&self.section)?,
        };
        self.text.clear();
        self.text
            .extend_from_slice(format!("HTTP/2.0 {status}\r\n").as_bytes());
        let line_len = self.text.len();
        self.text.extend_from_slice(&self.section);
        let head = ResponseHead {
            bytes: &self.text,
            consumed: head_bytes,
            status,
            version: Version::Http2,
            reason: b"",
            field_section: self.text.get(line_len..).unwrap_or_default(),
            body_length: length.map_or(ResponseBodyLength::UntilClose, ResponseBodyLength::Known),
            persistent: true,
        };
        kind.note_first(&head);
        let start = response.start_framed(kind, &head, length);
        let place = index % self.known.len().max(1);
        if let Some(known) = self.known.get_mut(place) {
            known.start = start.filter(|_| generation == self.decoder.generation());
            known.generation = generation;
            known.kind = index;
            known.block.clear();
            known.block.extend_from_slice(block);
        }
        Ok(Meaning::Final)
    }

    /// Reads a trailer section, of which only the form and the changes of the table matter.
    ///
    /// # Errors
    /// Why the response, or the connection, must be refused.
    pub(super) fn trailers(&mut self, block: &[u8]) -> Result<(), BlockError> {
        self.decoder.trailers(block, &LIMITS, &mut self.section)
    }

    /// Reads a block of which only the changes of the table matter.
    ///
    /// # Errors
    /// If the connection must be refused.
    pub(super) fn skip(&mut self, block: &[u8]) -> Result<(), BlockError> {
        self.decoder.skip(block)
    }
}

/// The announced length of the content, if there is one.
fn content_length(section: &[u8]) -> Result<Option<u64>, BlockError> {
    let is_length = |it: &(&[u8], &[u8])| it.0.eq_ignore_ascii_case(b"content-length");
    let Some((_, value)) = field_lines(section).find(is_length) else {
        return Ok(None);
    };
    let digits = std::str::from_utf8(value).ok();
    let digits = digits.filter(|it| it.bytes().all(|digit| digit.is_ascii_digit()));
    let length = digits.and_then(|it| it.parse().ok());
    length.map(Some).ok_or(BlockError::Malformed(
        "Content-Length is not the length of a content.",
    ))
}
