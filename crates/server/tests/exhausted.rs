//! No descriptor left. A program of its own, because the test uses them all.

mod harness;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use harness::{Client, Server, get};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    // The limit is that of the process: both tests run one after the other.
    an_idle_connection_makes_room();
}

/// Sets the limit to what is open now.
fn leave_no_descriptor() {
    let next = std::fs::File::open("/dev/null").expect("a file");
    let lowest_free = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    drop(next);
    let limit = Rlimit {
        current: Some(lowest_free),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
}

fn an_idle_connection_makes_room() {
    let (mut server, now_ms) = Server::with_manual_clock(|_| ());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let added = server.worker.add_listener(listener.into(), 16, None);
    added.expect("a usable listener");
    let mut idle = server.connect();
    assert_eq!(server.ask(&mut idle, &get("/idle")).content, "/idle");
    now_ms.fetch_add(1000, Ordering::Relaxed);
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
