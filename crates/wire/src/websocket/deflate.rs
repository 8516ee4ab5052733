//! Compression of messages (RFC 7692 7.2): raw DEFLATE, whose last four octets are left out.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::failure::Failure;
use super::memory::{NoMemory, Reserve, check_room, grow, reserve_exact};

/// What ends each compressed message, and is not sent (RFC 7692 7.2.1).
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// An empty block with the bit BFINAL (RFC 1951 3.2.6).
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];

/// What a message without content is compressed to (RFC 7692 7.2.3.6): the compressor writes nothing where nothing is new.
const EMPTY: u8 = 0x00;

/// The least room for the next output, so that a step always progresses.
const STEP_BYTES: usize = 1024;

/// The most room that one step of compression adds.
const GROWTH_BYTES_MAX: usize = 64 * 1024;

/// The base-2 logarithm of a window's size: 9 to 15. RFC 7692 also has 8, for which zlib has no raw stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WindowBits(u8);

impl WindowBits {
    /// The window that is used when nothing is negotiated: 32 KiB.
    pub const MAX: WindowBits = WindowBits(15);

    /// A window of 2^`bits` octets; `None` below 9 and above 15.
    pub fn new(bits: u8) -> Option<WindowBits> {
        (9..=15).contains(&bits).then_some(WindowBits(bits))
    }

    /// The logarithm.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// Why a message was not compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotDeflated {
    /// There is no memory for its compressed form.
    NoMemory(NoMemory),
    /// The compressor did not take all of it, or did not complete its output.
    Incomplete,
}

/// Compresses messages.
#[derive(Debug)]
pub struct Deflater {
    compress: Compress,
    window: WindowBits,
    keeps_context: bool,
}

impl Deflater {
    /// A compressor of `level`, 1 to 9. Without context each message is compressed for itself, so that one compressor serves many
    /// connections.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(level: u32, window: WindowBits, keeps_context: bool) -> Result<Deflater, NoMemory> {
        check_room(Deflater::bytes(window), reserve_exact)?;
        let level = Compression::new(level.clamp(1, 9));
        Ok(Deflater {
            compress: Compress::new_with_window_bits(level, false, window.get()),
            window,
            keeps_context,
        })
    }

    /// Memory of one with this window, in bytes: as zlib-rs allocates it.
    pub fn bytes(window: WindowBits) -> usize {
        249_856 + (4 << window.get())
    }

    /// Memory held, in bytes.
    pub fn held_bytes(&self) -> usize {
        Deflater::bytes(self.window)
    }

    /// Appends a message, compressed, to `out`.
    ///
    /// # Errors
    /// If it could not be compressed as a whole. `out` is as before then, and later messages do not refer to this one or to earlier ones.
    pub fn deflate(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), NotDeflated> {
        let start = out.len();
        let deflated = match content {
            [] => append_empty(out),
            content => self.append(content, out),
        };
        if deflated.is_err() {
            out.truncate(start);
        }
        if deflated.is_err() || !self.keeps_context {
            self.compress.reset();
        }
        deflated
    }

    fn append(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), NotDeflated> {
        let mut rest = content;
        loop {
            let room = (rest.len() / 2).clamp(STEP_BYTES, GROWTH_BYTES_MAX);
            let reserved = out.try_reserve(room);
            reserved.map_err(|_| NotDeflated::NoMemory(NoMemory(room)))?;
            let before = self.compress.total_in();
            let status = self
                .compress
                .compress_vec(rest, out, FlushCompress::Sync)
                .map_err(|_| NotDeflated::Incomplete)?;
            let taken = (self.compress.total_in() - before) as usize;
            rest = rest.get(taken..).ok_or(NotDeflated::Incomplete)?;
            // The flush is complete once it leaves room, or has nothing more to write.
            match status {
                Status::Ok if !rest.is_empty() || out.len() == out.capacity() => {}
                Status::Ok | Status::BufError if rest.is_empty() => return without_tail(out),
                _ => return Err(NotDeflated::Incomplete),
            }
        }
    }
}

fn append_empty(out: &mut Vec<u8>) -> Result<(), NotDeflated> {
    out.try_reserve(1)
        .map_err(|_| NotDeflated::NoMemory(NoMemory(1)))?;
    out.push(EMPTY);
    Ok(())
}

/// Leaves out what ends each compressed message.
fn without_tail(out: &mut Vec<u8>) -> Result<(), NotDeflated> {
    if !out.ends_with(&TAIL) {
        return Err(NotDeflated::Incomplete);
    }
    out.truncate(out.len() - TAIL.len());
    Ok(())
}

/// Decompresses messages.
#[derive(Debug)]
pub struct Inflater {
    /// With the greatest window, whatever the peer's is: it takes as much memory, and starting anew costs no allocation.
    decompress: Decompress,
    /// Whether a later message may refer to an earlier one.
    keeps_context: bool,
}

impl Inflater {
    /// Memory of one, in bytes, besides its record: as zlib-rs allocates it, with the greatest window for every peer.
    pub const BYTES: usize = 47_680;

    /// A decompressor for a peer with any window.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(keeps_context: bool) -> Result<Inflater, NoMemory> {
        Inflater::reserved(keeps_context, reserve_exact)
    }

    fn reserved(keeps_context: bool, reserve: Reserve) -> Result<Inflater, NoMemory> {
        check_room(Inflater::BYTES, reserve)?;
        Ok(Inflater {
            decompress: Decompress::new_with_window_bits(false, WindowBits::MAX.get()),
            keeps_context,
        })
    }

    /// Appends what the next part of a message decompresses to, until `out` has `bytes_max`.
    ///
    /// # Errors
    /// If it is not DEFLATE, if `out` would have more than `bytes_max`, or if there is no memory.
    pub(super) fn inflate(
        &mut self,
        part: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        reserve: Reserve,
    ) -> Result<(), Failure> {
        let mut rest = part;
        loop {
            // One octet more than allowed shows that there is more.
            let room = (bytes_max + 1).saturating_sub(out.len());
            let step = rest.len().saturating_mul(2).max(STEP_BYTES);
            if out.len() == out.capacity() {
                grow(out, step.min(room), room, reserve)?;
            }
            let (taken, made, status) = self.step(rest, out)?;
            rest = rest.get(taken..).unwrap_or_default();
            if out.len() > bytes_max {
                return Err(Failure::MessageTooLong);
            }
            match status {
                // A last block (RFC 7692 7.2.3.4): what follows is a new stream, whose compressor has started anew.
                Status::StreamEnd => self.decompress.reset(false),
                _ if out.len() == out.capacity() => continue,
                _ if taken == 0 && made == 0 => return finished(rest),
                _ => {}
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn step(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(usize, usize, Status), Failure> {
        let (taken, made) = (self.decompress.total_in(), out.len());
        let status = self
            .decompress
            .decompress_vec(part, out, FlushDecompress::Sync)
            .map_err(|_| Failure::NotDeflated)?;
        let taken = (self.decompress.total_in() - taken) as usize;
        Ok((taken, out.len() - made, status))
    }

    /// The message ends here: appends what is left.
    ///
    /// # Errors
    /// As [`Inflater::inflate`].
    pub(super) fn end(
        &mut self,
        out: &mut Vec<u8>,
        bytes_max: usize,
        reserve: Reserve,
    ) -> Result<(), Failure> {
        self.inflate(&TAIL, out, bytes_max, reserve)?;
        match self.keeps_context {
            true => Ok(()),
            false => self.restart(),
        }
    }

    /// Forgets the message. One that ended within a block is detected, as the stream cannot end there; with context, the next message shows
    /// it.
    fn restart(&mut self) -> Result<(), Failure> {
        let mut nothing = Vec::with_capacity(1);
        let (_, _, status) = self.step(&LAST_BLOCK, &mut nothing)?;
        self.decompress.reset(false);
        match (status, nothing.as_slice()) {
            (Status::StreamEnd, []) => Ok(()),
            _ => Err(Failure::NotDeflated),
        }
    }
}

/// Nothing moves any more.
fn finished(rest: &[u8]) -> Result<(), Failure> {
    match rest {
        [] => Ok(()),
        _ => Err(Failure::NotDeflated),
    }
}

/// Decompressors of connections that do not keep their context: one is lent to each message that is incomplete.
#[derive(Debug, Default)]
pub struct Inflaters {
    #[allow(
        clippy::vec_box,
        reason = "a connection has them so: most have none, and hold 8 bytes"
    )]
    free: Vec<Box<Inflater>>,
}

/// How many are kept while nobody uses them. Each has a window of 32 KiB.
const FREE_MAX: usize = 4;

impl Inflaters {
    /// One for the next message.
    pub(super) fn lend(&mut self, reserve: Reserve) -> Result<Box<Inflater>, NoMemory> {
        match self.free.pop() {
            Some(free) => Ok(free),
            None => Inflater::reserved(false, reserve).map(Box::new),
        }
    }

    /// Takes one back, after the end of its message.
    pub(super) fn take_back(&mut self, inflater: Box<Inflater>) {
        if self.free.len() < FREE_MAX {
            self.free.push(inflater);
        }
    }
}
