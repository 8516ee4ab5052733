//! Cost of parsing one request head: the shortest, and a browser's.
//!
//! `cargo bench -p bolide-wire` prints nanoseconds per head. For instructions, which stay the same
//! on a busy machine, run the binary under `valgrind --tool=callgrind` with the name of one head
//! and a number of rounds as arguments, twice. The difference of the totals belongs to the
//! difference in rounds, each of which parses 240 heads.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use wire::{HeadLimits, Progress, parse_request};

const SHORT: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2026/fireballs?page=2&sort=brightness HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: max-age=0\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.com/articles/2026/\r\n\
    Cookie: session=3f1c9a7be2d84e0f; theme=dark; consent=1\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Priority: u=0, i\r\n\
    \r\n";

/// Heads that one read of pipelined requests returns.
const PIPELINED: usize = 24;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    let chosen = |name: &str| arguments.iter().any(|argument| argument == name);
    let heads = [("short", SHORT), ("browser", BROWSER)];
    let all = !heads.iter().any(|(name, _)| chosen(name));
    for (name, head) in heads.into_iter().filter(|(name, _)| all || chosen(name)) {
        let input = head.repeat(PIPELINED);
        let rounds = rounds.unwrap_or(20_000_000 / input.len());
        let best = (0..10)
            .map(|_| nanoseconds_per_head(&input, rounds))
            .fold(f64::MAX, f64::min);
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{name}: {best:.1} ns per head of {} bytes", head.len());
    }
}

fn nanoseconds_per_head(input: &[u8], rounds: usize) -> f64 {
    let limits = HeadLimits::default();
    let start = Instant::now();
    let mut heads = 0;
    for _ in 0..rounds {
        heads += parse_all(black_box(input), &limits);
    }
    start.elapsed().as_secs_f64() * 1e9 / heads as f64
}

/// Parses every head of the input, as a server does with the result of one read.
fn parse_all(mut input: &[u8], limits: &HeadLimits) -> usize {
    let mut heads = 0;
    loop {
        let progress = parse_request(input, limits);
        let Ok(Progress::Complete(head)) = black_box(&progress) else {
            return heads;
        };
        input = &input[head.consumed..];
        heads += 1;
    }
}
