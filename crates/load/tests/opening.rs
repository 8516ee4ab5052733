//! How connections are opened.

mod fixture;

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fixture::{OK, plan, read_request, responding, server_of_many};
use load::generator::{Address, Limit, Plan, run};

/// Responds to nothing before this many connections have sent a request.
fn patient(connections: usize) -> Address {
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    server_of_many(move |mut stream| {
        let (count, changed) = &*arrived;
        let is_first = read_request(&mut stream);
        let mut seen = count.lock().expect("a lock");
        *seen += usize::from(is_first);
        changed.notify_all();
        let all = changed.wait_while(seen, |it| *it < connections);
        drop(all.expect("a lock"));
        while stream.write_all(OK.as_bytes()).is_ok() && read_request(&mut stream) {}
    })
}

#[test]
fn connections_are_opened_before_others_have_responses() {
    let asked = Plan {
        connections: 250,
        limit: Limit::Duration(Duration::from_millis(200)),
        ..plan(patient(250), 1, 1)
    };
    let report = run(&asked).expect("a run");
    assert_eq!(report.connections_at_start, Some(250), "{report:?}");
    assert_eq!((report.connections_max, report.failed), (250, 0));
    assert!(report.ok > 0, "{report:?}");
}

#[test]
fn the_connections_at_the_start_are_those_that_the_load_waited_for() {
    let at_start = |connections, limit| {
        let asked = Plan {
            connections,
            limit,
            ..plan(server_of_many(responding(&[OK])), 1, 1)
        };
        run(&asked).expect("a run").connections_at_start
    };
    let short = Limit::Duration(Duration::from_millis(50));
    assert_eq!(at_start(101, short), Some(101));
    // Few connections are opened at once, and a number of requests includes the time that this takes.
    assert_eq!(at_start(100, short), None);
    assert_eq!(at_start(101, Limit::Requests(200)), None);
}
