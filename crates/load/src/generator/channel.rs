//! WebSocket on one connection, without I/O: messages to frames, and frames to verdicts.
//!
//! Messages are sent from the mix, which was rendered before the run. An echo consists of bytes that are known before it arrives, so that
//! one memory comparison checks a whole batch. What differs from them (fragments, compression, control frames, mistakes) is received as
//! the protocol says.
//!
//! ```text
//!           | status 101 | other response | message, pong | ping | close, violation
//! ----------+------------+----------------+---------------+------+------------------
//! handshake | open       | over           | -             | -    | -
//! open      | -          | -              | open          | open | over
//! ```

mod handshake;
pub(super) mod messages;
mod random;
mod report;

use wire::websocket::handshake::{ACCEPT_BYTES, accept_value, key_value};
use wire::websocket::{
    Close, CloseCode, Content, Event as Frame, Failure, Incoming, Inflater, Inflaters, Kind,
    Receiver, Role, Sender,
};

use super::batch::Batch;
use super::checker::{Facts, Verdict};
use super::error::ErrorClass;
use super::mix::Mix;
use super::plan::Pattern;
use handshake::Progress;
pub(super) use handshake::Refusal;
pub(super) use messages::Messages;
use random::random;
pub use report::WebSocketReport;

/// Of a server that does not read, no more is kept for it, and one pong: the one to its last ping (RFC 6455 section 5.5.3).
const PONGS_BYTES_MAX: usize = 16 * 1024;

/// One connection.
pub(super) struct Channel {
    stage: Stage,
    pub(super) batch: Batch,
    /// What is sent before the batch: the handshake, control frames, the rest of an earlier batch. The socket has accepted the first `sent`
    /// bytes.
    out: Vec<u8>,
    sent: usize,
    /// Messages in `out`.
    out_messages: u32,
    /// The content of a ping whose pong follows `out`.
    ping: Option<Vec<u8>>,
    /// One-way: messages before the last ping.
    asked: u64,
    /// One-way: messages before the last ping that has its pong.
    acknowledged: u64,
}

enum Stage {
    /// The response with this Sec-WebSocket-Accept is not complete.
    Handshake([u8; ACCEPT_BYTES]),
    Open(Box<Receiver>),
    /// Nothing that arrives matters.
    Over,
}

/// What the start of the received bytes means. Each has the number of bytes used.
pub(super) enum Event {
    /// More is needed.
    None,
    /// Nothing for requests.
    Skipped(usize),
    /// The same; an earlier ping gets no pong, because the server has not read those before.
    Replaced(usize),
    /// The handshake is complete.
    Opened(usize),
    /// The responses to the oldest requests.
    Responses(Verdict),
    /// A message that no request asked for.
    Unexpected,
}

/// Why a connection ends.
pub(super) enum End {
    /// The server refused the handshake.
    Refused(Refusal),
    /// The server closed, with this code.
    Closed(Option<CloseCode>),
    /// The server violated the protocol, or sent a message that is too long.
    Failed(Failure),
}

impl End {
    /// How the outstanding requests fail.
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            End::Refused(_) => ErrorClass::Handshake,
            End::Closed(_) => ErrorClass::Closed,
            End::Failed(Failure::MessageTooLong) => ErrorClass::Long,
            End::Failed(_) => ErrorClass::Malformed,
        }
    }
}

impl Channel {
    /// A connection whose handshake is to be sent.
    pub(super) fn new(messages: &Messages) -> Channel {
        let key = key_value(random());
        let out = [&messages.before_key[..], &key, &messages.after_key].concat();
        Channel {
            stage: Stage::Handshake(accept_value(&key)),
            batch: Batch::default(),
            out,
            sent: 0,
            out_messages: 0,
            ping: None,
            asked: 0,
            acknowledged: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// The bytes that the socket has not accepted. Messages wait for the handshake.
    #[inline]
    pub(super) fn unsent<'a>(&'a self, mix: &'a Mix) -> &'a [u8] {
        match self.out.get(self.sent..) {
            Some(first) if !first.is_empty() => first,
            _ if self.is_open() => self.batch.unsent(mix),
            _ => &[],
        }
    }

    /// The socket has accepted more bytes. Returns whether there is more to send now.
    #[inline]
    pub(super) fn note_sent(&mut self, count: usize, mix: &Mix) -> bool {
        if self.sent < self.out.len() {
            self.sent += count;
            if self.sent >= self.out.len() {
                self.out.clear();
                self.sent = 0;
                self.out_messages = 0;
                if let Some(ping) = self.ping.take().filter(|_| self.is_open()) {
                    // Nothing of the batch has been sent while there was something before it.
                    Sender::new(Role::Client).push_pong(&mut self.out, &ping, random());
                }
            }
        } else {
            self.batch.note_sent(count);
        }
        !self.unsent(mix).is_empty()
    }

    /// Makes `count` messages from a position of the mix the batch to be sent.
    #[inline]
    pub(super) fn assign(&mut self, messages: &Messages, mix: &Mix, position: u32, count: u32) {
        self.batch.assign(mix, position, count);
        if messages.websocket.pattern == Pattern::OneWay {
            self.asked += u64::from(count);
            self.ask(mix);
        }
    }

    /// One-way: a ping follows the batch, as soon as messages can be sent.
    fn ask(&mut self, mix: &Mix) {
        if self.is_open() && !self.batch.unsent(mix).is_empty() {
            let asked = self.asked.to_be_bytes();
            self.copy_batch(mix);
            Sender::new(Role::Client).push_ping(&mut self.out, &asked, random());
        }
    }

    /// How many outstanding messages are not completely sent.
    pub(super) fn incomplete(&self, mix: &Mix) -> u32 {
        self.out_messages + self.batch.incomplete(mix)
    }

    /// Reads the start of `data`.
    ///
    /// Cost: for an echo as expected, one comparison for each batch of which all has arrived.
    ///
    /// # Errors
    /// If the connection cannot be used any more.
    #[inline]
    pub(super) fn next(
        &mut self,
        data: &mut [u8],
        messages: &Messages,
        mix: &Mix,
        inflaters: &mut Inflaters,
    ) -> Result<Event, End> {
        match &mut self.stage {
            Stage::Open(receiver) => {
                if messages.are_frames_known()
                    && !receiver.is_within_message()
                    && let Some(verdict) = self.repeated(data, messages)
                {
                    return Ok(Event::Responses(verdict));
                }
                self.receive(data, messages, mix, inflaters)
            }
            Stage::Handshake(accept) => {
                let progress = handshake::read(data, accept, messages);
                self.upgrade(progress, messages, mix)
            }
            Stage::Over => Ok(Event::Skipped(data.len())),
        }
    }

    fn upgrade(
        &mut self,
        progress: Progress,
        messages: &Messages,
        mix: &Mix,
    ) -> Result<Event, End> {
        match progress {
            Progress::Incomplete(0) => Ok(Event::None),
            Progress::Incomplete(used) => Ok(Event::Skipped(used)),
            Progress::Upgraded(used, agreement) => {
                let incoming = match agreement.map(|it| it.server) {
                    None => Incoming::Plain,
                    Some(side) if side.keeps_context => {
                        let inflater = Inflater::new(true);
                        Incoming::WithContext(Box::new(
                            inflater.map_err(|lack| End::Failed(lack.into()))?,
                        ))
                    }
                    Some(_) => Incoming::WithoutContext(None),
                };
                self.stage = Stage::Open(Box::new(Receiver::new(Role::Client, incoming)));
                if messages.websocket.pattern == Pattern::OneWay {
                    self.ask(mix);
                }
                Ok(Event::Opened(used))
            }
            Progress::Refused(refusal) => {
                self.stage = Stage::Over;
                Err(End::Refused(refusal))
            }
        }
    }

    /// The responses that equal the next expected frames: those of the oldest stamp, as far as they have arrived.
    #[inline]
    fn repeated(&self, data: &[u8], messages: &Messages) -> Option<Verdict> {
        let stamp = self.batch.stamps.front()?;
        let all = messages.expected.slice(stamp.position, stamp.count);
        let (mut consumed, mut count) = (0, 0);
        if data.starts_with(all) {
            (consumed, count) = (all.len(), stamp.count);
        } else {
            while count < stamp.count {
                let frame = messages.expected.slice(stamp.position + count, 1);
                if !data.get(consumed..).is_some_and(|it| it.starts_with(frame)) {
                    break;
                }
                consumed += frame.len();
                count += 1;
            }
        }
        (count > 0).then(|| verdict(consumed, count, None, messages.content_bytes))
    }

    /// Receives one event of the protocol.
    fn receive(
        &mut self,
        data: &mut [u8],
        messages: &Messages,
        mix: &Mix,
        inflaters: &mut Inflaters,
    ) -> Result<Event, End> {
        let Stage::Open(receiver) = &mut self.stage else {
            return Ok(Event::None);
        };
        let (used, frame) = match receiver.receive(data, &messages.limits, inflaters) {
            Ok(received) => received,
            Err(failure) => {
                let reason = failure.reason().to_owned();
                self.close(Some(failure.code()), reason, mix);
                return Err(End::Failed(failure));
            }
        };
        match frame {
            None => Ok(Event::Skipped(used)),
            Some(Frame::Message(kind, content)) => Ok(self.judge(used, kind, &content, messages)),
            Some(Frame::Ping(content)) if self.out.len() - self.sent > PONGS_BYTES_MAX => {
                Ok(match self.ping.replace(content.to_vec()) {
                    Some(_) => Event::Replaced(used),
                    None => Event::Skipped(used),
                })
            }
            Some(Frame::Ping(content)) => {
                self.respond(&content, mix);
                Ok(Event::Skipped(used))
            }
            Some(Frame::Pong(content)) => Ok(self.take_pong(used, &content, messages)),
            Some(Frame::Close(close)) => {
                self.close(close.code, String::new(), mix);
                Err(End::Closed(close.code))
            }
        }
    }

    /// Compares a message with the one that is expected next.
    fn judge(&self, used: usize, kind: Kind, content: &Content<'_>, messages: &Messages) -> Event {
        if self.batch.stamps.is_empty() || messages.websocket.pattern == Pattern::OneWay {
            return Event::Unexpected;
        }
        let expected = messages.content(self.batch.position());
        let error = if content.len() < expected.len() {
            Some(ErrorClass::Short)
        } else if content.len() > expected.len() {
            Some(ErrorClass::Long)
        } else if **content != *expected || kind != messages.kind() {
            Some(ErrorClass::WrongBody)
        } else {
            None
        };
        Event::Responses(verdict(used, 1, error, content.len()))
    }

    /// One-way: a pong says that the server has read the messages before its ping. A server may skip earlier pongs (RFC 6455 5.5.3).
    fn take_pong(&mut self, used: usize, content: &[u8], messages: &Messages) -> Event {
        let number = content.try_into().map_or(0, u64::from_be_bytes);
        let is_known = number > self.acknowledged && number <= self.asked;
        if messages.websocket.pattern != Pattern::OneWay || !is_known {
            return Event::Skipped(used);
        }
        let count = (number - self.acknowledged) as u32;
        self.acknowledged = number;
        Event::Responses(verdict(used, count, None, 0))
    }

    #[cold]
    fn respond(&mut self, ping: &[u8], mix: &Mix) {
        self.copy_batch(mix);
        Sender::new(Role::Client).push_pong(&mut self.out, ping, random());
    }

    /// Appends a close frame, after which nothing is sent.
    #[cold]
    pub(super) fn close(&mut self, code: Option<CloseCode>, reason: String, mix: &Mix) {
        if !self.is_open() {
            return;
        }
        self.copy_batch(mix);
        Sender::new(Role::Client).push_close(&mut self.out, &Close { code, reason }, random());
        self.stage = Stage::Over;
    }

    /// Moves what is left of the batch to the frames that precede it.
    fn copy_batch(&mut self, mix: &Mix) {
        self.out_messages += self.batch.incomplete(mix);
        let rest = self.batch.unsent(mix);
        self.out.extend_from_slice(rest);
        self.batch.note_sent(rest.len());
    }
}

fn verdict(
    consumed: usize,
    count: u32,
    error: Option<ErrorClass>,
    content_bytes: usize,
) -> Verdict {
    Verdict {
        consumed,
        count,
        error,
        closes: false,
        facts: Facts {
            content_bytes: content_bytes as u64,
            ..Facts::default()
        },
    }
}
