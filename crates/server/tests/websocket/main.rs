//! WebSockets over HTTP/1.1: the handshake, messages in both directions, and how they end.

mod attacks;
mod h2;
mod liveness;
mod memory;
mod order;
mod publishing;
mod schedules;

#[path = "../harness/mod.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::Server;
use harness::websocket::{
    ACCEPT, Arrived, KEY, WebSocketClient, close, handshake, message, ping, text,
};
use server::{Abort, Close, CloseCode, Command, MessageKind, Opening};

/// More than the sockets of these tests hold.
const LONG_BYTES: usize = 1 << 23;

fn arrived_text(text: &str) -> Arrived {
    Arrived::Text(text.to_owned())
}

fn closing(code: u16) -> Command {
    Command::Close(Close {
        code: Some(CloseCode(code)),
        reason: String::new(),
    })
}

#[test]
fn a_handshake_is_accepted_with_what_the_application_wants() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&handshake(
        "/ws/echo",
        "Sec-WebSocket-Protocol: chat, other\r\n",
    ));
    let mut client = server.opened(client);
    let expected = format!(
        "HTTP/1.1 101 Switching Protocols\r\nServer: bolide\r\nDate: DATE\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: chat\r\nX-Field: 1"
    );
    let date = client
        .head
        .split("Date: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next());
    let head = client.head.replace(date.unwrap_or_default(), "DATE");
    assert_eq!(head, expected);
    assert!(client.is_quiet());
    client.send(&text("hello"));
    assert_eq!(server.next_text(&mut client), "hello");
    client.send(&message(MessageKind::Binary, &[0, 255]));
    assert_eq!(server.next(&mut client), Arrived::Binary(vec![0, 255]));
}

#[test]
fn messages_that_arrive_together_leave_in_one_send() {
    for target in ["/ws/echo", "/ws/post"] {
        let mut server = Server::new();
        let client = server.connect_by_packets();
        client.send(&handshake(target, ""));
        let mut client = server.opened(client);
        let frames: Vec<u8> = (0..24)
            .flat_map(|number| text(&number.to_string()))
            .collect();
        let reads = client.client.reads;
        client.send(&frames);
        for number in 0..24 {
            assert_eq!(server.next_text(&mut client), number.to_string());
        }
        assert_eq!(client.client.reads, reads + 1, "{target}");
    }
}

#[test]
fn what_arrives_with_the_handshake_is_not_lost() {
    let mut server = Server::new();
    let client = server.connect();
    let mut bytes = handshake("/ws/later", "").into_bytes();
    bytes.extend(text("early"));
    bytes.extend(text("more").get(..3).unwrap_or_default());
    assert_eq!(client.send_some(&bytes), bytes.len());
    server.settle();
    let id = server.exchange("/ws/later");
    assert!(server.worker.app.messages.is_empty());
    server.post(id, Command::Open(Opening::default()));
    let client = server.opened(client);
    client.send(text("more").get(3..).unwrap_or_default());
    server.pass_until(|server| server.worker.app.messages.len() == 2);
    let messages: Vec<&[u8]> = server
        .worker
        .app
        .messages
        .iter()
        .map(|each| &each.2[..])
        .collect();
    assert_eq!(messages, [&b"early"[..], b"more"]);
}

#[test]
fn what_is_posted_with_the_acceptance_follows_it() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&handshake("/ws/later", ""));
    server.settle();
    let id = server.exchange("/ws/later");
    server.post(id, Command::Open(Opening::default()));
    server.post(id, Command::Message(MessageKind::Text, b"welcome".to_vec()));
    server.post(id, closing(3000));
    let mut client = server.opened(client);
    assert_eq!(server.next_text(&mut client), "welcome");
    assert_eq!(
        server.next(&mut client),
        Arrived::Close(3000, String::new())
    );
    client.send(&close(3000, "bye"));
    server.expect_end(&mut client.client);
    assert_eq!(server.closed("/ws/later"), Some((3000, "bye".into())));
}

#[test]
fn a_handshake_may_be_refused_and_ends_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    let mut bytes = handshake("/ws/later", "").into_bytes();
    bytes.extend(b"GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n");
    client.send_some(&bytes);
    server.settle();
    server.respond(server.exchange("/ws/later"), "no");
    let response = server.response(&mut client);
    assert_eq!((response.status, response.content.as_str()), (200, "no"));
    assert!(response.is_last());
    server.expect_end(&mut client);
    assert_eq!(server.targets(), ["/ws/later"]);
    assert_eq!(server.worker.app.closed, []);
}

#[test]
fn malformed_handshakes_get_400_or_426() {
    for (from, to, status) in [
        ("Version: 13", "Version: 8", 426),
        ("GET ", "POST ", 400),
        (KEY, "c2hvcnQ=", 400),
        ("Sec-WebSocket-Key: ", "X-Key: ", 400),
    ] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&handshake("/ws/echo", "").replacen(from, to, 1));
        let response = server.response(&mut client);
        assert_eq!(response.status, status, "{to}");
        assert!(response.is_last());
        let version = response.get("sec-websocket-version");
        assert_eq!(version, (status == 426).then_some("13"));
        let connection = match status {
            426 => "close, Upgrade",
            _ => "close",
        };
        assert_eq!(response.get("connection"), Some(connection));
        server.expect_end(&mut client);
        assert_eq!(server.worker.app.called.len(), 0);
    }
}

#[test]
fn an_upgrade_that_connection_does_not_list_is_a_request() {
    for (from, to) in [
        ("Connection: Upgrade", "X: Upgrade"),
        ("Connection: Upgrade", "Connection: keep-alive"),
    ] {
        for method in ["GET ", "POST "] {
            let mut server = Server::new();
            let mut client = server.connect();
            let sent = handshake("/ws/echo", "").replacen(from, to, 1);
            client.send(&sent.replacen("GET ", method, 1));
            let response = server.response(&mut client);
            assert_eq!(response.content, "/ws/echo", "{method}{to}");
            assert!(!response.is_last());
        }
    }
}

#[test]
fn several_connection_lines_are_one_list() {
    let lines = "Connection: keep-alive\r\nX: y\r\nConnection: keep-alive, upgrade";
    // The second connection's lines are remembered from the first.
    let mut server = Server::new();
    for _ in 0..2 {
        let client = server.connect();
        client.send(&handshake("/ws/echo", "").replacen("Connection: Upgrade", lines, 1));
        let mut client = server.opened(client);
        client.send(&text("hello"));
        assert_eq!(server.next_text(&mut client), "hello");
    }
}

#[test]
fn an_application_that_takes_no_websocket_gets_a_request() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&handshake("/plain", ""));
    assert_eq!(server.response(&mut client).content, "/plain");
}

#[test]
fn a_late_application_is_aborted_once() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    client.send(&handshake("/ws/later", ""));
    server.settle();
    now_ms.fetch_add(60_001, Ordering::Relaxed);
    let response = server.response(&mut client);
    assert_eq!(response.status, 503);
    let late = Some(Abort::HandlerTimeout { after_ms: 60_000 });
    assert_eq!(server.abort_of("/ws/later"), late);
    let id = server.exchange("/ws/later");
    server.post(id, Command::Open(Opening::default()));
    server.expect_end(&mut client);
    assert_eq!(server.closed("/ws/later"), None);
}

#[test]
fn pongs_are_coalesced_and_keep_their_content() {
    let mut server = Server::new();
    let mut client = server.open("/ws/echo");
    let frames = [ping(b"1"), ping(b"2"), text("x"), ping(b"3")].concat();
    client.send(&frames);
    assert_eq!(server.next(&mut client), arrived_text("x"));
    assert_eq!(server.next(&mut client), Arrived::Pong(b"3".to_vec()));
    server.settle();
    assert!(client.is_quiet());
}

#[test]
fn the_clients_close_frame_is_returned_and_reported() {
    for (code, reason) in [(1000, ""), (4999, "because"), (1005, "")] {
        let mut server = Server::new();
        let mut client = server.open("/ws/echo");
        client.send(&[text("last"), close(code, reason), text("dropped")].concat());
        assert_eq!(server.next_text(&mut client), "last");
        let returned = Arrived::Close(code, reason.to_owned());
        assert_eq!(server.next(&mut client), returned);
        server.pass_until(|_| client.client.is_ended());
        assert_eq!(server.closed("/ws/echo"), Some((code, reason.to_owned())));
        assert!(server.is_empty());
        assert_eq!(server.worker.held_bytes(), 0);
    }
}

#[test]
fn violations_are_closed_with_their_code() {
    let large = [0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 1, 1, 2, 3, 4];
    for (frame, code) in [
        (&b"\x81\x01a"[..], 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (&large, 1009),
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),
    ] {
        let mut server = Server::new();
        let mut client = server.open("/ws/echo");
        client.send(&[&text("before")[..], frame, &text("after")].concat());
        assert_eq!(server.next_text(&mut client), "before");
        let Arrived::Close(sent, reason) = server.next(&mut client) else {
            panic!("no close frame");
        };
        assert_eq!(sent, code);
        client.client.end();
        server.pass_until(|server| server.is_empty());
        assert_eq!(server.closed("/ws/echo"), Some((code, reason)));
        assert_eq!(server.worker.held_bytes(), 0);
    }
}

#[test]
fn a_client_that_disconnects_is_reported_as_1006() {
    let mut server = Server::new();
    let client = server.open("/ws/echo");
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.closed("/ws/echo"), Some((1006, String::new())));
}

#[test]
fn an_application_that_has_enough_stops_its_client() {
    let mut server = Server::new();
    let client = server.open("/ws/slow");
    client.send(&[text("1"), text("2"), text("3")].concat());
    server.settle();
    let id = server.exchange("/ws/slow");
    for count in 1..=3 {
        assert_eq!(server.worker.app.messages.len(), count);
        client.send(&text("more"));
        server.settle();
        assert_eq!(server.worker.app.messages.len(), count);
        server.post(id, Command::Read);
        server.settle();
    }
    let mut sent = 0;
    loop {
        match client.client.send_some(&text(&"x".repeat(1000))) {
            0 => break,
            count => sent += count,
        }
        server.pass();
    }
    assert!(sent < 1 << 20, "{sent}");
    assert!(server.worker.held_bytes() < 100_000);
}

#[test]
fn a_client_that_does_not_read_stops_the_echo() {
    let mut server = Server::new();
    let mut client = server.open("/ws/echo");
    let frame = text(&"x".repeat(10_000));
    let mut sent = Vec::new();
    let mut blocked = 0;
    while blocked < 20 {
        // What does not fit is sent later, so that frames are whole.
        let start = sent.len() % frame.len();
        let rest = frame.get(start..).unwrap_or_default();
        match client.client.send_some(rest) {
            0 => blocked += 1,
            count => sent.extend_from_slice(rest.get(..count).unwrap_or_default()),
        }
        server.pass();
    }
    assert!(
        server.worker.held_bytes() < 600_000,
        "{}",
        server.worker.held_bytes()
    );
    let whole = sent.len() / frame.len();
    for _ in 0..whole {
        assert_eq!(server.next_text(&mut client).len(), 10_000);
    }
    server.settle();
    assert!(
        server.worker.held_bytes() < 20_000,
        "{}",
        server.worker.held_bytes()
    );
}

#[test]
fn without_time_to_close_nobody_waits_for_the_clients_close_frame() {
    let (mut server, now_ms) =
        Server::with_manual_clock(|config| config.timeouts.websocket_close_timeout_ms = 0);
    let mut client = server.open("/ws/echo");
    server.post(server.exchange("/ws/echo"), closing(1000));
    let close = Arrived::Close(1000, String::new());
    assert_eq!(server.next(&mut client), close);
    now_ms.fetch_add(100, Ordering::Relaxed);
    server.settle();
    assert!(server.is_empty());
}

#[test]
fn a_close_frame_that_is_not_returned_ends_in_time() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.open("/ws/echo");
    server.post(server.exchange("/ws/echo"), closing(1000));
    assert_eq!(
        server.next(&mut client),
        Arrived::Close(1000, String::new())
    );
    client.send(&text("ignored"));
    server.settle();
    assert_eq!(server.closed("/ws/echo"), None);
    now_ms.fetch_add(10_100, Ordering::Relaxed);
    server.settle();
    assert!(server.is_empty());
    assert_eq!(server.closed("/ws/echo"), Some((1006, String::new())));
    assert_eq!(server.worker.app.messages.len(), 0);
}

/// A WebSocket whose client has not read, so that a close frame waits until other output is sent.
fn with_a_waiting_close_frame() -> (Server, Arc<AtomicU64>, WebSocketClient) {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let client = server.open("/ws/echo");
    let id = server.exchange("/ws/echo");
    server.post(
        id,
        Command::Message(MessageKind::Binary, vec![0; LONG_BYTES]),
    );
    server.post(id, closing(1000));
    server.settle();
    (server, now_ms, client)
}

#[test]
fn the_time_to_return_a_close_frame_starts_when_it_is_sent() {
    let (mut server, now_ms, mut client) = with_a_waiting_close_frame();
    let pass = |server: &mut Server, ms: u64| {
        now_ms.fetch_add(ms, Ordering::Relaxed);
        server.settle();
    };
    pass(&mut server, 20_000);
    assert_eq!(server.closed("/ws/echo"), None);
    assert_eq!(
        server.next(&mut client),
        Arrived::Binary(vec![0; LONG_BYTES])
    );
    let returned = Arrived::Close(1000, String::new());
    assert_eq!(server.next(&mut client), returned);
    pass(&mut server, 9_900);
    assert_eq!(server.closed("/ws/echo"), None);
    pass(&mut server, 200);
    assert_eq!(server.closed("/ws/echo"), Some((1006, String::new())));
    assert!(server.is_empty());
}

#[test]
fn a_client_that_never_reads_a_close_frame_is_ended_by_the_write_timeout() {
    let (mut server, now_ms, _client) = with_a_waiting_close_frame();
    for _ in 0..20 {
        now_ms.fetch_add(5_000, Ordering::Relaxed);
        server.settle();
    }
    assert_eq!(server.closed("/ws/echo"), Some((1006, String::new())));
    assert!(server.is_empty());
}

#[test]
fn a_drain_asks_clients_to_leave() {
    let mut server = Server::new();
    let mut client = server.open("/ws/echo");
    let mut silent = server.open("/ws/post");
    server.worker.drain();
    let leave = Arrived::Close(1012, "the server is stopping".into());
    assert_eq!(server.next(&mut client), leave);
    assert_eq!(server.next(&mut silent), leave);
    let reported = Some((1012, "the server is stopping".into()));
    assert_eq!(server.closed("/ws/echo"), reported);
    client.send(&close(1012, ""));
    server.pass_until(|_| client.client.is_ended());
    assert!(!server.is_empty());
    server.worker.stop();
    assert!(server.is_empty());
    assert_eq!(server.closed("/ws/post"), reported);
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn a_published_message_reaches_the_subscribers_of_its_topic() {
    let mut server = Server::new();
    let mut first = server.open("/ws/sub/a");
    let mut second = server.open("/ws/sub/a");
    let mut other = server.open("/ws/sub/b");
    server.publish("a", "1");
    server.publish("none", "x");
    server.publish("a", "2");
    for client in [&mut first, &mut second] {
        assert_eq!(server.next_text(client), "1");
        assert_eq!(server.next_text(client), "2");
    }
    assert!(other.is_quiet());
    let id = server.exchange("/ws/sub/a");
    server.post(id, Command::Unsubscribe(b"a".to_vec()));
    drop(first);
    server.publish("a", "3");
    server.settle();
    assert!(second.is_quiet());
    assert_eq!(server.worker.app.messages.len(), 0);
}

#[test]
fn a_subscriber_receives_what_is_published_right_after_its_acceptance() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&handshake("/ws/later", ""));
    server.pass_until(|server| !server.worker.app.called.is_empty());
    let id = server.exchange("/ws/later");
    server.post(id, Command::Open(Opening::default()));
    server.post(id, Command::Subscribe(b"a".to_vec()));
    server.publish("a", "1");
    let mut client = server.opened(client);
    assert_eq!(server.next_text(&mut client), "1");
}

#[test]
fn a_burst_above_the_limit_reaches_a_subscriber_whose_socket_takes_it() {
    let mut server = Server::with(|config| config.limits.websocket_queued_bytes_max = 10_000);
    let mut client = server.open("/ws/sub/a");
    let content = "x".repeat(1000);
    for _ in 0..50 {
        server.publish("a", &content);
    }
    server.settle();
    assert_eq!(server.closed("/ws/sub/a"), None);
    for _ in 0..50 {
        assert_eq!(server.next_text(&mut client), content);
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_and_holds_a_bounded_share() {
    let mut server = Server::with(|config| config.limits.websocket_queued_bytes_max = 100_000);
    let mut slow = server.open("/ws/sub/a");
    let mut published = 0;
    while server.closed("/ws/sub/a").is_none() {
        server.publish("a", &"x".repeat(1000));
        server.settle();
        assert!(server.worker.held_bytes() < 120_000);
        published += 1;
    }
    let closed = server.closed("/ws/sub/a");
    assert_eq!(
        closed,
        Some((1013, "the client receives too slowly".into()))
    );
    let mut received = 0;
    loop {
        match server.next(&mut slow) {
            Arrived::Text(text) => assert_eq!(text.len(), 1000),
            other => {
                assert!(matches!(other, Arrived::Close(1013, _)));
                break;
            }
        }
        received += 1;
    }
    assert!(received < published);
}

#[test]
fn a_pong_does_not_wait_for_the_end_of_all_publications() {
    let mut server = Server::with(|config| config.limits.send_buffer_bytes_max = 20_000);
    let mut client = server.open("/ws/sub/a");
    let content = "x".repeat(1000);
    while server.worker.held_bytes() < 10_000 {
        server.publish("a", &content);
        server.settle();
    }
    client.send(&ping(b"?"));
    server.settle();
    for _ in 0..200 {
        server.publish("a", &content);
    }
    server.settle();
    let mut after = 0;
    while server.next(&mut client) != Arrived::Pong(b"?".to_vec()) {
        after += 1;
        assert!(after < 10_000);
    }
    // The rest of the 200 follows.
    for _ in 0..100 {
        assert_eq!(server.next_text(&mut client), content);
    }
}

#[test]
fn a_panic_ends_one_websocket() {
    let mut server = Server::new();
    let mut other = server.open("/ws/echo");
    let client = server.open("/ws/panic");
    client.send(&text("x"));
    server.pass_until(|server| server.closed("/ws/panic").is_some());
    assert_eq!(server.closed("/ws/panic"), Some((1006, String::new())));
    other.send(&text("x"));
    assert_eq!(server.next_text(&mut other), "x");
}

#[test]
fn the_application_hears_when_everything_is_sent() {
    let mut server = Server::new();
    let mut client = server.open("/ws/post");
    let id = server.exchange("/ws/post");
    for number in 1..=3 {
        client.send(&text("x"));
        assert_eq!(server.next_text(&mut client), "x");
        assert_eq!(server.worker.app.writables, vec![id; number]);
    }
}

#[test]
fn an_idle_websocket_holds_only_its_record() {
    let mut server = Server::new();
    let mut client = server.open("/ws/echo");
    client.send(&[text("hello"), ping(b"x")].concat());
    assert_eq!(server.next_text(&mut client), "hello");
    server.settle();
    let held_bytes = server.worker.held_bytes();
    assert!(held_bytes <= 512, "{held_bytes}");
}
