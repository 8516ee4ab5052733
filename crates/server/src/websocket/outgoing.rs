//! What a WebSocket has to send and its carrier has not taken yet: frames of its own, and frames that it shares with other subscribers.

use std::collections::VecDeque;
use std::sync::Arc;

use net::memory::{NoMemory, append, reserve_place};

use crate::responder::messages::publication::SharedFrame;

/// Frames of at least this length, written by others, become a piece instead of being copied.
pub(super) const MOVED_BYTES_MIN: usize = 16 * 1024;
/// What a shared frame takes besides its octets: its `Vec`, and the two counts of the `Arc`.
const SHARED_BYTES: usize = size_of::<Vec<u8>>() + 2 * size_of::<usize>();

enum Piece {
    Own(Vec<u8>),
    Shared(SharedFrame),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }

    /// Memory held, in bytes, besides its place. A shared frame counts for each of its holders, because the last one keeps it.
    fn held_bytes(&self) -> usize {
        match self {
            Piece::Own(bytes) => bytes.capacity(),
            Piece::Shared(bytes) => bytes.capacity() + SHARED_BYTES,
        }
    }
}

/// Whole frames, in sending order. Empty, it holds no memory but a pointer.
#[derive(Default)]
pub(super) struct Outgoing {
    waiting: Option<Box<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    unsent_bytes: usize,
    /// What the pieces hold, besides their places.
    pieces_bytes: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// How many bytes wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |all| all.unsent_bytes)
    }

    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |all| all.held_bytes())
    }

    /// What it would hold with one more shared frame of `frame_bytes`.
    pub(super) fn held_bytes_with(&self, frame_bytes: usize) -> usize {
        let (length, capacity) = self
            .waiting
            .as_ref()
            .map_or((0, 0), |all| (all.pieces.len(), all.pieces.capacity()));
        let new_places = if length == capacity { length.max(1) } else { 0 };
        self.held_bytes() + new_places * size_of::<Piece>() + frame_bytes + SHARED_BYTES
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
                all.push(Piece::Own(std::mem::take(out)));
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
    pub(super) fn push_shared(&mut self, frame: &SharedFrame) -> Result<(), NoMemory> {
        self.change(|all| {
            reserve_place(&mut all.pieces)?;
            all.push(Piece::Shared(Arc::clone(frame)));
            Ok(())
        })
    }

    /// Moves frames to `out`, which then has about `bytes_max` at most, or one piece.
    ///
    /// # Errors
    /// If there is no memory for a copy. The frames that were not moved are still here.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), NoMemory> {
        match &self.waiting {
            Some(_) => self.change(|all| all.move_to(out, bytes_max)),
            None => Ok(()),
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Outgoing::default();
    }
}

impl Waiting {
    fn held_bytes(&self) -> usize {
        let places = self.pieces.capacity() * size_of::<Piece>();
        size_of::<Waiting>() + places + self.pieces_bytes
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
        self.pieces_bytes += tail.capacity() - capacity;
        if tail.is_empty() {
            self.pieces_bytes -= tail.capacity();
            self.pieces.pop_back();
        }
        written
    }

    fn push(&mut self, piece: Piece) {
        self.unsent_bytes += piece.bytes().len();
        self.pieces_bytes += piece.held_bytes();
        self.pieces.push_back(piece);
    }

    fn move_to(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), NoMemory> {
        while let Some(piece) = self.pieces.front_mut() {
            let (length, held_bytes) = (piece.bytes().len(), piece.held_bytes());
            if !out.is_empty() && out.len() + length > bytes_max {
                return Ok(());
            }
            match piece {
                Piece::Own(bytes) if out.is_empty() => *out = std::mem::take(bytes),
                piece => append(out, piece.bytes())?,
            }
            self.pieces.pop_front();
            self.unsent_bytes -= length;
            self.pieces_bytes -= held_bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order_and_are_counted() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        let shared: SharedFrame = Arc::new(b"shared".to_vec());
        outgoing.write(|out| append(out, b"a"))?;
        outgoing.write(|out| append(out, b"b"))?;
        outgoing.push_shared(&shared)?;
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
            let before = outgoing.held_bytes_with(2);
            outgoing.push_shared(&Arc::new(b"ab".to_vec()))?;
            assert!(outgoing.held_bytes() >= before.min(1000));
        }
        let each = size_of::<Piece>() + SHARED_BYTES + 2;
        assert_eq!(outgoing.unsent_bytes(), 2000);
        assert!(outgoing.held_bytes() >= 1000 * each);
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
}
