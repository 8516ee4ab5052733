//! HTTP/2: what a connection holds, the deadlines of its streams, panics in one of them.

mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::h2::H2Client;
use harness::{Server, response};
use server::{Abort, Command};
use wire::h2::ErrorCode;

/// A deadline is noticed so much later at most.
const TICK_MS: u64 = 300;

struct Connected {
    server: Server,
    client: H2Client,
    clock: Arc<AtomicU64>,
}

impl Connected {
    fn new() -> Connected {
        let (mut server, clock) =
            Server::with_manual_clock(|config| config.accepts_prior_knowledge = true);
        let mut client = H2Client::new(server.connect());
        client.send(usize::MAX);
        server.settle();
        client.receive();
        Connected {
            server,
            client,
            clock,
        }
    }

    /// Sends what is written, and reads what comes.
    fn settle(&mut self) {
        self.client.send(usize::MAX);
        self.server.settle();
        self.client.receive();
        // Acknowledgements.
        self.client.send(usize::MAX);
        self.server.settle();
        self.client.receive();
    }

    /// Lets time pass, deadline by deadline.
    fn advance(&mut self, ms: u64) {
        let end_ms = self.clock.load(Ordering::Relaxed) + ms;
        loop {
            let wait_ms = self.server.worker.before_wait().unwrap_or(u64::MAX);
            let now_ms = self.clock.load(Ordering::Relaxed);
            let step_ms = wait_ms.max(1).min(end_ms - now_ms);
            self.clock.fetch_add(step_ms, Ordering::Relaxed);
            self.server.pass();
            if now_ms + step_ms >= end_ms {
                break;
            }
        }
        self.server.settle();
        self.client.receive();
    }

    fn status(&self, stream: u32) -> u16 {
        self.client.streams[&stream].status
    }
}

#[test]
fn memory_is_given_back_when_streams_end() {
    let mut it = Connected::new();
    let stream = it.client.open("GET", "/first", true);
    it.settle();
    assert_eq!(it.status(stream), 200);
    let mut idle_bytes = 0;
    for round in 0..4 {
        it.client.announce_window(0);
        let streams: Vec<u32> = (0..20)
            .map(|_| it.client.open("GET", "/big/100000", true))
            .collect();
        let upload = it.client.open("POST", "/later/upload", false);
        it.client.data(upload, &[b'u'; 16_384], false);
        it.settle();
        assert!(it.server.worker.held_bytes() > 2_000_000);
        for stream in streams.iter().skip(10) {
            it.client.reset(*stream);
        }
        it.client.reset(upload);
        it.client.announce_window(100_000);
        it.client.give(0, 1_000_000);
        for _ in 0..20 {
            it.settle();
        }
        for stream in streams.iter().take(10) {
            assert_eq!(it.client.streams[stream].content.len(), 100_000);
        }
        let held_bytes = it.server.worker.held_bytes();
        assert!(held_bytes < 2048, "{held_bytes}");
        // The tables of the header compression have their entries now.
        assert!(round == 0 || held_bytes == idle_bytes, "{held_bytes}");
        idle_bytes = held_bytes;
    }
}

#[test]
fn a_panic_ends_its_stream_only() {
    let mut it = Connected::new();
    let later = it.client.open("GET", "/later", true);
    let panics = it.client.open("GET", "/panic", true);
    let next = it.client.open("GET", "/next", true);
    it.settle();
    assert!(it.client.streams[&panics].is_over());
    assert_eq!(it.client.streams[&next].content, b"/next");
    it.server.respond(it.server.exchange("/later"), "late");
    it.settle();
    assert_eq!(it.client.streams[&later].content, b"late");
}

#[test]
fn a_handler_that_does_not_respond_in_time_gets_503_in_its_place() {
    let mut it = Connected::new();
    let first = it.client.open("GET", "/later/1", true);
    it.settle();
    it.advance(30_000);
    let second = it.client.open("GET", "/later/2", true);
    it.settle();
    it.advance(29_999);
    assert_eq!(it.status(first), 0);
    it.advance(TICK_MS);
    assert_eq!((it.status(first), it.status(second)), (503, 0));
    let abort = it.server.abort_of("/later/1");
    assert_eq!(abort, Some(Abort::HandlerTimeout));
    it.advance(30_000 + TICK_MS);
    assert_eq!(it.status(second), 503);
}

#[test]
fn content_that_does_not_arrive_is_a_408_on_its_stream() {
    let mut it = Connected::new();
    let read = it.client.open("POST", "/read", false);
    let parts = it.client.open("POST", "/parts", false);
    it.settle();
    it.advance(4_999);
    let other = it.client.open("GET", "/other", true);
    it.settle();
    assert_eq!((it.status(read), it.status(parts)), (0, 0));
    it.advance(TICK_MS);
    assert_eq!((it.status(read), it.status(parts)), (408, 408));
    assert_eq!(it.status(other), 200);
    assert_eq!(it.server.abort_of("/parts"), Some(Abort::Refused));
}

#[test]
fn a_closed_window_has_a_deadline_of_its_own_for_each_stream() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    let first = it.client.open("GET", "/big/100", true);
    it.settle();
    it.advance(20_000);
    let second = it.client.open("GET", "/pull/3", true);
    it.settle();
    it.advance(9_999);
    assert_eq!(it.client.streams[&first].reset, None);
    it.advance(TICK_MS);
    assert_eq!(it.client.streams[&first].reset, Some(ErrorCode::CANCEL));
    assert_eq!(it.client.streams[&second].reset, None);
    it.client.give(second, 100);
    it.settle();
    assert_eq!(it.client.streams[&second].content, b"p".repeat(15));
    assert!(it.client.goaways.is_empty());
}

#[test]
fn an_idle_connection_and_an_unfinished_frame_have_deadlines() {
    let mut it = Connected::new();
    let stream = it.client.open("GET", "/now", true);
    it.settle();
    it.advance(74_999);
    assert!(it.client.goaways.is_empty());
    it.advance(TICK_MS);
    assert_eq!(it.client.goaways, [(stream, ErrorCode::NO_ERROR)]);
    assert!(it.client.client.is_ended());

    let mut it = Connected::new();
    it.client.open("GET", "/now", true);
    it.client.send(12);
    it.server.settle();
    it.advance(14_000);
    it.client.send(1);
    it.server.settle();
    it.advance(999);
    assert!(it.client.goaways.is_empty());
    it.advance(TICK_MS);
    assert_eq!(it.client.goaways, [(0, ErrorCode::NO_ERROR)]);
}

#[test]
fn a_drain_loses_no_request() {
    let mut it = Connected::new();
    let before = it.client.open("GET", "/later/before", true);
    it.settle();
    // On its way while the announcement is.
    let meanwhile = it.client.open("GET", "/later/meanwhile", true);
    it.server.worker.drain();
    it.advance(TICK_MS);
    assert_eq!(it.client.goaways, [(0x7fff_ffff, ErrorCode::NO_ERROR)]);
    it.settle();
    assert_eq!(it.client.goaways[1..], [(meanwhile, ErrorCode::NO_ERROR)]);
    let after = it.client.open("GET", "/later/after", true);
    it.settle();
    let reset = it.client.streams[&after].reset;
    assert_eq!(reset, Some(ErrorCode::REFUSED_STREAM));
    for target in ["/later/meanwhile", "/later/before"] {
        let id = it.server.exchange(target);
        it.server.post(id, Command::Respond(response(200, target)));
    }
    it.settle();
    assert_eq!(it.client.streams[&before].content, b"/later/before");
    assert_eq!(it.client.streams[&meanwhile].content, b"/later/meanwhile");
    assert!(it.client.client.is_ended());
    assert_eq!(it.server.targets().len(), 2);
}

/// RFC 9113 section 6.8.
#[test]
fn the_last_stream_of_a_goaway_does_not_grow() {
    let mut it = Connected::new();
    let served = it.client.open("GET", "/later", true);
    it.settle();
    it.server.worker.drain();
    it.advance(TICK_MS);
    it.settle();
    let said = [
        (0x7fff_ffff, ErrorCode::NO_ERROR),
        (served, ErrorCode::NO_ERROR),
    ];
    assert_eq!(it.client.goaways, said);
    let refused = it.client.open("GET", "/refused", true);
    it.client.give(refused + 2, 1);
    it.settle();
    let reset = it.client.streams[&refused].reset;
    assert_eq!(reset, Some(ErrorCode::REFUSED_STREAM));
    assert_eq!(
        it.client.goaways[2..],
        [(served, ErrorCode::PROTOCOL_ERROR)]
    );
}

#[test]
fn a_stop_responds_503_to_what_has_not_begun() {
    let mut it = Connected::new();
    let waiting = it.client.open("GET", "/later", true);
    let content = it.client.open("POST", "/read", false);
    it.settle();
    let unfinished = it.server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (2, 0));
    it.client.receive();
    assert_eq!((it.status(waiting), it.status(content)), (503, 503));
    assert_eq!(it.server.abort_of("/later"), Some(Abort::Disconnected));
    assert!(it.server.is_empty());
}

#[test]
fn trailers_end_a_content_and_their_fields_are_dropped() {
    let mut it = Connected::new();
    let stream = it.client.open("POST", "/read", false);
    it.client.data(stream, b"content", false);
    it.client.trailers(stream);
    it.settle();
    assert_eq!(it.client.streams[&stream].content, b"content");
}

#[test]
fn trailers_of_a_response_end_it() {
    let mut it = Connected::new();
    let stream = it.client.open("GET", "/later", true);
    it.settle();
    let id = it.server.exchange("/later");
    it.server.post(id, Command::Begin(response(200, "")));
    it.server.post(id, Command::Write(b"content".to_vec()));
    let section = b"X-Sum: 7\r\n".to_vec();
    it.server.post(id, Command::FinishWith(section));
    it.settle();
    let arrived = &it.client.streams[&stream];
    assert_eq!(arrived.content, b"content");
    assert_eq!(arrived.trailers.as_deref(), Some(&b"x-sum: 7\r\n"[..]));
    assert!(arrived.is_complete);
}

#[test]
fn a_refused_head_request_gets_no_content() {
    let mut it = Connected::new();
    let long = format!("/{}", "a".repeat(9000));
    let large = format!("x-large: {}\r\n", "a".repeat(40_000));
    let cases = [
        (long.as_str(), "x: y\r\n", 414),
        ("/", large.as_str(), 431),
        ("/", "expect: more\r\n", 417),
    ];
    for (target, fields, status) in cases {
        for (method, has_content) in [("GET", true), ("HEAD", false)] {
            let stream = it.client.open_with(method, target, fields, true);
            it.settle();
            let arrived = &it.client.streams[&stream];
            assert_eq!((arrived.status, arrived.is_complete), (status, true));
            assert_eq!(
                !arrived.content.is_empty(),
                has_content,
                "{method} {status}"
            );
        }
    }
}
