//! Header blocks of one HTTP/2 connection, in both roles.
//!
//! The input is a list of blocks, each after its length. The first octet chooses the announced table size. Whatever is accepted must be
//! within the limits, one head, the same for every way to decode it, and what an encoder makes of it must be decoded to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::h2::{BlockError, BlockLimits, Decoder, Encoder};

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 4_000,
    lines_max: 40,
    target_bytes_max: 500,
};

fuzz_target!(|data: &[u8]| {
    let Some((first, mut rest)) = data.split_first() else {
        return;
    };
    let announced = usize::from(*first) * 64;
    let new = || Decoder::new(announced);
    let (mut requests, mut responses, mut trailers, mut skipping) = (new(), new(), new(), new());
    let mut again = Again {
        encoder: Encoder::new(),
        decoder: Decoder::new(4096),
    };
    let mut text = Vec::new();
    while let Some((len, tail)) = rest.split_first() {
        let (block, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        let skipped = skipping.skip(block);
        let request = requests.request(block, &LIMITS, &mut text);
        if request.is_ok() {
            check_head(&text);
        }
        let response = responses.response(block, &LIMITS, &mut text);
        if let Ok(status) = response {
            again.check(status, &text);
        }
        let trailer = trailers.trailers(block, &LIMITS, &mut text);
        if trailer.is_ok() {
            again.check(200, &text);
        }
        for found in [request, response.map(|_| ()), trailer] {
            assert_eq!(found == Err(BlockError::Compression), skipped.is_err());
        }
        assert!(requests.held_bytes() <= announced.max(4096) * 3 / 2 + 64);
        assert_eq!(requests.held_bytes(), skipping.held_bytes());
        if skipped.is_err() {
            return;
        }
    }
});

fn check_head(head: &[u8]) {
    let end = head.windows(4).position(|window| window == b"\r\n\r\n");
    assert_eq!(end, Some(head.len() - 4));
    if let Ok(parsed) = wire::parse_decoded_request(head, true, None) {
        assert_eq!(parsed.consumed, head.len());
        assert!(parsed.host.is_some_and(|host| !host.is_empty()));
        assert!(wire::field_lines(parsed.field_section).count() <= LIMITS.lines_max + 1);
    }
    assert!(wire::parse_request(head, &wire::HeadLimits::default()).is_err());
}

/// A second connection, which transfers what the first one accepted.
struct Again {
    encoder: Encoder,
    decoder: Decoder,
}

impl Again {
    fn check(&mut self, status: u16, section: &[u8]) {
        let mut block = Vec::new();
        self.encoder.response(status, &[section], None, &mut block);
        let mut text = Vec::new();
        let limits = BlockLimits {
            section_bytes_max: usize::MAX,
            lines_max: usize::MAX,
            target_bytes_max: usize::MAX,
        };
        assert_eq!(
            self.decoder.response(&block, &limits, &mut text),
            Ok(status)
        );
        assert_eq!(text, section);
    }
}
