//! Writing WebSocket messages: during the call that receives one, or when they are posted.

pub(crate) mod publication;

use net::memory::{self, NoMemory};
use wire::websocket::{Deflater, HEAD_BYTES_MAX, Kind, Role, Sender, WindowBits};

use self::publication::{Publication, SharedFrame, WINDOWS, place_of};
use super::{LONG_BYTES, Responder};

/// A shorter message is not compressed: without earlier ones to refer to, it would hardly become shorter, and costs several microseconds.
const DEFLATED_BYTES_MIN: usize = 128;

/// How the messages of one WebSocket are written.
#[derive(Debug, Default)]
pub(crate) enum Coding {
    /// As they are.
    #[default]
    Plain,
    /// Each compressed for itself, with that window.
    Alone(WindowBits),
    /// Compressed with reference to earlier ones.
    WithContext(Box<Deflater>),
}

impl Coding {
    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Coding::Plain | Coding::Alone(_) => 0,
            Coding::WithContext(deflater) => deflater.held_bytes(),
        }
    }
}

/// What writes the messages of a worker's WebSockets.
#[derive(Default)]
pub(crate) struct MessageWriter {
    /// Of the WebSocket whose call runs.
    pub(crate) coding: Coding,
    /// Of all that compress each message for itself, by their windows.
    deflaters: Deflaters,
    pub(crate) level: u32,
    /// When the turn of that WebSocket's connection ends.
    turn_ends_ms: u64,
    /// The application has ended that turn, and more messages wait.
    is_turn_over: bool,
    /// Of memory for a message that was to be written in the call.
    pub(crate) lack: Option<NoMemory>,
    /// Messages that were written in the turn of a connection.
    pub(crate) pushed: u64,
}

impl MessageWriter {
    /// Appends a message.
    ///
    /// # Errors
    /// If there is no memory for it; `out` is unchanged.
    #[inline]
    pub(crate) fn push(
        &mut self,
        out: &mut Vec<u8>,
        kind: Kind,
        content: &[u8],
    ) -> Result<(), NoMemory> {
        self.pushed += 1;
        match self.coding {
            Coding::Plain => push_plain(out, kind, content),
            _ => self.push_deflated(out, kind, content),
        }
    }

    #[inline(never)]
    fn push_deflated(
        &mut self,
        out: &mut Vec<u8>,
        kind: Kind,
        content: &[u8],
    ) -> Result<(), NoMemory> {
        if content.len() < DEFLATED_BYTES_MIN {
            return push_plain(out, kind, content);
        }
        match &mut self.coding {
            Coding::Plain => push_plain(out, kind, content),
            Coding::WithContext(deflater) => push_with(deflater, out, kind, content),
            Coding::Alone(window) => match self.deflaters.get(self.level, *window) {
                Some(deflater) => push_with(deflater, out, kind, content),
                // Without memory for a compressor, the message is sent as it is.
                None => push_plain(out, kind, content),
            },
        }
    }

    /// The frame of a published message for a WebSocket with that coding. Between messages that refer to earlier ones, it is sent as it is.
    #[inline]
    pub(crate) fn share<'a>(
        &mut self,
        coding: &Coding,
        publication: &'a mut Publication,
    ) -> &'a SharedFrame {
        match coding {
            Coding::Alone(window) if publication.content_bytes() >= DEFLATED_BYTES_MIN => {
                let (level, deflaters) = (self.level, &mut self.deflaters);
                publication.deflated(*window, |out, kind, content| {
                    let deflater = deflaters.get(level, *window);
                    deflater.is_some_and(|it| push_with(it, out, kind, content).is_ok())
                })
            }
            Coding::Plain | Coding::Alone(_) | Coding::WithContext(_) => publication.plain(),
        }
    }
}

/// Compressors of messages that do not refer to earlier ones, by the places of their windows.
#[derive(Default)]
struct Deflaters([Option<Box<Deflater>>; WINDOWS]);

impl Deflaters {
    /// The one for a window; None without memory for it.
    fn get(&mut self, level: u32, window: WindowBits) -> Option<&mut Deflater> {
        let place = self.0.get_mut(place_of(window))?;
        if place.is_none() {
            *place = Some(Box::new(new_deflater(level, window, false).ok()?));
        }
        place.as_deref_mut()
    }
}

/// Appends a message to `out`, compressed.
fn push_with(
    deflater: &mut Deflater,
    out: &mut Vec<u8>,
    kind: Kind,
    content: &[u8],
) -> Result<(), NoMemory> {
    // Its compressed form is hardly longer, and is copied to `out`.
    let bytes = content.len().saturating_mul(2);
    if content.len() >= LONG_BYTES && !memory::is_there(bytes) {
        return Err(NoMemory(bytes));
    }
    let pushed = Sender::new(Role::Server).push_deflated(out, kind, content, [0; 4], deflater);
    pushed.map(drop).map_err(|lack| NoMemory(lack.0))
}

/// A compressor, if there is memory for it and for everything else.
///
/// # Errors
/// If not.
pub(crate) fn new_deflater(
    level: u32,
    window: WindowBits,
    keeps_context: bool,
) -> Result<Deflater, NoMemory> {
    let bytes = Deflater::bytes(window);
    if !memory::is_there(bytes) {
        return Err(NoMemory(bytes));
    }
    Deflater::new(level, window, keeps_context).map_err(|lack| NoMemory(lack.0))
}

/// Appends a message to `out` as it is.
///
/// # Errors
/// If there is no memory for it; `out` is unchanged.
#[inline]
pub(crate) fn push_plain(out: &mut Vec<u8>, kind: Kind, content: &[u8]) -> Result<(), NoMemory> {
    memory::reserve(out, content.len().saturating_add(HEAD_BYTES_MAX))?;
    let pushed = Sender::new(Role::Server).push_message(out, kind, content, [0; 4]);
    pushed.map_err(|lack| NoMemory(lack.0))
}

impl Responder {
    /// Prepares for a call of the application with a message.
    #[inline]
    pub(crate) fn message_begins(&mut self, can_send_now: bool) {
        self.is_usual = false;
        self.is_open = false;
        self.can_send_now = can_send_now;
    }

    /// Prepares for messages that the application receives together in a turn.
    #[inline]
    pub(crate) fn messages_begin(&mut self, can_send_now: bool, turn_ends_ms: u64) {
        self.message_begins(can_send_now);
        self.messages.turn_ends_ms = turn_ends_ms;
        self.messages.is_turn_over = false;
    }

    /// Whether the application has used up the turn.
    #[inline]
    pub(crate) fn is_turn_over(&self) -> bool {
        self.messages.is_turn_over
    }

    /// By when an application that receives messages in [`crate::App::messages_end`] should return, in the milliseconds of [`net::Clock`].
    #[inline]
    pub fn turn_ends_ms(&self) -> u64 {
        self.messages.turn_ends_ms
    }

    /// The application leaves messages to a later time, because the turn of their connection is used up.
    pub fn end_turn(&mut self) {
        self.messages.is_turn_over = true;
    }

    /// Writes a message, after those before it. Only in [`crate::App::messages_end`], to the WebSocket of that call. A text has to be UTF-8.
    ///
    /// What was posted before for the same WebSocket would be sent later: a caller that may have posted something checks
    /// [`crate::Mailbox::has_output`].
    ///
    /// Cost: copies.
    ///
    /// # Errors
    /// If there is no memory for it. Nothing of it is written, and the next one may be.
    #[inline]
    pub fn send_message(&mut self, kind: Kind, content: &[u8]) -> Result<(), NoMemory> {
        let pushed = self.messages.push(&mut self.out, kind, content);
        if let Err(lack) = pushed {
            self.messages.lack = Some(lack);
        }
        pushed
    }
}
