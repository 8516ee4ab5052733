//! What makes the server end a connection: malformed and oversized input, too many connections, panics, draining.

mod harness;

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use harness::{Client, Server, get, post_chunked, response};
use server::{Abort, Command};

#[test]
fn limits_hold_however_the_bytes_arrive() {
    let long_line = format!("GET /{}", "a".repeat(9000));
    let long_section = format!("GET / HTTP/1.1\r\nHost: test\r\nA: {}", "a".repeat(40_000));
    let many_lines = "GET / HTTP/1.1\r\nHost: test\r\n".to_string() + &"A: b\r\n".repeat(110);
    let cases = [
        (414, long_line, 8200),
        (431, long_section, 32_800),
        (431, many_lines, 640),
    ];
    for (status, request, most) in cases {
        for size in [1, 7, 500, request.len()] {
            let mut server = Server::new();
            let mut client = server.connect();
            let mut sent = 0;
            for part in request.as_bytes().chunks(size) {
                sent += client.send_some(part);
                server.pass();
                if !client.is_quiet() {
                    break;
                }
            }
            assert!(sent <= most + size, "{status} after {sent} bytes only");
            let response = server.response(&mut client);
            assert_eq!((response.status, response.is_last()), (status, true));
            server.expect_end(&mut client);
        }
    }
}

#[test]
fn a_refusal_is_reported_with_its_limit() {
    let cases = [
        (
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\n".to_string(),
            "413: content over body_bytes_max (10)",
        ),
        (
            post_chunked("/read") + "b\r\n0123456789A\r\n",
            "413: content over body_bytes_max (10)",
        ),
        (
            "GET / HTTP/1.1\r\nHost: test\r\n".to_string() + &"A: b\r\n".repeat(10),
            "431: header section over header_section_bytes_max (32768) or field_lines_max (5)",
        ),
        (
            "GET / HTTP/1.1\r\n\r\n".to_string(),
            "400: Host is missing.",
        ),
    ];
    for (request, why) in cases {
        let mut server = Server::with(|config| {
            config.limits.body_bytes_max = 10;
            config.limits.field_lines_max = 5;
        });
        let mut client = server.connect();
        client.send(&request);
        server.response(&mut client);
        server.pass();
        let line = format!("refused 1 request with {why}");
        assert_eq!(server.worker.app.refusals, [line]);
        // Others wait, and are reported together.
        let mut client = server.connect();
        client.send(&request);
        server.response(&mut client);
        server.pass();
        assert_eq!(server.worker.app.refusals.len(), 1);
        server.worker.stop();
        assert_eq!(server.worker.app.refusals.len(), 2, "never reported");
    }
}

#[test]
fn connections_over_the_limit_are_reported() {
    let mut server = Server::with(|config| config.limits.connections_max = 1);
    let _first = server.connect();
    let mut surplus = server.connect();
    server.response(&mut surplus);
    server.pass();
    let line = "refused 1 connection: connections_max (1) are open";
    assert_eq!(server.worker.app.refusals, [line]);
}

#[test]
fn the_response_arrives_whatever_the_client_keeps_sending() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.limits.body_bytes_max = 100_000;
        config.timeouts.linger_timeout_ms = 1000;
    });
    let mut client = server.connect();
    client.send("malformed\r\n\r\n");
    server.pass();
    // However much it is, and as long as it takes.
    for _ in 0..14 {
        for _ in 0..30 {
            client.send_some(&[b'x'; 10_000]);
            server.pass();
        }
        now_ms.fetch_add(1000, Ordering::Relaxed);
    }
    assert!(!server.is_empty(), "it has closed before the client");
    assert_eq!(server.response(&mut client).status, 400);
    server.expect_end(&mut client);
    // But not for ever.
    now_ms.fetch_add(1000, Ordering::Relaxed);
    client.send_some(&[b'x'; 10_000]);
    server.settle();
    assert!(server.is_empty(), "it reads on and on");
}

#[test]
fn responses_before_a_malformed_request_are_not_lost() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later") + &get("/b") + "GET nonsense\r\n\r\n" + &get("/never")));
    server.settle();
    server.respond(server.exchange("/later"), "a");
    assert_eq!(server.response(&mut client).content, "a");
    assert_eq!(server.response(&mut client).content, "/b");
    let response = server.response(&mut client);
    assert_eq!((response.status, response.is_last()), (400, true));
    server.expect_end(&mut client);
    assert_eq!(server.targets(), ["/later", "/b"]);
}

#[test]
fn the_response_to_a_malformed_head_has_no_content_also_after_an_empty_line() {
    for line in ["", "\r\n"] {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&format!("{line}HEAD nonsense\r\n\r\n"));
        let response = server.response_to(&mut client, "HEAD");
        assert_eq!((response.status, response.is_last()), (400, true));
        server.expect_end(&mut client);
    }
}

#[test]
fn connections_over_the_limit_are_refused_and_others_continue() {
    let mut server = Server::with(|config| config.limits.connections_max = 3);
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for _ in 0..5 {
        let mut surplus = server.connect();
        surplus.send(&get("/never"));
        let response = server.response(&mut surplus);
        assert_eq!((response.status, response.is_last()), (503, true));
        assert_eq!(response.get("retry-after"), Some("1"));
        server.expect_end(&mut surplus);
    }
    for client in &mut clients {
        assert_eq!(server.ask(client, &get("/served")).content, "/served");
    }
    clients.pop();
    server.settle();
    let mut next = server.connect();
    assert_eq!(server.ask(&mut next, &get("/again")).content, "/again");
    assert!(!server.targets().contains(&"/never"));
}

#[test]
fn a_crowd_over_the_limit_is_bounded() {
    let mut server = Server::with(|config| config.limits.connections_max = 1);
    let mut first = server.connect();
    let crowd: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    let open = server.worker.open_connections();
    assert_eq!(open.load(std::sync::atomic::Ordering::Relaxed), 65);
    assert_eq!(server.ask(&mut first, &get("/served")).content, "/served");
    drop((first, crowd));
    server.pass_until(|server| server.is_empty());
    assert_eq!(open.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn refused_connections_occupy_no_place() {
    let mut server = Server::with(|config| config.limits.connections_max = 1);
    let first = server.connect();
    let mut crowd: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for client in &mut crowd {
        // They stay open and send nothing.
        assert_eq!(server.response(client).status, 503);
    }
    drop(first);
    server.settle();
    let mut next = server.connect();
    assert_eq!(server.ask(&mut next, &get("/next")).content, "/next");
}

#[test]
fn a_panic_ends_its_connection_and_its_output_reaches_no_other() {
    for panicking in [get("/panic"), get("/before") + &get("/panic")] {
        let mut server = Server::new();
        let mut other = server.connect();
        other.send(&get("/later"));
        let mut client = server.connect();
        server.settle();
        client.send(&panicking);
        other.send(&get("/b"));
        server.pass_until(|_| client.is_ended());
        let mut third = server.connect();
        assert_eq!(server.ask(&mut third, &get("/third")).content, "/third");
        server.respond(server.exchange("/later"), "a");
        assert_eq!(server.response(&mut other).content, "a");
        assert_eq!(server.response(&mut other).content, "/b");
    }
}

#[test]
fn a_panic_in_a_posted_command_affects_no_other_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(post_chunked("/parts") + "5\r\npanic\r\n0\r\n\r\n"));
    let mut other = server.connect();
    other.send(&get("/later"));
    server.pass_until(|_| client.is_ended());
    assert_eq!(server.abort_of("/parts"), Some(Abort::Disconnected));
    server.respond(server.exchange("/later"), "a");
    assert_eq!(server.response(&mut other).content, "a");
}

#[test]
fn a_panic_after_content_that_a_handler_fetched_affects_no_other_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send("GET /later/x HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nab");
    let mut other = server.connect();
    other.send(&get("/later/y"));
    server.settle();
    client.send(&("c".to_string() + &get("/panic")));
    server.settle();
    assert_eq!(server.targets(), ["/later/x", "/later/y"]);
    server.post(server.exchange("/later/x"), Command::Read);
    server.respond(server.exchange("/later/y"), "y");
    assert_eq!(server.response(&mut other).content, "y");
    server.pass_until(|_| client.is_ended());
    assert_eq!(client.rest(), "");
    assert_eq!(server.abort_of("/later/x"), Some(Abort::Disconnected));
}

#[test]
fn a_second_panic_while_a_connection_is_aborted_skips_no_other_abort() {
    let begins: [fn(&mut Server, Client); 3] = [
        |_, client| client.send(&get("/panic")),
        |_, client| drop(client),
        |server, _client| {
            server.worker.stop();
        },
    ];
    for begin in begins {
        let mut server = Server::new();
        let client = server.connect();
        let mut other = server.connect();
        client.send(&(get("/later/a") + &get("/later/b") + &get("/later/c")));
        server.settle();
        server.worker.app.panics_for = Some(server.exchange("/later/a"));
        begin(&mut server, client);
        server.settle();
        assert_eq!(server.worker.app.panics_for, None, "it did not panic");
        for target in ["/later/a", "/later/b", "/later/c"] {
            assert_eq!(server.abort_of(target), Some(Abort::Disconnected));
        }
        if !server.is_empty() {
            assert_eq!(server.ask(&mut other, &get("/next")).content, "/next");
        }
    }
}

#[test]
fn draining_closes_idle_connections_and_finishes_the_others() {
    let mut server = Server::new();
    let mut idle = server.connect();
    server.ask(&mut idle, &get("/"));
    let mut busy = server.connect();
    busy.send(&(get("/later") + &get("/next")));
    let mut partial = server.connect();
    partial.send("GET /partial HTTP");
    server.settle();
    server.worker.drain();
    server.expect_end(&mut idle);
    server.respond(server.exchange("/later"), "");
    assert_eq!(server.response(&mut busy).status, 200);
    assert_eq!(server.response(&mut busy).content, "/next");
    server.expect_end(&mut busy);
    partial.send("/1.1\r\nHost: test\r\n\r\n");
    let response = server.response(&mut partial);
    assert!(response.is_last());
    server.expect_end(&mut partial);
    drop((busy, partial));
    server.pass_until(|server| server.is_empty());
}

#[test]
fn a_client_that_sends_on_an_idle_connection_while_the_server_drains_is_served() {
    let mut server = Server::new();
    let (mut fresh, mut used, mut silent) = (server.connect(), server.connect(), server.connect());
    server.ask(&mut used, &get("/"));
    server.worker.drain();
    server.settle();
    for client in [&mut fresh, &mut used] {
        let response = server.ask(client, &get("/late"));
        assert_eq!(
            (response.content.as_str(), response.is_last()),
            ("/late", true)
        );
        server.expect_end(client);
    }
    // But it is not awaited for long.
    assert!(silent.is_quiet());
    server.expect_end(&mut silent);
    assert!(server.is_empty());
}

#[test]
fn a_response_while_draining_announces_that_it_is_the_last() {
    let mut server = Server::new();
    let mut clients = [server.connect(), server.connect(), server.connect()];
    for (client, target) in clients.iter().zip(["/later", "/push", "/parts"]) {
        client.send(&get(target));
    }
    server.settle();
    server.worker.drain();
    server.respond(server.exchange("/later"), "");
    server.post(server.exchange("/push"), Command::Begin(response(200, "")));
    server.post(server.exchange("/push"), Command::Finish);
    server.post(server.exchange("/parts"), Command::Fail);
    for client in &mut clients {
        assert!(server.response(client).is_last());
        server.expect_end(client);
    }
    assert!(server.is_empty());
}

#[test]
fn a_request_in_the_socket_when_draining_starts_is_served() {
    let mut server = Server::new();
    let mut client = server.connect();
    server.ask(&mut client, &get("/"));
    client.send(&get("/in/time"));
    server.worker.drain();
    let response = server.response(&mut client);
    assert_eq!(
        (response.content.as_str(), response.is_last()),
        ("/in/time", true)
    );
    server.expect_end(&mut client);
}

#[test]
fn responses_started_before_draining_end_their_connections_too() {
    let mut server = Server::new();
    let mut pushed = server.connect();
    pushed.send(&get("/push"));
    let mut pulled = server.connect();
    pulled.send(&get("/pull/9000"));
    server.worker.app.pull_bytes = 1000;
    let mut slow = server.connect();
    slow.send(&get("/big/3000000"));
    let mut discarding = server.connect();
    discarding.send("POST /early HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n");
    server.settle();
    let id = server.exchange("/push");
    server.post(id, Command::Begin(response(200, "")));
    server.settle();
    server.worker.drain();
    server.post(id, Command::Finish);
    discarding.send("123456789");
    for client in [&mut pushed, &mut pulled, &mut slow, &mut discarding] {
        assert_eq!(server.response(client).status, 200);
        server.expect_end(client);
    }
    drop((pushed, pulled, slow, discarding));
    server.pass_until(|server| server.is_empty());
}

#[test]
fn stopping_closes_everything_and_aborts_what_is_under_way() {
    let mut server = Server::new();
    let mut clients = [server.connect(), server.connect()];
    for (client, target) in clients.iter().zip(["/later", "/push"]) {
        client.send(&get(target));
    }
    server.settle();
    server.post(server.exchange("/push"), Command::Begin(response(200, "")));
    server.settle();
    let unfinished = server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (1, 1));
    assert!(server.is_empty());
    for (client, target) in clients.iter_mut().zip(["/later", "/push"]) {
        assert!(client.is_ended());
        assert_eq!(server.abort_of(target), Some(Abort::Disconnected));
    }
}

#[test]
fn a_response_that_was_posted_just_before_the_stop_is_sent() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    server.respond(server.exchange("/later"), "done");
    let unfinished = server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (0, 0));
    let response = client.take_response("GET").expect("a response");
    assert_eq!((response.status, &response.content[..]), (200, "done"));
    assert!(client.is_ended());
}

#[test]
fn a_request_without_a_response_when_the_server_stops_gets_503() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/later/3")));
    server.settle();
    server.respond(server.exchange("/later/1"), "first");
    // Nothing is sent before the stop: complete responses are sent with it.
    server.worker.before_wait();
    let unfinished = server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (1, 1));
    assert_eq!(server.response(&mut client).content, "first");
    let response = server.response(&mut client);
    assert_eq!((response.status, response.is_last()), (503, true));
    server.expect_end(&mut client);
    for target in ["/later/2", "/later/3"] {
        assert_eq!(server.abort_of(target), Some(Abort::Disconnected));
    }
}

#[test]
fn a_request_whose_content_is_awaited_when_the_server_stops_gets_503() {
    for target in ["/read", "/parts", "/later"] {
        let mut server = Server::new();
        let mut client = server.connect_by_tcp();
        client.send(&(post_chunked(target) + "1\r\na\r\n"));
        server.settle();
        // It has arrived, and is not read any more.
        client.send("1\r\nb\r\n");
        let unfinished = server.worker.stop();
        assert_eq!((unfinished.refused, unfinished.cut), (1, 0), "{target}");
        let response = server.response(&mut client);
        assert_eq!((response.status, response.is_last()), (503, true));
        server.expect_end(&mut client);
    }
}

#[test]
fn a_connection_that_is_gone_when_it_is_adopted_leaves_nothing() {
    let mut server = Server::new();
    for _ in 0..10 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        server.adopt(theirs.into());
    }
    server.pass_until(|server| server.is_empty());
}

#[test]
fn the_response_to_a_client_for_which_an_idle_connection_was_closed_does_not_wait() {
    let (mut server, now_ms) =
        Server::with_manual_clock(|config| config.limits.connections_max = 1);
    let mut idle = server.connect();
    assert_eq!(server.ask(&mut idle, &get("/idle")).status, 200);
    now_ms.fetch_add(1000, Ordering::Relaxed);
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut client = Client::new(ours.into());
    client.send(&get("/new"));
    server.adopt(theirs.into());
    // No pass has begun that would send it at its end.
    let response = client.take_response("GET").expect("a response");
    assert_eq!(response.content, "/new");
}
