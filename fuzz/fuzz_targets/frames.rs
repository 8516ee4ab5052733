//! Frames of HTTP/2, as either role reads and writes them: the parser of the two is the same.
//!
//! The input is octets, or (its first octet is odd) a list of frames with the fields that [`structured`] reads. Each frame is compared with
//! what RFC 9113 section 6 says of it, which [`expected`] repeats without the crate. What is valid must be the same however it is cut, and
//! after it is written and parsed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::h2::{ErrorCode, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Parsed, Scope, frame, parse};

const STREAMS: [u32; 8] = [0, 1, 2, 3, 5, 0x7fff_ffff, 0x8000_0000, 0x8000_0001];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let input = match first % 2 {
        0 => rest.to_vec(),
        _ => structured(rest),
    };
    let mut rest = input.as_slice();
    loop {
        let parsed = parse(rest, FRAME_BYTES_MAX);
        check_cuts(rest, usize::from(*first));
        match (parsed, expected(rest)) {
            (Ok(Parsed::Incomplete), Expected::Incomplete) => return,
            (Err(violation), Expected::Violated(Scope::Connection, code)) => {
                assert_eq!((violation.scope, violation.code), (Scope::Connection, code));
                return;
            }
            (Ok(Parsed::Violated(violation, used)), Expected::Violated(scope, code)) => {
                assert_eq!((violation.scope, violation.code), (scope, code));
                rest = &rest[used..];
            }
            (Ok(Parsed::Frame(frame, used)), Expected::Frame) => {
                assert_eq!(used, HEADER_BYTES + length_of(rest));
                check_fields(frame, &rest[..used]);
                check_again(frame);
                rest = &rest[used..];
            }
            (parsed, expected) => panic!("{parsed:?}, and the RFC says {expected:?}"),
        }
    }
});

/// Frames whose lengths are mostly right: type, flags, stream, length, difference of the announced length, payload.
fn structured(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data;
    while let [kind, flags, stream, length, difference, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let announced = match difference {
            250.. => payload.len() + usize::from(difference - 249) * 5000,
            240..250 => payload.len().saturating_sub(usize::from(difference - 239)),
            _ => payload.len(),
        };
        out.extend_from_slice(&(announced as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind % 12, *flags]);
        out.extend_from_slice(&STREAMS[usize::from(stream % 8)].to_be_bytes());
        out.extend_from_slice(payload);
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Incomplete,
    Violated(Scope, ErrorCode),
    Frame,
}

fn length_of(input: &[u8]) -> usize {
    usize::from(input[0]) << 16 | usize::from(input[1]) << 8 | usize::from(input[2])
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn of_connection(code: ErrorCode) -> Expected {
    Expected::Violated(Scope::Connection, code)
}

/// RFC 9113 sections 4.2 and 6, as far as the state of a stream or connection does not matter.
fn expected(input: &[u8]) -> Expected {
    if input.len() < HEADER_BYTES {
        return Expected::Incomplete;
    }
    let (length, kind, flags) = (length_of(input), input[3], input[4]);
    let stream = word(&input[5..]) & 0x7fff_ffff;
    if length > 16_384 {
        return of_connection(ErrorCode::FRAME_SIZE_ERROR);
    }
    let is_stream_wrong = match kind {
        0..=3 | 9 => stream == 0,
        4 | 6 | 7 => stream != 0,
        5 => true,
        _ => false,
    };
    if is_stream_wrong {
        return of_connection(ErrorCode::PROTOCOL_ERROR);
    }
    let is_length_wrong = match kind {
        3 | 8 => length != 4,
        4 if flags & 1 != 0 => length != 0,
        4 => length % 6 != 0,
        6 => length != 8,
        7 => length < 8,
        _ => false,
    };
    if is_length_wrong {
        return of_connection(ErrorCode::FRAME_SIZE_ERROR);
    }
    match input.get(HEADER_BYTES..HEADER_BYTES + length) {
        None => Expected::Incomplete,
        Some(payload) => of_payload(kind, flags, stream, payload),
    }
}

fn of_payload(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Expected {
    let of_stream = |code| Expected::Violated(Scope::Stream(stream), code);
    let is_padded = matches!(kind, 0 | 1) && flags & 8 != 0;
    let mut inner = payload.len();
    if is_padded {
        match payload.first() {
            Some(padding) if usize::from(*padding) < payload.len() => {
                inner = payload.len() - 1 - usize::from(*padding);
            }
            _ => return of_connection(ErrorCode::PROTOCOL_ERROR),
        }
    }
    match kind {
        1 if flags & 0x20 != 0 && inner < 5 => of_connection(ErrorCode::FRAME_SIZE_ERROR),
        2 if payload.len() != 5 => of_stream(ErrorCode::FRAME_SIZE_ERROR),
        2 if word(payload) & 0x7fff_ffff == stream => of_stream(ErrorCode::PROTOCOL_ERROR),
        4 => payload
            .chunks(6)
            .find_map(|setting| of_setting(setting[1], setting[0], word(&setting[2..])))
            .map_or(Expected::Frame, of_connection),
        8 if word(payload) & 0x7fff_ffff == 0 => match stream {
            0 => of_connection(ErrorCode::PROTOCOL_ERROR),
            _ => of_stream(ErrorCode::PROTOCOL_ERROR),
        },
        _ => Expected::Frame,
    }
}

/// What is wrong with a setting.
fn of_setting(identifier: u8, high: u8, value: u32) -> Option<ErrorCode> {
    match (high, identifier) {
        (0, 2 | 8 | 9) if value > 1 => Some(ErrorCode::PROTOCOL_ERROR),
        (0, 4) if value > 0x7fff_ffff => Some(ErrorCode::FLOW_CONTROL_ERROR),
        (0, 5) if !(16_384..=16_777_215).contains(&value) => Some(ErrorCode::PROTOCOL_ERROR),
        _ => None,
    }
}

/// Whatever is cut off, the result is the same, or that more is needed.
fn check_cuts(input: &[u8], cut: usize) {
    let whole = parse(input, FRAME_BYTES_MAX);
    let cut = cut.min(input.len());
    for end in [
        cut,
        HEADER_BYTES.min(input.len()),
        input.len().saturating_sub(1),
    ] {
        let part = parse(&input[..end], FRAME_BYTES_MAX);
        assert!(part == whole || part == Ok(Parsed::Incomplete));
    }
}

/// The fields are those of the octets.
fn check_fields(frame: Frame<'_>, octets: &[u8]) {
    let (flags, id) = (octets[4], word(&octets[5..]) & 0x7fff_ffff);
    let payload = &octets[HEADER_BYTES..];
    let padding = |is_padded: bool| match is_padded {
        true => (1, payload.len() - usize::from(payload[0])),
        false => (0, payload.len()),
    };
    match (octets[3], frame) {
        (
            0,
            Frame::Data {
                stream,
                content,
                window_bytes,
                is_last,
            },
        ) => {
            let (start, end) = padding(flags & 8 != 0);
            assert_eq!((stream, content), (id, &payload[start..end]));
            assert_eq!(window_bytes as usize, payload.len());
            assert_eq!(is_last, flags & 1 != 0);
        }
        (
            1,
            Frame::Headers {
                stream,
                block,
                is_last,
                is_whole,
                depends_on_itself,
            },
        ) => {
            let (start, end) = padding(flags & 8 != 0);
            let skipped = if flags & 0x20 != 0 { 5 } else { 0 };
            assert_eq!((stream, block), (id, &payload[start + skipped..end]));
            assert_eq!((is_last, is_whole), (flags & 1 != 0, flags & 4 != 0));
            let depends = skipped > 0 && word(&payload[start..]) & 0x7fff_ffff == id;
            assert_eq!(depends_on_itself, depends);
        }
        (2, Frame::Priority { stream }) => assert_eq!(stream, id),
        (3, Frame::ResetStream { stream, code }) => {
            assert_eq!((stream, code.0), (id, word(payload)));
        }
        (4, Frame::SettingsAck) => assert_eq!(flags & 1, 1),
        (4, Frame::Settings(values)) => {
            let octets: Vec<u8> = values
                .values()
                .flat_map(|(identifier, value)| {
                    let (first, last) = (identifier.to_be_bytes(), value.to_be_bytes());
                    first.into_iter().chain(last)
                })
                .collect();
            assert_eq!((octets.as_slice(), flags & 1), (payload, 0));
        }
        (6, Frame::Ping(data)) => assert_eq!((&data[..], flags & 1), (payload, 0)),
        (6, Frame::Pong(data)) => assert_eq!((&data[..], flags & 1), (payload, 1)),
        (7, Frame::GoAway { last_stream, code }) => {
            assert_eq!(last_stream, word(payload) & 0x7fff_ffff);
            assert_eq!(code.0, word(&payload[4..]));
        }
        (8, Frame::WindowUpdate { stream, increment }) => {
            assert_eq!((stream, increment), (id, word(payload) & 0x7fff_ffff));
        }
        (
            9,
            Frame::Continuation {
                stream,
                block,
                is_whole,
            },
        ) => {
            assert_eq!((stream, block, is_whole), (id, payload, flags & 4 != 0));
        }
        (0x10, Frame::PriorityUpdate { stream, value }) => {
            assert_eq!(stream, word(payload) & 0x7fff_ffff);
            assert_eq!((id, value), (0, &payload[4..]));
        }
        (10.., Frame::Unknown { kind }) => assert_eq!(kind, octets[3]),
        (kind, frame) => panic!("a frame of type {kind} became {frame:?}"),
    }
}

/// A frame that this crate can write is parsed to the same.
fn check_again(frame: Frame<'_>) {
    let mut out = Vec::new();
    let fragment = |block: &[u8], out: &mut Vec<u8>| out.extend_from_slice(block);
    match frame {
        Frame::Data {
            stream,
            content,
            is_last,
            ..
        } => {
            frame::push_data(&mut out, stream, content, is_last);
        }
        Frame::Headers {
            stream,
            block,
            is_last,
            ..
        } => {
            let bytes_max = FRAME_BYTES_MAX;
            frame::push_headers(&mut out, stream, is_last, bytes_max, |out| {
                fragment(block, out)
            });
        }
        Frame::ResetStream { stream, code } => frame::push_reset(&mut out, stream, code),
        Frame::Settings(values) => {
            frame::push_settings(&mut out, &values.values().collect::<Vec<_>>());
        }
        Frame::SettingsAck => frame::push_settings_ack(&mut out),
        Frame::Ping(data) => frame::push_ping(&mut out, data),
        Frame::Pong(data) => frame::push_pong(&mut out, data),
        Frame::GoAway { last_stream, code } => {
            frame::push_goaway(&mut out, last_stream, code, "reason");
        }
        Frame::WindowUpdate { stream, increment } => {
            frame::push_window_update(&mut out, stream, increment);
        }
        Frame::Continuation { .. }
        | Frame::Priority { .. }
        | Frame::PriorityUpdate { .. }
        | Frame::Unknown { .. } => return,
    }
    let Ok(Parsed::Frame(again, used)) = parse(&out, FRAME_BYTES_MAX) else {
        panic!("{frame:?} is not parsed after it is written");
    };
    assert_eq!(used, out.len());
    match (frame, again) {
        (Frame::Data { content, .. }, Frame::Data { content: same, .. }) => {
            assert_eq!(content, same);
        }
        (
            Frame::Headers { block, .. },
            Frame::Headers {
                block: same,
                is_whole,
                ..
            },
        ) => {
            assert_eq!((block, true), (same, is_whole));
        }
        _ => assert_eq!(frame, again),
    }
}
