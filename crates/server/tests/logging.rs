//! The access log: which exchanges it lists, and that it does not affect the batch.

mod harness;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use harness::h2::H2Client;
use harness::websocket::text;
use harness::{Server, get, post, post_chunked, response};
use server::{AccessLog, Command, Config, FilePart, LogFormat, Response, Selection};

/// A server with a log, and a function that returns the lines after dropping the server.
fn logging() -> (Server, impl FnOnce(Server) -> Vec<String>) {
    logging_with(false)
}

/// The same, for clients with prior knowledge of HTTP/2 too.
fn logging_with(accepts_h2: bool) -> (Server, impl FnOnce(Server) -> Vec<String>) {
    logging_of(move |config| config.accepts_prior_knowledge = accepts_h2)
}

/// The same, with other settings.
fn logging_of(set: impl FnOnce(&mut Config)) -> (Server, impl FnOnce(Server) -> Vec<String>) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let log = AccessLog::new(
        File::from(OwnedFd::from(writer)),
        LogFormat::combined(),
        Selection::default(),
    )
    .expect("a thread");
    let lines = move |server: Server| {
        drop(server);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("of this test");
        text.lines()
            .map(|line| line.split_once("] ").expect("of this test").1.to_string())
            .collect()
    };
    (
        Server::logging(
            |config| {
                config.limits.body_bytes_max = 1000;
                set(config);
            },
            Some(log),
        ),
        lines,
    )
}

#[test]
fn the_bytes_of_a_file_are_those_that_were_sent() {
    let (mut server, lines) = logging();
    let path = "/proc/self/cmdline";
    let bytes = std::fs::read(path).expect("it can be read").len() as u64;
    for missing_bytes in [0, 5] {
        let mut client = server.connect();
        client.send(&get("/push"));
        server.settle();
        let id = server.exchange("/push");
        let length = bytes + missing_bytes;
        let head = Response {
            length: Some(length + 4),
            ..response(200, "")
        };
        server.post(id, Command::Begin(head));
        server.post(id, Command::Write(b"part".into()));
        let part = FilePart {
            file: File::open(path).expect("it can be opened").into(),
            offset: 0,
            length,
        };
        server.post(id, Command::WriteFile(part));
        server.post(id, Command::Finish);
        server.settle();
        assert_eq!(client.is_ended(), missing_bytes > 0);
    }
    let line = format!("\"GET /push HTTP/1.1\" 200 {} \"-\" \"-\"", bytes + 4);
    assert_eq!(lines(server), [line.as_str(), line.as_str()]);
}

/// A server that serves one request at a time, while one other waits.
fn logging_with_queue() -> (Server, impl FnOnce(Server) -> Vec<String>) {
    logging_of(|config| {
        config.admission.limits.concurrency_max = 1;
        config.limits.queue_max = 1;
    })
}

/// The only request that waits for a place gets one when that of `/later/1` ends.
fn expect_empty_queue(server: &mut Server) {
    let mut next = server.connect();
    next.send(&get("/next"));
    server.settle();
    assert!(next.is_quiet(), "{}", next.rest());
    server.worker.app.running.clear();
    assert_eq!(server.response(&mut next).content, "/next");
}

const ABANDONED: &str = "\"GET /waits HTTP/1.1\" 499 0 \"-\" \"-\"";

#[test]
fn a_request_that_waits_after_a_stream_that_fails_leaves_the_queue_and_has_its_line() {
    let (mut server, lines) = logging_with_queue();
    // It takes many turns until it fails.
    server.worker.app.pull_bytes = 0;
    let mut client = server.connect();
    client.send(&get("/pull/10000/cut"));
    server.pass();
    let other = server.connect();
    other.send(&get("/later/1"));
    server.pass();
    client.send(&get("/waits"));
    server.pass_until(|_| client.is_ended());
    assert_eq!(server.targets(), ["/pull/10000/cut", "/later/1"]);
    expect_empty_queue(&mut server);
    assert!(lines(server).contains(&ABANDONED.to_owned()));
}

#[test]
fn a_request_that_waits_after_a_response_that_fails_leaves_the_queue_and_has_its_line() {
    let (mut server, lines) = logging_with_queue();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/waits")));
    server.settle();
    let id = server.exchange("/later/1");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Fail);
    server.pass_until(|_| client.is_ended());
    assert_eq!(server.targets(), ["/later/1"]);
    expect_empty_queue(&mut server);
    assert!(lines(server).contains(&ABANDONED.to_owned()));
}

#[test]
fn every_response_has_its_line() {
    let (mut server, lines) = logging();
    let mut client = server.connect();
    client.send(&(get("/a") + &get("/later") + &get("/pull/2") + &get("/push")));
    server.settle();
    server.respond(server.exchange("/later"), "four");
    let pushed = server.exchange("/push");
    server.post(pushed, Command::Begin(response(201, "")));
    server.post(pushed, Command::Write(b"part".into()));
    server.post(pushed, Command::Finish);
    for _ in 0..4 {
        server.response(&mut client);
    }
    server.ask(&mut client, &post("/read", "x"));
    let named = "Host: test\r\nUser-Agent: me\r\nReferer: there\r\n\r\n";
    client.send(&format!("HEAD /named HTTP/1.1\r\n{named}"));
    server.response_to(&mut client, "HEAD");
    assert_eq!(
        lines(server),
        [
            "\"GET /a HTTP/1.1\" 200 2 \"-\" \"-\"",
            "\"GET /later HTTP/1.1\" 200 4 \"-\" \"-\"",
            "\"GET /pull/2 HTTP/1.1\" 200 10 \"-\" \"-\"",
            "\"GET /push HTTP/1.1\" 201 4 \"-\" \"-\"",
            "\"POST /read HTTP/1.1\" 200 1 \"-\" \"-\"",
            "\"HEAD /named HTTP/1.1\" 200 0 \"there\" \"me\"",
        ]
    );
}

#[test]
fn refusals_have_their_lines_too() {
    let (mut server, lines) = logging();
    let long = "POST /long HTTP/1.1\r\nHost: test\r\nContent-Length: 1001\r\n\r\n".to_string();
    let longer = post_chunked("/read") + "7d0\r\n" + &"c".repeat(2000);
    for request in ["nonsense\r\n\r\n".to_string(), long, longer] {
        let mut client = server.connect();
        server.ask(&mut client, &request);
    }
    let seen: Vec<String> = lines(server)
        .iter()
        .map(|line| line.split(" \"-\"").next().unwrap().to_string())
        .collect();
    let (malformed, long) = seen.split_first().unwrap();
    assert!(malformed.starts_with("\"-\" 400 "));
    assert!(
        long[0].starts_with("\"POST /long HTTP/1.1\" 413 "),
        "{long:?}"
    );
    assert!(
        long[1].starts_with("\"POST /read HTTP/1.1\" 413 "),
        "{long:?}"
    );
}

#[test]
fn a_client_that_disconnected_has_its_line() {
    let (mut server, lines) = logging();
    let client = server.connect();
    client.send(&(get("/later") + &get("/push")));
    server.settle();
    let begun = server.exchange("/push");
    server.post(begun, Command::Begin(response(201, "")));
    server.settle();
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert_eq!(
        lines(server),
        [
            "\"GET /later HTTP/1.1\" 499 0 \"-\" \"-\"",
            "\"GET /push HTTP/1.1\" 499 0 \"-\" \"-\"",
        ]
    );
}

#[test]
fn a_client_that_disconnected_inside_its_content_has_its_line() {
    let (mut server, lines) = logging();
    let client = server.connect();
    let request = post("/read", "content");
    client.send(&request[..request.len() - 1]);
    server.settle();
    drop(client);
    server.pass_until(|server| server.is_empty());
    assert_eq!(lines(server), ["\"POST /read HTTP/1.1\" 499 0 \"-\" \"-\""]);
}

#[test]
fn a_log_does_not_split_a_batch() {
    let (mut server, lines) = logging();
    let mut client = server.connect_by_packets();
    let batch = (get("/a") + &post("/read", "x")).repeat(20);
    client.send(&batch);
    for _ in 0..40 {
        server.response(&mut client);
    }
    assert_eq!(client.reads, 1);
    assert_eq!(lines(server).len(), 40);
}

#[test]
fn a_websocket_has_its_line_when_it_is_accepted() {
    let (mut server, lines) = logging_with(true);
    let mut over_h1 = server.open("/ws/echo");
    over_h1.send(&text("not counted"));
    assert_eq!(server.next_text(&mut over_h1), "not counted");
    let mut over_h2 = H2Client::new(server.connect());
    let stream = over_h2.connect("/ws/post", &[]);
    for _ in 0..2 {
        over_h2.send(usize::MAX);
        server.settle();
        over_h2.receive();
        over_h2.data(stream, &text("not counted"), false);
    }
    assert!(!over_h2.streams[&stream].content.is_empty());
    assert_eq!(
        lines(server),
        [
            r#""GET /ws/echo HTTP/1.1" 101 0 "-" "-""#,
            r#""GET /ws/post HTTP/2.0" 200 0 "-" "-""#,
        ]
    );
}
