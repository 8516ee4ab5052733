//! Compression of messages (RFC 7692 7.2): raw DEFLATE, whose last four octets are left out.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::failure::Failure;

/// What ends each compressed message, and is not sent (RFC 7692 7.2.1).
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// An empty block with the bit BFINAL (RFC 1951 3.2.6).
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];

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

/// Compresses messages.
#[derive(Debug)]
pub struct Deflater {
    compress: Compress,
    keeps_context: bool,
}

impl Deflater {
    /// A compressor of `level`, 1 to 9. Without context each message is compressed for itself, so that one compressor serves many
    /// connections.
    pub fn new(level: u32, window: WindowBits, keeps_context: bool) -> Deflater {
        let level = Compression::new(level.clamp(1, 9));
        Deflater {
            compress: Compress::new_with_window_bits(level, false, window.get()),
            keeps_context,
        }
    }

    /// Appends a message, compressed, to `out`.
    pub fn deflate(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let mut rest = content;
        loop {
            out.reserve((rest.len() / 2).clamp(STEP_BYTES, GROWTH_BYTES_MAX));
            let before = self.compress.total_in();
            let status = self
                .compress
                .compress_vec(rest, out, FlushCompress::Sync)
                .unwrap_or(Status::BufError);
            let taken = (self.compress.total_in() - before) as usize;
            rest = rest.get(taken..).unwrap_or_default();
            // The flush is complete once it leaves room.
            if rest.is_empty() && out.len() < out.capacity() || status == Status::BufError {
                break;
            }
        }
        if out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        if !self.keeps_context {
            self.compress.reset();
        }
    }
}

/// Decompresses messages.
#[derive(Debug)]
pub struct Inflater {
    decompress: Decompress,
    /// Whether a later message may refer to an earlier one.
    keeps_context: bool,
}

impl Inflater {
    /// A decompressor for a peer that uses `window`.
    pub fn new(window: WindowBits, keeps_context: bool) -> Inflater {
        Inflater {
            decompress: Decompress::new_with_window_bits(false, window.get()),
            keeps_context,
        }
    }

    /// Appends what the next part of a message decompresses to, until `out` has `bytes_max`.
    ///
    /// # Errors
    /// If it is not DEFLATE, or `out` would have more than `bytes_max`.
    pub(super) fn inflate(
        &mut self,
        part: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), Failure> {
        let mut rest = part;
        loop {
            // One octet more than allowed shows that there is more.
            let room = (bytes_max + 1).saturating_sub(out.len());
            let step = rest.len().saturating_mul(2).max(STEP_BYTES);
            if out.len() == out.capacity() {
                let growth = step.max(out.len()).min(room);
                out.try_reserve_exact(growth)
                    .map_err(|_| Failure::NoMemory)?;
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
    pub(super) fn end(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), Failure> {
        self.inflate(&TAIL, out, bytes_max)?;
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
    free: Vec<Inflater>,
}

/// How many are kept while nobody uses them. Each has a window of 32 KiB.
const FREE_MAX: usize = 4;

impl Inflaters {
    /// One for the next message.
    pub(super) fn lend(&mut self) -> Inflater {
        let free = self.free.pop();
        free.unwrap_or_else(|| Inflater::new(WindowBits::MAX, false))
    }

    /// Takes one back, after the end of its message.
    pub(super) fn take_back(&mut self, inflater: Inflater) {
        if self.free.len() < FREE_MAX {
            self.free.push(inflater);
        }
    }
}
