//! The messages of a run, rendered once: what is sent, and what the server sends back.
//!
//! Messages of a given size have their number in them, so that one in the wrong order, or on the wrong connection, is detected. The keys
//! of masks are random, and are selected once for each position of the cycle: masking costs the generator nothing during the run.

use std::fmt::Write;

use wire::websocket::extension::OFFER;
use wire::websocket::handshake::subprotocols;
use wire::websocket::{
    Deflater, Kind, MessageLimits, NoMemory, Role, Sender, WindowBits, reserve_exact,
};

use super::super::mix::Mix;
use super::super::plan::{Pattern, WebSocket};
use super::super::{Plan, Protocol};
use super::random::random;

/// The content of a cycle, so that it stays in a processor's cache.
const CYCLE_BYTES: usize = 256 * 1024;
const CYCLE_MIN: usize = 8;
const CYCLE_MAX: usize = 256;
/// The digits of a message's number.
const NUMBER_BYTES: usize = 8;
/// A message may be this much longer than expected before its content is no longer received.
const EXCESS_BYTES_MAX: usize = 1024 * 1024;
const FRAGMENTS_MAX: u32 = 100_000;
/// zlib's default, which browsers use.
const DEFLATE_LEVEL: u32 = 6;

/// What all connections of a run share.
pub(in super::super) struct Messages {
    pub(super) websocket: WebSocket,
    /// The server's frames, uncompressed, at the positions of the mix.
    pub(super) expected: Mix,
    /// The content of each message in bytes.
    pub(super) content_bytes: usize,
    pub(super) limits: MessageLimits,
    /// The request of the handshake up to the key's value, and what follows that.
    pub(super) before_key: Vec<u8>,
    pub(super) after_key: Vec<u8>,
    pub(super) subprotocols: Vec<Vec<u8>>,
}

impl Messages {
    /// `None`: the plan has none.
    ///
    /// # Errors
    /// If they are too many bytes, or more than there is memory for; the message is one line that says how to fix it.
    pub(in super::super) fn new(plan: &Plan) -> Result<Option<Messages>, String> {
        let Protocol::WebSocket(websocket) = plan.protocol else {
            return Ok(None);
        };
        let sender = Sender::new(Role::Server);
        let contents = Contents::new(plan, &websocket);
        let kind = kind(&websocket);
        let expected = laid(&contents, |frame, content| {
            sender.push_message(frame, kind, content, [0; 4])
        })?;
        let content_bytes = contents.content(0).len();
        let (before_key, after_key) = handshake(plan, &websocket);
        let fields = plan.requests.iter().flat_map(|it| &it.field_lines);
        let lines: String = fields
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        Ok(Some(Messages {
            websocket,
            expected,
            content_bytes,
            limits: MessageLimits {
                message_bytes_max: content_bytes + EXCESS_BYTES_MAX,
                fragments_max: FRAGMENTS_MAX,
                reserve: reserve_exact,
            },
            before_key,
            after_key,
            subprotocols: subprotocols(lines.as_bytes()).map(<[u8]>::to_vec).collect(),
        }))
    }

    pub(super) fn kind(&self) -> Kind {
        kind(&self.websocket)
    }

    /// The content of the message at a position.
    pub(super) fn content(&self, position: u32) -> &[u8] {
        let frame = self.expected.slice(position, 1);
        let head_bytes = frame.len() - self.content_bytes.min(frame.len());
        frame.get(head_bytes..).unwrap_or_default()
    }

    /// Whether the server's frames are known before they arrive.
    pub(super) fn are_frames_known(&self) -> bool {
        self.websocket.pattern != Pattern::OneWay && !self.websocket.is_compressed
    }
}

/// What is sent, in order.
///
/// # Errors
/// If they are too many bytes, or more than there is memory for; the message is one line that says how to fix it.
pub(in super::super) fn frames(plan: &Plan, websocket: &WebSocket) -> Result<Mix, String> {
    let sender = Sender::new(Role::Client);
    let contents = Contents::new(plan, websocket);
    let kind = kind(websocket);
    if !websocket.is_compressed {
        return laid(&contents, |frame, content| {
            sender.push_message(frame, kind, content, random())
        });
    }
    let mut deflater = Deflater::new(DEFLATE_LEVEL, WindowBits::MAX, false).map_err(lacks)?;
    laid(&contents, |frame, content| {
        let pushed = sender.push_deflated(frame, kind, content, random(), &mut deflater);
        pushed.map(drop)
    })
}

/// Lays out the frames of all messages.
fn laid(
    contents: &Contents<'_>,
    mut push: impl FnMut(&mut Vec<u8>, &[u8]) -> Result<(), NoMemory>,
) -> Result<Mix, String> {
    let mut lack = None;
    let frames = contents.all().map_while(|content| {
        let mut frame = Vec::new();
        lack = push(&mut frame, &content).err();
        lack.is_none().then_some((0, frame))
    });
    let mix = Mix::laid(contents.cycle, frames)?;
    lack.map_or(Ok(mix), |lack| Err(lacks(lack)))
}

fn lacks(lack: NoMemory) -> String {
    format!("{lack} of a message; send shorter ones")
}

fn kind(websocket: &WebSocket) -> Kind {
    match websocket.is_binary {
        true => Kind::Binary,
        false => Kind::Text,
    }
}

/// The contents of messages in their cycle.
struct Contents<'a> {
    fixed: Option<&'a [u8]>,
    message_bytes: usize,
    cycle: usize,
    depth: usize,
}

impl<'a> Contents<'a> {
    fn new(plan: &'a Plan, websocket: &WebSocket) -> Contents<'a> {
        let fixed = plan.requests.first().and_then(|it| it.content.as_deref());
        let message_bytes = websocket.message_bytes;
        let several = CYCLE_BYTES / message_bytes.max(1);
        Contents {
            fixed,
            message_bytes,
            cycle: match fixed {
                Some(_) => 1,
                None => several.clamp(CYCLE_MIN, CYCLE_MAX),
            },
            depth: websocket.depth as usize,
        }
    }

    /// One for each position.
    fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.cycle)
            .cycle()
            .take(self.cycle + self.depth)
            .map(|it| self.content(it))
    }

    fn content(&self, number: usize) -> Vec<u8> {
        match self.fixed {
            Some(content) => content.to_vec(),
            None => numbered(number, self.message_bytes),
        }
    }
}

/// A text of this length with a number in it, as far as there is room for its digits.
fn numbered(number: usize, bytes: usize) -> Vec<u8> {
    let digits = format!("{number:0NUMBER_BYTES$}").into_bytes();
    let room = bytes.min(NUMBER_BYTES);
    let last = digits.get(NUMBER_BYTES - room..).unwrap_or_default();
    last.iter()
        .copied()
        .chain((b'a'..=b'z').cycle())
        .take(bytes)
        .collect()
}

/// The request of the handshake (RFC 6455 4.1), around the key's value.
fn handshake(plan: &Plan, websocket: &WebSocket) -> (Vec<u8>, Vec<u8>) {
    let Some(request) = plan.requests.first() else {
        return Default::default();
    };
    let mut before = format!("GET {} HTTP/1.1\r\n", request.target);
    let states_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    if !request.field_lines.iter().any(states_host) {
        before.push_str(&format!("Host: {}\r\n", request.authority(&plan.address)));
    }
    before.push_str("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ");
    let mut after = String::from("\r\nSec-WebSocket-Version: 13\r\n");
    if websocket.is_compressed {
        let offer = String::from_utf8_lossy(OFFER);
        let _ = write!(after, "Sec-WebSocket-Extensions: {offer}\r\n");
    }
    for (name, value) in &request.field_lines {
        let _ = write!(after, "{name}: {value}\r\n");
    }
    after.push_str("\r\n");
    (before.into_bytes(), after.into_bytes())
}
