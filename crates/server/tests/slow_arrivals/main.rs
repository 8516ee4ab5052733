//! Requests that arrive slowly make room for new connections, when there are as many as may be and none is idle.

#[path = "../harness/mod.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::connected::Connected;
use harness::{Client, Server, get};
use server::Abort;

fn server(connections_max: u64) -> (Server, Arc<AtomicU64>) {
    Server::with_manual_clock(|config| {
        config.limits.connections_max = connections_max;
        config.accepts_prior_knowledge = true;
    })
}

/// Connects, and sends a part of a long content.
fn upload(server: &mut Server, target: &str, bytes: usize) -> Client {
    let client = server.connect();
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client.send(&(head + &"x".repeat(bytes)));
    server.settle();
    client
}

fn expect_503(server: &mut Server, client: &mut Client) {
    let response = server.response(client);
    assert_eq!((response.status, response.is_last()), (503, true));
    assert_eq!(response.get("retry-after"), Some("1"));
    server.expect_end(client);
}

fn is_served(server: &mut Server) -> bool {
    let mut client = server.connect();
    client.send(&get("/new"));
    let is_served = server.response(&mut client).status == 200;
    client.reset();
    server.settle();
    is_served
}

#[test]
fn the_slowest_ends_first_and_a_fast_one_never() {
    let (mut server, now_ms) = server(3);
    let mut slow = upload(&mut server, "/read/slow", 400);
    let mut slower = upload(&mut server, "/parts/slower", 40);
    let mut fast = upload(&mut server, "/read/fast", 50_000);
    now_ms.fetch_add(1999, Ordering::Relaxed);
    assert!(
        !is_served(&mut server),
        "after so little time, nobody is slow"
    );
    now_ms.fetch_add(101, Ordering::Relaxed);
    assert!(is_served(&mut server));
    expect_503(&mut server, &mut slower);
    assert_eq!(server.abort_of("/parts/slower"), Some(Abort::Refused));
    assert!(slow.is_quiet() && fast.is_quiet());
    let again = upload(&mut server, "/later/again", 10);
    assert!(is_served(&mut server));
    expect_503(&mut server, &mut slow);
    // One that no handler asks for is not late, and neither is a fast one.
    let handled = upload(&mut server, "/later/handled", 10);
    now_ms.fetch_add(5000, Ordering::Relaxed);
    assert!(!is_served(&mut server));
    assert!(fast.is_quiet());
    drop((again, handled));
}

#[test]
fn what_has_arrived_counts_before_it_is_read() {
    let (mut server, now_ms) = server(2);
    let mut slower = server.connect();
    slower.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let mut slow = upload(&mut server, "/read/slow", 400);
    now_ms.fetch_add(2500, Ordering::Relaxed);
    // As when a handler has blocked the worker meanwhile.
    slower.send("\r\n");
    assert!(is_served(&mut server));
    expect_503(&mut server, &mut slow);
    assert_eq!(server.response(&mut slower).content, "/");
}

#[test]
fn idle_connections_end_before() {
    let (mut server, now_ms) = server(2);
    let mut slow = upload(&mut server, "/read/slow", 1);
    let mut idle = server.connect();
    now_ms.fetch_add(3000, Ordering::Relaxed);
    assert!(is_served(&mut server));
    server.expect_end(&mut idle);
    assert!(slow.is_quiet());
}

#[test]
fn parts_of_heads_make_room() {
    let (mut server, now_ms) = server(1);
    for part in ["GET / HTTP/1.1\r\nHost", "PRI * HT"] {
        let mut client = server.connect();
        client.send(part);
        server.settle();
        now_ms.fetch_add(2000, Ordering::Relaxed);
        assert!(is_served(&mut server), "{part:?}");
        server.pass_until(|_| client.is_ended());
    }
}

#[test]
fn the_log_says_how_many() {
    let (mut server, now_ms) = server(1);
    let mut slow = upload(&mut server, "/read/slow", 1);
    now_ms.fetch_add(2000, Ordering::Relaxed);
    assert!(is_served(&mut server));
    expect_503(&mut server, &mut slow);
    let line = "ended 1 request that arrived slowly, for new connections: connections_max are open";
    assert_eq!(server.worker.app.refusals, [line]);
}

#[test]
fn streams_whose_content_arrives_slowly_make_room() {
    let mut it = Connected::with(|config| config.limits.connections_max = 1);
    let streams = [
        it.client.open("POST", "/read", false),
        it.client.open("POST", "/parts", false),
    ];
    for stream in streams {
        it.client.data(stream, b"part", false);
    }
    it.settle();
    it.advance(2000);
    assert!(is_served(&mut it.server));
    it.client.receive();
    for stream in streams {
        assert_eq!(it.status(stream), 503);
    }
    assert_eq!(it.client.goaways.len(), 1);
    assert!(it.client.is_ended());
}

#[test]
fn a_connection_with_a_running_handler_stays() {
    let mut it = Connected::with(|config| config.limits.connections_max = 1);
    let upload = it.client.open("POST", "/read", false);
    it.client.data(upload, b"part", false);
    it.client.open("GET", "/later", true);
    it.settle();
    it.advance(3000);
    assert!(!is_served(&mut it.server));
    assert_eq!(it.status(upload), 0);
}
