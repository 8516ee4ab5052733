//! Counts and percentiles equal those of the same responses, counted and sorted independently.

mod fixture;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{OK, plan, responding, server, server_of_many};
use load::Histogram;
use load::generator::{Limit, Plan, Protocol, Request, Shape, Stage, run};

#[test]
fn the_histogram_agrees_with_a_sorted_list() {
    // A simple generator of spread-out numbers: the top bits of a multiplied counter.
    let values: Vec<u64> = (1u64..=100_000)
        .map(|it| it.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (30 + it % 20))
        .collect();
    let mut histogram = Histogram::new();
    values.iter().for_each(|it| histogram.record(*it, 1));
    let mut sorted = values.clone();
    sorted.sort_unstable();
    let count = sorted.len() as f64;
    for per_cent in [0.01, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
        let rank = (count * per_cent / 100.0).ceil() as usize;
        let (exact, found) = (sorted[rank - 1], histogram.percentile(per_cent));
        assert!(
            exact.abs_diff(found) * 128 <= exact,
            "{per_cent}: {exact} {found}"
        );
    }
    let mean = sorted.iter().sum::<u64>() as f64 / count;
    let squares = sorted.iter().map(|it| (*it as f64 - mean).powi(2));
    let stdev = (squares.sum::<f64>() / count).sqrt();
    assert!((histogram.mean() / mean - 1.0).abs() < 1e-9);
    assert!((histogram.stdev() / stdev - 1.0).abs() < 0.01);
    assert_eq!(
        (histogram.min(), histogram.max()),
        (sorted[0], sorted[sorted.len() - 1])
    );
    let rows: Vec<(u64, u64)> = histogram.buckets().collect();
    assert_eq!(rows.iter().map(|it| it.1).sum::<u64>(), histogram.total());
    let mut rest = &sorted[..];
    for (middle, count) in rows {
        let (part, after) = rest.split_at(count as usize);
        assert!(part.iter().all(|it| it.abs_diff(middle) * 128 <= *it));
        rest = after;
    }
}

#[test]
fn packed_histograms_add_up() {
    let mut sum = Histogram::new();
    for part in 0..3u64 {
        let mut histogram = Histogram::new();
        (0..1000).for_each(|it| histogram.record(part * 1_000_000 + it * it, 2));
        sum.merge_packed(&histogram.packed());
    }
    assert_eq!((sum.total(), sum.min(), sum.max()), (6000, 0, 2_998_001));
    assert_eq!(sum.percentile(0.0), 0);
}

/// Each request in a pipeline has the latency of its own response.
#[test]
fn latencies_agree_with_the_servers_delays() {
    const DELAY: Duration = Duration::from_millis(40);
    let address = server(|mut stream| {
        loop {
            for _ in 0..4 {
                if !fixture::read_request(&mut stream) {
                    return;
                }
            }
            for _ in 0..4 {
                let due = Instant::now() + DELAY;
                while let Some(left) = due.checked_duration_since(Instant::now()) {
                    thread::sleep(left);
                }
                let _ = stream.write_all(OK.as_bytes());
            }
        }
    });
    let report = run(&plan(address, 20, 4)).expect("a run");
    assert_eq!((report.ok, report.failed), (20, 0));
    let delay_us = DELAY.as_micros() as f64;
    let latency = report.latency_us;
    // The first of four responses arrives after one delay, the last after four.
    assert!(
        latency.min >= delay_us && latency.min < 2.0 * delay_us,
        "{latency:?}"
    );
    assert!(latency.max >= 4.0 * delay_us, "{latency:?}");
    let (p50, p75) = (latency.p50, latency.p75);
    assert!(
        p50 > 1.9 * delay_us && p50 < p75 && p75 > 2.9 * delay_us,
        "{latency:?}"
    );
    assert!(latency.mean > 2.4 * delay_us, "{latency:?}");
    let counted: u64 = report.histogram.iter().map(|it| it.1).sum();
    assert_eq!(counted, 20);
}

#[test]
fn counts_agree_with_the_servers_own() {
    for (threads, is_persistent, depth) in [(1, true, 1), (2, true, 7), (3, false, 1)] {
        let requests = Arc::new(AtomicU64::new(0));
        let connections = Arc::new(Mutex::new(0));
        let (counted, opened) = (Arc::clone(&requests), Arc::clone(&connections));
        let address = server_of_many(move |mut stream| {
            *opened.lock().expect("a lock") += 1;
            while fixture::read_request(&mut stream) {
                counted.fetch_add(1, Ordering::Relaxed);
                if stream.write_all(OK.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let asked = Plan {
            threads,
            is_persistent,
            connections: 10,
            ..plan(address, 1001, depth)
        };
        let report = run(&asked).expect("a run");
        assert_eq!((report.ok, report.failed, report.unfinished), (1001, 0, 0));
        assert_eq!(report.requests_sent, 1001);
        assert_eq!(requests.load(Ordering::Relaxed), 1001);
        assert_eq!(report.statuses.get(&200), Some(&1001));
        assert_eq!(report.content_bytes_received, 2 * 1001);
        let head_bytes = OK.len() as u64 - 2;
        assert_eq!(report.head_bytes_received, head_bytes * 1001);
        assert_eq!(report.bytes_received, OK.len() as u64 * 1001);
        assert_eq!(report.run_bytes_received, report.bytes_received);
        let expected = if is_persistent { 10 } else { 1001 };
        assert_eq!(report.connections_opened, expected);
        let seconds = report.per_second.iter();
        assert_eq!(seconds.map(|it| it.ok).sum::<u64>(), 1001);
        assert_eq!((report.first_status, report.first_content_bytes), (200, 2));
    }
}

#[test]
fn what_is_sent_in_a_duration_is_what_the_server_receives() {
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let address = server_of_many(move |mut stream| {
        while fixture::read_request(&mut stream) {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(OK.as_bytes());
        }
        let _ = sender.lock().expect("a lock").send(());
    });
    let asked = Plan {
        connections: 10,
        warm_up: Duration::from_millis(100),
        limit: Limit::Duration(Duration::from_millis(200)),
        ..plan(address, 1, 3)
    };
    let report = run(&asked).expect("a run");
    for _ in 0..10 {
        receiver.recv().expect("a connection's end");
    }
    assert_eq!(report.requests_sent, requests.load(Ordering::Relaxed));
    assert!(report.ok < report.requests_sent && report.failed == 0);
    assert!(report.bytes_received < report.run_bytes_received);
    assert!((report.seconds - 0.2).abs() < 0.02, "{}", report.seconds);
}

#[test]
fn many_connections_are_all_opened() {
    let address = server_of_many(responding(&[OK]));
    let asked = Plan {
        connections: 500,
        threads: 2,
        ..plan(address, 2000, 1)
    };
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (2000, 0));
    assert_eq!(
        (report.connections_opened, report.connections_max),
        (500, 500)
    );
}

#[test]
fn connections_follow_their_stages() {
    let open = Arc::new(Mutex::new((0i64, 0i64)));
    let count = Arc::clone(&open);
    let address = server_of_many(move |mut stream| {
        let mut counts = count.lock().expect("a lock");
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        drop(counts);
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer) {
            thread::sleep(Duration::from_millis(1));
            let _ = stream.write_all(OK.as_bytes());
        }
        count.lock().expect("a lock").0 -= 1;
    });
    let stage = |milliseconds, from, to| Stage {
        duration: Duration::from_millis(milliseconds),
        from,
        to,
    };
    let asked = Plan {
        connections: 40,
        shape: Shape::Connections(vec![stage(300, 0.0, 40.0), stage(300, 40.0, 5.0)]),
        ..plan(address, 1, 1)
    };
    let report = run(&asked).expect("a run");
    // How many are open, and how soon they are opened again, depends on how busy the machine is.
    assert_eq!(report.failed, 0);
    assert!((20..=40).contains(&report.connections_max), "{report:?}");
    assert!((5..=20).contains(&report.connections_held), "{report:?}");
    let server_max = open.lock().expect("a lock").1;
    assert!((20..=40).contains(&server_max), "{server_max}");
    assert!((report.seconds - 0.6).abs() < 0.05, "{}", report.seconds);
}

#[test]
fn responses_of_http_10_are_understood() {
    let kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi";
    let mut asked = plan(server(responding(Box::leak(Box::new([kept])))), 10, 1);
    asked.protocol = Protocol::Http10;
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.connections_opened),
        (10, 0, 1)
    );
    let ended = "HTTP/1.0 200 OK\r\nserver: old\r\n\r\nhi";
    let mut asked = plan(server(fixture::responding_once(ended)), 10, 1);
    asked.protocol = Protocol::Http10;
    asked.is_persistent = false;
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.connections_opened),
        (10, 0, 10)
    );
    assert_eq!(report.server_software, "old");
}

#[test]
fn requests_that_a_server_does_not_process_are_sent_again_in_their_turn() {
    // Each connection is closed after one of four requests, which the response announces.
    let polite = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let targets = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&targets);
    let address = server(move |mut stream| {
        let Some(target) = fixture::read_target(&mut stream) else {
            return;
        };
        thread::sleep(Duration::from_millis(5));
        seen.lock().expect("a lock").push(target);
        let _ = stream.write_all(polite.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let request = |target: &str, weight| Request {
        target: String::from(target),
        weight,
        ..Request::default()
    };
    let asked = Plan {
        requests: vec![request("/a", 3), request("/b", 1)],
        ..plan(address, 40, 4)
    };
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (40, 0));
    let targets = targets.lock().expect("a lock");
    let count = |target| targets.iter().filter(|it| **it == target).count();
    assert_eq!((count("/a"), count("/b")), (30, 10));
    // Of four, three are sent again, and the next one with them; the last batches have fewer. Latency counts from the first send.
    assert_eq!(report.requeued, 37 * 3 + 2 + 1);
    assert!(report.latency_us.max > 20_000.0, "{:?}", report.latency_us);
}
