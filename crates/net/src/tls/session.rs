//! One TLS connection over a socket, on the server's side.
//!
//! | phase | until |
//! | --- | --- |
//! | `Waiting` | the first byte arrives, which shows whether the peer speaks TLS |
//! | `Handshaking` | both sides have finished the handshake |
//! | `Open` | the peer ends its side, or either side fails |
//! | `Ended` | the peer sends no more; what it is sent still arrives |
//! | `Failed` | nothing more is received or sent, except the alert |
//!
//! A session holds only what cannot be avoided: a record that has arrived in part, content that its reader had no room for, and records that
//! the socket has not accepted. Whole records pass through memory that all sessions of a thread share.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::TlsConfig;
use crate::transport::{Received, Sent};

/// Content of at most this length is encrypted at once: four records.
const ENCRYPTED_BYTES_MAX: usize = 65_536;
/// Received at once: a little more than the longest record (RFC 8446 5.2).
const RECEIVED_BYTES_MAX: usize = 32_768;
/// The header of a record, the type of its content, and the longest tag or padding of the supported cipher suites.
const OVERHEAD_BYTES: usize = 5 + 1 + 32;
/// The longest fragment of a record (RFC 8446 5.1).
const FRAGMENT_BYTES: usize = 16_384;
/// Reads of one [`Session::receive`], so that a peer whose records have no content keeps no one waiting.
const READS_MAX: usize = 4;
/// The first byte of a TLS connection: a record of type handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;

thread_local! {
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a session does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Handshaking,
    Open,
    Ended,
    Failed,
}

/// The server's side of one TLS connection.
pub(crate) struct Session {
    connection: UnbufferedServerConnection,
    phase: Phase,
    /// Why it failed.
    error: Option<rustls::Error>,
    /// The start of a record that has not arrived as a whole.
    incoming: Vec<u8>,
    /// Content whose reader had no room for it, from `read` on.
    content: Vec<u8>,
    read: usize,
    /// Records that the socket has not accepted, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The socket may have input that was not received.
    is_unread: bool,
}

/// What a pass over received records found.
struct Pass {
    /// Bytes of content that were copied to the reader.
    copied: usize,
    /// Bytes of records that were used.
    used: usize,
}

impl Session {
    /// Starts the server's side of a handshake.
    ///
    /// # Errors
    /// If the configuration does not allow any.
    pub(crate) fn new(config: &TlsConfig) -> io::Result<Session> {
        let connection =
            UnbufferedServerConnection::new(config.rustls()).map_err(io::Error::other)?;
        Ok(Session {
            connection,
            phase: Phase::Waiting,
            error: None,
            incoming: Vec::new(),
            content: Vec::new(),
            read: 0,
            outgoing: Vec::new(),
            sent: 0,
            is_unread: false,
        })
    }

    /// Receives content, and does whatever else the received records ask for.
    ///
    /// Cost: a system call for up to [`RECEIVED_BYTES_MAX`] bytes, and one to send if the handshake has to go on.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Received {
        if self.has_content() {
            return Received::Bytes(self.take_content(buffer));
        }
        for _ in 0..READS_MAX {
            match self.phase {
                Phase::Ended => return Received::End,
                Phase::Failed => return Received::Broken(self.failure()),
                Phase::Waiting | Phase::Handshaking | Phase::Open => {}
            }
            match self.receive_records(socket, buffer) {
                Ok(0) => {}
                Ok(copied) => return Received::Bytes(copied),
                Err(received) => return received,
            }
        }
        self.is_unread = true;
        Received::Blocked
    }

    /// Receives once; gives the number of bytes of content.
    fn receive_records(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> Result<usize, Received> {
        RECORDS.with_borrow_mut(|records| {
            let kept = self.incoming.len();
            records.resize(RECEIVED_BYTES_MAX.max(kept + FRAGMENT_BYTES), 0);
            if let Some(start) = records.get_mut(..kept) {
                start.copy_from_slice(&self.incoming);
            }
            let room = records.get_mut(kept..).unwrap_or_default();
            let asked = room.len();
            let count = match retry_on_intr(|| recv(socket, &mut *room, RecvFlags::empty())) {
                Ok((_, 0)) => return Err(self.truncated()),
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => {
                    self.is_unread = false;
                    return Err(Received::Blocked);
                }
                Err(error) => return Err(Received::Broken(error.into())),
            };
            self.is_unread = count == asked;
            let arrived = records.get_mut(..kept + count).unwrap_or_default();
            if self.phase == Phase::Waiting {
                self.phase = Phase::Handshaking;
                if arrived.first() != Some(&HANDSHAKE) {
                    self.phase = Phase::Failed;
                    return Err(Received::Broken(not_tls()));
                }
            }
            let pass = self.process(arrived, buffer);
            let rest = arrived.get(pass.used..).unwrap_or_default();
            self.incoming.clear();
            self.incoming.extend_from_slice(rest);
            if rest.is_empty() {
                self.incoming = Vec::new();
            }
            if self.owes() && self.flush(socket).is_err() {
                return Err(Received::Broken(io::ErrorKind::BrokenPipe.into()));
            }
            Ok(pass.copied)
        })
    }

    fn failure(&self) -> io::Error {
        match &self.error {
            Some(error) => io::Error::new(io::ErrorKind::InvalidData, error.clone()),
            None => not_tls(),
        }
    }

    /// The peer ended the connection without a close_notify. HTTP does not need one: a message says where it ends (RFC 9112 9.8).
    fn truncated(&mut self) -> Received {
        let was_handshaking = matches!(self.phase, Phase::Waiting | Phase::Handshaking);
        self.phase = Phase::Ended;
        match was_handshaking {
            true => Received::Broken(io::ErrorKind::UnexpectedEof.into()),
            false => Received::End,
        }
    }

    /// Processes all whole records; content goes to `buffer`, and to `self.content` what it has no room for.
    fn process(&mut self, records: &mut [u8], buffer: &mut [u8]) -> Pass {
        let mut pass = Pass { copied: 0, used: 0 };
        loop {
            let rest = records.get_mut(pass.used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(rest);
            let is_finished = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        let room = buffer.get_mut(pass.copied..).unwrap_or_default();
                        let count = room.len().min(record.payload.len());
                        let (now, later) = record.payload.split_at(count);
                        if let Some(room) = room.get_mut(..count) {
                            room.copy_from_slice(now);
                        }
                        pass.copied += count;
                        self.content.extend_from_slice(later);
                    }
                    false
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.outgoing, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
                        Err(EncodeError::AlreadyEncoded) => Ok(0),
                        Ok(count) => Ok(count),
                    });
                    false
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    false
                }
                Ok(ConnectionState::WriteTraffic(_)) => true,
                Ok(ConnectionState::PeerClosed) => {
                    self.phase = Phase::Ended;
                    false
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => true,
                // Early data is not offered.
                Ok(_) => true,
                Err(error) => {
                    self.error = Some(error);
                    let is_second = self.phase == Phase::Failed;
                    self.phase = Phase::Failed;
                    // Nothing else is processed. What is left to do is to send the alert.
                    pass.used = records.len();
                    discard = 0;
                    is_second
                }
            };
            pass.used += discard;
            if self.phase == Phase::Handshaking && !self.connection.is_handshaking() {
                self.phase = Phase::Open;
            }
            if is_finished {
                return pass;
            }
        }
    }

    /// Sends as much of `content` as can be encrypted and sent. What it accepts is owed to the socket, not to the caller: see
    /// [`Session::owes`].
    ///
    /// Cost: one system call for up to [`ENCRYPTED_BYTES_MAX`] bytes.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        content: &[u8],
        flags: SendFlags,
    ) -> Sent {
        let mut accepted = 0;
        while accepted < content.len() {
            if self.owes() {
                match self.flush_with(socket, flags) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return Sent::Broken(error),
                }
            }
            let rest = content.get(accepted..).unwrap_or_default();
            let part = rest.get(..ENCRYPTED_BYTES_MAX).unwrap_or(rest);
            if !self.encrypt(part) {
                return Sent::Broken(io::ErrorKind::NotConnected.into());
            }
            accepted += part.len();
        }
        match self.flush_with(socket, flags) {
            Ok(_) => Sent::Bytes(accepted),
            Err(error) => Sent::Broken(error),
        }
    }

    /// Appends the records of `content` to what is owed. Returns false if nothing may be sent.
    fn encrypt(&mut self, content: &[u8]) -> bool {
        self.write(
            |traffic, room| traffic.encrypt(content, room),
            content.len(),
        )
    }

    /// Announces that nothing more is sent.
    pub(crate) fn close(&mut self, socket: BorrowedFd<'_>) {
        if self.write(|traffic, room| traffic.queue_close_notify(room), 2) {
            // If the socket does not accept it, the end of the connection remains.
            let _ = self.flush(socket);
        }
    }

    fn write(
        &mut self,
        mut write: impl FnMut(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
        content_bytes: usize,
    ) -> bool {
        if matches!(
            self.phase,
            Phase::Waiting | Phase::Handshaking | Phase::Failed
        ) {
            return false;
        }
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let records = content_bytes.div_ceil(FRAGMENT_BYTES).max(1);
                    self.outgoing
                        .reserve(content_bytes + records * OVERHEAD_BYTES);
                    return encode(&mut self.outgoing, |room| match write(&mut traffic, room) {
                        Err(EncryptError::InsufficientSize(error)) => Err(error.required_size),
                        Err(EncryptError::EncryptExhausted) => Ok(0),
                        Ok(count) => Ok(count),
                    });
                }
                // Records of our own, such as an update of keys, go first.
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.outgoing, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
                        Err(EncodeError::AlreadyEncoded) => Ok(0),
                        Ok(count) => Ok(count),
                    });
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::Ended,
                _ => return false,
            }
        }
    }

    /// Sends what is owed. Returns whether nothing is left.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.flush_with(socket, SendFlags::NOSIGNAL)
    }

    fn flush_with(&mut self, socket: BorrowedFd<'_>, flags: SendFlags) -> io::Result<bool> {
        while let Some(unsent @ [_, ..]) = self.outgoing.get(self.sent..) {
            match retry_on_intr(|| send(socket, unsent, flags)) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.outgoing = Vec::new();
        self.sent = 0;
        Ok(true)
    }

    /// Whether records wait for the socket.
    pub(crate) fn owes(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Bytes of records that wait for the socket.
    pub(crate) fn owed_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Whether content was received that its reader has not taken.
    pub(crate) fn has_content(&self) -> bool {
        self.read < self.content.len()
    }

    /// Bytes of content that its reader has not taken.
    pub(crate) fn content_bytes(&self) -> usize {
        self.content.len() - self.read
    }

    /// Whether the socket may have input that was not received, although the last read of it brought less than there was room for.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// The protocol that both sides have agreed on (RFC 7301).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Bytes that this session holds in memory of its own, without those of rustls.
    pub(crate) fn held_bytes(&self) -> usize {
        self.incoming.capacity() + self.content.capacity() + self.outgoing.capacity()
    }

    fn take_content(&mut self, buffer: &mut [u8]) -> usize {
        let content = self.content.get(self.read..).unwrap_or_default();
        let count = content.len().min(buffer.len());
        if let (Some(room), Some(taken)) = (buffer.get_mut(..count), content.get(..count)) {
            room.copy_from_slice(taken);
        }
        self.read += count;
        if !self.has_content() {
            self.content = Vec::new();
            self.read = 0;
        }
        count
    }
}

/// Appends to `out` what `write` puts into the room it is given, which may have to grow once. Returns whether it wrote anything.
fn encode(out: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) -> bool {
    let start = out.len();
    out.resize(out.capacity(), 0);
    let mut written = write(out.get_mut(start..).unwrap_or_default());
    if let Err(required) = written {
        out.resize(start + required, 0);
        written = write(out.get_mut(start..).unwrap_or_default());
    }
    let count = written.unwrap_or(0);
    out.truncate(start + count);
    count > 0
}

fn not_tls() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the first byte is not one of TLS",
    )
}
