//! The server closes connections while their clients send: they see an end, not a reset, and those that wait for the server are served.

mod harness;

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

use harness::connected::TICK_MS;
use harness::tls::{TlsClient, configs};
use harness::{Client, Server, get};

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
