//! Correct responses are counted, however they are framed and split, and their number equals the server's.

mod fixture;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fixture::{outcome, plan, read_request, responding, responding_once, server};
use load::ceiling::Ceiling;
use load::generator::{Address, Limit, Plan, Protocol, run};

const NO_ERRORS: Vec<String> = Vec::new();

#[test]
fn every_framing_is_understood() {
    let persistent = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ];
    for response in persistent {
        let address = server(responding(Box::leak(Box::new([response]))));
        let found = outcome(&plan(address, 12, 4));
        assert_eq!(found, (12, NO_ERRORS), "{response}");
    }
    let closing = [
        "HTTP/1.1 200 OK\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    ];
    for response in closing {
        let address = server(responding_once(response));
        let mut asked = plan(address, 4, 1);
        asked.requests[0].expected.length = Some(5);
        assert_eq!(outcome(&asked), (4, NO_ERRORS), "{response}");
        asked.is_persistent = false;
        assert_eq!(outcome(&asked), (4, NO_ERRORS), "{response}");
    }
}

#[test]
fn requests_carry_as_much_content_as_was_asked_for() {
    for content_bytes in [0, 5, 1 << 20] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {content_bytes}\r\n\r\n");
        let request = [head.into_bytes(), vec![b'x'; content_bytes]].concat();
        let expected = request.clone();
        let address = server(move |mut stream| {
            let mut received = vec![0; expected.len()];
            while stream.read_exact(&mut received).is_ok() && received == expected {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        });
        let mut asked = plan(address, 6, 2);
        asked.requests[0].method = String::from("POST");
        asked.requests[0].host = String::from("a");
        asked.requests[0].content = Some(vec![b'x'; content_bytes]);
        assert_eq!(asked.requests[0].bytes(&asked), request);
        assert_eq!(outcome(&asked), (6, NO_ERRORS), "{content_bytes}");
    }
}

#[test]
fn requests_pipelined_after_an_announced_close_are_sent_again() {
    let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let address = server(move |mut stream| {
        for _ in 0..4 {
            read_request(&mut stream);
        }
        let _ = stream.write_all(response.as_bytes());
    });
    let mut asked = plan(address, 8, 4);
    asked.limit = Limit::Duration(Duration::from_millis(30));
    let report = run(&asked).expect("a run");
    assert_eq!(report.errors.total(), 0);
    assert!(report.ok > 1 && report.ok <= report.connections_opened);
}

#[test]
fn responses_to_head_and_without_content_have_none() {
    let address = server(responding(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    ]));
    let mut asked = plan(address, 6, 3);
    asked.requests[0].method = String::from("HEAD");
    assert_eq!(outcome(&asked), (6, NO_ERRORS));
    let address = server(responding(&["HTTP/1.1 204 No Content\r\n\r\n"]));
    let mut asked = plan(address, 6, 3);
    asked.requests[0].expected.status = Some(204);
    assert_eq!(outcome(&asked), (6, NO_ERRORS));
}

#[test]
fn a_response_may_arrive_byte_by_byte() {
    let address = server(|mut stream| {
        while read_request(&mut stream) {
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    assert_eq!(outcome(&plan(address, 9, 3)), (9, NO_ERRORS));
}

#[test]
fn a_unix_socket_serves_as_well() {
    let path = std::env::temp_dir().join(format!("bolide-load-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while read_request(&mut stream) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    let found = outcome(&plan(Address::Local(path.clone()), 20, 5));
    let _ = std::fs::remove_file(&path);
    assert_eq!(found, (20, NO_ERRORS));
}

/// Runs `plan` against a ceiling; returns (correct responses, errors, what the ceiling counted).
fn against_ceiling(size: usize, mut plan: Plan) -> (u64, u64, u64) {
    static STOP: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];
    let stop = &STOP[plan.protocol.depth() as usize % 4];
    stop.store(false, Ordering::Relaxed);
    let mut ceiling =
        Ceiling::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), size).expect("a port");
    plan.address = Address::Internet(ceiling.address());
    let serving = thread::spawn(move || ceiling.run(None, stop).expect("a ceiling"));
    let report = run(&plan).expect("a run");
    stop.store(true, Ordering::Relaxed);
    let counted = serving.join().expect("no panic");
    (report.ok, report.errors.total(), counted)
}

#[test]
fn generator_and_ceiling_count_the_same() {
    let blank = Plan {
        limit: Limit::Requests(20_000),
        ..Plan::default()
    };
    let deep = Plan {
        protocol: Protocol::Http11 { pipeline_depth: 24 },
        connections: 10,
        ..blank.clone()
    };
    assert_eq!(against_ceiling(13, deep), (20_000, 0, 20_000));
    let sleepless = Plan {
        is_sleepless: true,
        ..blank.clone()
    };
    assert_eq!(against_ceiling(13, sleepless), (20_000, 0, 20_000));
    let many = Plan {
        connections: 300,
        ..blank.clone()
    };
    assert_eq!(against_ceiling(13, many), (20_000, 0, 20_000));
    let large = Plan {
        protocol: Protocol::Http11 { pipeline_depth: 7 },
        connections: 2,
        limit: Limit::Requests(500),
        ..blank
    };
    assert_eq!(against_ceiling(300_000, large), (500, 0, 500));
}

#[test]
fn a_connection_per_request_opens_as_many_connections() {
    let mut ceiling =
        Ceiling::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 13).expect("a port");
    let address = Address::Internet(ceiling.address());
    static STOP: AtomicBool = AtomicBool::new(false);
    let serving = thread::spawn(move || ceiling.run(None, &STOP).expect("a ceiling"));
    let report = run(&Plan {
        address,
        connections: 8,
        is_persistent: false,
        source_addresses: (1..=3).map(|last| [127, 0, 0, last].into()).collect(),
        limit: Limit::Requests(1000),
        ..Plan::default()
    })
    .expect("a run");
    STOP.store(true, Ordering::Relaxed);
    assert_eq!((report.ok, report.connections_opened), (1000, 1000));
    assert_eq!(serving.join().expect("no panic"), 1000);
}
