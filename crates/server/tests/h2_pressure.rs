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
fn an_upload_whose_window_is_withheld_is_not_late() {
    expect_in_time("/read/upload");
    expect_in_time("/whole/upload");
}

fn expect_in_time(target: &str) {
    let mut it = Connected::new();
    let uploads: Vec<u32> = (0..4)
        .map(|_| it.client.open("POST", target, false))
        .collect();
    it.settle();
    let mut sent = [0; 4];
    // The first one sends steadily; the others send what they may, and then wait for it.
    for _ in 0..100 {
        for (upload, sent) in uploads.iter().zip(&mut sent) {
            let room = it.client.streams[upload]
                .room_bytes
                .min(it.client.room_bytes);
            let is_first = *upload == uploads[0];
            let most = if is_first { 20_000 } else { 1_000_000 };
            let bytes = room.clamp(0, most).min(4_000_000 - *sent);
            *sent += bytes;
            for part in vec![b'u'; bytes as usize].chunks(16_384) {
                it.client.data(*upload, part, false);
            }
        }
        it.settle();
        it.advance(1_000);
        it.settle();
    }
    for upload in &uploads {
        let arrived = &it.client.streams[upload];
        assert_eq!((arrived.status, arrived.reset), (0, None), "{upload}");
    }
    assert!(sent[3] < 2_000_000, "{sent:?}");
}

/// However they end, the next one may send.
#[test]
fn contents_that_handlers_read_as_a_whole_arrive_one_after_the_other() {
    const BYTES: usize = 3_000_000;
    let mut it = Connected::new();
    let targets: Vec<String> = (0..5).map(|number| format!("/whole/{number}")).collect();
    let streams: Vec<u32> = targets
        .iter()
        .map(|target| it.client.open("POST", target, false))
        .collect();
    it.settle();
    let mut sent = [0; 5];
    for (stream, sent) in streams.iter().zip(&mut sent) {
        *sent = send_content(&mut it, *stream, BYTES);
    }
    assert_eq!(sent[0], BYTES);
    assert!(sent[2] + sent[3] + sent[4] < 1_000_000, "{sent:?}");
    for number in 0..targets.len() {
        let (stream, target) = (streams[number], &targets[number]);
        sent[number] += send_content(&mut it, stream, BYTES - sent[number]);
        assert_eq!(sent[number], BYTES, "{target}");
        let id = it.server.exchange(target);
        match number {
            1 => it.client.reset(stream),
            2 => it.server.respond(id, "enough"),
            _ => it.client.data(stream, b"", true),
        }
        it.settle();
        let (content, is_last) = it.server.worker.app.content_of(id);
        match number {
            1 => assert_eq!(it.server.abort_of(target), Some(Abort::Disconnected)),
            2 => assert_eq!(it.status(stream), 200),
            _ => assert_eq!((content.len(), is_last), (BYTES, true)),
        }
        it.server.respond(id, "done");
        it.settle();
    }
    assert!(it.server.worker.held_bytes() < 100_000);
}

#[test]
fn one_upload_may_be_ahead_of_its_handler() {
    let mut it = Connected::new();
    let first = it.client.open("POST", "/parts/first", false);
    let second = it.client.open("POST", "/parts/second", false);
    for stream in [first, second] {
        it.client.data(stream, &[b'u'; 10_000], false);
    }
    it.settle();
    let room = |it: &Connected, stream: u32| it.client.streams[&stream].room_bytes;
    assert_eq!(room(&it, first), 1 << 20);
    assert!(room(&it, second) <= 65_536);
    it.client.data(first, b"end", true);
    it.settle();
    it.client.data(second, &[b'u'; 10_000], false);
    it.settle();
    assert_eq!(room(&it, second), 1 << 20);
}

#[test]
fn content_that_is_sent_before_the_settings_arrive_is_accepted() {
    let mut it = Connected::unsettled(|config| config.limits.content_buffer_bytes_max = 1_000);
    let upload = it.client.open("POST", "/parts/upload", false);
    for part in vec![b'u'; 60_000].chunks(16_000) {
        it.client.data(upload, part, false);
    }
    it.client.data(upload, b"", true);
    it.settle();
    assert_eq!(it.client.streams[&upload].reset, None);
    let id = it.server.exchange("/parts/upload");
    let (content, is_complete) = it.server.worker.app.content_of(id);
    assert_eq!((content.len(), is_complete), (60_000, true));
    // Later streams have the window that was announced.
    let next = it.client.open("POST", "/later/next", false);
    it.client.data(next, &[b'u'; 1_001], false);
    it.settle();
    let reset = it.client.streams[&next].reset;
    assert_eq!(reset, Some(ErrorCode::FLOW_CONTROL_ERROR));
}

/// Sends as much content as the windows allow, up to `bytes`. Returns how much that was.
fn send_content(it: &mut Connected, stream: u32, bytes: usize) -> usize {
    let mut sent = 0;
    while sent < bytes {
        let room = it.client.streams[&stream]
            .room_bytes
            .min(it.client.room_bytes)
            .clamp(0, 16_384) as usize;
        if room == 0 {
            break;
        }
        it.client.data(stream, &[b'u'; 16_384][..room], false);
        it.settle();
        sent += room;
    }
    sent
}

/// Many clients read no response before they have sent everything.
#[test]
fn content_is_discarded_for_half_a_minute_after_its_response() {
    let mut it = Connected::new();
    let upload = it.client.open("POST", "/later/upload", false);
    it.settle();
    let window = send_content(&mut it, upload, usize::MAX);
    assert!(window < 1 << 20, "nobody reads it: {window}");
    it.server
        .respond(it.server.exchange("/later/upload"), "done");
    it.settle();
    assert!(it.client.streams[&upload].is_complete);
    let mut seconds = 0;
    while it.client.streams[&upload].reset.is_none() {
        assert!(seconds < 60, "it is discarded for ever");
        send_content(&mut it, upload, 1 << 20);
        it.advance(1_000);
        it.settle();
        seconds += 1;
    }
    assert!((30..=35).contains(&seconds), "{seconds}");
    let reset = it.client.streams[&upload].reset;
    assert_eq!(reset, Some(ErrorCode::NO_ERROR));
    // Nothing was refused, although it was more than a request may have.
    assert_eq!(it.server.worker.app.refusals, Vec::<String>::new());
    let next = it.client.open("GET", "/next", true);
    it.settle();
    assert_eq!(it.client.streams[&next].content, b"/next");
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
