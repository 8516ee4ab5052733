//! The client's side of one WebSocket: a strict reader of what the server sends.

use wire::websocket::{Event, Incoming, Inflaters, MessageLimits, Receiver, Role, reserve_exact};

const LIMITS: MessageLimits = MessageLimits {
    message_bytes_max: 1 << 28,
    fragments_max: 1000,
    reserve: reserve_exact,
};

pub struct Peer {
    /// 0 over HTTP/1.1.
    pub stream: u32,
    /// What the client may send on the stream.
    pub room_bytes: u64,
    pub is_compressed: bool,
    receiver: Receiver,
    inflaters: Inflaters,
    octets: Vec<u8>,
    /// The number of the last message that was posted or published.
    last: usize,
    has_close_frame: bool,
    /// The server has accepted: frames follow.
    pub is_open: bool,
    /// It sends something else.
    pub is_refused: bool,
    pub has_ended: bool,
    /// The client has reset the stream.
    pub was_reset: bool,
}

impl Peer {
    pub fn new(stream: u32, is_compressed: bool) -> Peer {
        let incoming = match is_compressed {
            true => Incoming::WithoutContext(None),
            false => Incoming::Plain,
        };
        Peer {
            stream,
            room_bytes: 65_535,
            is_compressed,
            receiver: Receiver::new(Role::Client, incoming),
            inflaters: Inflaters::default(),
            octets: Vec::new(),
            last: 0,
            has_close_frame: false,
            is_open: false,
            is_refused: false,
            has_ended: false,
            was_reset: false,
        }
    }

    /// Octets arrive, cut anywhere.
    pub fn add(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
        if !self.is_open {
            self.read_head();
        }
        while self.is_open && !self.octets.is_empty() {
            let received = self
                .receiver
                .receive(&mut self.octets, &LIMITS, &mut self.inflaters);
            let (used, event) = received.expect("the server keeps to the protocol");
            let is_over = self.has_close_frame;
            match event {
                Some(Event::Message(_, content)) => {
                    assert!(!is_over, "a message after the close frame");
                    let number = content.split(|octet| *octet == b' ').next();
                    let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
                    if let Some(number) = number.and_then(|digits| digits.parse().ok()) {
                        assert!(number > self.last, "{number} follows {}", self.last);
                        self.last = number;
                    }
                }
                Some(Event::Close(_)) => {
                    assert!(!is_over, "two close frames");
                    self.has_close_frame = true;
                }
                Some(Event::Ping(_) | Event::Pong(_)) => assert!(!is_over),
                None => {}
            }
            self.octets.drain(..used);
            if used == 0 {
                break;
            }
        }
    }

    /// Over HTTP/1.1 the response precedes the frames.
    fn read_head(&mut self) {
        if self.stream != 0 || self.is_refused {
            return;
        }
        let end = self.octets.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            self.is_open = self.octets.starts_with(b"HTTP/1.1 101 ");
            self.is_refused = !self.is_open;
            self.octets.drain(..end + 4);
        }
    }
}
