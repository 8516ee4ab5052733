//! WebSocket: pings of a server that does not read the pongs.

mod fixture;

use std::sync::mpsc;

use fixture::server_of_many;
use fixture::websocket::{Peer, Seen, websocket_plan};
use load::generator::{WebSocket, run};
use wire::websocket::{Incoming, Kind};

#[test]
fn pings_of_a_server_that_reads_no_pongs_take_no_memory() {
    const PINGS: u32 = 300_000;
    let (send, seen) = mpsc::channel();
    let address = server_of_many(move |stream| {
        let mut peer = Peer::new(stream, "", Incoming::Plain).expect("a handshake");
        let (_, content) = peer.message().expect("a message");
        // Sockets take a few megabytes of the pongs, which are 39 megabytes.
        for number in 0..PINGS {
            let mut ping = [0; 125];
            ping[..4].copy_from_slice(&number.to_be_bytes());
            peer.push_ping(&ping);
            if number % 1000 == 999 && !peer.send() {
                return;
            }
        }
        peer.echo(Kind::Text, &content);
        let mut numbers = Vec::new();
        while numbers.last() != Some(&(PINGS - 1))
            && let Some(Seen::Pong(pong)) = peer.next()
        {
            numbers.push(u32::from_be_bytes([pong[0], pong[1], pong[2], pong[3]]));
        }
        let _ = send.send(numbers);
        while let Some((kind, content)) = peer.message() {
            peer.echo(kind, &content);
        }
    });
    let report = run(&websocket_plan(address, 2, WebSocket::default())).expect("a run");
    assert_eq!((report.ok, report.failed), (2, 0), "{report:?}");
    let numbers = seen.recv().expect("pongs");
    assert!(numbers.is_sorted_by(|one, other| one < other));
    let unanswered = u64::from(PINGS) - numbers.len() as u64;
    assert!(unanswered > 0);
    let websocket = report.websocket.expect("a report");
    assert_eq!(websocket.pings_unanswered, unanswered);
}
