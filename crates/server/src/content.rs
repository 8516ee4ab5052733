//! The content of the request that is being read: who takes it, how much may be held, how slow it may be.

use wire::{BodyDecoder, BodyLength, Decoded, ProtocolError};

use crate::app::ExchangeId;
use crate::timeouts::Timeouts;

/// Unread content that is read and thrown away to keep a connection; longer than that, closing is cheaper for both sides.
pub(crate) const DISCARD_BYTES_MAX: u64 = 65_536;

/// Who takes a content.
pub(crate) enum Taker {
    /// The application, called when all of it is there; the bytes of the request's head are kept for that call.
    Call(Box<[u8]>),
    /// A handler that asks for it part by part.
    Exchange { id: ExchangeId, wants: bool },
    /// Nobody: the request is answered.
    Nobody,
}

/// A content on its way in.
pub(crate) struct Incoming {
    decoder: BodyDecoder,
    pub(crate) taker: Taker,
    /// Decoded and not yet taken.
    pub(crate) content: Vec<u8>,
    /// Decoded so far.
    total_bytes: u64,
    pub(crate) is_complete: bool,
    /// The peer waits for a 100 (Continue) before it sends.
    pub(crate) owes_continue: bool,
    /// Whether another request may follow it.
    pub(crate) is_persistent: bool,
    /// Start of the current wait for the peer; `None` while we do not want to read.
    waits_since_ms: Option<u64>,
    /// Sum of the waits before.
    waited_ms: u64,
}

/// What more input did.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Fed {
    /// More is needed.
    Incomplete,
    /// The content is complete.
    Complete,
    /// More is held than the taker wants: pause.
    Full,
    /// It is longer than the limit.
    TooLong,
}

impl Incoming {
    pub(crate) fn new(body_length: BodyLength, taker: Taker, owes_continue: bool, is_persistent: bool) -> Incoming {
        Incoming {
            decoder: BodyDecoder::new(body_length),
            taker,
            content: Vec::new(),
            total_bytes: 0,
            is_complete: false,
            owes_continue,
            is_persistent,
            waits_since_ms: None,
            waited_ms: 0,
        }
    }

    /// Decodes `input` as far as it may be held.
    pub(crate) fn feed(&mut self, input: &mut &[u8], bytes_max: u64, buffer_bytes_max: u64) -> Result<Fed, ProtocolError> {
        while !self.is_complete {
            if self.is_full(buffer_bytes_max) {
                return Ok(Fed::Full);
            }
            match self.decoder.decode(input)? {
                Decoded::Content(part) => {
                    self.total_bytes += part.len() as u64;
                    if self.total_bytes > bytes_max {
                        return Ok(Fed::TooLong);
                    }
                    if !matches!(self.taker, Taker::Nobody) {
                        self.content.extend_from_slice(part);
                    }
                }
                Decoded::NeedMore => return Ok(Fed::Incomplete),
                Decoded::End => self.is_complete = true,
            }
        }
        Ok(Fed::Complete)
    }

    /// Only a handler that reads part by part is given time to fetch what is held.
    fn is_full(&self, buffer_bytes_max: u64) -> bool {
        matches!(self.taker, Taker::Exchange { .. }) && self.content.len() as u64 >= buffer_bytes_max
    }

    /// True when the peer is waited for: somebody wants content that is not there.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_complete
            && match self.taker {
                Taker::Exchange { wants, .. } => wants,
                Taker::Call(_) | Taker::Nobody => true,
            }
    }

    /// Whether the rest is short and certain enough to be thrown away.
    pub(crate) fn is_discardable(&self) -> bool {
        self.is_complete || (!self.owes_continue && self.decoder.remaining().is_some_and(|rest| rest <= DISCARD_BYTES_MAX))
    }

    /// Keeps the sum of the time we waited for the peer.
    pub(crate) fn clock(&mut self, now_ms: u64) {
        match (self.is_wanted(), self.waits_since_ms) {
            (true, None) => self.waits_since_ms = Some(now_ms),
            (false, Some(since)) => {
                self.waited_ms += now_ms.saturating_sub(since);
                self.waits_since_ms = None;
            }
            _ => {}
        }
    }

    /// When the minimum rate is missed if nothing more comes.
    pub(crate) fn deadline_ms(&self, timeouts: &Timeouts) -> u64 {
        let Some(since) = self.waits_since_ms else { return u64::MAX };
        if timeouts.body_rate_bytes_per_s_min == 0 {
            return u64::MAX;
        }
        let earned = self.total_bytes.saturating_mul(1000) / timeouts.body_rate_bytes_per_s_min;
        since.saturating_add((timeouts.body_grace_ms + earned).saturating_sub(self.waited_ms))
    }
}
