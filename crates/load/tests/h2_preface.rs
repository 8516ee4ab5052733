//! HTTP/2: with what a server begins.

mod fixture;

use std::io::Write as _;
use std::net::TcpStream;

use fixture::h2::{Peer, h2_plan};
use fixture::{outcome, server_of_many};
use load::generator::{Address, run};
use wire::h2::frame::push_ping;
use wire::h2::settings;

fn respond(peer: &mut Peer<TcpStream>) {
    while let Some((stream, _)) = peer.request() {
        if !peer.respond(stream, b"hi") {
            return;
        }
    }
}

/// A server that sends these octets before its settings.
fn begins(first: Vec<u8>, values: &'static [(u16, u32)]) -> Address {
    server_of_many(move |mut stream| {
        let is_sent = stream.write_all(&first).is_ok();
        if let Some(mut peer) = Peer::new(stream, values).filter(|_| is_sent) {
            respond(&mut peer);
        }
    })
}

#[test]
fn the_first_frame_is_settings() {
    let mut first = Vec::new();
    push_ping(&mut first, [0; 8]);
    let expected = vec!["malformed 1".into()];
    assert_eq!(outcome(&h2_plan(begins(first, &[]), 1, 1)), (0, expected));
}

#[test]
fn a_server_whose_settings_arrived_speaks_http_2() {
    let violates = |values| {
        server_of_many(move |stream| {
            let mut peer = Peer::new(stream, values).expect("a connection");
            peer.request();
            // A response on a stream that was not opened.
            peer.respond(9, b"hi");
        })
    };
    let known = |address| {
        let report = run(&h2_plan(address, 3, 1)).expect("a run");
        assert_eq!((report.ok, report.failed), (0, 3), "{report:?}");
        report.settings_received
    };
    assert_eq!(known(violates(&[])), 3);
    assert_eq!(known(violates(&[(settings::ENABLE_PUSH, 1)])), 0);
    let other = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_eq!(known(server_of_many(fixture::responding_once(other))), 0);
}

#[test]
fn no_pushes_are_announced() {
    for (value, expected) in [(0, (1, vec![])), (1, (0, vec!["malformed 1".into()]))] {
        let values: &'static [(u16, u32)] = match value {
            0 => &[(settings::ENABLE_PUSH, 0)],
            _ => &[(settings::ENABLE_PUSH, 1)],
        };
        assert_eq!(
            outcome(&h2_plan(begins(Vec::new(), values), 1, 1)),
            expected
        );
    }
}
