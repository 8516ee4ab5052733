//! Writing a response in HTTP/2 frames, during its call.

use wire::h2::{Encoder, frame};

use super::fields::Replaced;
use super::{Fields, Responder};
use crate::id::ConnectionId;

/// What a call needs to write frames: the connection's encoder, and the stream with its windows.
#[derive(Default)]
pub(crate) struct FrameWriter {
    /// Lent by the connection for the call.
    pub(crate) encoder: Encoder,
    pub(crate) stream: u32,
    /// How much content may be sent now.
    pub(crate) window_bytes: usize,
    /// Longest payload of a frame that the peer accepts.
    pub(crate) payload_bytes_max: usize,
    /// Content that was written and is not in a frame yet.
    pub(crate) content: Vec<u8>,
    /// Bytes of content that are in frames.
    pub(crate) framed_bytes: usize,
    /// The stream was ended on this side.
    pub(crate) has_ended: bool,
    last: LastBlock,
}

/// The header block of the last usual response. It may be repeated on the same connection while the encoder's table stays the same.
#[derive(Default)]
struct LastBlock {
    connection: ConnectionId,
    generation: u64,
    length: usize,
    lines: Vec<u8>,
    block: Vec<u8>,
}

impl FrameWriter {
    /// Forgets the last block: the common fields have changed.
    pub(super) fn forget_last(&mut self) {
        self.last.block.clear();
    }
}

impl LastBlock {
    fn is_for(
        &self,
        connection: ConnectionId,
        generation: u64,
        lines: &[u8],
        length: usize,
    ) -> bool {
        self.connection == connection
            && self.generation == generation
            && self.length == length
            && !self.block.is_empty()
            && self.lines == lines
    }
}

impl Responder {
    /// As [`Responder::respond`], in frames. What the windows do not allow to be sent stays in `frames.content`.
    pub(super) fn respond_in_frames(&mut self, status: u16, fields: Fields<'_>, content: &[u8]) {
        let may_have = wire::may_generate_content(status);
        let length = if may_have { content.len() } else { 0 };
        let announced = wire::has_content(status).then_some(length as u64);
        let sent = match may_have && !self.framing.is_head {
            true => content,
            false => b"",
        };
        self.push_block(status, fields, announced, sent.is_empty());
        self.content_bytes = sent.len() as u64;
        let frames = &mut self.frames;
        if sent.is_empty() {
            frames.has_ended = true;
        } else if sent.len() <= frames.window_bytes.min(frames.payload_bytes_max) {
            frame::push_data(&mut self.out, frames.stream, sent, true);
            frames.framed_bytes = sent.len();
            frames.has_ended = true;
            self.is_usual = self.sent_bytes == 0;
        } else {
            frames.content.extend_from_slice(sent);
        }
    }

    /// As [`Responder::begin`], in frames.
    pub(super) fn begin_in_frames(
        &mut self,
        status: u16,
        fields: Fields<'_>,
        length: Option<u64>,
    ) -> bool {
        let is_open = wire::may_generate_content(status) && !self.framing.is_head;
        self.push_block(status, fields, length, !is_open);
        self.frames.has_ended = !is_open;
        self.is_open = is_open;
        is_open
    }

    /// Appends HEADERS. A usual response on the connection of the previous one repeats its block.
    fn push_block(&mut self, status: u16, fields: Fields<'_>, length: Option<u64>, is_last: bool) {
        self.status = status;
        self.keep_lines(fields);
        let Responder {
            out, frames, stamp, ..
        } = self;
        let FrameWriter { encoder, last, .. } = frames;
        let is_usual = status == 200 && fields.replaced == Replaced::default();
        let usual_length = length.filter(|_| is_usual).map(|length| length as usize);
        let (stream, bytes_max) = (frames.stream, frames.payload_bytes_max);
        if let Some(length) = usual_length
            && last.is_for(self.connection, encoder.generation(), fields.lines, length)
        {
            let block = &last.block;
            return frame::push_headers(out, stream, is_last, bytes_max, |out| {
                out.extend_from_slice(block);
            });
        }
        let sections = stamp.sections(fields);
        let start = out.len();
        let before = encoder.generation();
        frame::push_headers(out, stream, is_last, bytes_max, |out| {
            encoder.response(status, &sections, length, out);
        });
        let Some(length) = usual_length else { return };
        let block = out.get(start + frame::HEADER_BYTES..).unwrap_or_default();
        last.block.clear();
        // A block that changed the table must not be repeated.
        if encoder.generation() == before && block.len() <= bytes_max {
            last.block.extend_from_slice(block);
            last.connection = self.connection;
            last.generation = before;
            last.length = length;
            last.lines.clear();
            last.lines.extend_from_slice(fields.lines);
        }
    }
}
