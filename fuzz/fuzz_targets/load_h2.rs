//! The load generator's HTTP/2: frames of a server with any fields, and octets as they are, cut anywhere.
//!
//! The generator must not panic, must not count more responses than it has requests, and must send only whole and valid frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use load::generator::{Dialogue, Plan, Protocol, Request};
use wire::h2::{Encoder, FRAME_BYTES_MAX, PREFACE, Parsed, frame, parse};

const MOVES_MAX: usize = 200;

fuzz_target!(|data: &[u8]| {
    let Some((&manner, mut input)) = data.split_first() else {
        return;
    };
    let mut run = Run::new(manner);
    for _ in 0..MOVES_MAX {
        let Some((&kind, rest)) = input.split_first() else {
            break;
        };
        input = rest;
        if !run.step(kind, &mut input) {
            break;
        }
    }
});

struct Run {
    dialogue: Dialogue,
    encoder: Encoder,
    /// Written and not received yet.
    pending: Vec<u8>,
    /// What the generator has sent of a frame that is not whole.
    sent: Vec<u8>,
    has_preface: bool,
}

impl Run {
    fn new(manner: u8) -> Run {
        let request = Request {
            method: "POST".into(),
            content: Some(vec![b'x'; usize::from(manner >> 4) * 9000]),
            ..Request::default()
        };
        let requests = match manner & 1 {
            0 => vec![Request::default()],
            _ => vec![Request::default(), request],
        };
        let plan = Plan {
            protocol: Protocol::Http2 {
                streams: 1 + u32::from(manner >> 1 & 7),
            },
            connections: 1,
            requests,
            ..Plan::default()
        };
        let mut dialogue = Dialogue::new(plan).expect("a plan");
        dialogue.ask();
        Run {
            dialogue,
            encoder: Encoder::new(),
            pending: Vec::new(),
            sent: Vec::new(),
            has_preface: false,
        }
    }

    /// Returns whether the connection is still alive.
    fn step(&mut self, kind: u8, input: &mut &[u8]) -> bool {
        let stream = 1 + 2 * u32::from(kind >> 4);
        let out = &mut self.pending;
        match kind % 16 {
            0 => out.extend(take(input, usize::from(kind >> 4))),
            1 => frame::push_settings(out, &[]),
            2 => {
                let values = take(input, 3);
                if let [name, high, low] = values {
                    let value = u32::from(*high) << 24 | u32::from(*low);
                    frame::push_settings(out, &[(u16::from(*name % 8), value)]);
                }
            }
            3..=5 => {
                let encoder = &mut self.encoder;
                frame::push_headers(out, stream, kind % 2 == 0, FRAME_BYTES_MAX, |block| {
                    encoder.response(200, &[b"server: x\r\n"], Some(3), block);
                });
            }
            6 | 7 => frame::push_data(out, stream, take(input, 3), kind % 2 == 0),
            8 => {
                let block = take(input, 9);
                frame::push_headers(out, stream, true, FRAME_BYTES_MAX, |it| it.extend(block));
            }
            9 => push(out, 3, stream, &8_u32.to_be_bytes()),
            10 => push(out, 8, stream - 1, &u32::from(kind).to_be_bytes()),
            11 => push(out, 6, 0, b"question"),
            12 => {
                let payload = take(input, 8);
                push(out, 7, 0, payload);
            }
            13 => {
                let (kind, payload) = (take(input, 1), take(input, 5));
                push(out, kind.first().copied().unwrap_or(9), stream, payload);
            }
            14 => return self.receive(usize::from(kind)),
            _ => return self.receive(usize::MAX),
        }
        true
    }

    fn receive(&mut self, count: usize) -> bool {
        let count = count.min(self.pending.len());
        let part: Vec<u8> = self.pending.drain(..count).collect();
        let before = self.dialogue.outstanding();
        let Ok(done) = self.dialogue.receive(&part) else {
            return false;
        };
        assert_eq!(self.dialogue.outstanding(), before - done);
        self.dialogue.ask();
        self.check_sent();
        true
    }

    /// Checks that frames are whole and valid.
    fn check_sent(&mut self) {
        loop {
            let unsent = self.dialogue.unsent();
            let count = unsent.len();
            if count == 0 {
                break;
            }
            self.sent.extend_from_slice(unsent);
            self.dialogue.note_sent(count);
        }
        if !self.has_preface {
            assert!(self.sent.starts_with(PREFACE));
            self.sent.drain(..PREFACE.len());
            self.has_preface = true;
        }
        let mut at = 0;
        while at < self.sent.len() {
            match parse(&self.sent[at..], FRAME_BYTES_MAX) {
                Ok(Parsed::Frame(_, used)) => at += used,
                _ => panic!("a frame that is not whole or not valid"),
            }
        }
        self.sent.clear();
    }
}

fn push(out: &mut Vec<u8>, kind: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (octets, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    octets
}
