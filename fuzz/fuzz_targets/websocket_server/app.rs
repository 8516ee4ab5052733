//! The application: accepts WebSockets now or later, sends what arrives back, and checks that it is notified of each end once.

use std::sync::Arc;

use server::{
    Abort, App, Appetite, Close, CloseCode, Closed, Command, ExchangeId, Head, Mailbox,
    MessageContent, MessageKind, Offer, Opening, Outcome, Pulled, Request, Responder, Response,
};

/// The topic of all WebSockets.
pub const TOPIC: &[u8] = b"t";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has not responded to the handshake.
    Offered,
    Open,
    Refused,
    /// The server has said that it is over.
    Ended,
}

pub struct Socket {
    pub id: ExchangeId,
    pub phase: Phase,
    /// It takes one message after the other.
    is_slow: bool,
    /// It has one, and has not asked for the next.
    has_enough: bool,
    unsent: Vec<(MessageKind, Vec<u8>)>,
}

pub struct FuzzApp {
    pub mailbox: Arc<Mailbox>,
    pub sockets: Vec<Socket>,
    /// Messages that were posted or published.
    pub count: usize,
    pub posted_bytes: u64,
    pub published_bytes_max: u64,
}

impl FuzzApp {
    pub fn new(mailbox: Arc<Mailbox>) -> FuzzApp {
        FuzzApp {
            mailbox,
            sockets: Vec::new(),
            count: 0,
            posted_bytes: 0,
            published_bytes_max: 0,
        }
    }

    fn socket(&mut self, id: ExchangeId) -> &mut Socket {
        let mut sockets = self.sockets.iter_mut();
        let socket = sockets.find(|it| it.id == id);
        socket.expect("the server refers to a WebSocket that it has offered")
    }

    /// The next message, with its number.
    fn next(&mut self, bytes: usize) -> Vec<u8> {
        self.count += 1;
        let mut content = format!("{} ", self.count).into_bytes();
        content.resize(content.len() + bytes, b'x');
        content
    }

    /// Makes a move of the application: whichever is possible.
    pub fn make_move(&mut self, which: usize, kind: u8, bytes: usize) {
        if kind % 8 == 0 {
            let content = self.next(bytes);
            self.published_bytes_max = self.published_bytes_max.max(content.len() as u64);
            let published = self.mailbox.publish(TOPIC, MessageKind::Text, &content);
            return published.expect("memory");
        }
        let index = which % self.sockets.len().max(1);
        let Some(&Socket { id, phase, .. }) = self.sockets.get(index) else {
            return;
        };
        let command = match (phase, kind % 8) {
            (Phase::Offered, 1 | 2) => {
                self.sockets[index].phase = Phase::Refused;
                Command::Respond(Response {
                    status: 403,
                    ..Response::default()
                })
            }
            (Phase::Offered, _) => {
                self.sockets[index].phase = Phase::Open;
                Command::Open(Opening::default())
            }
            (Phase::Refused | Phase::Ended, _) => return,
            (Phase::Open, 1..=3) => {
                let content = self.next(bytes % 2000);
                self.posted_bytes += content.len() as u64;
                Command::Message(MessageKind::Text, content)
            }
            (Phase::Open, 4) => Command::Read,
            (Phase::Open, 5) => Command::Subscribe(TOPIC.to_vec()),
            (Phase::Open, 6) => Command::Unsubscribe(TOPIC.to_vec()),
            (Phase::Open, _) if bytes % 8 == 0 => Command::Fail,
            (Phase::Open, _) if bytes % 8 == 1 => {
                Command::Close(Close::new(CloseCode(3000), "enough"))
            }
            (Phase::Open, _) => Command::Read,
        };
        self.mailbox.post(id, command);
    }

    /// Decides what is undecided, and goes on reading.
    pub fn complete(&mut self) {
        for index in 0..self.sockets.len() {
            let Socket {
                phase, has_enough, ..
            } = &mut self.sockets[index];
            // Each time it asks, its client has more time.
            if *phase == Phase::Offered || std::mem::take(has_enough) {
                self.make_move(index, 4, 0);
            }
        }
    }
}

impl App for FuzzApp {
    fn call(&mut self, _: &Request<'_>, _: &mut Responder) -> Outcome {
        panic!("a handshake is served as a request")
    }

    fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
        panic!("no response has parts")
    }

    fn content(&mut self, _: ExchangeId, _: &[u8], _: bool) -> bool {
        panic!("no request has content")
    }

    fn writable(&mut self, _: ExchangeId) {}

    fn abort(&mut self, id: ExchangeId, _: Abort) {
        let socket = self.socket(id);
        assert_ne!(socket.phase, Phase::Ended, "aborted after its end");
        socket.phase = Phase::Ended;
    }

    fn takes_websocket(&mut self, _: &Head<'_>) -> bool {
        true
    }

    fn websocket(&mut self, request: &Request<'_>, _: &Offer<'_>, _: &mut Responder) {
        let manner = request.head.target().last().copied().unwrap_or_default();
        let id = request.id;
        self.sockets.push(Socket {
            id,
            phase: Phase::Offered,
            is_slow: manner & 2 != 0,
            has_enough: false,
            unsent: Vec::new(),
        });
        if manner & 1 != 0 {
            self.make_move(self.sockets.len() - 1, 4, 0);
            self.mailbox.post(id, Command::Subscribe(TOPIC.to_vec()));
        }
    }

    fn message(
        &mut self,
        id: ExchangeId,
        kind: MessageKind,
        content: MessageContent<'_>,
    ) -> Appetite {
        let socket = self.socket(id);
        assert_eq!(socket.phase, Phase::Open, "a message before or after");
        if kind == MessageKind::Text {
            assert!(std::str::from_utf8(&content).is_ok());
        }
        socket.unsent.push((kind, content.to_vec()));
        socket.has_enough = socket.is_slow;
        match socket.is_slow {
            true => Appetite::Enough,
            false => Appetite::More,
        }
    }

    fn messages_end(&mut self, id: ExchangeId, responder: &mut Responder) {
        for (kind, content) in std::mem::take(&mut self.socket(id).unsent) {
            // An echo has no number.
            let content = [b"=", &content[..]].concat();
            responder.send_message(kind, &content).expect("memory");
        }
    }

    fn websocket_closed(&mut self, id: ExchangeId, _: &Closed) {
        let socket = self.socket(id);
        assert_eq!(socket.phase, Phase::Open, "it was not open");
        socket.phase = Phase::Ended;
    }
}
