//! A request whose response is not complete, queued in its connection's order, and how HTTP/1 encodes that response.

use net::memory::{NoMemory, reserve};
use wire::Version;

use crate::context::MOVED_BYTES_MIN;
use crate::exchange::output::{Output, reserve_for_parts};
use crate::exchange::{Encoder, Exchange, Obeyed, Progress};
use crate::limits::Limits;
use crate::mailbox::Command;
use crate::responder::{Delimiter, Fields, Framing, Responder};
use crate::response::{FilePart, NO_MEMORY, Response};

/// Upper bound of a head's length without its field section.
const FRAMING_BYTES: usize = 512;
/// Upper bound of a chunk's length without its data.
pub(super) const CHUNK_BYTES: usize = 32;

/// An exchange in its connection's queue. What it has written waits for the responses before it.
pub(super) struct Queued {
    pub(super) exchange: Exchange,
    pub(super) encoding: Encoding,
    /// Whether requests after it may run at the same time (RFC 9112 section 9.3.2).
    pub(super) is_safe: bool,
}

impl Queued {
    pub(super) fn obey(&mut self, responder: &mut Responder, command: Command) -> Obeyed {
        self.exchange.obey(&mut self.encoding, responder, command)
    }

    pub(super) fn respond(&mut self, responder: &mut Responder, response: &Response) {
        self.exchange
            .respond(&mut self.encoding, responder, response);
    }

    /// Reserves memory for what a command writes.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn make_room(&mut self, command: &Command) -> Result<(), NoMemory> {
        match (command, self.exchange.progress) {
            (Command::Respond(response), Progress::Waiting) => {
                let head_bytes = response.fields.len() + response.reason.len() + FRAMING_BYTES;
                let content_bytes = response.content.len();
                // The responder demands memory too: it must not need more than there is then.
                let demanded_bytes = Responder::demanded_bytes(content_bytes);
                let bytes = (head_bytes + content_bytes).max(demanded_bytes);
                reserve(self.exchange.out.tail(), bytes)
            }
            (Command::Write(part), Progress::Pushed) => self.make_room_for_part(part.len()),
            (Command::WriteHeld(part), Progress::Pushed) => {
                let bytes = part.bytes().len() + CHUNK_BYTES;
                reserve_for_parts(self.exchange.out.tail(), bytes)
            }
            _ => Ok(()),
        }
    }

    /// What happens instead of a command that there is no memory for.
    #[cold]
    pub(super) fn without_memory(&mut self) -> Command {
        if self.exchange.progress != Progress::Waiting {
            return Command::Fail;
        }
        self.encoding.framing.persistent = false;
        Command::Respond(Response::error(503, NO_MEMORY))
    }

    /// As [`Queued::make_room`], for a part that can be kept.
    ///
    /// # Errors
    /// As [`Queued::make_room`].
    pub(super) fn make_room_for_part(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let tail = self.exchange.out.tail();
        match self.encoding.moves(bytes, tail.is_empty()) {
            true => Ok(()),
            false => reserve(tail, bytes + CHUNK_BYTES),
        }
    }
}

impl Queued {
    /// Whether a request after it may start before its response has been sent. A file that waits holds a descriptor: one at a time.
    pub(super) fn may_be_overtaken(&self) -> bool {
        self.is_safe && !self.exchange.out.has_file()
    }

    /// Whether the connection stays open after its response.
    pub(super) fn is_persistent(&self) -> bool {
        self.encoding.framing.persistent && self.exchange.progress != Progress::Cut
    }

    /// Whether its response is incomplete and an ordinary close would look like its end.
    pub(super) fn ends_with_connection(&self) -> bool {
        let is_begun = matches!(
            self.exchange.progress,
            Progress::Pushed | Progress::Pulled | Progress::Cut
        );
        is_begun && self.encoding.delimiter == Delimiter::End
    }

    /// Whether its response is complete and ends with the connection.
    pub(super) fn is_whole_until_end(&self) -> bool {
        self.exchange.progress == Progress::Done && self.encoding.delimiter == Delimiter::End
    }
}

/// How many requests of a connection may run concurrently. Few until their responses proved short, because the length of a response is not
/// known in advance.
#[derive(Clone, Copy)]
pub(super) struct Window(u8);

impl Window {
    pub(super) const FIRST: Window = Window(4);

    /// Whether one more may start while `open` run.
    #[inline]
    pub(super) fn has_room(self, count: usize, limits: &Limits) -> bool {
        count < usize::from(self.0) && (count as u64) < limits.pipelined_exchanges_max
    }

    /// Records the length of a response that was not complete at once. It is short if the allowed number of such responses fits into the
    /// send buffer.
    pub(super) fn note_response(&mut self, bytes: u64, limits: &Limits) {
        let is_short =
            bytes.saturating_mul(limits.pipelined_exchanges_max) <= limits.send_buffer_bytes_max;
        self.0 = match is_short {
            true => self.0.saturating_mul(2),
            false => 1,
        };
    }
}

/// How one response is encoded.
pub(super) struct Encoding {
    pub(super) framing: Framing,
    pub(super) delimiter: Delimiter,
}

impl Encoding {
    /// For the response to a refused request, which is the last one of its connection.
    pub(super) fn of_refusal(is_head: bool) -> Encoding {
        let framing = Framing {
            is_head,
            version: Version::Http11,
            persistent: false,
        };
        let delimiter = Delimiter::End;
        Encoding { framing, delimiter }
    }
}

impl Encoding {
    /// Whether a part becomes the output itself, without a copy: a long part that is not chunked and that nothing precedes (`is_first`).
    fn moves(&self, bytes: usize, is_first: bool) -> bool {
        let is_bare = match self.delimiter {
            Delimiter::Chunks => false,
            Delimiter::Length(owed) => bytes as u64 <= owed,
            Delimiter::End | Delimiter::Frames => true,
        };
        is_bare && is_first && bytes >= MOVED_BYTES_MIN
    }

    /// Frames a part of `bytes` that is sent from where it is: appends what precedes it to `head`, and returns how much of it is admitted
    /// and what follows it.
    pub(super) fn frame(&mut self, head: &mut Vec<u8>, bytes: usize) -> (usize, &'static [u8]) {
        let admitted = self.delimiter.admit(bytes as u64);
        if self.delimiter != Delimiter::Chunks || admitted == 0 {
            return (admitted as usize, b"");
        }
        wire::push_chunk_head(head, admitted);
        (bytes, b"\r\n")
    }
}

impl Encoder for Encoding {
    /// HTTP/1.0 has no interim responses (RFC 9110 section 15.2). The server itself sends 100, and 101 would change the protocol of the
    /// connection.
    fn inform(&mut self, out: &mut Output, status: u16, field_section: &[u8]) {
        if self.framing.version == Version::Http11 && matches!(status, 102..=199) {
            wire::push_interim(out.tail(), status, field_section);
        }
    }

    fn respond(&mut self, out: &mut Output, responder: &mut Responder, response: &Response) -> u64 {
        // Its length is known.
        self.delimiter = Delimiter::Length(0);
        let fields = Fields::of_application(&response.fields).with_reason(&response.reason);
        responder.write_to(out.tail(), self.framing, |responder| {
            responder.respond(response.status, fields, &response.content);
            self.framing = responder.framing;
            responder.content_bytes
        })
    }

    fn begin(&mut self, out: &mut Output, responder: &mut Responder, response: &Response) -> bool {
        let fields = Fields::of_application(&response.fields).with_reason(&response.reason);
        responder.write_to(out.tail(), self.framing, |responder| {
            let has_parts = responder.begin(response.status, fields, response.length);
            (self.framing, self.delimiter) = (responder.framing, responder.delimiter);
            has_parts
        })
    }

    fn drop_parts(&mut self) {
        self.delimiter = Delimiter::Length(0);
    }

    fn part(&mut self, out: &mut Output, part: &[u8]) {
        self.delimiter.push_part(out.tail(), part);
    }

    fn take_part(&mut self, out: &mut Output, part: Vec<u8>) {
        if !self.moves(part.len(), out.tail().is_empty()) {
            return self.part(out, &part);
        }
        self.delimiter.admit(part.len() as u64);
        *out.tail() = part;
    }

    fn file(&mut self, out: &mut Output, mut part: FilePart) {
        part.length = self.delimiter.admit(part.length);
        if part.length == 0 {
            return;
        }
        if self.delimiter != Delimiter::Chunks {
            return out.push_file(part);
        }
        wire::push_chunk_head(out.tail(), part.length);
        out.push_file(part);
        out.tail().extend_from_slice(b"\r\n");
    }

    /// The trailer section is dropped if the framing has no place for it.
    fn finish(&mut self, out: &mut Output, trailer_section: &[u8]) -> bool {
        if self.delimiter == Delimiter::Chunks {
            wire::push_last_chunk(out.tail(), trailer_section);
        }
        !matches!(self.delimiter, Delimiter::Length(1..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ExchangeId;
    use crate::responder::Stamp;

    const LONG: usize = MOVED_BYTES_MIN;

    fn encoding(delimiter: Delimiter) -> Encoding {
        Encoding {
            delimiter,
            ..Encoding::of_refusal(false)
        }
    }

    #[test]
    fn a_long_part_stays_where_it_is_and_ends_with_the_content() {
        let mut out = Output::default();
        let mut encoding = encoding(Delimiter::Length(LONG as u64 + 3));
        let part = vec![b'x'; LONG];
        let place = part.as_ptr();
        encoding.take_part(&mut out, part);
        let bytes = out.take_bytes();
        assert_eq!((bytes.as_ptr(), bytes.len()), (place, LONG));
        encoding.take_part(&mut out, vec![b'y'; LONG]);
        encoding.take_part(&mut out, vec![b'z'; LONG]);
        assert_eq!(out.take_bytes(), b"yyy");
        assert!(encoding.finish(&mut out, b""));
    }

    #[test]
    fn a_response_is_written_to_the_memory_that_was_reserved_for_it() {
        let mut responder = Responder::new(Stamp::new(true, 784_111_777));
        for bytes in [LONG - 1, LONG, 1 << 20] {
            let id = ExchangeId {
                connection: 0,
                sequence: 0,
            };
            let mut queued = Queued {
                exchange: Exchange::new(id, 0, 0),
                encoding: encoding(Delimiter::End),
                is_safe: true,
            };
            let command = Command::Respond(Response {
                status: 200,
                content: vec![b'x'; bytes],
                ..Response::default()
            });
            assert_eq!(queued.make_room(&command), Ok(()));
            let place = |out: &mut Vec<u8>| (out.as_ptr(), out.capacity());
            let reserved = place(queued.exchange.out.tail());
            queued.obey(&mut responder, command);
            assert_eq!(place(queued.exchange.out.tail()), reserved);
            assert!(queued.exchange.out.tail().ends_with(&vec![b'x'; bytes]));
        }
    }

    #[test]
    fn parts_keep_their_order_and_their_chunks() {
        let mut out = Output::new(b"head".to_vec());
        let mut to_the_end = encoding(Delimiter::End);
        to_the_end.take_part(&mut out, vec![b'x'; LONG]);
        to_the_end.take_part(&mut out, b"short".to_vec());
        assert_eq!(
            out.take_bytes(),
            [b"head", &[b'x'; LONG][..], b"short"].concat()
        );
        encoding(Delimiter::Chunks).take_part(&mut out, vec![b'x'; LONG]);
        let chunk = [b"4000\r\n", &[b'x'; LONG][..], b"\r\n"].concat();
        assert_eq!(out.take_bytes(), chunk);
    }
}
