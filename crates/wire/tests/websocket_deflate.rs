//! Compressed messages are whole: whatever their content and length, the level, the window and the room of the buffer, another decompressor
//! makes the same of them (RFC 7692 7.2).

use flate2::{Decompress, FlushDecompress, Status};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::websocket::{Deflater, WindowBits};

const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// Content that repeats itself, does not, or does so at some distance.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let unit = prop_oneof![vec(any::<u8>(), 0..8), vec(any::<u8>(), 0..5000)];
    prop_oneof![
        vec(any::<u8>(), 0..20_000),
        (unit, 1..40usize).prop_map(|(unit, times)| unit.repeat(times)),
        (vec(any::<u8>(), 1..300), 0..40_000usize, any::<u8>())
            .prop_map(|(unit, gap, octet)| { [&unit[..], &vec![octet; gap], &unit].concat() }),
        // Longer than what one step of compression makes room for.
        (any::<u64>(), 65_000..300_000usize).prop_map(|(seed, length)| noise(seed, length)),
    ]
}

/// Octets that cannot be compressed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(next).collect()
}

/// What a decompressor makes of a message, which needs all of it.
fn inflated(decompress: &mut Decompress, deflated: &[u8]) -> Vec<u8> {
    let input = [deflated, &TAIL].concat();
    let (mut rest, mut out) = (&input[..], Vec::new());
    while !rest.is_empty() {
        out.reserve(65_536);
        let before = decompress.total_in();
        let status = decompress.decompress_vec(rest, &mut out, FlushDecompress::Sync);
        assert_eq!(status.ok(), Some(Status::Ok));
        rest = &rest[(decompress.total_in() - before) as usize..];
    }
    loop {
        out.reserve(65_536);
        let before = out.len();
        let _ = decompress.decompress_vec(b"", &mut out, FlushDecompress::Sync);
        if out.len() == before {
            return out;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_compressed_is_whole(
        messages in vec((contents(), 0..3000usize), 1..5),
        level in 1..=9u32,
        bits in 9..=15u8,
        keeps_context in any::<bool>(),
    ) {
        let window = WindowBits::new(bits).expect("in range");
        let mut deflater = Deflater::new(level, window, keeps_context).expect("memory");
        let mut decompress = Decompress::new_with_window_bits(false, bits);
        for (content, room) in messages {
            let mut out = Vec::with_capacity(room);
            out.extend_from_slice(b"before");
            prop_assert_eq!(deflater.deflate(&content, &mut out), Ok(()));
            prop_assert!(out.starts_with(b"before"));
            prop_assert!(inflated(&mut decompress, &out[6..]) == content);
            if !keeps_context {
                decompress = Decompress::new_with_window_bits(false, bits);
            }
        }
    }
}

/// The output ends at every distance from the end of its buffer.
#[test]
fn what_is_compressed_is_whole_whatever_room_there_is() {
    for length in [0, 1, 100, 1500, 70_000] {
        let content = noise(7, length);
        let mut deflater = Deflater::new(6, WindowBits::MAX, false).expect("memory");
        let mut whole = Vec::new();
        assert_eq!(deflater.deflate(&content, &mut whole), Ok(()));
        for room in whole.len().saturating_sub(12)..whole.len() + 24 {
            let mut out = Vec::with_capacity(room);
            assert_eq!(deflater.deflate(&content, &mut out), Ok(()));
            let mut decompress = Decompress::new(false);
            assert!(
                inflated(&mut decompress, &out) == content,
                "{length} {room}"
            );
        }
    }
}
