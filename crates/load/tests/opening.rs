//! How connections are opened: at which pace, and what happens if a server's queue is full or it resets them.

mod fixture;

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{OK, outcome, plan, read_request, responding, server_of_many};
use load::generator::{Address, ErrorClass, Limit, Plan, run};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

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

/// A UNIX socket whose queue has room for one connection.
fn narrow(name: &str) -> (UnixListener, PathBuf) {
    let name = format!("bolide-load-{name}-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    let address = SocketAddrUnix::new(Path::new(&path)).expect("a path");
    bind(&listener, &address).expect("an address");
    listen(&listener, 0).expect("a listener");
    (UnixListener::from(listener), path)
}

#[test]
fn a_queue_that_stays_full_is_a_failure() {
    for is_persistent in [true, false] {
        let (listener, path) = narrow("full");
        let asked = Plan {
            connections: 2,
            is_persistent,
            timeout: Duration::from_millis(200),
            ..plan(Address::Local(path.clone()), 2, 1)
        };
        // The first connection is in the queue; the second has no place there.
        let failures = ["connect 1", "timeout 1"].map(String::from).to_vec();
        assert_eq!(outcome(&asked), (0, failures));
        drop(listener);
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn the_wait_for_a_place_in_the_queue_is_a_part_of_connecting() {
    const LATE: Duration = Duration::from_millis(300);
    for is_persistent in [true, false] {
        let (listener, path) = narrow("slow");
        let begin = Instant::now();
        thread::spawn(move || {
            thread::sleep(LATE);
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    while read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok() {}
                });
            }
        });
        let asked = Plan {
            connections: 2,
            is_persistent,
            ..plan(Address::Local(path.clone()), 2, 1)
        };
        let report = run(&asked).expect("a run");
        assert_eq!((report.ok, report.failed), (2, 0));
        let late_us = LATE.as_micros() as f64 * 0.8;
        assert!(begin.elapsed() >= LATE);
        assert!(report.connect_latency_us.max > late_us, "{report:?}");
        // With a connection for each request, both wait for the server from their connect on.
        let waited = report.latency_us.min > late_us;
        assert!(is_persistent || waited, "{:?}", report.latency_us);
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn after_a_lost_request_the_next_connection_is_opened_at_once() {
    let count = AtomicU64::new(0);
    let address = server_of_many(move |mut stream| {
        let is_lost = count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        if read_request(&mut stream) && !is_lost {
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let asked = Plan {
        is_persistent: false,
        ..plan(address, 200, 1)
    };
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (100, 100), "{report:?}");
    // Each of the hundred would wait for a sweep, which takes up to 50 ms.
    assert!(report.seconds < 2.0, "{}", report.seconds);
}

#[test]
fn what_prevented_connections_is_counted() {
    let cause = |address, connections| {
        let asked = Plan {
            connections,
            timeout: Duration::from_millis(200),
            ..plan(address, connections as u64, 1)
        };
        let report = run(&asked).expect("a run");
        assert_eq!((report.ok, report.failed), (0, connections as u64));
        report.connect_failures.into_iter().collect::<Vec<_>>()
    };
    let (listener, path) = narrow("cause");
    assert_eq!(
        cause(Address::Local(path.clone()), 3),
        [(String::from("full_queue"), 2)]
    );
    drop(listener);
    let _ = std::fs::remove_file(path);
    // A file that is no socket refuses.
    let file = std::env::current_exe().expect("a path");
    assert!(cause(Address::Local(file), 2).is_empty());
}

#[test]
fn a_full_queue_of_tcp_is_no_answer() {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    bind(&listener, &any).expect("a port");
    listen(&listener, 0).expect("a listener");
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().expect("an address");
    let asked = Plan {
        connections: 4,
        timeout: Duration::from_millis(300),
        ..plan(Address::Internet(address), 4, 1)
    };
    let report = run(&asked).expect("a run");
    let of = |class| report.errors.get(class);
    let lost = of(ErrorClass::Connect);
    // How many fit into the queue is the kernel's choice; they have no response.
    assert!(lost >= 2 && of(ErrorClass::Timeout) >= 1, "{report:?}");
    assert_eq!(lost + of(ErrorClass::Timeout), 4);
    assert_eq!(report.connect_failures.get("no_answer"), Some(&lost));
}

#[test]
fn a_ramp_up_opens_connections_evenly() {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let begin = Instant::now();
    let arrivals = Arc::clone(&opened);
    let serve = responding(&[OK]);
    let address = server_of_many(move |stream| {
        arrivals.lock().expect("a lock").push(begin.elapsed());
        serve(stream);
    });
    let asked = Plan {
        connections: 21,
        ramp_up: Duration::from_millis(400),
        limit: Limit::Duration(Duration::from_millis(200)),
        ..plan(address, 1, 1)
    };
    let report = run(&asked).expect("a run");
    assert_eq!((report.connections_opened, report.failed), (21, 0));
    assert!((report.seconds - 0.2).abs() < 0.05, "{}", report.seconds);
    let mut times = opened.lock().expect("a lock").clone();
    times.sort();
    // The first is due at the start, and the last at the end of the ramp.
    assert!(
        times[20] - times[0] > Duration::from_millis(350),
        "{times:?}"
    );
}
