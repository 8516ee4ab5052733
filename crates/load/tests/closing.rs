//! Which side closes a connection whose end the server has announced.

mod fixture;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fixture::{outcome, plan, read_request, server_of_many};
use rustix::net::sockopt::set_tcp_cork;

const POLITE: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";

/// Waits until the client closes, for as long; returns whether it does.
fn is_closed_by_client(stream: &mut TcpStream, milliseconds: u64) -> bool {
    let timeout = Some(Duration::from_millis(milliseconds));
    stream.set_read_timeout(timeout).expect("a timeout");
    matches!(stream.read(&mut [0]), Ok(0))
}

/// How long a server waits that would close itself.
const SHORT_MS: u64 = 10;
/// How long one waits that leaves closing to the client.
const LONG_MS: u64 = 2000;

/// Sends a hundred requests on a connection each, of which so many are open at a time, to a server that behaves in this way after each
/// request. Returns on how many of them it says that the client has closed.
fn closed_by_client(
    connections: usize,
    behave: impl Fn(u64, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> u64 {
    let (count, closed) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&closed);
    let address = server_of_many(move |mut stream| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        if read_request(&mut stream) && behave(number, &mut stream) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut asked = plan(address, 100, 1);
    (asked.connections, asked.is_persistent) = (connections, false);
    assert_eq!(outcome(&asked), (100, Vec::new()));
    closed.load(Ordering::Relaxed)
}

#[test]
fn a_server_that_closes_late_once_closes_the_other_connections() {
    // One connection, or all that are open at the time.
    for late in [1, 20] {
        let closed = closed_by_client(late as usize, move |number, stream| {
            let _ = stream.write_all(POLITE);
            is_closed_by_client(stream, if number < late { LONG_MS } else { SHORT_MS })
        });
        assert!((late..late + 10).contains(&closed), "{closed}");
    }
}

#[test]
fn a_server_that_closes_again_is_waited_for_again() {
    let closed = closed_by_client(1, |number, stream| {
        if number == 10 {
            // The end arrives with the response.
            set_tcp_cork(&*stream, true).expect("an option");
            let _ = stream.write_all(POLITE);
            let _ = stream.shutdown(Shutdown::Write);
            return false;
        }
        let _ = stream.write_all(POLITE);
        is_closed_by_client(stream, if number < 10 { LONG_MS } else { SHORT_MS })
    });
    assert!((10..20).contains(&closed), "{closed}");
}
