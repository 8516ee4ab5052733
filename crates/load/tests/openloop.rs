//! An open loop: requests are sent when they are due, and latency counts from then.

mod fixture;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fixture::h2::{h2_plan, peers};
use fixture::{OK, open_plan, responding, server, server_of_many};
use load::generator::{Limit, Plan, Protocol, Report, Run, Shape, Stage, run};
use wire::h2::ErrorCode;
use wire::h2::frame::push_goaway;

fn failed(report: &Report) -> u64 {
    report.errors.total()
}

/// Responds to every request at once, but sleeps until the end of `freeze`, which starts at `after`.
fn freezing(after: Duration, freeze: Duration) -> impl Fn(TcpStream) + Send + Sync + 'static {
    let start = Instant::now();
    move |mut stream| {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let since = start.elapsed();
            if since > after && since < after + freeze {
                thread::sleep(after + freeze - since);
            }
            let requests = buffer[..count].windows(4).filter(|it| it == b"\r\n\r\n");
            if stream
                .write_all(OK.repeat(requests.count()).as_bytes())
                .is_err()
            {
                return;
            }
        }
    }
}

#[test]
fn every_request_of_the_schedule_is_sent_and_gets_a_response() {
    for (threads, depth) in [(1, 1), (3, 4)] {
        let mut asked = open_plan(server_of_many(responding(&[OK])), 2000.0);
        asked.threads = threads;
        asked.protocol = Protocol::Http11 {
            pipeline_depth: depth,
        };
        asked.limit = Limit::Duration(Duration::from_millis(500));
        let report = run(&asked).expect("a run");
        // On a busy machine the last ones may have found no free connection in time.
        assert_eq!((report.ok + report.unfinished, failed(&report)), (1000, 0));
        assert!(report.ok > 900, "{report:?}");
        assert_eq!(report.requests_sent, report.ok);
        assert_eq!(report.achieved_share, Some(report.ok as f64 / 1000.0));
        assert_eq!(report.offered_per_s, Some(2000.0));
        assert!((report.seconds - 0.5).abs() < 1e-6, "{}", report.seconds);
    }
}

#[test]
fn a_number_of_requests_ends_it() {
    let mut asked = open_plan(server_of_many(responding(&[OK])), 1000.0);
    asked.limit = Limit::Requests(77);
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, report.requests_sent, report.unfinished),
        (77, 77, 0)
    );
}

#[test]
fn a_freeze_shows_in_the_tail_from_the_intended_start() {
    let freeze = Duration::from_secs(1);
    let address = server_of_many(freezing(Duration::from_millis(500), freeze));
    let mut asked = open_plan(address, 1000.0);
    asked.connections = 10;
    asked.limit = Limit::Duration(Duration::from_millis(2500));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok + report.unfinished, failed(&report)), (2500, 0));
    // A thousand requests were due during the freeze; ten were outstanding, the others waited in the schedule.
    let slow_us = freeze.as_micros() as f64;
    assert!(
        report.latency_us.max > 0.9 * slow_us,
        "{:?}",
        report.latency_us
    );
    assert!(
        report.latency_us.p90 > 0.5 * slow_us,
        "{:?}",
        report.latency_us
    );
    let uncorrected = report.uncorrected_latency_us.expect("an open loop");
    assert!(uncorrected.p90 < 0.1 * slow_us, "{uncorrected:?}");
    assert!(uncorrected.max > 0.9 * slow_us, "{uncorrected:?}");
    // The wait for a connection is caused by the server, not by the generator.
    let lag = report.schedule_lag_us.expect("an open loop");
    assert!(lag.p99 < 0.1 * slow_us, "{lag:?}");
    assert!(report.per_second.len() == 3, "{:?}", report.per_second);
    assert!(
        report.per_second[1].p99_us > Some(0.5 * slow_us),
        "{:?}",
        report.per_second
    );
}

#[test]
fn what_is_due_and_not_sent_is_unfinished() {
    // One connection, which takes a tenth of a second for each response: five of fifty.
    let address = server(|mut stream| {
        while fixture::read_request(&mut stream) {
            thread::sleep(Duration::from_millis(100));
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let mut asked = open_plan(address, 100.0);
    asked.connections = 1;
    asked.limit = Limit::Duration(Duration::from_millis(500));
    let report = run(&asked).expect("a run");
    assert_eq!(report.ok + report.unfinished, 50);
    assert!((3..=6).contains(&report.ok), "{report:?}");
    assert_eq!(report.requests_sent, report.ok);
    // Only the first one found the connection free.
    assert_eq!(report.waited_for_connection, Some(49));
    // One is due every 10 ms: the youngest at 490 ms, and the oldest when as many were due as got a response.
    let ages = &report.unfinished_us;
    assert_eq!(ages.iter().map(|it| it.1).sum::<u64>(), report.unfinished);
    let (youngest_us, oldest_us) = (ages[0].0, ages[ages.len() - 1].0);
    assert!((9_950.0..10_050.0).contains(&youngest_us), "{ages:?}");
    let expected_us = 500_000.0 - 10_000.0 * report.ok as f64;
    assert!((oldest_us / expected_us - 1.0).abs() < 0.005, "{ages:?}");
    assert_eq!(report.offered_per_s, Some(100.0));
}

#[test]
fn without_a_listener_each_request_fails_when_it_is_due() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = load::generator::Address::Internet(listener.local_addr().expect("an address"));
    drop(listener);
    for is_persistent in [true, false] {
        let mut asked = open_plan(address.clone(), 500.0);
        asked.is_persistent = is_persistent;
        asked.limit = Limit::Requests(50);
        let report = run(&asked).expect("a run");
        assert_eq!(report.errors.get(load::generator::ErrorClass::Refused), 50);
        assert_eq!((report.ok, failed(&report)), (0, 50));
        assert_eq!(
            (report.connections_max, report.connect_latency_us.max),
            (0, 0.0)
        );
    }
}

#[test]
fn connections_that_end_are_opened_again() {
    // Each connection serves two requests and announces its end; or one, without announcing it.
    let polite = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    for depth in [1, 3] {
        let address = server_of_many(move |mut stream| {
            let _ = fixture::read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok();
            if fixture::read_request(&mut stream) {
                let _ = stream.write_all(polite.as_bytes());
            }
        });
        let mut asked = open_plan(address, 1000.0);
        asked.connections = 4;
        asked.protocol = Protocol::Http11 {
            pipeline_depth: depth,
        };
        asked.limit = Limit::Requests(200);
        let report = run(&asked).expect("a run");
        assert_eq!((report.ok, failed(&report)), (200, 0), "{depth}");
        assert!(report.connections_opened >= 100, "{report:?}");
    }
    let address = server_of_many(|mut stream| {
        let _ = fixture::read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok();
    });
    let mut asked = open_plan(address, 500.0);
    asked.is_persistent = false;
    asked.limit = Limit::Requests(100);
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, failed(&report), report.connections_opened),
        (100, 0, 100)
    );
}

#[test]
fn a_warm_up_and_stages_are_counted_apart() {
    let stage = |milliseconds, from, to| Stage {
        duration: Duration::from_millis(milliseconds),
        from,
        to,
    };
    let mut asked = open_plan(server_of_many(responding(&[OK])), 1.0);
    asked.warm_up = Duration::from_millis(200);
    asked.shape = Shape::Rates(vec![stage(300, 500.0, 1500.0), stage(200, 1500.0, 1500.0)]);
    let report = run(&asked).expect("a run");
    // 100 in the warm-up, 300 on the ramp, 300 after it.
    assert_eq!((report.ok + report.unfinished, failed(&report)), (600, 0));
    assert_eq!(report.requests_sent, 100 + report.ok);
    assert!((report.seconds - 0.5).abs() < 1e-6, "{}", report.seconds);
}

#[test]
fn a_ramp_up_is_before_the_warm_up() {
    let mut asked = open_plan(server_of_many(responding(&[OK])), 1000.0);
    asked.ramp_up = Duration::from_millis(300);
    asked.warm_up = Duration::from_millis(100);
    asked.limit = Limit::Duration(Duration::from_millis(200));
    let report = run(&asked).expect("a run");
    // 150 on the ramp, 100 in the warm-up.
    assert_eq!((report.ok + report.unfinished, failed(&report)), (200, 0));
    assert_eq!(report.requests_sent, 250 + report.ok);
    assert_eq!(report.offered_per_s, Some(1000.0));
    assert!((report.seconds - 0.2).abs() < 1e-6, "{}", report.seconds);
}

#[test]
fn a_run_can_be_watched_and_stopped() {
    let mut asked = open_plan(server_of_many(responding(&[OK])), 1000.0);
    asked.limit = Limit::Duration(Duration::from_secs(60));
    let run = Run::start(asked).expect("a start");
    assert!(run.report().expect("no error").is_none());
    let mut seen = 0.0;
    while seen < 300.0 {
        assert!(!run.wait(Duration::from_millis(20)));
        let progress = run.progress();
        seen += progress.interval_requests_per_s * progress.interval_s;
        assert!(progress.share_done < 0.5, "{progress:?}");
    }
    let progress = run.progress();
    assert!(progress.ok >= 250, "{progress:?}");
    assert_eq!(
        (progress.phase, progress.connections_held),
        ("measuring", 20)
    );
    run.stop();
    assert!(run.wait(Duration::from_secs(10)));
    assert_eq!(run.progress().phase, "done");
    let report = run.report().expect("no error").expect("a report");
    assert!(report.was_stopped && report.seconds < 30.0);
    // What was due at that moment and had not been sent is unfinished too.
    let sent = report.ok..=report.ok + report.unfinished;
    assert!(report.ok >= 250 && sent.contains(&report.requests_sent));
    assert!(report.to_json().starts_with("{\"requests_per_s\":"));
}

#[test]
fn a_late_response_has_failed() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    let address = server(move |mut stream| {
        let mut count = 0;
        while fixture::read_request(&mut stream) {
            count += 1;
            if count == 3 {
                let held = receiver.lock().expect("a lock");
                let _ = held.recv_timeout(Duration::from_millis(600));
            }
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let asked = Plan {
        deadline: Some(Duration::from_millis(500)),
        ..fixture::plan(address, 5, 1)
    };
    assert_eq!(fixture::outcome(&asked), (4, vec![String::from("late 1")]));
    drop(sender);
}

#[test]
fn waiting_awake_is_not_work() {
    // The next request is always due so soon that the thread does not sleep.
    let mut asked = open_plan(server_of_many(responding(&[OK])), 25_000.0);
    asked.limit = Limit::Requests(2500);
    asked.deadline = Some(Duration::from_secs(20));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, failed(&report)), (2500, 0));
    assert!(report.generator_cpu < 0.9, "{}", report.generator_cpu);
    // A send and a read.
    let work_ns = report.cpu_ns_per_request;
    assert!(work_ns > 2_000.0, "{work_ns}");
}

#[test]
fn what_arrives_after_the_end_is_no_part_of_the_rate() {
    // A response takes 20 ms, one after the other: 50 of 70 in a second, the others after it.
    let turn = std::sync::Mutex::new(());
    let address = server_of_many(move |mut stream| {
        while fixture::read_request(&mut stream) {
            let held = turn.lock().expect("a lock");
            thread::sleep(Duration::from_millis(20));
            drop(held);
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let mut asked = open_plan(address, 70.0);
    asked.connections = 70;
    asked.limit = Limit::Duration(Duration::from_secs(1));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, failed(&report), report.unfinished), (70, 0, 0));
    assert_eq!(report.achieved_share, Some(1.0));
    let drained = report.drained.expect("an open loop");
    assert!(drained >= 20, "{report:?}");
    assert_eq!(report.requests_per_s, (70 - drained) as f64);
    let in_seconds = report.per_second.iter().map(|it| it.ok).sum::<u64>();
    assert_eq!(in_seconds, 70 - drained);
    let (half, end) = (report.backlog_half, report.backlog_end);
    assert!(half < end && end >= Some(drained - 2), "{half:?} {end:?}");
}

#[test]
fn a_rate_that_is_achieved_has_no_backlog() {
    let mut asked = open_plan(server_of_many(responding(&[OK])), 100.0);
    asked.warm_up = Duration::from_millis(200);
    asked.limit = Limit::Duration(Duration::from_millis(500));
    let report = run(&asked).expect("a run");
    let drained = report.drained.expect("an open loop");
    assert_eq!(report.ok, 50, "{report:?}");
    assert!(drained <= 5 && report.backlog_end <= Some(5), "{report:?}");
    assert!(report.waited_for_connection < Some(10), "{report:?}");
    // Responses to requests that were due before the measured time are a part of its rate.
    let least = (50 - drained) as f64 / 0.5;
    assert!(report.requests_per_s >= least, "{report:?}");
}

#[test]
fn a_second_without_responses_has_no_latency() {
    let stage = |milliseconds, rate| Stage {
        duration: Duration::from_millis(milliseconds),
        from: rate,
        to: rate,
    };
    let mut asked = open_plan(server_of_many(responding(&[OK])), 1.0);
    asked.shape = Shape::Rates(vec![stage(1000, 0.0), stage(200, 500.0)]);
    let report = run(&asked).expect("a run");
    let [silent, busy] = &report.per_second[..] else {
        panic!("{:?}", report.per_second);
    };
    assert_eq!((silent.ok, silent.p50_us, silent.max_us), (0, None, None));
    assert!(busy.ok > 0 && busy.p99_us > Some(0.0), "{busy:?}");
}

#[test]
fn what_is_outstanding_grows_older_while_it_is_waited_for() {
    let address = server_of_many(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut asked = open_plan(address, 100.0);
    asked.connections = 1;
    asked.limit = Limit::Duration(Duration::from_millis(100));
    let run = Run::start(asked).expect("a start");
    while run.progress().elapsed_s < 0.5 {
        assert!(!run.wait(Duration::from_millis(20)));
    }
    run.stop();
    assert!(run.wait(Duration::from_secs(10)));
    let report = run.report().expect("no error").expect("a report");
    assert_eq!((report.ok, report.unfinished), (0, 10));
    // One was sent at the start; the others were only due, until the measured time was over.
    let ages = &report.unfinished_us;
    let (oldest_us, count) = ages[ages.len() - 1];
    assert!(oldest_us > 450_000.0 && count == 1, "{ages:?}");
    assert!(ages[ages.len() - 2].0 < 100_000.0, "{ages:?}");
}

#[test]
fn a_request_that_a_server_refused_late_is_not_the_generators_delay() {
    let has_refused = AtomicBool::new(false);
    let address = peers(&[], move |peer| {
        let mut last = 0;
        while let Some((stream, _)) = peer.request() {
            if last > 0 && !has_refused.swap(true, Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(600));
                peer.send(|out| push_goaway(out, last, ErrorCode::NO_ERROR, ""));
                return;
            }
            last = stream;
            peer.respond(stream, b"hi");
        }
    });
    // It is sent again on one of the connections that were free when it was due.
    let mut asked = h2_plan(address, 130, 1);
    asked.shape = Shape::Rate(80.0);
    asked.connections = 60;
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed, report.requeued), (130, 0, 1));
    let lag = report.schedule_lag_us.expect("an open loop");
    assert!(lag.max < 300_000.0, "{lag:?}");
    assert!(report.latency_us.max > 600_000.0, "{report:?}");
}

#[test]
fn a_request_that_is_refused_after_the_time_is_not_sent_again() {
    let address = peers(&[], |peer| {
        if let Some((stream, _)) = peer.request() {
            peer.respond(stream, b"hi");
            peer.request();
            // The time is over after 200 ms. The end follows at once, so that another connection could be opened.
            thread::sleep(Duration::from_millis(500));
            peer.send(|out| push_goaway(out, stream, ErrorCode::NO_ERROR, ""));
            peer.end();
        }
    });
    let mut asked = h2_plan(address, 1, 1);
    asked.shape = Shape::Rate(100.0);
    asked.limit = Limit::Duration(Duration::from_millis(200));
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.unfinished), (1, 19), "{report:?}");
    assert_eq!((report.requeued, report.connections_opened), (1, 1));
}
