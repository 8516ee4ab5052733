//! Incoming content: whole, in parts, too long, late, unwanted.

mod harness;

use harness::{Server, get, post, post_chunked, response};
use server::{Abort, Command};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

fn expecting(target: &str, length: usize) -> String {
    let fields = format!("Expect: 100-continue\r\nContent-Length: {length}");
    format!("POST {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n")
}

#[test]
fn content_is_whole_however_it_arrives() {
    let chunked = post_chunked("/read") + "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nA: b\r\n\r\n";
    let known = post("/read", "abcdefg");
    let next = get("/next");
    for request in [known, chunked] {
        for cut in 0..request.len() {
            let mut server = Server::new();
            let mut client = server.connect();
            let (first, second) = request.split_at(cut);
            client.send(first);
            server.settle();
            client.send(&(second.to_string() + &next));
            assert_eq!(
                server.response(&mut client).content,
                "abcdefg",
                "cut at {cut}"
            );
            assert_eq!(
                server.response(&mut client).content,
                "/next",
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn content_that_has_arrived_is_passed_with_the_call() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(post("/read", "all") + &post("/later", "here")));
    server.settle();
    let seen: Vec<_> = server
        .worker
        .app
        .called
        .iter()
        .map(|each| each.content.as_deref())
        .collect();
    assert_eq!(seen, [Some("all"), Some("here")]);
    server.respond(server.exchange("/later"), "");
    server.response(&mut client);
    server.response(&mut client);
}

#[test]
fn a_handler_reads_in_parts() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&post_chunked("/parts"));
    server.settle();
    for part in ["3\r\nabc\r\n", "2\r\nde\r\n1\r\nf\r\n"] {
        client.send(part);
        server.settle();
    }
    let id = server.exchange("/parts");
    assert_eq!(server.worker.app.content_of(id), ("abcdef".into(), false));
    client.send(&("0\r\n\r\n".to_string() + &get("/next")));
    server.settle();
    assert_eq!(server.worker.app.content_of(id), ("abcdef".into(), true));
    server.respond(id, "read");
    assert_eq!(server.response(&mut client).content, "read");
    assert_eq!(server.response(&mut client).content, "/next");
}

#[test]
fn content_that_is_read_as_a_whole_is_one_part() {
    let chunked = post_chunked("/whole") + "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n";
    let long = "x".repeat(500_000);
    for (request, content) in [
        (post("/whole", "abcdefg"), "abcdefg"),
        (chunked, "abcdefg"),
        (post("/whole", &long), long.as_str()),
    ] {
        let head_bytes = request.find("\r\n\r\n").expect("a head") + 4;
        for sent in [0, 1, (request.len() - head_bytes) / 2] {
            let mut server = Server::new();
            let mut client = server.connect();
            let (first, second) = request.split_at(head_bytes + sent);
            for part in first.as_bytes().chunks(50_000) {
                client.send(&String::from_utf8_lossy(part));
                server.settle();
            }
            assert_eq!(server.worker.app.contents, []);
            for part in second.as_bytes().chunks(50_000) {
                client.send(&String::from_utf8_lossy(part));
                server.settle();
            }
            let id = server.exchange("/whole");
            assert!(server.worker.app.contents == [(id, content.to_string(), true)]);
            server.respond(id, "thanks");
            assert_eq!(server.response(&mut client).content, "thanks");
            assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
        }
    }
}

#[test]
fn a_reader_of_the_whole_may_read_in_parts_again() {
    let mut server = Server::new();
    server.worker.app.reads_on = false;
    let mut client = server.connect();
    client.send(&(post_chunked("/parts") + "5\r\nfirst\r\n"));
    server.settle();
    let id = server.exchange("/parts");
    server.post(id, Command::ReadWhole);
    for part in ["2\r\n, \r\n", "6\r\nsecond\r\n"] {
        client.send(part);
        server.settle();
    }
    let mut parts = vec![(id, "first".into(), false)];
    assert_eq!(server.worker.app.contents, parts);
    server.post(id, Command::Read);
    server.settle();
    parts.push((id, ", second".into(), false));
    assert_eq!(server.worker.app.contents, parts);
    server.post(id, Command::ReadWhole);
    client.send("5\r\n, end\r\n0\r\n\r\n");
    server.settle();
    parts.push((id, ", end".into(), true));
    assert_eq!(server.worker.app.contents, parts);
    server.respond(id, "");
    assert_eq!(server.response(&mut client).status, 200);
}

#[test]
fn content_is_whole_whenever_its_handler_starts_to_read() {
    for size in [HELD - 1, HELD, HELD + 1, 2 * HELD, 100 * HELD] {
        for (is_chunked, ends) in [(false, false), (false, true), (true, false), (true, true)] {
            expect_whole(size, is_chunked, ends);
        }
    }
}

/// Bytes held for a handler that does not read.
const HELD: usize = 1000;

fn expect_whole(size: usize, is_chunked: bool, ends: bool) {
    let mut server = Server::with(|config| config.limits.content_buffer_bytes_max = HELD as u64);
    server.worker.app.reads_on = false;
    let mut client = server.connect();
    let content = "c".repeat(size);
    let (head, framed) = match is_chunked {
        true => (
            post_chunked("/later"),
            format!("{size:x}\r\n{content}\r\n0\r\n\r\n"),
        ),
        false => (post("/later", &content).replace(&content, ""), content),
    };
    client.send(&head);
    server.settle();
    client.send(&framed);
    if ends {
        client.end();
    }
    server.settle();
    let id = server.exchange("/later");
    while !server.worker.app.content_of(id).1 {
        server.post(id, Command::Read);
        let before = server.worker.app.contents.len();
        server.pass_until(|server| server.worker.app.contents.len() > before);
    }
    assert_eq!(server.worker.app.content_of(id).0.len(), size);
    server.respond(id, "read");
    assert_eq!(server.response(&mut client).content, "read");
}

#[test]
fn a_handler_that_does_not_read_stops_its_peer() {
    let mut server = Server::with(|config| config.limits.content_buffer_bytes_max = 10_000);
    let mut client = server.connect();
    client.send(&post_chunked("/parts/slow"));
    server.worker.app.reads_on = false;
    let chunk = "400\r\n".to_string() + &"c".repeat(1024) + "\r\n";
    let mut chunks = 0;
    loop {
        let sent = client.send_some(chunk.as_bytes());
        server.settle();
        if sent == 0 {
            break;
        }
        assert_eq!(
            sent,
            chunk.len(),
            "a pair of sockets accepts all of this little or nothing"
        );
        chunks += 1;
        assert!(chunks < 5000, "the server keeps reading");
    }
    // The handler continues, and the peer with it.
    let id = server.exchange("/parts/slow");
    server.worker.app.reads_on = true;
    server.post(id, Command::Read);
    server.pass_until(|_| client.send_some(b"0\r\n\r\n") == 5);
    server.pass_until(|server| server.worker.app.content_of(id).1);
    assert_eq!(server.worker.app.content_of(id).0.len(), chunks * 1024);
    server.respond(id, "read");
    assert_eq!(server.response(&mut client).content, "read");
}

#[test]
fn a_continue_is_sent_when_the_application_first_reads() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&expecting("/later/reads", 3));
    server.settle();
    assert!(client.is_quiet(), "nothing has been read yet");
    let id = server.exchange("/later/reads");
    server.post(id, Command::Read);
    server.settle();
    client.receive();
    assert_eq!(client.rest(), CONTINUE);
    server.post(id, Command::Read);
    client.send("abc");
    server.settle();
    assert_eq!(client.rest(), CONTINUE, "one is enough");
    assert_eq!(server.worker.app.content_of(id), ("abc".into(), true));
    server.respond(id, "read");
    let response = server.response(&mut client);
    assert_eq!((response.is_last(), response.interim), (false, vec![100]));

    client.send(&expecting("/read", 3));
    server.settle();
    client.receive();
    assert_eq!(client.rest(), CONTINUE);
    client.send("abc");
    assert_eq!(server.response(&mut client).content, "abc");
}

#[test]
fn no_continue_is_sent_to_a_client_that_did_not_wait() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(expecting("/read", 3) + "abc"));
    assert_eq!(server.response(&mut client).interim, []);
    client.send(&(expecting("/later", 3) + "ab"));
    server.settle();
    server.post(server.exchange("/later"), Command::Read);
    server.settle();
    assert!(client.is_quiet());
    let mut client = server.connect();
    client.send(&(expecting("/read", 3) + "ab"));
    server.settle();
    assert!(client.is_quiet());
    client.send("c");
    assert_eq!(server.response(&mut client).content, "abc");
}

#[test]
fn no_continue_is_inserted_into_a_response_that_has_started() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&expecting("/push", 3));
    server.settle();
    let id = server.exchange("/push");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(b"part".into()));
    server.post(id, Command::Read);
    server.settle();
    client.send("abc");
    server.settle();
    server.post(id, Command::Finish);
    let response = server.response(&mut client);
    assert_eq!(response.content, "part");
    assert!(response.interim.is_empty() && response.is_last());
    server.expect_end(&mut client);
}

#[test]
fn an_early_response_to_a_client_that_waits_to_send_ends_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&expecting("/early", 3));
    let response = server.response(&mut client);
    assert!(response.is_last() && response.interim.is_empty());
    // The client may send it nevertheless (RFC 9110 section 10.1.1): it is not a request.
    client.send(&get("/hidden"));
    server.expect_end(&mut client);
    assert_eq!(server.targets(), ["/early"]);
}

#[test]
fn short_unread_content_is_discarded_and_the_connection_continues() {
    let mut server = Server::new();
    let mut client = server.connect();
    let length = 60_000;
    for target in ["/early", "/pull/2", "/later"] {
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        client.send(&head);
        server.settle();
        if target == "/later" {
            server.respond(server.exchange(target), "");
        }
        assert!(!server.response(&mut client).is_last());
        let hidden = "GET /hidden HTTP/1.1\r\n".repeat(50);
        for _ in 0..60 {
            client.send(hidden.get(..1000).unwrap());
            server.settle();
        }
        assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    }
    assert!(!server.targets().contains(&"/hidden"));
}

#[test]
fn long_unread_content_ends_the_connection_without_a_reset() {
    let long = "POST /early HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n".to_string();
    let later = long.replace("/early", "/later");
    for request in [long, later, post_chunked("/early"), post_chunked("/later")] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&(request.clone() + "3\r\nabc\r\n"));
        server.settle();
        if request.contains("/later") {
            server.respond(server.exchange("/later"), "");
        }
        client.send("3\r\nabc\r\n0\r\n\r\n");
        client.send(&get("/hidden"));
        assert!(server.response(&mut client).is_last());
        server.expect_end(&mut client);
        assert_eq!(server.targets().len(), 1);
        drop(client);
        server.pass_until(|server| server.is_empty());
    }
}

#[test]
fn content_announced_as_too_long_is_refused_at_once() {
    let mut server = Server::with(|config| config.limits.body_bytes_max = 1000);
    for method in ["POST", "HEAD"] {
        let mut client = server.connect();
        let head = format!("{method} /read HTTP/1.1\r\nHost: test\r\nContent-Length: 1001\r\n\r\n");
        client.send(&head);
        let response = server.response_to(&mut client, method);
        assert_eq!((response.status, response.is_last()), (413, true));
        server.expect_end(&mut client);
    }
    assert!(server.targets().is_empty());
}

#[test]
fn chunked_content_is_refused_when_it_exceeds_the_limit() {
    for target in ["/read", "/parts", "/later"] {
        let mut server = Server::with(|config| config.limits.body_bytes_max = 1000);
        let mut client = server.connect();
        client.send(&(post_chunked(target) + "3e8\r\n" + &"c".repeat(1000)));
        server.settle();
        assert!(client.is_quiet());
        client.send("\r\n1\r\n");
        server.settle();
        assert!(client.is_quiet());
        client.send("c");
        let response = server.response(&mut client);
        assert_eq!((response.status, response.is_last()), (413, true));
        server.expect_end(&mut client);
        let expected = (target != "/read").then_some(Abort::Refused);
        assert_eq!(server.abort_of(target), expected);
    }
}

#[test]
fn malformed_content_is_refused_or_truncates_a_response_that_has_started() {
    for begins in [false, true] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&post_chunked("/parts"));
        server.settle();
        let id = server.exchange("/parts");
        if begins {
            server.post(id, Command::Begin(response(200, "")));
        }
        client.send("1\r\nabc");
        server.pass_until(|_| client.is_ended());
        assert!(!client.was_reset);
        let status = client.take_response("GET").map(|response| response.status);
        assert_eq!(status, (!begins).then_some(400));
        assert_eq!(server.abort_of("/parts"), Some(Abort::Refused));
    }
}

#[test]
fn truncated_content_ends_its_exchange_only() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/before") + &post_chunked("/parts") + "5\r\nab"));
    client.end();
    assert_eq!(server.response(&mut client).content, "/before");
    server.expect_end(&mut client);
    assert_eq!(server.abort_of("/parts"), Some(Abort::Disconnected));
    assert!(server.is_empty());
}

#[test]
fn an_early_response_reaches_a_client_that_ends_inside_its_content() {
    let mut server = Server::new();
    let mut client = server.connect();
    // More than the socket accepts at once: the end of input is read while most of the response waits.
    client.send("POST /big/2000000 HTTP/1.1\r\nHost: test\r\nContent-Length: 50\r\n\r\nabc");
    client.end();
    server.settle();
    assert_eq!(server.response(&mut client).content.len(), 2_000_000);
    server.expect_end(&mut client);
}

#[test]
fn one_byte_chunks_cost_linear_time_and_bounded_memory() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&post_chunked("/parts"));
    server.settle();
    let (count, batch) = (1_000_000_usize, "1\r\nx\r\n".repeat(5000));
    let mut waiting = batch.as_bytes();
    let mut sent = 0;
    while sent < count * 6 {
        let taken = client.send_some(waiting);
        sent += taken;
        waiting = waiting.get(taken..).unwrap_or_default();
        if waiting.is_empty() {
            waiting = batch.as_bytes();
        }
        server.pass();
        // Content is checked by its length alone, so that the test holds no more than the server.
        server.worker.app.forget_contents();
    }
    client.send("0\r\n\r\n");
    let id = server.exchange("/parts");
    server.pass_until(|server| server.worker.app.content_of(id).1);
    assert_eq!(
        server.worker.app.forgotten_bytes + server.worker.app.content_of(id).0.len(),
        count
    );
}

#[test]
fn content_for_which_the_application_has_no_memory_is_refused() {
    let mut server = Server::new();
    server.worker.app.has_no_memory = true;
    let mut client = server.connect();
    client.send(&(post_chunked("/parts") + "3\r\nabc\r\n"));
    let refused = server.response(&mut client);
    assert_eq!((refused.status, refused.is_last()), (503, true));
    let id = server.exchange("/parts");
    assert_eq!(server.worker.app.aborted, [(id, Abort::Refused)]);
    server.expect_end(&mut client);
    server.pass();
    assert_eq!(
        server.worker.app.shortages,
        [
            "no memory for 3 bytes of a connection, a request or its response, which was closed, got 503 or was truncated"
        ]
    );
    server.worker.app.has_no_memory = false;
    let mut other = server.connect();
    other.send(&(post_chunked("/parts") + "3\r\nabc\r\n0\r\n\r\n"));
    server.settle();
    server.respond(server.exchange("/parts"), "read");
    assert_eq!(server.response(&mut other).content, "read");
}
