//! Random schedules of a WebSocket: octets cut anywhere, moves of the application, time, slow readers, ends of both sides, drains.
//!
//! Checked in each run: what either side receives is a prefix of what the other has sent, in order, and all of it after a clean close; every
//! WebSocket has one end, whose code and reason are those of what has happened; each side that waits has a deadline or an application that
//! owes the next move; in the end nothing is left or held. WebSockets on streams have schedules of their own: `h2_schedules`.
//!
//! `BOLIDE_MODEL_CASES` is the number of schedules of each test, `BOLIDE_MODEL_SEED` varies them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use server::{Close, CloseCode, Command, Compression, MessageKind};
use wire::websocket::{Deflater, Incoming, Inflater, Role, Sender, WindowBits};

use crate::harness::Server;
use crate::harness::carrier::Carrier;
use crate::harness::causes::Causes;
use crate::harness::tls::configs;
use crate::harness::websocket::{Arrived, Frames, close, fragments, handshake, ping, pong};

const CASES: u32 = 80;
const MOVES_MAX: usize = 60;
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
/// Less than any timeout of a WebSocket.
const STALL_MS: u32 = 10_000;
const TARGETS: [&str; 4] = ["/ws/echo", "/ws/post", "/ws/slow", "/ws/sub/t"];

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The client writes a message of that length, in so many frames; 0 is one that is compressed.
    Message(u32, u8, MessageKind),
    /// So many short messages.
    Burst(u16),
    Ping,
    Close,
    Invalid,
    /// The client's socket takes so many bytes.
    Send(u16),
    /// The client reads.
    Receive,
    /// The application sends a message of that length.
    Post(u32),
    Publish(u16),
    PostClose,
    Read,
    Fail,
    /// Time passes.
    Wait(u32),
    HalfClose,
    Vanish,
    Drain,
    Pass,
}

/// What carries the WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Manner {
    is_tls: bool,
    compression: Compression,
}

const PLAIN: Manner = Manner {
    is_tls: false,
    compression: Compression::Off,
};

fn kinds() -> impl Strategy<Value = MessageKind> {
    prop_oneof![2 => Just(MessageKind::Text), 1 => Just(MessageKind::Binary)]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let length = prop_oneof![8 => 0..200_u32, 2 => 0..5_000_u32, 1 => 0..150_000_u32];
    let each = Union::new_weighted(vec![
        (
            30,
            (length.clone(), 0..4_u8, kinds())
                .prop_map(|(bytes, frames, kind)| Move::Message(bytes, frames, kind))
                .boxed(),
        ),
        (1, (1..1_500_u16).prop_map(Move::Burst).boxed()),
        (4, Just(Move::Ping).boxed()),
        (1, Just(Move::Close).boxed()),
        (1, Just(Move::Invalid).boxed()),
        (30, (1..40_000_u16).prop_map(Move::Send).boxed()),
        (20, (1..30_u16).prop_map(Move::Send).boxed()),
        (15, Just(Move::Receive).boxed()),
        (15, length.prop_map(Move::Post).boxed()),
        (6, (0..2_000_u16).prop_map(Move::Publish).boxed()),
        (1, Just(Move::PostClose).boxed()),
        (15, Just(Move::Read).boxed()),
        (1, Just(Move::Fail).boxed()),
        (6, (1..5_000_u32).prop_map(Move::Wait).boxed()),
        (2, (5_000..30_000_u32).prop_map(Move::Wait).boxed()),
        (1, Just(Move::HalfClose).boxed()),
        (1, Just(Move::Vanish).boxed()),
        (1, Just(Move::Drain).boxed()),
        (20, Just(Move::Pass).boxed()),
    ]);
    vec(each, 1..MOVES_MAX)
}

/// One run.
struct World {
    server: Server,
    now_ms: Arc<AtomicU64>,
    target: &'static str,
    carrier: Carrier,
    frames: Frames,
    deflater: Option<Deflater>,
    /// What the client has written and its carrier has not taken.
    outbox: Vec<u8>,
    written: Vec<String>,
    posted: Vec<String>,
    published: Vec<String>,
    received: Vec<String>,
    /// The client writes no more.
    has_closed: bool,
    causes: Causes,
    waited_ms: u32,
    has_ended: bool,
}

fn content(who: char, number: usize, bytes: usize) -> String {
    let mut content = format!("{who}{number}:");
    content.extend(std::iter::repeat_n('x', bytes));
    content
}

/// A handshake over the carrier, which the application accepts. Returns what follows the response.
fn open(server: &mut Server, carrier: &mut Carrier, target: &str, lines: &str) -> Vec<u8> {
    let mut outbox = handshake(target, lines).into_bytes();
    let mut bytes = Vec::new();
    let end = |bytes: &[u8]| bytes.windows(4).position(|part| part == b"\r\n\r\n");
    server.pass_until(|_| {
        carrier.send(&mut outbox, usize::MAX);
        bytes.extend(carrier.take_bytes());
        end(&bytes).is_some()
    });
    assert!(bytes.starts_with(b"HTTP/1.1 101 "));
    let head_bytes = end(&bytes).expect("pass_until has waited for it");
    bytes.split_off(head_bytes + 4)
}

impl World {
    fn new(target: &'static str, manner: Manner) -> World {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.websocket.compression = manner.compression;
            config.limits.websocket_queued_bytes_max = 100_000;
        });
        let mut carrier = match manner.is_tls {
            false => Carrier::new(server.connect()),
            true => Carrier::with_tls(server.connect_with_tls(&configs().0), &configs().1),
        };
        let (lines, incoming, deflater) = match manner.compression {
            Compression::Off => ("", Incoming::Plain, None),
            Compression::Messages { level } => {
                let deflater = Deflater::new(level, WindowBits::MAX, false).expect("memory");
                (DEFLATE, Incoming::WithoutContext(None), Some(deflater))
            }
            Compression::Context { level } => {
                let window = WindowBits::new(12).expect("a window");
                let inflater = Inflater::new(true).expect("memory");
                let deflater = Deflater::new(level, window, true).expect("memory");
                (
                    DEFLATE,
                    Incoming::WithContext(Box::new(inflater)),
                    Some(deflater),
                )
            }
        };
        let mut frames = Frames::new(incoming);
        frames.add(&open(&mut server, &mut carrier, target, lines));
        World {
            server,
            now_ms,
            target,
            carrier,
            frames,
            deflater,
            outbox: Vec::new(),
            written: Vec::new(),
            posted: Vec::new(),
            published: Vec::new(),
            received: Vec::new(),
            has_closed: false,
            causes: Causes {
                is_subscriber: target.starts_with("/ws/sub"),
                ..Causes::default()
            },
            waited_ms: 0,
            has_ended: false,
        }
    }

    fn message(&mut self, bytes: u32, frames: u8, kind: MessageKind) {
        let content = content('c', self.written.len(), bytes as usize);
        let octets = content.as_bytes();
        match (frames, &mut self.deflater) {
            (0, Some(deflater)) => {
                let sender = Sender::new(Role::Client);
                let pushed = sender.push_deflated(&mut self.outbox, kind, octets, [7; 4], deflater);
                pushed.expect("memory");
            }
            _ => self.outbox.extend(fragments(kind, octets, frames)),
        }
        self.written.push(content);
    }

    /// The client's last frame.
    fn close(&mut self, code: u16, reason: &str) {
        if !self.has_closed {
            self.outbox.extend(close(code, reason));
            self.causes.by_client = Some((code, reason.to_owned()));
            self.has_closed = true;
        }
    }

    fn post_close(&mut self, code: u16, reason: &str, command: Command) {
        let id = self.server.exchange(self.target);
        self.server.post(id, command);
        let by_app = &mut self.causes.by_app;
        by_app.get_or_insert_with(|| (code, reason.to_owned()));
    }

    fn run(&mut self, each: Move) {
        let id = self.server.exchange(self.target);
        match each {
            Move::Message(bytes, frames, kind) if !self.has_closed => {
                self.message(bytes, frames, kind);
            }
            Move::Burst(messages) if !self.has_closed => {
                (0..messages).for_each(|_| self.message(0, 1, MessageKind::Text));
            }
            Move::Ping if !self.has_closed => self.outbox.extend(ping(b"?")),
            Move::Close => self.close(1000, "done"),
            Move::Invalid if !self.has_closed => {
                self.outbox.extend(b"\x83\x80\0\0\0\0");
                self.has_closed = true;
                self.causes.has_violated = true;
            }
            Move::Message(..) | Move::Burst(_) | Move::Ping | Move::Invalid => {}
            Move::Send(bytes) => self.send(usize::from(bytes)),
            Move::Receive => self.receive(),
            Move::Post(bytes) => {
                let content = content('a', self.posted.len(), bytes as usize);
                let command = Command::Message(MessageKind::Text, content.clone().into_bytes());
                self.server.post(id, command);
                self.posted.push(content);
            }
            Move::Publish(bytes) => {
                let content = content('p', self.published.len(), usize::from(bytes));
                self.server.publish("t", &content);
                self.published.push(content);
            }
            Move::PostClose => {
                let close = Close {
                    code: Some(CloseCode(3001)),
                    reason: "enough".into(),
                };
                self.post_close(3001, "enough", Command::Close(close));
            }
            Move::Read => self.server.post(id, Command::Read),
            Move::Fail => self.post_close(1011, "", Command::Fail),
            Move::Wait(ms) => {
                self.now_ms.fetch_add(ms.into(), Ordering::Relaxed);
                self.waited_ms += ms;
                self.causes.has_stalled = self.waited_ms >= STALL_MS;
                self.server.pass();
            }
            Move::HalfClose if !self.has_ended => {
                self.carrier.finish();
                self.end();
            }
            Move::HalfClose => {}
            Move::Vanish => {
                self.carrier.vanish();
                self.end();
            }
            Move::Drain => {
                self.causes.has_drained = true;
                self.server.worker.drain();
            }
            Move::Pass => self.server.pass(),
        }
    }

    /// The client has ended its side: what it has not sent is lost.
    fn end(&mut self) {
        (self.has_ended, self.has_closed, self.causes.is_lost) = (true, true, true);
        self.outbox.clear();
    }

    fn send(&mut self, bytes: usize) {
        self.carrier.send(&mut self.outbox, bytes);
    }

    fn receive(&mut self) {
        self.frames.add(&self.carrier.take_bytes());
        while let Some(arrived) = self.frames.take() {
            match arrived {
                Arrived::Text(text) => self.received.push(text),
                Arrived::Binary(content) => {
                    let text = String::from_utf8(content).expect("it was text");
                    self.received.push(text);
                }
                Arrived::Ping(content) if !self.has_closed => self.outbox.extend(pong(&content)),
                Arrived::Ping(_) | Arrived::Pong(_) => {}
                Arrived::Close(code, reason) => {
                    assert_eq!(self.causes.arrived.replace((code, reason)), None);
                    self.close(code, "");
                }
            }
        }
    }

    /// Everyone does what is owed: the client sends, reads and closes, the application reads.
    fn finish(&mut self) {
        self.close(1000, "done");
        let id = self.server.exchange(self.target);
        for _ in 0..5_000 {
            self.send(usize::MAX);
            self.receive();
            self.server.post(id, Command::Read);
            self.server.pass();
            let is_gone = self.server.is_empty() || self.carrier.is_ended();
            if is_gone && self.server.closed(self.target).is_some() {
                break;
            }
        }
        self.receive();
    }

    /// A side that waits has a deadline, a turn, or an application that has enough.
    fn check_deadline(&mut self) -> Result<(), String> {
        self.server.settle();
        let is_owned = self.target == "/ws/slow" || self.server.is_empty();
        match is_owned || self.server.worker.before_wait().is_some() {
            true => Ok(()),
            false => Err("nobody owes the next move".into()),
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        let Some(reported) = self.server.closed(self.target) else {
            return Err("the application was not notified of the end".into());
        };
        self.causes.check(&reported)?;
        let is_clean = self.causes.is_clean(&reported) && self.causes.by_app.is_none();
        let delivered: Vec<String> = self
            .server
            .worker
            .app
            .messages
            .iter()
            .map(|(_, _, content)| String::from_utf8_lossy(content).into_owned())
            .collect();
        prefix(
            "messages to the application",
            &delivered,
            &self.written,
            is_clean,
        )?;
        for (who, all) in [('a', &self.posted), ('p', &self.published)] {
            let of_them = self.received.iter().filter(|text| text.starts_with(who));
            let received: Vec<String> = of_them.cloned().collect();
            prefix("messages to the client", &received, all, false)?;
        }
        let echoed = self.received.iter().filter(|text| text.starts_with('c'));
        let echoed: Vec<String> = echoed.cloned().collect();
        let is_echoed = matches!(self.target, "/ws/echo");
        prefix("echoes", &echoed, &delivered, is_clean && is_echoed)
    }
}

fn prefix(what: &str, some: &[String], all: &[String], is_all: bool) -> Result<(), String> {
    let is_prefix = all.starts_with(some) && (!is_all || some.len() == all.len());
    match is_prefix {
        true => Ok(()),
        false => Err(format!(
            "{what}: {} of {}, or others",
            some.len(),
            all.len()
        )),
    }
}

fn hold(target: &'static str, manner: Manner, moves: &[Move]) -> Result<(), String> {
    let mut world = World::new(target, manner);
    for each in moves {
        world.run(*each);
    }
    world.check_deadline()?;
    world.finish();
    world.judge()?;
    let World {
        mut server,
        carrier,
        now_ms,
        ..
    } = world;
    drop(carrier);
    for _ in 0..40 {
        now_ms.fetch_add(1_000, Ordering::Relaxed);
        server.pass();
    }
    match (server.is_empty(), server.worker.held_bytes()) {
        (true, 0) => Ok(()),
        (false, _) => Err("a connection is left".into()),
        (true, held_bytes) => Err(format!("{held_bytes} bytes are held")),
    }
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    let value = std::env::var(name).ok();
    value
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

fn hold_all(manner: Manner) {
    let number_of_seed: u64 = number("BOLIDE_MODEL_SEED", 0);
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number_of_seed.to_le_bytes());
    for target in TARGETS {
        let config = Config {
            cases: number("BOLIDE_MODEL_CASES", CASES),
            failure_persistence: None,
            max_shrink_iters: 2_000,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let held = TestRunner::new_with_rng(config, rng).run(&moves(), |moves| {
            hold(target, manner, &moves).map_err(TestCaseError::fail)
        });
        match held {
            Ok(()) => {}
            Err(TestError::Fail(reason, moves)) => panic!("{target}: {reason}\n{moves:#?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn every_schedule_keeps_order_and_leaves_nothing() {
    hold_all(PLAIN);
}

#[test]
fn every_schedule_over_tls_keeps_order_and_leaves_nothing() {
    hold_all(Manner {
        is_tls: true,
        ..PLAIN
    });
}

#[test]
fn every_schedule_with_compression_keeps_order_and_leaves_nothing() {
    for compression in [
        Compression::Messages { level: 1 },
        Compression::Context { level: 1 },
    ] {
        hold_all(Manner {
            compression,
            ..PLAIN
        });
    }
}
