//! What WebSockets hold, and what they do where there is no memory.

use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use server::{Compression, MessageKind};
use wire::websocket::{Deflater, Incoming, Inflater, WindowBits};

use crate::attacks::{deflated, open_with_compression};
use crate::h2::World;
use crate::harness::Server;
use crate::harness::websocket::{Arrived, handshake, message, text};

/// Content that cannot be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn an_inflater_is_held_until_its_message_ends() {
    let mut server = Server::new();
    let mut client = open_with_compression(&mut server);
    server.settle();
    let idle = server.worker.held_bytes();
    let content = noise(2000);
    let frame = deflated(&content);
    let (first, rest) = frame.split_at(1000);
    client.send(first);
    server.settle();
    let held = server.worker.held_bytes() - idle;
    assert!(held as usize > Inflater::BYTES + 900, "{held}");
    assert!((held as usize) < Inflater::BYTES + 8192, "{held}");
    client.send(rest);
    assert_eq!(server.next(&mut client), Arrived::Binary(content));
    server.settle();
    assert_eq!(server.worker.held_bytes(), idle);

    // One that is cut off, by a violation and by the end of the connection.
    client.send(first);
    server.settle();
    assert!(server.worker.held_bytes() > idle + Inflater::BYTES as u64);
    let mut other = open_with_compression(&mut server);
    other.send(&[first, &[0xff; 2000]].concat());
    assert!(matches!(
        server.next(&mut other),
        Arrived::Close(1002 | 1007, _)
    ));
    drop((client, other));
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn what_keeps_context_is_held_until_the_end() {
    let compression = Compression::Context { level: 3 };
    let mut server = Server::with(|config| config.websocket.compression = compression);
    let client = server.connect();
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    client.send(&handshake("/ws/echo", offer));
    let window = WindowBits::new(12).expect("in range");
    let inflater = Inflater::new(true).expect("memory");
    let mut client = server.opened_with(client, Incoming::WithContext(Box::new(inflater)));
    let least = Inflater::BYTES + Deflater::bytes(window);
    let content = "the same again, ".repeat(20);
    for _ in 0..3 {
        client.send(&text(&content));
        assert_eq!(server.next_text(&mut client), content);
        server.settle();
        let held = server.worker.held_bytes() as usize;
        assert!((least..least + 2048).contains(&held), "{held}");
    }
    // What follows a violation is not decompressed.
    client.send(b"\x83\x80\0\0\0\0");
    assert!(matches!(server.next(&mut client), Arrived::Close(1002, _)));
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn many_short_messages_hold_no_more_than_the_limit() {
    let mut server = Server::with(|config| config.limits.websocket_queued_bytes_max = 100_000);
    let slow = server.open("/ws/sub/a");
    // First the socket is filled.
    while server.worker.held_bytes() < 10_000 {
        server.publish("a", &"x".repeat(1000));
        server.settle();
    }
    let mut published = 0;
    while server.closed("/ws/sub/a").is_none() {
        server.publish("a", "1");
        server.settle();
        let held = server.worker.held_bytes();
        assert!(held < 102_000, "{held} after {published}");
        published += 1;
    }
    // Each is a frame of three bytes, and its record.
    assert!((500..3000).contains(&published), "{published}");
    let how = Some((1013, "the client receives too slowly".into()));
    assert_eq!(server.closed("/ws/sub/a"), how);
    drop(slow);
}

#[test]
fn a_message_for_which_the_application_has_no_memory_closes_and_is_logged() {
    let mut server = Server::new();
    let mut client = server.open("/ws/full");
    client.send(&[message(MessageKind::Binary, &[0; 300]), text("dropped")].concat());
    let how = "the server is short of memory";
    assert_eq!(server.next(&mut client), Arrived::Close(1013, how.into()));
    client.client.end();
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.closed("/ws/full"), Some((1013, how.into())));
    assert_eq!(server.worker.app.messages.len(), 1);
    let shortages = &server.worker.app.shortages;
    assert_eq!(shortages.len(), 1);
    assert!(
        shortages[0].starts_with("no memory for 300 bytes of a WebSocket message, "),
        "{shortages:?}"
    );
    assert_eq!(server.worker.held_bytes(), 0);
}

/// Leaves so much memory to the process.
fn leave(bytes: u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("its sizes");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kibibytes = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let kibibytes: u64 = kibibytes.unwrap_or("").parse().expect("a number");
    let current = Some(kibibytes * 1024 + bytes);
    let maximum = None;
    setrlimit(Resource::As, Rlimit { current, maximum }).expect("it is lower");
}

/// Runs an ignored test of this program in a process of its own, whose memory it may limit.
fn run_alone(test: &str) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    let output = command.args(["--exact", "--ignored", test]).output();
    let output = output.expect("it can be run again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn an_application_hears_at_once_that_a_message_cannot_be_copied() {
    run_alone("memory::an_application_hears_of_a_lack_before_its_client_has_closed");
    run_alone("memory::an_application_hears_of_a_lack_on_a_stream_before_its_client_has_closed");
}

const LONG_BYTES: usize = 64 << 20;
const SHORT_BYTES: usize = 16_000;
const LEFT_BYTES: u64 = 24 << 20;

#[test]
#[ignore = "it limits the memory of its process"]
fn an_application_hears_of_a_lack_before_its_client_has_closed() {
    let (mut server, _) = Server::with_manual_clock(|config| {
        config.limits.websocket_queued_bytes_max = 1 << 30;
        config.limits.send_buffer_bytes_max = 1 << 30;
    });
    let mut client = server.open("/ws/sub/t");
    // Short ones are copied to the send buffer.
    let text = "x".repeat(SHORT_BYTES);
    for _ in 0..LONG_BYTES / SHORT_BYTES {
        server.publish("t", &text);
    }
    leave(LEFT_BYTES);
    let how = "the server is short of memory";
    let mut arrived = server.next(&mut client);
    while arrived == Arrived::Text(text.clone()) {
        arrived = server.next(&mut client);
    }
    assert_eq!(arrived, Arrived::Close(1013, how.into()));
    assert_eq!(server.closed("/ws/sub/t"), Some((1013, how.into())));
    drop(client);
    server.pass_until(|server| server.is_empty());
    // Once.
    assert_eq!(server.closed("/ws/sub/t"), Some((1013, how.into())));
}

#[test]
#[ignore = "it limits the memory of its process"]
fn an_application_hears_of_a_lack_on_a_stream_before_its_client_has_closed() {
    let mut it = World::with(|config| config.limits.websocket_queued_bytes_max = 1 << 30);
    let stream = it.open("/ws/sub/t");
    let text = "x".repeat(LONG_BYTES);
    it.server.publish("t", &text);
    leave(LEFT_BYTES);
    it.settle();
    assert_eq!(it.arrived(stream), ["1013"]);
    let how = Some((1013, "the server is short of memory".into()));
    assert_eq!(it.server.closed("/ws/sub/t"), how);
    it.client.vanish();
    it.settle();
    assert_eq!(it.server.closed("/ws/sub/t"), how);
}
