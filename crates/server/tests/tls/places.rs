//! Handshakes are given a limited number of places: who waits for one, and who loses it.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use super::harness::Server;
use super::harness::tls::End;
use super::{Client, has_response};

/// The time until the server responds to what a client sent, in steps of 100 ms.
fn response_after_ms(server: &mut Server, now_ms: &AtomicU64, client: &mut Client) -> u64 {
    let began_ms = now_ms.load(Ordering::Relaxed);
    while !has_response(client) {
        let passed_ms = now_ms.fetch_add(100, Ordering::Relaxed) - began_ms;
        assert!(passed_ms <= 3000, "it has no place");
        server.settle();
        server.settle();
    }
    now_ms.load(Ordering::Relaxed) - began_ms
}

#[test]
fn clients_that_are_gone_do_not_wait_for_a_place() {
    let mut server = Server::with(|config| config.limits.tls_handshakes_max = 1);
    let mut clients = [0; 5].map(|_| Client::connect(&mut server));
    for client in &mut clients {
        client.tls.push(&client.socket);
        server.settle();
    }
    let [first, second, third, fourth, mut last] = clients;
    drop([second, third, fourth]);
    server.settle();
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 2);
    // The place of one that is gone is free at once.
    drop(first);
    last.shake_hands(&mut server);
}

#[test]
fn a_client_waits_for_a_place_and_one_that_keeps_it_for_long_loses_it() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.limits.tls_handshakes_max = 2;
    });
    let mut clients = [0; 3].map(|_| Client::connect(&mut server));
    for client in &mut clients {
        client.tls.push(&client.socket);
        server.settle();
    }
    let [first, silent, third] = &mut clients;
    assert!(!has_response(third), "it has no place");
    now_ms.fetch_add(1200, Ordering::Relaxed);
    first.shake_hands(&mut server);
    third.shake_hands(&mut server);
    // Nobody waits: a client that is silent keeps its place.
    now_ms.fetch_add(3000, Ordering::Relaxed);
    server.settle();
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 3);
    let mut others = [Client::connect(&mut server), Client::connect(&mut server)];
    for client in &mut others {
        client.tls.push(&client.socket);
        server.settle();
    }
    assert!(!has_response(&mut others[1]));
    // It gets the place of the oldest.
    assert!(response_after_ms(&mut server, &now_ms, &mut others[1]) <= 1000);
    server.pass_until(|_| {
        silent.tls.pull(&silent.socket);
        silent.tls.end.is_some()
    });
    assert_eq!(silent.tls.end, Some(End::Silent));
    for client in &mut others {
        client.shake_hands(&mut server);
    }
    let line = "1 TLS handshake failed: a local client: it was slow, and others waited for its place: tls_handshakes_max (2) have one";
    assert_eq!(server.worker.app.refusals, [line]);
}

#[test]
fn a_client_keeps_its_place_when_those_that_waited_are_gone() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.limits.tls_handshakes_max = 1;
    });
    let mut silent = Client::connect(&mut server);
    silent.tls.push(&silent.socket);
    server.settle();
    let mut others = [0; 2].map(|_| Client::connect(&mut server));
    for client in &mut others {
        client.tls.push(&client.socket);
    }
    server.settle();
    drop(others);
    server.settle();
    assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 1);
    // One that has a place goes on, so the queues are looked through.
    let socket = silent.socket.try_clone().expect("a descriptor");
    let part = [20, 3, 3, 0, 1];
    UnixStream::from(socket).write_all(&part).expect("room");
    server.settle();
    for _ in 0..8 {
        now_ms.fetch_add(1000, Ordering::Relaxed);
        server.settle();
        assert_eq!(server.worker.open_connections().load(Ordering::Relaxed), 1);
    }
}

#[test]
fn octets_that_are_no_whole_hello_keep_no_place() {
    let mut server = Server::with(|config| config.limits.tls_handshakes_max = 2);
    let mut slow = [0; 10].map(|_| Client::connect(&mut server));
    let mut hellos: Vec<Vec<u8>> = slow.iter_mut().map(|client| client.tls.records()).collect();
    let mut send = |server: &mut Server, count: usize| {
        for (client, hello) in slow.iter().zip(&mut hellos) {
            let socket = client.socket.try_clone().expect("a descriptor");
            let part: Vec<u8> = hello.drain(..count.min(hello.len())).collect();
            UnixStream::from(socket).write_all(&part).expect("room");
        }
        server.settle();
    };
    for _ in 0..50 {
        send(&mut server, 1);
        let mut client = Client::connect(&mut server);
        client.tls.push(&client.socket);
        server.settle();
        assert!(has_response(&mut client), "it waits for no other");
        client.shake_hands(&mut server);
    }
    send(&mut server, usize::MAX);
    for client in &mut slow {
        client.shake_hands(&mut server);
    }
}

#[test]
fn a_place_is_kept_for_a_shorter_time_if_many_wait() {
    for (waiting, kept_ms) in [(1, 1000), (2, 600), (20, 500)] {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.limits.tls_handshakes_max = 1;
        });
        let mut silent = Client::connect(&mut server);
        silent.tls.push(&silent.socket);
        server.settle();
        let mut others: Vec<Client> = (0..waiting).map(|_| Client::connect(&mut server)).collect();
        for client in &mut others {
            client.tls.push(&client.socket);
            server.settle();
        }
        let lost_ms = response_after_ms(&mut server, &now_ms, &mut others[0]);
        assert!(
            (kept_ms..kept_ms + 800).contains(&lost_ms),
            "{waiting}: {lost_ms}"
        );
    }
}
