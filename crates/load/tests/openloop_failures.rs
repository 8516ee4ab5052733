//! An open loop that cannot send: it ends when it should, and its progress goes on.

mod fixture;

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use fixture::h2::{h2_plan, peers};
use fixture::open_plan;
use fixture::websocket::{Peer, websocket_plan};
use load::generator::{Address, ErrorClass, Limit, Plan, Report, Run, Shape, WebSocket};
use wire::h2::settings;
use wire::websocket::Incoming;

/// Runs until this many requests have been refused, then ends it.
fn ended_when_refused(plan: Plan, refused: u64) -> Report {
    let run = Run::start(plan).expect("a start");
    let end = Instant::now() + Duration::from_secs(20);
    while run.progress().errors.get(ErrorClass::Refused) < refused {
        assert!(Instant::now() < end && !run.wait(Duration::from_millis(20)));
    }
    run.stop();
    assert!(run.wait(Duration::from_secs(10)), "it did not end");
    run.report().expect("no error").expect("a report")
}

#[test]
fn a_websocket_that_cannot_be_opened_again_fails_its_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = Address::Internet(listener.local_addr().expect("an address"));
    // The only connection ends after three messages, and no one listens any more.
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        drop(listener);
        let mut peer = Peer::new(stream, "", Incoming::Plain).expect("a handshake");
        for _ in 0..3 {
            let (kind, content) = peer.message().expect("a message");
            peer.echo(kind, &content);
        }
    });
    let asked = Plan {
        shape: Shape::Rate(100.0),
        limit: Limit::Duration(Duration::from_secs(3600)),
        ..websocket_plan(address, 1, WebSocket::default())
    };
    let report = ended_when_refused(asked, 3);
    assert_eq!(report.ok, 3, "{report:?}");
}

#[test]
fn connections_that_fail_faster_than_they_are_opened_do_not_stop_the_clock() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = Address::Internet(listener.local_addr().expect("an address"));
    drop(listener);
    // Requests are due faster than any attempt can fail, for an hour.
    let mut asked = open_plan(address, 10_000_000.0);
    asked.limit = Limit::Duration(Duration::from_secs(3600));
    let report = ended_when_refused(asked, 1000);
    assert!(report.was_stopped && report.seconds < 60.0, "{report:?}");
}

#[test]
fn a_number_of_requests_ends_it_although_the_server_allows_no_stream() {
    let address = peers(&[(settings::MAX_CONCURRENT_STREAMS, 0)], |peer| {
        // A first request may be sent before the settings are known.
        while let Some((stream, _)) = peer.request() {
            peer.respond(stream, b"hi");
        }
    });
    let mut asked = h2_plan(address, 20, 4);
    asked.shape = Shape::Rate(1000.0);
    asked.timeout = Duration::from_millis(200);
    asked.connections = 2;
    let run = Run::start(asked).expect("a start");
    assert!(run.wait(Duration::from_secs(20)), "it did not end");
    let report = run.report().expect("no error").expect("a report");
    let timeouts = report.errors.get(ErrorClass::Timeout);
    assert!(
        timeouts >= 18 && report.streams_allowed == Some(0),
        "{report:?}"
    );
    assert_eq!((report.ok + timeouts, report.unfinished), (20, 0));
    assert_eq!(report.failed, timeouts);
    assert!(report.waited_for_connection >= Some(timeouts), "{report:?}");
}
