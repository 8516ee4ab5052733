//! A connection of HTTP/2: frames are passed over, and each end of a request gets the same frames on its stream.
//!
//! Header blocks are not decoded, and the states of streams are not kept: the peer is a load generator. What has to be right is what the
//! peer counts: settings and pings are acknowledged, the connection's window is respected, and content that arrives is given room again.

use std::collections::VecDeque;

use wire::h2::frame::{push_pong, push_settings, push_settings_ack, push_window_update};
use wire::h2::settings::{INITIAL_WINDOW_SIZE, WINDOW_BYTES};
use wire::h2::{FRAME_BYTES_MAX, Frame, HEADER_BYTES, Parsed, SendWindow, parse};

/// The frames of one response, written for stream 0.
pub(super) struct FrameBlock {
    bytes: Vec<u8>,
    /// Where in it the frames' stream identifiers are.
    stream_places: Vec<usize>,
    content_length: usize,
}

/// What cannot be served: a violation of the frames, or a content that is larger than the window of a stream.
#[derive(Debug)]
pub(super) struct Refused;

/// What is known about a connection.
pub(super) struct Frames {
    /// The start of a frame whose rest has not arrived.
    early: Vec<u8>,
    window: SendWindow,
    stream_window: u32,
    /// Streams whose responses wait for the connection's window.
    waiting: VecDeque<u32>,
    /// What has to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
}

impl FrameBlock {
    pub(super) fn new(content_length: usize, date: &[u8]) -> FrameBlock {
        let length = content_length.to_string();
        // Of the static table (RFC 7541 appendix A): the whole field `:status: 200`, and names.
        let mut block = vec![0x88];
        push_field(&mut block, 54, b"bolide");
        push_field(&mut block, 33, date);
        push_field(&mut block, 31, b"text/plain; charset=utf-8");
        push_field(&mut block, 28, length.as_bytes());
        let mut made = FrameBlock {
            bytes: Vec::new(),
            stream_places: Vec::new(),
            content_length,
        };
        let content: Vec<u8> = b"Hello, World!"
            .iter()
            .copied()
            .cycle()
            .take(content_length)
            .collect();
        made.begin_frame();
        wire::h2::frame::push_headers(
            &mut made.bytes,
            0,
            content.is_empty(),
            FRAME_BYTES_MAX,
            |out| {
                out.extend_from_slice(&block);
            },
        );
        let parts = content.len().div_ceil(FRAME_BYTES_MAX);
        for (number, part) in content.chunks(FRAME_BYTES_MAX).enumerate() {
            made.begin_frame();
            wire::h2::frame::push_data(&mut made.bytes, 0, part, number + 1 == parts);
        }
        made
    }

    /// A frame's header ends with its stream.
    fn begin_frame(&mut self) {
        self.stream_places.push(self.bytes.len() + HEADER_BYTES - 4);
    }

    fn push(&self, out: &mut Vec<u8>, stream: u32) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for place in &self.stream_places {
            if let Some(field) = out.get_mut(start + place..start + place + 4) {
                field.copy_from_slice(&stream.to_be_bytes());
            }
        }
    }
}

/// Appends a field that no table keeps, with a name of the static table and a short value (RFC 7541 6.2.2).
fn push_field(block: &mut Vec<u8>, name: u8, value: &[u8]) {
    block.extend_from_slice(&[0x0f, name - 15, value.len() as u8]);
    block.extend_from_slice(value);
}

impl Frames {
    /// A connection whose preface has arrived.
    pub(super) fn new() -> Frames {
        let mut out = Vec::new();
        push_settings(&mut out, &[]);
        Frames {
            early: Vec::new(),
            window: SendWindow::new(WINDOW_BYTES),
            stream_window: WINDOW_BYTES,
            waiting: VecDeque::new(),
            out,
            sent: 0,
        }
    }

    /// What has to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// `count` bytes were sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Takes what has arrived; returns the number of requests that ended in it.
    ///
    /// # Errors
    /// If the connection cannot be served.
    pub(super) fn take(&mut self, data: &[u8], response: &FrameBlock) -> Result<u64, Refused> {
        let mut count = 0;
        if self.early.is_empty() {
            let used = self.pass(data, response, &mut count)?;
            self.early
                .extend_from_slice(data.get(used..).unwrap_or_default());
            return Ok(count);
        }
        let mut joined = std::mem::take(&mut self.early);
        joined.extend_from_slice(data);
        let used = self.pass(&joined, response, &mut count)?;
        joined.drain(..used);
        self.early = joined;
        Ok(count)
    }

    /// Passes over whole frames, and returns their length.
    fn pass(
        &mut self,
        data: &[u8],
        response: &FrameBlock,
        count: &mut u64,
    ) -> Result<usize, Refused> {
        let mut used = 0;
        loop {
            let rest = data.get(used..).unwrap_or_default();
            match parse(rest, FRAME_BYTES_MAX) {
                Ok(Parsed::Frame(frame, length)) => {
                    *count += u64::from(self.ends_request(frame, response)?);
                    used += length;
                }
                Ok(Parsed::Incomplete) => return Ok(used),
                Ok(Parsed::Violated(..)) | Err(_) => return Err(Refused),
            }
        }
    }

    /// Reacts to a frame; returns whether a request ends with it.
    fn ends_request(&mut self, frame: Frame<'_>, response: &FrameBlock) -> Result<bool, Refused> {
        match frame {
            Frame::Headers {
                stream,
                is_last: true,
                ..
            } => self.respond(stream, response)?,
            Frame::Data {
                stream,
                window_bytes,
                is_last,
                ..
            } => {
                if window_bytes > 0 {
                    push_window_update(&mut self.out, 0, window_bytes);
                }
                if is_last {
                    self.respond(stream, response)?;
                    return Ok(true);
                }
                if window_bytes > 0 {
                    push_window_update(&mut self.out, stream, window_bytes);
                }
                return Ok(false);
            }
            Frame::Settings(settings) => {
                for (identifier, value) in settings.values() {
                    if identifier == INITIAL_WINDOW_SIZE {
                        self.stream_window = value;
                    }
                }
                push_settings_ack(&mut self.out);
                return Ok(false);
            }
            Frame::Ping(data) => {
                push_pong(&mut self.out, data);
                return Ok(false);
            }
            Frame::WindowUpdate {
                stream: 0,
                increment,
            } => {
                self.window
                    .change(i64::from(increment))
                    .map_err(|_| Refused)?;
                self.respond_to_waiting(response);
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn respond(&mut self, stream: u32, response: &FrameBlock) -> Result<(), Refused> {
        if response.content_length > self.stream_window as usize {
            return Err(Refused);
        }
        self.waiting.push_back(stream);
        self.respond_to_waiting(response);
        Ok(())
    }

    fn respond_to_waiting(&mut self, response: &FrameBlock) {
        while self.window.available() >= response.content_length
            && let Some(stream) = self.waiting.pop_front()
        {
            self.window.use_up(response.content_length);
            response.push(&mut self.out, stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::h2::ErrorCode;
    use wire::h2::frame::{push_data, push_goaway, push_headers, push_ping};

    const HELLO: usize = 13;

    fn requests(streams: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut out = Vec::new();
        for stream in streams {
            push_headers(&mut out, stream, true, FRAME_BYTES_MAX, |block| {
                block.push(0x82)
            });
        }
        out
    }

    /// The streams of the complete responses in `bytes`, and other frames' names.
    fn read(mut bytes: &[u8]) -> (Vec<u32>, Vec<&'static str>) {
        let (mut streams, mut others) = (Vec::new(), Vec::new());
        while let Ok(Parsed::Frame(frame, length)) = parse(bytes, FRAME_BYTES_MAX) {
            bytes = &bytes[length..];
            match frame {
                Frame::Data {
                    stream,
                    is_last: true,
                    ..
                } => streams.push(stream),
                Frame::Headers { is_last: false, .. } | Frame::Data { .. } => {}
                Frame::Settings(_) => others.push("settings"),
                Frame::SettingsAck => others.push("acknowledgement"),
                Frame::Pong(_) => others.push("pong"),
                Frame::WindowUpdate { .. } => others.push("window"),
                _ => others.push("?"),
            }
        }
        assert!(bytes.is_empty());
        (streams, others)
    }

    #[test]
    fn a_response_is_the_same_as_over_http1() {
        let block = FrameBlock::new(HELLO, b"Sun, 06 Nov 1994 08:49:37 GMT");
        let mut out = Vec::new();
        block.push(&mut out, 7);
        let Ok(Parsed::Frame(
            Frame::Headers {
                stream: 7,
                block,
                is_whole: true,
                is_last: false,
                ..
            },
            length,
        )) = parse(&out, FRAME_BYTES_MAX)
        else {
            panic!("no HEADERS");
        };
        let expected = [
            &b"\x88\x0f\x27\x06bolide\x0f\x12\x1dSun, 06 Nov 1994 08:49:37 GMT"[..],
            b"\x0f\x10\x19text/plain; charset=utf-8\x0f\x0d\x0213",
        ];
        assert_eq!(block, expected.concat());
        let rest = [&b"\0\0\x0d\0\x01\0\0\0\x07"[..], b"Hello, World!"];
        assert_eq!(out[length..], rest.concat());
    }

    #[test]
    fn every_cut_gets_the_same_responses() {
        let response = FrameBlock::new(HELLO, b"date");
        let mut bytes = requests([1, 3]);
        push_ping(&mut bytes, [1; 8]);
        bytes.extend(requests([5]));
        for cut in 0..=bytes.len() {
            let mut frames = Frames::new();
            let first = frames.take(&bytes[..cut], &response).expect("a start");
            let second = frames.take(&bytes[cut..], &response).expect("the rest");
            assert_eq!(first + second, 3, "{cut}");
            let expected = (vec![1, 3, 5], vec!["settings", "pong"]);
            assert_eq!(read(frames.unsent()), expected, "{cut}");
        }
    }

    #[test]
    fn the_connections_window_is_respected() {
        let response = FrameBlock::new(40_000, b"date");
        let mut frames = Frames::new();
        assert_eq!(
            frames.take(&requests([1, 3]), &response).expect("a turn"),
            2
        );
        assert_eq!(read(frames.unsent()).0, [1]);
        frames.sent(frames.unsent().len());
        let mut update = Vec::new();
        push_window_update(&mut update, 0, 14_464);
        frames.take(&update, &response).expect("a turn");
        assert_eq!(read(frames.unsent()).0, [] as [u32; 0]);
        let mut update = Vec::new();
        push_window_update(&mut update, 0, 1);
        frames.take(&update, &response).expect("a turn");
        assert_eq!(read(frames.unsent()).0, [3]);
        let longer = FrameBlock::new(WINDOW_BYTES as usize + 1, b"date");
        assert!(Frames::new().take(&requests([1]), &longer).is_err());
    }

    #[test]
    fn content_is_given_room_and_ends_a_request() {
        let response = FrameBlock::new(HELLO, b"date");
        let mut frames = Frames::new();
        let mut bytes = Vec::new();
        push_settings(&mut bytes, &[(INITIAL_WINDOW_SIZE, 20)]);
        push_headers(&mut bytes, 1, false, FRAME_BYTES_MAX, |block| {
            block.push(0x83)
        });
        push_data(&mut bytes, 1, b"content", false);
        push_data(&mut bytes, 1, b"content", true);
        push_goaway(&mut bytes, 0, ErrorCode::NO_ERROR, "");
        assert_eq!(frames.take(&bytes, &response).expect("a turn"), 1);
        let expected = ["settings", "acknowledgement", "window", "window", "window"];
        assert_eq!(read(frames.unsent()), (vec![1], expected.to_vec()));
        assert!(frames.take(b"\0\0\x01\x08\0\0\0\0\0!", &response).is_err());
    }
}
