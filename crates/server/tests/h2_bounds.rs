//! HTTP/2: what a connection holds, the deadlines of its streams, panics in one of them.

mod harness;

use harness::connected::{Connected, TICK_MS};
use harness::{Server, response};
use server::{Abort, Command};
use wire::h2::{ErrorCode, Frame, Parsed};

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
        // Sixteen of the responses: further requests wait.
        assert!(it.server.worker.held_bytes() > 1_600_000);
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
        // The tables of the header compression have their entries now; at most 128 resets are remembered.
        assert!(round == 0 || held_bytes <= idle_bytes + 512, "{held_bytes}");
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
fn a_panic_of_a_handler_that_takes_content_is_a_500_on_its_stream() {
    let mut it = Connected::new();
    let panics = it.client.open("POST", "/parts/1", false);
    let reads = it.client.open("POST", "/parts/2", false);
    it.settle();
    it.client.data(panics, b"panic", false);
    it.client.data(reads, b"content", true);
    it.settle();
    assert_eq!(it.status(panics), 500);
    let (content, is_complete) = it
        .server
        .worker
        .app
        .content_of(it.server.exchange("/parts/2"));
    assert_eq!((content.as_str(), is_complete), ("content", true));
    assert_eq!(it.server.abort_of("/parts/1"), Some(Abort::Refused));
    it.server.respond(it.server.exchange("/parts/2"), "read");
    it.settle();
    assert_eq!(it.client.streams[&reads].content, b"read");
}

#[test]
fn a_panic_in_a_streamed_response_resets_its_stream_only() {
    let mut it = Connected::new();
    it.client.announce_window(7);
    let pulled = it.client.open("GET", "/pull/9", true);
    let pushed = it.client.open("GET", "/push", true);
    let other = it.client.open("GET", "/pull/2", true);
    it.settle();
    let id = it.server.exchange("/push");
    it.server.post(id, Command::Begin(response(200, "")));
    it.server.post(id, Command::Write(b"part".to_vec()));
    it.server.worker.app.panics_for = Some(id);
    it.settle();
    it.server.worker.app.panics_for = Some(it.server.exchange("/pull/9"));
    for stream in [pulled, other] {
        it.client.give(stream, 100);
    }
    it.settle();
    for (stream, target) in [(pulled, "/pull/9"), (pushed, "/push")] {
        let reset = it.client.streams[&stream].reset;
        assert_eq!(reset, Some(ErrorCode::INTERNAL_ERROR), "{target}");
        assert_eq!(it.server.abort_of(target), Some(Abort::Refused));
    }
    assert_eq!(it.client.streams[&other].content, b"p".repeat(10));
    assert!(it.client.streams[&other].is_complete && it.client.goaways.is_empty());
}

#[test]
fn a_panic_of_a_handler_that_is_late_or_reset_concerns_no_other() {
    let mut it = Connected::new();
    let late = it.client.open("GET", "/later/late", true);
    let cancelled = it.client.open("GET", "/later/cancelled", true);
    it.settle();
    it.server.worker.app.panics_for = Some(it.server.exchange("/later/cancelled"));
    it.client.reset(cancelled);
    it.settle();
    it.server.worker.app.panics_for = Some(it.server.exchange("/later/late"));
    it.advance(60_000 + TICK_MS);
    assert_eq!(it.status(late), 503);
    let next = it.client.open("GET", "/next", true);
    it.settle();
    assert_eq!(it.client.streams[&next].content, b"/next");
}

#[test]
fn handlers_that_outlive_their_streams_keep_their_places() {
    let mut it = Connected::new();
    it.server.worker.app.outlives_streams = true;
    for _ in 0..300 {
        let stream = it.client.open("GET", "/later", true);
        it.settle();
        it.client.reset(stream);
        it.settle();
        // Slower than the limit of resets.
        it.advance(100);
    }
    for _ in 0..3 {
        let refused = it.client.open("GET", "/later", true);
        it.settle();
        let reset = it.client.streams[&refused].reset;
        assert_eq!(reset, Some(ErrorCode::REFUSED_STREAM));
    }
    assert_eq!(it.server.targets().len(), 300);
    it.server.worker.app.outlives_streams = false;
    let served = it.client.open("GET", "/next", true);
    it.settle();
    assert_eq!(it.client.streams[&served].content, b"/next");
    assert!(it.client.goaways.is_empty());
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
    assert_eq!(abort, Some(Abort::HandlerTimeout { after_ms: 60_000 }));
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

/// Sends content at a rate, in one frame of the greatest length, and returns the statuses of its stream and of another that waits.
fn send_slowly(bytes_per_s: usize) -> (u16, u16) {
    let mut it = Connected::new();
    let read = it.client.open("POST", "/read", false);
    let waiting = it.client.open("POST", "/read", false);
    it.settle();
    it.client.data(read, &[b'u'; 16_384], true);
    let mut left = 16_384 + 9;
    while left > 0 && it.status(read) == 0 && it.client.goaways.is_empty() {
        let part = bytes_per_s.min(left);
        it.client.send(part);
        left -= part;
        it.advance(1000);
    }
    let is_served = it.client.streams[&read].content.len() == 16_384;
    assert_eq!(is_served, it.status(read) == 200);
    let statuses = (it.status(read), it.status(waiting));
    if is_served {
        // Its time runs again.
        it.advance(5_000 + TICK_MS);
        assert_eq!(it.status(waiting), 408);
    }
    statuses
}

#[test]
fn content_in_a_frame_that_is_not_complete_has_its_rate() {
    assert_eq!(send_slowly(250), (200, 0));
    assert_eq!(send_slowly(200), (408, 0));
}

#[test]
fn frames_without_content_are_no_content() {
    let mut it = Connected::new();
    let read = it.client.open("POST", "/read", false);
    it.settle();
    for _ in 0..5 {
        it.advance(900);
        assert_eq!(it.status(read), 0);
        (0..30).for_each(|_| it.client.ping());
        it.client.send(500);
        it.server.settle();
        it.client.receive();
    }
    it.advance(500 + TICK_MS);
    assert_eq!(it.status(read), 408);
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
    assert_eq!(it.client.goaways, [(0x7fff_ffff, ErrorCode::NO_ERROR)]);
    it.settle();
    assert_eq!(it.client.goaways[1..], [(stream, ErrorCode::NO_ERROR)]);
    assert!(it.client.is_ended());

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
    assert!(it.client.is_ended());
    assert_eq!(it.server.targets().len(), 2);
}

/// It would be refused.
#[test]
fn a_drain_does_not_wait_for_the_end_of_a_header_block() {
    let mut it = Connected::with(|config| config.timeouts.header_timeout_ms = 100_000);
    it.client.open_partly();
    it.settle();
    it.server.worker.drain();
    let mut waits = 0;
    while it.client.goaways.len() < 2 {
        assert!(waits < 100, "{:?}", it.client.goaways);
        // The client cannot acknowledge the PING within its block.
        it.advance(TICK_MS);
        waits += 1;
    }
    assert_eq!(it.client.goaways[1], (0, ErrorCode::NO_ERROR));
    assert!(it.client.is_ended());
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
fn a_stop_sends_what_the_socket_accepts() {
    let mut it = Connected::new();
    it.client.open_everything();
    it.settle();
    let long: Vec<u32> = (0..3)
        .map(|number| {
            it.client
                .open("GET", &format!("/later/long/{number}"), true)
        })
        .collect();
    let short: Vec<u32> = (0..8)
        .map(|number| it.client.open("GET", &format!("/later/{number}"), true))
        .collect();
    it.settle();
    let content = "x".repeat(40_000);
    for number in 0..long.len() {
        let id = it.server.exchange(&format!("/later/long/{number}"));
        it.server.respond(id, &content);
    }
    let unfinished = it.server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (8, 0));
    it.client.receive();
    for stream in long {
        assert_eq!(it.client.streams[&stream].content.len(), 40_000);
    }
    for stream in short {
        assert_eq!(it.status(stream), 503);
        assert!(it.client.streams[&stream].is_complete, "{stream}");
    }
}

#[test]
fn a_stop_counts_complete_responses_whose_window_is_closed_as_truncated() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    let streams: Vec<u32> = ["/a", "/later", "/", "/head"]
        .iter()
        .map(|target| match *target {
            "/head" => it.client.open("HEAD", target, true),
            target => it.client.open("GET", target, true),
        })
        .collect();
    it.settle();
    let unfinished = it.server.worker.stop();
    it.client.receive();
    // "/later" gets a 503, and the response to HEAD was sent.
    assert_eq!((unfinished.refused, unfinished.cut), (1, 2));
    let resets = streams.iter().map(|id| it.client.streams[id].reset);
    let cancel = Some(ErrorCode::CANCEL);
    assert_eq!(resets.collect::<Vec<_>>(), [cancel, cancel, cancel, None]);
}

#[test]
fn a_stop_counts_a_response_that_waits_for_a_full_socket_as_truncated() {
    let mut it = Connected::new();
    it.client.open_everything();
    it.settle();
    it.client.open("GET", "/big/8000000", true);
    it.client.send(usize::MAX);
    it.server.settle();
    let unfinished = it.server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (0, 1));
}

#[test]
fn a_stop_counts_every_response_whose_end_waits_for_a_full_socket() {
    let mut it = Connected::new();
    it.client.open_everything();
    it.settle();
    it.client.open("GET", "/later/1", true);
    it.client.open("HEAD", "/later/2", true);
    it.client.open("GET", "/big/8000000", true);
    it.client.send(usize::MAX);
    it.server.settle();
    for target in ["/later/1", "/later/2"] {
        it.server.respond(it.server.exchange(target), "");
    }
    it.server.settle();
    let unfinished = it.server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (0, 3));
}

#[test]
fn a_stop_counts_nothing_for_a_response_that_is_sent_before_its_request_is_complete() {
    let mut it = Connected::new();
    let early = it.client.open("POST", "/early", false);
    it.settle();
    assert!(it.client.streams[&early].is_complete);
    let unfinished = it.server.worker.stop();
    assert_eq!((unfinished.refused, unfinished.cut), (0, 0));
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

#[test]
fn a_first_line_that_names_no_version_of_http1_is_an_invalid_preface() {
    let (mut server, _) = Server::with_manual_clock(|config| config.accepts_prior_knowledge = true);
    for first in [
        "INVALID CONNECTION PREFACE\r\n\r\n",
        "PRJ * HTTP2\r\n",
        "GET /\n",
    ] {
        let mut client = server.connect();
        client.send(first);
        server.settle();
        let sent = client.take_bytes();
        let Ok(Parsed::Frame(Frame::Settings(_), mut at)) = wire::h2::parse(&sent, 16_384) else {
            panic!("{first:?} did not get SETTINGS first");
        };
        let mut codes = Vec::new();
        while let Ok(Parsed::Frame(frame, used)) = wire::h2::parse(&sent[at..], 16_384) {
            at += used;
            if let Frame::GoAway { code, .. } = frame {
                codes.push(code);
            }
        }
        assert_eq!((codes, at), (vec![ErrorCode::PROTOCOL_ERROR], sent.len()));
        assert!(client.is_ended(), "{first:?}");
    }
    for (line, status) in [
        ("\r\nGET / HTTP/1.1", 200),
        ("G@T / HTTP/1.1", 400),
        ("GET / HTTP/1.1x", 400),
        ("GET / HTTP/3.0", 505),
    ] {
        let mut client = server.connect();
        let response = server.ask(&mut client, &format!("{line}\r\nHost: test\r\n\r\n"));
        assert_eq!(response.status, status, "{line}");
    }
}

#[test]
fn a_part_is_sent_before_the_reset_that_follows_it() {
    let mut it = Connected::new();
    let stream = it.client.open("GET", "/later", true);
    it.settle();
    let id = it.server.exchange("/later");
    it.server.post(id, Command::Begin(response(200, "")));
    it.server.post(id, Command::Write(b"part".to_vec()));
    it.server.post(id, Command::Fail);
    it.settle();
    let arrived = &it.client.streams[&stream];
    let content = arrived.content.as_slice();
    assert_eq!((arrived.status, content), (200, &b"part"[..]));
    assert_eq!(arrived.reset, Some(ErrorCode::INTERNAL_ERROR));
}
