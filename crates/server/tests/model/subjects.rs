//! Schedules about one subject each: their requests and handlers are made to meet in one place.

use crate::schedule::{
    Content, Fault, First, Method, Move, PeersEnd, Persistence, PullEnd, Request, Schedule,
};
use crate::{PLAIN, Profile, hold_about};

/// The usual features, without those that have a test of their own.
const ONE: Profile = Profile {
    conversations_max: 1,
    requests_max: 3,
    steps_max: 10,
    contents: 0,
    old: 0,
    ..PLAIN
};

fn requests(schedule: &mut Schedule) -> impl Iterator<Item = &mut Request> {
    let conversations = schedule.conversations.iter_mut();
    conversations.flat_map(|conversation| conversation.requests.iter_mut())
}

fn suspend(request: &mut Request, moves: &[Move]) {
    request.handler.first = First::Suspend;
    request.handler.moves = moves.to_vec();
}

/// Of a long content one part is read ahead. Once its request has been responded to, the rest is discarded or ends the connection.
#[test]
fn content_that_was_read_ahead_and_is_not_wanted() {
    hold_about(ONE, 1, |schedule| {
        schedule.settings.is_tight = false;
        for request in requests(schedule) {
            suspend(request, &[]);
            request.method = Method::Post;
            request.content = Content::Length(100_000);
            request.expects = false;
            request.handler.has_room = true;
        }
    });
}

/// Unread content that never arrives must not keep its connection open.
#[test]
fn content_that_never_comes_and_is_not_wanted() {
    hold_about(ONE, 1, |schedule| {
        schedule.ending.offers_rest = false;
        schedule.ending.peers = PeersEnd::Silent;
        for request in requests(schedule) {
            suspend(request, &[]);
            request.method = Method::Get;
            request.content = Content::Length(1);
            request.handler.has_room = false;
        }
    });
}

/// A response to HEAD has no content, whether the application or the server produces it (RFC 9110 section 9.3.2).
#[test]
fn refusals_of_head() {
    hold_about(Profile { faults: 3, ..ONE }, 1, |schedule| {
        for request in requests(schedule) {
            request.method = Method::Head;
        }
    });
}

/// The last response is not lost because the client has sent more after its request (RFC 9112 section 9.6).
#[test]
fn last_responses_and_what_is_sent_after_their_requests() {
    let profile = Profile {
        is_tcp: true,
        ..ONE
    };
    hold_about(profile, 2, |schedule| {
        for request in requests(schedule) {
            suspend(request, &[]);
            request.method = Method::Post;
            request.persistence = Persistence::Closed;
            request.fault = Fault::None;
        }
    });
}

/// Nothing is served after a response that ends the connection, even if its request did not ask for that.
#[test]
fn requests_after_a_response_that_ends_the_connection() {
    hold_about(ONE, 1, |schedule| {
        for request in requests(schedule) {
            suspend(request, &[Move::Begin]);
            request.method = Method::Get;
            request.persistence = Persistence::OldKept;
            request.handler.reply.knows_length = false;
        }
    });
}

/// A stream without content ends with its head, and its handler gets no content that it requests afterwards.
#[test]
fn reading_after_a_response_without_content() {
    let profile = Profile {
        contents: 50,
        ..ONE
    };
    hold_about(profile, 1, |schedule| {
        for request in requests(schedule) {
            suspend(request, &[Move::Begin, Move::Read]);
            request.method = Method::Head;
            request.fault = Fault::None;
        }
    });
}

/// An incomplete response that is delimited by the end of the connection must not end with an ordinary close.
#[test]
fn truncated_responses_delimited_by_the_end_of_the_connection() {
    let profile = Profile {
        is_tcp: true,
        contents: 10,
        narrow: 5,
        ends: 4,
        ..ONE
    };
    hold_about(profile, 2, |schedule| {
        for request in requests(schedule) {
            request.persistence = Persistence::OldKept;
            if matches!(request.content, Content::Chunks { .. }) {
                request.content = Content::None;
            }
            request.handler.reply.knows_length = false;
            request.handler.reply.pull_end = PullEnd::Panic;
            request.method = Method::Post;
            match request.handler.first {
                First::Respond => request.handler.first = First::Pull,
                _ => suspend(request, &[Move::Begin, Move::Write(5)]),
            }
        }
    });
}

/// The reset that truncates a response does not destroy the complete ones before it.
#[test]
fn complete_responses_before_a_truncated_one() {
    let profile = Profile {
        is_tcp: true,
        ..ONE
    };
    hold_about(profile, 2, |schedule| {
        for conversation in &mut schedule.conversations {
            let last = conversation.requests.len() - 1;
            for (number, request) in conversation.requests.iter_mut().enumerate() {
                request.method = Method::Get;
                request.fault = Fault::None;
                if number < last {
                    suspend(request, &[]);
                    continue;
                }
                request.persistence = Persistence::OldKept;
                request.handler.reply.knows_length = false;
                request.handler.reply.pull_end = PullEnd::Fail;
                match request.handler.first {
                    First::Respond => request.handler.first = First::Pull,
                    _ => suspend(request, &[Move::Begin, Move::Write(5), Move::Fail]),
                }
            }
        }
    });
}

/// A handler that is called after the client has ended its side is notified too, not only those that were running by then.
#[test]
fn handlers_that_are_called_after_their_clients_end() {
    let profile = Profile {
        contents: 10,
        ..ONE
    };
    hold_about(profile, 1, |schedule| {
        schedule.ending.peers = PeersEnd::HalfClose;
        for request in requests(schedule) {
            suspend(request, &[]);
            request.method = Method::Get;
            request.expects = false;
        }
    });
}

/// While the server does not read because its client does not, the client's time does not run.
#[test]
fn time_of_clients_that_are_not_read_from() {
    let profile = Profile {
        contents: 10,
        narrow: 100,
        suspends: 1,
        waits: 20,
        ..ONE
    };
    hold_about(profile, 1, |schedule| {
        for request in requests(schedule) {
            request.handler.first = First::Respond;
            request.handler.reply.status = 200;
            request.handler.reply.bytes = 50_000;
            request.fault = Fault::None;
            if request.method == Method::Head {
                request.method = Method::Get;
            }
        }
    });
}
