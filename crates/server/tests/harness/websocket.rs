//! The client's side of a WebSocket, frame by frame.

use wire::websocket::{
    Close, CloseCode, Event, Incoming, Inflaters, Kind, MessageLimits, Receiver, Role, Sender,
    reserve_exact,
};

use super::{Client, Server};

/// The example key of RFC 6455 section 1.3, and what the server makes of it.
pub(crate) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 1 << 28,
    fragments_max: 1000,
    reserve: reserve_exact,
};

/// A frame that has arrived, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Arrived {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

/// A handshake with more field lines, each with its CRLF.
pub(crate) fn handshake(target: &str, lines: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{lines}\r\n"
    )
}

/// A text, as a client sends it.
pub(crate) fn text(content: &str) -> Vec<u8> {
    message(Kind::Text, content.as_bytes())
}

pub(crate) fn message(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let pushed = Sender::new(Role::Client).push_message(&mut frame, kind, content, MASK);
    pushed.expect("memory");
    frame
}

pub(crate) fn ping(content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    Sender::new(Role::Client).push_ping(&mut frame, content, MASK);
    frame
}

pub(crate) fn pong(content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    Sender::new(Role::Client).push_pong(&mut frame, content, MASK);
    frame
}

pub(crate) fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    let close = Close {
        code: (code != 1005).then_some(CloseCode(code)),
        reason: reason.to_owned(),
    };
    Sender::new(Role::Client).push_close(&mut frame, &close, MASK);
    frame
}

/// A message in so many frames, if it is long enough.
pub(crate) fn fragments(kind: Kind, content: &[u8], frames: u8) -> Vec<u8> {
    if frames < 2 || content.len() < usize::from(frames) {
        return message(kind, content);
    }
    let part_bytes = content.len().div_ceil(usize::from(frames)).min(60_000);
    let count = content.len().div_ceil(part_bytes);
    let mut bytes = Vec::new();
    for (index, part) in content.chunks(part_bytes).enumerate() {
        let mut frame = message(kind, part);
        let is_last = index + 1 == count;
        let opcode = match (index, frame.first()) {
            (0, Some(first)) => first & 0x0f,
            _ => 0,
        };
        if let Some(first) = frame.first_mut() {
            *first = u8::from(is_last) << 7 | opcode;
        }
        bytes.extend(frame);
    }
    bytes
}

/// Reads the frames of a server.
pub(crate) struct Frames {
    receiver: Receiver,
    inflaters: Inflaters,
    unread: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(incoming: Incoming) -> Frames {
        Frames {
            receiver: Receiver::new(Role::Client, incoming),
            inflaters: Inflaters::default(),
            unread: Vec::new(),
        }
    }

    /// Octets arrive, cut anywhere.
    pub(crate) fn add(&mut self, octets: &[u8]) {
        self.unread.extend_from_slice(octets);
    }

    /// Whether the last frame has not arrived whole.
    pub(crate) fn is_within_frame(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The next frame or message, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<Arrived> {
        let received = self
            .receiver
            .receive(&mut self.unread, &LIMITS, &mut self.inflaters);
        let (used, event) = received.expect("the server keeps to the protocol");
        let arrived = event.map(|event| match event {
            Event::Message(Kind::Text, content) => {
                Arrived::Text(String::from_utf8(content.to_vec()).expect("it was checked"))
            }
            Event::Message(Kind::Binary, content) => Arrived::Binary(content.to_vec()),
            Event::Ping(content) => Arrived::Ping(content.to_vec()),
            Event::Pong(content) => Arrived::Pong(content.to_vec()),
            Event::Close(close) => {
                let code = close.code.map_or(1005, |code| code.0);
                Arrived::Close(code, close.reason)
            }
        });
        self.unread.drain(..used);
        arrived
    }
}

/// A client of one WebSocket.
pub(crate) struct WebSocketClient {
    pub(crate) client: Client,
    frames: Frames,
    /// The head of the response, without its empty line.
    pub(crate) head: String,
}

impl WebSocketClient {
    /// Sends everything; what the socket does not accept at once is sent while the server passes.
    pub(crate) fn send(&self, frames: &[u8]) {
        let sent = self.client.send_some(frames);
        assert_eq!(sent, frames.len(), "the socket is full");
    }

    /// The next frame or message, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<Arrived> {
        self.frames.add(&self.client.take_bytes());
        self.frames.take()
    }

    /// Whether nothing has arrived that was not taken.
    pub(crate) fn is_quiet(&mut self) -> bool {
        !self.frames.is_within_frame() && self.client.is_quiet()
    }
}

impl Server {
    /// Opens a WebSocket that the application accepts at once.
    pub(crate) fn open(&mut self, target: &str) -> WebSocketClient {
        let client = self.connect();
        client.send(&handshake(target, ""));
        self.opened(client)
    }

    /// The WebSocket of a client whose handshake was sent.
    pub(crate) fn opened(&mut self, client: Client) -> WebSocketClient {
        self.opened_with(client, Incoming::Plain)
    }

    pub(crate) fn opened_with(
        &mut self,
        mut client: Client,
        incoming: Incoming,
    ) -> WebSocketClient {
        let mut bytes = Vec::new();
        let end = |bytes: &[u8]| bytes.windows(4).position(|part| part == b"\r\n\r\n");
        self.pass_until(|_| {
            bytes.extend_from_slice(&client.take_bytes());
            end(&bytes).is_some()
        });
        let head_bytes = end(&bytes).expect("pass_until has waited for it");
        let head = String::from_utf8_lossy(&bytes[..head_bytes]).into_owned();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let mut frames = Frames::new(incoming);
        frames.add(&bytes[head_bytes + 4..]);
        WebSocketClient {
            client,
            frames,
            head,
        }
    }

    /// The next frame or message that the server sends.
    pub(crate) fn next(&mut self, client: &mut WebSocketClient) -> Arrived {
        let mut arrived = None;
        self.pass_until(|_| {
            arrived = client.take();
            arrived.is_some()
        });
        arrived.expect("pass_until has waited for it")
    }

    /// The next text that the server sends.
    pub(crate) fn next_text(&mut self, client: &mut WebSocketClient) -> String {
        match self.next(client) {
            Arrived::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }
}
