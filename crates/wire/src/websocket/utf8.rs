//! UTF-8 in pieces (RFC 6455 8.1): a character may be cut anywhere, and the first wrong octet is an error at once.

use super::failure::Failure;

/// Checks text that arrives in pieces.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Utf8 {
    /// The start of a character that is incomplete.
    started: [u8; 3],
    started_len: u8,
}

impl Utf8 {
    /// Takes the next piece.
    ///
    /// # Errors
    /// If no continuation makes it UTF-8.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> Result<(), Failure> {
        while self.started_len > 0 {
            let Some((octet, rest)) = piece.split_first() else {
                return Ok(());
            };
            self.complete(*octet)?;
            piece = rest;
        }
        let Err(error) = simdutf8::compat::from_utf8(piece) else {
            return Ok(());
        };
        if error.error_len().is_some() {
            return Err(Failure::TextNotUtf8);
        }
        let tail = piece.get(error.valid_up_to()..).unwrap_or_default();
        for (slot, octet) in self.started.iter_mut().zip(tail) {
            *slot = *octet;
        }
        self.started_len = tail.len() as u8;
        Ok(())
    }

    /// Adds one octet to the character that is incomplete.
    fn complete(&mut self, octet: u8) -> Result<(), Failure> {
        let mut character = [0; 4];
        let at = usize::from(self.started_len);
        for (slot, started) in character.iter_mut().zip(self.started.iter().take(at)) {
            *slot = *started;
        }
        if let Some(slot) = character.get_mut(at) {
            *slot = octet;
        }
        match str::from_utf8(character.get(..at + 1).unwrap_or_default()) {
            Ok(_) => self.started_len = 0,
            Err(error) if error.error_len().is_none() => {
                if let Some(slot) = self.started.get_mut(at) {
                    *slot = octet;
                }
                self.started_len += 1;
            }
            Err(_) => return Err(Failure::TextNotUtf8),
        }
        Ok(())
    }

    /// The text ends here.
    ///
    /// # Errors
    /// If a character is incomplete.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self.started_len {
            0 => Ok(()),
            _ => Err(Failure::TextNotUtf8),
        }
    }
}

/// Checks a text that is complete.
///
/// # Errors
/// If it is not UTF-8.
#[inline]
pub(super) fn check(text: &[u8]) -> Result<(), Failure> {
    match simdutf8::basic::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::TextNotUtf8),
    }
}
