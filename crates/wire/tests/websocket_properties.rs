//! Properties of messages in both roles: what one side sends is what the other receives, however it is fragmented, cut and compressed; and
//! no octets make a receiver fail other than by a failure.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::websocket::{
    Close, CloseCode, Deflater, Event, Failure, Incoming, Inflater, Inflaters, Kind, MessageLimits,
    Receiver, Role, Sender, WindowBits, reserve_exact,
};

const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 200_000,
    fragments_max: 1000,
    reserve: reserve_exact,
};

#[derive(Clone, Debug, PartialEq)]
enum Move {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

#[derive(Clone, Copy, Debug)]
enum Coding {
    Identity,
    WithoutContext,
    WithContext(u8),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        ".{0,200}".prop_map(Move::Text),
        (vec(any::<u8>(), 0..40), 1..3000usize)
            .prop_map(|(unit, times)| Move::Binary(unit.repeat(times))),
        vec(any::<u8>(), 0..=125).prop_map(Move::Ping),
        vec(any::<u8>(), 0..=125).prop_map(Move::Pong),
    ]
}

fn codings() -> impl Strategy<Value = Coding> {
    prop_oneof![
        Just(Coding::Identity),
        Just(Coding::WithoutContext),
        (9..=15u8).prop_map(Coding::WithContext),
    ]
}

/// Writes the moves as frames; data messages compressed if the coding says so.
fn written(moves: &[Move], us: Role, coding: Coding, key: [u8; 4]) -> Vec<u8> {
    let sender = Sender::new(us);
    let mut deflater = match coding {
        Coding::Identity => None,
        Coding::WithoutContext => Some(Deflater::new(6, WindowBits::MAX, false).expect("memory")),
        Coding::WithContext(bits) => {
            let window = WindowBits::new(bits).expect("in range");
            Some(Deflater::new(1, window, true).expect("memory"))
        }
    };
    let mut out = Vec::new();
    let mut message = |out: &mut Vec<u8>, kind, content: &[u8]| match &mut deflater {
        Some(deflater) => {
            let pushed = sender.push_deflated(out, kind, content, key, deflater);
            pushed.expect("memory");
        }
        _ => {
            let pushed = sender.push_message(out, kind, content, key);
            pushed.expect("memory");
        }
    };
    for each in moves {
        match each {
            Move::Text(text) => message(&mut out, Kind::Text, text.as_bytes()),
            Move::Binary(content) => message(&mut out, Kind::Binary, content),
            Move::Ping(content) => sender.push_ping(&mut out, content, key),
            Move::Pong(content) => sender.push_pong(&mut out, content, key),
            Move::Close(code, reason) => {
                let close = Close {
                    code: Some(CloseCode(*code)),
                    reason: reason.clone(),
                };
                sender.push_close(&mut out, &close, key);
            }
        }
    }
    out
}

fn seen(event: Event<'_>) -> Move {
    match event {
        Event::Message(Kind::Text, content) => {
            Move::Text(String::from_utf8(content.to_vec()).expect("UTF-8"))
        }
        Event::Message(Kind::Binary, content) => Move::Binary(content.to_vec()),
        Event::Ping(content) => Move::Ping(content.to_vec()),
        Event::Pong(content) => Move::Pong(content.to_vec()),
        Event::Close(close) => Move::Close(close.code.map_or(1005, |code| code.0), close.reason),
    }
}

/// What arrives of `octets`, cut into pieces of these lengths, in turns.
fn received(
    octets: &[u8],
    pieces: &[usize],
    us: Role,
    coding: Coding,
) -> Result<Vec<Move>, (Vec<Move>, Failure)> {
    let incoming = match coding {
        Coding::Identity => Incoming::Plain,
        Coding::WithoutContext => Incoming::WithoutContext(None),
        Coding::WithContext(_) => {
            Incoming::WithContext(Box::new(Inflater::new(true).expect("memory")))
        }
    };
    let mut receiver = Receiver::new(us, incoming);
    let mut inflaters = Inflaters::default();
    let mut moves = Vec::new();
    let mut rest = octets;
    let mut lengths = pieces.iter().cycle();
    while !rest.is_empty() {
        let length = lengths
            .next()
            .map_or(rest.len(), |length| *length)
            .min(rest.len());
        let (piece, after) = rest.split_at(length);
        rest = after;
        let mut piece = piece.to_vec();
        let mut piece = &mut piece[..];
        while !piece.is_empty() {
            match receiver.receive(piece, &LIMITS, &mut inflaters) {
                Ok((taken, event)) => {
                    assert!(taken > 0 || event.is_some());
                    moves.extend(event.map(seen));
                    piece = &mut piece[taken..];
                }
                Err(failure) => return Err((moves, failure)),
            }
        }
        // One octet more shows that a message is too long.
        assert!(receiver.message_bytes() <= LIMITS.message_bytes_max + 1);
    }
    Ok(moves)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_sent_is_received(
        moves in vec(moves(), 0..8),
        ends in any::<bool>(),
        coding in codings(),
        key in any::<[u8; 4]>(),
        pieces in vec(1..5000usize, 1..10),
        to_server in any::<bool>(),
    ) {
        let mut moves = moves;
        if ends {
            moves.push(Move::Close(1001, "off \u{1f44b}".into()));
        }
        let (sends, receives) = match to_server {
            true => (Role::Client, Role::Server),
            false => (Role::Server, Role::Client),
        };
        let octets = written(&moves, sends, coding, key);
        prop_assert_eq!(received(&octets, &pieces, receives, coding), Ok(moves));
    }

    #[test]
    fn octets_are_the_same_however_they_are_cut(
        octets in vec(any::<u8>(), 0..300),
        start in prop_oneof![Just(0x81u8), Just(0x82), Just(0x01), Just(0xc1), Just(0x41), Just(0x89), any::<u8>()],
        coding in codings(),
        pieces in vec(1..20usize, 1..10),
    ) {
        let mut octets = octets;
        if let Some(first) = octets.first_mut() {
            *first = start;
        }
        for us in [Role::Server, Role::Client] {
            // Text that is both wrong and too long, or not compressed correctly, may fail for either reason.
            let moves = |received: Result<_, (_, Failure)>| received.map_err(|(moves, _)| moves);
            let whole = moves(received(&octets, &[1 << 20], us, coding));
            prop_assert_eq!(moves(received(&octets, &pieces, us, coding)), whole);
        }
    }

    #[test]
    fn flipped_bits_end_in_a_failure_or_other_messages(
        moves in vec(moves(), 1..6),
        coding in codings(),
        at in any::<proptest::sample::Index>(),
        bit in 0..8u32,
        pieces in vec(1..3000usize, 1..10),
    ) {
        let mut octets = written(&moves, Role::Client, coding, [1, 2, 3, 4]);
        let at = at.index(octets.len());
        octets[at] ^= 1 << bit;
        let _ = received(&octets, &pieces, Role::Server, coding);
    }
}
