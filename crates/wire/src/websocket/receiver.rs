//! What arrives (RFC 6455 5.4 to 5.6, 8.1): from octets, cut anywhere, to messages and control frames.
//!
//! ```text
//!             | data, not last | data, last | continuation, not last | continuation, last | control
//! ------------+----------------+------------+------------------------+--------------------+--------
//! no message  | message        | no message | failure                | failure            | no message
//! message     | failure        | failure    | message                | no message         | message
//! ```
//!
//! A close frame or a failure ends it: whatever follows is dropped (RFC 6455 5.5.1, 7.1.7).

use core::ops::Deref;

use super::close::{Close, parse_close};
use super::deflate::{Inflater, Inflaters};
use super::failure::Failure;
use super::frame::{CONTROL_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, Opcode, Role, parse_head};
use super::incoming::{Agreed, Incoming, Inflating};
use super::mask::apply_mask;
use super::memory::{Reserve, grow};
use super::utf8::{self, Utf8};

/// What a message holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Anything.
    Binary,
}

impl Kind {
    pub(super) fn opcode(self) -> Opcode {
        match self {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        }
    }
}

/// How large a message may be.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Octets of its content, decompressed.
    pub message_bytes_max: usize,
    /// Frames that it consists of.
    pub fragments_max: u32,
    /// Makes room for a message of which a part has arrived.
    pub reserve: Reserve,
}

/// Octets of a message or a control frame, unmasked.
#[derive(PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// Where they arrived.
    InPlace(&'a mut [u8]),
    /// Put together from parts.
    Assembled(Vec<u8>),
}

impl Deref for Content<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::InPlace(bytes) => bytes,
            Content::Assembled(bytes) => bytes,
        }
    }
}

/// Something complete.
#[derive(PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A message. A text is UTF-8.
    Message(Kind, Content<'a>),
    /// A ping, which a pong with the same content must follow.
    Ping(Content<'a>),
    /// A pong.
    Pong(Content<'a>),
    /// The last frame of the peer.
    Close(Close),
}

/// The receiving side of one connection. An idle one is small: there are many of them.
#[derive(Debug)]
pub struct Receiver {
    us: Role,
    agreed: Agreed,
    frame: Frame,
    message: Option<Box<Message>>,
    /// That of the connection, or one that is lent.
    inflater: Option<Box<Inflater>>,
}

/// Where in a frame the next octet is.
#[derive(Debug)]
enum Frame {
    /// In its header, of which some octets may have arrived.
    Head(StartedHead),
    /// In the content of a data frame: the parts of its [`Left`], which would take 8 bytes more.
    Data {
        octets: u64,
        key: Option<[u8; 4]>,
        is_last: bool,
    },
    /// In the content of a control frame.
    Control(Box<StartedControl>),
    /// After the last frame.
    Ended,
}

impl Frame {
    const NEXT: Frame = Frame::Head(StartedHead {
        octets: [0; HEAD_BYTES_MAX],
        len: 0,
    });
}

/// The octets of a header that is incomplete.
#[derive(Clone, Copy, Debug)]
struct StartedHead {
    octets: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl StartedHead {
    /// The header, and how many octets of `input` belong to it; `None` if all do and more are needed.
    #[inline]
    fn complete(&mut self, input: &[u8], us: Role) -> Result<Option<(FrameHead, usize)>, Failure> {
        if self.len == 0
            && let Some(complete) = parse_head(input, us)?
        {
            return Ok(Some(complete));
        }
        let before = usize::from(self.len);
        let room = self.octets.get_mut(before..).unwrap_or_default();
        let added = room.len().min(input.len());
        for (slot, octet) in room.iter_mut().zip(input) {
            *slot = *octet;
        }
        let known = self.octets.get(..before + added).unwrap_or_default();
        let complete = parse_head(known, us)?;
        self.len += added as u8;
        Ok(complete.map(|(head, used)| (head, used - before)))
    }
}

/// A control frame of which some content has not arrived. Most arrive as a whole, and never become one.
#[derive(Debug)]
struct StartedControl {
    left: Left,
    opcode: Opcode,
    content: Vec<u8>,
}

/// The content of a frame that has not arrived yet.
#[derive(Clone, Copy, Debug)]
struct Left {
    octets: u64,
    /// The key of the mask, from the octet that is next.
    key: Option<[u8; 4]>,
}

impl Left {
    fn of(head: &FrameHead) -> Left {
        Left {
            octets: head.length,
            key: head.key,
        }
    }

    /// Takes what `input` has of it, unmasked, and what follows.
    #[inline]
    fn take<'a>(&mut self, input: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
        let here = usize::try_from(self.octets).map_or(input.len(), |left| left.min(input.len()));
        let (content, after) = input.split_at_mut(here);
        if let Some(key) = &mut self.key {
            apply_mask(content, *key, 0);
            key.rotate_left(here % 4);
        }
        self.octets -= here as u64;
        (content, after)
    }
}

/// A message of which something has arrived.
#[derive(Debug)]
struct Message {
    kind: Kind,
    fragments: u32,
    content: Vec<u8>,
    utf8: Utf8,
    coding: Coding,
}

/// What the frames of a message hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coding {
    /// Its content.
    Identity,
    /// Its content compressed, in so many octets, announced and not only received.
    Deflate { octets: u64 },
}

/// What a step leaves of its input, and what became complete.
type Step<'a> = (&'a mut [u8], Option<Event<'a>>);

impl Receiver {
    /// What `us` receives from its peer.
    pub fn new(us: Role, incoming: Incoming) -> Receiver {
        let (agreed, inflater) = match incoming {
            Incoming::Plain => (Agreed::Plain, None),
            Incoming::WithoutContext(lent) => (Agreed::WithoutContext, lent),
            Incoming::WithContext(inflater) => (Agreed::WithContext, Some(inflater)),
        };
        Receiver {
            us,
            agreed,
            frame: Frame::NEXT,
            message: None,
            inflater,
        }
    }

    /// Takes octets from the start of `input` until something is complete: how many, and what. Without an event all of them were taken.
    ///
    /// # Errors
    /// The connection fails: the caller sends the failure's close code, and drops what follows.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        input: &'a mut [u8],
        limits: &MessageLimits,
        inflaters: &mut Inflaters,
    ) -> Result<(usize, Option<Event<'a>>), Failure> {
        let input_len = input.len();
        let mut rest = input;
        while !rest.is_empty() {
            match self.step(rest, limits, inflaters) {
                Ok((after, None)) => rest = after,
                Ok((after, event)) => return Ok((input_len - after.len(), event)),
                Err(failure) => {
                    self.end();
                    return Err(failure);
                }
            }
        }
        Ok((input_len, None))
    }

    /// Whether part of a frame or a message has arrived.
    pub fn is_within_message(&self) -> bool {
        let is_within_frame = match &self.frame {
            Frame::Head(head) => head.len > 0,
            Frame::Data { .. } | Frame::Control(_) => true,
            Frame::Ended => false,
        };
        is_within_frame || self.message.is_some()
    }

    /// The memory that the content of an incomplete message holds, in bytes.
    pub fn message_bytes(&self) -> usize {
        let message = self.message.as_ref();
        message.map_or(0, |message| message.content.capacity())
    }

    /// Memory held, in bytes, besides its own record: an incomplete message or frame, and an inflater.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        let control = match &self.frame {
            Frame::Control(control) => size_of::<StartedControl>() + control.content.capacity(),
            _ => 0,
        };
        let record = self.message.as_ref().map_or(0, |_| size_of::<Message>());
        let inflater = self.inflater.as_ref();
        let inflater = inflater.map_or(0, |_| Inflater::BYTES + size_of::<Inflater>());
        control + record + self.message_bytes() + inflater
    }

    /// Nothing that follows matters.
    #[cold]
    fn end(&mut self) {
        self.frame = Frame::Ended;
        self.message = None;
        self.agreed = Agreed::Plain;
        self.inflater = None;
    }

    /// Takes one frame, or what has arrived of it.
    #[inline]
    fn step<'a>(
        &mut self,
        input: &'a mut [u8],
        limits: &MessageLimits,
        inflaters: &mut Inflaters,
    ) -> Result<Step<'a>, Failure> {
        let Frame::Head(started) = &mut self.frame else {
            return self.content(input, limits, inflaters);
        };
        let Some((head, used)) = started.complete(input, self.us)? else {
            return Ok((&mut [], None));
        };
        let (_, rest) = input.split_at_mut(used);
        let is_whole = usize::try_from(head.length).is_ok_and(|length| length <= rest.len());
        if is_whole && self.is_alone(&head) {
            if head.length > limits.message_bytes_max as u64 && !head.opcode.is_control() {
                return Err(Failure::MessageTooLong);
            }
            self.frame = Frame::NEXT;
            return self.whole(&head, rest);
        }
        self.begin(&head, limits)?;
        self.content(rest, limits, inflaters)
    }

    /// Whether a frame needs nothing of what came before it, and nothing after it needs it.
    #[inline]
    fn is_alone(&self, head: &FrameHead) -> bool {
        match head.opcode {
            Opcode::Text | Opcode::Binary => {
                head.is_last && !head.is_compressed && self.message.is_none()
            }
            Opcode::Continuation => false,
            Opcode::Close | Opcode::Ping | Opcode::Pong => true,
        }
    }

    /// A frame that is alone and complete.
    #[inline]
    fn whole<'a>(&mut self, head: &FrameHead, input: &'a mut [u8]) -> Result<Step<'a>, Failure> {
        let (content, after) = Left::of(head).take(input);
        let event = match head.opcode {
            Opcode::Text => {
                utf8::check(content)?;
                Event::Message(Kind::Text, Content::InPlace(content))
            }
            Opcode::Binary | Opcode::Continuation => {
                Event::Message(Kind::Binary, Content::InPlace(content))
            }
            control => self.control(control, Content::InPlace(content))?,
        };
        Ok((after, Some(event)))
    }

    fn control<'a>(&mut self, opcode: Opcode, content: Content<'a>) -> Result<Event<'a>, Failure> {
        match opcode {
            Opcode::Ping => Ok(Event::Ping(content)),
            Opcode::Close => {
                let close = parse_close(&content)?;
                self.end();
                Ok(Event::Close(close))
            }
            _ => Ok(Event::Pong(content)),
        }
    }

    /// A frame whose content is incomplete, compressed or part of a message.
    fn begin(&mut self, head: &FrameHead, limits: &MessageLimits) -> Result<(), Failure> {
        let left = Left::of(head);
        if head.opcode.is_control() {
            self.frame = Frame::Control(Box::new(StartedControl {
                left,
                opcode: head.opcode,
                content: Vec::new(),
            }));
            return Ok(());
        }
        match (head.opcode, self.message.is_some()) {
            (Opcode::Continuation, true) => {}
            (Opcode::Continuation, false) => return Err(Failure::NothingToContinue),
            (_, true) => return Err(Failure::MessageInterrupted),
            (opcode, false) => self.message = Some(Box::new(self.start(opcode, head)?)),
        }
        if let Some(message) = &mut self.message {
            message.announce(head.length, limits)?;
        }
        self.frame = Frame::Data {
            octets: left.octets,
            key: left.key,
            is_last: head.is_last,
        };
        Ok(())
    }

    fn start(&self, opcode: Opcode, head: &FrameHead) -> Result<Message, Failure> {
        let coding = match (head.is_compressed, self.agreed) {
            (false, _) => Coding::Identity,
            (true, Agreed::Plain) => return Err(Failure::ReservedBit),
            (true, _) => Coding::Deflate { octets: 0 },
        };
        let kind = match opcode {
            Opcode::Text => Kind::Text,
            _ => Kind::Binary,
        };
        Ok(Message {
            kind,
            fragments: 0,
            content: Vec::new(),
            utf8: Utf8::default(),
            coding,
        })
    }

    /// Takes content of the frame that has begun.
    fn content<'a>(
        &mut self,
        input: &'a mut [u8],
        limits: &MessageLimits,
        inflaters: &mut Inflaters,
    ) -> Result<Step<'a>, Failure> {
        match &mut self.frame {
            Frame::Data {
                octets,
                key,
                is_last,
            } => {
                let mut left = Left {
                    octets: *octets,
                    key: *key,
                };
                let (part, after) = left.take(input);
                (*octets, *key) = (left.octets, left.key);
                let frame_ends = left.octets == 0;
                let message_ends = frame_ends && *is_last;
                if frame_ends {
                    self.frame = Frame::NEXT;
                }
                if let Some(message) = &mut self.message {
                    let inflating = Inflating {
                        agreed: self.agreed,
                        own: &mut self.inflater,
                        shared: &mut *inflaters,
                    };
                    message.push(part, inflating, limits)?;
                }
                match message_ends {
                    true => Ok((after, self.end_message(limits, inflaters)?)),
                    false => Ok((after, None)),
                }
            }
            Frame::Control(control) => {
                let StartedControl {
                    left,
                    opcode,
                    content,
                } = control.as_mut();
                let (part, after) = left.take(input);
                grow(
                    content,
                    part.len(),
                    CONTROL_BYTES_MAX as usize,
                    limits.reserve,
                )?;
                content.extend_from_slice(part);
                if left.octets > 0 {
                    return Ok((after, None));
                }
                let (opcode, content) = (*opcode, core::mem::take(content));
                self.frame = Frame::NEXT;
                let event = self.control(opcode, Content::Assembled(content))?;
                Ok((after, Some(event)))
            }
            Frame::Head(_) | Frame::Ended => Ok((&mut [], None)),
        }
    }

    fn end_message<'a>(
        &mut self,
        limits: &MessageLimits,
        inflaters: &mut Inflaters,
    ) -> Result<Option<Event<'a>>, Failure> {
        let Some(mut message) = self.message.take() else {
            return Ok(None);
        };
        let mut inflating = Inflating {
            agreed: self.agreed,
            own: &mut self.inflater,
            shared: inflaters,
        };
        message.end(&mut inflating, limits)?;
        inflating.release();
        let content = Content::Assembled(message.content);
        Ok(Some(Event::Message(message.kind, content)))
    }
}

impl Message {
    /// A frame with `length` octets of content begins.
    fn announce(&mut self, length: u64, limits: &MessageLimits) -> Result<(), Failure> {
        let bytes_max = limits.message_bytes_max as u64;
        let (total, most) = match &mut self.coding {
            Coding::Identity => (length.saturating_add(self.content.len() as u64), bytes_max),
            Coding::Deflate { octets } => {
                *octets = octets.saturating_add(length);
                (*octets, deflated_bytes_max(bytes_max))
            }
        };
        if total > most {
            return Err(Failure::MessageTooLong);
        }
        self.fragments += 1;
        match self.fragments > limits.fragments_max {
            true => Err(Failure::TooManyFragments),
            false => Ok(()),
        }
    }

    /// Content arrived.
    fn push(
        &mut self,
        part: &[u8],
        mut inflating: Inflating<'_>,
        limits: &MessageLimits,
    ) -> Result<(), Failure> {
        let checked = self.content.len();
        match self.coding {
            Coding::Identity => {
                // What has been announced is within the limit, and so is what has arrived of it.
                let most = limits.message_bytes_max.saturating_sub(self.content.len());
                grow(&mut self.content, part.len(), most, limits.reserve)?;
                self.content.extend_from_slice(part);
            }
            Coding::Deflate { .. } => {
                let inflater = inflating.inflater(limits.reserve)?;
                let bytes_max = limits.message_bytes_max;
                inflater.inflate(part, &mut self.content, bytes_max, limits.reserve)?;
            }
        }
        self.check_from(checked)
    }

    /// The last frame is complete.
    fn end(
        &mut self,
        inflating: &mut Inflating<'_>,
        limits: &MessageLimits,
    ) -> Result<(), Failure> {
        if let Coding::Deflate { .. } = self.coding {
            let checked = self.content.len();
            let inflater = inflating.inflater(limits.reserve)?;
            let bytes_max = limits.message_bytes_max;
            inflater.end(&mut self.content, bytes_max, limits.reserve)?;
            self.check_from(checked)?;
        }
        match self.kind {
            Kind::Text => self.utf8.end(),
            Kind::Binary => Ok(()),
        }
    }

    /// Checks a text from its octet `checked` on.
    fn check_from(&mut self, checked: usize) -> Result<(), Failure> {
        match self.kind {
            Kind::Text => self
                .utf8
                .push(self.content.get(checked..).unwrap_or_default()),
            Kind::Binary => Ok(()),
        }
    }
}

/// The most compressed octets of a message: content that cannot be compressed grows by less than an eighth.
fn deflated_bytes_max(message_bytes_max: u64) -> u64 {
    message_bytes_max
        .saturating_add(message_bytes_max / 8)
        .saturating_add(64)
}
