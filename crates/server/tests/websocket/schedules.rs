//! Random schedules of a WebSocket: octets cut anywhere, moves of the application, time, slow readers, ends of both sides, drains.
//!
//! Checked in each run: what either side receives is a prefix of what the other has sent, in order, and all of it after a clean close; every
//! WebSocket has one end; each side that waits has a deadline or an application that owes the next move; in the end nothing is left or held.
//!
//! `BOLIDE_MODEL_CASES` is the number of schedules of each test, `BOLIDE_MODEL_SEED` varies them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use server::{Close, CloseCode, Command, Compression, MessageKind};
use wire::websocket::Incoming;

use crate::harness::Server;
use crate::harness::websocket::{Arrived, WebSocketClient, close, handshake, ping, pong, text};

const CASES: u32 = 150;
const MOVES_MAX: usize = 60;
const TARGETS: [&str; 4] = ["/ws/echo", "/ws/post", "/ws/slow", "/ws/sub/t"];

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The client writes a message of that length, in so many frames.
    Message(u32, u8),
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
    Drain,
    Pass,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let length = prop_oneof![8 => 0..200_u32, 2 => 0..5_000_u32, 1 => 0..150_000_u32];
    let each = Union::new_weighted(vec![
        (
            30,
            (length.clone(), 1..4_u8)
                .prop_map(|(bytes, frames)| Move::Message(bytes, frames))
                .boxed(),
        ),
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
    client: WebSocketClient,
    /// What the client has written and its socket has not taken.
    outbox: Vec<u8>,
    written: Vec<String>,
    posted: Vec<String>,
    published: Vec<String>,
    received: Vec<String>,
    has_closed: bool,
    close_arrived: Option<u16>,
    has_ended: bool,
}

fn content(who: char, number: usize, bytes: usize) -> String {
    let mut content = format!("{who}{number}:");
    content.extend(std::iter::repeat_n('x', bytes));
    content
}

/// A message in `frames` frames.
fn fragments(content: &str, frames: u8) -> Vec<u8> {
    let whole = text(content);
    let head_bytes = whole.len() - content.len();
    if frames < 2 || content.len() < usize::from(frames) {
        return whole;
    }
    let mask = &whole[head_bytes - 4..head_bytes];
    let part_bytes = content.len().div_ceil(usize::from(frames)).min(60_000);
    let mut bytes = Vec::new();
    let count = content.len().div_ceil(part_bytes);
    for (index, part) in content.as_bytes().chunks(part_bytes).enumerate() {
        let first = u8::from(index == 0) | u8::from(index + 1 == count) << 7;
        bytes.push(first);
        match part.len() {
            short @ 0..126 => bytes.push(0x80 | short as u8),
            long => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(long as u16).to_be_bytes());
            }
        }
        bytes.extend_from_slice(mask);
        bytes.extend(
            part.iter()
                .zip(mask.iter().cycle())
                .map(|(byte, key)| byte ^ key),
        );
    }
    bytes
}

impl World {
    fn new(target: &'static str) -> World {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.websocket.compression = Compression::Off;
            config.limits.websocket_queued_bytes_max = 100_000;
        });
        let client = server.connect();
        client.send(&handshake(target, ""));
        let client = server.opened_with(client, Incoming::Plain);
        World {
            server,
            now_ms,
            target,
            client,
            outbox: Vec::new(),
            written: Vec::new(),
            posted: Vec::new(),
            published: Vec::new(),
            received: Vec::new(),
            has_closed: false,
            close_arrived: None,
            has_ended: false,
        }
    }

    fn run(&mut self, each: Move) {
        let id = self.server.exchange(self.target);
        match each {
            Move::Message(bytes, frames) if !self.has_closed => {
                let content = content('c', self.written.len(), bytes as usize);
                self.outbox.extend(fragments(&content, frames));
                self.written.push(content);
            }
            Move::Ping if !self.has_closed => self.outbox.extend(ping(b"?")),
            Move::Close if !self.has_closed => {
                self.outbox.extend(close(1000, "done"));
                self.has_closed = true;
            }
            Move::Invalid if !self.has_closed => {
                self.outbox.extend(b"\x83\x80\0\0\0\0");
                self.has_closed = true;
            }
            Move::Message(..) | Move::Ping | Move::Close | Move::Invalid => {}
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
                self.server.post(id, Command::Close(close));
            }
            Move::Read => self.server.post(id, Command::Read),
            Move::Fail => self.server.post(id, Command::Fail),
            Move::Wait(ms) => {
                self.now_ms.fetch_add(ms.into(), Ordering::Relaxed);
                self.server.pass();
            }
            Move::HalfClose if !self.has_ended => {
                self.client.client.end();
                (self.has_ended, self.has_closed) = (true, true);
                self.outbox.clear();
            }
            Move::HalfClose => {}
            Move::Drain => self.server.worker.drain(),
            Move::Pass => self.server.pass(),
        }
    }

    fn send(&mut self, bytes: usize) {
        let part = self.outbox.get(..bytes).unwrap_or(&self.outbox);
        if !part.is_empty() && !self.has_ended {
            let count = self.client.client.send_some(part);
            self.outbox.drain(..count);
        }
    }

    fn receive(&mut self) {
        while let Some(arrived) = self.client.take() {
            match arrived {
                Arrived::Text(text) => self.received.push(text),
                Arrived::Ping(content) if !self.has_closed => self.outbox.extend(pong(&content)),
                Arrived::Ping(_) | Arrived::Pong(_) => {}
                Arrived::Binary(_) => panic!("nobody sends binary data"),
                Arrived::Close(code, _) => {
                    assert_eq!(self.close_arrived.replace(code), None);
                    if !self.has_closed {
                        self.outbox.extend(close(code.max(1000), ""));
                        self.has_closed = true;
                    }
                }
            }
        }
    }

    /// Everyone does what is owed: the client sends, reads and closes, the application reads.
    fn finish(&mut self) {
        if !self.has_closed {
            self.outbox.extend(close(1000, "done"));
            self.has_closed = true;
        }
        let id = self.server.exchange(self.target);
        for _ in 0..5_000 {
            self.send(usize::MAX);
            self.receive();
            self.server.post(id, Command::Read);
            self.server.pass();
            let is_gone = self.server.is_empty() || self.client.client.is_ended();
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
        let Some((code, _)) = self.server.closed(self.target) else {
            return Err("the application was not notified of the end".into());
        };
        let is_clean = self.close_arrived == Some(1000) && code == 1000;
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

fn hold(target: &'static str, moves: &[Move]) -> Result<(), String> {
    let mut world = World::new(target);
    for each in moves {
        world.run(*each);
    }
    world.check_deadline()?;
    world.finish();
    world.judge()?;
    let World {
        mut server,
        client,
        now_ms,
        ..
    } = world;
    drop(client);
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

#[test]
fn every_schedule_keeps_order_and_leaves_nothing() {
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
            hold(target, &moves).map_err(TestCaseError::fail)
        });
        match held {
            Ok(()) => {}
            Err(TestError::Fail(reason, moves)) => panic!("{target}: {reason}\n{moves:#?}"),
            Err(error) => panic!("{error}"),
        }
    }
}
