//! Pings of silent clients, and what their silence leads to.

use std::sync::atomic::Ordering;

use server::Command;

use crate::closing;
use crate::harness::Server;
use crate::harness::websocket::{Arrived, pong, text};

#[test]
fn a_silent_client_is_pinged_and_then_closed() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.open("/ws/echo");
    let pass = |server: &mut Server, ms: u64| {
        now_ms.fetch_add(ms, Ordering::Relaxed);
        server.settle();
    };
    pass(&mut server, 17_000);
    assert!(client.is_quiet());
    pass(&mut server, 3_100);
    assert_eq!(server.next(&mut client), Arrived::Ping(Vec::new()));
    client.send(&pong(b""));
    pass(&mut server, 100);
    pass(&mut server, 17_000);
    assert!(client.is_quiet());
    pass(&mut server, 3_100);
    assert_eq!(server.next(&mut client), Arrived::Ping(Vec::new()));
    pass(&mut server, 20_100);
    assert!(matches!(server.next(&mut client), Arrived::Close(1011, _)));
    let reason = "no response to a ping".to_owned();
    assert_eq!(server.closed("/ws/echo"), Some((1011, reason.clone())));
    pass(&mut server, 10_100);
    assert!(server.is_empty());
    assert_eq!(server.closed("/ws/echo"), Some((1011, reason)));
}

#[test]
fn a_client_whose_messages_wait_is_pinged_and_owes_no_pong() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.open("/ws/slow");
    client.send(&text("enough"));
    server.settle();
    for _ in 0..3 {
        now_ms.fetch_add(20_100, Ordering::Relaxed);
        server.settle();
        assert_eq!(server.next(&mut client), Arrived::Ping(Vec::new()));
        assert!(client.is_quiet());
    }
    // When the application goes on, the client has time as if it had just been heard.
    server.post(server.exchange("/ws/slow"), Command::Read);
    server.settle();
    now_ms.fetch_add(17_000, Ordering::Relaxed);
    server.settle();
    assert!(client.is_quiet());
    now_ms.fetch_add(3_100, Ordering::Relaxed);
    server.settle();
    assert_eq!(server.next(&mut client), Arrived::Ping(Vec::new()));
    now_ms.fetch_add(20_100, Ordering::Relaxed);
    assert!(matches!(server.next(&mut client), Arrived::Close(1011, _)));
}

#[test]
fn a_drain_waits_two_seconds_for_close_frames() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let mut silent = server.open("/ws/echo");
    let mut closed = server.open("/ws/post");
    server.post(server.exchange("/ws/post"), closing(1000));
    assert_eq!(
        server.next(&mut closed),
        Arrived::Close(1000, String::new())
    );
    server.worker.drain();
    let leave = Arrived::Close(1012, "the server is stopping".into());
    assert_eq!(server.next(&mut silent), leave);
    let reported = Some((1012, "the server is stopping".into()));
    assert_eq!(server.closed("/ws/echo"), reported);
    now_ms.fetch_add(1_900, Ordering::Relaxed);
    server.settle();
    assert!(!server.is_empty());
    now_ms.fetch_add(400, Ordering::Relaxed);
    server.settle();
    assert!(server.is_empty());
    assert_eq!(server.closed("/ws/echo"), reported);
    assert_eq!(server.closed("/ws/post"), Some((1006, String::new())));
}
