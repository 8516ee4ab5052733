//! One TLS connection over a socket. A server's session waits for the peer to begin; a client's begins itself.
//!
//! | phase | until |
//! | --- | --- |
//! | `Waiting` | the first byte arrives, which shows whether the peer speaks TLS |
//! | `Handshaking` | both sides have finished the handshake |
//! | `Open` | the peer ends its side, or either side fails |
//! | `Ended` | the peer sends no more; what it is sent still arrives |
//! | `Failed` | nothing more is received or sent, except the alert |
//! | `Plain` | the peer sends text instead of TLS: bytes pass as they are, so that it can be refused |
//!
//! A session holds only what cannot be avoided: a record that has arrived in part, content that its reader had no room for, and records that
//! the socket has not accepted. Whole records pass through memory that all sessions of a thread share ([`super::shared`]).

mod holding;
mod sending;
mod state;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv};
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};

use super::failure::{Peer, Reported};
use super::pacing::Pacing;
use super::resumption;
use super::selection::Chosen;
use super::shared::{self, Output, Room};
use super::side::{Connection, Side};
use super::{TlsClientConfig, TlsConfig};
use crate::transport::Received;

/// The longest fragment of a record (RFC 8446 section 5.1).
pub(super) const FRAGMENT_BYTES: usize = 16_384;
/// Maximum bytes received at once, and the minimum if the reader has less room than a record needs.
const RECEIVED_BYTES_MAX: usize = 65_536;
const RECEIVED_BYTES_MIN: usize = 17 * 1024;
/// Reads of one [`Session::receive`], so that a peer whose records have no content does not delay other peers.
const READS_MAX: usize = 4;

/// What a session does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Handshaking,
    Open,
    Ended,
    Failed,
    Plain,
}

/// One side of one TLS connection.
pub(crate) struct Session {
    /// A server's; a client's connection is created with it.
    config: Option<Arc<ServerConfig>>,
    /// A server's is created when the first bytes have arrived.
    connection: Option<Connection>,
    /// The server's certificate, since the client has asked for one.
    chosen: Option<Box<Chosen>>,
    /// Until when a server lets its client resume the session, as far as is known, in seconds since 1970.
    resumable_until_s: u64,
    phase: Phase,
    /// The peer does not speak TLS, whatever the phase is.
    is_plain: bool,
    /// Why it failed, until that is reported.
    failure: Option<io::Error>,
    /// The end or the failure was reported to the reader.
    is_over_reported: bool,
    /// Bytes of the peer's part of the handshake.
    shaken_bytes: usize,
    /// The start of a record that has not arrived as a whole.
    incoming: Vec<u8>,
    /// Content whose reader had no room for it, from `read` on.
    content: Vec<u8>,
    read: usize,
    /// Records that the socket has not accepted, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The socket may have input that was not received, although an event reported it.
    is_unread: bool,
    /// The sending side is to be shut down once nothing is owed.
    is_shutting_down: bool,
    pacing: Pacing,
}

/// What a pass over received records found.
struct Pass {
    /// Bytes of content that were copied to the reader.
    copied: usize,
    /// Bytes of records that were used.
    used: usize,
}

impl Session {
    /// A session that waits for the peer's first byte.
    pub(crate) fn new(config: &TlsConfig) -> Session {
        Session::with(Some(config.rustls()))
    }

    /// A client's session, whose first message waits for the socket.
    pub(crate) fn client(config: &TlsClientConfig) -> Session {
        let mut session = Session::with(None);
        session.phase = Phase::Handshaking;
        match config.connect() {
            Ok(connection) => session.connection = Some(Connection::Client(Box::new(connection))),
            Err(error) => session.fail_with(error),
        }
        shared::with_output(|output| {
            session.process(&mut [], &mut [0_u8; 0][..], 0, output);
            session.outgoing = output.bytes().to_vec();
        });
        session
    }

    fn with(config: Option<Arc<ServerConfig>>) -> Session {
        Session {
            config,
            connection: None,
            chosen: None,
            resumable_until_s: u64::MAX,
            phase: Phase::Waiting,
            is_plain: false,
            failure: None,
            is_over_reported: false,
            shaken_bytes: 0,
            incoming: Vec::new(),
            content: Vec::new(),
            read: 0,
            outgoing: Vec::new(),
            sent: 0,
            is_unread: false,
            is_shutting_down: false,
            pacing: Pacing::default(),
        }
    }

    // Receiving.

    /// Receives content, and does whatever else the received records ask for.
    ///
    /// Cost: a system call for each [`RECEIVED_BYTES_MAX`] bytes, and one to send if records need a response.
    pub(crate) fn receive<R: Room + ?Sized>(
        &mut self,
        socket: BorrowedFd<'_>,
        room: &mut R,
    ) -> Received {
        if self.has_content() {
            // The event that led here may have reported other input.
            self.is_unread = true;
            return Received::Bytes(self.take_content(room));
        }
        let mut copied = 0;
        for _ in 0..READS_MAX {
            match self.phase {
                Phase::Waiting | Phase::Handshaking | Phase::Open | Phase::Plain => {}
                Phase::Ended | Phase::Failed if copied > 0 => break,
                Phase::Ended => return self.report_end(),
                Phase::Failed => return self.report_failure(socket, room),
            }
            match self.receive_records(socket, room, &mut copied) {
                Ok(()) => {}
                Err(Errno::AGAIN) => self.is_unread = false,
                Err(error) => self.fail(error.into()),
            }
            let is_done = copied > 0 && room.room_bytes() - copied < FRAGMENT_BYTES;
            if self.is_alive() && (is_done || !self.is_unread) {
                break;
            }
        }
        match copied {
            0 => match self.phase {
                Phase::Ended => self.report_end(),
                Phase::Failed => self.report_failure(socket, room),
                _ => Received::Blocked,
            },
            _ => Received::Bytes(copied),
        }
    }

    fn is_alive(&self) -> bool {
        !matches!(self.phase, Phase::Ended | Phase::Failed)
    }

    fn report_end(&mut self) -> Received {
        self.is_over_reported = true;
        Received::End
    }

    /// Reports the failure once. After that input is discarded, so that the alert is not lost because of it (RFC 9112 section 9.6).
    fn report_failure<R: Room + ?Sized>(
        &mut self,
        socket: BorrowedFd<'_>,
        room: &mut R,
    ) -> Received {
        self.is_over_reported = true;
        if let Some(error) = self.failure.take() {
            self.release();
            return Received::Broken(error);
        }
        let received = shared::with_records(RECEIVED_BYTES_MIN, |records| {
            match retry_on_intr(|| recv(socket, &mut *records, RecvFlags::empty())) {
                Ok((_, 0)) => Received::End,
                Ok((_, count)) => {
                    self.is_unread = count == records.len();
                    let count = count.min(room.room_bytes());
                    records.fill(0);
                    room.put(0, records.get(..count).unwrap_or_default());
                    Received::Bytes(count)
                }
                Err(Errno::AGAIN) => {
                    self.is_unread = false;
                    Received::Blocked
                }
                Err(error) => Received::Broken(error.into()),
            }
        });
        received.unwrap_or_else(|lack| Received::Broken(lack.into()))
    }

    fn fail(&mut self, error: io::Error) {
        if self.phase != Phase::Failed {
            (self.phase, self.failure) = (Phase::Failed, Some(error));
        }
    }

    fn fail_with(&mut self, error: rustls::Error) {
        let peer = match self.config {
            Some(_) => Peer::Client,
            None => Peer::Server,
        };
        let reported = Reported { error, peer };
        self.fail(io::Error::new(io::ErrorKind::InvalidData, reported));
    }

    /// Receives once, and adds the number of bytes of content to `copied`.
    fn receive_records<R: Room + ?Sized>(
        &mut self,
        socket: BorrowedFd<'_>,
        room: &mut R,
        copied: &mut usize,
    ) -> rustix::io::Result<()> {
        let kept = self.incoming.len();
        let left = room.room_bytes().saturating_sub(*copied);
        let asked = left.clamp(RECEIVED_BYTES_MIN, RECEIVED_BYTES_MAX);
        let received = shared::with_records(kept + asked, |records| {
            let place = records.get_mut(kept..).unwrap_or_default();
            let count = match retry_on_intr(|| recv(socket, &mut *place, RecvFlags::empty()))? {
                (_, 0) => {
                    self.peer_closed();
                    return Ok(());
                }
                (_, count) => count,
            };
            self.is_unread = count == asked;
            let arrived = records.get_mut(..kept + count).unwrap_or_default();
            if let Some(kept) = arrived.get_mut(..kept) {
                kept.copy_from_slice(&self.incoming);
            }
            if !self.can_process(arrived.len()) {
                return Ok(());
            }
            if self.phase == Phase::Waiting {
                self.begin(arrived);
            }
            if self.phase == Phase::Plain {
                *copied += self.hand_over(room, *copied, arrived);
                return Ok(());
            }
            shared::with_output(|output| {
                let pass = match self.phase {
                    Phase::Handshaking => self.shake_hands(arrived, room, *copied, output),
                    _ => self.process(arrived, room, *copied, output),
                };
                *copied = pass.copied;
                self.keep(arrived.get(pass.used..).unwrap_or_default());
                if !output.is_empty() && self.dispatch(socket, output, SendFlags::NOSIGNAL).is_err()
                {
                    self.fail(io::ErrorKind::BrokenPipe.into());
                }
            });
            Ok(())
        });
        received.unwrap_or_else(|lack| {
            self.lack(lack);
            Ok(())
        })
    }

    /// Decides by the first bytes whether the peer speaks TLS.
    fn begin(&mut self, arrived: &[u8]) {
        // What is neither is refused with an alert.
        if arrived.first().is_some_and(u8::is_ascii_uppercase) {
            (self.phase, self.is_plain) = (Phase::Plain, true);
            return;
        }
        let Some(config) = self.config.clone() else {
            return;
        };
        match UnbufferedServerConnection::new(config) {
            Ok(connection) => {
                self.connection = Some(Connection::Server(Box::new(connection)));
                self.phase = Phase::Handshaking;
            }
            Err(error) => self.fail(io::Error::other(error)),
        }
    }

    /// The peer ended the connection without a close_notify. HTTP does not need one after the handshake: a message says where it ends
    /// (RFC 9112 section 9.8).
    fn peer_closed(&mut self) {
        match self.phase {
            Phase::Handshaking => self.fail(io::ErrorKind::UnexpectedEof.into()),
            _ => self.phase = Phase::Ended,
        }
    }

    /// Processes records of the handshake, and remembers which certificate the client gets, and for how long it may resume the session.
    fn shake_hands<R: Room + ?Sized>(
        &mut self,
        records: &mut [u8],
        room: &mut R,
        copied: usize,
        output: &mut Output,
    ) -> Pass {
        let until_s = self.resumable_until_s;
        let process = || Chosen::within(|| self.process(records, room, copied, output));
        let ((pass, chosen), until_s) = resumption::within(until_s, process);
        self.resumable_until_s = until_s;
        if chosen.is_some() {
            self.chosen = chosen;
        }
        pass
    }

    /// Processes all whole records. Content goes to `room` from `copied` on, and to `self.content` what it has no room for; records to send
    /// go to `output`.
    fn process<R: Room + ?Sized>(
        &mut self,
        records: &mut [u8],
        room: &mut R,
        copied: usize,
        output: &mut Output,
    ) -> Pass {
        let Some(mut connection) = self.connection.take() else {
            return Pass { copied, used: 0 };
        };
        let pass = match &mut connection {
            Connection::Server(side) => self.process_as(&mut **side, records, room, copied, output),
            Connection::Client(side) => self.process_as(&mut **side, records, room, copied, output),
        };
        self.connection = Some(connection);
        pass
    }

    fn process_as<S: Side, R: Room + ?Sized>(
        &mut self,
        side: &mut S,
        records: &mut [u8],
        room: &mut R,
        copied: usize,
        output: &mut Output,
    ) -> Pass {
        let mut pass = Pass { copied, used: 0 };
        loop {
            let rest = records.get_mut(pass.used..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = side.process(rest);
            let (mut is_content, mut is_blocked, mut lack) = (false, false, None);
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    is_content = true;
                    while let Some(Ok(record)) = traffic.next_record() {
                        pass.copied += self.hand_over(room, pass.copied, record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    lack = output.encode(&mut data).err();
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::Ended,
                // Early data is not offered.
                Ok(_) => is_blocked = true,
                Err(error) => {
                    self.fail_with(error);
                    is_blocked = true;
                }
            }
            pass.used += discard;
            if self.is_handshaking() {
                self.shaken_bytes += discard;
            }
            if let Some(lack) = lack {
                // rustls would offer the same record again.
                self.lack(lack);
                break;
            }
            if self.phase == Phase::Handshaking && !side.state().is_handshaking() {
                self.phase = Phase::Open;
            }
            // Processing again would find the same error again: only the alert is taken.
            let is_failed = self.phase == Phase::Failed;
            let is_used_up = is_content && pass.used == records.len();
            if (is_blocked || is_failed || is_used_up) && !side.state().wants_write() {
                break;
            }
        }
        pass
    }

    fn take_content<R: Room + ?Sized>(&mut self, room: &mut R) -> usize {
        let content = self.content.get(self.read..).unwrap_or_default();
        let count = content.len().min(room.room_bytes());
        room.put(0, content.get(..count).unwrap_or_default());
        self.read += count;
        if !self.has_content() {
            self.content = Vec::new();
            self.read = 0;
        }
        count
    }
}
