//! What a WebSocket has to send and its carrier has not taken yet: frames of its own, and frames that it shares with other subscribers.

use std::collections::VecDeque;
use std::sync::Arc;

use net::memory::{NoMemory, append, reserve_place};

use crate::context::budget::HOLDER_BYTES_MIN;
use crate::responder::messages::publication::{Frame, SharedFrame};

/// Frames of at least this length become a piece, or are sent from where they are, instead of being copied.
pub(super) const MOVED_BYTES_MIN: usize = 16 * 1024;

/// How many of the frames that wait are looked at to choose who ends: under pressure this is done for all WebSockets.
const BURDEN_FRAMES_MAX: usize = 64;

enum Piece {
    Own(Vec<u8>),
    Shared(SharedFrame),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(frame) => frame,
        }
    }
}

/// Whole frames, in sending order; of the first, which others send too, a part may have been sent. Empty, it holds no memory but a pointer.
#[derive(Default)]
pub(super) struct Outgoing {
    waiting: Option<Box<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    unsent_bytes: usize,
    /// What its own pieces hold, besides their places.
    own_bytes: usize,
    /// What is unsent of shared frames, and their records.
    shared_bytes: usize,
    /// Since when that is worth looking at.
    shares_since_ms: u64,
    /// What was sent of the first piece, which is a shared frame then.
    sent_bytes: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// How many bytes wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |all| all.unsent_bytes)
    }

    /// Memory held, in bytes, besides shared frames ([`Published`]).
    ///
    /// [`Published`]: crate::responder::messages::publication::Published
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |all| all.held_bytes())
    }

    /// The same with what is unsent of shared frames, as if it were the only one that holds them: the last one keeps them.
    pub(super) fn queued_bytes(&self) -> usize {
        let shared_bytes = self.waiting.as_ref().map_or(0, |all| all.shared_bytes);
        self.held_bytes() + shared_bytes
    }

    /// [`Outgoing::queued_bytes`] with one more shared frame of `frame_bytes`.
    pub(super) fn queued_bytes_with(&self, frame_bytes: usize) -> usize {
        let (length, capacity) = self
            .waiting
            .as_ref()
            .map_or((0, 0), |all| (all.pieces.len(), all.pieces.capacity()));
        let new_places = if length == capacity { length.max(1) } else { 0 };
        let places_bytes = new_places * size_of::<Piece>();
        self.queued_bytes() + places_bytes + frame_bytes + Frame::RECORD_BYTES
    }

    /// Its part of the memory of the frames that it shares, in bytes, times the milliseconds for which it has shared much.
    pub(super) fn shared_burden(&self, now_ms: u64) -> u64 {
        let all = self.waiting.as_ref();
        all.map_or(0, |all| all.shared_burden(now_ms))
    }

    /// Changes what waits. What holds no piece then is freed.
    fn change<R>(&mut self, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let all = self.waiting.get_or_insert_default();
        let result = change(all);
        if all.pieces.is_empty() {
            self.waiting = None;
        }
        result
    }

    /// Appends frames that `write` writes, or nothing if it fails.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        self.change(|all| all.write(write))
    }

    /// Appends frames that were written elsewhere; `out` is empty then.
    ///
    /// # Errors
    /// As [`Outgoing::write`].
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> Result<(), NoMemory> {
        if out.len() >= MOVED_BYTES_MIN {
            return self.change(|all| {
                reserve_place(&mut all.pieces)?;
                all.push_own(std::mem::take(out));
                Ok(())
            });
        }
        self.write(|tail| append(tail, out))?;
        out.clear();
        Ok(())
    }

    /// Appends a frame that others send too.
    ///
    /// # Errors
    /// As [`Outgoing::write`].
    pub(super) fn push_shared(&mut self, frame: &SharedFrame, now_ms: u64) -> Result<(), NoMemory> {
        self.change(|all| {
            reserve_place(&mut all.pieces)?;
            all.push_shared(frame, now_ms);
            Ok(())
        })
    }

    /// What is unsent of the first frame, if that is long and shared: it can be sent from there.
    pub(super) fn long_shared(&self) -> Option<&[u8]> {
        let all = self.waiting.as_ref()?;
        let first = all.pieces.front().filter(|first| first.is_long_shared());
        first.and_then(|first| first.bytes().get(all.sent_bytes..))
    }

    /// So much of what [`Outgoing::long_shared`] returns was sent.
    pub(super) fn was_sent(&mut self, bytes: usize) {
        self.change(|all| all.was_sent(bytes));
    }

    /// Whether a part of the first frame was sent: nothing may be sent before the rest.
    pub(super) fn is_in_part(&self) -> bool {
        self.waiting.as_ref().is_some_and(|all| all.sent_bytes > 0)
    }

    /// Moves frames to `out`, which then has about `bytes_max` at most, or one piece. A long shared frame is not moved to others.
    ///
    /// # Errors
    /// If there is no memory for a copy. The frames that were not moved are still here.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), NoMemory> {
        match &self.waiting {
            Some(_) => self.change(|all| all.move_to(out, bytes_max)),
            None => Ok(()),
        }
    }

    /// Drops all frames but one of which a part was sent.
    pub(super) fn clear(&mut self) {
        match self.is_in_part() {
            true => self.change(Waiting::keep_first),
            false => *self = Outgoing::default(),
        }
    }
}

impl Piece {
    fn is_long_shared(&self) -> bool {
        matches!(self, Piece::Shared(frame) if frame.len() >= MOVED_BYTES_MIN)
    }
}

impl Waiting {
    fn held_bytes(&self) -> usize {
        let places = self.pieces.capacity() * size_of::<Piece>();
        size_of::<Waiting>() + places + self.own_bytes
    }

    /// Of a frame that several hold, each has the same part. Of many frames, the first show which part of all bytes that is.
    fn shared_burden(&self, now_ms: u64) -> u64 {
        let (mut seen_bytes, mut part_bytes) = (0, 0);
        for piece in self.pieces.iter().take(BURDEN_FRAMES_MAX) {
            if let Piece::Shared(frame) = piece {
                seen_bytes += frame.held_bytes();
                part_bytes += frame.held_bytes() / Arc::strong_count(frame);
            }
        }
        let bytes = self.shared_bytes.saturating_mul(part_bytes) / seen_bytes.max(1);
        let age_ms = match self.shared_bytes >= HOLDER_BYTES_MIN {
            true => now_ms.saturating_sub(self.shares_since_ms),
            false => 0,
        };
        (bytes as u64).saturating_mul(age_ms.saturating_add(1))
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        if !matches!(self.pieces.back(), Some(Piece::Own(_))) {
            reserve_place(&mut self.pieces)?;
            self.pieces.push_back(Piece::Own(Vec::new()));
        }
        let Some(Piece::Own(tail)) = self.pieces.back_mut() else {
            return Err(NoMemory(0));
        };
        let (length, capacity) = (tail.len(), tail.capacity());
        let written = write(tail);
        self.unsent_bytes += tail.len() - length;
        self.own_bytes += tail.capacity() - capacity;
        if tail.is_empty() {
            self.own_bytes -= tail.capacity();
            self.pieces.pop_back();
        }
        written
    }

    fn push_own(&mut self, bytes: Vec<u8>) {
        self.unsent_bytes += bytes.len();
        self.own_bytes += bytes.capacity();
        self.pieces.push_back(Piece::Own(bytes));
    }

    fn push_shared(&mut self, frame: &SharedFrame, now_ms: u64) {
        let before_bytes = self.shared_bytes;
        self.unsent_bytes += frame.len();
        self.shared_bytes += frame.len() + Frame::RECORD_BYTES;
        if before_bytes < HOLDER_BYTES_MIN && self.shared_bytes >= HOLDER_BYTES_MIN {
            self.shares_since_ms = now_ms;
        }
        self.pieces.push_back(Piece::Shared(Arc::clone(frame)));
    }

    fn was_sent(&mut self, bytes: usize) {
        self.unsent_bytes -= bytes;
        self.shared_bytes -= bytes;
        self.sent_bytes += bytes;
        let first = self.pieces.front().map_or(0, |first| first.bytes().len());
        if self.sent_bytes == first {
            self.shared_bytes -= Frame::RECORD_BYTES;
            self.sent_bytes = 0;
            self.pieces.pop_front();
        }
    }

    fn move_to(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), NoMemory> {
        while let Some(piece) = self.pieces.front_mut() {
            let is_long_shared = piece.is_long_shared();
            let unsent = piece.bytes().get(self.sent_bytes..).unwrap_or_default();
            let length = unsent.len();
            if !out.is_empty() && (is_long_shared || out.len() + length > bytes_max) {
                return Ok(());
            }
            match piece {
                Piece::Shared(_) => {
                    append(out, unsent)?;
                    self.was_sent(length);
                }
                Piece::Own(bytes) => {
                    let held_bytes = bytes.capacity();
                    match out.is_empty() {
                        true => *out = std::mem::take(bytes),
                        false => append(out, bytes)?,
                    }
                    self.own_bytes -= held_bytes;
                    self.unsent_bytes -= length;
                    self.pieces.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Drops all pieces but the first, a shared frame.
    fn keep_first(&mut self) {
        self.pieces.truncate(1);
        self.own_bytes = 0;
        self.unsent_bytes = self.pieces.front().map_or(0, |first| first.bytes().len());
        self.unsent_bytes -= self.sent_bytes;
        self.shared_bytes = self.unsent_bytes + Frame::RECORD_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order_and_are_counted() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        let shared: SharedFrame = Arc::new(Frame::new(b"shared".to_vec()));
        outgoing.write(|out| append(out, b"a"))?;
        outgoing.write(|out| append(out, b"b"))?;
        outgoing.push_shared(&shared, 0)?;
        outgoing.take(&mut vec![b'x'; MOVED_BYTES_MIN])?;
        outgoing.take(&mut b"end".to_vec())?;
        assert_eq!(outgoing.unsent_bytes(), 2 + 6 + MOVED_BYTES_MIN + 3);
        assert_eq!(Arc::strong_count(&shared), 2);
        let mut out = Vec::new();
        outgoing.move_to(&mut out, 100)?;
        assert_eq!(out, b"abshared");
        out = Vec::new();
        outgoing.move_to(&mut out, 100)?;
        assert_eq!(out.len(), MOVED_BYTES_MIN + 3);
        assert!(out.ends_with(b"xend"));
        assert!(outgoing.is_empty());
        assert_eq!((outgoing.unsent_bytes(), outgoing.held_bytes()), (0, 0));
        assert_eq!(Arc::strong_count(&shared), 1);
        Ok(())
    }

    #[test]
    fn what_many_short_frames_hold_is_counted() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        for _ in 0..1000 {
            let before = outgoing.queued_bytes_with(2);
            outgoing.push_shared(&Arc::new(Frame::new(b"ab".to_vec())), 0)?;
            assert!(outgoing.queued_bytes() >= before.min(1000));
        }
        let each = size_of::<Piece>() + Frame::RECORD_BYTES + 2;
        assert_eq!(outgoing.unsent_bytes(), 2000);
        assert!(outgoing.queued_bytes() >= 1000 * each);
        assert!(outgoing.held_bytes() >= 1000 * size_of::<Piece>());
        assert!(outgoing.held_bytes() < 1000 * each);
        outgoing.clear();
        assert_eq!(outgoing.held_bytes(), 0);
        Ok(())
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        let lack = NoMemory(7);
        assert_eq!(outgoing.write(|_| Err(lack)), Err(lack));
        assert!(outgoing.is_empty());
        assert_eq!(outgoing.held_bytes(), 0);
        outgoing.write(|out| append(out, b"a"))?;
        assert_eq!(outgoing.write(|_| Err(lack)), Err(lack));
        assert_eq!(outgoing.unsent_bytes(), 1);
        Ok(())
    }

    #[test]
    fn a_long_shared_frame_is_sent_from_where_it_is() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        let long: SharedFrame = Arc::new(Frame::new(vec![b'x'; MOVED_BYTES_MIN]));
        outgoing.write(|out| append(out, b"a"))?;
        outgoing.push_shared(&long, 0)?;
        outgoing.write(|out| append(out, b"b"))?;
        assert_eq!(outgoing.long_shared(), None);
        let mut out = Vec::new();
        outgoing.move_to(&mut out, usize::MAX)?;
        assert_eq!(out, b"a");
        let queued_bytes = outgoing.queued_bytes();
        assert_eq!(outgoing.long_shared().map(<[u8]>::len), Some(long.len()));
        outgoing.was_sent(long.len() - 3);
        assert_eq!(outgoing.long_shared(), Some(&b"xxx"[..]));
        assert_eq!(outgoing.unsent_bytes(), 3 + 1);
        assert_eq!(outgoing.queued_bytes(), queued_bytes - long.len() + 3);
        assert!(outgoing.is_in_part());
        outgoing.clear();
        assert_eq!((outgoing.unsent_bytes(), outgoing.is_empty()), (3, false));
        outgoing.write(|out| append(out, b"end"))?;
        out.clear();
        outgoing.move_to(&mut out, usize::MAX)?;
        assert_eq!(out, b"xxxend");
        assert!(outgoing.is_empty());
        assert_eq!(Arc::strong_count(&long), 1);
        Ok(())
    }

    #[test]
    fn holders_of_a_frame_have_parts_of_its_burden() -> Result<(), NoMemory> {
        let long: SharedFrame = Arc::new(Frame::new(vec![b'x'; HOLDER_BYTES_MIN]));
        let mut holders: [Outgoing; 3] = Default::default();
        for holder in &mut holders {
            holder.push_shared(&long, 1000)?;
        }
        let held_bytes = long.held_bytes();
        drop(long);
        let [first, second, third] = &mut holders;
        assert_eq!(first.shared_burden(1009), (held_bytes / 3 * 10) as u64);
        second.clear();
        third.clear();
        assert_eq!(first.shared_burden(1009), (held_bytes * 10) as u64);
        Ok(())
    }
}
