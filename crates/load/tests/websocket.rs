//! WebSocket: exact counts, what a connection sends, and what of the server it detects.

mod fixture;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use fixture::websocket::{Peer, Seen, head, key, websocket_plan};
use fixture::{outcome, server, server_of_many};
use load::generator::{Address, Limit, Pattern, Plan, Protocol, Request, Shape, WebSocket, run};
use wire::websocket::handshake::accept_value;
use wire::websocket::{Deflater, Incoming, Kind, Role, Sender, WindowBits};

/// Serves every connection with `behave`, after its handshake.
fn peers(behave: impl Fn(&mut Peer) + Send + Sync + 'static) -> Address {
    server_of_many(move |stream| {
        if let Some(mut peer) = Peer::new(stream, "", Incoming::Plain) {
            behave(&mut peer);
        }
    })
}

fn echo(peer: &mut Peer) {
    while let Some((kind, content)) = peer.message() {
        if !peer.echo(kind, &content) {
            return;
        }
    }
}

fn of_depth(depth: u32) -> WebSocket {
    WebSocket {
        depth,
        ..WebSocket::default()
    }
}

/// A response to the handshake with the right hash.
fn accepting(lines: &'static str) -> impl Fn(TcpStream) + Send + 'static {
    move |mut stream| {
        let Some(head) = head(&mut stream) else {
            return;
        };
        let accept = String::from_utf8(accept_value(key(&head).as_bytes()).to_vec());
        let lines = lines.replace("ACCEPT", &accept.expect("a hash"));
        let _ = stream.write_all(lines.as_bytes());
        // Not closed before the client has read it.
        let _ = fixture::websocket::head(&mut stream);
    }
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn messages_and_their_echoes_are_counted() {
    let report = run(&websocket_plan(peers(echo), 1000, of_depth(7))).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.requests_sent),
        (1000, 0, 1000)
    );
    assert_eq!(report.content_bytes_received, 64_000);
    assert_eq!(
        (report.connections_opened, report.protocol),
        (1, "WebSocket".into())
    );
    assert!(report.statuses.is_empty());
    let websocket = report.websocket.expect("a report");
    assert_eq!(websocket.upgrades, 1);
    assert_eq!(websocket.closes, BTreeMap::new());
}

#[test]
fn the_handshake_and_the_messages_are_as_the_protocol_says() {
    let (sender, receiver) = mpsc::channel();
    let address = server(move |stream| {
        let mut peer = Peer::new(stream, "Sec-WebSocket-Protocol: b\r\n", Incoming::Plain);
        let peer = peer.as_mut().expect("a handshake");
        sender.send(peer.head.clone()).expect("a test");
        while let Some(seen) = peer.next() {
            if let Seen::Message(kind, content) = &seen {
                peer.echo(*kind, content);
            }
            sender.send(format!("{seen:?}")).expect("a test");
        }
    });
    let mut asked = websocket_plan(
        address.clone(),
        3,
        WebSocket {
            message_bytes: 10,
            ..WebSocket::default()
        },
    );
    let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    asked.requests = vec![Request {
        target: "/chat?a=b".into(),
        field_lines: vec![
            line("Origin", "http://x"),
            line("Sec-WebSocket-Protocol", "a, b"),
        ],
        ..Request::default()
    }];
    assert_eq!(outcome(&asked), (3, none()));
    let head = receiver.recv().expect("a head");
    let host = match address {
        Address::Internet(address) => address.to_string(),
        Address::Local(_) => String::new(),
    };
    let key = key(&head);
    assert_eq!(key.len(), 24);
    assert_eq!(
        head,
        format!(
            "GET /chat?a=b HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nOrigin: http://x\r\n\
             Sec-WebSocket-Protocol: a, b\r\n\r\n"
        )
    );
    let text = |content: &str| format!("{:?}", Seen::Message(Kind::Text, content.into()));
    let seen: Vec<String> = receiver.iter().take(4).collect();
    let close = format!("{:?}", Seen::Close(Some(1000)));
    let expected = [
        text("00000000ab"),
        text("00000001ab"),
        text("00000002ab"),
        close,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn keys_of_masks_differ() {
    let (sender, receiver) = mpsc::channel();
    let address = server(move |mut stream| {
        let head = head(&mut stream).expect("a head");
        let accept = String::from_utf8(accept_value(key(&head).as_bytes()).to_vec());
        let accept = accept.expect("a hash");
        let _ = stream.write_all(
            format!(
                "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            )
            .as_bytes(),
        );
        let mut frames = [0; 2 * (6 + 4)];
        std::io::Read::read_exact(&mut stream, &mut frames).expect("two frames");
        sender.send(frames).expect("a test");
    });
    let websocket = WebSocket {
        message_bytes: 4,
        ..of_depth(2)
    };
    let _ = run(&websocket_plan(address, 2, websocket));
    let frames = receiver.recv().expect("frames");
    let [first, second] = frames.as_chunks::<10>().0 else {
        panic!("two frames");
    };
    assert_eq!(
        (first[..2].to_vec(), second[..2].to_vec()),
        (vec![0x81, 0x84], vec![0x81, 0x84])
    );
    assert_ne!(first[2..6], second[2..6]);
    assert_ne!(first[2..6], [0; 4]);
}

#[test]
fn fragments_pings_and_cut_frames_are_received() {
    let address = peers(|peer| {
        while let Some((_, content)) = peer.message() {
            let (first, second) = content.split_at(content.len() / 2);
            peer.push_ping(b"still there?");
            peer.out.extend([0x01, first.len() as u8]);
            peer.out.extend_from_slice(first);
            peer.push_pong(b"nobody asked");
            peer.out.extend([0x80, second.len() as u8]);
            if !peer.send() {
                return;
            }
            peer.out.extend_from_slice(second);
            if !peer.send() || peer.next() != Some(Seen::Pong(b"still there?".to_vec())) {
                return;
            }
        }
    });
    assert_eq!(
        outcome(&websocket_plan(address, 30, of_depth(1))),
        (30, none())
    );
}

#[test]
fn what_is_not_the_message_is_an_error() {
    let websocket = of_depth(1);
    let with = |edit: fn(&mut Vec<u8>), kind: Kind| {
        let address = peers(move |peer| {
            while let Some((_, mut content)) = peer.message() {
                edit(&mut content);
                peer.echo(kind, &content);
            }
        });
        outcome(&websocket_plan(address, 10, websocket))
    };
    let failed = |class: &str| (0, vec![format!("{class} 10")]);
    let nothing: fn(&mut Vec<u8>) = |_| {};
    assert_eq!(with(nothing, Kind::Text), (10, none()));
    assert_eq!(with(nothing, Kind::Binary), failed("wrong_body"));
    assert_eq!(with(|it| it[63] = b'X', Kind::Text), failed("wrong_body"));
    assert_eq!(with(|it| it.truncate(63), Kind::Text), failed("short"));
    assert_eq!(with(|it| it.push(b'x'), Kind::Text), failed("long"));
    assert_eq!(
        with(|it| it.resize(1 << 21, b'x'), Kind::Text),
        failed("long")
    );
}

#[test]
fn messages_in_another_order_are_wrong() {
    let address = peers(|peer| {
        while let (Some((kind, first)), Some((_, second))) = (peer.message(), peer.message()) {
            peer.push(kind, &second).push(kind, &first).send();
        }
    });
    let found = outcome(&websocket_plan(address, 10, of_depth(2)));
    assert_eq!(found, (0, vec!["wrong_body 10".to_owned()]));
}

#[test]
fn messages_that_nobody_asked_for_invalidate_the_others() {
    let address = peers(|peer| {
        for number in 1.. {
            let Some((kind, content)) = peer.message() else {
                return;
            };
            if number == 10 {
                peer.push(kind, &content);
            }
            peer.echo(kind, &content);
        }
    });
    let found = outcome(&websocket_plan(address, 10, of_depth(1)));
    assert_eq!(found, (0, vec!["unexpected_bytes 10".to_owned()]));
}

#[test]
fn a_close_is_counted_with_its_code() {
    let address = peers(|peer| {
        let (kind, content) = peer.message().expect("a message");
        peer.echo(kind, &content);
        peer.message();
        peer.push_close(1011, "no more").send();
        assert_eq!(peer.next(), Some(Seen::Close(Some(1011))));
    });
    let report = run(&websocket_plan(address, 10, of_depth(1))).expect("a run");
    assert_eq!((report.ok, report.failed), (5, 5));
    let websocket = report.websocket.expect("a report");
    assert_eq!(websocket.closes, BTreeMap::from([(1011, 5)]));
    assert_eq!(websocket.upgrades, 5);
}

#[test]
fn a_violation_of_the_protocol_fails_the_connection() {
    let address = peers(|peer| {
        peer.message();
        // A frame of a server has no mask.
        peer.out.extend([0x81, 0x81, 0, 0, 0, 0, b'x']);
        peer.send();
        assert_eq!(peer.next(), Some(Seen::Close(Some(1002))));
    });
    let report = run(&websocket_plan(address, 3, of_depth(1))).expect("a run");
    assert_eq!(report.errors.iter().filter(|it| it.1 > 0).count(), 1);
    assert_eq!((report.ok, report.failed), (0, 3));
    let websocket = report.websocket.expect("a report");
    assert_eq!(websocket.first_failure, "the frame has a mask");
}

#[test]
fn a_handshake_is_refused_with_its_reason() {
    let upgrade = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    let accept = "Sec-WebSocket-Accept: ACCEPT\r\n";
    let cases = [
        (
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
            403,
            "status 403",
        ),
        (
            "SSH-2.0-x\r\n\r\n".to_owned(),
            0,
            "the response is not HTTP",
        ),
        (
            format!("{upgrade}Sec-WebSocket-Accept: c2FtcGxl\r\n\r\n"),
            101,
            "Sec-WebSocket-Accept is not the hash of the key",
        ),
        (
            format!("{upgrade}{accept}{accept}\r\n"),
            101,
            "Sec-WebSocket-Accept is not the hash of the key",
        ),
        (
            format!("HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n{accept}\r\n"),
            101,
            "the response does not name the protocol websocket",
        ),
        (
            format!("{upgrade}{accept}Sec-WebSocket-Protocol: chat\r\n\r\n"),
            101,
            "the server selected a subprotocol that was not offered",
        ),
        (
            format!("{upgrade}{accept}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
            101,
            "the server selected an extension that was not offered",
        ),
    ];
    for (response, status, reason) in cases {
        let address = server(accepting(response.leak()));
        let report = run(&websocket_plan(address, 2, of_depth(1))).expect("a run");
        assert_eq!((report.ok, report.failed), (0, 2), "{reason}");
        let websocket = report.websocket.expect("a report");
        assert_eq!(websocket.first_failure, reason);
        assert_eq!(websocket.refusals, BTreeMap::from([(status, 2)]));
        assert_eq!(websocket.upgrades, 0);
    }
}

#[test]
fn an_interim_response_precedes_the_handshakes() {
    let address = server(accepting(
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 101 X\r\nUpgrade: websocket\r\n\
         Connection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n\
         \u{1}\u{0}",
    ));
    let mut asked = websocket_plan(address, 1, of_depth(1));
    asked.timeout = Duration::from_millis(200);
    let report = run(&asked).expect("a run");
    assert_eq!(report.websocket.expect("a report").upgrades, 1);
}

#[test]
fn compressed_messages_are_checked() {
    for (lines, keeps_context) in [
        ("Sec-WebSocket-Extensions: permessage-deflate\r\n", true),
        (
            "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_max_window_bits=10\r\n",
            false,
        ),
    ] {
        let address = server_of_many(move |stream| {
            let incoming = Incoming::WithoutContext(None);
            let Some(mut peer) = Peer::new(stream, lines, incoming) else {
                return;
            };
            assert!(
                peer.head
                    .contains("Sec-WebSocket-Extensions: permessage-deflate\r\n")
            );
            let window = match keeps_context {
                true => WindowBits::MAX,
                false => WindowBits::new(10).expect("a window"),
            };
            let mut deflater = Deflater::new(6, window, keeps_context).expect("memory");
            let mut count = 0;
            while let Some((kind, mut content)) = peer.message() {
                count += 1;
                if count % 10 == 0 {
                    content[1000] = b'!';
                }
                let sender = Sender::new(Role::Server);
                let out = &mut peer.out;
                let used = sender.push_deflated(out, kind, &content, [0; 4], &mut deflater);
                assert!(used.expect("memory") < 200);
                peer.send();
            }
        });
        let websocket = WebSocket {
            message_bytes: 1024,
            is_compressed: true,
            ..of_depth(3)
        };
        let found = outcome(&websocket_plan(address, 30, websocket));
        assert_eq!(found, (27, vec!["wrong_body 3".to_owned()]));
    }
    let websocket = WebSocket {
        is_compressed: true,
        ..of_depth(1)
    };
    let report = run(&websocket_plan(peers(echo), 2, websocket)).expect("a run");
    let reason = report.websocket.expect("a report").first_failure;
    assert_eq!(reason, "the server does not agree to permessage-deflate");
}

#[test]
fn one_way_messages_are_acknowledged_by_pongs() {
    let received = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&received);
    let address = peers(move |peer| {
        while let Some(seen) = peer.next() {
            match seen {
                Seen::Message(..) => *counted.lock().expect("a count") += 1,
                // Unsolicited pongs mean nothing.
                Seen::Ping(content) => {
                    peer.push_pong(b"")
                        .push_pong(&[0xff; 8])
                        .push_pong(&content)
                        .send();
                }
                _ => return,
            }
        }
    });
    let websocket = WebSocket {
        pattern: Pattern::OneWay,
        ..of_depth(8)
    };
    let report = run(&websocket_plan(address, 1000, websocket)).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.requests_sent),
        (1000, 0, 1000)
    );
    assert_eq!(*received.lock().expect("a count"), 1000);
    let found = outcome(&websocket_plan(peers(echo), 8, websocket));
    assert_eq!(found, (0, vec!["unexpected_bytes 8".to_owned()]));
}

#[test]
fn messages_wait_for_the_handshake() {
    for pattern in [Pattern::Echo, Pattern::OneWay] {
        let (sender, receiver) = mpsc::channel();
        let address = server(move |mut stream| {
            let _ = head(&mut stream);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let mut byte = [0];
            let found = std::io::Read::read(&mut stream, &mut byte);
            sender.send(found.is_err()).expect("a test");
        });
        let websocket = WebSocket {
            pattern,
            ..of_depth(2)
        };
        let _ = run(&websocket_plan(address, 2, websocket));
        assert!(receiver.recv().expect("a result"), "{pattern:?}");
    }
}

#[test]
fn a_schedule_sends_messages_at_its_rate() {
    let asked = Plan {
        connections: 20,
        shape: Shape::Rate(5000.0),
        ..websocket_plan(peers(echo), 500, of_depth(4))
    };
    assert_eq!(outcome(&asked), (500, none()));
}

#[test]
fn a_connection_per_message_is_possible() {
    let asked = Plan {
        is_persistent: false,
        ..websocket_plan(peers(echo), 50, of_depth(1))
    };
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (50, 0));
    assert_eq!(
        (
            report.connections_opened,
            report.websocket.expect("a report").upgrades
        ),
        (50, 50)
    );
}

/// Sends every message to all connections; of every 50 messages, the last connection that opened does not get one.
fn chat(loses: bool) -> Address {
    let all: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let count = Arc::new(Mutex::new(0));
    server_of_many(move |stream| {
        let own = stream.try_clone().expect("a socket");
        let Some(mut peer) = Peer::new(stream, "", Incoming::Plain) else {
            return;
        };
        all.lock().expect("the room").push(own);
        while let Some((kind, content)) = peer.message() {
            let mut frame = Vec::new();
            let sender = Sender::new(Role::Server);
            let pushed = sender.push_message(&mut frame, kind, &content, [0; 4]);
            pushed.expect("memory");
            let mut count = count.lock().expect("a count");
            *count += 1;
            let room = all.lock().expect("the room");
            let is_lost = loses && *count % 50 == 0;
            for each in room.iter().take(room.len() - usize::from(is_lost)) {
                let _ = (&mut &*each).write_all(&frame);
            }
        }
    })
}

fn broadcast(address: Address, timeout: Duration) -> Plan {
    let websocket = WebSocket {
        pattern: Pattern::Broadcast,
        ..of_depth(2)
    };
    Plan {
        connections: 20,
        limit: Limit::Duration(Duration::from_millis(500)),
        timeout,
        ..websocket_plan(address, 1, websocket)
    }
}

#[test]
fn a_broadcast_is_received_by_every_connection() {
    let report = run(&broadcast(chat(false), Duration::from_secs(20))).expect("a run");
    assert_eq!(report.failed, 0);
    // Two messages to each of twenty are on their way at most.
    assert!(report.unfinished <= 40, "{}", report.unfinished);
    assert!(report.ok > 40, "{}", report.ok);
    let served = report.connections_served;
    assert_eq!((served.connections, served.starved), (20, 0));
    assert!(served.max - served.min <= 2);
    assert_eq!(report.requests_sent, report.ok + report.unfinished);
    assert_eq!(
        (report.connections_opened, report.connections_max),
        (20, 20)
    );
}

#[test]
fn a_message_that_one_connection_does_not_receive_is_detected() {
    let report = run(&broadcast(chat(true), Duration::from_secs(20))).expect("a run");
    assert!(
        report
            .errors
            .iter()
            .any(|(class, count)| class.name() == "wrong_body" && count > 0)
            || report.unfinished > 0
    );
    assert!(report.ok > 0);
}

#[test]
fn contradictions_are_refused() {
    let address = || Address::Internet(([127, 0, 0, 1], 9).into());
    let refusal = |edit: fn(&mut Plan)| {
        let mut plan = websocket_plan(address(), 1, WebSocket::default());
        edit(&mut plan);
        plan.check().expect_err("a refusal")
    };
    assert!(refusal(|it| it.requests.push(Request::default())).contains("one kind of request"));
    assert!(refusal(|it| it.requests[0].method = "POST".into()).contains("GET"));
    assert!(refusal(|it| it.requests[0].content = Some(vec![0xff])).contains("UTF-8"));
    let line = |it: &mut Plan| it.requests[0].field_lines = vec![("upgrade".into(), "x".into())];
    assert!(refusal(line).contains("leave out upgrade"));
    let broadcast = |it: &mut Plan| {
        it.protocol = Protocol::WebSocket(WebSocket {
            pattern: Pattern::Broadcast,
            ..WebSocket::default()
        });
    };
    assert!(refusal(broadcast).contains("a broadcast has one thread"));
}
