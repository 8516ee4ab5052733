//! The other end of an HTTP/2 connection: writes frames, reads them strictly, and checks every response's order and windows.

use std::collections::BTreeMap;

use wire::h2::{
    BlockLimits, Decoder, Encoder, ErrorCode, FRAME_BYTES_MAX, Frame, PREFACE, Parsed, frame,
    settings,
};

use super::Client;
use super::carrier::Carrier;
use super::tls::h2_configs;

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 1 << 20,
    lines_max: 1000,
    target_bytes_max: 1 << 20,
};

/// What has arrived on a stream.
#[derive(Default, Debug)]
pub(crate) struct Arrived {
    /// 0 before the header section.
    pub(crate) status: u16,
    pub(crate) interim: Vec<u16>,
    /// The field lines of the final response.
    pub(crate) section: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Option<Vec<u8>>,
    /// END_STREAM has arrived.
    pub(crate) is_complete: bool,
    pub(crate) reset: Option<ErrorCode>,
    /// The client has reset it.
    pub(crate) was_cancelled: bool,
    /// What the server may still send.
    window_bytes: i64,
    /// What the client may still send.
    pub(crate) room_bytes: i64,
}

impl Arrived {
    pub(crate) fn is_over(&self) -> bool {
        self.is_complete || self.reset.is_some() || self.was_cancelled
    }
}

pub(crate) struct H2Client {
    carrier: Carrier,
    encoder: Encoder,
    decoder: Decoder,
    /// Not sent yet.
    pending: Vec<u8>,
    received: Vec<u8>,
    pub(crate) streams: BTreeMap<u32, Arrived>,
    pub(crate) goaways: Vec<(u32, ErrorCode)>,
    pub(crate) pongs: usize,
    /// The streams of DATA frames that have arrived since everything was open: see [`H2Client::open_everything`].
    pub(crate) order: Vec<u32>,
    opens_at: usize,
    /// The acknowledgements of its settings.
    acknowledged: usize,
    /// Initial windows, in the order in which they were announced; the server uses the one that it acknowledged last.
    announced: Vec<i64>,
    window_bytes: i64,
    pub(crate) room_bytes: i64,
    initial_room_bytes: i64,
    next: u32,
}

impl H2Client {
    pub(crate) fn new(client: Client) -> H2Client {
        H2Client::over(Carrier::new(client))
    }

    /// The same over TLS.
    pub(crate) fn with_tls(client: Client) -> H2Client {
        H2Client::over(Carrier::with_tls(client, &h2_configs().1))
    }

    fn over(carrier: Carrier) -> H2Client {
        let mut pending = PREFACE.to_vec();
        frame::push_settings(&mut pending, &[]);
        let window_bytes = i64::from(settings::WINDOW_BYTES);
        H2Client {
            carrier,
            encoder: Encoder::new(),
            decoder: Decoder::new(4096),
            pending,
            received: Vec::new(),
            streams: BTreeMap::new(),
            goaways: Vec::new(),
            pongs: 0,
            order: Vec::new(),
            opens_at: usize::MAX,
            acknowledged: 0,
            announced: vec![window_bytes],
            window_bytes,
            room_bytes: window_bytes,
            initial_room_bytes: window_bytes,
            next: 1,
        }
    }

    /// Writes a request; `is_last` if it has no content. Returns its stream.
    pub(crate) fn open(&mut self, method: &str, target: &str, is_last: bool) -> u32 {
        self.open_with(method, target, "x-field: value\r\n", is_last)
    }

    /// As [`H2Client::open`], with these field lines.
    pub(crate) fn open_with(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        is_last: bool,
    ) -> u32 {
        let stream = self.next;
        self.next += 2;
        let (method, target, fields) = (method.as_bytes(), target.as_bytes(), fields.as_bytes());
        let encoder = &mut self.encoder;
        frame::push_headers(&mut self.pending, stream, is_last, FRAME_BYTES_MAX, |out| {
            encoder.request(method, b"http", b"test", target, fields, out);
        });
        let arrived = Arrived {
            window_bytes: self.announced.last().copied().unwrap_or_default(),
            room_bytes: self.initial_room_bytes,
            ..Arrived::default()
        };
        self.streams.insert(stream, arrived);
        stream
    }

    /// Writes a HEADERS frame without the end of its block.
    pub(crate) fn open_partly(&mut self) {
        // The length, HEADERS, END_STREAM, the stream, and `:method: GET` of the static table.
        self.pending.extend([0, 0, 1, 1, 1]);
        self.pending.extend(self.next.to_be_bytes());
        self.pending.push(0x82);
    }

    /// Writes an extended CONNECT with the protocol `websocket` and these fields. Returns its stream.
    pub(crate) fn connect(&mut self, target: &str, fields: &[(&str, &str)]) -> u32 {
        self.connect_with_version("13", target, fields)
    }

    /// As [`H2Client::connect`], with another version of WebSocket.
    pub(crate) fn connect_with_version(
        &mut self,
        version: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> u32 {
        let stream = self.next;
        self.next += 2;
        let encoder = &mut self.encoder;
        frame::push_headers(&mut self.pending, stream, false, FRAME_BYTES_MAX, |out| {
            encoder.request(b"CONNECT", b"http", b"test", target.as_bytes(), b"", out);
            let version = ("sec-websocket-version", version);
            for (name, value) in [(":protocol", "websocket"), version].iter().chain(fields) {
                // A literal that is not inserted.
                out.push(0);
                for string in [name, value] {
                    out.push(string.len() as u8);
                    out.extend_from_slice(string.as_bytes());
                }
            }
        });
        let arrived = Arrived {
            window_bytes: self.announced.last().copied().unwrap_or_default(),
            room_bytes: self.initial_room_bytes,
            ..Arrived::default()
        };
        self.streams.insert(stream, arrived);
        stream
    }

    /// Writes content.
    pub(crate) fn data(&mut self, stream: u32, content: &[u8], is_last: bool) {
        frame::push_data(&mut self.pending, stream, content, is_last);
        self.room_bytes -= content.len() as i64;
        if let Some(arrived) = self.streams.get_mut(&stream) {
            arrived.room_bytes -= content.len() as i64;
        }
    }

    /// Writes content with so many octets of padding, besides that of their number.
    pub(crate) fn padded_data(&mut self, stream: u32, content: &[u8], padding_bytes: u8) {
        let length = 1 + content.len() + usize::from(padding_bytes);
        let start = self.pending.len();
        frame::push_data_header(&mut self.pending, stream, length, false);
        // PADDED.
        self.pending[start + 4] |= 0x08;
        self.pending.push(padding_bytes);
        self.pending.extend_from_slice(content);
        self.pending
            .resize(self.pending.len() + usize::from(padding_bytes), 0);
        self.room_bytes -= length as i64;
        if let Some(arrived) = self.streams.get_mut(&stream) {
            arrived.room_bytes -= length as i64;
        }
    }

    /// Writes the trailer section of a request.
    pub(crate) fn trailers(&mut self, stream: u32) {
        let encoder = &mut self.encoder;
        frame::push_headers(&mut self.pending, stream, true, FRAME_BYTES_MAX, |out| {
            encoder.trailers(b"x-trailer: value\r\n", out);
        });
    }

    /// Resets a stream: what still arrives on it is ignored.
    pub(crate) fn reset(&mut self, stream: u32) {
        frame::push_reset(&mut self.pending, stream, ErrorCode::CANCEL);
        if let Some(arrived) = self.streams.get_mut(&stream) {
            arrived.was_cancelled = true;
        }
    }

    /// Opens a window; that of the connection is stream 0.
    pub(crate) fn give(&mut self, stream: u32, bytes: u32) {
        frame::push_window_update(&mut self.pending, stream, bytes);
        match self.streams.get_mut(&stream) {
            Some(arrived) => arrived.window_bytes += i64::from(bytes),
            None => self.window_bytes += i64::from(bytes),
        }
    }

    /// Announces another initial window. What is in flight may exceed a smaller one.
    pub(crate) fn announce_window(&mut self, bytes: u32) {
        frame::push_settings(&mut self.pending, &[(settings::INITIAL_WINDOW_SIZE, bytes)]);
        let before = self.announced.last().copied().unwrap_or_default();
        for arrived in self.streams.values_mut() {
            arrived.window_bytes += i64::from(bytes) - before;
        }
        self.announced.push(i64::from(bytes));
    }

    /// Opens every window as far as no response needs more.
    pub(crate) fn open_everything(&mut self) {
        self.give(0, 1 << 28);
        self.announce_window(1 << 24);
        self.opens_at = self.announced.len();
    }

    /// Announces another value than that of the window.
    pub(crate) fn announce(&mut self, identifier: u16, value: u32) {
        frame::push_settings(&mut self.pending, &[(identifier, value)]);
        let same = self.announced.last().copied().unwrap_or_default();
        self.announced.push(same);
    }

    /// Says what priority the response of a stream has.
    pub(crate) fn prioritize(&mut self, stream: u32, value: &str) {
        frame::push_priority_update(&mut self.pending, stream, value.as_bytes());
    }

    /// The next stream.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Uses no stream with the next identifier.
    pub(crate) fn skip(&mut self) {
        self.next += 2;
    }

    /// Opens no more streams.
    pub(crate) fn leave(&mut self) {
        frame::push_goaway(&mut self.pending, 0, ErrorCode::NO_ERROR, "");
    }

    /// Ends the sending side. What is written and not sent is lost.
    pub(crate) fn finish(&mut self) {
        self.pending.clear();
        self.carrier.finish();
    }

    /// Is gone, without a word.
    pub(crate) fn vanish(&mut self) {
        self.carrier.vanish();
    }

    pub(crate) fn has_finished(&self) -> bool {
        self.carrier.has_finished()
    }

    pub(crate) fn is_ended(&mut self) -> bool {
        self.carrier.is_ended()
    }

    pub(crate) fn ping(&mut self) {
        frame::push_ping(&mut self.pending, *b"question");
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || self.carrier.has_records()
    }

    /// Sends at most so many bytes of what is written, wherever frames end.
    pub(crate) fn send(&mut self, bytes_max: usize) {
        self.carrier.send(&mut self.pending, bytes_max);
    }

    /// Reads what has arrived.
    pub(crate) fn receive(&mut self) {
        self.received.extend(self.carrier.take_bytes());
        self.read_frames();
    }

    /// Reads at most so many bytes of what has arrived, without TLS.
    pub(crate) fn receive_some(&mut self, bytes_max: usize) {
        self.received.extend(self.carrier.take_some(bytes_max));
        self.read_frames();
    }

    fn read_frames(&mut self) {
        let received = std::mem::take(&mut self.received);
        let mut rest = received.as_slice();
        while let Ok(Parsed::Frame(frame, used)) = wire::h2::parse(rest, FRAME_BYTES_MAX) {
            self.frame(frame);
            rest = &rest[used..];
        }
        let is_incomplete = matches!(
            wire::h2::parse(rest, FRAME_BYTES_MAX),
            Ok(Parsed::Incomplete)
        );
        assert!(is_incomplete, "the server sent an invalid frame");
        self.received = rest.to_vec();
    }

    fn frame(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Headers {
                stream,
                block,
                is_last,
                is_whole,
                ..
            } => {
                assert!(is_whole, "no header section of these tests is that long");
                self.header_section(stream, block, is_last);
            }
            Frame::Data {
                stream,
                content,
                is_last,
                ..
            } => self.content(stream, content, is_last),
            Frame::ResetStream { stream, code } => {
                let arrived = self.streams.get_mut(&stream).expect("a stream that exists");
                assert_eq!(arrived.reset, None, "{stream} was reset twice");
                arrived.reset = Some(code);
            }
            Frame::Settings(values) => {
                for (identifier, value) in values.values() {
                    if identifier == settings::INITIAL_WINDOW_SIZE {
                        let change = i64::from(value) - self.initial_room_bytes;
                        let rooms = self.streams.values_mut().map(|it| &mut it.room_bytes);
                        rooms.for_each(|room| *room += change);
                        self.initial_room_bytes = i64::from(value);
                    }
                }
                frame::push_settings_ack(&mut self.pending);
            }
            Frame::SettingsAck => self.acknowledged += 1,
            Frame::Ping(data) => frame::push_pong(&mut self.pending, data),
            Frame::Pong(data) => {
                assert_eq!(&data, b"question");
                self.pongs += 1;
            }
            Frame::GoAway { last_stream, code } => self.goaways.push((last_stream, code)),
            Frame::WindowUpdate { stream, increment } => match self.streams.get_mut(&stream) {
                Some(arrived) => arrived.room_bytes += i64::from(increment),
                None => self.room_bytes += i64::from(increment),
            },
            other => panic!("the server sent {other:?}"),
        }
    }

    fn header_section(&mut self, stream: u32, block: &[u8], is_last: bool) {
        let arrived = self.streams.get_mut(&stream).expect("a stream that exists");
        let is_open = !arrived.is_complete && arrived.reset.is_none();
        assert!(is_open, "a header section after the end of {stream}");
        let mut section = Vec::new();
        arrived.is_complete = is_last;
        if arrived.status != 0 {
            assert!(is_last, "a second header section");
            let decoded = self.decoder.trailers(block, &LIMITS, &mut section);
            decoded.expect("a valid trailer section");
            arrived.trailers = Some(section);
            return;
        }
        let decoded = self.decoder.response(block, &LIMITS, &mut section);
        match decoded.expect("a valid header section") {
            interim @ 100..=199 => arrived.interim.push(interim),
            status => (arrived.status, arrived.section) = (status, section),
        }
    }

    fn content(&mut self, stream: u32, content: &[u8], is_last: bool) {
        let has_new_window = self.acknowledged < self.announced.len();
        let arrived = self.streams.get_mut(&stream).expect("a stream that exists");
        let is_open = !arrived.is_complete && arrived.reset.is_none() && arrived.status != 0;
        assert!(is_open, "content before or after the message of {stream}");
        let length = content.len() as i64;
        if self.acknowledged >= self.opens_at {
            self.order.push(stream);
        }
        arrived.content.extend_from_slice(content);
        arrived.is_complete = is_last;
        arrived.window_bytes -= length;
        self.window_bytes -= length;
        assert!(self.window_bytes >= 0, "more than the connection's window");
        let is_within = arrived.window_bytes >= 0 || length == 0 || has_new_window;
        assert!(is_within, "more than the window of {stream}");
    }
}
