//! Sending: content is encrypted from where it is, and records that the socket does not accept are kept.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};
use rustls::unbuffered::ConnectionState;

use super::super::sealing::Encryption;
use super::super::shared::{self, Output};
use super::super::side::{Connection, Side};
use super::{Phase, Session};
use crate::memory::NoMemory;
use crate::transport::{Sent, first_of};

/// Content of at most this length is encrypted and sent at once: two parts of 64 KiB with what frames them. The records of more would
/// displace what is still needed from the processor's second cache (bench: tls-http2, stream).
const ENCRYPTED_BYTES_MAX: usize = 144 * 1024;

/// What is written besides rustls' own records.
#[derive(Clone, Copy)]
enum Message<'a> {
    /// Content, in records of up to this length.
    Content(&'a [u8], usize),
    CloseNotify,
}

impl Session {
    /// Sends as much of `parts`, one after the other, as can be encrypted and sent. What it accepts is owed to the socket, not to the
    /// caller: see [`Session::owes`].
    ///
    /// Cost: one system call for up to [`ENCRYPTED_BYTES_MAX`] bytes.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: &[&[u8]],
        flags: SendFlags,
    ) -> Sent {
        if self.is_plain {
            return sent(retry_on_intr(|| send(socket, first_of(parts), flags)));
        }
        match self.flush(socket) {
            Ok(true) => {}
            Ok(false) => return Sent::Bytes(0),
            Err(error) => return Sent::Broken(error),
        }
        if self.is_handshaking() && self.config.is_none() {
            return Sent::Bytes(0);
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut accepted = 0;
        while accepted < bytes && !self.owes() {
            let count = (bytes - accepted).min(ENCRYPTED_BYTES_MAX);
            let record_bytes = self.pacing.record_bytes(bytes, count);
            let flags = match accepted + count < bytes {
                true => flags | SendFlags::MORE,
                false => flags,
            };
            let sent = shared::with_output(|output| {
                for content in within(parts, accepted, count) {
                    self.write(output, Message::Content(content, record_bytes))?;
                }
                self.dispatch(socket, output, flags)
            });
            if let Err(error) = sent {
                return Sent::Broken(error);
            }
            accepted += count;
        }
        Sent::Bytes(accepted)
    }

    /// Announces that nothing more is sent. Returns true once that has been sent, or cannot be.
    pub(crate) fn close(&mut self, socket: BorrowedFd<'_>, flags: SendFlags) -> bool {
        shared::with_output(|output| {
            let is_written = self.write(output, Message::CloseNotify).is_ok();
            if is_written && !output.is_empty() && self.dispatch(socket, output, flags).is_err() {
                self.outgoing = Vec::new();
                self.sent = 0;
            }
        });
        !self.owes()
    }

    /// Writes records to `output`.
    ///
    /// # Errors
    /// If nothing may be sent, or there is no memory for it. Nothing is sent after a record that was lost.
    fn write(&mut self, output: &mut Output, message: Message<'_>) -> io::Result<()> {
        if !matches!(self.phase, Phase::Open | Phase::Ended) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let Some(mut connection) = self.connection.take() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let is_written = match &mut connection {
            Connection::Server(side) => self.write_as(&mut **side, output, message),
            Connection::Client(side) => self.write_as(&mut **side, output, message),
        };
        self.connection = Some(connection);
        if is_written.is_err() {
            self.fail(io::ErrorKind::BrokenPipe.into());
        }
        match is_written? {
            true => Ok(()),
            false => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns false if nothing may be sent.
    fn write_as<S: Side>(
        &mut self,
        side: &mut S,
        output: &mut Output,
        message: Message<'_>,
    ) -> Result<bool, NoMemory> {
        let encryption = Encryption::of(side.state().negotiated_cipher_suite());
        loop {
            // A message of the handshake may have arrived in part, and rustls knows where in the buffer.
            match side.process(&mut self.incoming).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return match message {
                        Message::CloseNotify => output.close(&mut traffic),
                        Message::Content(content, record_bytes) => {
                            for record in content.chunks(record_bytes) {
                                if !output.encrypt(&mut traffic, record, encryption)? {
                                    return Ok(false);
                                }
                            }
                            Ok(true)
                        }
                    };
                }
                // Records of our own, such as an update of keys, go first.
                Ok(ConnectionState::EncodeTlsData(mut data)) => output.encode(&mut data)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::Ended,
                _ => return Ok(false),
            }
        }
    }

    /// Sends what was written after what is owed, and keeps what the socket does not accept.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn dispatch(
        &mut self,
        socket: BorrowedFd<'_>,
        output: &Output,
        flags: SendFlags,
    ) -> io::Result<()> {
        let count = match self.flush(socket)? {
            false => 0,
            true => match retry_on_intr(|| send(socket, output.bytes(), flags)) {
                Ok(count) => count,
                Err(Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            },
        };
        let unsent = output.bytes().get(count..).unwrap_or_default();
        match unsent.is_empty() {
            true => Ok(()),
            false => self.owe(unsent),
        }
    }

    /// Sends what is owed. Returns whether nothing is left.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while let Some(unsent @ [_, ..]) = self.outgoing.get(self.sent..) {
            match retry_on_intr(|| send(socket, unsent, SendFlags::NOSIGNAL)) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        if self.sent > 0 {
            self.outgoing = Vec::new();
            self.sent = 0;
        }
        Ok(true)
    }

    /// The sending side is to be shut down when nothing is owed any more.
    pub(crate) fn shut_down_later(&mut self) {
        self.is_shutting_down = true;
    }
}

/// The pieces of `parts` from `start` on, `count` bytes in total.
fn within<'a>(parts: &'a [&'a [u8]], start: usize, count: usize) -> impl Iterator<Item = &'a [u8]> {
    let mut before = 0;
    parts.iter().filter_map(move |part| {
        let place = |at: usize| at.saturating_sub(before).min(part.len());
        let piece = part.get(place(start)..place(start + count));
        before += part.len();
        piece.filter(|piece| !piece.is_empty())
    })
}

fn sent(count: rustix::io::Result<usize>) -> Sent {
    match count {
        Ok(count) => Sent::Bytes(count),
        Err(Errno::AGAIN) => Sent::Bytes(0),
        Err(error) => Sent::Broken(error.into()),
    }
}
