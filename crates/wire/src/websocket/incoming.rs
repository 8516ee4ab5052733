//! How the messages that arrive are decompressed (RFC 7692): what was negotiated, and the inflater of the current message.

use super::deflate::{Inflater, Inflaters};
use super::failure::Failure;
use super::memory::Reserve;

/// How compressed messages are decompressed, as negotiated.
#[derive(Debug)]
pub enum Incoming {
    /// Compression was not negotiated.
    Plain,
    /// Each message for itself: an inflater is lent while a message is incomplete.
    WithoutContext(Option<Box<Inflater>>),
    /// A message may refer to earlier ones.
    WithContext(Box<Inflater>),
}

/// What was negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Agreed {
    Plain,
    WithoutContext,
    WithContext,
}

/// What decompresses the current message.
pub(super) struct Inflating<'a> {
    pub(super) agreed: Agreed,
    pub(super) own: &'a mut Option<Box<Inflater>>,
    pub(super) shared: &'a mut Inflaters,
}

impl Inflating<'_> {
    pub(super) fn inflater(&mut self, reserve: Reserve) -> Result<&mut Inflater, Failure> {
        if self.own.is_none() && self.agreed == Agreed::WithoutContext {
            *self.own = Some(self.shared.lend(reserve)?);
        }
        self.own.as_deref_mut().ok_or(Failure::ReservedBit)
    }

    /// The message has ended.
    pub(super) fn release(&mut self) {
        if self.agreed == Agreed::WithoutContext
            && let Some(inflater) = self.own.take()
        {
            self.shared.take_back(inflater);
        }
    }
}
