//! The load generator's WebSocket: octets of a server, cut anywhere, after a handshake that is mostly right.
//!
//! The generator must not panic, must not count more responses than it has requests, and must send only frames that a server accepts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use load::generator::{Dialogue, Pattern, Plan, Protocol, Request, WebSocket};
use wire::websocket::handshake::accept_value;
use wire::websocket::{Event, Incoming, Inflaters, Kind, MessageLimits, Receiver, Role, Sender, reserve_exact};

const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 1 << 20,
    fragments_max: 100,
    reserve: reserve_exact,
};
const MOVES_MAX: usize = 200;
const KEY: &[u8] = b"Sec-WebSocket-Key: ";
const KEY_BYTES: usize = 24;

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
    server: Receiver,
    inflaters: Inflaters,
    is_upgraded: bool,
    /// Messages that the server has not sent back.
    messages: Vec<(Kind, Vec<u8>)>,
    /// Written and not received yet.
    pending: Vec<u8>,
}

impl Run {
    fn new(manner: u8) -> Run {
        let is_compressed = manner & 4 != 0;
        let websocket = WebSocket {
            depth: 1 + u32::from(manner >> 5),
            pattern: match manner & 3 {
                0 => Pattern::OneWay,
                _ => Pattern::Echo,
            },
            message_bytes: 0,
            is_binary: manner & 16 != 0,
            is_compressed,
        };
        let plan = Plan {
            protocol: Protocol::WebSocket(websocket),
            connections: 1,
            // One message for all positions: hundreds of them would take most of the time.
            requests: vec![Request {
                content: Some(vec![b'm'; usize::from(manner & 24) * 9]),
                ..Request::default()
            }],
            ..Plan::default()
        };
        let mut dialogue = Dialogue::new(plan).expect("a plan");
        dialogue.ask();
        let incoming = match is_compressed {
            true => Incoming::WithoutContext(None),
            false => Incoming::Plain,
        };
        let mut run = Run {
            dialogue,
            server: Receiver::new(Role::Server, incoming),
            inflaters: Inflaters::default(),
            is_upgraded: false,
            messages: Vec::new(),
            pending: Vec::new(),
        };
        run.accept(manner);
        run
    }

    /// Writes the response to the handshake.
    fn accept(&mut self, manner: u8) {
        let head = self.dialogue.unsent().to_vec();
        self.dialogue.note_sent(head.len());
        assert!(
            self.dialogue.unsent().is_empty(),
            "a message before the handshake"
        );
        let at = head
            .windows(KEY.len())
            .position(|it| it == KEY)
            .expect("a key")
            + KEY.len();
        let accept = accept_value(&head[at..at + KEY_BYTES]);
        let extension = match manner & 12 {
            4 => "Sec-WebSocket-Extensions: permessage-deflate\r\n",
            12 => "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n",
            _ => "",
        };
        let out = &mut self.pending;
        out.extend(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
        out.extend(format!("{extension}Sec-WebSocket-Accept: ").as_bytes());
        out.extend(accept);
        out.extend(b"\r\n\r\n");
    }

    /// Returns whether the connection is still alive.
    fn step(&mut self, kind: u8, input: &mut &[u8]) -> bool {
        let sender = Sender::new(Role::Server);
        let count = usize::from(kind >> 3);
        match kind % 8 {
            0 => self.pending.extend(take(input, count)),
            1 => {
                if let Some((kind, content)) =
                    (!self.messages.is_empty()).then(|| self.messages.remove(0))
                {
                    let pushed = sender.push_message(&mut self.pending, kind, &content, [0; 4]);
                    pushed.expect("memory");
                }
            }
            2 => sender.push_ping(&mut self.pending, take(input, count), [0; 4]),
            3 => sender.push_pong(&mut self.pending, take(input, count), [0; 4]),
            4 => {
                let content = take(input, count);
                let pushed = sender.push_message(&mut self.pending, Kind::Text, content, [0; 4]);
                pushed.expect("memory");
            }
            5 => {
                if let Some(octet) = self.pending.get_mut(count) {
                    *octet ^= take(input, 1).first().copied().unwrap_or(1);
                }
            }
            6 => return self.receive(count),
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
        self.serve();
        true
    }

    /// Reads what the generator sends.
    fn serve(&mut self) {
        let mut sent = Vec::new();
        loop {
            let unsent = self.dialogue.unsent();
            let count = unsent.len();
            if count == 0 {
                break;
            }
            sent.extend_from_slice(unsent);
            self.dialogue.note_sent(count);
        }
        self.is_upgraded |= !sent.is_empty();
        let mut rest = sent.as_mut_slice();
        while !rest.is_empty() {
            let received = self.server.receive(rest, &LIMITS, &mut self.inflaters);
            let (used, event) = received.expect("frames that a server accepts");
            match event {
                Some(Event::Message(kind, content)) => self.messages.push((kind, content.to_vec())),
                Some(Event::Ping(content)) => {
                    Sender::new(Role::Server).push_pong(&mut self.pending, &content, [0; 4]);
                }
                _ => {}
            }
            rest = &mut rest[used..];
        }
    }
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (octets, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    octets
}
