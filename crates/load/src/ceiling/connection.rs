//! One connection of the ceiling: its kind, determined by what arrives first, and what remains to be sent.

use std::os::fd::{AsFd, BorrowedFd};

use net::{Interest, Received, Sent, Transport};
use wire::h2::PREFACE;

use super::Responder;
use super::counter::Tail;
use super::frames::{Frames, Refused};
use super::messages::{Messages, value};
use super::response::Kind;

/// Whether a connection is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Keep,
    Close,
}

pub(super) struct Connection {
    transport: Transport,
    stage: Stage,
    /// Bytes of responses that the socket has not accepted.
    owed: usize,
    /// Where in a response these bytes start.
    phase: usize,
    /// The last read filled the buffer: there may be more.
    pub(super) filled_buffer: bool,
}

enum Stage {
    /// The first request is not complete; these are its bytes so far.
    First(Vec<u8>),
    /// Requests are only counted.
    Counting(Kind, Tail),
    /// HTTP/2.
    Frames(Box<Frames>),
    /// WebSocket.
    Messages(Box<Messages>),
    /// Nothing follows the records of TLS that wait for the socket.
    Ending,
}

impl Connection {
    pub(super) fn new(transport: Transport) -> Connection {
        Connection {
            transport,
            stage: Stage::First(Vec::new()),
            owed: 0,
            phase: 0,
            filled_buffer: false,
        }
    }

    /// While responses remain to be sent, nothing is read.
    pub(super) fn interest(&self) -> Interest {
        let owes = self.owes();
        Interest {
            read: !owes,
            write: owes,
            ..Interest::NONE
        }
    }

    fn owes(&self) -> bool {
        let has_frames = match &self.stage {
            Stage::Frames(frames) => !frames.unsent().is_empty(),
            Stage::Messages(messages) => !messages.unsent().is_empty(),
            _ => false,
        };
        self.owed > 0 || has_frames || self.transport.owes()
    }

    /// Sends what is owed, or reads once and sends the responses. With TLS until nothing is left to read, because no event reports what
    /// its session holds.
    pub(super) fn serve(&mut self, responder: &mut Responder) -> Outcome {
        if !self.transport.is_secure() {
            return match self.owes() {
                true => self.send(responder),
                false => self.serve_once(responder).unwrap_or(Outcome::Keep),
            };
        }
        loop {
            if self.owes() && self.send(responder) == Outcome::Close {
                return Outcome::Close;
            }
            if self.owes() {
                return Outcome::Keep;
            }
            match self.serve_once(responder) {
                Some(Outcome::Keep) if self.owes() => {}
                Some(outcome) => return outcome,
                None => {}
            }
        }
    }

    /// Reads once and sends the responses. Returns None if there may be more to read.
    fn serve_once(&mut self, responder: &mut Responder) -> Option<Outcome> {
        let received = match self.transport.receive(&mut responder.buffer) {
            Received::Bytes(count) => {
                self.filled_buffer = count == responder.buffer.len();
                count
            }
            Received::Blocked => return Some(Outcome::Keep),
            Received::End | Received::Broken(_) => return Some(Outcome::Close),
        };
        let Ok(count) = self.take(received, responder) else {
            return Some(Outcome::Close);
        };
        responder.response_count += count;
        if self.owes() && self.send(responder) == Outcome::Close {
            return Some(Outcome::Close);
        }
        None
    }

    /// Counts the requests that end in the first `received` bytes of the buffer, and owes the responses.
    fn take(&mut self, received: usize, responder: &mut Responder) -> Result<u64, Refused> {
        if let Stage::Messages(messages) = &mut self.stage {
            return messages.take(responder.buffer.get_mut(..received).unwrap_or_default());
        }
        let data = responder.buffer.get(..received).unwrap_or_default();
        let responses = &responder.responses;
        let (kind, count) = match &mut self.stage {
            Stage::Ending | Stage::Messages(_) => return Err(Refused),
            Stage::Frames(frames) => return frames.take(data, responses.frames()),
            Stage::Counting(kind, tail) => (*kind, responder.counter.count(tail, data)),
            Stage::First(early) => {
                let joined: &[u8] = if early.is_empty() {
                    data
                } else {
                    early.extend_from_slice(data);
                    early
                };
                if let Some(rest) = joined.strip_prefix(PREFACE) {
                    let mut frames = Box::new(Frames::new());
                    let count = frames.take(rest, responses.frames())?;
                    self.stage = Stage::Frames(frames);
                    return Ok(count);
                }
                let length = match PREFACE.starts_with(joined) {
                    true => None,
                    false => responder.counter.first_end(joined),
                };
                let Some(length) = length else {
                    if early.is_empty() {
                        early.extend_from_slice(data);
                    }
                    return Ok(0);
                };
                let (head, rest) = joined.split_at_checked(length).ok_or(Refused)?;
                if let Some(mut messages) = Messages::of(head) {
                    let count = messages.take(&mut rest.to_vec())?;
                    self.stage = Stage::Messages(Box::new(messages));
                    return Ok(count);
                }
                let kind = kind(head);
                let mut tail = Tail::default();
                let count = responder.counter.count(&mut tail, joined);
                self.stage = Stage::Counting(kind, tail);
                (kind, if kind == Kind::Closing { 1 } else { count })
            }
        };
        self.owed = count * responses.block(kind).response_len();
        Ok(count as u64)
    }

    fn send(&mut self, responder: &Responder) -> Outcome {
        if !self.transport.flush() {
            return Outcome::Close;
        }
        if self.transport.owes() {
            return Outcome::Keep;
        }
        match &mut self.stage {
            Stage::First(_) => Outcome::Keep,
            Stage::Ending => Outcome::Close,
            Stage::Frames(frames) => match self.transport.send(frames.unsent()) {
                Sent::Bytes(count) => {
                    frames.sent(count);
                    Outcome::Keep
                }
                Sent::Broken(_) => Outcome::Close,
            },
            Stage::Messages(messages) => match self.transport.send(messages.unsent()) {
                Sent::Bytes(count) if messages.note_sent(count) => self.end(),
                Sent::Bytes(_) => Outcome::Keep,
                Sent::Broken(_) => Outcome::Close,
            },
            Stage::Counting(kind, _) => {
                let kind = *kind;
                self.send_block(kind, responder)
            }
        }
    }

    fn send_block(&mut self, kind: Kind, responder: &Responder) -> Outcome {
        let block = responder.responses.block(kind);
        while self.owed > 0 {
            let part = block.part(self.phase, self.owed);
            let sent = match kind {
                Kind::Closing => self.transport.send_more(part),
                Kind::Persistent | Kind::PersistentStated => self.transport.send(part),
            };
            let Sent::Bytes(count) = sent else {
                return Outcome::Close;
            };
            self.owed -= count;
            self.phase = (self.phase + count) % block.response_len();
            if count < part.len() {
                return Outcome::Keep;
            }
        }
        match kind {
            Kind::Closing => self.end(),
            Kind::Persistent | Kind::PersistentStated => Outcome::Keep,
        }
    }

    /// Everything is sent.
    fn end(&mut self) -> Outcome {
        if self.transport.announce_end() {
            return Outcome::Close;
        }
        self.stage = Stage::Ending;
        Outcome::Keep
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

/// What a connection's first request asks for. Simple and trusting, since the peer is a load generator.
fn kind(request: &[u8]) -> Kind {
    let option = value(request, b"connection:").unwrap_or_default();
    let line_end = memchr::memchr(b'\r', request).unwrap_or(request.len());
    if request
        .get(..line_end)
        .unwrap_or_default()
        .ends_with(b"HTTP/1.0")
    {
        if option.eq_ignore_ascii_case(b"keep-alive") {
            Kind::PersistentStated
        } else {
            Kind::Closing
        }
    } else if option.eq_ignore_ascii_case(b"close") {
        Kind::Closing
    } else {
        Kind::Persistent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_decides() {
        let cases: [(&[u8], Kind); 6] = [
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Persistent),
            (
                b"GET / HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n",
                Kind::Closing,
            ),
            (
                b"GET / HTTP/1.1\r\nHost: a\r\nconnection:Close \r\n\r\n",
                Kind::Closing,
            ),
            (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", Kind::Closing),
            (
                b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\n\r\n",
                Kind::PersistentStated,
            ),
            (
                b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
                Kind::Persistent,
            ),
        ];
        for (request, expected) in cases {
            assert_eq!(kind(request), expected, "{}", request.escape_ascii());
        }
    }
}
