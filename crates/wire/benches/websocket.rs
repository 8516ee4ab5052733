//! Cost of one message: received and sent by a server, at several sizes.
//!
//! `cargo bench -p bolide-wire --bench websocket` prints nanoseconds per message, and octets per nanosecond.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use wire::websocket::{
    Deflater, Event, Incoming, Inflaters, Kind, MessageLimits, Receiver, Role, Sender, WindowBits,
    apply_mask, reserve_exact,
};

const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 1 << 24,
    fragments_max: 1000,
    reserve: reserve_exact,
};
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const SAMPLES: u32 = 10;

/// Nanoseconds of one `call`, the least of some samples.
fn cost(calls: u32, mut call: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    least
}

fn print(what: &str, octets: usize, nanoseconds: f64) {
    let mut out = std::io::stdout().lock();
    let rate = octets as f64 / nanoseconds;
    let _ = writeln!(
        out,
        "{what:<24} {octets:>8} octets {nanoseconds:>12.1} ns {rate:>8.2} octets/ns"
    );
}

/// Receives a message again and again. The octets are masked anew each time, which [`masking`] measures alone.
fn receiving(text: &str, incoming: Incoming, deflater: Option<&mut Deflater>) -> f64 {
    let mut frame = Vec::new();
    let sender = Sender::new(Role::Client);
    match deflater {
        Some(deflater) => {
            let pushed =
                sender.push_deflated(&mut frame, Kind::Text, text.as_bytes(), KEY, deflater);
            pushed.expect("memory");
        }
        None => {
            let pushed = sender.push_message(&mut frame, Kind::Text, text.as_bytes(), KEY);
            pushed.expect("memory");
        }
    }
    let mut receiver = Receiver::new(Role::Server, incoming);
    let mut inflaters = Inflaters::default();
    let mut buffer = frame.clone();
    cost(100_000 / (1 + text.len() as u32 / 100), || {
        buffer.copy_from_slice(&frame);
        match receiver.receive(black_box(&mut buffer), &LIMITS, &mut inflaters) {
            Ok((_, Some(Event::Message(Kind::Text, content)))) => {
                assert_eq!(content.len(), text.len());
            }
            other => panic!("{other:?}"),
        }
    })
}

fn sending(text: &str, mut deflater: Option<Deflater>) -> f64 {
    let sender = Sender::new(Role::Server);
    let mut out = Vec::new();
    cost(100_000 / (1 + text.len() as u32 / 100), || {
        out.clear();
        match &mut deflater {
            Some(deflater) => {
                let pushed =
                    sender.push_deflated(&mut out, Kind::Text, text.as_bytes(), KEY, deflater);
                pushed.expect("memory");
            }
            None => {
                let text = black_box(text.as_bytes());
                let pushed = sender.push_message(&mut out, Kind::Text, text, KEY);
                pushed.expect("memory");
            }
        }
    })
}

fn masking(octets: usize) -> f64 {
    let mut buffer = vec![0x61; octets];
    cost(100_000 / (1 + octets as u32 / 100), || {
        apply_mask(black_box(&mut buffer), KEY, 0);
    })
}

fn main() {
    for octets in [64, 1_024, 16_384, 1_048_576] {
        let ascii: String = "{\"id\": 12345, \"name\": \"value\"}, "
            .chars()
            .cycle()
            .take(octets)
            .collect();
        let mixed: String = "caf\u{e9} \u{1f600} ".repeat(octets / 11);
        print("unmask", octets, masking(octets));
        print(
            "receive ASCII",
            octets,
            receiving(&ascii, Incoming::Plain, None),
        );
        print(
            "receive UTF-8",
            mixed.len(),
            receiving(&mixed, Incoming::Plain, None),
        );
        print("send", octets, sending(&ascii, None));
        let mut deflater = Deflater::new(1, WindowBits::MAX, false).expect("memory");
        let incoming = Incoming::WithoutContext(None);
        print(
            "receive deflated",
            octets,
            receiving(&ascii, incoming, Some(&mut deflater)),
        );
        print(
            "send deflated, level 1",
            octets,
            sending(&ascii, Some(deflater)),
        );
    }
}
