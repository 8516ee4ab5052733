//! What the server has sent, read without the crate (except header blocks): it must be a sequence of frames that RFC 9113 allows.

use std::collections::BTreeMap;

use wire::h2::{BlockLimits, Decoder};

use crate::sent::{Header, Sent, split_frame, word};

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 1 << 20,
    lines_max: 1000,
    target_bytes_max: 1 << 20,
};

/// A stream, as the client sees it.
#[derive(Default)]
pub struct Response {
    pub status: u16,
    pub has_ended: bool,
    pub was_reset: bool,
    content_bytes: u64,
}

pub struct Received {
    octets: Vec<u8>,
    decoder: Decoder,
    has_settings: bool,
    acknowledged: usize,
    /// HEADERS whose block continues: the stream, whether it ends, the fragments.
    block: Option<(u32, bool, Vec<u8>)>,
    content_bytes: u64,
    pub streams: BTreeMap<u32, Response>,
    pub goaways: Vec<(u32, u32)>,
}

impl Received {
    pub fn new() -> Received {
        Received {
            octets: Vec::new(),
            decoder: Decoder::new(1 << 20),
            has_settings: false,
            acknowledged: 0,
            block: None,
            content_bytes: 0,
            streams: BTreeMap::new(),
            goaways: Vec::new(),
        }
    }

    pub fn is_at_boundary(&self) -> bool {
        self.octets.is_empty() && self.block.is_none()
    }

    pub fn add(&mut self, octets: &[u8], sent: &mut Sent) {
        self.octets.extend_from_slice(octets);
        let octets = std::mem::take(&mut self.octets);
        let mut rest = octets.as_slice();
        while let Some((header, payload)) = split_frame(rest) {
            assert!(header.length <= 16_384, "a frame that is too long");
            self.frame(header, payload, sent);
            rest = &rest[9 + header.length..];
        }
        self.octets = rest.to_vec();
    }

    fn frame(&mut self, header: Header, payload: &[u8], sent: &mut Sent) {
        let Header {
            kind,
            flags,
            stream,
            ..
        } = header;
        let is_error = self.goaways.last().is_some_and(|(_, code)| *code != 0);
        assert!(!is_error, "a frame after the end: {header:?}");
        if !std::mem::replace(&mut self.has_settings, true) {
            assert_eq!((kind, flags), (4, 0), "the first frame");
        }
        assert_eq!(self.block.is_some(), kind == 9, "an interrupted block");
        match kind {
            0 => self.data(header, payload, sent),
            1 => {
                assert_eq!(flags & !0x5, 0);
                self.open(stream, sent);
                self.block(stream, flags, payload.to_vec());
            }
            3 => {
                assert_eq!(payload.len(), 4);
                assert!(is_opened(stream, sent), "{stream} is idle and reset");
                self.streams.entry(stream).or_default().was_reset = true;
            }
            4 if flags & 1 != 0 => {
                self.acknowledged += 1;
                assert!(payload.is_empty() && stream == 0);
                assert!(self.acknowledged <= sent.settings, "acknowledged too often");
            }
            4 => assert!(payload.len() % 6 == 0 && stream == 0),
            6 if flags & 1 != 0 => {
                assert_eq!(
                    (sent.pings.pop_front().as_ref().map(|it| &it[..]), stream),
                    (Some(payload), 0)
                );
            }
            6 => assert_eq!((payload.len(), stream), (8, 0)),
            7 => {
                let goaway = (word(payload), word(&payload[4..]));
                let before = self.goaways.last().map_or(u32::MAX, |(last, _)| *last);
                assert!(goaway.0 <= before, "the last stream of a GOAWAY grew");
                self.goaways.push(goaway);
            }
            8 => {
                assert!(payload.len() == 4 && word(payload) != 0);
                if stream != 0 {
                    let was_reset = self.open(stream, sent).was_reset;
                    assert!(!was_reset, "room on {stream} after its reset");
                }
            }
            9 => {
                let (of, is_last, mut fragments) = self.block.take().expect("HEADERS before it");
                assert_eq!(of, stream);
                fragments.extend_from_slice(payload);
                self.block(stream, flags & 4 | u8::from(is_last), fragments);
            }
            kind => panic!("a frame of type {kind}"),
        }
    }

    fn open(&mut self, stream: u32, sent: &Sent) -> &mut Response {
        assert!(sent.opened.contains_key(&stream), "{stream} was not opened");
        self.streams.entry(stream).or_default()
    }

    fn block(&mut self, stream: u32, flags: u8, fragments: Vec<u8>) {
        let is_last = flags & 1 != 0;
        if flags & 4 == 0 {
            self.block = Some((stream, is_last, fragments));
            return;
        }
        let response = self.streams.entry(stream).or_default();
        assert!(
            !response.was_reset && !response.has_ended,
            "HEADERS after the end of {stream}"
        );
        let mut section = Vec::new();
        if response.status != 0 {
            assert!(is_last, "a second header section");
            let decoded = self.decoder.trailers(&fragments, &LIMITS, &mut section);
            decoded.expect("a valid trailer section");
        } else {
            let decoded = self.decoder.response(&fragments, &LIMITS, &mut section);
            match decoded.expect("a valid header section") {
                100..=199 => assert!(!is_last),
                status => response.status = status,
            }
        }
        response.has_ended = is_last;
    }

    fn data(&mut self, header: Header, payload: &[u8], sent: &Sent) {
        assert_eq!(header.flags & !1, 0);
        let response = self.open(header.stream, sent);
        let is_open = response.status != 0 && !response.has_ended && !response.was_reset;
        assert!(
            is_open,
            "DATA before or after the message of {}",
            header.stream
        );
        response.has_ended = header.flags & 1 != 0;
        response.content_bytes += payload.len() as u64;
        let window = sent.window_max + sent.opened[&header.stream].window;
        assert!(response.content_bytes <= window, "more than the window");
        self.content_bytes += payload.len() as u64;
        assert!(
            self.content_bytes <= sent.connection_window,
            "more than the connection's window"
        );
    }
}

/// Whether the client has opened a stream, or a later one.
fn is_opened(stream: u32, sent: &Sent) -> bool {
    stream % 2 == 1 && sent.opened.keys().any(|opened| *opened >= stream)
}
