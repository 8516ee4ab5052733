//! Persistence, pipelining and the order of responses (RFC 9112 section 9).

mod harness;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::{Client, Server, get, post, response};
use rustix::net::sockopt;
use server::{Abort, Command, Response};

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let mut server = Server::new();
    let mut client = server.connect();
    for target in ["/a", "/b", "/c"] {
        let response = server.ask(&mut client, &get(target));
        assert_eq!((response.status, response.content.as_str()), (200, target));
        assert!(!response.is_last());
    }
}

#[test]
fn the_responses_to_a_batch_of_pipelined_requests_are_one_send() {
    let mut server = Server::new();
    let mut client = server.connect_by_packets();
    let batch: String = (0..24).map(|number| get(&format!("/{number}"))).collect();
    client.send(&batch);
    for number in 0..24 {
        assert_eq!(server.response(&mut client).content, format!("/{number}"));
    }
    assert_eq!(client.reads, 1);
}

#[test]
fn later_responses_are_one_send_too() {
    let mut server = Server::new();
    let mut client = server.connect_by_packets();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/now") + &get("/later/3")));
    server.settle();
    assert!(client.is_quiet());
    for target in ["/later/3", "/later/1", "/later/2"] {
        server.respond(server.exchange(target), target);
    }
    for target in ["/later/1", "/later/2", "/now", "/later/3"] {
        assert_eq!(server.response(&mut client).content, target);
    }
    assert_eq!(client.reads, 1);
}

#[test]
fn responses_are_sent_in_the_order_of_the_requests() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/fast")));
    server.settle();
    assert_eq!(server.targets(), ["/later/1", "/later/2", "/fast"]);
    server.respond(server.exchange("/later/2"), "two");
    server.settle();
    assert!(client.is_quiet(), "a response overtook the first");
    server.respond(server.exchange("/later/1"), "one");
    for content in ["one", "two", "/fast"] {
        assert_eq!(server.response(&mut client).content, content);
    }
}

#[test]
fn an_unsafe_request_waits_for_the_responses_before_it() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later") + &post("/read", "x") + &get("/next")));
    server.settle();
    assert_eq!(server.targets(), ["/later"]);
    server.respond(server.exchange("/later"), "first");
    for content in ["first", "x", "/next"] {
        assert_eq!(server.response(&mut client).content, content);
    }
}

#[test]
fn nothing_is_started_after_a_pending_unsafe_request() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(post("/later", "x") + &get("/next")));
    server.settle();
    assert_eq!(server.targets(), ["/later"]);
    server.respond(server.exchange("/later"), "posted");
    assert_eq!(server.response(&mut client).content, "posted");
    assert_eq!(server.response(&mut client).content, "/next");
}

#[test]
fn a_safe_request_with_content_overtakes_nothing() {
    let mut server = Server::new();
    let mut client = server.connect();
    let with_content = post("/read", "x").replace("POST", "GET");
    client.send(&(get("/later") + &with_content));
    server.settle();
    assert_eq!(server.targets(), ["/later"]);
    server.respond(server.exchange("/later"), "");
    server.response(&mut client);
    assert_eq!(server.response(&mut client).content, "x");
}

#[test]
fn concurrent_pipelined_requests_are_bounded_and_then_reading_pauses() {
    let mut server = Server::with(|config| config.limits.pipelined_exchanges_max = 4);
    let mut client = server.connect();
    let requests: String = (0..10)
        .map(|number| get(&format!("/later/{number}")))
        .collect();
    client.send(&requests);
    server.settle();
    assert_eq!(server.targets().len(), 4);
    // Far more than the kernel's buffers hold: the server must stop reading it.
    let more = get("/more").repeat(1000);
    let mut sent = 0;
    while client.send_some(more.as_bytes()) > 0 {
        sent += 1;
        assert!(sent < 1000, "the server keeps reading");
        server.settle();
    }
    for number in 0..10 {
        server.respond(server.exchange(&format!("/later/{number}")), "");
        assert_eq!(server.response(&mut client).status, 200);
        assert!(
            server
                .targets()
                .iter()
                .filter(|target| target.starts_with("/later"))
                .count()
                <= number + 5
        );
    }
}

#[test]
fn more_requests_run_concurrently_as_responses_prove_short() {
    let mut server = Server::new();
    let mut client = server.connect_by_tcp();
    let requests: String = (0..40)
        .map(|number| get(&format!("/later/{number}")))
        .collect();
    client.send(&requests);
    let mut in_work = |server: &mut Server, responded: usize, length: usize| {
        let id = server.exchange(&format!("/later/{}", responded - 1));
        server.respond(id, &"x".repeat(length));
        let response = server.response(&mut client);
        assert_eq!((response.status, response.content.len()), (200, length));
        server.settle();
        server.targets().len() - responded
    };
    server.settle();
    assert_eq!(server.targets().len(), 4);
    assert_eq!(in_work(&mut server, 1, 16), 8);
    assert_eq!(in_work(&mut server, 2, 16), 16);
    assert_eq!(in_work(&mut server, 3, 16), 16);
    // One of 16 that would fill the send buffer (256 KiB).
    for responded in 4..19 {
        let left = 19 - responded;
        assert_eq!(in_work(&mut server, responded, 17_000), left.max(1));
    }
    assert_eq!(in_work(&mut server, 19, 16), 2);
}

#[test]
fn handlers_are_notified_of_a_clients_end_while_requests_wait() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/0") + &post("/later/1", "a") + &post("/later/2", "b")));
    server.settle();
    client.end();
    for number in 0..3 {
        let id = server.exchange(&format!("/later/{number}"));
        server.pass_until(|server| server.worker.app.half_closed.contains(&id));
        server.respond(id, "");
        assert_eq!(server.response(&mut client).status, 200);
    }
    server.expect_end(&mut client);
}

#[test]
fn nothing_after_the_last_request_is_served() {
    let mut server = Server::new();
    let mut client = server.connect();
    let last = get("/last").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.send(&(last + &get("/never") + "garbage\0"));
    let response = server.response(&mut client);
    assert_eq!(response.content, "/last");
    assert!(response.is_last());
    server.expect_end(&mut client);
    assert_eq!(server.targets(), ["/last"]);
    drop(client);
    server.pass_until(|server| server.is_empty());
}

#[test]
fn a_later_last_response_ends_the_connection_too() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    server.settle();
    server.respond(server.exchange("/later"), "bye");
    assert!(server.response(&mut client).is_last());
    server.expect_end(&mut client);
    assert!(server.is_empty());
}

#[test]
fn http_1_0_is_persistent_only_when_the_client_asks() {
    let mut server = Server::new();
    let mut client = server.connect();
    let kept = "GET /kept HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    for _ in 0..2 {
        let response = server.ask(&mut client, kept);
        assert_eq!(response.get("connection"), Some("keep-alive"));
    }
    let response = server.ask(&mut client, "GET /last HTTP/1.0\r\n\r\n");
    assert!(response.is_last());
    server.expect_end(&mut client);
    assert!(server.is_empty());
}

#[test]
fn a_stream_to_http_1_0_ends_with_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send("GET /pull/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = server.response(&mut client);
    assert_eq!(response.get("transfer-encoding"), None);
    assert_eq!(response.content, "p".repeat(15));
    assert!(server.is_empty());
}

#[test]
fn a_truncated_stream_cannot_be_mistaken_for_a_complete_one() {
    for version in ["1.0", "1.1"] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&get("/pull/3/cut").replace("1.1", version));
        server.pass_until(|_| client.is_ended());
        match version {
            "1.1" => assert!(
                client.take_response("GET").is_none(),
                "the last chunk is there"
            ),
            // A pair of UNIX sockets has no reset; tests/protocol checks that it is requested.
            _ => assert!(server.is_empty()),
        }
        assert_eq!(server.abort_of("/pull/3/cut"), None);
    }
}

#[test]
fn the_end_of_the_process_resets_a_complete_stream_until_the_socket_has_all_of_it() {
    const BYTES: usize = 24 << 20;
    for target in ["/later", "/stream"] {
        let mut server = Server::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut client = Client::new(TcpStream::connect(address).expect("a listener").into());
        let (theirs, _) = listener.accept().expect("a connection that waits");
        let same = theirs.try_clone().expect("a descriptor");
        let resets = || sockopt::socket_linger(&same) == Ok(Some(Duration::ZERO));
        server.adopt(theirs.into());
        client.send(&format!("GET {target}/{BYTES} HTTP/1.0\r\n\r\n"));
        server.settle();
        if target == "/later" {
            let id = server.exchange(&format!("{target}/{BYTES}"));
            server.post(id, Command::Begin(response(200, "")));
            server.post(id, Command::Write(vec![b'x'; BYTES]));
            server.post(id, Command::Finish);
            server.settle();
        }
        assert!(resets(), "{target}");
        server.pass_until(|_| {
            client.receive();
            client.rest_bytes() > BYTES as u64
        });
        server.settle();
        assert!(!resets(), "{target}");
        client.end();
        server.pass_until(|server| server.is_empty());
    }
}

#[test]
fn a_client_that_ended_its_side_is_still_served() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later") + &get("/b") + &get("/pull/2")));
    client.end();
    server.settle();
    assert!(client.is_quiet());
    server.respond(server.exchange("/later"), "a");
    for content in ["a", "/b", "pppppppppp"] {
        assert_eq!(server.response(&mut client).content, content);
    }
    server.expect_end(&mut client);
    assert!(server.is_empty());
}

#[test]
fn a_handler_is_notified_that_its_client_ended_its_side() {
    let mut server = Server::new();
    let client = server.connect();
    client.send(&(get("/later") + &get("/b") + &get("/push")));
    server.settle();
    assert!(server.worker.app.half_closed.is_empty());
    client.end();
    server.settle();
    // It may still read.
    assert!(server.worker.app.half_closed.is_empty());
    let notified = [server.exchange("/later"), server.exchange("/push")];
    server.pass_until(|server| server.worker.app.half_closed.len() == notified.len());
    assert_eq!(server.worker.app.half_closed, notified);
    assert_eq!(server.abort_of("/later"), None);
}

#[test]
fn a_client_that_received_a_late_response_is_there_for_the_next_one() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    client.send(&(post("/later/1", "") + &post("/later/2", "")));
    client.end();
    let silence = |server: &mut Server| {
        now_ms.fetch_add(700, Ordering::Relaxed);
        server.settle();
    };
    server.settle();
    silence(&mut server);
    let first = server.exchange("/later/1");
    assert_eq!(server.worker.app.half_closed, [first]);
    server.respond(first, "one");
    assert_eq!(server.response(&mut client).content, "one");
    let second = server.exchange("/later/2");
    assert_eq!(server.worker.app.half_closed, [first]);
    // What it received shows that it was there, and nothing has shown that since.
    silence(&mut server);
    silence(&mut server);
    assert_eq!(server.worker.app.half_closed, [first, second]);
    server.respond(second, "two");
    assert_eq!(server.response(&mut client).content, "two");
}

#[test]
fn a_stream_of_known_length_is_delimited_by_it() {
    for (parts, is_whole) in [
        (["part", "s"], true),
        (["parts", "!"], true),
        (["pa", "rt"], false),
    ] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&(get("/push") + &get("/next")));
        server.settle();
        let id = server.exchange("/push");
        let head = Response {
            length: Some(5),
            ..response(200, "")
        };
        server.post(id, Command::Begin(head));
        for part in parts {
            server.post(id, Command::Write(part.into()));
        }
        server.post(id, Command::Finish);
        if is_whole {
            let response = server.response(&mut client);
            assert_eq!(
                (response.get("content-length"), response.content.as_str()),
                (Some("5"), "parts")
            );
            assert_eq!(server.response(&mut client).content, "/next");
        } else {
            server.pass_until(|_| client.is_ended());
            assert!(client.rest().ends_with("Content-Length: 5\r\n\r\npart"));
        }
    }
}

#[test]
fn a_connection_without_a_request_ends_with_its_client() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send("GET / HT");
    server.settle();
    client.end();
    server.expect_end(&mut client);
    assert!(server.is_empty());
}

#[test]
fn a_head_response_is_followed_by_the_next_one() {
    let mut server = Server::new();
    let mut client = server.connect();
    for target in ["/some", "/pull/3", "/later"] {
        client.send(&(get(target).replace("GET", "HEAD") + &get("/next")));
        server.settle();
        if target == "/later" {
            server.respond(server.exchange(target), "not to be seen");
        }
        assert_eq!(server.response_to(&mut client, "HEAD").content, "");
        assert_eq!(server.response(&mut client).content, "/next");
    }
}

#[test]
fn parts_are_sent_when_a_handler_writes_them() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/push") + &get("/next")));
    server.settle();
    let id = server.exchange("/push");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(b"one".into()));
    server.settle();
    assert_eq!(server.worker.app.writables, [id]);
    client.receive();
    assert!(client.rest().ends_with("\r\n\r\n3\r\none\r\n"));
    server.post(id, Command::Write(b"two".into()));
    server.post(id, Command::WriteHeld(Box::new(b"three".to_vec())));
    server.settle();
    client.receive();
    assert!(client.rest().ends_with("3\r\ntwo\r\n5\r\nthree\r\n"));
    server.post(id, Command::Finish);
    let response = server.response(&mut client);
    assert_eq!(response.content, "onetwothree");
    assert_eq!(server.response(&mut client).content, "/next");
}

#[test]
fn an_exchange_is_aborted_once_and_only_if_it_did_not_end() {
    let mut server = Server::new();
    let mut client = server.connect();
    for target in ["/later/done", "/later/open", "/push", "/pull/9", "/now"] {
        client.send(&get(target));
    }
    server.settle();
    server.respond(server.exchange("/later/done"), "done");
    server.post(server.exchange("/push"), Command::Begin(response(200, "")));
    server.settle();
    server.response(&mut client);
    drop(client);
    server.pass_until(|server| server.is_empty());
    let reasons = ["/later/done", "/later/open", "/push", "/pull/9", "/now"]
        .map(|target| server.abort_of(target));
    let gone = Some(Abort::Disconnected);
    assert_eq!(reasons, [None, gone, gone, gone, None]);
}

#[test]
fn commands_for_an_exchange_that_is_over_are_ignored() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    server.respond(id, "once");
    server.respond(id, "twice");
    server.post(id, Command::Write(b"part".into()));
    server.post(id, Command::Finish);
    assert_eq!(server.response(&mut client).content, "once");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Fail);
    server.post(id, Command::Read);
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    drop(client);
    server.pass_until(|server| server.is_empty());
    // Another connection has its slot now.
    let mut other = server.connect();
    other.send(&get("/later/other"));
    server.settle();
    server.respond(id, "not for you");
    server.settle();
    assert!(other.is_quiet());
}

#[test]
fn an_application_without_its_response_gets_one_from_the_server() {
    let mut server = Server::new();
    let mut client = server.connect();
    for target in ["/silent", "/forgetful"] {
        let response = server.ask(&mut client, &get(target));
        assert_eq!(response.status, 500);
        assert!(!response.is_last());
    }
    client.send(&get("/later"));
    server.settle();
    server.post(server.exchange("/later"), Command::Fail);
    assert_eq!(server.response(&mut client).status, 500);
}
