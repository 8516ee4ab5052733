//! What hostile clients of WebSockets do, besides violations of the framing (`main.rs`) and slow readers (`schedules.rs`).

use server::Origins;
use wire::websocket::{Deflater, Incoming, Kind, Role, Sender, WindowBits};

use crate::harness::Server;
use crate::harness::websocket::{Arrived, KEY, WebSocketClient, handshake, ping, text};

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
const MASK: [u8; 4] = [1, 2, 3, 4];

pub(crate) fn deflated(content: &[u8]) -> Vec<u8> {
    let mut deflater = Deflater::new(9, WindowBits::MAX, false).expect("memory");
    let mut frame = Vec::new();
    let sender = Sender::new(Role::Client);
    let pushed = sender.push_deflated(&mut frame, Kind::Binary, content, MASK, &mut deflater);
    pushed.expect("memory");
    frame
}

pub(crate) fn open_with_compression(server: &mut Server) -> WebSocketClient {
    let client = server.connect();
    client.send(&handshake("/ws/echo", OFFER));
    let client = server.opened_with(client, Incoming::WithoutContext(None));
    let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    assert!(client.head.contains(agreed), "{}", client.head);
    client
}

/// Whether the WebSocket was closed with 1009, and nothing is held for it.
fn expect_too_big(server: &mut Server, mut client: WebSocketClient) {
    assert!(matches!(server.next(&mut client), Arrived::Close(1009, _)));
    assert!(server.worker.app.messages.is_empty());
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.closed("/ws/echo").map(|how| how.0), Some(1009));
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn a_bomb_is_stopped_while_it_is_inflated() {
    let mut server = Server::with(|config| config.limits.websocket_message_bytes_max = 100_000);
    let mut client = open_with_compression(&mut server);
    client.send(&deflated(&[b'x'; 100_000]));
    assert_eq!(
        server.next(&mut client),
        Arrived::Binary(vec![b'x'; 100_000])
    );
    server.worker.app.messages.clear();
    let bomb = deflated(&vec![b'x'; 30 << 20]);
    assert!(bomb.len() < 40_000);
    client.send(&bomb);
    expect_too_big(&mut server, client);
}

#[test]
fn small_messages_are_not_compressed_and_large_ones_are() {
    let mut server = Server::new();
    let mut client = open_with_compression(&mut server);
    let long = "{\"name\": \"value\"}, ".repeat(100);
    for content in ["short", &long] {
        client.send(&text(content));
        server.settle();
        let mut arrived = Vec::new();
        server.pass_until(|_| {
            arrived.extend(client.client.take_bytes());
            !arrived.is_empty()
        });
        let is_compressed = arrived[0] & 0x40 != 0;
        assert_eq!(is_compressed, content.len() > 128);
        assert!(arrived.len() < 200, "{}", arrived.len());
    }
}

#[test]
fn fragments_have_a_limit() {
    let mut server = Server::with(|config| config.limits.websocket_fragments_max = 10);
    let client = server.open("/ws/echo");
    let mut frames = b"\x02\x80\0\0\0\0".to_vec();
    frames.extend(b"\0\x80\0\0\0\0".repeat(10));
    client.send(&frames);
    expect_too_big(&mut server, client);
}

#[test]
fn an_announced_length_allocates_nothing() {
    let mut server = Server::new();
    let client = server.open("/ws/echo");
    client.send(&[&[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0][..], &MASK, b"abc"].concat());
    server.settle();
    assert!(
        server.worker.held_bytes() < 2048,
        "{}",
        server.worker.held_bytes()
    );
}

#[test]
fn pings_of_a_client_that_does_not_read_hold_nothing() {
    let mut server = Server::new();
    let mut client = server.open("/ws/post");
    let id = server.exchange("/ws/post");
    let command = || server::Command::Message(Kind::Binary, vec![0; 400_000]);
    server.post(id, command());
    server.settle();
    let before = server.worker.held_bytes();
    let pings = ping(&[b'p'; 100]).repeat(50);
    for _ in 0..100 {
        client.client.send_some(&pings);
        server.settle();
        assert!(server.worker.held_bytes() < before + 70_000);
    }
    // What it reads in the end are the message and few pongs.
    let mut pongs = 0;
    loop {
        match server.next(&mut client) {
            Arrived::Binary(content) => assert_eq!(content.len(), 400_000),
            Arrived::Pong(_) => {
                pongs += 1;
                server.settle();
                if client.is_quiet() {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(pongs < 110, "{pongs}");
}

#[test]
fn handshakes_with_repeated_or_excessive_fields_are_refused() {
    let many: Vec<String> = (0..10_000).map(|number| format!("p{number}")).collect();
    let many = format!("Sec-WebSocket-Protocol: {}\r\n", many.join(","));
    let key = format!("Sec-WebSocket-Key: {KEY}\r\n");
    for (lines, status) in [
        (&key[..], 400),
        ("Sec-WebSocket-Version: 13\r\n", 400),
        ("Sec-WebSocket-Protocol: a, a\r\n", 400),
        ("Sec-WebSocket-Protocol: \"a\"\r\n", 400),
        ("Sec-WebSocket-Protocol: \u{e4}\r\n", 400),
        ("Sec-WebSocket-Extensions: a; b=\"\r\n", 400),
        ("Content-Length: 3\r\n", 400),
        (&many, 431),
    ] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send_some(handshake("/ws/echo", lines).as_bytes());
        let response = server.response(&mut client);
        assert_eq!(response.status, status, "{lines:.60}");
        assert!(server.worker.app.called.is_empty());
    }
}

#[test]
fn other_origins_are_refused_if_they_are_listed() {
    for (origin, status) in [
        ("Origin: http://test\r\n", 101),
        ("", 101),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        (
            "Origin: http://test\r\nOrigin: https://evil.example\r\n",
            403,
        ),
    ] {
        let mut server = Server::with(|config| {
            config.websocket.origins = Origins::Listed {
                own: true,
                others: Vec::new(),
            };
        });
        let mut client = server.connect();
        client.send(&handshake("/ws/echo", origin));
        let mut bytes = Vec::new();
        server.pass_until(|_| {
            bytes.extend(client.take_bytes());
            !bytes.is_empty()
        });
        let head = String::from_utf8_lossy(&bytes).into_owned();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(server.worker.app.called.len(), usize::from(status == 101));
    }
}

#[test]
fn an_http_1_0_client_gets_no_websocket() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&handshake("/ws/echo", "").replacen("HTTP/1.1", "HTTP/1.0", 1));
    assert_eq!(server.response(&mut client).status, 200);
}

#[test]
fn a_client_that_vanishes_before_the_acceptance_has_no_websocket() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&handshake("/ws/later", ""));
    server.settle();
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert!(server.abort_of("/ws/later").is_some());
    let id = server.exchange("/ws/later");
    server.post(id, server::Command::Open(server::Opening::default()));
    server.settle();
    assert_eq!(server.closed("/ws/later"), None);
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn a_message_that_becomes_long_uses_up_the_turn_of_its_connection() {
    let mut server = Server::new();
    let client = open_with_compression(&mut server);
    let bomb = deflated(&[b'x'; 100_000]);
    client.send(&[&bomb[..], &bomb, &text("short"), &bomb, &bomb].concat());
    // In the first pass it has two turns: that of its event, and that of what waits.
    for arrived in [2, 4, 5] {
        server.pass();
        assert_eq!(server.worker.app.messages.len(), arrived);
    }
}
