//! WebSockets on streams of the connection: what their clients and applications do.

use server::{CloseCode, Command, Opening};
use wire::websocket::{Close, Deflater, Incoming, Kind, Role, Sender, WindowBits};

use crate::harness::causes::Causes;
use crate::harness::h2::H2Client;
use crate::harness::websocket::{Arrived, Frames, close, fragments, ping, pong};
use crate::harness::{Server, response};
use crate::schedule::{SocketMove, Way};

const DATA_BYTES_MAX: usize = 16_384;
const TOPIC: &str = "t";

/// What the application has decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    None,
    Accepted,
    Refused,
}

pub(crate) struct Socket {
    pub(crate) stream: u32,
    pub(crate) target: String,
    pub(crate) way: Way,
    frames: Frames,
    deflater: Option<Deflater>,
    /// Octets of frames that are in no DATA frame yet.
    outbox: Vec<u8>,
    pub(crate) written: Vec<String>,
    pub(crate) posted: Vec<String>,
    pub(crate) received: Vec<String>,
    /// The number of messages that were published before its subscription.
    pub(crate) subscribed_at: Option<usize>,
    pub(crate) decision: Decision,
    /// The number of messages that an application had received when it wanted another one.
    read: usize,
    /// The client writes no more.
    has_closed: bool,
    /// The client has ended its side of the stream.
    has_ended: bool,
    /// The number of notices that everything is sent, when the application posted its last message.
    pub(crate) noticed: Option<usize>,
    pub(crate) causes: Causes,
}

#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) all: Vec<Socket>,
    pub(crate) published: Vec<String>,
}

fn content(who: char, number: usize, bytes: usize) -> String {
    format!("{who}{number}:{}", "x".repeat(bytes))
}

impl Sockets {
    /// The client opens one; every other offers compression.
    pub(crate) fn open(&mut self, client: &mut H2Client, way: Way) -> &mut Causes {
        let number = self.all.len();
        let target = match way {
            Way::Echo => format!("/ws/echo/{number}"),
            Way::Post => format!("/ws/post/{number}"),
            Way::Slow => format!("/ws/slow/{number}"),
            Way::Later => format!("/ws/later/{number}"),
            Way::Subscribes => format!("/ws/sub/{TOPIC}/{number}"),
            Way::Panics => format!("/ws/panic/{number}"),
        };
        let is_compressed = number % 2 == 1;
        let (fields, incoming): (&[_], _) = match is_compressed {
            false => (&[], Incoming::Plain),
            true => (
                &[("sec-websocket-extensions", "permessage-deflate")],
                Incoming::WithoutContext(None),
            ),
        };
        let deflater =
            is_compressed.then(|| Deflater::new(1, WindowBits::MAX, false).expect("memory"));
        let socket = Socket {
            stream: client.connect(&target, fields),
            target,
            way,
            frames: Frames::new(incoming),
            deflater,
            outbox: Vec::new(),
            written: Vec::new(),
            posted: Vec::new(),
            received: Vec::new(),
            subscribed_at: None,
            decision: match way {
                Way::Later => Decision::None,
                _ => Decision::Accepted,
            },
            read: 0,
            has_closed: false,
            has_ended: false,
            noticed: None,
            causes: Causes {
                is_lost: way == Way::Panics,
                is_subscriber: way == Way::Subscribes,
                ..Causes::default()
            },
        };
        self.all.push(socket);
        let last = self.all.last_mut();
        &mut last.expect("it was pushed").causes
    }

    /// One of them moves, if it can.
    pub(crate) fn make(
        &mut self,
        server: &mut Server,
        client: &mut H2Client,
        which: u8,
        each: SocketMove,
    ) {
        let index = usize::from(which) % self.all.len().max(1);
        if let Some(socket) = self.all.get_mut(index) {
            match socket.is_over(client) {
                true => {}
                false if each.is_of_client() => socket.make(client, each),
                false => socket.act(server, each),
            }
        }
    }

    pub(crate) fn publish(&mut self, server: &Server, bytes: u16) {
        let content = content('p', self.published.len(), usize::from(bytes));
        server.publish(TOPIC, &content);
        self.published.push(content);
    }

    /// After a pass: the application may have been called.
    pub(crate) fn note_calls(&mut self, server: &Server) {
        for socket in &mut self.all {
            if socket.subscribed_at.is_none() && socket.id(server).is_some() {
                socket.subscribed_at = Some(self.published.len());
            }
        }
    }

    /// The clients read what has arrived.
    pub(crate) fn read(&mut self, client: &mut H2Client) {
        self.all.iter_mut().for_each(|it| it.read(client));
    }

    /// Everybody does what is owed: applications decide and read, clients send. Returns how far they are.
    pub(crate) fn go_on(&mut self, server: &mut Server, client: &mut H2Client) -> usize {
        let mut reached = server.worker.app.messages.len();
        for socket in &mut self.all {
            if !socket.is_over(client) {
                socket.act(server, SocketMove::Accept);
                socket.act(server, SocketMove::Read);
                while socket.carry(client, usize::MAX) {}
            }
            reached += socket.received.len() + socket.outbox.len();
            reached += client.streams[&socket.stream].content.len();
        }
        reached
    }

    /// Clients that have not closed do. Returns their streams.
    pub(crate) fn close(&mut self, client: &H2Client) -> Vec<u32> {
        let open = self.all.iter_mut();
        let open = open.filter(|it| !it.has_closed && !it.is_over(client));
        open.map(|socket| {
            socket.close(1000, "done");
            socket.stream
        })
        .collect()
    }

    /// Applications that want each message separately go on reading.
    pub(crate) fn read_on(&mut self, server: &mut Server) {
        let slow = self.all.iter_mut().filter(|it| it.way == Way::Slow);
        slow.for_each(|it| it.act(server, SocketMove::Read));
    }

    /// Whether an application owes something that has no deadline.
    pub(crate) fn is_owed(&self, server: &Server) -> bool {
        let slow = self.all.iter().filter(|it| it.way == Way::Slow);
        slow.filter_map(|it| it.id(server))
            .any(|id| !is_closed(server, id))
    }

    /// Something has happened to all of them.
    pub(crate) fn note(&mut self, set: impl Fn(&mut Causes)) {
        self.all.iter_mut().for_each(|it| set(&mut it.causes));
    }
}

pub(crate) fn is_closed(server: &Server, id: server::ExchangeId) -> bool {
    server.worker.app.closed.iter().any(|(of, _)| *of == id)
}

impl Socket {
    /// Its exchange, once the application was called.
    pub(crate) fn id(&self, server: &Server) -> Option<server::ExchangeId> {
        let called = server.worker.app.called.iter();
        let mut called = called.filter(|it| it.target == self.target);
        called.next().map(|it| it.id)
    }

    fn is_over(&self, client: &H2Client) -> bool {
        client.streams[&self.stream].is_over()
    }

    fn make(&mut self, client: &mut H2Client, each: SocketMove) {
        match each {
            SocketMove::Carry(bytes) => {
                self.carry(client, usize::from(bytes));
            }
            SocketMove::End if !self.has_ended => {
                client.data(self.stream, b"", true);
                (self.has_ended, self.has_closed, self.causes.is_lost) = (true, true, true);
                self.outbox.clear();
            }
            SocketMove::Reset => {
                client.reset(self.stream);
                (self.has_ended, self.has_closed, self.causes.is_lost) = (true, true, true);
            }
            SocketMove::Give(bytes) => client.give(self.stream, bytes),
            _ if self.has_closed => {}
            SocketMove::Message {
                bytes,
                frames,
                kind,
            } => self.message(bytes, frames, kind),
            // It would take as many rounds.
            SocketMove::Burst(_) if self.way == Way::Slow => {}
            SocketMove::Burst(messages) => {
                (0..messages).for_each(|_| self.message(0, 1, Kind::Text));
            }
            SocketMove::Ping => self.outbox.extend(ping(b"?")),
            SocketMove::Close => self.close(1000, "done"),
            SocketMove::Invalid => {
                self.outbox.extend(b"\x83\x80\0\0\0\0");
                (self.has_closed, self.causes.has_violated) = (true, true);
            }
            _ => {}
        }
    }

    fn message(&mut self, bytes: u32, frames: u8, kind: Kind) {
        let content = content('c', self.written.len(), bytes as usize);
        let octets = content.as_bytes();
        match (frames, &mut self.deflater) {
            (0, Some(deflater)) => {
                let sender = Sender::new(Role::Client);
                let pushed = sender.push_deflated(&mut self.outbox, kind, octets, [7; 4], deflater);
                pushed.expect("memory");
            }
            _ => self.outbox.extend(fragments(kind, octets, frames)),
        }
        self.written.push(content);
    }

    /// The client's last frame.
    fn close(&mut self, code: u16, reason: &str) {
        if !self.has_closed {
            self.outbox.extend(close(code, reason));
            self.causes.by_client = Some((code, reason.to_owned()));
            self.has_closed = true;
        }
    }

    /// Puts octets into a DATA frame, as far as the windows allow. Returns whether there were any.
    fn carry(&mut self, client: &mut H2Client, bytes_max: usize) -> bool {
        let room = client.streams[&self.stream]
            .room_bytes
            .min(client.room_bytes);
        let count = bytes_max.min(room.max(0) as usize).min(DATA_BYTES_MAX);
        let count = count.min(self.outbox.len());
        if count > 0 {
            let octets: Vec<u8> = self.outbox.drain(..count).collect();
            client.data(self.stream, &octets, false);
        }
        count > 0
    }

    /// The application does something. Before it was called, it cannot.
    fn act(&mut self, server: &mut Server, each: SocketMove) {
        let Some(id) = self.id(server) else {
            return;
        };
        let command = match (each, self.decision) {
            (SocketMove::Accept, Decision::None) => {
                self.decision = Decision::Accepted;
                Command::Open(Opening::default())
            }
            (SocketMove::Refuse, Decision::None) => {
                self.decision = Decision::Refused;
                Command::Respond(response(403, "no"))
            }
            (SocketMove::Post(bytes), Decision::Accepted) if self.causes.by_app.is_none() => {
                let content = content('a', self.posted.len(), bytes as usize);
                self.posted.push(content.clone());
                self.noticed = Some(server.worker.app.writables.len());
                Command::Message(Kind::Text, content.into_bytes())
            }
            (SocketMove::PostClose, Decision::Accepted) => {
                self.app_closes(3001, "enough");
                Command::Close(Close {
                    code: Some(CloseCode(3001)),
                    reason: "enough".to_owned(),
                })
            }
            (SocketMove::Fail, Decision::Accepted) => {
                self.app_closes(1011, "");
                Command::Fail
            }
            (SocketMove::Read, Decision::Accepted) if self.has_unread(server, id) => Command::Read,
            _ => return,
        };
        server.post(id, command);
    }

    /// Whether a message has arrived since it last wanted one.
    fn has_unread(&mut self, server: &Server, id: server::ExchangeId) -> bool {
        let messages = server.worker.app.messages.iter();
        let count = messages.filter(|(to, ..)| *to == id).count();
        self.way == Way::Slow && std::mem::replace(&mut self.read, count) < count
    }

    fn app_closes(&mut self, code: u16, reason: &str) {
        let by_app = &mut self.causes.by_app;
        by_app.get_or_insert_with(|| (code, reason.to_owned()));
    }

    fn read(&mut self, client: &mut H2Client) {
        let arrived = client.streams.get_mut(&self.stream);
        let arrived = arrived.expect("a stream that exists");
        if arrived.status != 200 {
            return;
        }
        self.frames.add(&std::mem::take(&mut arrived.content));
        while let Some(arrived) = self.frames.take() {
            match arrived {
                Arrived::Text(text) => self.received.push(text),
                Arrived::Binary(content) => {
                    let text = String::from_utf8(content).expect("it was text");
                    self.received.push(text);
                }
                Arrived::Ping(content) if !self.has_closed => self.outbox.extend(pong(&content)),
                Arrived::Ping(_) | Arrived::Pong(_) => {}
                Arrived::Close(code, reason) => {
                    let before = self.causes.arrived.replace((code, reason));
                    assert_eq!(before, None, "a frame after the close frame");
                    self.close(code, "");
                }
            }
        }
    }
}
