//! The ceiling's few rules, byte for byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use load::ceiling::Ceiling;

static STOP: AtomicBool = AtomicBool::new(false);

fn start() -> (SocketAddr, thread::JoinHandle<u64>) {
    let mut ceiling =
        Ceiling::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 13).expect("a port");
    let address = ceiling.address();
    (
        address,
        thread::spawn(move || ceiling.run(None, &STOP).expect("a ceiling")),
    )
}

/// Sends `parts` one by one, ends the sending side, and reads to the end.
fn exchange(address: SocketAddr, parts: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("an option");
    for part in parts {
        stream.write_all(part).expect("a write");
    }
    stream.shutdown(Shutdown::Write).expect("a shutdown");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a read");
    response
}

fn count(response: &str) -> usize {
    response
        .matches("HTTP/1.1 200 OK\r\nServer: bolide\r\nDate: ")
        .count()
}

#[test]
fn the_rules() {
    let (address, serving) = start();
    let get: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let hello = exchange(address, &[get]);
    assert_eq!(hello.len(), 146);
    assert!(hello.ends_with(
        " GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\n\r\nHello, World!"
    ));
    assert_eq!(count(&exchange(address, &[&get.repeat(3)])), 3);
    for cut in 1..get.len() {
        let twice = [&get[..cut], &get[cut..], &get[..cut], &get[cut..]];
        assert_eq!(count(&exchange(address, &twice)), 2, "{cut}");
    }

    let close: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let last = exchange(address, &[close]);
    assert_eq!(
        (
            count(&last),
            last.matches("\r\nConnection: close\r\n").count()
        ),
        (1, 1)
    );
    let bench = exchange(
        address,
        &[b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"],
    );
    assert!(bench.contains("\r\nConnection: keep-alive\r\n"));
    assert!(exchange(address, &[b"GET / HTTP/1.0\r\n\r\n"]).contains("\r\nConnection: close\r\n"));

    a_reader_that_is_slow_gets_everything(address, get);
    STOP.store(true, Ordering::Relaxed);
    let expected = 1 + 3 + 2 * (get.len() as u64 - 1) + 3 + 200_000;
    assert_eq!(serving.join().expect("no panic"), expected);
}

fn a_reader_that_is_slow_gets_everything(address: SocketAddr, get: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut reader = stream.try_clone().expect("a descriptor");
    let flood = get.repeat(200_000);
    // Nothing is read before the sockets are full and the ceiling has stopped reading.
    let writing = thread::spawn(move || stream.write_all(&flood));
    let mut responses = vec![0; 200_000 * 146];
    reader.read_exact(&mut responses).expect("all responses");
    assert!(
        responses
            .chunks(146)
            .all(|response| response.ends_with(b"\r\n\r\nHello, World!"))
    );
    writing.join().expect("no panic").expect("all requests");
}
