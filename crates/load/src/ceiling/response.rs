//! Prepared responses: each kind as one block of repetitions, so that any number of responses is a slice of it.

use super::frames::FrameBlock;

/// Minimum size of a block; a batch that needs no more bytes is sent in one send.
const BLOCK_BYTES_MIN: usize = 256 * 1024;

/// The kind of response that a connection's first request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// HTTP/1.1, stays open.
    Persistent,
    /// HTTP/1.0 that asks to keep the connection open, so the response must confirm it.
    PersistentStated,
    /// One response, then the end of the connection.
    Closing,
}

/// Responses of every kind.
pub(super) struct Responses {
    content_length: usize,
    persistent: Block,
    persistent_stated: Block,
    closing: Block,
    frames: FrameBlock,
}

/// One response, repeated.
pub(super) struct Block {
    bytes: Vec<u8>,
    response_len: usize,
}

impl Responses {
    pub(super) fn new(content_length: usize, unix_s: u64) -> Responses {
        let blank = || Block {
            bytes: Vec::new(),
            response_len: 0,
        };
        let mut responses = Responses {
            content_length,
            persistent: blank(),
            persistent_stated: blank(),
            closing: blank(),
            frames: FrameBlock::new(content_length, b""),
        };
        responses.set_date(unix_s);
        responses
    }

    /// Renders all blocks with a new date. Their lengths do not change.
    pub(super) fn set_date(&mut self, unix_s: u64) {
        let date = wire::imf_fixdate(unix_s);
        let length = self.content_length;
        self.persistent.render(&date, "", length);
        self.persistent_stated
            .render(&date, "Connection: keep-alive\r\n", length);
        self.closing.render(&date, "Connection: close\r\n", length);
        self.frames = FrameBlock::new(length, &date);
    }

    /// The response of HTTP/2.
    pub(super) fn frames(&self) -> &FrameBlock {
        &self.frames
    }

    pub(super) fn block(&self, kind: Kind) -> &Block {
        match kind {
            Kind::Persistent => &self.persistent,
            Kind::PersistentStated => &self.persistent_stated,
            Kind::Closing => &self.closing,
        }
    }
}

impl Block {
    pub(super) fn response_len(&self) -> usize {
        self.response_len
    }

    /// Up to `wanted` bytes of the endless series of responses, starting at byte `phase` of a response.
    pub(super) fn part(&self, phase: usize, wanted: usize) -> &[u8] {
        let end = (phase + wanted).min(self.bytes.len());
        self.bytes.get(phase..end).unwrap_or_default()
    }

    fn render(&mut self, date: &[u8], connection_line: &str, content_length: usize) {
        let mut response = Vec::with_capacity(200 + content_length);
        response.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: bolide\r\nDate: ");
        response.extend_from_slice(date);
        response
            .extend_from_slice(b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ");
        response.extend_from_slice(itoa::Buffer::new().format(content_length).as_bytes());
        response.extend_from_slice(b"\r\n");
        response.extend_from_slice(connection_line.as_bytes());
        response.extend_from_slice(b"\r\n");
        response.extend(b"Hello, World!".iter().cycle().take(content_length));
        self.response_len = response.len();
        self.bytes.clear();
        while self.bytes.len() < BLOCK_BYTES_MIN {
            self.bytes.extend_from_slice(&response);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_equals_that_of_bolide_to_hello() {
        let responses = Responses::new(13, 784_111_777);
        let block = responses.block(Kind::Persistent);
        let expected = "HTTP/1.1 200 OK\r\nServer: bolide\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\n\r\nHello, World!";
        assert_eq!(block.part(0, block.response_len()), expected.as_bytes());
    }

    #[test]
    fn parts_continue_each_other_across_the_block() {
        let responses = Responses::new(13, 0);
        let block = responses.block(Kind::Closing);
        let whole: Vec<u8> = block.part(0, usize::MAX / 2).to_vec();
        assert_eq!(whole.len() % block.response_len(), 0);
        assert_eq!(block.part(5, 1000), &whole[5..1005]);
        assert_eq!(block.part(block.response_len() - 1, 2), b"!H");
    }
}
