//! A client's socket.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown, sockopt};

use crate::facts::Facts;
use crate::schedule::{Conversation, Tls};
use crate::tls::{End, TlsClient};

/// What the server's side of a narrow pair accepts before it is full, as the kernel counts.
const NARROW_BYTES: usize = 16_384;
const READ_BYTES: usize = 65_536;

/// One client: its end of the connection, and the bytes on their way.
pub(crate) struct Peer {
    socket: Option<OwnedFd>,
    is_tcp: bool,
    /// Bytes that the socket has accepted.
    pub(crate) sent: usize,
    /// The server does not accept any more.
    is_broken: bool,
    /// A send has reported it; reads do not report it again.
    was_reset: bool,
    wants_end: bool,
    pub(crate) received: Vec<u8>,
    tls: Option<Box<Secure>>,
}

/// A client's TLS, and the records on their way.
struct Secure {
    client: TlsClient,
    unsent: Vec<u8>,
    /// Bytes that are sent at once.
    step_bytes: usize,
    /// The end of the sending side is announced with a close_notify.
    announces: bool,
}

impl Peer {
    /// A client, and the server's end of its connection.
    pub(crate) fn connect(conversation: &Conversation) -> (Peer, OwnedFd) {
        let Conversation {
            is_tcp, is_narrow, ..
        } = *conversation;
        let (ours, theirs): (OwnedFd, OwnedFd) = if is_tcp {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("a bound socket");
            let ours = TcpStream::connect(address).expect("a listening socket");
            ours.set_nodelay(true).expect("a socket");
            let (theirs, _) = listener.accept().expect("a connection that waits");
            (ours.into(), theirs.into())
        } else {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            (ours.into(), theirs.into())
        };
        rustix::io::ioctl_fionbio(&ours, true).expect("a socket");
        if is_narrow {
            sockopt::set_socket_send_buffer_size(&theirs, NARROW_BYTES).expect("a socket");
        }
        let peer = Peer {
            socket: Some(ours),
            is_tcp,
            sent: 0,
            is_broken: false,
            was_reset: false,
            wants_end: false,
            received: Vec::new(),
            tls: Secure::of(conversation.tls),
        };
        (peer, theirs)
    }

    /// Ends the sending side after what was offered. Returns false if it has already.
    pub(crate) fn half_close(&mut self) -> bool {
        self.socket.is_some() && !std::mem::replace(&mut self.wants_end, true)
    }

    /// Whether it may offer more.
    pub(crate) fn may_offer(&self) -> bool {
        self.socket.is_some() && !self.wants_end
    }

    /// Disconnects without sending anything.
    pub(crate) fn vanish(&mut self) {
        if let Some(socket) = self.socket.take()
            && self.is_tcp
        {
            // A reset, after which nothing of the connection is left on this machine either.
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
    }

    /// Sends what was offered and not sent yet. Returns true when something was sent.
    pub(crate) fn push(&mut self, stream: &[u8], facts: &mut Facts, now_ms: u64) -> bool {
        if self.tls.is_some() {
            return self.push_records(stream, facts, now_ms);
        }
        let Some(socket) = &self.socket else {
            return false;
        };
        let mut is_any = false;
        let unsent = stream.get(self.sent..facts.offered).unwrap_or_default();
        if !unsent.is_empty() && !self.is_broken {
            match send(socket, unsent, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    is_any = count > 0;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => {
                    self.is_broken = true;
                    self.was_reset = error == Errno::CONNRESET;
                }
            }
        }
        let has_sent = self.sent == facts.offered || self.is_broken;
        if self.wants_end && has_sent && facts.half_closed_ms.is_none() {
            facts.half_closed_ms = Some(now_ms);
            // Fails when the server has gone.
            let _ = shutdown(socket, Shutdown::Write);
            is_any = true;
        }
        is_any
    }

    /// Reads up to `most` bytes. Returns true when something arrived.
    pub(crate) fn pull(&mut self, most: usize, facts: &mut Facts, now_ms: u64) -> bool {
        if self.tls.is_some() {
            return self.pull_records(most, facts, now_ms);
        }
        let Some(socket) = &self.socket else {
            return false;
        };
        let mut left = most;
        let mut is_any = false;
        while left > 0 && facts.ended_ms.is_none() {
            self.received.reserve(left.min(READ_BYTES));
            let room = rustix::buffer::spare_capacity(&mut self.received);
            match rustix::io::read(socket, room) {
                Ok(0) => {
                    facts.ended_ms = Some(now_ms);
                    facts.was_reset = self.was_reset;
                    is_any = true;
                }
                Ok(count) => {
                    left = left.saturating_sub(count);
                    is_any = true;
                    if self.is_tcp {
                        // Otherwise the kernel delays the acknowledgement.
                        let _ = rustix::net::sockopt::set_tcp_quickack(socket, true);
                    }
                }
                Err(Errno::AGAIN) => {
                    facts.caught_up(now_ms);
                    break;
                }
                Err(_) => {
                    facts.ended_ms = Some(now_ms);
                    facts.was_reset = true;
                    is_any = true;
                }
            }
        }
        is_any
    }
}

impl Secure {
    fn of(tls: Tls) -> Option<Box<Secure>> {
        let Tls::Steps {
            step_bytes,
            announces,
        } = tls
        else {
            return None;
        };
        Some(Box::new(Secure {
            client: TlsClient::new(),
            unsent: Vec::new(),
            step_bytes,
            announces,
        }))
    }

    /// Sends some of what is unsent. Returns false if the server does not accept any more.
    fn push(&mut self, socket: &OwnedFd, is_any: &mut bool) -> bool {
        self.unsent.extend(self.client.records());
        let step = self.unsent.get(..self.step_bytes).unwrap_or(&self.unsent);
        if step.is_empty() {
            return true;
        }
        match send(socket, step, SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.unsent.drain(..count);
                *is_any |= count > 0;
                true
            }
            Err(error) => error == Errno::AGAIN,
        }
    }
}

impl Peer {
    /// Whether records wait for the socket.
    pub(crate) fn has_records(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.unsent.is_empty())
    }

    fn push_records(&mut self, stream: &[u8], facts: &mut Facts, now_ms: u64) -> bool {
        let (Some(socket), Some(tls)) = (&self.socket, &mut self.tls) else {
            return false;
        };
        let mut is_any = false;
        if tls.client.is_handshaking() {
            is_any |= tls.client.pull_some(socket, usize::MAX);
        }
        let unsent = stream.get(self.sent..facts.offered).unwrap_or_default();
        if !unsent.is_empty() {
            tls.client.offer(unsent);
            self.sent = facts.offered;
        }
        let has_to_end = self.wants_end && facts.half_closed_ms.is_none();
        if has_to_end && tls.announces && !tls.client.is_handshaking() {
            tls.client.offer_end();
        }
        if !self.is_broken && !tls.push(socket, &mut is_any) {
            self.is_broken = true;
        }
        let has_sent = tls.unsent.is_empty() && !tls.client.is_handshaking() || self.is_broken;
        if self.wants_end && has_sent && facts.half_closed_ms.is_none() {
            facts.half_closed_ms = Some(now_ms);
            // Fails when the server has gone.
            let _ = shutdown(socket, Shutdown::Write);
            is_any = true;
        }
        is_any
    }

    fn pull_records(&mut self, most: usize, facts: &mut Facts, now_ms: u64) -> bool {
        let (Some(socket), Some(tls)) = (&self.socket, &mut self.tls) else {
            return false;
        };
        if facts.ended_ms.is_some() {
            return false;
        }
        let is_any = tls.client.pull_some(socket, most);
        self.received.append(&mut tls.client.received);
        match &tls.client.end {
            None if is_any => {}
            None => facts.caught_up(now_ms),
            Some(end) => {
                facts.ended_ms = Some(now_ms);
                facts.was_reset = *end == End::Reset;
            }
        }
        is_any
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.vanish();
    }
}
