//! A connection of WebSocket: every message is sent back.
//!
//! The handshake is not checked, because the peer is a load generator; frames are, and extensions are declined.

use memchr::memmem;
use wire::websocket::handshake::accept_value;
use wire::websocket::{
    Close, Event, Incoming, Inflaters, MessageLimits, Receiver, Role, Sender, reserve_exact,
};

use super::frames::Refused;

/// No message of a generator is larger.
const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 64 * 1024 * 1024,
    fragments_max: 100_000,
    reserve: reserve_exact,
};

pub(super) struct Messages {
    receiver: Receiver,
    /// Lends nothing: compression is declined.
    inflaters: Inflaters,
    /// What has to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    has_ended: bool,
}

impl Messages {
    /// The connection whose first request has this head; `None`: it does not ask for WebSocket.
    pub(super) fn of(head: &[u8]) -> Option<Messages> {
        let key = value(head, b"sec-websocket-key:")?;
        let mut out =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: "
                .to_vec();
        out.extend_from_slice(&accept_value(key));
        out.extend_from_slice(b"\r\n\r\n");
        Some(Messages {
            receiver: Receiver::new(Role::Server, Incoming::Plain),
            inflaters: Inflaters::default(),
            out,
            sent: 0,
            has_ended: false,
        })
    }

    /// Reads frames. Returns how many messages are sent back.
    ///
    /// # Errors
    /// If the client violates the protocol, or there is no memory for a message.
    pub(super) fn take(&mut self, mut data: &mut [u8]) -> Result<u64, Refused> {
        let sender = Sender::new(Role::Server);
        let mut count = 0;
        while !data.is_empty() {
            let received = self.receiver.receive(data, &LIMITS, &mut self.inflaters);
            let (used, event) = received.map_err(|_| Refused)?;
            match event {
                None | Some(Event::Pong(_)) => {}
                Some(Event::Message(kind, content)) => {
                    count += 1;
                    let pushed = sender.push_message(&mut self.out, kind, &content, [0; 4]);
                    pushed.map_err(|_| Refused)?;
                }
                Some(Event::Ping(content)) => sender.push_pong(&mut self.out, &content, [0; 4]),
                Some(Event::Close(Close { code, .. })) => {
                    let reason = String::new();
                    sender.push_close(&mut self.out, &Close { code, reason }, [0; 4]);
                    self.has_ended = true;
                }
            }
            data = data.get_mut(used..).unwrap_or_default();
        }
        Ok(count)
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// The socket has accepted this many bytes more. Returns whether they were the last ones of the connection.
    pub(super) fn note_sent(&mut self, count: usize) -> bool {
        self.sent += count;
        if self.sent < self.out.len() {
            return false;
        }
        self.out.clear();
        self.sent = 0;
        self.has_ended
    }
}

/// The value of a field of the head, whose name has its colon.
pub(super) fn value<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = memmem::find_iter(head, b"\r\n").filter_map(|at| head.get(at + 2..));
    let line = lines.find(|line| {
        line.get(..name.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(name))
    })?;
    let end = memchr::memchr(b'\r', line)?;
    Some(line.get(name.len()..end)?.trim_ascii())
}
