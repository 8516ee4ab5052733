//! What is sent to a WebSocket and what is published to it arrive in the order of the calls, no matter what sends it: passes, or a thread
//! between two passes.

use proptest::collection::vec;
use proptest::prelude::*;
use server::{Command, Compression, MessageKind};
use wire::websocket::{Incoming, Inflater};

use crate::harness::websocket::{Arrived, WebSocketClient, handshake, text};
use crate::harness::{Server, get};

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
const TARGET: &str = "/ws/sub/t";

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The application sends a message of that length.
    Post(usize),
    Publish(usize),
    Subscribe,
    Unsubscribe,
    /// A thread sends what was posted.
    SendPosted,
    Pass,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let length = || prop_oneof![0..20_usize, 100..1000_usize, 1000..50_000_usize];
    let each = prop_oneof![
        4 => length().prop_map(Move::Post),
        4 => length().prop_map(Move::Publish),
        1 => Just(Move::Subscribe),
        1 => Just(Move::Unsubscribe),
        3 => Just(Move::SendPosted),
        2 => Just(Move::Pass),
    ];
    vec(each, 1..20)
}

fn compressions() -> impl Strategy<Value = Compression> {
    prop_oneof![
        Just(Compression::Off),
        Just(Compression::Messages { level: 1 }),
        Just(Compression::Context { level: 1 }),
    ]
}

/// The end of a WebSocket, which sends what waits before it notifies the application, must not send what was sent already.
#[test]
fn a_response_arrives_once_though_a_websocket_breaks_after_it() {
    let (mut server, _) = Server::with_manual_clock(|_| ());
    let breaking = server.open("/ws/echo");
    let mut client = server.connect();
    for round in ["/1", "/2"] {
        client.send(&get(round));
        if round == "/2" {
            breaking.send(&text("sent back to nobody"));
            let socket = breaking.client.socket();
            rustix::net::shutdown(socket, rustix::net::Shutdown::Both).expect("open");
        }
        server.pass();
        let arrived = client.take_response("GET").expect("a response");
        assert_eq!(arrived.content, round);
    }
    server.settle();
    assert!(client.is_quiet(), "it was sent twice");
    assert_eq!(server.closed("/ws/echo").map(|(code, _)| code), Some(1006));
}

fn open(server: &mut Server, compression: Compression) -> WebSocketClient {
    let client = server.connect();
    client.send(&handshake(TARGET, OFFER));
    let incoming = match compression {
        Compression::Off => Incoming::Plain,
        Compression::Messages { .. } => Incoming::WithoutContext(None),
        Compression::Context { .. } => {
            let inflater = Inflater::new(true).expect("memory");
            Incoming::WithContext(Box::new(inflater))
        }
    };
    server.opened_with(client, incoming)
}

/// Makes the moves. Returns what the client must receive.
fn make(server: &mut Server, moves: &[Move]) -> Vec<String> {
    let id = server.exchange(TARGET);
    let (mut expected, mut subscribes) = (Vec::new(), true);
    for (number, each) in moves.iter().enumerate() {
        let text = |bytes: usize| format!("{number}:{}", "x".repeat(bytes));
        match *each {
            Move::Post(bytes) => {
                let content = text(bytes).into_bytes();
                server.post(id, Command::Message(MessageKind::Text, content));
                expected.push(text(bytes));
            }
            Move::Publish(bytes) => {
                server.publish("t", &text(bytes));
                if subscribes {
                    expected.push(text(bytes));
                }
            }
            Move::Subscribe => {
                server.post(id, Command::Subscribe(b"t".to_vec()));
                subscribes = true;
            }
            Move::Unsubscribe => {
                server.post(id, Command::Unsubscribe(b"t".to_vec()));
                subscribes = false;
            }
            Move::SendPosted => {
                server.worker.send_posted();
            }
            Move::Pass => server.pass(),
        }
    }
    expected
}

/// Everything that arrives until nothing more does.
fn receive(server: &mut Server, client: &mut WebSocketClient) -> Vec<String> {
    let mut received = Vec::new();
    let mut is_quiet = false;
    while !is_quiet {
        server.settle();
        let before = received.len();
        while let Some(arrived) = client.take() {
            match arrived {
                Arrived::Text(text) => received.push(text),
                other => panic!("{other:?}"),
            }
        }
        is_quiet = received.len() == before && client.is_quiet();
    }
    received
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_in_the_order_of_the_calls(moves in moves(), compression in compressions()) {
        let mut server = Server::with(|config| config.websocket.compression = compression);
        let mut client = open(&mut server, compression);
        let expected = make(&mut server, &moves);
        prop_assert_eq!(receive(&mut server, &mut client), expected);
    }
}
