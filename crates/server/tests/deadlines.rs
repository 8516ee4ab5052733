//! Timeouts: each reduced to a few milliseconds, all others switched off. And what clients see that send when one passes.

mod harness;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use harness::connected::TICK_MS;
use harness::tls::{TlsClient, configs};
use harness::{Client, Server, get, post, post_chunked, response};
use server::{Abort, Command, Timeouts};

/// A server with no timeout except the one that `set` switches on.
fn server(set: impl FnOnce(&mut Timeouts)) -> Server {
    Server::with(|config| {
        for setting in Timeouts::SETTINGS {
            *config
                .timeouts
                .get_mut(setting.name)
                .expect("it is in the table") = 0;
        }
        config.timeouts.linger_timeout_ms = 10_000;
        set(&mut config.timeouts);
    })
}

fn expect_408(server: &mut Server, client: &mut Client) {
    let response = server.response(client);
    assert_eq!((response.status, response.is_last()), (408, true));
    server.expect_end(client);
}

#[test]
fn a_head_that_takes_too_long_gets_408() {
    let mut server = server(|timeouts| timeouts.header_timeout_ms = 50);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHo");
    expect_408(&mut server, &mut client);
}

#[test]
fn single_bytes_do_not_extend_the_time_for_a_head() {
    let mut server = server(|timeouts| timeouts.header_timeout_ms = 300);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nA: ");
    let start = Instant::now();
    let mut sent = 0;
    server.pass_until(|_| {
        let is_served = !client.is_quiet();
        if !is_served && start.elapsed().as_millis() > sent * 20 {
            client.send("a");
            sent += 1;
        }
        is_served
    });
    assert!(start.elapsed().as_millis() >= 290, "{:?}", start.elapsed());
    expect_408(&mut server, &mut client);
}

#[test]
fn an_empty_line_after_content_starts_no_request() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.timeouts.header_timeout_ms = 1000;
        config.timeouts.keep_alive_timeout_ms = 5000;
    });
    let mut client = server.connect();
    for parts in [&["\r\n"][..], &["\r", "\n"]] {
        assert_eq!(
            server.ask(&mut client, &post("/read", "abc")).content,
            "abc"
        );
        for part in parts {
            client.send(part);
            server.settle();
        }
        now_ms.fetch_add(3000, Ordering::Relaxed);
        server.settle();
        assert!(client.is_quiet(), "{parts:?}");
        assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    }
    client.send("\r\n");
    server.settle();
    // A part of a head has its own time, from its own first byte.
    now_ms.fetch_add(3000, Ordering::Relaxed);
    client.send("GET / HTTP/1.1\r\n");
    server.settle();
    now_ms.fetch_add(900, Ordering::Relaxed);
    server.settle();
    assert!(client.is_quiet());
    now_ms.fetch_add(300, Ordering::Relaxed);
    expect_408(&mut server, &mut client);

    let mut idle = server.connect();
    assert_eq!(
        server.ask(&mut idle, &(get("/last") + "\r\n")).content,
        "/last"
    );
    now_ms.fetch_add(5200, Ordering::Relaxed);
    server.expect_end(&mut idle);

    let mut twice = server.connect();
    for _ in 0..2 {
        twice.send("\r\n");
        server.settle();
    }
    assert_eq!(server.response(&mut twice).status, 400);
}

#[test]
fn a_head_after_a_pending_response_has_its_own_time() {
    let mut server = server(|timeouts| timeouts.header_timeout_ms = 50);
    let mut client = server.connect();
    client.send(&(get("/later") + "GET /part"));
    server.pass_until(|server| server.worker.app.called.len() == 1);
    // The refusal follows the owed response.
    server.pass_until(|server| server.worker.before_wait().is_none());
    assert!(client.is_quiet());
    server.respond(server.exchange("/later"), "first");
    assert_eq!(server.response(&mut client).content, "first");
    expect_408(&mut server, &mut client);
}

#[test]
fn a_connection_without_a_request_is_closed() {
    let mut unused = server(|timeouts| timeouts.header_timeout_ms = 50);
    let mut client = unused.connect();
    unused.expect_end(&mut client);
    assert!(unused.is_empty());

    let mut used = server(|timeouts| timeouts.keep_alive_timeout_ms = 50);
    let mut client = used.connect();
    used.ask(&mut client, &get("/"));
    used.expect_end(&mut client);
    assert!(used.is_empty());
}

#[test]
fn content_below_the_minimum_rate_gets_408() {
    for target in ["/read", "/parts"] {
        let mut server = server(|timeouts| {
            timeouts.body_grace_ms = 50;
            timeouts.body_rate_bytes_per_s_min = 1_000_000;
        });
        let mut client = server.connect();
        client.send(&(post_chunked(target) + "1\r\na\r\n"));
        expect_408(&mut server, &mut client);
        let expected = (target == "/parts").then_some(Abort::Refused);
        assert_eq!(server.abort_of(target), expected);
    }
}

#[test]
fn a_handler_that_does_not_read_costs_its_peer_no_time() {
    let mut server = server(|timeouts| {
        timeouts.body_grace_ms = 1;
        timeouts.body_rate_bytes_per_s_min = 1_000_000;
    });
    let mut client = server.connect();
    client.send(&post_chunked("/later"));
    server.settle();
    assert_eq!(
        server.worker.before_wait(),
        None,
        "nothing waits for the peer"
    );
    server.respond(server.exchange("/later"), "");
    assert_eq!(server.response(&mut client).status, 200);
}

#[test]
fn discarding_is_timed_too_and_the_response_is_not_lost() {
    let mut server = server(|timeouts| {
        timeouts.body_grace_ms = 50;
        timeouts.body_rate_bytes_per_s_min = 1_000_000;
    });
    let mut client = server.connect();
    client.send("POST /early HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(server.response(&mut client).content, "/early");
    server.expect_end(&mut client);
}

#[test]
fn an_early_response_is_sent_whole_though_the_content_never_arrives() {
    let mut server = server(|timeouts| {
        timeouts.body_grace_ms = 50;
        timeouts.body_rate_bytes_per_s_min = 1_000_000;
    });
    let mut client = server.connect();
    client.send("POST /big/2000000 HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n");
    server.settle();
    server.pass_until(|server| server.worker.before_wait().is_none());
    assert_eq!(server.response(&mut client).content.len(), 2_000_000);
    server.expect_end(&mut client);
}

#[test]
fn a_response_that_the_peer_does_not_receive_is_given_up() {
    let mut server = server(|timeouts| timeouts.write_timeout_ms = 50);
    let client = server.connect();
    client.send(&get("/big/9000000"));
    server.pass_until(|server| server.is_empty());
    drop(client);
}

#[test]
fn a_peer_that_keeps_receiving_is_not_given_up() {
    let mut server = server(|timeouts| timeouts.write_timeout_ms = 400);
    let mut client = server.connect();
    client.send(&get("/big/9000000"));
    let response = server.response(&mut client);
    assert_eq!(response.content.len(), 9_000_000);
}

#[test]
fn a_handler_that_takes_too_long_is_aborted_and_its_client_gets_503() {
    let mut server = server(|timeouts| timeouts.handler_timeout_ms = 50);
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/next")));
    let response = server.response(&mut client);
    assert_eq!((response.status, response.is_last()), (503, true));
    server.expect_end(&mut client);
    let late = Some(Abort::HandlerTimeout { after_ms: 50 });
    assert_eq!(
        (server.abort_of("/later/1"), server.abort_of("/later/2")),
        (late, late)
    );
    assert_eq!(server.abort_of("/next"), None);
    // Too late.
    server.respond(server.exchange("/later/1"), "");
    server.settle();
    assert!(server.is_empty());
}

#[test]
fn a_handler_that_has_started_its_response_is_not_timed_out() {
    let mut server = server(|timeouts| timeouts.handler_timeout_ms = 1);
    let mut client = server.connect();
    client.send(&get("/push"));
    server.pass();
    let id = server.exchange("/push");
    server.post(id, Command::Begin(response(200, "")));
    server.settle();
    server.pass_until(|server| server.worker.before_wait().is_none());
    server.post(id, Command::Finish);
    assert_eq!(server.response(&mut client).status, 200);
}

#[test]
fn a_handler_that_has_started_and_sent_nothing_is_not_timed_out() {
    let mut server = server(|timeouts| timeouts.handler_timeout_ms = 50);
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2")));
    server.pass();
    server.worker.app.begun.push(server.exchange("/later/1"));
    server.pass_until(|server| server.abort_of("/later/2").is_some());
    assert!(client.is_quiet());
    server.respond(server.exchange("/later/1"), "at last");
    assert_eq!(server.response(&mut client).content, "at last");
    assert_eq!(server.response(&mut client).status, 503);
}

#[test]
fn a_client_that_ended_its_side_and_is_sent_nothing_counts_as_gone() {
    let mut server = server(|timeouts| timeouts.write_timeout_ms = 100);
    let mut clients = [server.connect(), server.connect()];
    for (client, target) in clients.iter().zip(["/push/1", "/push/2"]) {
        client.send(&get(target));
        server.settle();
        let id = server.exchange(target);
        server.post(id, Command::Begin(response(200, "")));
        server.post(id, Command::Write(b"part".into()));
    }
    clients[0].end();
    server.pass_until(|server| server.abort_of("/push/1").is_some());
    assert_eq!(server.abort_of("/push/1"), Some(Abort::Disconnected));
    server.pass_until(|_| clients[0].is_ended());
    assert!(clients[0].rest().ends_with("\r\n4\r\npart\r\n"));
    // The other handler is not timed out.
    server.pass_until(|server| server.worker.before_wait().is_none());
    assert_eq!(server.abort_of("/push/2"), None);
}

#[test]
fn a_handlers_time_stops_while_it_waits_for_its_peer() {
    let mut server = server(|timeouts| timeouts.handler_timeout_ms = 50);
    let mut client = server.connect();
    client.send(&post_chunked("/parts"));
    server.settle();
    server.pass_until(|server| server.worker.before_wait().is_none());
    assert!(
        client.is_quiet(),
        "the peer's time was counted as the handler's"
    );
    client.send("1\r\na\r\n0\r\n\r\n");
    assert_eq!(server.response(&mut client).status, 503);
    let late = Some(Abort::HandlerTimeout { after_ms: 50 });
    assert_eq!(server.abort_of("/parts"), late);
}

#[test]
fn a_handlers_time_starts_anew_when_content_reaches_it() {
    let mut server = server(|timeouts| timeouts.handler_timeout_ms = 400);
    let mut client = server.connect();
    client.send(&post_chunked("/parts"));
    server.settle();
    server.pass_until(|server| server.worker.before_wait().is_none());
    client.send("1\r\na\r\n0\r\n\r\n");
    let given = Instant::now();
    assert_eq!(server.response(&mut client).status, 503);
    assert!(given.elapsed().as_millis() > 350, "{:?}", given.elapsed());
}

#[test]
fn responses_do_not_extend_the_time_for_the_head_after_them() {
    let mut server = server(|timeouts| timeouts.header_timeout_ms = 400);
    let mut client = server.connect();
    let targets = ["/later/1", "/later/2", "/later/3", "/later/4", "/later/5"];
    client.send(&(targets.map(get).concat() + "GET /part"));
    for target in targets {
        let start = Instant::now();
        server.pass_until(|_| start.elapsed().as_millis() > 120);
        server.respond(server.exchange(target), "");
        assert_eq!(server.response(&mut client).status, 200);
    }
    let served = Instant::now();
    expect_408(&mut server, &mut client);
    assert!(served.elapsed().as_millis() < 250, "{:?}", served.elapsed());
}

#[test]
fn a_peer_that_stays_after_the_end_is_disconnected() {
    let mut server = server(|timeouts| timeouts.linger_timeout_ms = 50);
    let mut client = server.connect();
    client.send("garbage\r\n\r\n");
    assert_eq!(server.response(&mut client).status, 400);
    assert!(!server.is_empty(), "the peer is given time to read it");
    server.pass_until(|server| server.is_empty());
    assert!(client.is_ended());
}

#[test]
fn a_peer_that_receives_its_last_response_slowly_has_time_to_linger() {
    let mut server = server(|timeouts| timeouts.linger_timeout_ms = 400);
    let mut client = server.connect();
    let last = get("/big/3000000").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.send(&(last + "garbage"));
    let start = Instant::now();
    // Longer than lingering may take, before the rest of the response is sent at all.
    server.pass_until(|_| start.elapsed().as_millis() > 600);
    assert!(server.response(&mut client).is_last());
    let sent = Instant::now();
    server.pass_until(|server| server.is_empty());
    assert!(sent.elapsed().as_millis() > 300, "{:?}", sent.elapsed());
}

#[test]
fn reminders_do_not_accumulate() {
    let mut server = server(|timeouts| {
        timeouts.keep_alive_timeout_ms = 60_000;
        timeouts.header_timeout_ms = 150;
    });
    let mut client = server.connect();
    let request = post("/read", "x");
    // Every round moves the deadline nearer and away again.
    for _ in 0..10 {
        client.send(request.get(..9).unwrap());
        server.settle();
        client.send(request.get(9..).unwrap());
        server.response(&mut client);
        let start = Instant::now();
        let mut passes = 0;
        server.pass_until(|_| {
            passes += 1;
            start.elapsed().as_millis() > 150
        });
        assert!(passes < 60, "{passes} passes");
    }
    assert!(server.worker.before_wait().is_some_and(|ms| ms <= 66_000));
}

const CONNECTIONS: usize = 100;
const ROUNDS: usize = 100;
const TIMEOUT_MS: u64 = 5000;

/// What its clients have sent before the server closes.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Request,
}

/// How the connections have gone on.
#[derive(Default, Debug)]
struct Ends {
    served: usize,
    ended: usize,
    reset: usize,
}

/// Lets clients send a request at the time at which the server closes their connections.
fn ends(connect: fn(&mut Server) -> Client, before: Before) -> Ends {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.timeouts.keep_alive_timeout_ms = TIMEOUT_MS;
        config.timeouts.header_timeout_ms = TIMEOUT_MS;
    });
    let mut ends = Ends::default();
    for _ in 0..ROUNDS {
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| connect(&mut server)).collect();
        if before == Before::Request {
            for client in &mut clients {
                assert_eq!(server.ask(client, &get("/first")).status, 200);
            }
        }
        server.settle();
        now_ms.fetch_add(TIMEOUT_MS + TICK_MS, Ordering::Relaxed);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                // In an order that crosses the server's.
                for client in clients.iter().rev() {
                    client.send_some(get("/late").as_bytes());
                }
            });
            start.wait();
            server.settle();
        });
        for client in &mut clients {
            server.pass_until(|_| client.is_ended() || !client.rest().is_empty());
            match client.was_reset {
                true => ends.reset += 1,
                false if client.rest().is_empty() => ends.ended += 1,
                false => ends.served += 1,
            }
        }
        // Leaves no ports that cannot be used for a while.
        clients.into_iter().for_each(Client::reset);
        server.settle();
    }
    ends
}

/// Both happen, and nothing else.
fn expect_no_reset(ends: &Ends) {
    assert!(
        ends.reset == 0 && ends.served > 0 && ends.ended > 0,
        "{ends:?}"
    );
}

#[test]
fn a_request_at_the_end_of_the_keep_alive_time_sees_no_reset() {
    expect_no_reset(&ends(Server::connect_by_tcp, Before::Request));
    expect_no_reset(&ends(Server::connect, Before::Request));
}

#[test]
fn a_first_request_at_the_end_of_its_time_sees_no_reset() {
    expect_no_reset(&ends(Server::connect_by_tcp, Before::Nothing));
    expect_no_reset(&ends(Server::connect, Before::Nothing));
}

#[test]
fn a_drain_waits_for_a_client_whose_handshake_waits_for_a_place() {
    let (mut server, now_ms) =
        Server::with_manual_clock(|config| config.limits.tls_handshakes_max = 1);
    let mut clients = [0; 2].map(|_| (TlsClient::new(), server.connect_with_tls(&configs().0)));
    for (tls, client) in &mut clients {
        tls.push(client.socket());
        server.settle();
    }
    let [(silent, silent_client), (tls, client)] = &mut clients;
    assert!(silent.pull_some(silent_client.socket(), usize::MAX));
    assert!(!tls.pull(client.socket()), "it has no place");
    server.worker.drain();
    // The one that is silent has half a second, and the place is free after it.
    now_ms.fetch_add(500 + TICK_MS, Ordering::Relaxed);
    server.pass_until(|_| {
        tls.pull(client.socket());
        tls.push(client.socket());
        !tls.is_handshaking()
    });
    assert!(silent_client.is_ended());
    tls.offer(get("/a").as_bytes());
    tls.push(client.socket());
    server.pass_until(|_| {
        tls.pull(client.socket());
        !tls.received.is_empty()
    });
    assert!(tls.received.starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn a_drain_does_not_wait_for_a_client_that_sends_its_hello_octet_by_octet() {
    const STEP_MS: u64 = 100;
    for timeout_ms in [10_000, 0] {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.timeouts.tls_handshake_timeout_ms = timeout_ms;
        });
        let mut client = server.connect_with_tls(&configs().0);
        let hello = TlsClient::new().records();
        let (first, rest) = hello.split_first().expect("octets");
        client.send_some(&[*first]);
        server.settle();
        server.worker.drain();
        let mut drained_ms = 0;
        for octet in rest.iter().take(20) {
            client.send_some(&[*octet]);
            server.settle();
            now_ms.fetch_add(STEP_MS, Ordering::Relaxed);
            drained_ms += STEP_MS;
            server.settle();
            if client.is_ended() {
                break;
            }
        }
        assert!(client.is_ended());
        assert!(
            (500..=500 + TICK_MS).contains(&drained_ms),
            "{timeout_ms}: {drained_ms}"
        );
    }
}

#[test]
fn octets_that_arrive_while_the_server_stops_cause_no_reset() {
    for connect in [Server::connect_by_tcp, Server::connect] {
        for _ in 0..30 {
            let mut server = Server::new();
            let mut clients: Vec<Client> = (0..20).map(|_| connect(&mut server)).collect();
            server.settle();
            let (start, is_over) = (Barrier::new(2), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        for client in &clients {
                            client.send_some(b"G");
                        }
                    }
                });
                start.wait();
                server.worker.stop();
                is_over.store(true, Ordering::Relaxed);
            });
            for client in &mut clients {
                assert!(client.is_ended() && !client.was_reset);
            }
        }
    }
}

#[test]
fn a_request_that_arrives_when_the_server_stops_sees_no_reset() {
    for before in [Before::Nothing, Before::Request] {
        for connect in [Server::connect_by_tcp, Server::connect] {
            let mut server = Server::new();
            let mut client = connect(&mut server);
            if before == Before::Request {
                assert_eq!(server.ask(&mut client, &get("/first")).status, 200);
            }
            server.settle();
            client.send(&get("/late"));
            server.worker.stop();
            assert!(client.is_ended() && !client.was_reset);
        }
    }
}
