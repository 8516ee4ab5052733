//! HTTP/2 under pressure: clients that do not read, sockets that are full, uploads that wait for windows, and one connection beside others.

mod harness;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::connected::{Connected, TICK_MS};
use harness::h2::H2Client;
use harness::response;
use server::{Abort, Command};
use wire::h2::ErrorCode;

/// Complete responses that may wait, however large they are.
const WAITING_MAX: usize = 16;

fn called(it: &Connected) -> usize {
    it.server.worker.app.called.len()
}

#[test]
fn responses_that_nobody_reads_stop_further_requests() {
    for method in ["GET", "POST"] {
        let mut it = Connected::new();
        it.client.announce_window(0);
        it.settle();
        let streams: Vec<u32> = (0..100)
            .map(|_| {
                let stream = it.client.open(method, "/big/50000", method == "GET");
                if method == "POST" {
                    it.client.data(stream, b"content", true);
                }
                stream
            })
            .collect();
        it.settle();
        assert_eq!(called(&it), WAITING_MAX, "{method}");
        // Windows open one by one, last opened first: each makes room for the request that has waited longest.
        it.client.give(0, 10_000_000);
        for (done, stream) in streams.iter().take(WAITING_MAX).rev().enumerate() {
            it.client.give(*stream, 50_000);
            it.settle();
            assert!(it.client.streams[stream].is_complete);
            assert_eq!(called(&it), WAITING_MAX + done + 1);
        }
        it.client.announce_window(50_000);
        for _ in 0..100 {
            it.settle();
        }
        for stream in &streams {
            let arrived = &it.client.streams[stream];
            assert_eq!((arrived.status, arrived.content.len()), (200, 50_000));
        }
        let held_bytes = it.server.worker.held_bytes();
        assert!(held_bytes < 4096, "{held_bytes}");
    }
}

#[test]
fn a_response_that_is_read_slowly_stops_no_other() {
    let mut it = Connected::new();
    let slow = it.client.open("GET", "/big/1000000", true);
    it.settle();
    assert_eq!(it.client.streams[&slow].content.len(), 65_535);
    it.client.give(0, 1_000_000);
    for number in 0..50 {
        let quick = it.client.open("GET", "/quick", true);
        it.settle();
        assert!(it.client.streams[&quick].is_complete, "{number}");
    }
}

#[test]
fn a_waiting_request_gets_the_content_that_came_meanwhile() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    it.settle();
    let big: Vec<u32> = (0..WAITING_MAX)
        .map(|_| it.client.open("GET", "/big/20000", true))
        .collect();
    let waiting = ["/read/whole", "/read/later", "/parts/whole", "/parts/later"]
        .map(|target| it.client.open("POST", target, false));
    for stream in waiting {
        it.client.data(stream, b"first ", false);
    }
    it.client.data(waiting[0], b"last", true);
    it.client.data(waiting[2], b"last", true);
    let refused = it.client.open("POST", "/gone", false);
    it.settle();
    assert_eq!(called(&it), WAITING_MAX);
    it.client.reset(refused);
    it.client.announce_window(100_000);
    it.client.give(0, 1_000_000);
    for _ in 0..4 {
        it.settle();
    }
    assert!(
        big.iter()
            .all(|stream| it.client.streams[stream].is_complete)
    );
    it.client.data(waiting[1], b"last", true);
    it.client.data(waiting[3], b"last", true);
    it.settle();
    for stream in [waiting[0], waiting[1]] {
        assert_eq!(it.client.streams[&stream].content, b"first last");
    }
    for target in ["/parts/whole", "/parts/later"] {
        let app = &it.server.worker.app;
        let call = app.called.iter().find(|call| call.target == target);
        let call = call.expect("it was called");
        match &call.content {
            Some(content) => assert_eq!(content, "first last"),
            None => assert_eq!(app.content_of(call.id), ("first last".into(), true)),
        }
    }
    assert!(!it.server.targets().contains(&"/gone"));
}

/// A connection whose client reads nothing of a long response, so that its socket is full.
fn full() -> (Connected, u32) {
    let mut it = Connected::new();
    it.client.announce_window(50_000_000);
    it.client.give(0, 50_000_000);
    it.settle();
    let download = it.client.open("GET", "/big/20000000", true);
    it.client.send(usize::MAX);
    it.server.settle();
    (it, download)
}

#[test]
fn a_full_socket_does_not_stop_reading() {
    let (mut it, download) = full();
    let upload = it.client.open("POST", "/parts/upload", false);
    let waiting = it.client.open("GET", "/waiting", true);
    it.client.ping();
    it.client.send(usize::MAX);
    it.server.settle();
    // The upload waits to be started, with what its window allows; the rest of the connection is read.
    it.client.data(upload, &[b'u'; 10_000], true);
    it.client.reset(download);
    it.client.send(usize::MAX);
    it.server.settle();
    // What is left is what the socket had accepted, and at most one batch.
    for _ in 0..200 {
        it.settle();
    }
    assert!(it.client.streams[&download].content.len() < 15_000_000);
    assert_eq!(it.client.streams[&waiting].content, b"/waiting");
    assert_eq!(it.client.pongs, 1);
    let id = it.server.exchange("/parts/upload");
    let (content, is_complete) = it.server.worker.app.content_of(id);
    let call = it
        .server
        .worker
        .app
        .called
        .iter()
        .find(|call| call.id == id);
    let whole = call
        .and_then(|call| call.content.clone())
        .unwrap_or_default();
    assert_eq!(content.len() + whole.len(), 10_000);
    assert!(is_complete || !whole.is_empty());
}

#[test]
fn an_upload_goes_on_while_a_download_fills_the_socket() {
    let mut it = Connected::new();
    it.client.announce_window(50_000_000);
    it.client.give(0, 50_000_000);
    let upload = it.client.open("POST", "/parts/upload", false);
    it.client.data(upload, b"first", false);
    it.settle();
    it.client.open("GET", "/big/20000000", true);
    for _ in 0..60 {
        it.client.data(upload, &[b'u'; 2_000], false);
        it.client.send(usize::MAX);
        it.server.settle();
        it.clock.fetch_add(100, Ordering::Relaxed);
        it.server.settle();
    }
    let id = it.server.exchange("/parts/upload");
    let (content, _) = it.server.worker.app.content_of(id);
    assert_eq!(content.len(), 5 + 60 * 2_000);
    assert_eq!(it.server.abort_of("/parts/upload"), None);
}

#[test]
fn pings_that_nobody_reads_the_pongs_of_stop_reading() {
    let (mut it, _) = full();
    for _ in 0..20 {
        for _ in 0..100 {
            it.client.ping();
        }
        it.client.send(usize::MAX);
        it.server.settle();
    }
    let held_bytes = it.server.worker.held_bytes();
    assert!(held_bytes < 21_000_000, "{held_bytes}");
    for _ in 0..400 {
        it.settle();
    }
    assert_eq!(it.client.pongs, 2_000);
}

#[test]
fn a_stalled_stream_ends_although_the_socket_is_full() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    it.settle();
    let stalled = it.client.open("GET", "/big/1000", true);
    let download = it.client.open("GET", "/big/20000000", true);
    it.client.give(download, 50_000_000);
    it.client.give(0, 50_000_000);
    it.client.send(usize::MAX);
    it.server.settle();
    let mut elapsed_ms = 0;
    while elapsed_ms < 31_000 {
        // Reads steadily, and never all that waits.
        it.client.receive_some(200_000);
        it.clock.fetch_add(500, Ordering::Relaxed);
        elapsed_ms += 500;
        it.server.settle();
    }
    for _ in 0..200 {
        it.settle();
    }
    assert_eq!(it.client.streams[&stalled].reset, Some(ErrorCode::CANCEL));
    assert!(it.client.streams[&download].is_complete);
}

#[test]
fn frames_that_are_not_requests_keep_no_connection_open() {
    let mut it = Connected::new();
    for _ in 0..75 {
        it.client.ping();
        it.settle();
        it.advance(1_000);
    }
    it.advance(TICK_MS);
    it.settle();
    let codes: Vec<ErrorCode> = it.client.goaways.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, [ErrorCode::NO_ERROR, ErrorCode::NO_ERROR]);
    assert!(it.client.is_ended());
}

#[test]
fn a_repeated_reset_counts_once() {
    let mut it = Connected::new();
    let sibling = it.client.open("GET", "/later/sibling", true);
    let cancelled = it.client.open("GET", "/later/cancelled", true);
    it.settle();
    for _ in 0..1_000 {
        it.client.reset(cancelled);
    }
    it.settle();
    assert!(it.client.goaways.is_empty());
    it.server
        .respond(it.server.exchange("/later/sibling"), "done");
    it.settle();
    assert_eq!(it.client.streams[&sibling].content, b"done");
}

#[test]
fn what_is_under_way_for_many_reset_streams_is_ignored() {
    let mut it = Connected::new();
    let sibling = it.client.open("GET", "/later/sibling", true);
    let uploads: Vec<u32> = (0..99)
        .map(|_| it.client.open("POST", "/later/upload", false))
        .collect();
    it.settle();
    let ids: Vec<_> = it
        .server
        .worker
        .app
        .called
        .iter()
        .map(|call| call.id)
        .collect();
    for id in ids.into_iter().skip(1) {
        it.server.post(id, Command::Begin(response(200, "")));
        it.server.post(id, Command::Fail);
    }
    it.server.settle();
    for upload in &uploads {
        it.client.data(*upload, b"under way", false);
        it.client.trailers(*upload);
    }
    it.settle();
    assert!(it.client.goaways.is_empty(), "{:?}", it.client.goaways);
    it.server
        .respond(it.server.exchange("/later/sibling"), "done");
    it.settle();
    assert_eq!(it.client.streams[&sibling].content, b"done");
}

#[test]
fn frames_for_streams_that_were_reset_are_limited_unless_they_have_content() {
    for has_content in [true, false] {
        let mut it = Connected::with(|config| config.limits.h2_idle_frames_max = 100);
        let upload = it.client.open("POST", "/later/upload", false);
        it.settle();
        let id = it.server.exchange("/later/upload");
        it.server.post(id, Command::Begin(response(200, "")));
        it.server.post(id, Command::Fail);
        it.settle();
        let reset = it.client.streams[&upload].reset;
        assert_eq!(reset, Some(ErrorCode::INTERNAL_ERROR));
        let content: &[u8] = if has_content { b"under way" } else { b"" };
        for _ in 0..200 {
            it.client.data(upload, content, true);
        }
        it.settle();
        let codes: Vec<ErrorCode> = it.client.goaways.iter().map(|(_, code)| *code).collect();
        let calm = [ErrorCode::ENHANCE_YOUR_CALM];
        assert_eq!(codes, if has_content { &[][..] } else { &calm[..] });
    }
}

/// How many calls of a connection come before that of another client.
fn calls_before_a_victim(prepare: impl FnOnce(&mut H2Client)) -> usize {
    let mut it = Connected::new();
    prepare(&mut it.client);
    let clock = Arc::clone(&it.clock);
    it.server.worker.app.on_call = Some(Box::new(move || {
        clock.fetch_add(20, Ordering::Relaxed);
    }));
    let victim = it.server.connect();
    it.server.pass();
    it.client.send(usize::MAX);
    victim.send("GET /victim HTTP/1.1\r\nHost: a\r\n\r\n");
    it.server
        .pass_until(|server| server.targets().contains(&"/victim"));
    let before = it
        .server
        .targets()
        .iter()
        .position(|target| *target == "/victim");
    before.expect("it was called")
}

#[test]
fn slow_handlers_of_one_connection_take_turns_with_others() {
    let gets = calls_before_a_victim(|client| {
        for _ in 0..100 {
            client.open("GET", "/slow-get", true);
        }
    });
    let posts = calls_before_a_victim(|client| {
        let streams: Vec<u32> = (0..100)
            .map(|_| client.open("POST", "/read/slow", false))
            .collect();
        for stream in streams {
            client.data(stream, b"content", true);
        }
    });
    assert!(gets <= 8 && posts <= 8, "{gets} {posts}");
}

#[test]
fn a_stop_responds_to_what_it_can() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    it.settle();
    let waiting = it.client.open("GET", "/later/waiting", true);
    let stalled = it.client.open("GET", "/big/1000", true);
    it.settle();
    it.client.announce_window(65_535);
    it.client.send(usize::MAX);
    it.server.settle();
    it.client.announce_window(0);
    let pushed = it.client.open("GET", "/push/stream", true);
    it.client.send(usize::MAX);
    it.server.settle();
    let id = it.server.exchange("/push/stream");
    it.server.post(id, Command::Begin(response(200, "")));
    it.server.settle();
    it.server.worker.stop();
    it.client.receive();
    assert!(it.client.streams[&stalled].is_complete);
    assert_eq!(it.client.streams[&waiting].status, 503);
    assert_eq!(it.client.streams[&pushed].reset, Some(ErrorCode::CANCEL));
    assert_eq!(
        it.server.abort_of("/later/waiting"),
        Some(Abort::Disconnected)
    );
}
