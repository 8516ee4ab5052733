//! Runs the frames of WebSocket in `vectors/`: whole, octet by octet, and cut in two at every octet. However they arrive, the result must be
//! the same.

mod files;

use std::collections::HashSet;

use serde::Deserialize;
use wire::websocket::{
    Close, CloseCode, Event, Incoming, Inflater, Inflaters, Kind, MessageLimits, Receiver, Role,
    Sender, apply_mask, frame_bytes, reserve_exact,
};

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    frames: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    #[serde(default)]
    us: Side,
    #[serde(default)]
    deflate: Deflate,
    message_bytes_max: Option<usize>,
    fragments_max: Option<u32>,
    sent: Vec<Sent>,
    #[serde(default)]
    events: Vec<Expected>,
    failure: Option<u16>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    #[default]
    Server,
    Client,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Deflate {
    #[default]
    Off,
    WithoutContext,
    WithContext,
}

/// Octets, or a frame.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    hex: Option<String>,
    opcode: Option<u8>,
    #[serde(default = "yes")]
    fin: bool,
    #[serde(default)]
    rsv: u8,
    text: Option<String>,
    content: Option<String>,
    #[serde(default = "once")]
    times: usize,
    length: Option<u64>,
    length_octets: Option<usize>,
    masked: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    text: Option<String>,
    binary: Option<String>,
    ping: Option<String>,
    pong: Option<String>,
    close: Option<u16>,
    #[serde(default)]
    reason: String,
    #[serde(default = "once")]
    times: usize,
}

fn yes() -> bool {
    true
}

fn once() -> usize {
    1
}

/// An event that owns its content.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Close),
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "hex {text}");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

impl Sent {
    fn octets(&self, us: Side) -> Vec<u8> {
        let Some(opcode) = self.opcode else {
            return hex(self.hex.as_deref().expect("opcode or hex"));
        };
        let content = match (&self.text, &self.content) {
            (Some(text), None) => text.as_bytes().repeat(self.times),
            (None, Some(content)) => hex(content).repeat(self.times),
            _ => Vec::new(),
        };
        let length = self.length.unwrap_or(content.len() as u64);
        let masked = self.masked.unwrap_or(matches!(us, Side::Server));
        let mut octets = vec![u8::from(self.fin) << 7 | self.rsv << 4 | opcode];
        let mask = u8::from(masked) << 7;
        let natural = match length {
            0..126 => 0,
            126..=0xffff => 2,
            _ => 8,
        };
        match self.length_octets.unwrap_or(natural) {
            0 => octets.push(mask | length as u8),
            2 => {
                octets.push(mask | 126);
                octets.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                octets.push(mask | 127);
                octets.extend_from_slice(&length.to_be_bytes());
            }
        }
        let start = octets.len() + if masked { 4 } else { 0 };
        if masked {
            octets.extend_from_slice(&KEY);
        }
        octets.extend_from_slice(&content);
        if masked {
            apply_mask(&mut octets[start..], KEY, 0);
        }
        octets
    }
}

impl Expected {
    fn seen(&self) -> Seen {
        if let Some(text) = &self.text {
            return Seen::Message(Kind::Text, text.as_bytes().repeat(self.times));
        }
        if let Some(content) = &self.binary {
            return Seen::Message(Kind::Binary, hex(content).repeat(self.times));
        }
        match (&self.ping, &self.pong, self.close) {
            (Some(content), None, None) => Seen::Ping(content.as_bytes().to_vec()),
            (None, Some(content), None) => Seen::Pong(content.as_bytes().to_vec()),
            (None, None, Some(code)) => Seen::Close(Close {
                code: (code != 1005).then_some(CloseCode(code)),
                reason: self.reason.clone(),
            }),
            _ => panic!("an event is text, binary, ping, pong or close"),
        }
    }
}

impl Case {
    fn receiver(&self) -> Receiver {
        let us = match self.us {
            Side::Server => Role::Server,
            Side::Client => Role::Client,
        };
        let incoming = match self.deflate {
            Deflate::Off => Incoming::Plain,
            Deflate::WithoutContext => Incoming::WithoutContext(None),
            Deflate::WithContext => {
                let inflater = Inflater::new(true);
                Incoming::WithContext(Box::new(inflater.expect("memory")))
            }
        };
        Receiver::new(us, incoming)
    }

    /// What arrives if the octets come in these pieces.
    fn run<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Option<u16>) {
        let limits = MessageLimits {
            message_bytes_max: self.message_bytes_max.unwrap_or(1 << 20),
            fragments_max: self.fragments_max.unwrap_or(1000),
            reserve: reserve_exact,
        };
        let mut receiver = self.receiver();
        let mut inflaters = Inflaters::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let mut piece = piece.to_vec();
            let mut rest = &mut piece[..];
            while !rest.is_empty() {
                let (taken, event) = match receiver.receive(rest, &limits, &mut inflaters) {
                    Ok((taken, event)) => (taken, event.map(owned)),
                    Err(failure) => return (seen, Some(failure.code().0)),
                };
                seen.extend(event);
                rest = &mut rest[taken..];
            }
        }
        assert!(receiver.message_bytes() <= limits.message_bytes_max.max(1024) + 1);
        (seen, None)
    }

    fn check(&self) {
        let octets: Vec<u8> = self.sent.iter().flat_map(|s| s.octets(self.us)).collect();
        let expected: Vec<Seen> = self.events.iter().map(Expected::seen).collect();
        let expected = (expected, self.failure);
        let name = format!("{} ({}: {})", self.id, self.clause, self.why);
        assert_eq!(
            self.run([&octets[..]].into_iter()),
            expected,
            "{name}, whole"
        );
        assert_eq!(
            self.run(octets.chunks(1)),
            expected,
            "{name}, octet by octet"
        );
        for at in (1..octets.len()).step_by(octets.len().div_ceil(2000)) {
            let (first, second) = octets.split_at(at);
            assert_eq!(
                self.run([first, second].into_iter()),
                expected,
                "{name}, cut at {at}"
            );
        }
    }
}

fn owned(event: Event<'_>) -> Seen {
    match event {
        Event::Message(kind, content) => Seen::Message(kind, content.to_vec()),
        Event::Ping(content) => Seen::Ping(content.to_vec()),
        Event::Pong(content) => Seen::Pong(content.to_vec()),
        Event::Close(close) => Seen::Close(close),
    }
}

#[test]
fn every_case_whole_and_cut() {
    let mut ids = HashSet::new();
    let files: Vec<File> = files::read(&["rfc6455", "rfc7692"]);
    for file in files {
        for case in file.frames {
            assert!(ids.insert(case.id.clone()), "{} exists twice", case.id);
            case.check();
        }
    }
    assert!(ids.len() >= 90, "{} cases", ids.len());
}

#[test]
fn frames_of_a_server_have_their_length() {
    let sender = Sender::new(Role::Server);
    for length in [0, 125, 126, 65_535, 65_536] {
        let mut frames = Vec::new();
        let content = vec![b'x'; length];
        let pushed = sender.push_message(&mut frames, Kind::Text, &content, [0; 4]);
        assert_eq!(pushed, Ok(()));
        let bytes = frames.len();
        sender.push_ping(&mut frames, b"", [0; 4]);
        assert_eq!(frame_bytes(&frames, Role::Client), Some(bytes));
        assert_eq!(frame_bytes(&frames[..1], Role::Client), None);
        assert_eq!(frame_bytes(&frames, Role::Server), None);
    }
}
