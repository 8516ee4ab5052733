//! A whole HTTP/2 connection in the server's role: octets of a client that are cut anywhere, moves of the application, and a clock.
//!
//! Most of what the input describes is a valid preface and frames with a few wrong fields, some is octets as they are. The server must
//! not panic, hold no more memory than its limits say, send only what [`received`] allows, notify the application of each end once, and
//! end the connection when nobody moves any more but time. A client that made no mistake gets a response or a reset for every request.

#![no_main]

mod app;
mod input;
mod received;
mod sent;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use server::{Config, Limits, Mailbox, Worker};
use wire::h2::{Encoder, frame};

use crate::app::{FuzzApp, Progress};
use crate::input::Input;
use crate::received::Received;
use crate::sent::Sent;

const START_MS: u64 = 1_000_000;
/// Less than any time that a client has to read what was sent.
const SLOW_MS: u64 = 5_000;
const MOVES_MAX: usize = 400;
/// Waits within which every connection has ended.
const WAITS_MAX: usize = 3000;
/// What a client sends before the server knows that it speaks HTTP/2.
const PROTOCOL_BYTES: usize = 4;
/// What the worker holds for a connection besides what its limits say.
const OWN_BYTES: u64 = 16_384;

const TARGETS: [(&str, &str); 12] = [
    ("GET", "/now/5/"),
    ("GET", "/now/70000/"),
    ("HEAD", "/now/5/"),
    ("GET", "/later/0/"),
    ("POST", "/later/0/"),
    ("POST", "/asks/0/"),
    ("POST", "/read/0/"),
    ("GET", "/pull/3/"),
    ("HEAD", "/pull/3/"),
    ("GET", "/begun/0/"),
    ("POST", "/begun/0/"),
    ("PUT", "/asks/7/"),
];
const WINDOWS: [u32; 8] = [0, 1, 10, 1000, 65_535, 100_000, 0x7fff_ffff, 0x8000_0000];

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let mut run = Run::new(&mut input);
    for _ in 0..MOVES_MAX {
        if input.is_empty() {
            break;
        }
        run.step(&mut input);
        run.check();
    }
    run.end(&mut input);
});

struct Run {
    worker: Worker<FuzzApp>,
    limits: Limits,
    clock: Arc<AtomicU64>,
    socket: OwnedFd,
    encoder: Encoder,
    /// Not sent yet.
    pending: Vec<u8>,
    sent_bytes: usize,
    sent: Sent,
    received: Received,
    next: u32,
    /// Requests whose content has not ended.
    unended: Vec<u32>,
    /// Everything that the client wrote is allowed.
    is_valid: bool,
    has_half_closed: bool,
    has_ended: bool,
    was_reset: bool,
    /// When it read last.
    read_ms: u64,
    /// It has not read for so long that the server may have ended the connection in the middle of a frame. A UNIX socket shows no reset.
    is_slow: bool,
}

impl Run {
    fn new(input: &mut Input<'_>) -> Run {
        let mut config = Config {
            accepts_prior_knowledge: true,
            ..Config::default()
        };
        let manner = input.byte();
        if manner & 1 != 0 {
            let limits = &mut config.limits;
            limits.h2_streams_max = 3;
            limits.content_buffer_bytes_max = 500;
            limits.body_bytes_max = 2000;
            limits.send_buffer_bytes_max = 4096;
            limits.h2_idle_frames_max = 20;
            limits.h2_resets_max = 4;
            limits.header_section_bytes_max = 600;
            limits.h2_table_bytes_max = 200;
        }
        let limits = config.limits;
        let clock = Arc::new(AtomicU64::new(START_MS));
        let mailbox = Arc::new(Mailbox::default());
        let app = FuzzApp {
            mailbox: Arc::clone(&mailbox),
            exchanges: Vec::new(),
        };
        let time = net::Clock::manual(Arc::clone(&clock));
        let worker = Worker::with_clock(app, config, None, mailbox, time);
        let mut worker = worker.expect("an epoll set");
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        worker.adopt(theirs.into()).expect("a usable socket");
        ours.set_nonblocking(true).expect("a socket");
        let mut pending = wire::h2::PREFACE.to_vec();
        if manner & 2 == 0 {
            frame::push_settings(&mut pending, &[]);
        }
        Run {
            worker,
            limits,
            clock,
            socket: ours.into(),
            encoder: Encoder::new(),
            pending,
            sent_bytes: 0,
            sent: Sent::new(),
            received: Received::new(),
            next: 1,
            unended: Vec::new(),
            is_valid: manner & 2 == 0,
            has_half_closed: false,
            has_ended: false,
            was_reset: false,
            read_ms: START_MS,
            is_slow: false,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 32 {
            0..=5 => self.request(input),
            6..=8 => self.content(input),
            9 => self.trailers(input),
            10 => {
                let stream = self.stream(input);
                self.push(3, 0, stream, &8_u32.to_be_bytes());
            }
            11 | 12 => self.window(input),
            13 => self.settings(input),
            14 => self.push(6, 0, 0, b"question"),
            15 => self.frame(input),
            16 => self.octets(input),
            17 => self.flip(input),
            18 => self.push(4, 1, 0, b""),
            19 => self.push(7, 0, 0, &[0; 8]),
            20..=22 => self.send(input.number()),
            23 => self.send(usize::MAX),
            24 | 25 => self.pass(),
            26 => self.receive(),
            27..=29 => {
                let (which, kind, bytes) = (input.byte(), input.byte(), input.number());
                let app = &mut self.worker.app;
                if let Some(index) = app.pick(usize::from(which)) {
                    app.make_move(index, kind, bytes);
                }
            }
            30 => {
                let ms = input.one(&[1, 200, 600, 5000, 16_000, 31_000, 61_000, 80_000]);
                self.clock.fetch_add(ms, Ordering::Relaxed);
            }
            _ => match input.byte() % 4 {
                0 => self.worker.drain(),
                1 => {
                    self.has_half_closed = true;
                    let _ = shutdown(&self.socket, Shutdown::Write);
                }
                _ => self.pass(),
            },
        }
    }

    /// Appends a frame.
    fn push(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let out = &mut self.pending;
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
    }

    /// A stream that was opened, or will be.
    fn stream(&mut self, input: &mut Input<'_>) -> u32 {
        let back = u32::from(input.byte() % 8);
        let stream = self.next.saturating_sub(2 * back);
        if back == 0 || stream > self.next {
            self.is_valid = false;
        }
        stream.max(1)
    }

    fn request(&mut self, input: &mut Input<'_>) {
        let (method, target) = input.one(&TARGETS);
        let manner = input.byte();
        let is_last = match method {
            "GET" | "HEAD" => true,
            _ => manner & 7 == 0,
        };
        let target = format!("{target}{}", self.next);
        let fields: &[u8] = match manner >> 4 {
            0 | 1 => b"content-length: 7\r\n",
            2 => b"expect: 100-continue\r\n",
            3 => b"cookie: a=b\r\nte: trailers\r\n",
            4 => b"x-long: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n",
            _ => b"",
        };
        if manner >> 4 < 2 {
            self.is_valid = false;
        }
        let mut block = Vec::new();
        let (method, target) = (method.as_bytes(), target.as_bytes());
        self.encoder
            .request(method, b"http", b"test", target, fields, &mut block);
        let stream = self.next;
        self.next += 2;
        let end = u8::from(is_last);
        if !is_last {
            self.unended.push(stream);
        }
        if manner & 8 == 0 {
            return self.push(1, 4 | end, stream, &block);
        }
        let (first, rest) = block.split_at(usize::from(manner & 3).min(block.len()));
        self.push(1, end, stream, first);
        self.push(9, 4, stream, rest);
    }

    /// Content that may exceed windows, or come when none may.
    fn content(&mut self, input: &mut Input<'_>) {
        let stream = self.stream(input);
        let (manner, bytes) = (input.byte(), input.number() % 17_000);
        self.is_valid = false;
        let mut payload = vec![b'c'; bytes];
        let mut flags = manner & 1;
        if manner & 6 == 6 && !payload.is_empty() {
            flags |= 8;
            payload[0] = manner;
        }
        self.push(0, flags, stream, &payload);
    }

    fn trailers(&mut self, input: &mut Input<'_>) {
        let stream = self.stream(input);
        self.is_valid = false;
        let mut block = Vec::new();
        match input.byte() % 4 {
            0 => block.extend_from_slice(input.octets(20)),
            _ => self.encoder.trailers(b"x-trailer: value\r\n", &mut block),
        }
        self.push(1, 5, stream, &block);
    }

    fn window(&mut self, input: &mut Input<'_>) {
        let stream = match input.byte() % 2 {
            0 => 0,
            _ => self.stream(input),
        };
        let increment = input.one(&WINDOWS);
        self.is_valid &= matches!(increment, 1..=100_000);
        self.push(8, 0, stream, &increment.to_be_bytes());
    }

    fn settings(&mut self, input: &mut Input<'_>) {
        let mut payload = Vec::new();
        for _ in 0..input.byte() % 4 {
            let (identifier, value) = match input.byte() % 8 {
                0 => (1, input.one(&[0, 1, 100, 4096, 100_000])),
                1 => (5, input.one(&[16_384, 16_385, 16_777_215])),
                2 => (input.byte(), input.one(&[0, 1, 2, u32::MAX])),
                _ => (4, input.one(&WINDOWS)),
            };
            self.is_valid = false;
            payload.extend_from_slice(&[0, identifier]);
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.push(4, 0, 0, &payload);
    }

    /// Any frame.
    fn frame(&mut self, input: &mut Input<'_>) {
        self.is_valid = false;
        let (kind, flags) = (input.byte() % 12, input.byte());
        let stream = match input.byte() % 4 {
            0 => 0,
            1 => input.number() as u32,
            _ => self.stream(input),
        };
        let count = usize::from(input.byte());
        let payload = input.octets(count);
        self.push(kind, flags, stream, payload);
    }

    fn octets(&mut self, input: &mut Input<'_>) {
        self.is_valid = false;
        let count = usize::from(input.byte());
        self.pending.extend_from_slice(input.octets(count));
    }

    fn flip(&mut self, input: &mut Input<'_>) {
        let (place, with) = (input.number(), input.byte());
        let place = place % self.pending.len().max(1);
        // The first ones decide whether it is HTTP/2.
        if self.sent_bytes + place < PROTOCOL_BYTES {
            return;
        }
        if let Some(octet) = self.pending.get_mut(place) {
            *octet ^= with;
            self.is_valid &= with == 0;
        }
    }

    /// Sends so many octets, wherever frames end.
    fn send(&mut self, most: usize) {
        let count = self.pending.len().min(most);
        if self.has_half_closed || self.has_ended {
            self.pending.clear();
            return;
        }
        match send(&self.socket, &self.pending[..count], SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.sent.add(&self.pending[..count]);
                self.sent_bytes += count;
                self.pending.drain(..count);
            }
            Err(Errno::AGAIN) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => self.pending.clear(),
            Err(error) => panic!("{error}"),
        }
    }

    fn pass(&mut self) {
        self.worker.before_wait();
        self.worker.wait(Some(0)).expect("the epoll set works");
        self.worker.dispatch();
    }

    fn receive(&mut self) {
        let now_ms = self.clock.load(Ordering::Relaxed);
        self.is_slow |= now_ms - self.read_ms >= SLOW_MS;
        self.read_ms = now_ms;
        let mut buffer = [0; 4096];
        while !self.has_ended {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => self.has_ended = true,
                // It may be a response of HTTP/1.
                Ok(_) if self.sent_bytes < PROTOCOL_BYTES => {}
                Ok(count) => self.received.add(&buffer[..count], &mut self.sent),
                Err(Errno::AGAIN) => return,
                Err(Errno::CONNRESET) => (self.has_ended, self.was_reset) = (true, true),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn check(&mut self) {
        let held = self.worker.held_bytes();
        let most = self.limits.http2_connection_bytes_max() + OWN_BYTES;
        let responses: u64 = 100_000 * self.worker.app.exchanges.len() as u64;
        assert!(
            held <= most + responses,
            "{held} bytes are held, {most} allowed"
        );
    }

    fn end(&mut self, input: &mut Input<'_>) {
        let is_silent = input.byte() % 2 == 0;
        if !is_silent && self.is_valid && !self.has_half_closed {
            self.finish();
        }
        for _ in 0..WAITS_MAX {
            self.worker.app.complete();
            self.pass();
            self.receive();
            match self.worker.before_wait() {
                Some(wait_ms) => {
                    self.clock.fetch_add(wait_ms.max(1), Ordering::Relaxed);
                }
                None if self.worker.app.pick(0).is_some() => {}
                None => break,
            }
        }
        let progress = self.worker.app.exchanges.iter().map(|it| it.progress);
        let progress: Vec<Progress> = progress.collect();
        assert!(self.has_ended, "the connection stays open: {progress:?}");
        let may_be_cut = self.was_reset || self.is_slow;
        assert!(
            self.received.is_at_boundary() || may_be_cut,
            "the last frame is cut"
        );
        assert!(self.worker.is_empty(), "a connection is left");
        assert_eq!(self.worker.held_bytes(), 0);
        for exchange in &self.worker.app.exchanges {
            let is_running = matches!(
                exchange.progress,
                Progress::Waiting | Progress::Pushed | Progress::Pulled(_)
            );
            assert!(!is_running, "{:?} was forgotten", exchange.progress);
        }
    }

    /// Lets everything be served: the client made no mistake.
    fn finish(&mut self) {
        self.push(4, 0, 0, &[0, 4, 0, 0x10, 0, 0]);
        self.push(8, 0, 0, &0x0100_0000_u32.to_be_bytes());
        for stream in std::mem::take(&mut self.unended) {
            self.push(0, 1, stream, b"");
        }
        let was_ended = self.has_ended || !self.received.goaways.is_empty();
        for _ in 0..50 {
            self.send(usize::MAX);
            self.pass();
            self.worker.app.complete();
            self.receive();
        }
        let is_refused = self.received.goaways.iter().any(|(_, code)| *code != 0);
        if was_ended || self.has_ended || is_refused {
            return;
        }
        for (stream, opened) in &self.sent.opened {
            let response = self.received.streams.get(stream);
            let is_over = response.is_some_and(|it| it.has_ended || it.was_reset);
            let last = self
                .received
                .goaways
                .last()
                .map_or(u32::MAX, |(last, _)| *last);
            assert!(
                is_over || opened.was_reset || *stream > last,
                "{stream} has no response"
            );
        }
    }
}
