//! What one pass may do, and what it leaves to the next: posted commands, deadlines, and the ends of connections.

#[path = "../harness/mod.rs"]
mod harness;

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harness::tls::{TlsClient, configs};
use harness::{Client, Server, get, response};
use server::{Abort, Command, ExchangeId, HeldPart};

/// A part that takes time to be copied.
#[derive(Debug)]
struct Slow {
    text: String,
    clock_ms: Arc<AtomicU64>,
    copied: Arc<AtomicUsize>,
}

impl HeldPart for Slow {
    fn bytes(&self) -> &[u8] {
        self.clock_ms.fetch_add(1, Ordering::Relaxed);
        self.copied.fetch_add(1, Ordering::Relaxed);
        self.text.as_bytes()
    }
}

const PARTS: usize = 3000;

/// A response of which [`PARTS`] slow parts are posted. Returns how many of them were copied.
fn post_slow_parts(server: &Server, id: ExchangeId, clock_ms: &Arc<AtomicU64>) -> Arc<AtomicUsize> {
    post_slow_parts_of(server, id, clock_ms, PARTS)
}

fn post_slow_parts_of(
    server: &Server,
    id: ExchangeId,
    clock_ms: &Arc<AtomicU64>,
    parts: usize,
) -> Arc<AtomicUsize> {
    let copied = Arc::default();
    server.post(id, Command::Begin(response(200, "")));
    for number in 0..parts {
        let part = Slow {
            text: format!("{number:04};"),
            clock_ms: Arc::clone(clock_ms),
            copied: Arc::clone(&copied),
        };
        server.post(id, Command::WriteHeld(Box::new(part)));
    }
    server.post(id, Command::Finish);
    copied
}

fn slow_content() -> String {
    (0..PARTS).map(|number| format!("{number:04};")).collect()
}

#[test]
fn commands_that_take_longer_than_a_pass_wait_for_the_next() {
    let (mut server, clock_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    let mut other = server.connect();
    client.send(&get("/later"));
    server.settle();
    let copied = post_slow_parts(&server, server.exchange("/later"), &clock_ms);
    other.send(&get("/other"));
    assert_eq!(server.worker.before_wait(), Some(0));
    let first = copied.load(Ordering::Relaxed);
    assert!((20..200).contains(&first), "{first}");
    server.pass();
    assert_eq!(
        other.take_response("GET").expect("a turn").content,
        "/other"
    );
    let served = copied.load(Ordering::Relaxed);
    assert!(served < PARTS, "{served}");
    assert_eq!(server.response(&mut client).content, slow_content());
}

#[test]
fn what_was_executed_in_a_long_pass_is_sent_between_it_and_the_next() {
    let (mut server, clock_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    server.worker.before_wait();
    server.worker.wait(Some(0)).expect("the epoll set works");
    // The clock is read after 64 commands, and the pass is over then.
    post_slow_parts_of(&server, id, &clock_ms, 62);
    server.worker.dispatch();
    assert!(client.is_quiet(), "the pass was not too long");
    server.worker.send_posted();
    let response = client.take_response("GET").expect("all of it");
    assert!(response.content.ends_with("0061;"));
    assert!(!server.worker.send_posted(), "nothing is left");
}

#[test]
fn a_handshake_goes_on_if_a_command_for_the_connection_before_gave_it_a_turn() {
    let (mut server, clock_ms) = Server::with_manual_clock(|_| ());
    let gone = server.connect();
    gone.send(&get("/later/gone"));
    server.settle();
    let stale = server.exchange("/later/gone");
    drop(gone);
    server.pass_until(|server| server.is_empty());
    // This one has the slot of the one that is gone.
    let client = server.connect_with_tls(&configs().0);
    let mut other = server.connect();
    other.send(&get("/later"));
    server.settle();
    server.post(stale, Command::Finish);
    let id = server.exchange("/later");
    assert_eq!(id.connection(), 1 - stale.connection());
    post_slow_parts(&server, id, &clock_ms);
    // The commands take the whole pass, so each connection that they touched gets a turn in the next.
    assert_eq!(server.worker.before_wait(), Some(0));
    let mut tls = TlsClient::new();
    tls.push(client.socket());
    server.pass_until(|_| {
        tls.pull(client.socket());
        !tls.is_handshaking()
    });
    assert_eq!(server.response(&mut other).content, slow_content());
}

#[test]
fn a_stop_executes_all_commands() {
    let (mut server, clock_ms) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    post_slow_parts(&server, server.exchange("/later"), &clock_ms);
    server.worker.stop();
    let arrived = client.take_response("GET").expect("a whole response");
    assert_eq!(arrived.content, slow_content());
}

#[test]
fn deadlines_that_take_longer_than_a_pass_wait_for_the_next() {
    let timeout = |config: &mut server::Config| config.timeouts.handler_timeout_ms = 1000;
    let (mut server, clock_ms) = Server::with_manual_clock(timeout);
    let targets: Vec<String> = (0..30).map(|number| format!("/later/{number}")).collect();
    let start = |target: &String| {
        let client = server.connect();
        client.send(&get(target));
        client
    };
    let mut clients: Vec<Client> = targets.iter().map(start).collect();
    server.settle();
    let clock = Arc::clone(&clock_ms);
    server.worker.app.on_abort = Some(Box::new(move || {
        clock.fetch_add(5, Ordering::Relaxed);
    }));
    clock_ms.fetch_add(1100, Ordering::Relaxed);
    server.pass();
    let ended = server.worker.app.aborted.len();
    assert!((1..10).contains(&ended), "{ended}");
    assert_eq!(server.worker.before_wait(), Some(0));
    server.pass_until(|server| server.worker.app.aborted.len() == targets.len());
    for (client, target) in clients.iter_mut().zip(&targets) {
        let why = Abort::HandlerTimeout { after_ms: 1000 };
        assert_eq!(server.abort_of(target), Some(why));
        assert_eq!(server.response(client).status, 503);
    }
}

#[test]
fn no_response_waits_while_the_stream_of_a_client_that_has_left_is_closed() {
    let (mut server, _) = Server::with_manual_clock(|_| ());
    server.worker.app.pull_bytes = 100_000;
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    server.adopt(theirs.into());
    let leaving = server.connect();
    leaving.send(&get("/pull/1000"));
    server.settle();
    let witness = ours.try_clone().expect("a descriptor");
    witness.set_nonblocking(true).expect("a socket");
    let seen = Arc::new(Mutex::new(String::new()));
    let sees = Arc::clone(&seen);
    server.worker.app.on_abort = Some(Box::new(move || {
        let mut buffer = [0; 4096];
        let count = (&witness).read(&mut buffer).unwrap_or(0);
        *sees.lock().expect("one thread") = String::from_utf8_lossy(&buffer[..count]).into();
    }));
    Client::new(ours.into()).send(&get("/quick"));
    drop(leaving);
    server.pass();
    assert_eq!(server.abort_of("/pull/1000"), Some(Abort::Disconnected));
    let seen = seen.lock().expect("one thread");
    assert!(seen.ends_with("\r\n\r\n/quick"), "{seen:?}");
}

#[test]
fn a_socket_that_breaks_between_two_passes_ends_its_connection_without_an_event() {
    let (mut server, clock_ms) = Server::with_manual_clock(|_| ());
    let client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    drop(client);
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(b"lost".to_vec()));
    server.worker.send_posted();
    for _ in 0..3 {
        clock_ms.fetch_add(50, Ordering::Relaxed);
        // Nothing is reported without a wait.
        server.worker.before_wait();
        server.worker.dispatch();
    }
    assert_eq!(server.abort_of("/later"), Some(Abort::Disconnected));
    assert!(server.is_empty());
}

#[derive(Debug)]
struct Panicking;

impl HeldPart for Panicking {
    fn bytes(&self) -> &[u8] {
        panic!("as the test wants it")
    }
}

#[test]
fn a_panic_between_two_passes_calls_the_application_in_the_next() {
    let (mut server, _) = Server::with_manual_clock(|_| ());
    let mut client = server.connect();
    let mut other = server.connect();
    client.send(&get("/later/1"));
    other.send(&get("/later/2"));
    server.settle();
    let id = server.exchange("/later/1");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::WriteHeld(Box::new(Panicking)));
    server.respond(server.exchange("/later/2"), "two");
    server.worker.send_posted();
    assert_eq!(server.worker.app.aborted, []);
    assert_eq!(other.take_response("GET").expect("sent").content, "two");
    server.pass();
    assert_eq!(server.abort_of("/later/1"), Some(Abort::Disconnected));
    assert!(client.is_ended());
}

#[test]
fn a_truncated_response_is_reset_when_a_slow_reader_has_it() {
    let set = |config: &mut server::Config| {
        config.timeouts.linger_timeout_ms = 100;
        config.timeouts.write_timeout_ms = 10_000;
    };
    let (mut server, clock_ms) = Server::with_manual_clock(set);
    let mut client = server.connect_by_tcp();
    client.send("GET /later HTTP/1.0\r\n\r\n");
    server.pass_until(|server| !server.worker.app.called.is_empty());
    let id = server.exchange("/later");
    let content = vec![b'x'; 300_000];
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(content.clone()));
    server.post(id, Command::Fail);
    server.settle();
    assert!(!server.is_empty(), "it is not waited for");
    for _ in 0..10 {
        clock_ms.fetch_add(150, Ordering::Relaxed);
        server.pass();
        let wait_ms = server.worker.before_wait();
        assert!(wait_ms.is_some_and(|ms| ms > 0), "{wait_ms:?}");
    }
    while !client.is_ended() {
        clock_ms.fetch_add(20, Ordering::Relaxed);
        server.pass();
    }
    assert!(client.was_reset);
    assert_eq!(client.rest().matches('x').count(), content.len());
}
