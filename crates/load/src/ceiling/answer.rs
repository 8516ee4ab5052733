//! Prepared answers: each kind as one block of repetitions, so that any number of answers is a slice of it.

/// The least size of a block; a batch that needs no more bytes leaves in one send.
const BLOCK_BYTES_MIN: usize = 256 * 1024;

/// What a connection's first request asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// HTTP/1.1, stays open.
    Persistent,
    /// HTTP/1.0 that asked to stay open, so the answer must say that it does.
    PersistentStated,
    /// One answer, then the end.
    Closing,
}

/// Answers of every kind.
pub(super) struct Answers {
    content_length: usize,
    persistent: Block,
    persistent_stated: Block,
    closing: Block,
}

/// One answer, repeated.
pub(super) struct Block {
    bytes: Vec<u8>,
    answer_len: usize,
}

impl Answers {
    pub(super) fn new(content_length: usize, unix_s: u64) -> Answers {
        let blank = || Block {
            bytes: Vec::new(),
            answer_len: 0,
        };
        let mut answers = Answers {
            content_length,
            persistent: blank(),
            persistent_stated: blank(),
            closing: blank(),
        };
        answers.set_date(unix_s);
        answers
    }

    /// Renders all blocks with a new date. Their lengths stay.
    pub(super) fn set_date(&mut self, unix_s: u64) {
        let date = wire::imf_fixdate(unix_s);
        let length = self.content_length;
        self.persistent.render(&date, "", length);
        self.persistent_stated
            .render(&date, "Connection: keep-alive\r\n", length);
        self.closing.render(&date, "Connection: close\r\n", length);
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
    pub(super) fn answer_len(&self) -> usize {
        self.answer_len
    }

    /// Up to `wanted` bytes of the endless series of answers, from byte `phase` of an answer on.
    pub(super) fn part(&self, phase: usize, wanted: usize) -> &[u8] {
        let end = (phase + wanted).min(self.bytes.len());
        self.bytes.get(phase..end).unwrap_or_default()
    }

    fn render(&mut self, date: &[u8], connection_line: &str, content_length: usize) {
        let mut answer = Vec::with_capacity(200 + content_length);
        answer.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: bolide\r\nDate: ");
        answer.extend_from_slice(date);
        answer
            .extend_from_slice(b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ");
        answer.extend_from_slice(itoa::Buffer::new().format(content_length).as_bytes());
        answer.extend_from_slice(b"\r\n");
        answer.extend_from_slice(connection_line.as_bytes());
        answer.extend_from_slice(b"\r\n");
        answer.extend(b"Hello, World!".iter().cycle().take(content_length));
        self.answer_len = answer.len();
        self.bytes.clear();
        while self.bytes.len() < BLOCK_BYTES_MIN {
            self.bytes.extend_from_slice(&answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_the_hello_answer_of_bolide() {
        let answers = Answers::new(13, 784_111_777);
        let block = answers.block(Kind::Persistent);
        let expected = "HTTP/1.1 200 OK\r\nServer: bolide\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\n\r\nHello, World!";
        assert_eq!(block.part(0, block.answer_len()), expected.as_bytes());
    }

    #[test]
    fn parts_continue_each_other_across_the_block() {
        let answers = Answers::new(13, 0);
        let block = answers.block(Kind::Closing);
        let whole: Vec<u8> = block.part(0, usize::MAX / 2).to_vec();
        assert_eq!(whole.len() % block.answer_len(), 0);
        assert_eq!(block.part(5, 1000), &whole[5..1005]);
        assert_eq!(block.part(block.answer_len() - 1, 2), b"!H");
    }
}
