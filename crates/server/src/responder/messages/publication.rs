//! A message to all subscribers of a topic, and the frames in which they receive it: each is written once, and shared.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wire::websocket::{Kind, WindowBits};

/// Memory of the published frames that wait for the WebSockets of a worker, in bytes. Each counts once, whatever the number of WebSockets that
/// share it, from its publication until the last of them has sent or dropped it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Published(Arc<AtomicUsize>);

impl Published {
    pub(crate) fn bytes(&self) -> usize {
        // Nothing else is read because of it.
        self.0.load(Ordering::Relaxed)
    }
}

/// A frame that several WebSockets send.
pub(crate) type SharedFrame = Arc<Frame>;

/// The octets of a frame, and what counts their memory.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// None before it is published.
    counted: Option<Published>,
}

impl Frame {
    /// What a frame takes besides its octets: its record, and the two counts of the `Arc`.
    pub(crate) const RECORD_BYTES: usize = size_of::<Frame>() + 2 * size_of::<usize>();

    pub(crate) fn new(bytes: Vec<u8>) -> Frame {
        let counted = None;
        Frame { bytes, counted }
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + Frame::RECORD_BYTES
    }

    fn count(&mut self, published: &Published) {
        if self.counted.is_none() {
            published.0.fetch_add(self.held_bytes(), Ordering::Relaxed);
            self.counted = Some(published.clone());
        }
    }
}

impl Deref for Frame {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(published) = &self.counted {
            published.0.fetch_sub(self.held_bytes(), Ordering::Relaxed);
        }
    }
}

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
    /// What counts its frames; None before it is published.
    published: Option<Published>,
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
            plain: Arc::new(Frame::new(frame)),
            content_bytes,
            deflated: Default::default(),
            published: None,
        }
    }

    /// Subscribers receive it from now on: its frames count.
    pub(crate) fn count(&mut self, published: &Published) {
        if let Some(plain) = Arc::get_mut(&mut self.plain) {
            plain.count(published);
        }
        self.published = Some(published.clone());
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
            let mut frame = Frame::new(frame);
            if let Some(published) = &self.published {
                frame.count(published);
            }
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
            assert_eq!(***frame, [bits]);
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
            assert_eq!(***frame, *b"\x81\x04text");
        }
        let frame = publication.deflated(window(15), |_, _, _| unreachable!());
        assert_eq!(***frame, *b"\x81\x04text");
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_frame_counts_once_until_its_last_holder_has_left() {
        let published = Published::default();
        let mut publication = publication();
        assert_eq!(published.bytes(), 0);
        publication.count(&published);
        let plain = Arc::clone(publication.plain());
        let plain_bytes = plain.held_bytes();
        assert_eq!(published.bytes(), plain_bytes);
        let deflated = publication.deflated(window(15), |out, _, _| {
            out.push(0);
            true
        });
        let holders = [Arc::clone(deflated), Arc::clone(deflated)];
        let deflated_bytes = deflated.held_bytes();
        assert_eq!(published.bytes(), plain_bytes + deflated_bytes);
        drop(publication);
        assert_eq!(published.bytes(), plain_bytes + deflated_bytes);
        drop(plain);
        let [one, other] = holders;
        drop(one);
        assert_eq!(published.bytes(), deflated_bytes);
        drop(other);
        assert_eq!(published.bytes(), 0);
    }
}
