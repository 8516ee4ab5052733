//! Which connections are closed for new ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use server::Config;
use wire::h2::ErrorCode;

use crate::harness::h2::H2Client;
use crate::harness::tls::{configs, h2_configs};
use crate::harness::{Client, Server, get};

/// Longer than nothing is searched for after nothing was found.
const REST_MS: u64 = 101;

fn with_places(connections_max: u64, set: impl FnOnce(&mut Config)) -> (Server, Arc<AtomicU64>) {
    Server::with_manual_clock(|config| {
        config.limits.connections_max = connections_max;
        config.accepts_prior_knowledge = true;
        set(config);
    })
}

/// The status for a new client, which leaves then.
fn status_of_new(server: &mut Server) -> u16 {
    let mut client = server.connect();
    client.send(&get("/new"));
    let status = server.response(&mut client).status;
    drop(client);
    server.settle();
    status
}

#[test]
fn the_oldest_idle_connection_is_closed_for_a_new_one() {
    let (mut server, now_ms) =
        Server::with_manual_clock(|config| config.limits.connections_max = 3);
    let mut working = server.connect();
    working.send(&get("/later"));
    server.settle();
    let mut idle = Vec::new();
    for _ in 0..2 {
        now_ms.fetch_add(1000, Ordering::Relaxed);
        let mut client = server.connect();
        server.ask(&mut client, &get("/a"));
        idle.push(client);
    }
    now_ms.fetch_add(1000, Ordering::Relaxed);
    let mut new = server.connect();
    assert_eq!(server.ask(&mut new, &get("/new")).content, "/new");
    server.expect_end(&mut idle[0]);
    assert_eq!(server.ask(&mut idle[1], &get("/b")).content, "/b");
    // Its request has arrived, but was not read.
    now_ms.fetch_add(1000, Ordering::Relaxed);
    server.ask(&mut new, &get("/new"));
    now_ms.fetch_add(1000, Ordering::Relaxed);
    idle[1].send(&get("/c"));
    let mut newer = server.connect();
    assert_eq!(server.ask(&mut newer, &get("/newer")).content, "/newer");
    assert_eq!(server.response(&mut idle[1]).content, "/c");
    server.expect_end(&mut new);
    server.respond(server.exchange("/later"), "done");
    assert_eq!(server.response(&mut working).content, "done");
}

#[test]
fn a_connection_is_refused_if_no_other_is_idle() {
    let mut server = Server::with(|config| config.limits.connections_max = 2);
    let mut working: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut working {
        client.send(&get("/later"));
        server.settle();
    }
    let mut new = server.connect();
    new.send(&get("/new"));
    assert_eq!(server.response(&mut new).status, 503);
}

#[test]
fn idle_connections_of_http2_are_closed_one_by_one() {
    for is_secure in [false, true] {
        let (mut server, now_ms) = with_places(3, |_| ());
        let mut clients: Vec<H2Client> = (0..3)
            .map(|_| {
                let mut client = match is_secure {
                    false => H2Client::new(server.connect()),
                    true => H2Client::with_tls(server.connect_with_tls(&h2_configs().0)),
                };
                let stream = client.open("GET", "/first", true);
                server.pass_until(|_| {
                    client.send(usize::MAX);
                    client.receive();
                    client.streams[&stream].is_complete && !client.has_pending()
                });
                now_ms.fetch_add(10, Ordering::Relaxed);
                client
            })
            .collect();
        now_ms.fetch_add(1000, Ordering::Relaxed);
        let mut new: Vec<Client> = Vec::new();
        for count in 1..=3 {
            let mut client = server.connect();
            assert_eq!(server.ask(&mut client, &get("/new")).content, "/new");
            new.push(client);
            for (number, client) in clients.iter_mut().enumerate() {
                client.receive();
                let is_closed = number < count;
                assert_eq!(client.is_ended(), is_closed, "{number} of {count}");
                let codes = client.goaways.iter().map(|(_, code)| *code);
                let expected = if is_closed {
                    &[ErrorCode::NO_ERROR][..]
                } else {
                    &[]
                };
                assert_eq!(codes.collect::<Vec<_>>(), expected);
            }
        }
        let open = server.worker.open_connections().load(Ordering::Relaxed);
        assert_eq!(open, 3);
        let line = "closed 1 idle connection for new ones: connections_max are open";
        assert_eq!(server.worker.app.refusals, [line]);
    }
}

#[test]
fn clients_that_do_not_start_their_handshakes_make_room() {
    // Nothing, and a part of a ClientHello.
    for sent in [&[][..], &[22, 3, 1, 1, 0, 1]] {
        let (mut server, now_ms) = with_places(1, |_| ());
        let mut silent = server.connect_with_tls(&configs().0);
        silent.send_some(sent);
        server.settle();
        now_ms.fetch_add(999 - REST_MS, Ordering::Relaxed);
        assert_eq!(status_of_new(&mut server), 503);
        assert!(!silent.is_ended());
        now_ms.fetch_add(REST_MS + 1, Ordering::Relaxed);
        assert_eq!(status_of_new(&mut server), 200);
        assert!(silent.is_ended());
    }
}

#[test]
fn connections_that_linger_make_room() {
    let (mut server, now_ms) = with_places(1, |_| ());
    let mut refused = server.connect_by_tcp();
    refused.send("GET / HTTP/1.1\r\nno field\r\n\r\n");
    assert_eq!(server.response(&mut refused).status, 400);
    for _ in 0..9 {
        now_ms.fetch_add(REST_MS, Ordering::Relaxed);
        refused.send_some(b"x");
        server.settle();
        assert_eq!(status_of_new(&mut server), 503);
    }
    refused.send_some(b"x");
    now_ms.fetch_add(REST_MS, Ordering::Relaxed);
    assert_eq!(status_of_new(&mut server), 200);
}

#[test]
fn nobody_loses_a_connection_for_a_client_that_is_refused() {
    let (mut server, now_ms) = with_places(3, |config| {
        config.admission.limits.client_connections_max = 2;
    });
    let mut idle = server.connect();
    assert_eq!(server.ask(&mut idle, &get("/idle")).content, "/idle");
    let own: Vec<Client> = (0..2).map(|_| server.connect_by_tcp()).collect();
    own.iter().for_each(|client| client.send(&get("/later")));
    server.settle();
    now_ms.fetch_add(1000, Ordering::Relaxed);
    for _ in 0..3 {
        now_ms.fetch_add(REST_MS, Ordering::Relaxed);
        let mut one_more = server.connect_by_tcp();
        assert_eq!(server.response(&mut one_more).status, 503);
    }
    assert!(idle.is_quiet());
    assert_eq!(server.ask(&mut idle, &get("/still")).content, "/still");
    let lines = server.worker.app.refusals.join("\n");
    assert!(!lines.contains("idle"), "{lines}");
}
