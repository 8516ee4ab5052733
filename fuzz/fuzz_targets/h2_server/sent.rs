//! What the client has sent, read without the crate: what it allows the server to do.

use std::collections::{BTreeMap, VecDeque};

const PREFACE_BYTES: usize = 24;

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

/// The frame at the start of `octets`, once it is complete, and its payload.
pub fn split_frame(octets: &[u8]) -> Option<(Header, &[u8])> {
    let [l0, l1, l2, kind, flags, s0, s1, s2, s3, rest @ ..] = octets else {
        return None;
    };
    let header = Header {
        length: usize::from(*l0) << 16 | usize::from(*l1) << 8 | usize::from(*l2),
        kind: *kind,
        flags: *flags,
        stream: u32::from_be_bytes([*s0, *s1, *s2, *s3]) & 0x7fff_ffff,
    };
    rest.get(..header.length).map(|payload| (header, payload))
}

pub fn word(octets: &[u8]) -> u32 {
    octets
        .first_chunk()
        .map_or(0, |word| u32::from_be_bytes(*word))
}

/// Upper bounds: a frame counts although the server may have refused it.
#[derive(Default)]
pub struct Sent {
    octets: Vec<u8>,
    has_preface: bool,
    /// Streams that HEADERS were sent for.
    pub opened: BTreeMap<u32, Opened>,
    pub connection_window: u64,
    /// The largest initial window.
    pub window_max: u64,
    pub settings: usize,
    pub pings: VecDeque<[u8; 8]>,
}

#[derive(Default)]
pub struct Opened {
    pub window: u64,
    pub was_reset: bool,
}

impl Sent {
    pub fn new() -> Sent {
        Sent {
            connection_window: 65_535,
            window_max: 65_535,
            ..Sent::default()
        }
    }

    pub fn add(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
        if !self.has_preface && self.octets.len() >= PREFACE_BYTES {
            self.octets.drain(..PREFACE_BYTES);
            self.has_preface = true;
        }
        let octets = std::mem::take(&mut self.octets);
        let mut rest = octets.as_slice();
        while self.has_preface
            && let Some((header, payload)) = split_frame(rest)
        {
            self.frame(header, payload);
            rest = &rest[9 + header.length..];
        }
        self.octets = rest.to_vec();
    }

    fn frame(&mut self, header: Header, payload: &[u8]) {
        match header.kind {
            1 => {
                self.opened.entry(header.stream).or_default();
            }
            3 => {
                if let Some(opened) = self.opened.get_mut(&header.stream) {
                    opened.was_reset = true;
                }
            }
            4 if header.flags & 1 == 0 => {
                self.settings += 1;
                for setting in payload.chunks_exact(6) {
                    if setting[..2] == [0, 4] {
                        self.window_max = self.window_max.max(u64::from(word(&setting[2..])));
                    }
                }
            }
            6 if header.flags & 1 == 0 => {
                self.pings.extend(payload.first_chunk::<8>());
            }
            8 => {
                let increment = u64::from(word(payload) & 0x7fff_ffff);
                match self.opened.get_mut(&header.stream) {
                    Some(opened) => opened.window += increment,
                    None if header.stream == 0 => self.connection_window += increment,
                    None => {}
                }
            }
            _ => {}
        }
    }
}
