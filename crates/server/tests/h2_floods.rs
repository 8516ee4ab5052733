//! HTTP/2: which frames and resets count against a client, and which do not.

mod harness;

use harness::connected::{Connected, TICK_MS};
use server::Command;
use wire::h2::ErrorCode;

use harness::response;

const REFUSED: Option<ErrorCode> = Some(ErrorCode::REFUSED_STREAM);

/// Opens streams whose handlers respond later.
fn open_later(it: &mut Connected, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| it.client.open("GET", "/later", true))
        .collect()
}

fn refused(it: &Connected, streams: &[u32]) -> usize {
    let resets = streams.iter().map(|id| it.client.streams[id].reset);
    resets.filter(|reset| *reset == REFUSED).count()
}

#[test]
fn a_download_may_return_its_credit_in_small_parts() {
    const PARTS: usize = 512;
    const STEP: usize = 256;
    let mut it = Connected::new();
    it.server.worker.app.pull_bytes = 16_384;
    let stream = it.client.open("GET", &format!("/pull/{PARTS}"), true);
    let mut returned = 0;
    while !it.client.streams[&stream].is_over() && it.client.goaways.is_empty() {
        it.settle();
        while returned + STEP <= it.client.streams[&stream].content.len() {
            it.client.give(stream, STEP as u32);
            it.client.give(0, STEP as u32);
            returned += STEP;
        }
    }
    let arrived = &it.client.streams[&stream];
    assert!(it.client.goaways.is_empty() && arrived.is_complete);
    assert_eq!(arrived.content.len(), PARTS * 16_384);
}

#[test]
fn whole_responses_pay_for_their_updates_too() {
    let mut it = Connected::new();
    for _ in 0..50 {
        let stream = it.client.open("GET", "/big/50000", true);
        it.settle();
        let content = &it.client.streams[&stream].content;
        assert_eq!(content.len(), 50_000);
        (0..50_000 / 200).for_each(|_| it.client.give(0, 200));
    }
    it.settle();
    assert!(it.client.goaways.is_empty());
}

#[test]
fn updates_beyond_the_content_sent_are_counted() {
    let mut it = Connected::new();
    let stream = it.client.open("GET", "/big/51200", true);
    it.settle();
    assert!(it.client.streams[&stream].is_complete);
    (0..51_200 / 128 + 9_000).for_each(|_| it.client.give(0, 1));
    it.settle();
    assert!(it.client.goaways.is_empty());
    (0..1_100).for_each(|_| it.client.give(0, 1));
    it.settle();
    assert_eq!(it.client.goaways, [(stream, ErrorCode::ENHANCE_YOUR_CALM)]);
}

#[test]
fn streams_opened_before_the_limit_is_known_are_no_resets() {
    let mut it = Connected::unsettled(|_| ());
    let streams = open_later(&mut it, 400);
    it.settle();
    assert_eq!(refused(&it, &streams), 300);
    assert!(it.client.goaways.is_empty());
    let ids: Vec<_> = it.server.worker.app.called.iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        it.server.post(id, Command::Respond(response(200, "late")));
    }
    it.settle();
    let served = streams.iter().filter(|id| it.status(**id) == 200);
    assert_eq!(served.count(), 100);
    // Now the client knows it.
    let streams = open_later(&mut it, 301);
    it.settle();
    assert_eq!(refused(&it, &streams), 201);
    let calm = ErrorCode::ENHANCE_YOUR_CALM;
    assert_eq!(it.client.goaways, [(streams[300], calm)]);
}

#[test]
fn streams_refused_before_the_limit_is_known_are_bounded() {
    let mut it = Connected::unsettled(|config| config.limits.h2_idle_frames_max = 500);
    let streams = open_later(&mut it, 1100);
    it.settle();
    assert_eq!(refused(&it, &streams), 501);
    let goaways: Vec<_> = it.client.goaways.iter().map(|(_, code)| *code).collect();
    assert_eq!(goaways, [ErrorCode::ENHANCE_YOUR_CALM]);
}

#[test]
fn streams_refused_by_a_drain_are_no_resets() {
    let mut it = Connected::new();
    let first = it.client.open("GET", "/later", true);
    it.settle();
    it.server.worker.drain();
    it.advance(TICK_MS);
    it.settle();
    let streams = open_later(&mut it, 300);
    it.settle();
    assert_eq!(refused(&it, &streams), 300);
    let id = it.server.exchange("/later");
    it.server.post(id, Command::Respond(response(200, "late")));
    it.settle();
    assert_eq!(it.client.streams[&first].content, b"late");
    let is_calm = |(_, code): &(u32, ErrorCode)| *code == ErrorCode::NO_ERROR;
    assert!(it.client.goaways.iter().all(is_calm));
}
