//! Cost of one header block: a browser's request and a response, decoded and encoded.
//!
//! `cargo bench -p bolide-wire --bench header_block` prints nanoseconds per block. For instructions, see `head.rs`: the arguments are the
//! same.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use wire::h2::{BlockLimits, Decoder, Encoder};

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 32_768,
    lines_max: 100,
    target_bytes_max: 8_192,
};

const BROWSER: &[u8] =
    b"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    accept-language: en-GB,en;q=0.7,de;q=0.3\r\n\
    accept-encoding: gzip, deflate, br, zstd\r\n\
    referer: https://www.example.com/articles/2026/\r\n\
    cookie: session=3f1c9a7be2d84e0f; theme=dark; consent=1\r\n\
    upgrade-insecure-requests: 1\r\n\
    sec-fetch-mode: navigate\r\n\
    priority: u=0, i\r\n\
    te: trailers\r\n";

const OURS: &[u8] = b"Server: bolide\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\n";
const THEIRS: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n";

/// A block with this request, after the table has its fields.
fn browser(encoder: &mut Encoder, path: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.request(
        b"GET",
        b"https",
        b"www.example.com",
        path,
        BROWSER,
        &mut block,
    );
    block
}

/// A decoder that has received the request twice, and the block of the third.
fn repeated_request() -> (Decoder, Vec<u8>) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let mut head = Vec::new();
    for _ in 0..2 {
        let block = browser(&mut encoder, b"/");
        assert!(decoder.request(&block, &LIMITS, &mut head).is_ok());
    }
    let block = browser(&mut encoder, b"/");
    let mut out = std::io::stdout().lock();
    let held = decoder.held_bytes();
    let _ = writeln!(out, "table of a browser: {held} bytes; block: {block:02x?}");
    (decoder, block)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    let rounds = rounds.unwrap_or(1_000_000);
    let names = ["repeated", "literal", "parsed", "response"];
    let all = !arguments
        .iter()
        .any(|argument| names.contains(&argument.as_str()));
    let run = |name: &str, mut each: Box<dyn FnMut()>| {
        if !all && !arguments.iter().any(|argument| argument == name) {
            return;
        }
        let best = (0..5).map(|_| {
            let start = Instant::now();
            (0..rounds).for_each(|_| each());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
        });
        let best = best.fold(f64::MAX, f64::min);
        let _ = writeln!(std::io::stdout().lock(), "{name}: {best:.1} ns per block");
    };
    let (mut decoder, block) = repeated_request();
    let mut head = Vec::new();
    run(
        "repeated",
        Box::new(move || {
            let decoded = decoder.request(black_box(&block), &LIMITS, &mut head);
            assert!(black_box(decoded).is_ok());
        }),
    );
    let (mut decoder, block) = repeated_request();
    let mut head = Vec::new();
    let mut memo = wire::SectionMemo::new();
    run(
        "parsed",
        Box::new(move || {
            let decoded = decoder.request(black_box(&block), &LIMITS, &mut head);
            assert!(black_box(decoded).is_ok());
            let parsed = wire::parse_decoded_request(&head, false, Some(&mut memo));
            assert!(black_box(parsed).is_ok());
        }),
    );
    let block = browser(
        &mut Encoder::new(),
        b"/articles/2026/fireballs?page=2&sort=brightness",
    );
    let mut head = Vec::new();
    run(
        "literal",
        Box::new(move || {
            let mut decoder = Decoder::new(4096);
            let decoded = decoder.request(black_box(&block), &LIMITS, &mut head);
            assert!(black_box(decoded).is_ok());
        }),
    );
    let mut encoder = Encoder::new();
    let mut block = Vec::new();
    run(
        "response",
        Box::new(move || {
            block.clear();
            encoder.response(200, &[OURS, THEIRS], Some(13), black_box(&mut block));
            assert!(block.len() > 8);
        }),
    );
}
