//! HTTP/2 clients that try to get around a bound: with padding, frames that never end, and streams that end in time.

mod harness;

use harness::connected::{Connected, TICK_MS};
use harness::response;
use server::Command;
use wire::h2::{ErrorCode, PREFACE};

fn codes(it: &Connected) -> Vec<ErrorCode> {
    it.client.goaways.iter().map(|(_, code)| *code).collect()
}

/// What the client may send on a stream.
fn room(it: &Connected, stream: u32) -> usize {
    let room_bytes = it.client.streams[&stream].room_bytes;
    room_bytes.min(it.client.room_bytes).max(0) as usize
}

#[test]
fn padding_does_not_open_a_window_that_is_withheld() {
    let mut it = Connected::new();
    it.client.open_everything();
    let oldest = it.client.open("POST", "/read/oldest", false);
    let uploads: Vec<u32> = (0..20)
        .map(|_| it.client.open("POST", "/read/upload", false))
        .collect();
    it.settle();
    for _ in 0..200 {
        for upload in &uploads {
            let content_bytes = room(&it, *upload).saturating_sub(2).min(16_000);
            if content_bytes > 0 {
                it.client
                    .padded_data(*upload, &[b'u'; 16_000][..content_bytes], 1);
            }
        }
        it.settle();
    }
    // One content of the greatest length, what several have together, and a window for each: 64 MB were to be sent.
    let held_bytes = it.server.worker.held_bytes();
    assert!(held_bytes < (16 + 1 + 2) << 20, "{held_bytes}");
    // The oldest one still has a window, and then each of the others.
    it.client.data(oldest, b"content", true);
    it.settle();
    for upload in uploads {
        assert!(room(&it, upload) >= 7, "{upload}");
        it.client.data(upload, b"content", true);
        it.settle();
        assert_eq!(it.status(upload), 200);
    }
}

#[test]
fn padding_takes_no_larger_window() {
    let mut it = Connected::new();
    let held = it.client.open("POST", "/later/held", false);
    it.settle();
    for _ in 0..300 {
        it.client.padded_data(held, b"", 255);
    }
    it.settle();
    assert!(room(&it, held) <= 65_536);
    let upload = it.client.open("POST", "/parts/upload", false);
    it.client.data(upload, &[b'u'; 10_000], false);
    it.settle();
    assert_eq!(it.client.streams[&upload].room_bytes, 1 << 20);
}

#[test]
fn uploads_that_end_before_they_are_read_do_not_add_up() {
    let mut it = Connected::new();
    it.server.worker.app.reads_on = false;
    let mut uploads = Vec::new();
    for number in 0..20 {
        let target = format!("/parts/{number}");
        let upload = it.client.open("POST", &target, false);
        it.client.data(upload, &[b'u'; 10_000], false);
        it.settle();
        let mut left = room(&it, upload).min(900_000);
        while left > 0 {
            let count = left.min(16_384);
            it.client.data(upload, &[b'u'; 16_384][..count], false);
            it.settle();
            left -= count;
        }
        it.client.data(upload, b"", true);
        it.settle();
        uploads.push(target);
    }
    let held_bytes = it.server.worker.held_bytes();
    assert!(held_bytes < 5 << 20, "{held_bytes}");
    // Once the content of the first is read, another one may be ahead.
    let first = it.server.exchange(&uploads[0]);
    it.server.post(first, Command::Read);
    it.settle();
    assert!(it.server.worker.app.content_of(first).1);
    let next = it.client.open("POST", "/parts/next", false);
    it.client.data(next, &[b'u'; 10_000], false);
    it.settle();
    assert_eq!(it.client.streams[&next].room_bytes, 1 << 20);
}

/// A client that sends a frame of 12,000 octets for `target`, so many octets in each second, and owes the content of another stream. Returns the
/// status of that after so many seconds.
fn status_beside(target: &str, bytes_per_s: usize, seconds: usize) -> u16 {
    let mut it = Connected::new();
    let arriving = it.client.open("POST", target, false);
    let owed = it.client.open("POST", "/read/owed", false);
    it.settle();
    it.client.data(arriving, &[b'u'; 12_000], false);
    it.client.send(9);
    for _ in 0..seconds {
        it.client.send(bytes_per_s);
        it.server.settle();
        it.advance(1_000);
    }
    if !it.client.has_pending() {
        it.client.data(owed, b"content", true);
        it.settle();
    }
    it.advance(TICK_MS);
    it.status(owed)
}

#[test]
fn a_frame_that_nobody_waits_for_gives_others_no_time() {
    assert_eq!(status_beside("/later/unread", 3, 6), 408);
    assert_eq!(status_beside("/later/unread", 3, 4), 0);
}

#[test]
fn a_frame_that_is_waited_for_does() {
    assert_eq!(status_beside("/parts/read", 300, 20), 0);
    assert_eq!(status_beside("/parts/read", 300, 40), 200);
    // It is too slow itself.
    assert_eq!(status_beside("/parts/read", 3, 12), 408);
}

#[test]
fn without_a_minimum_rate_a_frame_that_nobody_waits_for_has_the_time_of_a_header_section() {
    for (target, ends) in [("/later/unread", true), ("/parts/read", false)] {
        let mut it = Connected::with(|config| config.timeouts.body_rate_bytes_per_s_min = 0);
        let stream = it.client.open("POST", target, false);
        it.settle();
        it.client.data(stream, &[b'u'; 10_000], false);
        for _ in 0..16 {
            it.client.send(10);
            it.server.settle();
            it.advance(1_000);
        }
        assert_eq!(!codes(&it).is_empty(), ends, "{target}");
    }
}

#[test]
fn a_client_that_has_not_sent_its_settings_does_not_delay_a_drain() {
    for sent_bytes in [10, PREFACE.len(), PREFACE.len() + 5] {
        let mut it = Connected::unsettled(|_| ());
        it.client.send(sent_bytes);
        it.server.settle();
        it.server.worker.drain();
        it.advance(1_000);
        assert!(it.client.is_ended(), "{sent_bytes}");
        assert!(codes(&it).iter().all(|code| *code == ErrorCode::NO_ERROR));
    }
}

#[test]
fn repeated_resets_are_limited() {
    let mut it = Connected::with(|config| config.limits.h2_idle_frames_max = 100);
    let cancelled = it.client.open("GET", "/later/cancelled", true);
    it.settle();
    for _ in 0..90 {
        it.client.reset(cancelled);
    }
    it.settle();
    assert_eq!(codes(&it), []);
    for _ in 0..20 {
        it.client.reset(cancelled);
    }
    it.settle();
    assert_eq!(codes(&it), [ErrorCode::ENHANCE_YOUR_CALM]);
}

#[test]
fn content_for_a_stream_that_was_reset_is_limited_beyond_its_window() {
    let mut it = Connected::with(|config| config.limits.h2_idle_frames_max = 100);
    let upload = it.client.open("POST", "/later/upload", false);
    it.settle();
    let id = it.server.exchange("/later/upload");
    it.server.post(id, Command::Begin(response(200, "")));
    it.server.post(id, Command::Fail);
    it.settle();
    let reset = it.client.streams[&upload].reset;
    assert_eq!(reset, Some(ErrorCode::INTERNAL_ERROR));
    // All of this may have been under way.
    for _ in 0..256 {
        it.client.data(upload, &[b'u'; 256], false);
    }
    it.settle();
    assert_eq!(codes(&it), []);
    for _ in 0..110 {
        it.client.data(upload, &[b'u'; 256], false);
    }
    it.settle();
    assert_eq!(codes(&it), [ErrorCode::ENHANCE_YOUR_CALM]);
}

#[test]
fn a_frame_for_a_stream_that_was_reset_gives_others_no_time() {
    let mut it = Connected::new();
    let gone = it.client.open("POST", "/parts/gone", false);
    let owed = it.client.open("POST", "/read/owed", false);
    it.client.reset(gone);
    it.settle();
    it.client.data(gone, &[b'u'; 10_000], false);
    for _ in 0..4 {
        it.client.send(10);
        it.server.settle();
        it.advance(1_000);
    }
    it.settle();
    it.advance(1_000 + TICK_MS);
    assert_eq!(it.status(owed), 408);
}
