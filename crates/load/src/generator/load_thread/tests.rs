//! What a thread does at the start of its load, step by step and without its clock: between ticks, only events lead to requests.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use net::{Events, precise_ns};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::super::connection::Stage;
use super::super::plan::{Address, Limit, Protocol, Shape};
use super::super::tls::Tls;
use super::{Common, LoadThread, OPENING_MAX, Plan, TICK_NS};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Responds to each request.
fn respond(mut stream: impl Read + Write) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer) {
        if stream.write_all(RESPONSE).is_err() {
            return;
        }
    }
}

/// Serves connections over TCP, with TLS if there is a configuration.
fn serve(config: Option<Arc<ServerConfig>>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || match config {
                None => respond(stream),
                Some(config) => {
                    let connection = ServerConnection::new(config).expect("a connection");
                    respond(StreamOwned::new(connection, stream));
                }
            });
        }
    });
    Address::Internet(address)
}

fn serve_local(path: &Path) {
    let listener = UnixListener::bind(path).expect("a free path");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || respond(stream));
        }
    });
}

/// A configuration whose certificate is of the server's own making.
fn own_certificate() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let chain = vec![made.cert.der().clone()];
    let builder = ServerConfig::builder().with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).expect("a pair"))
}

/// The first of two threads with four connections together, whose load does not end.
fn plan(address: Address) -> Plan {
    Plan {
        address,
        threads: 2,
        connections: 4,
        limit: Limit::Duration(Duration::from_secs(3600)),
        timeout: Duration::from_secs(3600),
        ..Plan::default()
    }
}

fn load_thread(plan: Plan) -> LoadThread {
    let common = Common::new(plan).expect("a plan");
    LoadThread::new(Arc::new(common), 0).expect("a poller")
}

impl LoadThread {
    fn tick_now(&mut self) {
        self.now_ns = precise_ns();
        assert!(self.tick());
    }

    /// Starts the load as the last thread to open its connections would, at once.
    fn start_now(&mut self) {
        self.common.board.start(precise_ns());
        self.tick_now();
        assert_eq!(self.opening_end_ns, None);
    }

    /// Serves events, and nothing else, until this is true.
    fn serve_until(&mut self, is_done: impl Fn(&LoadThread) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        let mut events = Events::default();
        while !is_done(self) {
            let stages = self.connections.iter().map(|it| (it.stage, it.outstanding));
            assert!(Instant::now() < end, "{:?}", stages.collect::<Vec<_>>());
            let waited = self.poller.wait(&mut events, Some(10));
            waited.expect("a poller");
            self.serve_all(&events);
        }
    }
}

/// Whether each connection has had a correct response.
fn have_responded(it: &LoadThread) -> bool {
    it.connections.iter().all(|it| it.served > 0)
}

#[test]
fn connections_that_become_ready_after_the_start_send_at_once() {
    let tls = Tls {
        server_name: String::from("localhost"),
        ..Tls::default()
    };
    let encrypted = Plan {
        tls: Some(tls),
        ..plan(serve(Some(own_certificate())))
    };
    for asked in [plan(serve(None)), encrypted] {
        let mut load = load_thread(asked);
        load.tick_now();
        load.start_now();
        // No event has said that they are ready.
        assert!(load.connections.iter().all(|it| it.stage == Stage::Opening));
        assert_eq!(load.tally.requests_sent, 0);
        load.serve_until(have_responded);
    }
}

#[test]
fn connections_that_failed_before_the_start_are_opened_again_at_the_start() {
    let name = format!("bolide-load-start-{}.sock", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let mut load = load_thread(plan(Address::Local(path.clone())));
    load.tick_now();
    assert!(load.connections.iter().all(|it| it.stage == Stage::Failed));
    serve_local(&path);
    load.start_now();
    load.serve_until(have_responded);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn responses_after_the_start_let_the_rest_be_opened() {
    const SETTLED: usize = 10;
    let connections = OPENING_MAX + 50;
    let mut load = load_thread(Plan {
        threads: 1,
        connections,
        ..plan(serve(None))
    });
    load.tick_now();
    load.serve_until(|it| {
        let opened = it.connections.iter().take(OPENING_MAX);
        opened.into_iter().all(|it| it.stage == Stage::Open)
    });
    // Time has said of some that the server has accepted them.
    (0..SETTLED).for_each(|index| load.settle(index));
    // The load waits no longer, with 50 connections that were never opened.
    load.opening_end_ns = Some(0);
    load.now_ns = precise_ns();
    load.start_window();
    load.start_load();
    assert_eq!(
        (load.unopened, load.opening),
        (OPENING_MAX, OPENING_MAX - SETTLED)
    );
    load.serve_until(have_responded);
    assert_eq!((load.unopened, load.opening), (connections, 0));
    assert_eq!(load.pace.responded, connections as u64);
}

#[test]
fn only_the_time_of_polls_without_events_is_idle() {
    // The next request is always due so soon that the thread stays awake, and what it sends takes longer than a poll.
    let mut load = load_thread(Plan {
        threads: 1,
        connections: 1,
        protocol: Protocol::Http11 {
            pipeline_depth: 1000,
        },
        shape: Shape::Rate(40_000.0),
        ..plan(serve(None))
    });
    load.tick_now();
    load.serve_until(|it| it.connections.iter().all(|it| it.stage == Stage::Open));
    load.tick_now();
    load.start_now();
    let (mut events, mut polled_ns) = (Events::default(), 0);
    while load.tally.requests_sent < 1000 {
        load.fire();
        let before_ns = precise_ns();
        let next_tick_ns = load.now_ns + TICK_NS;
        load.poll(&mut events, next_tick_ns).expect("a poller");
        let is_idle = events.get(0).is_none();
        load.serve_all(&events);
        load.begin_pass();
        polled_ns += u64::from(is_idle) * (precise_ns() - before_ns);
    }
    let idle_ns = load.window.idle_ns;
    assert!((1..=polled_ns).contains(&idle_ns), "{idle_ns} {polled_ns}");
}
