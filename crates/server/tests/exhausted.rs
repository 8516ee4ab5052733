//! No descriptor left, and no memory. A program of its own, because the test uses all of them.

mod harness;

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::tls::configs;
use harness::{Client, Server, TestApp, get, response};
use net::memory::notice_limit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Command, Config, Worker};

#[test]
fn accepting_pauses_without_a_descriptor_and_continues_with_one() {
    let mut server = Server::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server
        .worker
        .add_listener(listener.into(), 16, None)
        .unwrap();
    let mut served = server.connect();

    let mut waiting = Client::new(TcpStream::connect(address).unwrap().into());
    waiting.send(&get("/waited"));
    let before = getrlimit(Resource::Nofile);
    leave_no_descriptor();
    server.settle();
    assert!(waiting.is_quiet());
    // It does not spin: nothing is ready until the rest is over.
    assert!(server.worker.before_wait().is_some_and(|ms| ms > 0));
    let passes = 1000;
    for _ in 0..passes {
        server.pass();
    }
    assert_eq!(server.ask(&mut served, &get("/served")).content, "/served");

    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(server.response(&mut waiting).content, "/waited");
    let late = TcpStream::connect(address).unwrap();
    late.shutdown(Shutdown::Write).unwrap();
    server.expect_end(&mut Client::new(late.into()));
    // The limits are those of the process: the tests run one after the other.
    an_idle_connection_makes_room();
    the_last_descriptor_is_for_the_last_client();
    a_handshake_for_which_there_is_no_memory_ends();
    without_memory_for_the_rates_of_clients_nothing_is_served();
    a_posted_response_needs_its_memory_once();
}

/// Sets the limit to what is open now.
fn leave_no_descriptor() {
    leave_descriptors(0);
}

/// Sets the limit to what is open now, and so many more.
fn leave_descriptors(count: u64) {
    let next = std::fs::File::open("/dev/null").expect("a file");
    let lowest_free = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    drop(next);
    let limit = Rlimit {
        current: Some(lowest_free + count),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
}

/// A server that listens, where, and a connection that is idle for so long that it may be closed for others.
fn with_an_idle_connection() -> (Server, SocketAddr, Client) {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let added = server.worker.add_listener(listener.into(), 16, None);
    added.expect("a usable listener");
    let mut idle = server.connect();
    assert_eq!(server.ask(&mut idle, &get("/idle")).content, "/idle");
    now_ms.fetch_add(1000, Ordering::Relaxed);
    (server, address, idle)
}

fn an_idle_connection_makes_room() {
    let (mut server, address, mut idle) = with_an_idle_connection();
    let mut waiting = Client::new(TcpStream::connect(address).expect("a listener").into());
    waiting.send(&get("/waited"));
    let before = getrlimit(Resource::Nofile);
    leave_no_descriptor();
    assert_eq!(server.response(&mut waiting).content, "/waited");
    server.expect_end(&mut idle);
    server.settle();
    let line = "closed 1 idle connection for new ones: no file descriptor was left";
    assert_eq!(server.worker.app.refusals, [line]);
    setrlimit(Resource::Nofile, before).expect("the limit of before");
}

fn the_last_descriptor_is_for_the_last_client() {
    let (mut server, address, mut idle) = with_an_idle_connection();
    let mut last = Client::new(TcpStream::connect(address).expect("a listener").into());
    last.send(&get("/last"));
    let before = getrlimit(Resource::Nofile);
    leave_descriptors(1);
    assert_eq!(server.response(&mut last).content, "/last");
    server.settle();
    assert!(idle.is_quiet());
    assert!(server.worker.app.refusals.is_empty());
    setrlimit(Resource::Nofile, before).expect("the limit of before");
    // Accepting has not paused: the clock does not move.
    let mut next = Client::new(TcpStream::connect(address).expect("a listener").into());
    assert_eq!(server.ask(&mut next, &get("/next")).content, "/next");
}

fn a_handshake_for_which_there_is_no_memory_ends() {
    let mut server = Server::with(|config| config.timeouts.tls_handshake_timeout_ms = 0);
    let mut client = server.connect_with_tls(&configs().0);
    client.send("\u{16}");
    let (before, blocks) = leave_little_memory();
    server.settle();
    drop(blocks);
    setrlimit(Resource::As, before).expect("the limit of before");
    assert!(client.is_ended());
    assert!(server.is_empty());
}

fn without_memory_for_the_rates_of_clients_nothing_is_served() {
    let mut config = Config::default();
    config.admission.limits.client_requests_per_s_max = 1;
    let app = TestApp::new(Arc::default());
    let (before, blocks) = leave_little_memory();
    let refused = Worker::new(app, config, None, Arc::default()).map(drop);
    drop(blocks);
    setrlimit(Resource::As, before).expect("the limit of before");
    let kind = refused.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::OutOfMemory));
}

/// What small allocations leave free.
const SMALL_SPARE_BYTES: usize = 1 << 20;

/// Sets the limit so that less than that is left. Returns the one of before, and what is to be freed before that is set again.
fn leave_little_memory() -> (Rlimit, Vec<Vec<u8>>) {
    let before = getrlimit(Resource::As);
    let limit = Rlimit {
        current: Some(occupied_bytes() + SMALL_SPARE_BYTES as u64 / 2),
        ..before
    };
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(1000);
    setrlimit(Resource::As, limit).expect("a lower limit");
    // What has been freed before could be had again.
    let mut block = Vec::new();
    while blocks.len() < blocks.capacity() && block.try_reserve_exact(SMALL_SPARE_BYTES).is_ok() {
        blocks.push(std::mem::take(&mut block));
    }
    while !notice_limit() {
        std::hint::spin_loop();
    }
    (before, blocks)
}

fn a_posted_response_needs_its_memory_once() {
    const BYTES: usize = 64 << 20;
    const SPARE_BYTES: usize = 16 << 20;
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let content = "x".repeat(BYTES);
    server.post(
        server.exchange("/later"),
        Command::Respond(response(200, &content)),
    );
    drop(content);
    let before = getrlimit(Resource::As);
    let limit = Rlimit {
        current: Some(occupied_bytes() + (BYTES + SPARE_BYTES) as u64),
        ..before
    };
    setrlimit(Resource::As, limit).expect("a lower limit");
    server.settle();
    setrlimit(Resource::As, before).expect("the limit of before");
    let response = server.response(&mut client);
    assert_eq!((response.status, response.content.len()), (200, BYTES));
    assert!(!response.is_last());
}

/// The address space that this process uses.
fn occupied_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system reports it");
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number") << 10
}
