//! HTTP/2: the order in which streams send their content (RFC 9218).

mod harness;

use harness::connected::{Connected, TICK_MS};
use harness::response;
use server::{Abort, Command, MessageKind};
use wire::h2::ErrorCode;

/// Three frames: two full ones and a part.
const LONG: &str = "/big/40000";

/// A connection whose client keeps the windows of streams closed until [`Connected::settle_open`].
fn closed() -> Connected {
    let mut it = Connected::new();
    it.client.announce_window(0);
    it.settle();
    it
}

impl Connected {
    /// Opens a stream with this field `priority`; "" for none.
    fn open(&mut self, target: &str, priority: &str) -> u32 {
        let fields = match priority {
            "" => String::new(),
            value => format!("priority: {value}\r\n"),
        };
        self.client.open_with("GET", target, &fields, true)
    }

    /// Opens all windows, and returns the streams of the DATA frames that arrive, in order.
    fn settle_open(&mut self) -> &[u32] {
        self.client.open_everything();
        for _ in 0..8 {
            self.settle();
        }
        assert!(self.client.streams.values().all(|it| it.is_over()));
        &self.client.order
    }
}

#[test]
fn without_any_priority_streams_take_turns() {
    let mut it = closed();
    for _ in 0..3 {
        it.open(LONG, "");
    }
    it.settle();
    assert_eq!(it.settle_open(), [1, 3, 5, 1, 3, 5, 1, 3, 5]);
}

#[test]
fn urgent_streams_are_first_and_others_follow_one_after_another() {
    let mut it = closed();
    for priority in ["u=5", "", "u=0", "", "u=7", "u=0"] {
        it.open(LONG, priority);
    }
    it.settle();
    let order = [5, 5, 5, 11, 11, 11, 3, 3, 3, 7, 7, 7, 1, 1, 1, 9, 9, 9];
    assert_eq!(it.settle_open(), order);
}

#[test]
fn incremental_streams_take_turns_with_each_other_and_with_the_first_of_the_rest() {
    let mut it = closed();
    for priority in ["", "i", "", "u=3, i"] {
        it.open(LONG, priority);
    }
    it.settle();
    // The second of those that are not incremental starts when the first is over.
    assert_eq!(it.settle_open(), [3, 7, 1, 3, 7, 1, 3, 7, 1, 5, 5, 5]);
}

#[test]
fn a_malformed_priority_is_none() {
    let mut it = closed();
    for priority in ["u=0,", "u=", "i=?2"] {
        it.open(LONG, priority);
    }
    it.client.prioritize(1, "u=0 i");
    it.settle();
    assert_eq!(it.settle_open(), [1, 3, 5, 1, 3, 5, 1, 3, 5]);
    assert_eq!(it.client.goaways, []);
}

#[test]
fn a_frame_changes_the_priority_of_a_stream_that_is_open() {
    let mut it = closed();
    for priority in ["u=1", "u=2", "u=3"] {
        it.open(LONG, priority);
    }
    it.settle();
    it.client.prioritize(5, "u=0");
    // All parameters that it leaves out have their defaults.
    it.client.prioritize(1, "i");
    assert_eq!(it.settle_open(), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
}

#[test]
fn the_last_frame_for_a_stream_that_is_not_open_overrides_its_field() {
    let mut it = closed();
    it.client.prioritize(3, "u=7");
    it.client.prioritize(3, "u=1");
    it.client.prioritize(5, "u=0");
    for priority in ["u=2", "u=6", ""] {
        it.open(LONG, priority);
    }
    it.settle();
    assert_eq!(it.settle_open(), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
}

#[test]
fn a_malformed_frame_does_not_change_what_the_one_before_it_said() {
    let mut it = closed();
    it.client.prioritize(3, "u=0");
    it.client.prioritize(3, "u=0 i");
    for _ in 0..2 {
        it.open(LONG, "");
    }
    it.settle();
    assert_eq!(it.settle_open(), [3, 3, 3, 1, 1, 1]);
}

#[test]
fn a_stream_that_cannot_send_delays_no_other() {
    let mut it = closed();
    let urgent = it.open("/later/1", "u=0");
    let blocked = it.open(LONG, "u=1");
    let last = it.open(LONG, "u=7");
    it.settle();
    it.client.give(last, 100_000);
    it.settle();
    let content = |it: &Connected, stream| it.client.streams[&stream].content.len();
    assert_eq!((content(&it, blocked), content(&it, last)), (0, 40_000));
    it.server.respond(it.server.exchange("/later/1"), "late");
    assert_eq!(it.settle_open(), [urgent, blocked, blocked, blocked]);
}

#[test]
fn parts_of_urgent_responses_are_asked_for_first() {
    let mut it = closed();
    it.server.worker.app.pull_bytes = 1000;
    for (target, priority) in [("/pull/3", "u=4"), ("/pull/3", "u=1"), ("/pull/3", "u=1")] {
        it.open(target, priority);
    }
    it.settle();
    // Each had one part when the windows were closed. The frames without content are the ends.
    assert_eq!(it.settle_open(), [3, 5, 1, 3, 3, 3, 5, 5, 5, 1, 1, 1]);
}

#[test]
fn requests_that_wait_to_be_started_are_started_by_urgency() {
    let mut it = Connected::with(|config| {
        config.limits.pipelined_exchanges_max = 1;
        config.limits.send_buffer_bytes_max = 1000;
    });
    it.client.announce_window(0);
    it.settle();
    it.open(LONG, "");
    for (target, priority) in [("/a", ""), ("/b", "u=4"), ("/c", "u=2"), ("/d", "u=2")] {
        it.open(target, priority);
    }
    it.client.prioritize(5, "u=1");
    it.settle();
    assert_eq!(it.server.targets(), [LONG]);
    it.settle_open();
    assert_eq!(it.server.targets(), [LONG, "/b", "/c", "/d", "/a"]);
}

#[test]
fn a_stream_that_waits_for_more_urgent_ones_is_not_ended_as_slow() {
    let mut it = Connected::with(|config| {
        config.timeouts.write_timeout_ms = 1000;
        config.timeouts.response_rate_bytes_per_s_min = 1000;
    });
    it.client.announce_window(1 << 24);
    it.settle();
    // The connection's window is used up by the first.
    let urgent = it.open("/big/100000", "u=0");
    let waiting = it.open("/big/5000", "u=5");
    it.settle();
    let length = |it: &Connected, stream| it.client.streams[&stream].content.len();
    assert_eq!((length(&it, urgent), length(&it, waiting)), (65_535, 0));
    for _ in 0..17 {
        it.advance(500);
        it.client.give(0, 2000);
        it.settle();
    }
    assert_eq!((length(&it, urgent), length(&it, waiting)), (99_535, 0));
    assert!(it.client.streams.values().all(|it| it.reset.is_none()));
    it.client.give(0, 2000);
    it.settle();
    assert_eq!((length(&it, urgent), length(&it, waiting)), (100_000, 1535));
    // Neither is it kept for ever if nothing moves.
    it.advance(1000 + TICK_MS);
    assert_eq!(it.client.streams[&waiting].reset, Some(ErrorCode::CANCEL));
}

#[test]
fn streams_that_wait_for_more_urgent_ones_end_with_them_if_nothing_moves() {
    let mut it = Connected::with(|config| config.timeouts.write_timeout_ms = 1000);
    it.client.announce_window(1 << 24);
    it.settle();
    let streams = [
        it.open("/big/100000", "u=0"),
        it.open("/big/5000", "u=5"),
        it.open("/big/5000", "u=6"),
    ];
    it.settle();
    it.advance(1000 + TICK_MS);
    for stream in streams {
        assert_eq!(it.client.streams[&stream].reset, Some(ErrorCode::CANCEL));
    }
}

#[test]
fn priorities_of_streams_that_are_not_open_are_as_many_as_may_be_opened() {
    let mut it = Connected::with(|config| config.limits.h2_streams_max = 10);
    let open: Vec<u32> = (0..4).map(|_| it.open("/later", "")).collect();
    it.settle();
    for round in 0..100 {
        for stream in (9..=19).step_by(2) {
            it.client.prioritize(stream, &format!("u={}", round % 8));
        }
        // Those of open streams, and of streams that are over, have no limit.
        it.client.prioritize(open[0], "u=1");
    }
    it.settle();
    assert_eq!(it.client.goaways, []);
    it.client.reset(open[3]);
    it.client.prioritize(21, "u=1");
    it.settle();
    assert_eq!(it.client.goaways, []);
    it.client.prioritize(23, "u=1");
    it.settle();
    assert_eq!(it.client.goaways, [(7, ErrorCode::PROTOCOL_ERROR)]);
}

#[test]
fn streams_that_were_skipped_are_not_awaited() {
    let mut it = Connected::with(|config| config.limits.h2_streams_max = 4);
    for stream in [1, 3, 5, 7] {
        it.client.prioritize(stream, "u=1");
    }
    it.settle();
    // Opening the last one closes the others (RFC 9113 section 5.1.1).
    (0..3).for_each(|_| it.client.skip());
    let stream = it.open("/a", "");
    it.settle();
    assert_eq!(it.status(stream), 200);
    for stream in [9, 11, 13, 15] {
        it.client.prioritize(stream, "u=1");
    }
    it.settle();
    assert_eq!(it.client.goaways, []);
}

#[test]
fn a_client_that_has_not_seen_the_limit_does_not_exceed_it() {
    let mut it = Connected::unsettled(|config| config.limits.h2_streams_max = 2);
    for stream in (1..100).step_by(2) {
        it.client.prioritize(stream, "u=0");
    }
    let stream = it.open("/a", "");
    it.settle();
    assert_eq!((it.status(stream), &it.client.goaways[..]), (200, &[][..]));
}

#[test]
fn a_priority_of_a_pushed_stream_is_a_violation() {
    let mut it = Connected::new();
    it.client.prioritize(2, "u=1");
    it.settle();
    assert_eq!(it.client.goaways, [(0, ErrorCode::PROTOCOL_ERROR)]);
}

#[test]
fn a_storm_of_priorities_ends_the_connection() {
    let mut it = Connected::with(|config| config.limits.h2_idle_frames_max = 1000);
    let stream = it.open("/later", "");
    it.settle();
    for _ in 0..2000 {
        it.client.prioritize(stream, "u=1");
    }
    it.settle();
    assert_eq!(it.client.goaways, [(1, ErrorCode::ENHANCE_YOUR_CALM)]);
    assert_eq!(it.server.abort_of("/later"), Some(Abort::Disconnected));
}

#[test]
fn priorities_of_streams_that_are_not_open_are_accounted() {
    let mut it = Connected::new();
    let before = it.server.worker.held_bytes();
    for stream in (3..100).step_by(2) {
        it.client.prioritize(stream, "u=1");
    }
    it.settle();
    let held_bytes = it.server.worker.held_bytes() - before;
    assert!((49 * 8..=100 * 8).contains(&held_bytes), "{held_bytes}");
}

#[test]
fn a_websocket_does_not_hold_up_others() {
    let mut it = closed();
    let socket = it.client.connect("/ws/a", &[("priority", "u=3")]);
    it.settle();
    let id = it.server.exchange("/ws/a");
    let long = "x".repeat(40_000);
    let message = Command::Message(MessageKind::Text, long.clone().into());
    it.server.post(id, message);
    let other = it.open("/later", "");
    it.settle();
    let id = it.server.exchange("/later");
    it.server.post(id, Command::Respond(response(200, &long)));
    it.settle();
    it.client.open_everything();
    it.settle();
    assert_eq!(
        it.client.order,
        [other, socket, other, socket, other, socket]
    );
}
