//! What a WebSocket has to send and its carrier has not taken yet: frames of its own, and frames that it shares with other subscribers.

use std::collections::VecDeque;
use std::sync::Arc;

use net::memory::{NoMemory, append, reserve_place};

/// Frames of at least this length, written by others, become a piece instead of being copied.
const MOVED_BYTES_MIN: usize = 16 * 1024;

enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

/// Whole frames, in sending order. Empty, it holds no memory.
#[derive(Default)]
pub(super) struct Outgoing {
    pieces: VecDeque<Piece>,
    unsent_bytes: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many bytes wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Memory held, in bytes. Shared frames count for each of their holders, because the last one keeps them.
    pub(super) fn held_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>() + self.unsent_bytes
    }

    /// Appends frames that `write` writes.
    pub(super) fn write<R>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, NoMemory> {
        if !matches!(self.pieces.back(), Some(Piece::Own(_))) {
            reserve_place(&mut self.pieces)?;
            self.pieces.push_back(Piece::Own(Vec::new()));
        }
        let Some(Piece::Own(tail)) = self.pieces.back_mut() else {
            return Err(NoMemory(0));
        };
        let before = tail.len();
        let written = write(tail);
        self.unsent_bytes += tail.len() - before;
        Ok(written)
    }

    /// Appends frames that were written elsewhere; `out` is empty then.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> Result<(), NoMemory> {
        if out.len() >= MOVED_BYTES_MIN {
            reserve_place(&mut self.pieces)?;
            self.unsent_bytes += out.len();
            self.pieces.push_back(Piece::Own(std::mem::take(out)));
            return Ok(());
        }
        self.write(|tail| append(tail, out))??;
        out.clear();
        Ok(())
    }

    /// Appends a frame that others send too.
    pub(super) fn push_shared(&mut self, frame: &Arc<[u8]>) -> Result<(), NoMemory> {
        reserve_place(&mut self.pieces)?;
        self.pieces.push_back(Piece::Shared(Arc::clone(frame)));
        self.unsent_bytes += frame.len();
        Ok(())
    }

    /// Moves frames to `out`, which then has about `bytes_max` at most, or one piece.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), NoMemory> {
        while let Some(piece) = self.pieces.front() {
            let length = piece.bytes().len();
            if !out.is_empty() && out.len() + length > bytes_max {
                return Ok(());
            }
            match self.pieces.front_mut() {
                Some(Piece::Own(bytes)) if out.is_empty() => *out = std::mem::take(bytes),
                Some(piece) => append(out, piece.bytes())?,
                None => {}
            }
            self.pieces.pop_front();
            self.unsent_bytes -= length;
        }
        self.pieces = VecDeque::new();
        Ok(())
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Outgoing::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order_and_are_counted() -> Result<(), NoMemory> {
        let mut outgoing = Outgoing::default();
        let shared: Arc<[u8]> = b"shared".as_slice().into();
        outgoing.write(|out| out.extend_from_slice(b"a"))?;
        outgoing.write(|out| out.extend_from_slice(b"b"))?;
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
}
