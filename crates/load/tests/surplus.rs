//! A response that is sent twice, or before its request, invalidates what its connection had received; and connections that are not served
//! are counted.

mod fixture;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{OK, open_plan, outcome, plan, read_request, server, server_of_many};
use load::generator::{Limit, Served, Shape, run};

fn unexpected(count: u64) -> Vec<String> {
    match count {
        0 => Vec::new(),
        _ => vec![format!("unexpected_bytes {count}")],
    }
}

/// Responds to every request with `times` responses, each in a send of its own.
fn respond(stream: &mut TcpStream, times: usize) {
    while read_request(stream) {
        for _ in 0..times {
            if stream.write_all(OK.as_bytes()).is_err() {
                return;
            }
        }
    }
}

#[test]
fn responses_that_are_sent_twice_are_no_throughput() {
    let address = server_of_many(|mut stream| respond(&mut stream, 2));
    for depth in [1, 4] {
        let found = outcome(&plan(address.clone(), 2000, depth));
        assert_eq!(found, (0, unexpected(2000)), "{depth}");
    }
}

#[test]
fn one_response_before_its_request_invalidates_all_later_ones() {
    // Every request but the last gets its response at once, and the last one's arrives when nobody waits for it.
    let address = server_of_many(|mut stream| {
        let _ = stream.write_all(OK.as_bytes());
        respond(&mut stream, 1);
    });
    assert_eq!(
        outcome(&plan(address.clone(), 500, 1)),
        (0, unexpected(500))
    );
    let mut asked = plan(address, 1, 1);
    asked.limit = Limit::Duration(Duration::from_millis(200));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.requests_per_s), (0, 0.0));
    assert!(report.failed > 0);
}

#[test]
fn responses_before_the_surplus_are_invalidated_and_those_of_the_next_connection_are_not() {
    let address = server(|mut stream| {
        for _ in 0..9 {
            let _ = read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok();
        }
        let _ = read_request(&mut stream) && stream.write_all([OK, OK].concat().as_bytes()).is_ok();
        let _ = stream.read(&mut [0]);
    });
    assert_eq!(outcome(&plan(address, 105, 1)), (5, unexpected(100)));
}

#[test]
fn other_connections_keep_their_responses() {
    let accepted = AtomicUsize::new(0);
    let address = server_of_many(move |mut stream| {
        let number = accepted.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            let _ =
                read_request(&mut stream) && stream.write_all([OK, OK].concat().as_bytes()).is_ok();
            let _ = stream.read(&mut [0]);
        } else {
            respond(&mut stream, 1);
        }
    });
    let mut asked = plan(address, 200, 1);
    asked.connections = 2;
    assert_eq!(outcome(&asked), (199, unexpected(1)));
}

#[test]
fn an_open_loop_detects_a_response_without_a_request_too() {
    let address = server_of_many(|mut stream| {
        let _ = stream.write_all(OK.as_bytes());
        respond(&mut stream, 1);
    });
    let mut asked = open_plan(address, 400.0);
    asked.connections = 1;
    asked.limit = Limit::Duration(Duration::from_millis(250));
    let report = run(&asked).expect("a run");
    assert_eq!(report.ok, 0, "{report:?}");
}

#[test]
fn what_arrives_after_the_load_is_not_counted() {
    let address = server_of_many(|mut stream| respond(&mut stream, 1));
    let mut asked = plan(address, 1, 3);
    asked.limit = Limit::Duration(Duration::from_millis(100));
    let report = run(&asked).expect("a run");
    assert_eq!(report.ok + report.unfinished, report.requests_sent);
    assert!(report.failed == 0 && report.unfinished <= 3, "{report:?}");
    assert_eq!(report.bytes_received, OK.len() as u64 * report.ok);
    assert!(report.run_bytes_received >= report.bytes_received);
    assert!((report.seconds - 0.1).abs() < 0.02, "{}", report.seconds);
}

#[test]
fn connections_that_are_not_served_are_counted() {
    let accepted = AtomicUsize::new(0);
    let address = server_of_many(move |mut stream| {
        if accepted.fetch_add(1, Ordering::Relaxed) < 2 {
            respond(&mut stream, 1);
        }
        // The others are held until the client closes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut asked = plan(address, 1, 1);
    asked.connections = 5;
    asked.limit = Limit::Duration(Duration::from_millis(300));
    let report = run(&asked).expect("a run");
    let served = report.connections_served;
    assert_eq!((served.connections, served.starved), (2, 3));
    assert_eq!((served.min, served.median), (0, 0));
    assert!(served.max < report.ok && 2 * served.max >= report.ok);
    assert!(
        served.fairness > 0.19 && served.fairness < 0.41,
        "{served:?}"
    );
}

#[test]
fn only_connections_that_had_a_request_are_counted() {
    let address = server_of_many(|mut stream| respond(&mut stream, 1));
    let mut asked = plan(address, 3, 1);
    asked.connections = 10;
    let report = run(&asked).expect("a run");
    assert_eq!(report.connections_served.connections, 3);
    assert_eq!(report.connections_served.starved, 0);
    asked.connections = 1;
    asked.limit = Limit::Requests(10);
    let all = Served {
        connections: 1,
        starved: 0,
        min: 10,
        median: 10,
        max: 10,
        fairness: 1.0,
    };
    assert_eq!(run(&asked).expect("a run").connections_served, all);
    asked.is_persistent = false;
    assert_eq!(run(&asked).expect("a run").connections_served, all);
    asked.shape = Shape::Rate(1000.0);
    assert_eq!(run(&asked).expect("a run").connections_served, all);
}

#[test]
fn connections_that_had_requests_only_before_the_measured_time_are_not_counted() {
    // A hundred connections take turns: half of them have one before it.
    let mut asked = open_plan(server_of_many(|mut stream| respond(&mut stream, 1)), 250.0);
    asked.connections = 100;
    asked.warm_up = Duration::from_millis(200);
    asked.limit = Limit::Duration(Duration::from_millis(200));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed, report.warm_up_ok), (50, 0, 50));
    let served = report.connections_served;
    assert_eq!((served.connections, served.starved), (50, 0));
}
