//! WebSockets on streams of HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use server::{Close, CloseCode, Command, Config, MessageKind, Opening};
use wire::h2::ErrorCode;
use wire::websocket::{
    Deflater, Event, Incoming, Inflaters, MessageLimits, Receiver, Role, Sender, WindowBits,
    reserve_exact,
};

use crate::harness::Server;
use crate::harness::h2::H2Client;
use crate::harness::websocket::{close, ping, text};

pub(crate) struct World {
    pub(crate) server: Server,
    now_ms: Arc<AtomicU64>,
    pub(crate) client: H2Client,
}

impl World {
    fn new() -> World {
        World::with(|_| ())
    }

    pub(crate) fn with(set: impl FnOnce(&mut Config)) -> World {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.accepts_prior_knowledge = true;
            set(config);
        });
        let client = H2Client::new(server.connect());
        World {
            server,
            now_ms,
            client,
        }
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..8 {
            self.client.send(usize::MAX);
            self.server.settle();
            self.client.receive();
        }
    }

    pub(crate) fn open(&mut self, target: &str) -> u32 {
        let stream = self.client.connect(target, &[]);
        self.settle();
        assert_eq!(self.client.streams[&stream].status, 200);
        stream
    }

    /// All texts and close codes that have arrived on a stream.
    pub(crate) fn arrived(&mut self, stream: u32) -> Vec<String> {
        let mut content = self.client.streams[&stream].content.clone();
        let mut receiver = Receiver::new(Role::Client, Incoming::Plain);
        let limits = MessageLimits {
            message_bytes_max: 1 << 28,
            fragments_max: 10,
            reserve: reserve_exact,
        };
        let (mut arrived, mut used) = (Vec::new(), 0);
        while used < content.len() {
            let rest = &mut content[used..];
            let received = receiver.receive(rest, &limits, &mut Inflaters::default());
            let (count, event) = received.expect("valid frames");
            used += count;
            arrived.extend(event.map(|event| match event {
                Event::Message(_, content) => String::from_utf8_lossy(&content).into_owned(),
                Event::Ping(_) => "ping".into(),
                Event::Pong(content) => format!("pong {}", content.len()),
                Event::Close(close) => format!("{}", close.code.map_or(1005, |code| code.0)),
            }));
        }
        arrived
    }
}

#[test]
fn streams_carry_websockets_beside_requests() {
    let mut it = World::new();
    let echo = it
        .client
        .connect("/ws/echo", &[("sec-websocket-protocol", "chat")]);
    let post = it.client.connect("/ws/post", &[]);
    let plain = it.client.open("GET", "/plain", true);
    it.settle();
    for stream in [echo, post] {
        assert_eq!(it.client.streams[&stream].status, 200);
        assert!(!it.client.streams[&stream].is_over());
        let frames = [text("1"), ping(b"??"), text(&"x".repeat(300))].concat();
        let (first, second) = frames.split_at(9);
        it.client.data(stream, first, false);
        it.settle();
        it.client.data(stream, second, false);
    }
    it.settle();
    for stream in [echo, post] {
        let arrived = it.arrived(stream);
        assert!(arrived.contains(&"1".into()) && arrived.contains(&"pong 2".into()));
        assert!(arrived.contains(&"x".repeat(300)));
        assert_eq!(arrived.len(), 3);
        it.client.data(stream, &close(4000, "bye"), false);
    }
    it.settle();
    assert_eq!(it.client.streams[&plain].content, b"/plain");
    for (stream, target) in [(echo, "/ws/echo"), (post, "/ws/post")] {
        assert_eq!(it.arrived(stream).last(), Some(&"4000".to_owned()));
        assert!(it.client.streams[&stream].is_complete);
        assert_eq!(it.server.closed(target), Some((4000, "bye".into())));
    }
    let next = it.client.open("GET", "/next", true);
    it.settle();
    assert_eq!(it.client.streams[&next].content, b"/next");
}

#[test]
fn handshakes_are_refused_as_over_http_1_1() {
    let mut it = World::new();
    let refused = it.client.connect("/plain", &[]);
    let repeated = it
        .client
        .connect("/ws/echo", &[("sec-websocket-version", "13")]);
    let later = it.client.connect("/ws/later", &[]);
    let version = it.client.connect_with_version("8", "/ws/echo", &[]);
    it.settle();
    assert_eq!(it.client.streams[&version].status, 426);
    let section = String::from_utf8_lossy(&it.client.streams[&version].section).to_lowercase();
    assert!(
        section.contains("sec-websocket-version: 13\r\n"),
        "{section}"
    );
    assert!(!section.contains("upgrade"), "{section}");
    it.server.respond(it.server.exchange("/ws/later"), "no");
    it.settle();
    for (stream, status) in [(refused, 501), (repeated, 400), (later, 200)] {
        assert_eq!(it.client.streams[&stream].status, status);
        assert!(it.client.streams[&stream].is_complete);
    }
    assert_eq!(it.server.worker.app.closed, []);
}

#[test]
fn what_arrives_before_the_acceptance_waits_for_it() {
    let mut it = World::new();
    let stream = it.client.connect("/ws/later", &[]);
    it.client.data(stream, &text("early"), false);
    it.settle();
    assert!(it.server.worker.app.messages.is_empty());
    let id = it.server.exchange("/ws/later");
    it.server.post(id, Command::Open(Opening::default()));
    it.server
        .post(id, Command::Message(MessageKind::Text, b"welcome".to_vec()));
    it.settle();
    assert_eq!(it.arrived(stream), ["welcome"]);
    assert_eq!(it.server.worker.app.messages.len(), 1);
    let close = Close {
        code: Some(CloseCode(3000)),
        reason: String::new(),
    };
    it.server.post(id, Command::Close(close));
    it.settle();
    assert_eq!(it.arrived(stream), ["welcome", "3000"]);
    assert_eq!(it.server.closed("/ws/later"), None);
    it.now_ms.fetch_add(10_100, Ordering::Relaxed);
    it.settle();
    assert_eq!(it.client.streams[&stream].reset, Some(ErrorCode::CANCEL));
    assert_eq!(it.server.closed("/ws/later"), Some((1006, String::new())));
}

#[test]
fn a_stream_that_ends_is_lost_and_others_go_on() {
    let mut it = World::new();
    let reset = it.open("/ws/echo");
    let ended = it.open("/ws/post");
    let other = it.open("/ws/sub/a");
    it.client.reset(reset);
    it.client.data(ended, b"", true);
    it.settle();
    for target in ["/ws/echo", "/ws/post"] {
        assert_eq!(it.server.closed(target), Some((1006, String::new())));
    }
    it.server.publish("a", "news");
    it.settle();
    assert_eq!(it.arrived(other), ["news"]);
    it.client.vanish();
    it.settle();
    assert!(it.server.is_empty());
    assert_eq!(it.server.closed("/ws/sub/a"), Some((1006, String::new())));
    assert_eq!(it.server.worker.app.aborted, []);
    assert_eq!(it.server.worker.held_bytes(), 0);
}

#[test]
fn what_arrived_before_the_end_of_a_stream_is_received() {
    let mut it = World::new();
    let stream = it.open("/ws/slow");
    let frames = [text("1"), text("2"), text("3"), close(4000, "bye")].concat();
    it.client.data(stream, &frames, true);
    it.settle();
    let id = it.server.exchange("/ws/slow");
    for number in 1..=3 {
        assert_eq!(it.server.worker.app.messages.len(), number);
        assert_eq!(it.server.closed("/ws/slow"), None);
        it.server.post(id, Command::Read);
        it.settle();
    }
    let closed = Some((4000, "bye".to_owned()));
    assert_eq!(it.server.closed("/ws/slow"), closed);
    assert_eq!(it.arrived(stream), ["4000"]);
    assert!(it.client.streams[&stream].is_complete);
}

#[test]
fn an_application_that_has_enough_stops_its_stream_only() {
    let mut it = World::new();
    let slow = it.open("/ws/slow");
    let echo = it.open("/ws/echo");
    let long = text(&"x".repeat(10_000));
    for _ in 0..6 {
        it.client.data(slow, &long, false);
        it.client.data(echo, &text("y"), false);
        it.settle();
    }
    assert_eq!(it.arrived(echo).len(), 6);
    let id = it.server.exchange("/ws/slow");
    let count = |it: &World| {
        let messages = it.server.worker.app.messages.iter();
        messages.filter(|(to, ..)| *to == id).count()
    };
    assert_eq!(count(&it), 1);
    for number in 2..=6 {
        it.server.post(id, Command::Read);
        it.settle();
        assert_eq!(count(&it), number);
    }
}

#[test]
fn a_drain_and_silence_close_websockets_of_streams() {
    let mut it = World::new();
    let stream = it.open("/ws/echo");
    it.now_ms.fetch_add(20_100, Ordering::Relaxed);
    it.settle();
    assert_eq!(it.arrived(stream), ["ping"]);
    it.server.worker.drain();
    it.settle();
    assert_eq!(it.arrived(stream), ["ping", "1012"]);
    assert_eq!(it.server.closed("/ws/echo").map(|how| how.0), Some(1012));
    it.client.data(stream, &close(1012, ""), false);
    it.settle();
    assert!(it.client.streams[&stream].is_complete);
    it.now_ms.fetch_add(1_000, Ordering::Relaxed);
    it.settle();
    it.client.vanish();
    it.settle();
    assert!(it.server.is_empty());
    assert_eq!(it.server.worker.held_bytes(), 0);
}

#[test]
fn a_drain_waits_two_seconds_for_close_frames_of_streams() {
    let mut it = World::new();
    let stream = it.open("/ws/echo");
    it.server.worker.drain();
    it.settle();
    assert_eq!(it.arrived(stream), ["1012"]);
    it.now_ms.fetch_add(1_900, Ordering::Relaxed);
    it.settle();
    assert!(it.client.streams[&stream].reset.is_none());
    it.now_ms.fetch_add(400, Ordering::Relaxed);
    it.settle();
    assert!(it.client.streams[&stream].reset.is_some());
}

#[test]
fn long_messages_of_one_connection_have_a_limit_together() {
    let mut it = World::new();
    let streams: Vec<u32> = (0..3).map(|_| it.open("/ws/echo")).collect();
    // Fragments of messages that do not end.
    let mut part = vec![0x02, 0xff, 0, 0, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0];
    part.resize(16_000, b'x');
    for _ in 0..700 {
        for stream in &streams {
            if it.client.streams[stream].room_bytes >= 16_000 && it.client.room_bytes >= 16_000 {
                it.client.data(*stream, &part, false);
            }
        }
        part = vec![b'x'; 16_000];
        it.settle();
        assert!(it.server.worker.held_bytes() < 36 << 20);
    }
    let closed = it.server.worker.app.closed.iter();
    let codes: Vec<u16> = closed.map(|(_, how)| how.code.0).collect();
    assert!(
        !codes.is_empty() && codes.iter().all(|code| *code == 1013),
        "{codes:?}"
    );
}

/// The start of a frame that ends no message, with a mask of zeros.
fn fragment(opcode: u8, length: u16) -> Vec<u8> {
    let mut start = vec![opcode, 0xfe];
    start.extend_from_slice(&length.to_be_bytes());
    start.extend_from_slice(&[0; 4]);
    start
}

#[test]
fn a_websocket_that_is_closed_for_a_long_message_after_a_wait_for_room_ends_its_stream() {
    let mut it = World::with(|config| {
        config.limits.send_buffer_bytes_max = 4096;
        config.limits.websocket_message_bytes_max = 1_000_000;
    });
    let send = |it: &mut World, stream: u32, opcode: u8, length: u16| {
        let content = vec![b'x'; length.into()];
        for part in [fragment(opcode, length), content].concat().chunks(15_000) {
            it.client.data(stream, part, false);
            it.settle();
        }
    };
    let (other, stream) = (it.open("/ws/1"), it.open("/ws/post"));
    send(&mut it, other, 2, 49_900);
    (1..20).for_each(|_| send(&mut it, other, 0, 49_900));
    send(&mut it, stream, 2, 40_000);
    // What it has to send waits for its window, and what it receives for that.
    let long = Command::Message(MessageKind::Text, vec![b'm'; 100_000]);
    it.server.post(it.server.exchange("/ws/post"), long);
    it.settle();
    send(&mut it, stream, 0, 40_000);
    assert_eq!(it.server.closed("/ws/post"), None);
    it.client.give(0, 50_000);
    it.client.give(stream, 50_000);
    it.settle();
    let closed = it.server.closed("/ws/post").expect("it is closed");
    assert_eq!(closed.0, 1013);
    assert_eq!(it.arrived(stream).last(), Some(&"1013".to_owned()));
    assert!(it.client.streams[&stream].is_complete);
    assert!(!it.client.streams[&other].is_over());
}

#[test]
fn long_messages_that_arrive_before_the_acceptance_have_that_limit_too() {
    let mut it = World::new();
    let offer = [("sec-websocket-extensions", "permessage-deflate")];
    let targets: Vec<String> = (0..8).map(|number| format!("/ws/later/{number}")).collect();
    let mut deflater = Deflater::new(9, WindowBits::MAX, false).expect("memory");
    let mut content = Vec::new();
    let deflated = deflater.deflate(&vec![0; 15 << 20], &mut content);
    deflated.expect("memory");
    // A fragment of a compressed message that does not end, with a mask of zeros.
    let mut part = vec![0x42, 0xfe];
    part.extend_from_slice(&(content.len() as u16).to_be_bytes());
    part.extend_from_slice(&[0; 4]);
    part.append(&mut content);
    for target in &targets {
        let stream = it.client.connect(target, &offer);
        it.client.data(stream, &part[..part.len() / 2], false);
        it.client.data(stream, &part[part.len() / 2..], false);
    }
    it.settle();
    for target in &targets {
        let id = it.server.exchange(target);
        it.server.post(id, Command::Open(Opening::default()));
    }
    for _ in 0..40 {
        it.settle();
        assert!(it.server.worker.held_bytes() < 36 << 20);
    }
    let closed = it.server.worker.app.closed.iter();
    let codes: Vec<u16> = closed.map(|(_, how)| how.code.0).collect();
    assert_eq!(codes, [1013; 7]);
}

#[test]
fn a_panic_ends_one_websocket_of_a_connection() {
    let mut it = World::new();
    let panics = it.open("/ws/panic");
    let echo = it.open("/ws/echo");
    it.client.data(panics, &text("x"), false);
    it.client.data(echo, &text("y"), false);
    it.settle();
    assert!(it.client.streams[&panics].reset.is_some());
    assert_eq!(it.server.closed("/ws/panic"), Some((1006, String::new())));
    assert_eq!(it.arrived(echo), ["y"]);
}

#[test]
fn a_stream_that_ends_before_its_acceptance_is_lost_after_it() {
    let mut it = World::new();
    let stream = it.client.connect("/ws/later", &[]);
    it.client.data(stream, &text("early"), false);
    it.client.data(stream, b"", true);
    it.settle();
    let id = it.server.exchange("/ws/later");
    it.server.post(id, Command::Open(Opening::default()));
    it.settle();
    assert_eq!(it.server.worker.app.messages.len(), 1);
    assert_eq!(it.server.closed("/ws/later"), Some((1006, String::new())));
    assert_eq!(it.client.streams[&stream].status, 200);
    assert!(it.client.streams[&stream].is_complete);
    it.server.worker.drain();
    it.now_ms.fetch_add(1_000, Ordering::Relaxed);
    it.settle();
    it.client.vanish();
    it.settle();
    assert!(it.server.is_empty());
}

#[test]
fn handlers_of_websockets_that_have_ended_keep_their_places() {
    for end in [b"".to_vec(), close(1000, "")] {
        let mut it = World::with(|config| {
            config.limits.h2_streams_max = 10;
            config.limits.h2_resets_max = 20;
        });
        it.server.worker.app.outlives_streams = true;
        let streams: Vec<u32> = (0..40)
            .map(|_| {
                let stream = it.client.connect("/ws/echo", &[]);
                it.settle();
                if it.client.streams[&stream].status == 200 {
                    it.client.data(stream, &end, true);
                    it.settle();
                }
                stream
            })
            .collect();
        let opened = streams
            .iter()
            .filter(|stream| it.client.streams[stream].status == 200);
        assert_eq!(opened.count(), 30);
        it.server.worker.app.outlives_streams = false;
        it.open("/ws/echo");
    }
}

#[test]
fn the_client_of_one_websocket_that_reads_long_messages_may_send_further_ahead() {
    let mut it = World::new();
    let [first, second] = [it.open("/ws/1"), it.open("/ws/2")];
    let room = |it: &World, stream| it.client.streams[&stream].room_bytes;
    let message = text(&"m".repeat(40_000));
    let send = |it: &mut World, stream| {
        for part in message.chunks(16_384) {
            it.client.data(stream, part, false);
        }
        it.settle();
    };
    send(&mut it, first);
    send(&mut it, second);
    assert!(room(&it, first) > 1_000_000, "{}", room(&it, first));
    assert!(room(&it, second) <= 65_536, "{}", room(&it, second));
    // An upload is not stopped for that.
    let upload = it.client.open("POST", "/parts/upload", false);
    it.client.data(upload, &[b'u'; 10_000], false);
    it.settle();
    assert_eq!(room(&it, upload), 1 << 20);
    // Many short messages are as long together; single ones are not.
    it.client.reset(first);
    it.client.data(second, &text("short"), false);
    it.settle();
    assert!(room(&it, second) <= 65_536);
    it.client.data(second, &text("short").repeat(1000), false);
    it.settle();
    send(&mut it, second);
    assert!(room(&it, second) > 1_000_000, "{}", room(&it, second));
}

#[test]
fn a_websocket_that_does_not_read_gets_no_more_than_its_window() {
    let mut it = World::new();
    it.open("/ws/1");
    let slow = it.open("/ws/slow");
    let before = it.client.streams[&slow].room_bytes;
    let mut sent = 0;
    // The application takes the first message, and no other.
    while it.client.streams[&slow].room_bytes > 16_384 && sent < 4_000_000 {
        it.client.data(slow, &text(&"m".repeat(16_000)), false);
        sent += 16_000;
        it.settle();
    }
    assert!((before as usize..3 * (1 << 20)).contains(&sent), "{sent}");
    assert!(it.server.worker.held_bytes() < 3 << 20);
}

/// A message that is much shorter than its content, or the first frame of one.
fn bomb(is_whole: bool) -> Vec<u8> {
    let mut deflater = Deflater::new(9, WindowBits::MAX, false).expect("memory");
    let mut frame = Vec::new();
    let content = [b'x'; 100_000];
    let sender = Sender::new(Role::Client);
    let pushed = sender.push_deflated(
        &mut frame,
        MessageKind::Binary,
        &content,
        [0; 4],
        &mut deflater,
    );
    pushed.expect("memory");
    if !is_whole {
        frame[0] &= 0x7f;
    }
    frame
}

fn open_with_compression(it: &mut World) -> u32 {
    let offer = [("sec-websocket-extensions", "permessage-deflate")];
    let stream = it.client.connect("/ws/post", &offer);
    it.settle();
    stream
}

#[test]
fn messages_that_become_long_use_up_the_turn_of_all_streams() {
    let mut it = World::new();
    for stream in [0; 4].map(|_| open_with_compression(&mut it)) {
        it.client.data(stream, &bomb(true), false);
        it.client.data(stream, &text("short"), false);
    }
    it.client.send(usize::MAX);
    // In the first pass the connection has two turns: that of its event, and that of what waits.
    for arrived in [3, 5, 7, 8] {
        it.server.pass();
        assert_eq!(it.server.worker.app.messages.len(), arrived);
    }
}

#[test]
fn parts_of_messages_that_become_long_use_up_the_turn_too() {
    let mut it = World::new();
    for stream in [0; 4].map(|_| open_with_compression(&mut it)) {
        it.client.data(stream, &bomb(false), false);
    }
    it.client.send(usize::MAX);
    it.server.pass();
    // Each holds what decompresses it too.
    let held_bytes = it.server.worker.held_bytes();
    assert!(held_bytes < 400_000, "{held_bytes}");
    it.server.settle();
    let held_bytes = it.server.worker.held_bytes();
    assert!(held_bytes > 590_000, "{held_bytes}");
}

#[test]
fn the_time_to_return_a_close_frame_starts_when_its_window_is_open() {
    let mut it = World::new();
    let stream = it.open("/ws/post");
    let id = it.server.exchange("/ws/post");
    let long = Command::Message(MessageKind::Text, vec![b'x'; 100_000]);
    it.server.post(id, long);
    it.server.post(
        id,
        Command::Close(Close {
            code: Some(CloseCode::NORMAL),
            reason: String::new(),
        }),
    );
    it.settle();
    it.now_ms.fetch_add(20_000, Ordering::Relaxed);
    it.settle();
    assert_eq!(it.server.closed("/ws/post"), None);
    it.client.give(0, 50_000);
    it.client.give(stream, 50_000);
    it.settle();
    assert_eq!(it.arrived(stream).last(), Some(&"1000".to_owned()));
    it.now_ms.fetch_add(9_900, Ordering::Relaxed);
    it.settle();
    assert_eq!(it.server.closed("/ws/post"), None);
    it.now_ms.fetch_add(200, Ordering::Relaxed);
    it.settle();
    assert_eq!(it.server.closed("/ws/post"), Some((1006, String::new())));
}

#[test]
fn messages_that_have_waited_for_room_are_served_once_there_is_some() {
    let mut it = World::with(|config| config.limits.send_buffer_bytes_max = 4096);
    let stream = it.open("/ws/echo");
    let texts = [5000, 10, 5000, 20].map(|length| "c".repeat(length));
    for each in &texts {
        it.client.data(stream, &text(each), false);
    }
    it.settle();
    assert_eq!(it.arrived(stream), texts);
    // It is pinged as any other.
    assert!(it.server.worker.before_wait().is_some());
}
