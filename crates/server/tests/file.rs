//! Responses with parts of files.

mod harness;

use std::fs::File;
use std::io::Write as _;

use harness::{Client, PATIENCE, Server, get, post, response};
use rustix::fs::MemfdFlags;
use server::{Abort, Command, ExchangeId, FilePart, Response};

/// More than the buffers of a connection hold.
const BIG_BYTES: u64 = 24 << 20;

/// Far more than this process may hold, and more than a 32-bit count.
const HUGE_BYTES: u64 = (1 << 32) + 1;

/// A file on no disk, named like the test so that [`is_open`] finds it.
fn file(name: &str, content: &[u8]) -> File {
    let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).expect("a file in memory");
    let mut file = File::from(memory);
    file.write_all(content).expect("free memory");
    file
}

fn part(name: &str, content: &[u8]) -> FilePart {
    FilePart {
        file: file(name, content).into(),
        offset: 0,
        length: content.len() as u64,
    }
}

fn big(name: &str) -> FilePart {
    hollow(name, BIG_BYTES)
}

/// A file of zero bytes that occupies no memory.
fn hollow(name: &str, length: u64) -> FilePart {
    let file = file(name, b"");
    file.set_len(length).expect("a file of this length");
    FilePart {
        file: file.into(),
        offset: 0,
        length,
    }
}

/// Bytes of private memory of this process.
fn held_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system reports it");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// Whether this process has a file of that name open.
fn is_open(name: &str) -> bool {
    let link = format!("/memfd:{name} (deleted)");
    std::fs::read_dir("/proc/self/fd")
        .expect("the system reports it")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|target| target.as_os_str() == link.as_str())
}

fn head(length: Option<u64>) -> Command {
    Command::Begin(Response {
        length,
        ..response(200, "")
    })
}

/// Requests `/push` and starts its response.
fn begin(server: &mut Server, client: &Client, length: Option<u64>) -> ExchangeId {
    client.send(&get("/push"));
    server.settle();
    let id = server.exchange("/push");
    server.post(id, head(length));
    id
}

/// Receives until `bytes` have arrived; returns the total.
fn drain(server: &mut Server, client: &mut Client, bytes: u64) -> u64 {
    let mut received = 0;
    server.pass_until(|_| {
        client.receive();
        received += client.rest_bytes();
        client.forget();
        received >= bytes
    });
    received
}

/// Everything after the head, without the lines that change with the date.
fn content_of(rest: &str) -> &str {
    let (head, content) = rest.split_once("\r\n\r\n").expect("a whole head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    content
}

#[test]
fn a_part_of_a_file_is_sent_between_bytes_and_the_next_response_follows() {
    for by_tcp in [false, true] {
        let mut server = Server::new();
        let mut client = match by_tcp {
            true => server.connect_by_tcp(),
            false => server.connect(),
        };
        let id = begin(&mut server, &client, Some(14));
        let part = FilePart {
            offset: 3,
            length: 5,
            ..part("between", b"xxxIt is so.")
        };
        server.post(id, Command::Write(b"before ".into()));
        server.post(id, Command::WriteFile(part));
        server.post(id, Command::Write(b"so".into()));
        server.post(id, Command::Finish);
        client.send(&get("/next"));
        let response = server.response(&mut client);
        assert_eq!(response.get("content-length"), Some("14"));
        assert_eq!(response.content, "before It isso");
        assert_eq!(server.response(&mut client).content, "/next");
        assert_eq!(server.abort_of("/push"), None);
    }
    assert!(!is_open("between"));
}

#[test]
fn a_part_of_a_file_is_one_chunk() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    let id = begin(&mut server, &client, None);
    server.post(id, Command::Write(b"one".into()));
    server.post(id, Command::WriteFile(part("chunk", &[b'f'; 26])));
    server.post(id, Command::WriteFile(part("chunk", b"")));
    server.post(id, Command::WriteFile(part("chunk", b"g")));
    server.post(id, Command::Write(b"two".into()));
    server.post(id, Command::Finish);
    server.settle();
    client.receive();
    let chunks = format!(
        "3\r\none\r\n1a\r\n{}\r\n1\r\ng\r\n3\r\ntwo\r\n0\r\n\r\n",
        "f".repeat(26)
    );
    assert_eq!(content_of(&client.rest()), chunks);
    assert!(!is_open("chunk"));
}

#[test]
fn files_are_sent_in_the_order_of_the_requests() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    client.send(&(get("/push/1") + &get("/push/2") + &get("/text") + &get("/push/3")));
    server.settle();
    for number in ["3", "2", "1"] {
        let id = server.exchange(&format!("/push/{number}"));
        let part = part("order", format!("file {number}").as_bytes());
        server.post(id, head(Some(part.length)));
        server.post(id, Command::WriteFile(part));
        server.post(id, Command::Finish);
        server.settle();
        assert_eq!(client.is_quiet(), number != "1", "a file overtook another");
    }
    for content in ["file 1", "file 2", "/text", "file 3"] {
        assert_eq!(server.response(&mut client).content, content);
    }
    assert!(!is_open("order"));
}

#[test]
fn a_call_that_posts_a_file_is_served_in_the_same_pass() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    for content in ["first", "second"] {
        server.worker.app.files = vec![part("call", content.as_bytes())];
        client.send(&get("/file"));
        server.pass_within(PATIENCE.as_millis() as u64);
        let response = client.take_response("GET").expect("it is there at once");
        assert_eq!(response.content, content);
    }
    assert!(!is_open("call"));
}

#[test]
fn what_a_call_posts_is_executed_though_no_socket_caused_the_call() {
    let mut server = Server::new();
    server.worker.app.pull_bytes = 1000;
    server.worker.app.files = vec![part("uncaused", b"file")];
    let mut client = server.connect_by_tcp();
    // A stream of more than one turn. The call after it is made in its last turn, which only the turn before has caused.
    client.send(&(get("/pull/140") + &post("/file", "x")));
    while server.targets().len() < 2 {
        server.pass();
        client.receive();
    }
    for content_bytes in [140_000, 4] {
        let response = client.take_response("GET").expect("it is there");
        assert_eq!(response.content.len(), content_bytes);
    }
}

#[test]
fn a_response_without_content_closes_its_files_unsent() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&(get("/push").replace("GET", method) + &get("/next")));
        server.settle();
        let id = server.exchange("/push");
        let part = part("without", b"content");
        let begin = Response {
            length: Some(7),
            ..response(status, "")
        };
        server.post(id, Command::Begin(begin));
        server.post(id, Command::WriteFile(part));
        server.post(id, Command::Finish);
        let response = server.response_to(&mut client, method);
        let length = (status != 204).then_some("7");
        assert_eq!(
            (response.status, response.get("content-length")),
            (status, length)
        );
        assert_eq!(server.response(&mut client).content, "/next");
        assert!(!is_open("without"));
    }
}

#[test]
fn no_more_of_a_file_is_sent_than_announced() {
    let mut server = Server::new();
    let mut client = server.connect();
    let id = begin(&mut server, &client, Some(5));
    for content in ["file", "s too", " many"] {
        server.post(id, Command::WriteFile(part("more", content.as_bytes())));
    }
    server.post(id, Command::Finish);
    assert_eq!(server.response(&mut client).content, "files");
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    assert!(!is_open("more"));
}

#[test]
fn a_file_to_http_1_0_ends_with_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    client.send("GET /push HTTP/1.0\r\n\r\n");
    server.settle();
    let id = server.exchange("/push");
    server.post(id, head(None));
    server.post(id, Command::WriteFile(part("old", b"old")));
    server.post(id, Command::Finish);
    assert_eq!(server.response(&mut client).content, "old");
    server.expect_end(&mut client);
    assert!(server.is_empty());
}

#[test]
fn a_file_that_is_shorter_than_announced_truncates_the_connection() {
    for (length, ended, shown) in [
        (Some(20), false, "four"),
        (Some(20), true, "four"),
        (None, true, "a\r\nfour"),
    ] {
        let mut server = Server::new();
        let mut client = server.connect_by_tcp();
        client.send(&(get("/push") + &get("/later")));
        server.settle();
        let id = server.exchange("/push");
        server.post(id, head(length));
        let part = FilePart {
            length: 10,
            ..part("short", b"four")
        };
        server.post(id, Command::WriteFile(part));
        server.post(id, Command::Write(b"0123456789".into()));
        if ended {
            server.post(id, Command::Finish);
        }
        server.pass_until(|_| client.is_ended());
        assert_eq!(content_of(&client.rest()), shown);
        assert_eq!(server.worker.app.short_files, [(id, 6)]);
        let gone = Some(Abort::Disconnected);
        assert_eq!(server.abort_of("/push"), gone.filter(|_| !ended));
        assert_eq!(server.abort_of("/later"), gone);
        assert!(!is_open("short"));
    }
}

#[test]
fn a_short_file_to_http_1_0_resets_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    client.send("GET /push HTTP/1.0\r\n\r\n");
    server.settle();
    let id = server.exchange("/push");
    server.post(id, head(None));
    let part = FilePart {
        length: 10,
        ..part("reset by us", b"four")
    };
    server.post(id, Command::WriteFile(part));
    server.post(id, Command::Finish);
    server.pass_until(|_| client.is_ended());
    assert!(client.was_reset);
    assert!(!is_open("reset by us"));
}

#[test]
fn what_precedes_an_empty_file_is_sent_at_once() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    client.send("GET /push HTTP/1.0\r\n\r\n");
    server.settle();
    let id = server.exchange("/push");
    server.post(id, head(None));
    let part = FilePart {
        length: 1,
        ..part("empty", b"")
    };
    server.post(id, Command::WriteFile(part));
    server.settle();
    client.receive();
    // Otherwise the kernel would delay the head by 200 ms, since more was announced.
    assert!(client.rest().ends_with("\r\n\r\n"));
    server.pass_until(|_| client.is_ended());
    assert!(client.was_reset);
}

#[test]
fn a_file_that_cannot_be_read_truncates_the_connection() {
    let (_, writer) = std::io::pipe().expect("a pipe");
    let mut server = Server::new();
    let mut client = server.connect();
    let id = begin(&mut server, &client, Some(4));
    let part = FilePart {
        file: File::from(std::os::fd::OwnedFd::from(writer)).into(),
        offset: 0,
        length: 4,
    };
    server.post(id, Command::WriteFile(part));
    server.post(id, Command::Finish);
    server.pass_until(|_| client.is_ended());
    assert_eq!(content_of(&client.rest()), "");
    assert_eq!(server.worker.app.short_files, [(id, 4)]);
}

#[test]
fn a_file_that_sendfile_does_not_send_is_read() {
    // This process's name is one of few files that can only be read.
    let path = "/proc/self/cmdline";
    let content = std::fs::read(path).expect("it can be read");
    let mut server = Server::new();
    let mut client = server.connect();
    let id = begin(&mut server, &client, Some(content.len() as u64));
    let part = FilePart {
        file: File::open(path).expect("it can be opened").into(),
        offset: 0,
        length: content.len() as u64,
    };
    server.post(id, Command::WriteFile(part));
    server.post(id, Command::Finish);
    let response = server.response(&mut client);
    assert_eq!(response.content.as_bytes(), content);
}

#[test]
fn a_big_file_arrives_whole_and_its_writer_is_notified_once() {
    let content: Vec<u8> = (0..5_000_011_u32)
        .map(|number| number as u8 % 127)
        .collect();
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    let id = begin(&mut server, &client, Some(content.len() as u64));
    server.post(id, Command::WriteFile(part("whole", &content)));
    let response = server.response(&mut client);
    assert_eq!(response.content.as_bytes(), content);
    server.settle();
    assert_eq!(server.worker.app.writables, [id]);
    server.post(id, Command::Finish);
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}

#[test]
fn a_client_that_does_not_read_makes_a_file_wait_and_is_given_up() {
    let mut server = Server::with(|config| config.timeouts.write_timeout_ms = 300);
    let client = server.connect_by_tcp();
    let id = begin(&mut server, &client, Some(HUGE_BYTES));
    let before_bytes = held_bytes();
    server.post(id, Command::WriteFile(hollow("stalled", HUGE_BYTES)));
    server.pass_until(|server| server.worker.before_wait() != Some(0));
    assert!(is_open("stalled"));
    // Other tests use memory too.
    let more_bytes = held_bytes().saturating_sub(before_bytes);
    assert!(more_bytes < 200 << 20, "{more_bytes} bytes more are held");
    assert!(server.worker.app.writables.is_empty());
    // It does not spin meanwhile.
    let mut passes = 0;
    server.pass_until(|server| {
        passes += 1;
        server.is_empty()
    });
    assert!(passes < 100, "{passes} passes");
    assert_eq!(server.abort_of("/push"), Some(Abort::Disconnected));
    assert!(!is_open("stalled"));
    drop(client);
}

#[test]
fn a_client_that_keeps_reading_a_file_is_not_given_up() {
    let mut server = Server::with(|config| config.timeouts.write_timeout_ms = 400);
    let mut client = server.connect_by_tcp();
    let id = begin(&mut server, &client, Some(BIG_BYTES));
    server.post(id, Command::WriteFile(big("read")));
    server.post(id, Command::Finish);
    assert!(drain(&mut server, &mut client, BIG_BYTES) > BIG_BYTES);
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    assert_eq!(server.abort_of("/push"), None);
}

#[test]
fn a_client_that_resets_in_the_middle_closes_the_file() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    client.send(&(get("/push") + &get("/push/next")));
    server.settle();
    for (target, name) in [("/push", "middle"), ("/push/next", "next")] {
        let id = server.exchange(target);
        server.post(id, head(Some(BIG_BYTES)));
        server.post(id, Command::WriteFile(big(name)));
    }
    drain(&mut server, &mut client, 1 << 20);
    assert!(is_open("middle") && is_open("next"));
    client.reset();
    server.pass_until(|server| server.is_empty());
    assert!(!is_open("middle") && !is_open("next"));
    let gone = Some(Abort::Disconnected);
    assert_eq!(server.abort_of("/push"), gone);
    assert_eq!(server.abort_of("/push/next"), gone);
}

#[test]
fn a_handler_that_fails_after_a_file_does_not_wait_for_it() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    let id = begin(&mut server, &client, Some(BIG_BYTES));
    server.post(id, Command::WriteFile(big("failed")));
    server.pass_until(|server| server.worker.before_wait() != Some(0));
    server.post(id, Command::Fail);
    server.settle();
    assert!(!is_open("failed"));
    let mut received = 0;
    server.pass_until(|_| {
        let is_ended = client.is_ended();
        received += client.rest_bytes();
        client.forget();
        is_ended
    });
    assert!(received < BIG_BYTES, "{received}");
}

#[test]
fn a_stop_in_the_middle_closes_the_file() {
    let mut server = Server::new();
    let client = server.connect_by_tcp();
    let id = begin(&mut server, &client, Some(BIG_BYTES));
    server.post(id, Command::WriteFile(big("stopped")));
    server.settle();
    assert!(is_open("stopped"));
    server.worker.stop();
    assert!(!is_open("stopped"));
    drop(client);
}

#[test]
fn a_file_that_its_client_reads_at_once_leaves_others_their_turn() {
    let mut server = Server::new();
    let mut reading = server.connect_by_tcp();
    let id = begin(&mut server, &reading, Some(BIG_BYTES));
    server.post(id, Command::WriteFile(big("turn")));
    server.post(id, Command::Finish);
    let mut other = server.connect();
    let mut passes = 0;
    let mut received = 0;
    while received < BIG_BYTES {
        assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
        reading.receive();
        received += reading.rest_bytes();
        reading.forget();
        passes += 1;
    }
    // At most one turn of 1 MiB before each wait, one after it, and the first.
    assert!(passes > 10, "{passes} passes");
}

#[test]
fn no_request_starts_while_one_before_it_waits_with_a_file() {
    let mut server = Server::new();
    let mut client = server.connect();
    let requests = 9;
    for _ in 0..requests {
        server.worker.app.files.push(big("pipelined"));
    }
    client.send(&get("/file").repeat(requests));
    server.settle();
    // How long the responses are is not known before the first ones.
    let first = server.worker.app.called.len();
    assert!(first <= 4, "{first} files are open");
    drain(&mut server, &mut client, 3 * BIG_BYTES);
    let later = server.worker.app.called.len();
    assert!(later <= first + 3, "{later} after {first}");
    drain(&mut server, &mut client, (requests as u64 - 3) * BIG_BYTES);
    assert_eq!(server.worker.app.called.len(), requests);
    assert!(!is_open("pipelined"));
}
