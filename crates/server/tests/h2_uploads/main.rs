//! Uploads over HTTP/2: whose window opens when, and for how long content is taken that nobody wants.

#[path = "../harness/mod.rs"]
mod harness;

use harness::connected::Connected;
use server::{Abort, Command};
use wire::h2::ErrorCode;

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

/// What is free is for those that send, however many hold what they have sent.
#[test]
fn uploads_that_are_slow_do_not_stop_one_that_is_not() {
    for kind in ["whole", "read"] {
        for (count, length) in [(17, 1_000_000), (40, 1_000_000), (60, 16_000_000)] {
            expect_prompt(kind, count, length, Some(200_000));
        }
        expect_prompt(kind, 60, 1_000_000, None);
    }
}

/// So many uploads of that length fill their windows and go on slowly, then one of 200,000 bytes is made.
fn expect_prompt(kind: &str, count: usize, length: usize, announced: Option<usize>) {
    let mut it = Connected::new();
    let open = |it: &mut Connected, target: String, length: Option<usize>| {
        let fields = length.map(|it| format!("content-length: {it}\r\n"));
        let fields = fields.unwrap_or_default();
        it.client.open_with("POST", &target, &fields, false)
    };
    let slow: Vec<u32> = (0..count)
        .map(|number| open(&mut it, format!("/{kind}/{number}"), Some(length)))
        .collect();
    it.settle();
    let mut held = 0;
    for _ in 0..4 {
        for stream in &slow {
            held += send_content(&mut it, *stream, 65_536);
        }
    }
    let target = format!("/{kind}/prompt");
    let prompt = open(&mut it, target.clone(), announced);
    it.settle();
    let mut sent = 0;
    for _ in 0..8 {
        sent += send_content(&mut it, prompt, 200_000 - sent);
        for stream in &slow {
            held += send_content(&mut it, *stream, 100);
        }
        it.advance(1_000);
        it.settle();
    }
    assert_eq!(sent, 200_000, "{kind}: {count} of {length}, {announced:?}");
    it.client.data(prompt, b"", true);
    it.settle();
    let app = &it.server.worker.app;
    let called = app.called.iter().rfind(|it| it.target == target);
    let called = called.expect("it is complete");
    let content = called.content.clone();
    let content = content.unwrap_or_else(|| app.content_of(called.id).0);
    assert_eq!(content.len(), 200_000);
    for stream in slow {
        assert_eq!(it.client.streams[&stream].reset, None);
    }
    // One content of the greatest length, 1 MiB, what one upload may be ahead, and the windows.
    assert!(held <= (18 << 20) + count * 65_536, "{held}");
}

/// Opens streams whose handlers read all of their content, and sends what their windows allow. Returns how much was sent on the second one.
fn two_whole(it: &mut Connected) -> ([u32; 2], usize) {
    let streams = ["/whole/1", "/whole/2"].map(|target| it.client.open("POST", target, false));
    it.settle();
    send_content(it, streams[0], 1_500_000);
    let sent = send_content(it, streams[1], 3_000_000);
    assert!(sent < 3_000_000, "{sent}");
    (streams, sent)
}

/// Sends the rest of the content on the second stream, which must arrive.
fn expect_rest(it: &mut Connected, stream: u32, sent: usize) {
    assert_eq!(send_content(it, stream, 3_000_000 - sent), 3_000_000 - sent);
    it.client.data(stream, b"", true);
    it.settle();
    let id = it.server.exchange("/whole/2");
    assert_eq!(it.server.worker.app.content_of(id).0.len(), 3_000_000);
}

#[test]
fn a_stream_that_ends_by_a_deadline_lets_the_next_one_send() {
    let mut it = Connected::new();
    it.client.announce_window(0);
    it.settle();
    let ([first, second], sent) = two_whole(&mut it);
    let id = it.server.exchange("/whole/1");
    it.server.respond(id, "nobody reads it");
    it.advance(60_000);
    assert!(it.client.streams[&first].reset.is_some());
    expect_rest(&mut it, second, sent);
}

#[test]
fn a_content_for_which_its_handler_has_no_memory_lets_the_next_one_be_sent() {
    let mut it = Connected::new();
    let ([first, second], sent) = two_whole(&mut it);
    it.server.worker.app.has_no_memory = true;
    it.client.data(first, b"", true);
    it.settle();
    assert_eq!(it.status(first), 503);
    it.server.worker.app.has_no_memory = false;
    expect_rest(&mut it, second, sent);
}

#[test]
fn a_handler_that_reads_in_parts_again_gets_no_window_twice() {
    let mut it = Connected::new();
    let stream = it.client.open("POST", "/whole/1", false);
    it.settle();
    send_content(&mut it, stream, 300_000);
    let id = it.server.exchange("/whole/1");
    it.server.worker.app.reads_on = false;
    it.server.post(id, Command::Read);
    it.settle();
    assert_eq!(
        it.server.worker.app.content_of(id),
        ("u".repeat(300_000), false)
    );
    // What it has not asked for is bounded by the window.
    let more = send_content(&mut it, stream, usize::MAX);
    assert!((1 << 19..=1 << 20).contains(&more), "{more}");
    it.server.post(id, Command::ReadWhole);
    it.settle();
    assert_eq!(send_content(&mut it, stream, 2_000_000), 2_000_000);
    it.client.data(stream, b"", true);
    it.settle();
    let (content, is_last) = it.server.worker.app.content_of(id);
    assert_eq!((content.len(), is_last), (2_300_000 + more, true));
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
        let room = room.min(bytes - sent);
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

/// A client may read all of a response before it sends what nobody reads, or give that up.
#[test]
fn a_response_that_nobody_needs_content_for_is_sent_as_a_whole_before_content_is_late() {
    for target in ["/big/400000", "/pull/400"] {
        let mut it = Connected::new();
        it.server.worker.app.pull_bytes = 1000;
        let upload = it.client.open("POST", target, false);
        it.settle();
        let mut seconds = 0;
        while !it.client.streams[&upload].is_complete {
            assert_eq!(
                it.client.streams[&upload].reset, None,
                "{target}: {seconds}"
            );
            it.client.give(upload, 16_384);
            it.client.give(0, 16_384);
            if seconds == 10 {
                it.client.data(upload, b"u", false);
            }
            it.settle();
            it.advance(1_000);
            it.settle();
            seconds += 1;
        }
        assert!(seconds > 10, "{target}: {seconds}");
        assert_eq!(it.client.streams[&upload].content.len(), 400_000);
        for _ in 0..4 {
            it.advance(1_000);
            it.settle();
            assert_eq!(it.client.streams[&upload].reset, None, "{target}");
        }
        it.advance(2_000);
        it.settle();
        let reset = it.client.streams[&upload].reset;
        assert_eq!(reset, Some(ErrorCode::NO_ERROR), "{target}");
    }
}

/// No frame but its own gives it more time, and these do for a while only.
#[test]
fn content_that_nobody_reads_is_late_however_busy_its_connection_is() {
    for (bytes, seconds_max) in [(0, 5), (1_000, 30)] {
        let mut it = Connected::new();
        let upload = it.client.open("POST", "/at-once", false);
        it.settle();
        assert!(it.client.streams[&upload].is_complete);
        let mut seconds = 0;
        while it.client.streams[&upload].reset.is_none() {
            assert!(seconds <= seconds_max, "{bytes}: {seconds}");
            it.client.ping();
            it.client.data(upload, &vec![b'u'; bytes], false);
            it.settle();
            it.advance(1_000);
            it.settle();
            seconds += 1;
        }
        assert!(seconds >= seconds_max, "{bytes}: {seconds}");
        let reset = it.client.streams[&upload].reset;
        assert_eq!(reset, Some(ErrorCode::NO_ERROR), "{bytes}");
    }
}

#[test]
fn a_stop_takes_no_response_from_an_upload() {
    let mut it = Connected::new();
    let upload = it.client.open("POST", "/later/upload", false);
    it.settle();
    it.server.worker.stop();
    it.client.receive();
    let stream = &it.client.streams[&upload];
    let expected = (503, true, Some(ErrorCode::NO_ERROR));
    assert_eq!((stream.status, stream.is_complete, stream.reset), expected);
}

/// The request waits for a place, its window is used up, and then it is not read.
#[test]
fn content_that_arrived_before_its_request_was_started_is_discarded_too() {
    let mut it = Connected::with(|config| config.admission.limits.concurrency_max = 1);
    let first = it.client.open("GET", "/later", true);
    it.settle();
    let upload = it.client.open("POST", "/early", false);
    it.settle();
    let window = send_content(&mut it, upload, usize::MAX);
    assert!(window < 1 << 20, "it waits: {window}");
    let id = it.server.worker.app.running.remove(0);
    it.server.respond(id, "done");
    it.settle();
    assert_eq!(it.status(first), 200);
    assert!(it.client.streams[&upload].is_complete);
    assert_eq!(it.client.streams[&upload].reset, None);
    assert_eq!(send_content(&mut it, upload, 1 << 20), 1 << 20);
    it.client.data(upload, b"", true);
    it.settle();
    assert_eq!(it.client.streams[&upload].reset, None);
}
