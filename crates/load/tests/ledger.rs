//! Every request that a server has received is in exactly one figure: before the measured time, correct, or without a response.

mod fixture;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fixture::{OK, plan, server_of_many};
use load::generator::{Address, Limit, Plan, Protocol, Report, Shape, Stage, run};

const SHORT: Duration = Duration::from_millis(100);

/// Counts requests, and responds to the first `responses` of each connection.
fn ledger(responses: usize) -> (Address, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let serve = move |mut stream: TcpStream| {
        let (mut buffer, mut seen, mut left) = ([0; 4096], Vec::new(), responses);
        while let Ok(received @ 1..) = stream.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..received]);
            while let Some(at) = seen.windows(4).position(|it| it == b"\r\n\r\n") {
                seen.drain(..at + 4);
                count.fetch_add(1, Ordering::SeqCst);
                let is_due = left > 0;
                left -= usize::from(is_due);
                if is_due && stream.write_all(OK.as_bytes()).is_err() {
                    return;
                }
            }
        }
    };
    (server_of_many(serve), counted)
}

/// Runs the plan against a correct server; its ledger, and the figures, have every request once.
fn balanced(asked: Plan) -> Report {
    let (address, count) = ledger(usize::MAX);
    let asked = Plan { address, ..asked };
    let report = run(&asked).expect("a run");
    let until = Instant::now() + Duration::from_secs(10);
    while count.load(Ordering::SeqCst) < report.requests_sent && Instant::now() < until {
        std::thread::yield_now();
    }
    let sent = report.requests_sent;
    assert_eq!(count.load(Ordering::SeqCst), sent, "{asked:?}");
    assert_eq!((report.failed, report.warm_up_failed), (0, 0), "{asked:?}");
    let known = report.warm_up_ok + report.ok + report.unfinished;
    assert_eq!(known, sent, "{asked:?}\n{report:?}");
    assert!(report.ok > 0, "{report:?}");
    let arrived = (report.requests_per_s * report.seconds).round() as u64;
    let seconds = report.per_second.iter().map(|it| it.ok);
    assert_eq!(seconds.sum::<u64>(), arrived, "{asked:?}\n{report:?}");
    report
}

fn asked(connections: usize, threads: usize) -> Plan {
    Plan {
        connections,
        threads,
        limit: Limit::Duration(SHORT),
        ..plan(Address::Internet(([127, 0, 0, 1], 0).into()), 1, 1)
    }
}

#[test]
fn without_a_warm_up_every_request_is_measured() {
    for threads in [1, 2] {
        for connections in [100, 101, 150, 201, 300] {
            let report = balanced(asked(connections, threads));
            assert_eq!(report.warm_up_ok, 0, "{report:?}");
        }
        let deep = Protocol::Http11 { pipeline_depth: 4 };
        let plans = [
            Plan {
                protocol: deep,
                ..asked(150, threads)
            },
            Plan {
                is_persistent: false,
                ..asked(120, threads)
            },
            Plan {
                limit: Limit::Requests(777),
                ..asked(150, threads)
            },
            Plan {
                shape: Shape::Rate(500.0),
                ..asked(150, threads)
            },
            Plan {
                shape: Shape::Rate(500.0),
                limit: Limit::Requests(77),
                ..asked(20, threads)
            },
        ];
        for each in plans {
            let report = balanced(each);
            assert_eq!(report.warm_up_ok, 0, "{report:?}");
        }
    }
}

#[test]
fn what_is_before_the_measured_time_has_a_figure() {
    let stage = |from, to| Stage {
        duration: SHORT,
        from,
        to,
    };
    for threads in [1, 2] {
        let plans = [
            Plan {
                warm_up: SHORT,
                ..asked(150, threads)
            },
            Plan {
                ramp_up: SHORT,
                ..asked(20, threads)
            },
            Plan {
                warm_up: SHORT,
                shape: Shape::Rate(500.0),
                ..asked(20, threads)
            },
            Plan {
                warm_up: SHORT,
                shape: Shape::Connections(vec![stage(5.0, 20.0), stage(20.0, 3.0)]),
                ..asked(20, threads)
            },
        ];
        for each in plans {
            let report = balanced(each);
            assert!(report.warm_up_ok > 0, "{report:?}");
        }
    }
}

#[test]
fn the_first_responses_of_each_connection_are_measured() {
    for threads in [1, 2] {
        for (connections, responses) in [(100, 1), (101, 1), (101, 2), (300, 1)] {
            let (address, _) = ledger(responses);
            // Nothing is sent after these responses, so a busy machine has time for all of them.
            let asked = Plan {
                address,
                limit: Limit::Duration(Duration::from_secs(2)),
                ..asked(connections, threads)
            };
            let report = run(&asked).expect("a run");
            let (all, each) = (connections as u64, responses as u64);
            assert_eq!((report.ok, report.failed), (all * each, 0), "{report:?}");
            assert_eq!(report.unfinished, all, "{report:?}");
            let served = report.connections_served;
            assert_eq!((served.min, served.max, served.starved), (each, each, 0));
        }
    }
}

#[test]
fn a_server_that_closes_idle_connections_is_not_asked_again_and_again() {
    // Each connection is closed at once if nothing was sent on it.
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let address = server_of_many(move |mut stream: TcpStream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        while fixture::read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok() {
            let _ = stream.set_read_timeout(None);
        }
    });
    let asked = Plan {
        address,
        ..asked(101, 1)
    };
    let began = Instant::now();
    let report = run(&asked).expect("a run");
    assert!(report.ok > 0, "{report:?}");
    assert_eq!(report.connections_at_start.map(|it| it <= 101), Some(true));
    // One attempt for each sweep of 50 ms at most, before the load and in it, and a few at the start.
    let sweeps = began.elapsed().as_millis() as u64 / 50;
    let opened = count.load(Ordering::SeqCst);
    assert!(opened < 101 * (sweeps + 8), "{opened}");
}
