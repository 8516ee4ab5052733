//! What happens in one run: plain data, and how it is drawn.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use wire::h2::{Priority, settings};
use wire::websocket::Kind as MessageKind;

/// Less than any timeout, in all of a schedule: what must not expire, does not.
const ADVANCE_MS_MAX: u64 = 50;
const MOVES_MAX: usize = 80;

/// Weights, out of about a hundred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) is_tls: bool,
    /// Large responses that are complete at once.
    pub(crate) large: u32,
    /// Changes of the windows.
    pub(crate) windows: u32,
    /// Long waits.
    pub(crate) stalls: u32,
    /// Clients that end or vanish.
    pub(crate) ends: u32,
    /// WebSockets.
    pub(crate) sockets: u32,
    /// Clients that want some responses before others.
    pub(crate) has_priorities: bool,
}

pub(crate) const PLAIN: Profile = Profile {
    is_tls: false,
    large: 1,
    windows: 4,
    stalls: 0,
    ends: 0,
    sockets: 0,
    has_priorities: false,
};

/// What the application does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Now,
    /// The response to HEAD is complete at once.
    Head,
    /// It acts later: [`Act`].
    Later,
    /// It acts later, and the request has content that it does not read.
    Unread,
    Pulled(u8),
    Large(u32),
    Read,
    Parts,
    Panics,
}

/// What the application does with a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Echo,
    /// It sends back what arrives through the mailbox.
    Post,
    /// It wants each message separately.
    Slow,
    /// It decides later whether it accepts.
    Later,
    Subscribes,
    Panics,
}

/// What a WebSocket's client does, or its application. A move that is not possible has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SocketMove {
    /// The client writes a message of that length in so many frames; 0 is one that is compressed.
    Message {
        bytes: u32,
        frames: u8,
        kind: MessageKind,
    },
    /// So many short messages.
    Burst(u16),
    Ping,
    Close,
    Invalid,
    /// So many octets of what was written, in a DATA frame.
    Carry(u16),
    End,
    Reset,
    Give(u32),
    Accept,
    Refuse,
    Post(u32),
    PostClose,
    Read,
    Fail,
}

impl SocketMove {
    pub(crate) fn is_of_client(self) -> bool {
        !matches!(
            self,
            SocketMove::Accept
                | SocketMove::Refuse
                | SocketMove::Post(_)
                | SocketMove::PostClose
                | SocketMove::Read
                | SocketMove::Fail
        )
    }
}

/// What a handler does later. An act that is not possible has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Respond,
    Inform,
    Begin,
    Write(u16),
    WriteFile(u16),
    Finish,
    FinishWith,
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    Open(Kind),
    OpenSocket(Way),
    Socket {
        which: u8,
        each: SocketMove,
    },
    Publish(u16),
    Data {
        which: u8,
        bytes: u16,
        is_last: bool,
    },
    Trailers {
        which: u8,
    },
    Reset {
        which: u8,
    },
    Give {
        which: Option<u8>,
        bytes: u32,
    },
    Window(u32),
    Setting(u16, u32),
    Ping,
    /// Of an open stream, or of the next one.
    Prioritize(Option<u8>, Priority),
    /// So many bytes at most, of the frames and of the records.
    Send(u16),
    Pass,
    Receive,
    Act {
        which: u8,
        act: Act,
    },
    Advance(u64),
    /// Time in which something may be late.
    Stall(u64),
    Drain,
    /// The client opens no more streams, and says so.
    Leave,
    HalfClose,
    Vanish,
}

fn kinds(profile: Profile) -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Now),
        1 => Just(Kind::Head),
        4 => Just(Kind::Later),
        1 => Just(Kind::Unread),
        1 => (0..40_u8).prop_map(Kind::Pulled),
        profile.large => (0..200_000_u32).prop_map(Kind::Large),
        1 => Just(Kind::Read),
        1 => Just(Kind::Parts),
        1 => Just(Kind::Panics),
    ]
}

/// Nothing, little, or much.
fn windows() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..300_u32, 300..100_000_u32]
}

fn some_settings() -> impl Strategy<Value = Move> {
    let tables = prop_oneof![Just(0), Just(100), Just(4096)];
    let frames = prop_oneof![Just(16_384), Just(16_777_215)];
    prop_oneof![
        tables.prop_map(|bytes| Move::Setting(settings::HEADER_TABLE_SIZE, bytes)),
        frames.prop_map(|bytes| Move::Setting(settings::MAX_FRAME_SIZE, bytes)),
    ]
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Respond),
        1 => Just(Act::Inform),
        3 => Just(Act::Begin),
        3 => (0..60_000_u16).prop_map(Act::Write),
        1 => (0..60_000_u16).prop_map(Act::WriteFile),
        3 => Just(Act::Finish),
        1 => Just(Act::FinishWith),
        1 => Just(Act::Fail),
    ]
}

fn rare(profile: Profile) -> impl Strategy<Value = Move> {
    let mut choices = vec![(3, Just(Move::Drain)), (3, Just(Move::Leave))];
    for ms in [1_000, 6_000, 20_000, 70_000] {
        choices.push((profile.stalls, Just(Move::Stall(ms))));
    }
    choices.push((profile.ends, Just(Move::HalfClose)));
    choices.push((profile.ends, Just(Move::Vanish)));
    choices.retain(|(weight, _)| *weight > 0);
    Union::new_weighted(choices)
}

/// Frames that are for no content.
fn asides(profile: Profile) -> impl Strategy<Value = Move> {
    let priority = (any::<Option<u8>>(), 0..8_u8, any::<bool>());
    let priority = priority.prop_map(|(which, urgency, is_incremental)| {
        let priority = Priority {
            urgency,
            is_incremental,
        };
        Move::Prioritize(which, priority)
    });
    match profile.has_priorities {
        true => prop_oneof![1 => Just(Move::Ping), 4 => priority].boxed(),
        false => Just(Move::Ping).boxed(),
    }
}

fn one(profile: Profile) -> impl Strategy<Value = Move> {
    let data = (any::<u8>(), 0..20_000_u16, any::<bool>());
    let act = (any::<u8>(), acts());
    let rest = prop_oneof![
        8 => (1..2000_u16).prop_map(Move::Send),
        4 => Just(Move::Send(u16::MAX)),
        8 => Just(Move::Pass),
        4 => Just(Move::Receive),
        8 => act.prop_map(|(which, act)| Move::Act { which, act }),
        2 => (1..ADVANCE_MS_MAX).prop_map(Move::Advance),
        1 => rare(profile),
    ];
    let give = (any::<Option<u8>>(), windows());
    prop_oneof![
        8 => kinds(profile).prop_map(Move::Open),
        6 => data.prop_map(|(which, bytes, is_last)| Move::Data { which, bytes, is_last }),
        1 => any::<u8>().prop_map(|which| Move::Trailers { which }),
        2 => any::<u8>().prop_map(|which| Move::Reset { which }),
        profile.windows => give.prop_map(|(which, bytes)| Move::Give { which, bytes: bytes.max(1) }),
        profile.windows / 2 => windows().prop_map(Move::Window),
        1 => some_settings(),
        if profile.has_priorities { 5 } else { 1 } => asides(profile),
        36 => rest,
    ]
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        4 => Just(Way::Echo),
        2 => Just(Way::Post),
        2 => Just(Way::Slow),
        3 => Just(Way::Later),
        3 => Just(Way::Subscribes),
        1 => Just(Way::Panics),
    ]
}

fn socket_moves() -> impl Strategy<Value = SocketMove> {
    let length = || prop_oneof![8 => 0..200_u32, 2 => 0..5_000_u32, 1 => 0..150_000_u32];
    let kind = prop_oneof![2 => Just(MessageKind::Text), 1 => Just(MessageKind::Binary)];
    let rare = prop_oneof![
        2 => Just(SocketMove::Ping),
        2 => (1..1_500_u16).prop_map(SocketMove::Burst),
        1 => Just(SocketMove::Close),
        1 => Just(SocketMove::Invalid),
        1 => Just(SocketMove::End),
        1 => Just(SocketMove::Reset),
        2 => Just(SocketMove::Refuse),
        1 => Just(SocketMove::PostClose),
        1 => Just(SocketMove::Fail),
    ];
    prop_oneof![
        8 => (length(), 0..4_u8, kind)
            .prop_map(|(bytes, frames, kind)| SocketMove::Message { bytes, frames, kind }),
        6 => (1..20_000_u16).prop_map(SocketMove::Carry),
        4 => (1..30_u16).prop_map(SocketMove::Carry),
        2 => windows().prop_map(|bytes| SocketMove::Give(bytes.max(1))),
        4 => Just(SocketMove::Accept),
        5 => length().prop_map(SocketMove::Post),
        4 => Just(SocketMove::Read),
        2 => rare,
    ]
}

/// A move of the requests, or of the WebSockets beside them.
fn any_one(profile: Profile) -> BoxedStrategy<Move> {
    if profile.sockets == 0 {
        return one(profile).boxed();
    }
    let of_socket = (any::<u8>(), socket_moves());
    let of_socket = of_socket.prop_map(|(which, each)| Move::Socket { which, each });
    prop_oneof![
        60 => one(profile),
        profile.sockets => ways().prop_map(Move::OpenSocket),
        4 * profile.sockets => of_socket,
        profile.sockets.div_ceil(4) => (0..2_000_u16).prop_map(Move::Publish),
    ]
    .boxed()
}

pub(crate) fn moves(profile: Profile) -> impl Strategy<Value = Vec<Move>> {
    vec(any_one(profile), 1..MOVES_MAX)
}
