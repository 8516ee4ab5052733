//! Requests that wait until fewer run, under random schedules of clients, handlers and time.
//!
//! After each move: no more run than may; none waits while one could run; no more wait, and none longer, than may; requests begin in the order
//! in which they were asked; and none that was refused has begun. In the end, everybody has the response to the own request.

#[path = "../harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::h2::H2Client;
use harness::{Client, Server, get, post, post_chunked, response};
use proptest::prelude::*;
use server::{Command, Response};

const RUNNING_MAX: u64 = 2;
const WAITING_MAX: u64 = 3;
const TIMEOUT_MS: u64 = 100;
const CLIENTS: usize = 6;

#[derive(Clone, Debug)]
enum Move {
    /// A client without a request sends one, with content or without.
    Ask(usize, bool),
    /// The client of streams opens one.
    Open,
    /// It cancels one.
    Cancel(usize),
    /// A client leaves, and another one comes.
    Leave(usize),
    /// A handler ends.
    Finish(usize),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0..CLIENTS, any::<bool>()).prop_map(|(client, has_content)| Move::Ask(client, has_content)),
        3 => Just(Move::Open),
        1 => (0..8usize).prop_map(Move::Cancel),
        1 => (0..CLIENTS).prop_map(Move::Leave),
        4 => (0..4usize).prop_map(Move::Finish),
        2 => (1..80u64).prop_map(Move::Wait),
    ];
    prop::collection::vec(one, 1..80)
}

/// A request that has no response.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Asked {
    number: usize,
    since_ms: u64,
}

struct World {
    server: Server,
    clock: Arc<AtomicU64>,
    clients: Vec<Option<Client>>,
    asked: Vec<Option<Asked>>,
    streams: H2Client,
    open: BTreeMap<u32, Asked>,
    last: usize,
    refused: Vec<usize>,
}

impl World {
    fn new() -> World {
        let (mut server, clock) = Server::with_manual_clock(|config| {
            config.accepts_prior_knowledge = true;
            config.admission.limits.concurrency_max = RUNNING_MAX;
            config.limits.queue_max = WAITING_MAX;
            config.timeouts.queue_timeout_ms = TIMEOUT_MS;
        });
        let mut clients = Vec::new();
        clients.resize_with(CLIENTS, || Some(server.connect()));
        let streams = H2Client::new(server.connect());
        World {
            server,
            clock,
            clients,
            asked: vec![None; CLIENTS],
            streams,
            open: BTreeMap::new(),
            last: 0,
            refused: Vec::new(),
        }
    }

    fn ask(&mut self) -> (Asked, String) {
        self.last += 1;
        let asked = Asked {
            number: self.last,
            since_ms: self.clock.load(Ordering::Relaxed),
        };
        (asked, format!("/later/{}", self.last))
    }

    fn run(&mut self, step: &Move) {
        match *step {
            Move::Ask(index, has_content) if self.asked[index].is_none() => {
                let (asked, target) = self.ask();
                let request = if has_content {
                    post(&target, "content")
                } else {
                    get(&target)
                };
                self.clients[index]
                    .as_ref()
                    .expect("it is connected")
                    .send(&request);
                self.asked[index] = Some(asked);
            }
            Move::Ask(..) => {}
            Move::Open => {
                let (asked, target) = self.ask();
                let stream = self.streams.open("GET", &target, true);
                self.open.insert(stream, asked);
            }
            Move::Cancel(index) => {
                if let Some(stream) = self.open.keys().nth(index).copied() {
                    self.open.remove(&stream);
                    self.streams.reset(stream);
                }
            }
            Move::Leave(index) => {
                self.clients[index].take().expect("it is connected").reset();
                self.asked[index] = None;
                self.clients[index] = Some(self.server.connect());
            }
            Move::Finish(index) => self.finish(index),
            Move::Wait(ms) => drop(self.clock.fetch_add(ms, Ordering::Relaxed)),
        }
        self.settle();
        self.judge();
    }

    fn finish(&mut self, index: usize) {
        let running = &mut self.server.worker.app.running;
        if index < running.len() {
            let id = running.remove(index);
            let called = &self.server.worker.app.called;
            let target = called
                .iter()
                .find(|each| each.id == id)
                .expect("it was called")
                .target
                .clone();
            self.server.respond(id, &target);
        }
    }

    fn settle(&mut self) {
        self.streams.send(usize::MAX);
        self.server.settle();
        self.streams.receive();
        for (client, asked) in self.clients.iter_mut().zip(&mut self.asked) {
            let client = client.as_mut().expect("it is connected");
            if let Some(response) = client.take_response("GET") {
                let number = asked.take().expect("a request").number;
                assert!(!response.is_last(), "its content had arrived");
                match response.status {
                    200 => assert_eq!(response.content, format!("/later/{number}")),
                    status => {
                        assert_eq!((status, response.get("retry-after")), (503, Some("1")));
                        self.refused.push(number);
                    }
                }
            }
        }
        let ended: Vec<u32> = self.open.keys().copied().collect();
        for stream in ended {
            let Some(arrived) = self.streams.streams.get(&stream).filter(|it| it.is_over()) else {
                continue;
            };
            assert_eq!(arrived.reset, None);
            let number = self
                .open
                .remove(&stream)
                .expect("the stream is open")
                .number;
            match arrived.status {
                200 => assert_eq!(arrived.content, format!("/later/{number}").as_bytes()),
                status => {
                    assert_eq!(status, 503);
                    self.refused.push(number);
                }
            }
        }
    }

    /// The numbers of the requests that have begun, in that order.
    fn begun(&self) -> Vec<usize> {
        let number = |target: &str| {
            target
                .trim_start_matches("/later/")
                .parse()
                .expect("a number")
        };
        self.server.targets().into_iter().map(number).collect()
    }

    fn judge(&self) {
        let begun = self.begun();
        assert!(
            begun.is_sorted_by(|one, next| one < next),
            "out of order: {begun:?}"
        );
        assert!(
            self.refused.iter().all(|refused| !begun.contains(refused)),
            "refused and begun"
        );
        let running = self.server.worker.app.running.len() as u64;
        assert!(running <= RUNNING_MAX, "{running} run");
        let asked = self.asked.iter().flatten().chain(self.open.values());
        let waiting: Vec<_> = asked
            .filter(|asked| !begun.contains(&asked.number))
            .collect();
        assert!(waiting.len() as u64 <= WAITING_MAX, "{waiting:?}");
        assert!(
            waiting.is_empty() || running == RUNNING_MAX,
            "{waiting:?} could run"
        );
        let now_ms = self.clock.load(Ordering::Relaxed);
        let late = waiting
            .iter()
            .find(|asked| now_ms >= asked.since_ms + TIMEOUT_MS);
        assert_eq!(late, None, "waits for too long");
    }

    fn end(mut self) {
        while !self.server.worker.app.running.is_empty() {
            self.finish(0);
            self.settle();
            self.judge();
        }
        assert!(self.asked.iter().all(Option::is_none) && self.open.is_empty());
        drop((self.clients, self.streams));
        self.server.settle();
        assert!(self.server.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_wait_in_order_and_are_never_both_refused_and_begun(moves in moves()) {
        let mut world = World::new();
        world.settle();
        moves.iter().for_each(|step| world.run(step));
        world.end();
    }
}

#[test]
fn a_request_that_is_refused_while_it_waits_leaves_the_queue() {
    let (mut server, _) = Server::with_manual_clock(|config| {
        config.accepts_prior_knowledge = true;
        config.admission.limits.concurrency_max = 1;
        config.limits.queue_max = 1;
        config.limits.body_bytes_max = 10;
    });
    let mut client = H2Client::new(server.connect());
    let settle = |server: &mut Server, client: &mut H2Client| {
        client.send(usize::MAX);
        server.settle();
        client.receive();
    };
    let first = client.open("GET", "/later/1", true);
    let refused = client.open("POST", "/later/2", false);
    settle(&mut server, &mut client);
    client.data(refused, &[b'x'; 11], true);
    settle(&mut server, &mut client);
    assert_eq!(client.streams[&refused].status, 413);
    // There is a place in the queue again.
    let last = client.open("GET", "/later/3", true);
    settle(&mut server, &mut client);
    for (stream, target) in [(first, "/later/1"), (last, "/later/3")] {
        let id = server.worker.app.running.remove(0);
        server.respond(id, target);
        settle(&mut server, &mut client);
        assert_eq!(client.streams[&stream].status, 200);
    }
    assert_eq!(server.targets(), ["/later/1", "/later/3"]);
}

/// Lets the only request that runs end.
fn finish(server: &mut Server) {
    let id = server.worker.app.running.remove(0);
    server.respond(id, "ended");
    server.settle();
}

#[test]
fn a_request_that_has_waited_does_not_wait_for_its_content_too() {
    let limit = |config: &mut server::Config| {
        config.accepts_prior_knowledge = true;
        config.admission.limits.concurrency_max = 1;
    };
    let (mut server, _) = Server::with_manual_clock(limit);
    let mut clients: [Client; 3] = std::array::from_fn(|_| server.connect());
    let head = "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n";
    let sent = [get("/later/1"), head.to_owned(), get("/later/2")];
    for (client, sent) in clients.iter().zip(sent) {
        client.send(&sent);
        server.settle();
    }
    assert_eq!(server.targets(), ["/later/1"]);
    finish(&mut server);
    assert_eq!(server.targets(), ["/later/1", "/read", "/later/2"]);
    // Nothing is free now.
    let response = server.ask(&mut clients[1], "content");
    assert_eq!(response.content, "content");
}

#[test]
fn a_stream_that_has_waited_does_not_wait_for_its_content_too() {
    let mut it = harness::connected::Connected::with(|config| {
        config.admission.limits.concurrency_max = 1;
    });
    it.client.open("GET", "/later/1", true);
    let upload = it.client.open("POST", "/read", false);
    it.client.open("GET", "/later/2", true);
    it.settle();
    assert_eq!(it.server.targets(), ["/later/1"]);
    finish(&mut it.server);
    assert_eq!(it.server.targets(), ["/later/1", "/read", "/later/2"]);
    it.client.data(upload, b"content", true);
    it.settle();
    assert_eq!(it.status(upload), 200);
}

/// Lets a handler end with a response.
fn end(server: &mut Server, target: &str, content: &str) {
    let id = server.exchange(target);
    let running = &mut server.worker.app.running;
    running.retain(|it| *it != id);
    server.respond(id, content);
    server.settle();
}

#[test]
fn a_request_that_has_waited_waits_for_the_response_before_it_only() {
    let limit = |config: &mut server::Config| config.admission.limits.concurrency_max = 2;
    let (mut server, _) = Server::with_manual_clock(limit);
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/three")));
    server.settle();
    // Nothing overtakes a response that waits and is so long.
    let long = "x".repeat(1_000_000);
    end(&mut server, "/later/2", &long);
    let others = ["/later/4", "/later/5"].map(|target| {
        let other = server.connect();
        other.send(&get(target));
        server.settle();
        other
    });
    assert_eq!(server.targets(), ["/later/1", "/later/2", "/later/4"]);
    // Its handler goes on: both places are taken.
    server.respond(server.exchange("/later/1"), "one");
    server.settle();
    for content in ["one", &long] {
        assert_eq!(server.response(&mut client).content, content);
    }
    assert_eq!(server.targets().len(), 3);
    server.worker.app.running.remove(0);
    assert_eq!(server.response(&mut client).content, "/three");
    server.settle();
    let called = ["/later/1", "/later/2", "/later/4", "/three", "/later/5"];
    assert_eq!(server.targets(), called);
    drop(others);
}

#[test]
fn a_request_that_has_waited_too_long_never_begins_if_a_response_before_it_is_late_too() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.admission.limits.concurrency_max = 2;
        config.timeouts.queue_timeout_ms = 1000;
    });
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2") + &get("/three")));
    server.settle();
    let long = "x".repeat(1_000_000);
    server.respond(server.exchange("/later/2"), &long);
    server.settle();
    now_ms.fetch_add(1000, Ordering::Relaxed);
    server.settle();
    end(&mut server, "/later/1", "one");
    for (status, content) in [(200, "one"), (200, long.as_str())] {
        let response = server.response(&mut client);
        assert_eq!(
            (response.status, response.content.as_str()),
            (status, content)
        );
    }
    assert_eq!(server.response(&mut client).status, 503);
    assert_eq!(server.targets(), ["/later/1", "/later/2"]);
}

#[test]
fn a_stream_whose_turn_comes_while_responses_are_not_read_keeps_it() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.accepts_prior_knowledge = true;
        config.admission.limits.concurrency_max = 1;
        config.limits.queue_max = 2;
        config.timeouts.queue_timeout_ms = 1000;
    });
    let mut client = H2Client::new(server.connect());
    client.announce_window(50_000_000);
    client.give(0, 50_000_000);
    client.send(usize::MAX);
    server.settle();
    client.receive();
    client.open("GET", "/big/20000000", true);
    client.open("GET", "/later/1", true);
    let [second, third] = ["/later/2", "/later/3"].map(|target| client.open("GET", target, true));
    client.send(usize::MAX);
    server.settle();
    now_ms.fetch_add(600, Ordering::Relaxed);
    // Either might begin now.
    end(&mut server, "/later/1", "1");
    let mut others = ["/later/4", "/later/5", "/later/6"].map(|target| {
        let other = server.connect();
        other.send(&get(target));
        server.settle();
        other
    });
    let settle = |server: &mut Server, client: &mut H2Client| {
        for _ in 0..400 {
            server.settle();
            client.receive();
            client.send(usize::MAX);
        }
    };
    settle(&mut server, &mut client);
    assert_eq!(server.targets(), ["/big/20000000", "/later/1", "/later/4"]);
    now_ms.fetch_add(300, Ordering::Relaxed);
    settle(&mut server, &mut client);
    end(&mut server, "/later/4", "4");
    // All that it has waited counts.
    now_ms.fetch_add(100, Ordering::Relaxed);
    settle(&mut server, &mut client);
    assert_eq!(client.streams[&third].status, 503);
    for target in ["/later/2", "/later/5", "/later/6"] {
        end(&mut server, target, target);
    }
    settle(&mut server, &mut client);
    assert_eq!(client.streams[&second].content, b"/later/2");
    for other in &mut others {
        assert_eq!(server.response(other).status, 200);
    }
    let began = ["/later/4", "/later/2", "/later/5", "/later/6"];
    assert_eq!(server.targets()[2..], began);
}

#[test]
fn a_request_that_is_refused_after_its_content_was_awaited_counts_once() {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.admission.limits.concurrency_max = 1;
        config.limits.body_bytes_max = 10;
        config.timeouts.queue_timeout_ms = 1000;
    });
    let mut long = server.connect();
    long.send(&(post_chunked("/read") + "b\r\nxxxxxxxxxxx\r\n"));
    assert_eq!(server.response(&mut long).status, 413);
    assert_eq!(server.worker.requests(), 1);

    let mut slow = server.connect();
    slow.send(&post_chunked("/read"));
    server.settle();
    now_ms.fetch_add(3_600_000, Ordering::Relaxed);
    assert_eq!(server.response(&mut slow).status, 408);
    assert_eq!(server.worker.requests(), 2);

    let mut queued = server.connect();
    queued.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n");
    server.settle();
    let other = server.connect();
    other.send(&get("/later/1"));
    server.settle();
    queued.send("content");
    server.settle();
    assert!(queued.is_quiet());
    now_ms.fetch_add(1000, Ordering::Relaxed);
    assert_eq!(server.response(&mut queued).status, 503);
    assert_eq!(server.worker.requests(), 4);
}

/// Header blocks have to be sent in the order in which they were encoded.
#[test]
fn a_request_that_waited_is_started_after_what_waits_for_the_socket() {
    let (mut server, _) = Server::with_manual_clock(|config| {
        config.accepts_prior_knowledge = true;
        config.admission.limits.concurrency_max = 1;
    });
    let mut client = H2Client::new(server.connect());
    client.announce_window(50_000_000);
    client.give(0, 50_000_000);
    let settle = |server: &mut Server, client: &mut H2Client| {
        client.send(usize::MAX);
        server.settle();
        client.receive();
    };
    settle(&mut server, &mut client);
    let download = client.open("GET", "/big/20000000", true);
    let running = client.open("GET", "/later/1", true);
    let waiting = client.open("GET", "/waiting", true);
    client.send(usize::MAX);
    server.settle();
    // Its fields enter the table of the compression.
    let id = server.worker.app.running.remove(0);
    let fields = b"Via: one\r\nVary: two\r\n".to_vec();
    let with_fields = Response {
        fields,
        ..response(200, "late")
    };
    server.post(id, Command::Respond(with_fields));
    server.settle();
    assert_eq!(server.targets(), ["/big/20000000", "/later/1"]);
    for _ in 0..400 {
        settle(&mut server, &mut client);
    }
    assert_eq!(client.streams[&download].content.len(), 20_000_000);
    assert_eq!(client.streams[&running].content, b"late");
    assert_eq!(client.streams[&waiting].content, b"/waiting");
    let section = String::from_utf8_lossy(&client.streams[&waiting].section).into_owned();
    assert!(!section.contains("via"), "{section}");
}
