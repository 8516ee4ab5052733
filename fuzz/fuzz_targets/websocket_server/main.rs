//! A client of WebSockets in the server: over HTTP/1.1, or several on one HTTP/2 connection. Its octets are cut anywhere, the application moves, and
//! time passes.
//!
//! Most of what the input describes are frames, some with wrong bits, some is octets as they are. The server must not panic, hold no more
//! memory than its limits say, send only valid frames, keep the order of what was posted and published, notify the application of each end
//! once, and end the connection when nobody moves any more but time.

#![no_main]

mod app;
#[path = "../h2_server/input.rs"]
mod input;
mod peer;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use server::{Config, Limits, Mailbox, Worker};
use wire::h2::{Encoder, ErrorCode, FRAME_BYTES_MAX, frame, settings};
use wire::websocket::{Close, CloseCode, Deflater, Kind, Role, Sender, WindowBits};

use crate::app::{FuzzApp, Phase};
use crate::input::Input;
use crate::peer::Peer;

const START_MS: u64 = 1_000_000;
const MOVES_MAX: usize = 400;
/// Waits within which every connection has ended.
const WAITS_MAX: usize = 3000;
/// What the worker holds for a connection besides what its limits say.
const OWN_BYTES: u64 = 65_536;
const PEERS_MAX: usize = 6;
const DEFLATE: &str = "permessage-deflate; client_max_window_bits";

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
    run.end();
});

struct Run {
    worker: Worker<FuzzApp>,
    limits: Limits,
    clock: Arc<AtomicU64>,
    socket: OwnedFd,
    is_h2: bool,
    encoder: Encoder,
    peers: Vec<Peer>,
    /// What the client may send on the connection.
    room_bytes: u64,
    /// Not sent yet.
    pending: Vec<u8>,
    /// Frames of HTTP/2 whose end has not arrived.
    octets: Vec<u8>,
    has_half_closed: bool,
    has_ended: bool,
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
            limits.websocket_message_bytes_max = 5_000;
            limits.websocket_fragments_max = 4;
            limits.websocket_queued_bytes_max = 10_000;
            limits.send_buffer_bytes_max = 4096;
            limits.h2_streams_max = 3;
        }
        let limits = config.limits;
        let clock = Arc::new(AtomicU64::new(START_MS));
        let mailbox = Arc::new(Mailbox::default());
        let app = FuzzApp::new(Arc::clone(&mailbox));
        let time = net::Clock::manual(Arc::clone(&clock));
        let worker = Worker::with_clock(app, config, None, mailbox, time);
        let mut worker = worker.expect("an epoll set");
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        worker.adopt(theirs.into()).expect("a usable socket");
        ours.set_nonblocking(true).expect("a socket");
        let mut run = Run {
            worker,
            limits,
            clock,
            socket: ours.into(),
            is_h2: manner & 2 != 0,
            encoder: Encoder::new(),
            peers: Vec::new(),
            room_bytes: 65_535,
            pending: Vec::new(),
            octets: Vec::new(),
            has_half_closed: false,
            has_ended: false,
        };
        if run.is_h2 {
            run.pending.extend_from_slice(wire::h2::PREFACE);
            let window = input.one(&[0, 10, 1000, 65_535, 1 << 20]);
            frame::push_settings(&mut run.pending, &[(settings::INITIAL_WINDOW_SIZE, window)]);
        }
        run.open(input);
        run
    }

    /// The client opens a WebSocket.
    fn open(&mut self, input: &mut Input<'_>) {
        if self.peers.len() >= if self.is_h2 { PEERS_MAX } else { 1 } {
            return;
        }
        let manner = input.byte();
        let target = format!("/{}", manner & 3);
        let is_compressed = manner & 4 != 0;
        if !self.is_h2 {
            let offer = match is_compressed {
                true => format!("Sec-WebSocket-Extensions: {DEFLATE}\r\n"),
                false => String::new(),
            };
            let head = format!(
                "GET {target} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{offer}\r\n"
            );
            self.pending.extend_from_slice(head.as_bytes());
            return self.peers.push(Peer::new(0, is_compressed));
        }
        let stream = 1 + 2 * self.peers.len() as u32;
        let encoder = &mut self.encoder;
        frame::push_headers(&mut self.pending, stream, false, FRAME_BYTES_MAX, |out| {
            encoder.request(b"CONNECT", b"http", b"test", target.as_bytes(), b"", out);
            let fields = [
                (":protocol", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-extensions", DEFLATE),
            ];
            for (name, value) in &fields[..2 + usize::from(is_compressed)] {
                // A literal that is not inserted.
                out.push(0);
                for string in [name, value] {
                    out.push(string.len() as u8);
                    out.extend_from_slice(string.as_bytes());
                }
            }
        });
        self.peers.push(Peer::new(stream, is_compressed));
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 32 {
            0..=5 => self.message(input),
            6 => self.write(input, |out, _| {
                Sender::new(Role::Client).push_ping(out, b"?", [1; 4]);
            }),
            7 => self.write(input, |out, input| {
                let code = input.one(&[1000, 1001, 1005, 4999, 999]);
                let close = Close::new(CloseCode(code), "bye");
                Sender::new(Role::Client).push_close(out, &close, [2; 4]);
            }),
            8 | 9 => self.write(input, |out, input| {
                // A header with any bits.
                let (first, second) = (input.byte(), input.byte());
                out.extend_from_slice(&[first, 0x80 | second, 0, 0, 0, 0]);
                let count = usize::from(second & 0x7f);
                out.extend_from_slice(input.octets(count));
            }),
            10 => self.write(input, |out, input| {
                let count = usize::from(input.byte());
                out.extend_from_slice(input.octets(count));
            }),
            11 => self.open(input),
            12 => self.disturb(input),
            13..=15 => self.send(input.number()),
            16 => self.send(usize::MAX),
            17..=19 => self.pass(),
            20 | 21 => self.receive(),
            22..=27 => {
                let (which, kind, bytes) = (input.byte(), input.byte(), input.number());
                let app = &mut self.worker.app;
                app.make_move(usize::from(which), kind, bytes % 20_000);
            }
            28 => {
                self.worker.send_posted();
            }
            29 => {
                let ms = input.one(&[1, 200, 5000, 10_001, 20_001, 61_000]);
                self.clock.fetch_add(ms, Ordering::Relaxed);
            }
            _ => match input.byte() % 8 {
                0 => self.worker.drain(),
                1 => self.half_close(),
                _ => self.pass(),
            },
        }
    }

    /// A whole message, or a fragment.
    fn message(&mut self, input: &mut Input<'_>) {
        let manner = input.byte();
        let bytes = match manner & 3 {
            0 => input.number() % 10_000,
            _ => usize::from(input.byte()),
        };
        let is_compressed = manner & 4 != 0 && self.peers.last().is_some_and(|it| it.is_compressed);
        self.write(input, |out, _| {
            let (sender, start) = (Sender::new(Role::Client), out.len());
            let content = vec![b'c'; bytes];
            let pushed = match is_compressed {
                true => {
                    let deflater = Deflater::new(1, WindowBits::MAX, false);
                    let mut deflater = deflater.expect("memory");
                    let pushed =
                        sender.push_deflated(out, Kind::Text, &content, [3; 4], &mut deflater);
                    pushed.map(drop)
                }
                false => sender.push_message(out, Kind::Text, &content, [3; 4]),
            };
            pushed.expect("memory");
            match manner >> 4 {
                // The first, a middle, the last fragment.
                1 => out[start] &= 0x7f,
                2 => out[start] = 0,
                3 => out[start] = 0x80,
                _ => {}
            }
        });
    }

    /// Writes octets on one of the WebSockets, as far as the windows allow.
    fn write(&mut self, input: &mut Input<'_>, write: impl FnOnce(&mut Vec<u8>, &mut Input<'_>)) {
        let index = usize::from(input.byte()) % self.peers.len().max(1);
        let mut octets = Vec::new();
        write(&mut octets, input);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        if !self.is_h2 {
            return self.pending.extend(octets);
        }
        if peer.was_reset || peer.has_ended {
            return;
        }
        let room = peer.room_bytes.min(self.room_bytes) as usize;
        let count = octets.len().min(room).min(FRAME_BYTES_MAX);
        frame::push_data(&mut self.pending, peer.stream, &octets[..count], false);
        peer.room_bytes -= count as u64;
        self.room_bytes -= count as u64;
    }

    /// What only a client of HTTP/2 can do: opens a window, ends or resets a stream.
    fn disturb(&mut self, input: &mut Input<'_>) {
        let (manner, index) = (input.byte(), usize::from(input.byte()));
        if !self.is_h2 {
            return;
        }
        let index = index % self.peers.len().max(1);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let out = &mut self.pending;
        let bytes = input.one(&[1, 100, 16_000, 100_000]);
        match manner % 8 {
            0 if !peer.was_reset => {
                peer.was_reset = true;
                frame::push_reset(out, peer.stream, ErrorCode::CANCEL);
            }
            1 if !peer.was_reset => {
                // Nothing may follow it.
                peer.room_bytes = 0;
                frame::push_data(out, peer.stream, b"", true);
                peer.has_ended = true;
            }
            2..=4 => frame::push_window_update(out, 0, bytes),
            _ if !peer.was_reset => frame::push_window_update(out, peer.stream, bytes),
            _ => {}
        }
    }

    fn half_close(&mut self) {
        self.has_half_closed = true;
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Sends so many octets, wherever frames end.
    fn send(&mut self, most: usize) {
        let count = self.pending.len().min(most);
        if self.has_half_closed || self.has_ended {
            return self.pending.clear();
        }
        match send(&self.socket, &self.pending[..count], SendFlags::NOSIGNAL) {
            Ok(count) => drop(self.pending.drain(..count)),
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
        let mut buffer = [0; 4096];
        while !self.has_ended {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) | Err(Errno::CONNRESET) => self.has_ended = true,
                Ok(count) => self.arrive(&buffer[..count]),
                Err(Errno::AGAIN) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn arrive(&mut self, octets: &[u8]) {
        if !self.is_h2 {
            return self.peers[0].add(octets);
        }
        self.octets.extend_from_slice(octets);
        while let [l0, l1, l2, kind, flags, s0, s1, s2, s3, rest @ ..] = &self.octets[..] {
            let length = usize::from(*l0) << 16 | usize::from(*l1) << 8 | usize::from(*l2);
            let stream = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
            let Some(payload) = rest.get(..length) else {
                return;
            };
            let (kind, flags, payload) = (*kind, *flags, payload.to_vec());
            self.octets.drain(..9 + length);
            self.frame(kind, flags, stream, &payload);
        }
    }

    /// A frame of HTTP/2; `h2_server` checks the others.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let peer = self.peers.iter_mut().find(|it| it.stream == stream);
        match (kind, peer) {
            (0, Some(peer)) if peer.is_open => peer.add(payload),
            // A block starts with the status, maybe after sizes of the table; 200 is 8 in the static table (RFC 7541 section 6, appendix A).
            (1, Some(peer)) if !peer.is_open && !peer.is_refused => {
                let status = payload.iter().find(|octet| **octet & 0xe0 != 0x20);
                peer.is_open = status == Some(&0x88) && flags & 1 == 0;
                peer.is_refused = !peer.is_open;
            }
            (8, peer) => {
                let bytes = payload
                    .first_chunk()
                    .map_or(0, |it| u32::from_be_bytes(*it));
                match peer {
                    Some(peer) if !peer.has_ended => peer.room_bytes += u64::from(bytes),
                    Some(_) => {}
                    None if stream == 0 => self.room_bytes += u64::from(bytes),
                    None => {}
                }
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        let held = self.worker.held_bytes();
        let most = self.limits.http2_connection_bytes_max() + OWN_BYTES;
        let app = &self.worker.app;
        // A buffer may have grown to twice its length, and a message that is the only one may exceed its limit.
        let published = app.published_bytes_max * self.peers.len() as u64;
        let queued = 4 * self.limits.websocket_queued_bytes_max;
        let most = most + 2 * (app.posted_bytes + published) + queued;
        assert!(held <= most, "{held} bytes are held, {most} allowed");
    }

    /// Nobody moves any more but the application, which decides and reads, and time.
    fn end(&mut self) {
        for _ in 0..WAITS_MAX {
            self.worker.app.complete();
            self.pass();
            self.receive();
            if self.worker.is_empty() {
                break;
            }
            let wait_ms = self.worker.before_wait().unwrap_or(0);
            self.clock.fetch_add(wait_ms.max(1), Ordering::Relaxed);
        }
        let phases: Vec<Phase> = self.worker.app.sockets.iter().map(|it| it.phase).collect();
        assert!(self.worker.is_empty(), "a connection is left: {phases:?}");
        assert!(
            !phases.contains(&Phase::Open),
            "{phases:?}: one was forgotten"
        );
        assert_eq!(self.worker.held_bytes(), 0);
    }
}
