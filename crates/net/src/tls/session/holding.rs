//! What a session keeps, and what happens without the memory for it: the session fails, and only its connection ends.

use std::io;

use rustls::InvalidMessage;

use super::super::shared::Room;
use super::{Phase, Session};
use crate::memory::{NoMemory, is_short, reserve_exact};

/// Maximum bytes of an incomplete record, or of an incomplete message of the handshake in several records. The longest such message is a
/// client's chain of certificates, of which rustls accepts 65,535 bytes. The rest is for what records add to it, unless they are very short.
const INCOMPLETE_BYTES_MAX: usize = 72 * 1024;
/// What rustls may allocate for each byte of records: a name of one byte in a ClientHello takes a list's place and a block of its own. rustls
/// cannot be refused memory, so records are passed to it only while this much is left.
const PARSED_BYTES_PER_BYTE: usize = 64;
/// The same for records of any length: a connection of rustls, keys, and the state of the handshake.
const PARSED_BYTES_MIN: usize = 256 * 1024;

impl Session {
    /// Checks whether there is memory for what rustls makes of `count` bytes of records. If not, the session fails.
    pub(super) fn can_process(&mut self, count: usize) -> bool {
        let needed = PARSED_BYTES_MIN + PARSED_BYTES_PER_BYTE * count;
        let is_there = !is_short(needed);
        if !is_there {
            self.lack(NoMemory(needed));
        }
        is_there
    }

    /// Fails for lack of memory, and frees what is held for the peer. What was received before can still be read.
    #[cold]
    pub(super) fn lack(&mut self, lack: NoMemory) {
        self.fail(lack.into());
        self.incoming = Vec::new();
    }

    /// Frees what a failed session does not need any more: its alert is written, and its connection may linger for long.
    pub(super) fn release(&mut self) {
        (self.config, self.connection, self.chosen) = (None, None, None);
        (self.incoming, self.content, self.read) = (Vec::new(), Vec::new(), 0);
    }

    /// Keeps the start of a record.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() || !self.is_alive() {
            self.incoming = Vec::new();
            return;
        }
        if rest.len() > INCOMPLETE_BYTES_MAX {
            self.incoming = Vec::new();
            return self.fail_with(InvalidMessage::HandshakePayloadTooLarge.into());
        }
        if rest.len() > self.incoming.capacity() {
            self.incoming = Vec::new();
        }
        self.incoming.clear();
        self.incoming.shrink_to(rest.len());
        match reserve_exact(&mut self.incoming, rest.len()) {
            Ok(()) => self.incoming.extend_from_slice(rest),
            Err(lack) => self.lack(lack),
        }
    }

    /// Copies content to the reader, and keeps what it has no room for. Returns how much it took.
    pub(super) fn hand_over<R: Room + ?Sized>(
        &mut self,
        room: &mut R,
        copied: usize,
        content: &[u8],
    ) -> usize {
        // Nothing overtakes what is kept, and nothing follows what is lost.
        let room_bytes = match self.has_content() || self.phase == Phase::Failed {
            true => 0,
            false => room.room_bytes().saturating_sub(copied),
        };
        let (now, later) = content.split_at(content.len().min(room_bytes));
        room.put(copied, now);
        if !later.is_empty() && self.phase != Phase::Failed {
            match reserve_exact(&mut self.content, later.len()) {
                Ok(()) => self.content.extend_from_slice(later),
                Err(lack) => self.lack(lack),
            }
        }
        now.len()
    }

    /// Keeps records that the socket has not accepted.
    ///
    /// # Errors
    /// If there is no memory for them. Nothing is sent after lost records.
    pub(super) fn owe(&mut self, unsent: &[u8]) -> io::Result<()> {
        if let Err(lack) = reserve_exact(&mut self.outgoing, unsent.len()) {
            self.fail(io::ErrorKind::BrokenPipe.into());
            (self.outgoing, self.sent) = (Vec::new(), 0);
            return Err(lack.into());
        }
        self.outgoing.extend_from_slice(unsent);
        Ok(())
    }
}
