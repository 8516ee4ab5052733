//! TLS: handshakes and their limits, content in records of any length, the end in both directions, and clients of the wrong scheme.

mod harness;
#[path = "tls/places.rs"]
mod places;

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::tls::{End, TlsClient, configs};
use harness::{Server, get, post, post_chunked, response};
use rustix::net::{AddressFamily, SocketFlags, SocketType, recv, socketpair};
use server::{Abort, Command, FilePart};

/// A client with its socket.
struct Client {
    tls: TlsClient,
    socket: OwnedFd,
}

impl Client {
    fn connect(server: &mut Server) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        Client::over(server, ours.into(), theirs.into())
    }

    fn over(server: &mut Server, ours: OwnedFd, theirs: OwnedFd) -> Client {
        rustix::io::ioctl_fionbio(&ours, true).expect("a socket");
        let adopted = server.worker.adopt_with_tls(theirs, &configs().0);
        adopted.expect("a usable socket");
        Client {
            tls: TlsClient::new(),
            socket: ours,
        }
    }

    /// A client that has shaken hands.
    fn ready(server: &mut Server) -> Client {
        let mut client = Client::connect(server);
        client.shake_hands(server);
        client
    }

    fn shake_hands(&mut self, server: &mut Server) {
        server.pass_until(|_| {
            self.tls.push(&self.socket);
            self.tls.pull(&self.socket);
            !self.tls.is_handshaking()
        });
        server.settle();
        self.tls.pull(&self.socket);
    }

    fn send(&mut self, content: &str) {
        self.tls.offer(content.as_bytes());
        self.tls.push(&self.socket);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.tls.received).into_owned()
    }

    /// Passes until something with this end has arrived, and takes it.
    fn expect(&mut self, server: &mut Server, end: &str) -> String {
        server.pass_until(|_| {
            self.tls.push(&self.socket);
            self.tls.pull(&self.socket);
            self.text().ends_with(end)
        });
        String::from_utf8(std::mem::take(&mut self.tls.received)).expect("text")
    }

    /// Passes until the server has ended the connection.
    fn expect_end(&mut self, server: &mut Server) -> End {
        server.pass_until(|_| {
            self.tls.push(&self.socket);
            self.tls.pull(&self.socket);
            self.tls.end.is_some()
        });
        self.tls.end.clone().expect("pass_until has waited for it")
    }
}

#[test]
fn a_request_that_comes_with_the_handshake_is_served() {
    let mut server = Server::new();
    let mut client = Client::connect(&mut server);
    client.tls.offer(get("/a").as_bytes());
    let text = client.expect(&mut server, "/a");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    client.send(&get("/b"));
    client.expect(&mut server, "/b");
    client.send("GET /c HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.expect_end(&mut server), End::Announced);
    assert!(client.text().ends_with("/c"));
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn single_bytes_make_a_handshake_and_a_request() {
    let mut server = Server::new();
    let mut client = Client::connect(&mut server);
    client.tls.offer(get("/a").as_bytes());
    while !client.text().ends_with("/a") {
        for byte in client.tls.records() {
            let socket = client.socket.try_clone().expect("a descriptor");
            UnixStream::from(socket).write_all(&[byte]).expect("room");
            server.pass();
        }
        server.pass();
        client.tls.pull(&client.socket);
    }
    assert_eq!(server.targets(), ["/a"]);
}

#[test]
fn responses_of_a_batch_share_one_record_and_one_send() {
    let mut server = Server::new();
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let pair = socketpair(family, kind, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.expect("a pair of sockets");
    let mut client = Client::over(&mut server, ours, theirs);
    client.shake_hands(&mut server);
    client.send(&(get("/a") + &get("/b") + &get("/c")));
    server.settle();
    let mut packet = [0; 10_000];
    let flags = rustix::net::RecvFlags::empty();
    let (_, count) = recv(&client.socket, &mut packet, flags).expect("a packet");
    let length = usize::from(u16::from_be_bytes([packet[3], packet[4]]));
    assert_eq!((packet[0], count), (23, 5 + length), "one record");
    let next = recv(&client.socket, &mut packet, flags);
    assert!(next.is_err(), "one send");
}

#[test]
fn responses_keep_the_order_of_requests_that_arrive_at_once() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    // More than one read takes; the first response would wait for the end of the pass, and the second is too long to wait.
    client.send(&get(&format!("/{}", "a".repeat(700))));
    client.send(&(get("/big/5000") + &get("/c")));
    client.tls.offer_end();
    client.tls.push(&client.socket);
    assert_eq!(client.expect_end(&mut server), End::Announced);
    let text = client.text();
    let heads = text.matches("HTTP/1.1 200 OK\r\n").count();
    assert!(heads == 3 && text.ends_with("/c"), "{text}");
    let lengths = text
        .lines()
        .filter_map(|line| line.strip_prefix("Content-Length: "));
    assert_eq!(lengths.collect::<Vec<_>>(), ["701", "5000", "2"]);
}

#[test]
fn a_long_response_waits_for_a_client_that_does_not_read() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    client.send(&(get("/big/3000000") + &get("/after")));
    server.settle();
    // What the socket did not accept is held once, and the second request has not been started.
    let held = server.worker.held_bytes();
    assert!((2_000_000..3_600_000).contains(&held), "{held}");
    assert_eq!(server.targets(), ["/big/3000000"]);
    let text = client.expect(&mut server, "/after");
    let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Content-Length: 3000000"));
    assert!(rest.len() > 3_000_000);
    let held = server.worker.held_bytes();
    assert!(held < 16_384, "{held}");
}

#[test]
fn parts_of_a_stream_keep_their_order_whether_the_socket_accepts_them_or_not() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    client.send(&(get("/later") + &get("/after")));
    server.settle();
    let id = server.exchange("/later");
    server.post(id, Command::Begin(response(200, "")));
    let mut expected = String::new();
    for number in 10..50 {
        let part = number.to_string().repeat(0x8000);
        expected += &format!("10000\r\n{part}\r\n");
        let command = match number % 4 {
            0 => Command::Write(part.into()),
            _ => Command::WriteHeld(Box::new(Vec::from(part))),
        };
        server.post(id, command);
        if number % 3 == 0 {
            server.settle();
        }
    }
    server.post(id, Command::Finish);
    let text = client.expect(&mut server, "/after");
    let (_, content) = text.split_once("\r\n\r\n").expect("a head");
    let (content, _) = content.split_at(expected.len() + 5);
    assert!(content == expected + "0\r\n\r\n");
}

#[test]
fn a_client_that_reads_nothing_is_reset_in_time() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.timeouts.write_timeout_ms = 1000;
    });
    let mut client = Client::ready(&mut server);
    client.send(&get("/big/1000000"));
    server.settle();
    for _ in 0..20 {
        now_ms.fetch_add(100, Ordering::Relaxed);
        server.settle();
    }
    assert!(server.is_empty());
    assert_eq!(client.expect_end(&mut server), End::Silent);
}

#[test]
fn a_file_arrives_as_it_is() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    let path = std::env::temp_dir().join(format!("bolide-tls-{}", std::process::id()));
    let content: String = ('a'..='z').cycle().take(900_001).collect();
    std::fs::write(&path, content.as_bytes()).expect("a file");
    let file = Arc::new(std::fs::File::open(&path).expect("a file"));
    std::fs::remove_file(&path).expect("a file");
    let (offset, length) = (1, 900_000);
    let part = FilePart {
        file,
        offset,
        length,
    };
    server.worker.app.files.push(part);
    client.send(&(get("/file") + &get("/after")));
    let text = client.expect(&mut server, "/after");
    let (_, rest) = text.split_once("\r\n\r\n").expect("a head");
    assert!(rest.starts_with(content.get(1..).expect("a part")));
}

#[test]
fn content_arrives_in_parts_of_any_length() {
    for record_bytes in [1, 700, 16_384] {
        let mut server = Server::new();
        let mut client = Client::ready(&mut server);
        let content = "content ".repeat(record_bytes * 30);
        let length = content.len();
        let head =
            format!("POST /parts HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        client.send(&head);
        for part in content.as_bytes().chunks(record_bytes) {
            client.tls.offer(part);
            client.tls.push(&client.socket);
            server.pass();
        }
        let id = server.exchange("/parts");
        server.pass_until(|server| {
            client.tls.push(&client.socket);
            server.worker.app.content_of(id).1
        });
        assert!(server.worker.app.content_of(id).0 == content);
    }
}

#[test]
fn a_client_that_ends_its_side_gets_its_response() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    client.tls.offer(get("/later").as_bytes());
    client.tls.offer_end();
    client.tls.push(&client.socket);
    server.pass_until(|server| !server.worker.app.called.is_empty());
    server.settle();
    server.respond(server.exchange("/later"), "late");
    assert_eq!(client.expect_end(&mut server), End::Announced);
    assert!(client.text().ends_with("late"));
    server.pass_until(|server| server.is_empty());
}

#[test]
fn a_connection_that_ends_without_announcement_cuts_only_what_is_incomplete() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    client.send(&post("/read", "whole"));
    rustix::net::shutdown(&client.socket, rustix::net::Shutdown::Write).expect("a socket");
    assert_eq!(client.expect_end(&mut server), End::Announced);
    assert!(client.text().starts_with("HTTP/1.1 200 OK\r\n"));
    let mut client = Client::ready(&mut server);
    client.send(&(post_chunked("/parts/cut") + "5\r\nwhole\r\n"));
    server.settle();
    rustix::net::shutdown(&client.socket, rustix::net::Shutdown::Write).expect("a socket");
    server.pass_until(|server| server.is_empty());
    assert_eq!(server.abort_of("/parts/cut"), Some(Abort::Disconnected));
}

#[test]
fn a_truncated_response_ends_without_announcement() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    // Its length is not known, and it ends with the connection.
    client.send("GET /later HTTP/1.0\r\n\r\n");
    server.settle();
    let id = server.exchange("/later");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(b"half".to_vec()));
    server.settle();
    server.post(id, Command::Fail);
    assert_eq!(client.expect_end(&mut server), End::Silent);
    assert!(client.text().ends_with("half"));
}

#[test]
fn an_idle_connection_ends_with_an_announcement() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = Client::ready(&mut server);
    now_ms.fetch_add(80_000, Ordering::Relaxed);
    assert_eq!(client.expect_end(&mut server), End::Announced);
    let mut client = Client::ready(&mut server);
    server.worker.stop();
    client.tls.pull(&client.socket);
    assert_eq!(client.tls.end, Some(End::Announced));
}

#[test]
fn keys_are_updated_while_requests_are_served() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    for _ in 0..3 {
        client.tls.update_keys();
        client.send(&get("/a"));
        client.expect(&mut server, "/a");
    }
}

#[test]
fn a_record_that_was_changed_ends_the_connection_with_an_alert() {
    let mut server = Server::new();
    let mut client = Client::ready(&mut server);
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    client.tls.offer(b"more");
    let mut records = client.tls.records();
    *records.last_mut().expect("a record") ^= 1;
    let socket = client.socket.try_clone().expect("a descriptor");
    UnixStream::from(socket).write_all(&records).expect("room");
    let end = client.expect_end(&mut server);
    assert!(
        matches!(&end, End::Failed(text) if text.contains("BadRecordMac")),
        "{end:?}"
    );
    assert!(server.is_empty() && server.worker.app.aborted == [(id, Abort::Disconnected)]);
}

/// A socket that has not sent anything, and whose server expects TLS.
fn raw_client(server: &mut Server) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_nonblocking(true).expect("a socket");
    let adopted = server.worker.adopt_with_tls(theirs.into(), &configs().0);
    adopted.expect("a usable socket");
    ours
}

#[test]
fn plain_http_on_a_port_with_tls_gets_a_400_that_says_so() {
    let mut server = Server::new();
    let mut socket = raw_client(&mut server);
    socket.write_all(get("/").as_bytes()).expect("room");
    server.settle();
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an ordinary end");
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
    assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
    let sentence = "This port expects HTTPS; use https:// instead of http://.";
    assert!(text.trim_end().ends_with(sentence), "{text}");
    drop(socket);
    server.pass_until(|server| server.is_empty());
    let line = format!("refused 1 request with 400: {sentence}");
    assert_eq!(server.worker.app.refusals, [line]);
    assert!(server.targets().is_empty() && server.worker.held_bytes() == 0);
}

#[test]
fn tls_on_a_plain_port_is_refused_and_reported() {
    let mut server = Server::new();
    let mut client = server.connect();
    let mut tls = TlsClient::new();
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let (ours, theirs): (OwnedFd, OwnedFd) = (ours.into(), theirs.into());
    rustix::io::ioctl_fionbio(&ours, true).expect("a socket");
    server.adopt(theirs);
    tls.push(&ours);
    server.pass_until(|_| {
        tls.pull(&ours);
        tls.end.is_some()
    });
    assert!(matches!(tls.end, Some(End::Failed(_))));
    server.pass();
    let line = "refused 1 connection with TLS on a port without it (see --certificate)";
    assert_eq!(server.worker.app.refusals, [line]);
    // A client that starts with the same byte by accident gets the response that others get.
    client.send("\u{16}GET / HTTP/1.1\r\n\r\n");
    let response = server.response(&mut client);
    assert_eq!((response.status, response.is_last()), (400, true));
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.timeouts.tls_handshake_timeout_ms = 5000;
    });
    let silent = raw_client(&mut server);
    let mut slow = Client::connect(&mut server);
    slow.tls.push(&slow.socket);
    server.settle();
    now_ms.fetch_add(4900, Ordering::Relaxed);
    server.settle();
    let mut ready = Client::ready(&mut server);
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 3);
    now_ms.fetch_add(200, Ordering::Relaxed);
    server.settle();
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 1);
    slow.tls.pull(&slow.socket);
    assert_eq!(slow.tls.end, Some(End::Silent));
    ready.send(&get("/a"));
    ready.expect(&mut server, "/a");
    drop(silent);
    let line = "2 TLS handshakes failed, the last: a local client: it took longer than tls_handshake_timeout_ms (5000)";
    assert_eq!(server.worker.app.refusals, [line]);
}

/// Whether the server has responded to what a client sent.
fn has_response(client: &mut Client) -> bool {
    client.tls.pull(&client.socket)
}

#[test]
fn a_client_that_is_served_waits_for_a_few_handshakes_only() {
    let mut server = Server::new();
    let mut ready = Client::ready(&mut server);
    let mut storm: Vec<Client> = (0..100).map(|_| Client::connect(&mut server)).collect();
    for client in &mut storm {
        client.tls.push(&client.socket);
    }
    server.pass();
    ready.send(&get("/a"));
    server.pass();
    ready.tls.pull(&ready.socket);
    assert!(ready.text().ends_with("/a"));
    let responses = storm.iter_mut().map(has_response);
    let responses = responses.filter(|is_any| *is_any).count();
    assert!((1..=8).contains(&responses), "{responses}");
    for client in &mut storm {
        client.shake_hands(&mut server);
    }
}

/// A handshake that fails has a place among a limited number no longer, so what it holds must be gone too.
#[test]
fn a_failed_session_holds_nothing_while_its_connection_lingers() {
    let mut server = Server::new();
    let mut client = Client::connect(&mut server);
    client.tls.push(&client.socket);
    server.settle();
    assert!(server.worker.held_bytes() > 4000);
    let socket = client.socket.try_clone().expect("a descriptor");
    let content = [23, 3, 3, 0, 1, 0];
    UnixStream::from(socket).write_all(&content).expect("room");
    server.settle();
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 1);
    let held_bytes = server.worker.held_bytes();
    assert!(held_bytes < 500, "{held_bytes}");
    assert!(matches!(client.expect_end(&mut server), End::Failed(_)));
}

#[test]
fn connections_over_the_limit_are_closed() {
    let mut server = Server::with(|config| config.limits.connections_max = 1);
    let mut first = Client::ready(&mut server);
    let mut surplus = Client::connect(&mut server);
    surplus.tls.pull(&surplus.socket);
    assert_eq!(surplus.tls.end, Some(End::Silent));
    server.pass();
    let line = "refused 1 connection: connections_max (1) are open";
    assert_eq!(server.worker.app.refusals, [line]);
    first.send(&get("/a"));
    first.expect(&mut server, "/a");
}
