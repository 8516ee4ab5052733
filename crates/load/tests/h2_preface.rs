//! HTTP/2: with what a server begins, and how many streams it allows.

mod fixture;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fixture::h2::{Peer, h2_plan, peers};
use fixture::{outcome, server_of_many};
use load::generator::{Address, run};
use wire::h2::frame::{push_ping, push_settings};
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

/// RFC 9113 section 5.1.2. Only the first request is sent before that is known.
#[test]
fn no_request_is_sent_while_the_server_allows_no_stream() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let address = peers(&[(settings::MAX_CONCURRENT_STREAMS, 0)], |peer| {
        while let Some((stream, _)) = peer.request() {
            SEEN.fetch_add(1, Ordering::Relaxed);
            peer.respond(stream, b"hi");
        }
    });
    let mut asked = h2_plan(address, 4, 2);
    asked.timeout = Duration::from_millis(50);
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed, report.requests_sent), (1, 3, 1));
    let timeouts = report.errors.iter().find(|it| it.1 > 0);
    assert_eq!(timeouts.map(|it| (it.0.name(), it.1)), Some(("timeout", 3)));
    assert_eq!(
        (SEEN.load(Ordering::Relaxed), report.streams_allowed),
        (1, Some(0))
    );
}

#[test]
fn requests_go_on_when_the_server_allows_streams_again() {
    let address = peers(&[(settings::MAX_CONCURRENT_STREAMS, 4)], |peer| {
        let mut served = 0;
        while let Some((stream, _)) = peer.request() {
            served += 1;
            if served == 10 {
                for limit in [0, 2] {
                    let values = [(settings::MAX_CONCURRENT_STREAMS, limit)];
                    peer.send(|out| push_settings(out, &values));
                }
            }
            peer.respond(stream, b"hi");
        }
    });
    assert_eq!(outcome(&h2_plan(address, 100, 4)), (100, Vec::new()));
}
