//! Draws schedules. A [`Profile`] sets how often each feature is drawn, so that each test has its subject.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::schedule::{
    Act, Amount, Content, Conversation, Ending, Fault, First, Handler, Method, Move, PeersEnd,
    Persistence, PullEnd, Reply, Request, Schedule, Settings, Step, Tls,
};

/// Weights, out of ten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) conversations_max: usize,
    pub(crate) requests_max: usize,
    pub(crate) steps_max: usize,
    /// Requests with content.
    pub(crate) contents: u32,
    /// Malformed requests.
    pub(crate) faults: u32,
    /// Clients that read slowly from a narrow socket.
    pub(crate) narrow: u32,
    /// HTTP/1.0.
    pub(crate) old: u32,
    /// TCP in place of UNIX sockets.
    pub(crate) is_tcp: bool,
    /// All connections use TLS.
    pub(crate) is_tls: bool,
    /// Panics, failures, forgotten responses.
    pub(crate) failures: u32,
    /// Handlers that suspend, and their moves.
    pub(crate) suspends: u32,
    /// Time that passes.
    pub(crate) waits: u32,
    /// Clients that end or vanish; draining.
    pub(crate) ends: u32,
}

/// One of several choices, in proportion to their weights.
fn weighted<T: Clone + std::fmt::Debug + 'static>(choices: &[(u32, T)]) -> Union<Just<T>> {
    let drawn = choices.iter().filter(|(weight, _)| *weight > 0);
    Union::new_weighted(
        drawn
            .map(|(weight, it)| (*weight, Just(it.clone())))
            .collect(),
    )
}

fn rarely(weight: u32) -> BoxedStrategy<bool> {
    weighted(&[(10, false), (weight, true)]).boxed()
}

pub(crate) fn schedule(profile: Profile) -> BoxedStrategy<Schedule> {
    let settings = (any::<bool>(), any::<bool>(), rarely(1));
    let settings = settings.prop_map(|(times_handlers, is_tight, is_crowded)| Settings {
        times_handlers,
        is_tight,
        is_crowded,
    });
    let peers = weighted(&[
        (4, PeersEnd::Silent),
        (2, PeersEnd::HalfClose),
        (1, PeersEnd::Vanish),
        (2, PeersEnd::Drain),
    ]);
    let ending =
        (any::<bool>(), peers).prop_map(|(offers_rest, peers)| Ending { offers_rest, peers });
    (
        settings,
        vec(conversation(profile), 1..=profile.conversations_max),
        vec(step(profile), 0..=profile.steps_max),
        ending,
    )
        .prop_map(|(settings, conversations, steps, ending)| Schedule {
            settings,
            conversations,
            steps,
            ending,
        })
        .boxed()
}

fn conversation(profile: Profile) -> BoxedStrategy<Conversation> {
    (
        vec(request(profile), 1..=profile.requests_max),
        rarely(profile.narrow),
        any::<bool>(),
        tls(profile),
    )
        .prop_map(
            move |(requests, is_narrow, reads_at_end, tls)| Conversation {
                requests,
                is_tcp: profile.is_tcp,
                tls,
                is_narrow,
                is_attentive: !is_narrow,
                reads_at_end: reads_at_end || !is_narrow,
            },
        )
        .boxed()
}

fn tls(profile: Profile) -> BoxedStrategy<Tls> {
    if !profile.is_tls {
        return Just(Tls::None).boxed();
    }
    let steps = weighted(&[(1, 101), (2, 700), (4, usize::MAX)]);
    let drawn = (steps, any::<bool>());
    drawn
        .prop_map(|(step_bytes, announces)| Tls::Steps {
            step_bytes,
            announces,
        })
        .boxed()
}

fn request(profile: Profile) -> BoxedStrategy<Request> {
    let method = weighted(&[(5, Method::Get), (2, Method::Head), (3, Method::Post)]);
    let persistence = weighted(&[
        (10, Persistence::Kept),
        (1, Persistence::Closed),
        (profile.old, Persistence::OldKept),
        (profile.old, Persistence::OldClosed),
    ]);
    let fault = weighted(&[
        (30, Fault::None),
        (profile.faults, Fault::TwoHosts),
        (profile.faults, Fault::FieldName),
        (profile.faults, Fault::Version),
        (profile.faults / 2, Fault::LongSection),
        (2 * profile.faults, Fault::ChunkSize),
    ]);
    (
        method,
        persistence,
        content(profile),
        rarely(3),
        fault,
        handler(profile),
    )
        .prop_map(|(method, persistence, content, expects, fault, handler)| {
            let content = match content {
                // HTTP/1.0 has no chunks.
                Content::Chunks { .. } if persistence.is_old() => Content::Length(content.bytes()),
                other => other,
            };
            let is_chunked = matches!(content, Content::Chunks { count: 1.., .. });
            let fault = match fault {
                Fault::ChunkSize if !is_chunked => Fault::None,
                other => other,
            };
            Request {
                method,
                persistence,
                content,
                expects: expects && content != Content::None,
                fault,
                handler,
            }
        })
        .boxed()
}

fn content(profile: Profile) -> BoxedStrategy<Content> {
    let some = prop_oneof![
        6 => weighted(&[
            (1, Content::Length(0)),
            (4, Content::Length(1)),
            (3, Content::Length(100)),
            (1, Content::Length(20_000)),
            (1, Content::Length(65_536)),
            (1, Content::Length(65_537)),
            (3, Content::Length(100_000)),
            (1, Content::Length(140_000)),
            (1, Content::Length(200_001)),
        ]),
        4 => (0..4_usize, weighted(&[(4, 1), (4, 50), (1, 20_000), (1, 70_000)]))
            .prop_map(|(count, bytes)| Content::Chunks { count, bytes }),
    ];
    let none = Just(Content::None).boxed();
    match profile.contents {
        0 => none,
        weight => Union::new_weighted(vec![(10, none), (weight, some.boxed())]).boxed(),
    }
}

fn handler(profile: Profile) -> BoxedStrategy<Handler> {
    let first = weighted(&[
        (profile.suspends, First::Suspend),
        (4, First::Respond),
        (1, First::Ahead),
        (2, First::Pull),
        (profile.contents / 2 + 1, First::ReadContent),
        (profile.failures, First::Forget),
        (profile.failures, First::Panic),
    ]);
    (
        first,
        0..3_usize,
        vec(next_move(profile), 0..5),
        rarely(2),
        any::<bool>(),
        rarely(3),
        rarely(3),
        reply(profile),
    )
        .prop_map(
            |(first, moves_at_call, moves, never, has_room, is_slow, strays, reply)| Handler {
                first,
                moves_at_call,
                moves,
                completes: !never,
                has_room,
                is_slow,
                strays,
                reply,
            },
        )
        .boxed()
}

fn next_move(profile: Profile) -> BoxedStrategy<Move> {
    let reads = profile.contents / 3 + 1;
    weighted(&[
        (4, Move::Respond),
        (reads, Move::Read),
        (reads, Move::ReadPart),
        (reads, Move::ReadWhole),
        (reads, Move::Collect),
        (reads, Move::CollectForNow),
        (profile.failures, Move::PanicInContent),
        (1, Move::Inform),
        (2, Move::Begin),
        (1, Move::BeginOpen),
        (2, Move::Stream),
        (2, Move::Write(5)),
        (1, Move::Write(0)),
        (2, Move::Write(20_000)),
        (1, Move::WriteFile(0)),
        (1, Move::WriteFile(5)),
        (1, Move::WriteFile(50_000)),
        (profile.failures, Move::WriteShortFile),
        (2, Move::Finish),
        (1, Move::FinishWith),
        (profile.failures, Move::Fail),
    ])
    .boxed()
}

fn reply(profile: Profile) -> BoxedStrategy<Reply> {
    let status = weighted(&[(8, 200_u16), (2, 404), (1, 204), (1, 304)]);
    let bytes = weighted(&[
        (3, 5_usize),
        (1, 0),
        (2, 3_000),
        (1, 20_000),
        (profile.narrow, 50_000),
        (profile.narrow / 2, 300_000),
    ]);
    let end = weighted(&[
        (8, PullEnd::End),
        (profile.failures, PullEnd::Fail),
        (profile.failures, PullEnd::Panic),
    ]);
    (status, bytes, any::<bool>(), any::<bool>(), 0..5_usize, end)
        .prop_map(
            |(status, bytes, knows_length, has_field, parts, pull_end)| Reply {
                status,
                bytes,
                knows_length,
                has_field,
                parts,
                pull_end,
            },
        )
        .boxed()
}

fn step(profile: Profile) -> BoxedStrategy<Step> {
    let conversations = 0..profile.conversations_max;
    (conversations, act(profile), 0..4_usize)
        .prop_map(|(conversation, act, passes)| Step {
            conversation,
            act,
            passes,
        })
        .boxed()
}

fn act(profile: Profile) -> BoxedStrategy<Act> {
    let amount = weighted(&[
        (4, Amount::Request),
        (2, Amount::Beyond(20)),
        (3, Amount::Head),
        (2, Amount::Bytes(1)),
        (2, Amount::Bytes(30)),
        (1, Amount::Bytes(1_000)),
        (1, Amount::Bytes(65_536)),
        (1, Amount::All),
    ]);
    let receive = weighted(&[(1, 1_usize), (2, 4_000), (2, 100_000)]);
    let advance = weighted(&[
        (1, 1_u64),
        (1, 130),
        (1, 700),
        (1, 2_200),
        (3, 5_200),
        (3, 15_200),
        (2, 30_200),
        (1, 60_200),
        (1, 75_200),
    ]);
    prop_oneof![
        40 => amount.prop_map(Act::Offer),
        3 * profile.suspends => (0..3_usize).prop_map(Act::Move),
        profile.narrow.min(10) => receive.prop_map(Act::Receive),
        profile.waits => advance.prop_map(Act::Advance),
        6 => Just(Act::Settle),
        profile.ends => Just(Act::HalfClose),
        profile.ends => Just(Act::Vanish),
        profile.ends => Just(Act::Drain),
    ]
    .boxed()
}
