//! Published messages: how they are compressed, and what waits for the WebSockets of one HTTP/2 connection.

use std::sync::atomic::Ordering;

use server::Compression;
use wire::websocket::{Incoming, Role, frame_bytes};

use crate::h2::World;
use crate::harness::Server;
use crate::harness::h2::H2Client;
use crate::harness::websocket::{Arrived, Frames, WebSocketClient, handshake, ping};

const EACH_BYTES_MAX: u64 = 100_000;
const ALL_BYTES_MAX: u64 = 4 * EACH_BYTES_MAX;
const SLOW: &str = "the client receives too slowly";

/// A connection whose WebSockets may queue 100,000 bytes each, and four times that together.
fn world() -> World {
    World::with(|config| config.limits.websocket_queued_bytes_max = EACH_BYTES_MAX)
}

/// Opens so many subscribers of a topic. Returns their streams and targets.
fn subscribers(it: &mut World, topic: &str, count: usize) -> Vec<(u32, String)> {
    let open = |number| {
        let target = format!("/ws/sub/{topic}/{number}");
        (it.open(&target), target)
    };
    (0..count).map(open).collect()
}

fn message(number: usize) -> String {
    format!("{number:04} {}", "x".repeat(995))
}

/// Lets the client receive everything.
fn open_windows(it: &mut World, streams: &[(u32, String)]) {
    it.client.give(0, 10_000_000);
    for (stream, _) in streams {
        it.client.give(*stream, 10_000_000);
    }
    it.settle();
}

#[test]
fn websockets_of_one_connection_share_a_limit() {
    let mut it = world();
    let streams = subscribers(&mut it, "t", 20);
    let mut published = 0;
    let mut closed = 0;
    while closed < 10 {
        it.server.publish("t", &message(published));
        it.server.settle();
        published += 1;
        closed = it.server.worker.app.closed.len();
        let held_bytes = it.server.worker.held_bytes();
        // A queue may have grown to twice its length.
        assert!(
            held_bytes < 2 * ALL_BYTES_MAX,
            "{held_bytes} of {published}"
        );
        // Each has room for ninety.
        assert!(published < 60);
        assert!(closed == 0 || published > 10, "{closed} of {published}");
    }
    open_windows(&mut it, &streams);
    let all: Vec<String> = (0..published).map(message).collect();
    for (stream, target) in &streams {
        let how = it.server.closed(target);
        let mut arrived = it.arrived(*stream);
        match how {
            None => assert!(arrived == all, "{target}"),
            Some(how) => {
                assert_eq!(how, (1013, SLOW.to_owned()));
                assert_eq!(arrived.pop(), Some("1013".to_owned()));
                assert!(all.starts_with(&arrived) && arrived.len() < all.len());
            }
        }
    }
    // Those that are left receive what follows.
    it.server.publish("t", "next");
    it.settle();
    let open = streams
        .iter()
        .find(|(_, target)| it.server.closed(target).is_none());
    let (stream, _) = open.expect("some are open");
    assert_eq!(it.arrived(*stream).last(), Some(&"next".to_owned()));
}

#[test]
fn the_websocket_that_most_waits_for_is_closed() {
    let mut it = world();
    let busy = subscribers(&mut it, "busy", 1);
    let others = subscribers(&mut it, "t", 8);
    // The window of the connection, and less than one may queue.
    for number in 0..65 + 85 {
        it.server.publish("busy", &message(number));
        it.settle();
    }
    assert_eq!(it.server.worker.app.closed, []);
    let mut published = 0;
    while it.server.worker.app.closed.is_empty() && published < 90 {
        it.server.publish("t", &message(published));
        it.server.settle();
        published += 1;
    }
    let how = Some((1013, SLOW.to_owned()));
    assert_eq!(it.server.closed(&busy[0].1), how);
    assert_eq!(it.server.worker.app.closed.len(), 1);
    let held_before = it.server.worker.held_bytes();
    open_windows(&mut it, &others);
    let all: Vec<String> = (0..published).map(message).collect();
    for (stream, _) in &others {
        assert!(it.arrived(*stream) == all);
    }
    assert!(held_before > ALL_BYTES_MAX / 2, "{held_before}");
}

#[test]
fn only_the_frame_that_is_sent_in_part_precedes_the_close_frame() {
    let mut it = world();
    let streams = subscribers(&mut it, "t", 1);
    let (stream, target) = &streams[0];
    it.server.publish("t", &message(0));
    it.settle();
    let whole = it.client.streams[stream].content.len();
    assert_eq!(
        frame_bytes(&it.client.streams[stream].content, Role::Client),
        Some(whole)
    );
    let mut published = 1;
    while it.server.closed(target).is_none() {
        it.server.publish("t", &message(published));
        it.settle();
        published += 1;
    }
    // The window has ended within a frame.
    let sent = it.client.streams[stream].content.len();
    assert!(!sent.is_multiple_of(whole), "{sent}");
    assert!(it.server.worker.held_bytes() < 10_000);
    open_windows(&mut it, &streams);
    let mut expected: Vec<String> = (0..sent.div_ceil(whole)).map(message).collect();
    expected.push("1013".to_owned());
    assert_eq!(it.arrived(*stream), expected);
    assert!(expected.len() < published);
}

#[test]
fn a_message_above_the_limit_reaches_a_connection_for_which_nothing_waits() {
    let mut it = world();
    let streams = subscribers(&mut it, "t", 1);
    let long = "x".repeat(2 * ALL_BYTES_MAX as usize);
    it.server.publish("t", &long);
    it.settle();
    open_windows(&mut it, &streams);
    assert!(it.arrived(streams[0].0) == [long]);
    assert_eq!(it.server.worker.app.closed, []);
}

#[test]
fn what_many_connections_do_not_read_does_not_exceed_the_budget() {
    const BUDGET_BYTES: u64 = 2_000_000;
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.accepts_prior_knowledge = true;
        config.limits.websocket_queued_bytes_max = EACH_BYTES_MAX;
        config.memory_bytes_max = BUDGET_BYTES;
    });
    // Each may queue 400,000 bytes, and all together five times the budget.
    let mut clients: Vec<H2Client> = (0..25).map(|_| H2Client::new(server.connect())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(usize::MAX);
        server.settle();
        for socket in 0..10 {
            client.connect(&format!("/ws/sub/t/{number}-{socket}"), &[]);
        }
        client.send(usize::MAX);
        server.settle();
    }
    let mut most_bytes = 0;
    for number in 0..200 {
        server.publish("t", &message(number));
        server.settle();
        now_ms.fetch_add(10, Ordering::Relaxed);
        most_bytes = most_bytes.max(server.worker.held_bytes());
    }
    assert!(most_bytes > BUDGET_BYTES / 2, "{most_bytes}");
    // A message reaches all of them before that is checked again, and their buffers double at the same time.
    assert!(most_bytes < 2 * BUDGET_BYTES, "{most_bytes}");
    assert!(server.worker.held_bytes() <= BUDGET_BYTES);
}

const NO_CONTEXT: &str = "permessage-deflate; client_no_context_takeover";

/// A subscriber whose client offers these extensions.
fn subscriber(server: &mut Server, extensions: &str) -> WebSocketClient {
    let client = server.connect();
    let line = format!("Sec-WebSocket-Extensions: {extensions}\r\n");
    client.send(&handshake(
        "/ws/sub/t",
        if extensions.is_empty() { "" } else { &line },
    ));
    server.opened(client)
}

/// Publishes a text. Returns the octets that the client receives.
fn published(server: &mut Server, clients: &mut [WebSocketClient], text: &str) -> Vec<Vec<u8>> {
    server.publish("t", text);
    server.settle();
    let clients = clients.iter_mut();
    clients.map(|it| it.client.take_bytes()).collect()
}

fn read(octets: &[u8]) -> Arrived {
    let mut frames = Frames::new(Incoming::WithoutContext(None));
    frames.add(octets);
    let arrived = frames.take().expect("a whole message");
    assert!(!frames.is_within_frame());
    arrived
}

#[test]
fn a_published_message_is_compressed_for_those_that_agreed() {
    let mut server = Server::new();
    let narrow = format!("{NO_CONTEXT}; server_max_window_bits=9");
    let mut clients = ["", NO_CONTEXT, &narrow, NO_CONTEXT].map(|it| subscriber(&mut server, it));
    for (client, agrees) in clients.iter().zip([false, true, true, true]) {
        assert_eq!(client.head.contains("permessage-deflate"), agrees);
    }
    // What is repeated is too far back for the narrow window.
    let part: String = (0..500).map(|it| format!("{it:x}")).collect();
    let text = [part.clone(), part].concat();
    let [plain, wide, narrow, same] = &published(&mut server, &mut clients, &text)[..] else {
        panic!("four clients");
    };
    assert_eq!((plain[0], wide[0], narrow[0]), (0x81, 0xc1, 0xc1));
    assert_eq!(wide, same);
    assert!(wide.len() < narrow.len() && narrow.len() < plain.len());
    for octets in [plain, wide, narrow] {
        assert_eq!(read(octets), Arrived::Text(text.clone()));
    }
    // Short ones are sent as they are.
    for octets in published(&mut server, &mut clients, "short") {
        assert_eq!(octets, b"\x81\x05short");
    }
}

#[test]
fn with_context_published_messages_are_sent_as_they_are() {
    let compression = Compression::Context { level: 3 };
    let mut server = Server::with(|config| config.websocket.compression = compression);
    let mut clients = [subscriber(&mut server, "permessage-deflate")];
    assert!(clients[0].head.contains("permessage-deflate"));
    let text = "the same again, ".repeat(20);
    let octets = published(&mut server, &mut clients, &text);
    assert_eq!(octets[0][0], 0x81);
    assert_eq!(read(&octets[0]), Arrived::Text(text));
}

/// Publishes messages of so many bytes, each with its number, until a subscriber is closed. Returns how many.
fn publish_until_closed(server: &mut Server, target: &str, bytes: usize) -> usize {
    let mut published = 0;
    while server.closed(target).is_none() {
        server.publish("t", &long_message(published, bytes));
        server.settle();
        published += 1;
    }
    published
}

fn long_message(number: usize, bytes: usize) -> String {
    format!("{number:04} {}", "x".repeat(bytes - 5))
}

#[test]
fn a_long_message_is_not_copied_for_each_client_that_reads_slowly() {
    const BYTES: usize = 4_000_000;
    let mut server = Server::new();
    let mut clients: Vec<WebSocketClient> = (0..10)
        .map(|number| server.open(&format!("/ws/sub/t/{number}")))
        .collect();
    let before = server.worker.held_bytes() as usize;
    server.publish("t", &long_message(0, BYTES));
    server.settle();
    let held = server.worker.held_bytes() as usize - before;
    assert!((BYTES..BYTES + 10_000).contains(&held), "{held}");
    // A pong waits for the end of the frame.
    clients[0].send(&ping(b"?"));
    server.settle();
    for client in &mut clients {
        assert!(server.next_text(client) == long_message(0, BYTES));
    }
    assert_eq!(server.next(&mut clients[0]), Arrived::Pong(b"?".to_vec()));
    server.publish("t", "next");
    for client in &mut clients {
        assert_eq!(server.next_text(client), "next");
    }
    server.settle();
    assert_eq!(server.worker.held_bytes() as usize, before);
}

#[test]
fn the_rest_of_a_long_frame_precedes_the_close_frame() {
    const BYTES: usize = 300_000;
    let mut server = Server::with(|config| config.limits.websocket_queued_bytes_max = 1_000_000);
    let mut slow = server.open("/ws/sub/t");
    let published = publish_until_closed(&mut server, "/ws/sub/t", BYTES);
    assert_eq!(server.closed("/ws/sub/t"), Some((1013, SLOW.to_owned())));
    let held = server.worker.held_bytes() as usize;
    assert!(held < BYTES + 10_000, "{held}");
    let mut received = 0;
    loop {
        match server.next(&mut slow) {
            Arrived::Text(text) => assert!(text == long_message(received, BYTES)),
            other => {
                assert_eq!(other, Arrived::Close(1013, SLOW.into()));
                break;
            }
        }
        received += 1;
    }
    assert!(0 < received && received < published, "{received}");
}

#[test]
fn what_subscribers_share_counts_for_each_of_them_where_it_is_limited() {
    let mut server = Server::with(|config| config.limits.websocket_queued_bytes_max = 1_000_000);
    let targets = ["/ws/sub/t/a", "/ws/sub/t/b"];
    let _slow = targets.map(|target| server.open(target));
    let published = publish_until_closed(&mut server, "/ws/sub/t/a", 30_000);
    // Some fit into the socket.
    assert!((33..60).contains(&published), "{published}");
    assert_eq!(server.closed("/ws/sub/t/b"), Some((1013, SLOW.to_owned())));
}

#[test]
fn a_pong_does_not_wait_for_the_end_of_all_long_publications() {
    let mut server = Server::new();
    let mut client = server.open("/ws/sub/a");
    let content = "x".repeat(65_536);
    while server.worker.held_bytes() < 100_000 {
        server.publish("a", &content);
        server.settle();
    }
    client.send(&ping(b"?"));
    server.settle();
    let mut after = 0;
    // There is always one that waits.
    while server.next(&mut client) != Arrived::Pong(b"?".to_vec()) {
        server.publish("a", &content);
        server.settle();
        after += 1;
        assert!(after < 1_000);
    }
}
