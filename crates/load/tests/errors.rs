//! Every way to fail is counted in its class, exactly, and never as throughput.

mod fixture;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{
    OK, outcome, plan, read_request, responding, responding_once, server, server_of_many,
};
use load::generator::{Address, ErrorClass, Limit, Shape, run};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
const LONG: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhey";

fn failed(class: &str, count: u64) -> Vec<String> {
    vec![format!("{class} {count}")]
}

#[test]
fn a_wrong_status_fails_that_request_only() {
    let address = server(responding(&[OK, NOT_FOUND, OK, NOT_FOUND, NOT_FOUND]));
    for depth in [1, 5] {
        let found = outcome(&plan(address.clone(), 10, depth));
        assert_eq!(found, (4, failed("wrong_status", 6)), "{depth}");
    }
}

#[test]
fn a_wrong_length_fails_that_request_only() {
    let address = server(responding(&[OK, LONG, OK, OK]));
    let mut asked = plan(address, 8, 4);
    assert_eq!(outcome(&asked), (6, failed("long", 2)));
    asked.requests[0].expected.length = Some(3);
    assert_eq!(outcome(&asked), (2, failed("short", 6)));
}

#[test]
fn a_connection_that_ends_inside_a_response_fails_the_rest_of_the_batch() {
    let cut = server(responding_once(
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    ));
    assert_eq!(outcome(&plan(cut, 3, 1)), (0, failed("early_eof", 3)));
    let cut = server(responding_once("HTTP/1.1 200 OK\r\nContent-Le"));
    assert_eq!(outcome(&plan(cut, 3, 1)), (0, failed("early_eof", 3)));
    let silent = server(|mut stream| {
        for _ in 0..4 {
            read_request(&mut stream);
        }
        let _ = stream.write_all([OK, OK].concat().as_bytes());
    });
    assert_eq!(outcome(&plan(silent, 4, 4)), (2, failed("early_eof", 2)));
}

#[test]
fn a_reset_fails_the_batch() {
    // Closing a socket that holds unread bytes resets the connection.
    let address = server(|stream| {
        let _ = stream.peek(&mut [0]);
    });
    assert_eq!(outcome(&plan(address, 4, 2)), (0, failed("reset", 4)));
}

/// A server that sends what a request asks for without having read it shows nothing of what it would do with all of it.
#[test]
fn a_response_to_a_request_that_is_not_completely_sent_is_a_failure() {
    const UNTIL_CLOSED: &str = "HTTP/1.1 200 OK\r\n\r\nhi";
    for (response, is_closed) in [(OK, false), (UNTIL_CLOSED, true)] {
        let address = server(move |mut stream| {
            read_request(&mut stream);
            let _ = stream.write_all(response.as_bytes());
            if is_closed {
                let _ = stream.shutdown(Shutdown::Write);
            }
            // Its content stays unread, and the connection open.
            std::mem::forget(stream);
        });
        for depth in [1, 2] {
            let mut asked = plan(address.clone(), 4, depth);
            asked.requests[0].method = "POST".into();
            // More than the buffers of both sockets hold.
            asked.requests[0].content = Some(vec![b'x'; 64 << 20]);
            let found = outcome(&asked);
            assert_eq!(
                found,
                (0, failed("early_response", 4)),
                "{response} {depth}"
            );
        }
    }
}

#[test]
fn what_is_not_http_is_malformed() {
    let responses = [
        "HTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ];
    for response in responses {
        let address = server(responding_once(response));
        let found = outcome(&plan(address, 2, 1));
        assert_eq!(found, (0, failed("malformed", 2)), "{response}");
    }
}

#[test]
fn bytes_after_the_last_response_fail_it() {
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi?";
    let address = server(responding_once(twice));
    assert_eq!(
        outcome(&plan(address, 3, 1)),
        (0, failed("unexpected_bytes", 3))
    );
    // They are detected too if they arrive later than the response, on a connection announced to close.
    let address = server(|mut stream| {
        read_request(&mut stream);
        let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        let _ = stream.write_all(response.as_bytes());
        let _ = stream.write_all(b"surplus");
    });
    let mut asked = plan(address, 3, 1);
    asked.is_persistent = false;
    assert_eq!(outcome(&asked), (0, failed("unexpected_bytes", 3)));
}

#[test]
fn a_port_without_a_listener_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let asked = plan(Address::Internet(address), 6, 2);
    assert_eq!(outcome(&asked), (0, failed("refused", 6)));
    let asked = plan(Address::Local("/nonexistent/socket".into()), 2, 1);
    assert_eq!(outcome(&asked), (0, failed("refused", 2)));
}

#[test]
fn silence_is_a_timeout_or_at_the_end_unfinished() {
    let kept = Mutex::new(Vec::new());
    let address = server(move |stream| kept.lock().expect("a lock").push(stream));
    let mut asked = plan(address, 4, 2);
    asked.timeout = Duration::from_millis(20);
    assert_eq!(outcome(&asked), (0, failed("timeout", 4)));
    asked.timeout = Duration::from_secs(20);
    asked.connections = 3;
    asked.limit = Limit::Duration(Duration::from_millis(20));
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, report.errors.total(), report.unfinished),
        (0, 0, 6)
    );
    assert_eq!(report.requests_per_s, 0.0);
    let ages = &report.unfinished_us;
    assert_eq!(ages.iter().map(|it| it.1).sum::<u64>(), 6);
    assert!(ages.iter().all(|it| it.0 < 20_100.0), "{ages:?}");
}

#[test]
fn a_response_that_is_not_complete_in_time_is_a_timeout() {
    let address = server(|mut stream| {
        while read_request(&mut stream) {
            for byte in OK.as_bytes() {
                thread::sleep(Duration::from_millis(10));
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let mut asked = plan(address, 1, 1);
    asked.timeout = Duration::from_millis(100);
    assert_eq!(outcome(&asked), (0, failed("timeout", 1)));
    asked.timeout = Duration::from_secs(10);
    assert_eq!(outcome(&asked), (1, Vec::new()));
}

#[test]
fn bytes_on_an_idle_connection_fail_the_response_before_them() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let address = server(move |mut stream| {
        let _ = read_request(&mut stream) && stream.write_all(OK.as_bytes()).is_ok();
        let _ = stream.write_all(b"surplus");
        let _ = stream.read(&mut [0]);
        let _ = sender.lock().expect("a lock").send(());
    });
    let mut asked = plan(address, 1, 1);
    asked.shape = Shape::Rate(1.0);
    asked.limit = Limit::Duration(Duration::from_millis(900));
    let report = run(&asked).expect("a run");
    receiver.recv().expect("the connection's end");
    assert_eq!((report.ok, report.failed), (0, 1));
    assert_eq!(report.errors.get(ErrorClass::UnexpectedBytes), 1);
}

#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for() {
    let path = std::env::temp_dir().join(format!("bolide-queue-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("one");
    let name = SocketAddrUnix::new(&path).expect("a short path");
    rustix::net::bind(&socket, &name).expect("a free path");
    rustix::net::listen(&socket, 1).expect("a listener");
    let listener = UnixListener::from(socket);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                while read_request(&mut stream) {
                    let _ = stream.write_all(OK.as_bytes());
                }
            });
        }
    });
    let mut asked = plan(Address::Local(path.clone()), 2000, 1);
    asked.connections = 200;
    let report = run(&asked).expect("a run");
    let _ = std::fs::remove_file(&path);
    assert_eq!(
        (report.ok, report.failed, report.connections_opened),
        (2000, 0, 200)
    );
}

#[test]
fn a_server_that_never_stops_sending_does_not_delay_the_end() {
    // Many small chunks are sent faster than they are read, so that the socket is never found empty.
    let address = server_of_many(|mut stream| {
        read_request(&mut stream);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head);
        let chunks = b"1\r\nx\r\n".repeat(100_000);
        while stream.write_all(&chunks).is_ok() {}
    });
    let mut asked = plan(address, 1, 1);
    asked.connections = 2;
    asked.limit = Limit::Duration(Duration::from_secs(2));
    asked.timeout = Duration::from_millis(300);
    let start = Instant::now();
    let report = run(&asked).expect("a run");
    assert!(start.elapsed() < Duration::from_secs(6), "{report:?}");
    let timeouts = report.errors.get(ErrorClass::Timeout);
    assert!(timeouts >= 2, "{report:?}");
    assert_eq!((report.ok, report.failed), (0, timeouts));
}

#[test]
fn a_server_that_leaves_closing_to_the_client_is_not_waited_for_each_time() {
    let address = server_of_many(|mut stream| {
        read_request(&mut stream);
        let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        let _ = stream.write_all(response.as_bytes());
        let _ = stream.read(&mut [0]);
    });
    let start = Instant::now();
    assert_eq!(outcome(&plan(address, 100, 1)), (100, Vec::new()));
    assert!(start.elapsed() < Duration::from_secs(5));
}
