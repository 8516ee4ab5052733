//! Runs that are parts of one load: together they do what one run with all their threads does.

mod fixture;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fixture::{OK, open_plan, plan, read_request, responding, server_of_many};
use load::generator::{Address, Limit, Part, Plan, Record, Report, Run, Shape, Snapshot, Stage};

/// Waits until something is the case.
fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "it takes too long"
        );
        std::thread::yield_now();
    }
}

/// A server that counts what it responds to.
fn counting() -> (Address, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let address = server_of_many(move |mut stream: TcpStream| {
        while read_request(&mut stream) {
            counted.fetch_add(1, Ordering::SeqCst);
            if std::io::Write::write_all(&mut stream, OK.as_bytes()).is_err() {
                return;
            }
        }
    });
    (address, count)
}

/// Starts the parts of a load with this many threads each.
fn start_parts(whole: &Plan, threads: &[usize]) -> Vec<Run> {
    let part = |index: usize| Plan {
        threads: threads[index],
        part: Some(Part {
            threads_before: threads[..index].iter().sum(),
            threads_all: threads.iter().sum(),
        }),
        is_gated: true,
        ..whole.clone()
    };
    let run = |index| Run::start(part(index)).expect("a run");
    (0..threads.len()).map(run).collect()
}

/// Lets the load of all parts start at the same time, and returns the records.
fn records(runs: &[Run]) -> Vec<Record> {
    for run in runs {
        wait_until(|| run.is_ready());
    }
    let at_ns = net::precise_ns() + 50_000_000;
    runs.iter().for_each(|it| it.begin(at_ns));
    let record = |run: &Run| {
        assert!(run.wait(Duration::from_secs(60)));
        run.record().expect("no error").expect("the end")
    };
    runs.iter().map(record).collect()
}

fn merged(records: &[Record]) -> Report {
    let parsed = records
        .iter()
        .map(|it| Record::from_json(&it.to_json()).expect("JSON"));
    assert!(parsed.clone().eq(records.iter().cloned()));
    let all = parsed.reduce(|mut all, it| {
        all.merge(it);
        all
    });
    all.expect("records").report()
}

#[test]
fn nothing_is_sent_before_the_start_and_every_request_once() {
    for is_persistent in [true, false] {
        let (address, count) = counting();
        let mut asked = plan(address, 301, 1);
        asked.connections = 7;
        asked.is_persistent = is_persistent;
        let runs = start_parts(&asked, &[1, 2]);
        for run in &runs {
            wait_until(|| run.is_ready());
            assert!(!run.wait(Duration::from_millis(100)));
        }
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let found = records(&runs);
        let shares: Vec<u64> = found.iter().map(|it| it.report().ok).collect();
        assert_eq!(shares, [101, 200]);
        let report = merged(&found);
        assert_eq!((report.ok, report.errors.total()), (301, 0));
        assert_eq!(report.requests_sent, 301);
        assert_eq!(count.load(Ordering::SeqCst), 301);
        assert_eq!(report.histogram.iter().map(|it| it.1).sum::<u64>(), 301);
        // A connection that gets no turn before the requests are used up is not asked to do anything.
        let served = report.connections_served;
        assert!((1..=7).contains(&served.connections) && served.starved == 0);
        assert!(report.start_late_us.expect("a start") < 10e6);
        if is_persistent {
            assert_eq!(report.connections_opened, 7);
        }
    }
}

#[test]
fn a_connection_for_each_request_is_not_opened_while_the_load_waits_for_its_start() {
    let (address, _) = counting();
    let mut asked = plan(address, 50, 1);
    asked.connections = 7;
    asked.is_persistent = false;
    let runs = start_parts(&asked, &[1]);
    wait_until(|| runs[0].is_ready());
    // In this time every connection is checked several times.
    assert!(!runs[0].wait(Duration::from_secs(1)));
    let report = merged(&records(&runs));
    assert_eq!((report.ok, report.errors.total()), (50, 0));
    assert_eq!(report.connections_opened, 50);
}

#[test]
fn an_open_loop_is_divided_to_the_request() {
    let stage = |ms, from, to| Stage {
        duration: Duration::from_millis(ms),
        from,
        to,
    };
    let shapes = [
        (Shape::Rate(2000.0), 801),
        (
            Shape::Rates(vec![stage(200, 0.0, 2000.0), stage(200, 2000.0, 1003.0)]),
            501,
        ),
    ];
    for (shape, due) in shapes {
        let mut asked = open_plan(server_of_many(responding(&[OK])), 2000.0);
        asked.limit = Limit::Duration(Duration::from_micros(400_500));
        asked.shape = shape;
        asked.connections = 20;
        let runs = start_parts(&asked, &[1, 1, 1]);
        let found = records(&runs);
        let offered = |it: &Record| {
            let report = it.report();
            report.ok + report.errors.total() + report.unfinished
        };
        let shares: Vec<u64> = found.iter().map(offered).collect();
        assert_eq!(shares.iter().sum::<u64>(), due);
        assert!(
            shares.iter().all(|it| it.abs_diff(due / 3) <= 1),
            "{shares:?}"
        );
        let report = merged(&found);
        assert_eq!(report.ok + report.unfinished, due);
        assert!(report.achieved_share.is_some());
    }
}

#[test]
fn connections_of_stages_are_divided() {
    let mut asked = plan(server_of_many(responding(&[OK])), 1, 1);
    asked.connections = 7;
    asked.limit = Limit::Duration(Duration::from_millis(300));
    asked.shape = Shape::Connections(vec![Stage {
        duration: Duration::from_millis(300),
        from: 7.0,
        to: 7.0,
    }]);
    let found = records(&start_parts(&asked, &[2, 1]));
    let held = |it: &Record| it.report().connections_max;
    assert_eq!(found.iter().map(held).collect::<Vec<_>>(), [5, 2]);
    assert!(merged(&found).ok > 0);
}

#[test]
fn progress_of_parts_is_added_up() {
    let mut asked = open_plan(server_of_many(responding(&[OK])), 500.0);
    asked.limit = Limit::Duration(Duration::from_millis(400));
    let runs = start_parts(&asked, &[1, 1]);
    let snapshot = |runs: &[Run]| {
        let each = runs.iter().map(|it| it.snapshot().to_json());
        let read = each.map(|it| Snapshot::from_json(&it).expect("JSON"));
        let all = read.reduce(|mut all, it| {
            all.merge(&it);
            all
        });
        all.expect("runs").progress()
    };
    assert_eq!(snapshot(&runs).phase, "opening");
    let found = merged(&records(&runs));
    let after = snapshot(&runs);
    // What has arrived after the end is in no progress.
    let in_time = found.ok - found.drained.unwrap_or(0);
    assert_eq!((after.phase, after.ok), ("done", in_time));
    assert!(after.interval_latency_us.max > 0.0);
}

/// The thread that works most may be another one than the thread that waits most: neither hides the other.
#[test]
fn the_longest_wait_is_that_of_any_thread() {
    const SECOND_NS: u64 = 1_000_000_000;
    let (address, _) = counting();
    let whole = Plan {
        connections: 2,
        ..plan(address, 8, 1)
    };
    let found = records(&start_parts(&whole, &[1, 1]));
    let with = |index: usize, cpu_s: u64, wait_s: u64| {
        let mut json: serde_json::Value =
            serde_json::from_str(&found[index].to_json()).expect("JSON");
        json["length_ns"] = (100 * SECOND_NS).into();
        json["cpu_ns_max"] = (cpu_s * SECOND_NS).into();
        json["runnable_ns_max"] = ((cpu_s + wait_s) * SECOND_NS).into();
        json["wait_ns_max"] = (wait_s * SECOND_NS).into();
        Record::from_json(&json.to_string()).expect("a record")
    };
    let report = merged(&[with(0, 60, 0), with(1, 20, 35)]);
    assert_eq!(report.generator_cpu, 0.6);
    assert_eq!(report.generator_runnable, Some(0.6));
    assert_eq!(report.generator_waited, Some(0.35));
    // a record from before it was counted
    let mut json: serde_json::Value = serde_json::from_str(&found[0].to_json()).expect("JSON");
    json.as_object_mut()
        .expect("an object")
        .remove("wait_ns_max");
    let old = Record::from_json(&json.to_string()).expect("a record");
    assert_eq!(old.report().generator_waited, None);
}

#[test]
fn what_is_no_record_is_refused() {
    let record = records(&start_parts(
        &plan(server_of_many(responding(&[OK])), 3, 1),
        &[1],
    ));
    let text = record[0].to_json();
    assert!(Record::from_json("{}").is_err());
    let forged = text.replacen("\"total\":3", "\"total\":4", 1);
    assert_ne!(forged, text);
    let refusal = Record::from_json(&forged).expect_err("a refusal");
    assert_eq!(refusal, "a histogram is not what its counts are");
}
