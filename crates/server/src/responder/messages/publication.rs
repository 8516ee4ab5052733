//! A message to all subscribers of a topic, and the frames in which they receive it: each is written once, and shared.

use std::sync::Arc;

use wire::websocket::{Kind, WindowBits};

/// A frame that several WebSockets send. Not a slice in an `Arc`, into which it would have to be copied.
pub(crate) type SharedFrame = Arc<Vec<u8>>;

/// The number of windows with which messages are compressed.
pub(crate) const WINDOWS: usize = 7;

/// The place of a window among all.
pub(crate) fn place_of(window: WindowBits) -> usize {
    usize::from(WindowBits::MAX.get() - window.get())
}

/// The compressed form of a message.
#[derive(Clone, Debug, Default)]
enum Deflated {
    /// No subscriber has needed it.
    #[default]
    Unknown,
    Frame(SharedFrame),
    /// There is none that is shorter, or no memory for it.
    None,
}

/// A message to all subscribers of a topic.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) topic: Vec<u8>,
    kind: Kind,
    /// The message as it is.
    plain: SharedFrame,
    content_bytes: usize,
    /// By [`place_of`] the window of a subscriber.
    deflated: [Deflated; WINDOWS],
}

impl Publication {
    /// The last `content_bytes` of `frame` are the message.
    pub(crate) fn new(
        topic: Vec<u8>,
        kind: Kind,
        frame: Vec<u8>,
        content_bytes: usize,
    ) -> Publication {
        Publication {
            topic,
            kind,
            plain: Arc::new(frame),
            content_bytes,
            deflated: Default::default(),
        }
    }

    /// The frame with the message as it is.
    pub(crate) fn plain(&self) -> &SharedFrame {
        &self.plain
    }

    pub(crate) fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// The frame with the message compressed with a window, if it is shorter so. The first time, `deflate` writes it, or fails.
    pub(crate) fn deflated(
        &mut self,
        window: WindowBits,
        deflate: impl FnOnce(&mut Vec<u8>, Kind, &[u8]) -> bool,
    ) -> &SharedFrame {
        let Some(deflated) = self.deflated.get_mut(place_of(window)) else {
            return &self.plain;
        };
        if let Deflated::Unknown = deflated {
            let start = self.plain.len().saturating_sub(self.content_bytes);
            let content = self.plain.get(start..).unwrap_or_default();
            let mut frame = Vec::new();
            let is_shorter =
                deflate(&mut frame, self.kind, content) && frame.len() < self.plain.len();
            *deflated = match is_shorter {
                true => Deflated::Frame(Arc::new(frame)),
                false => Deflated::None,
            };
        }
        match deflated {
            Deflated::Frame(frame) => frame,
            Deflated::Unknown | Deflated::None => &self.plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(bits: u8) -> WindowBits {
        WindowBits::new(bits).expect("in range")
    }

    fn publication() -> Publication {
        Publication::new(Vec::new(), Kind::Text, b"\x81\x04text".to_vec(), 4)
    }

    #[test]
    fn a_message_is_compressed_once_for_each_window() {
        let mut publication = publication();
        let mut calls = Vec::new();
        for bits in [15, 9, 15, 9, 12] {
            let frame = publication.deflated(window(bits), |out, kind, content| {
                assert_eq!((kind, content), (Kind::Text, &b"text"[..]));
                calls.push(bits);
                out.push(bits);
                true
            });
            assert_eq!(frame.as_slice(), [bits]);
        }
        assert_eq!(calls, [15, 9, 12]);
    }

    #[test]
    fn a_message_that_does_not_become_shorter_is_sent_as_it_is() {
        let mut publication = publication();
        let mut calls = 0;
        for _ in 0..2 {
            publication.deflated(window(15), |out, _, _| {
                calls += 1;
                out.extend_from_slice(b"longer");
                true
            });
            let frame = publication.deflated(window(9), |_, _, _| {
                calls += 1;
                false
            });
            assert_eq!(frame.as_slice(), b"\x81\x04text");
        }
        let frame = publication.deflated(window(15), |_, _, _| unreachable!());
        assert_eq!(frame.as_slice(), b"\x81\x04text");
        assert_eq!(calls, 2);
    }
}
