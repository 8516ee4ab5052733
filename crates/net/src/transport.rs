//! A connected socket, plain or with TLS: receive, send, buffered bytes, and a close in two steps.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::sendfile;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketAddrAny, getpeername, getsockname, recv, send, shutdown,
};

use crate::tls::{Agreement, Room, Tls, TlsClientConfig, TlsConfig, TlsDetails};
use crate::{signals, sys};

/// A connected stream socket in non-blocking mode. Dropping it closes it.
pub struct Transport {
    socket: OwnedFd,
    tls: Option<Box<Tls>>,
}

/// The address of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Peer {
    /// An Internet address and port.
    Internet(SocketAddr),
    /// The path of a listening UNIX socket.
    Unix(&'static str),
    /// A client on a UNIX socket, or a connection that is gone: no useful address.
    #[default]
    Local,
}

/// The result of one attempt to read.
#[derive(Debug)]
pub enum Received {
    /// That many bytes (never 0).
    Bytes(usize),
    /// Nothing is available now.
    Blocked,
    /// The peer ended its sending side.
    End,
    /// The connection is broken.
    Broken(io::Error),
}

/// The result of one attempt to write.
#[derive(Debug)]
pub enum Sent {
    /// The socket accepted that many bytes; fewer than given mean that it is full.
    Bytes(usize),
    /// The connection is broken.
    Broken(io::Error),
}

/// The result of one attempt to send a part of a file.
#[derive(Debug)]
pub enum FileSent {
    /// The socket accepted that many bytes (never 0). Only [`FileSent::Blocked`] means that it is full.
    Bytes(u64),
    /// The socket is full.
    Blocked,
    /// The file ends before that part, or cannot be read.
    Unreadable,
    /// The connection is broken.
    Broken(io::Error),
}

/// Bytes of a file that are read at once, if the kernel cannot send from the file itself.
const FILE_READ_BYTES: usize = 65_536;

thread_local! {
    static FILE_CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Transport {
    /// Takes over a connected socket that is non-blocking.
    pub fn new(socket: OwnedFd) -> Transport {
        Transport { socket, tls: None }
    }

    /// Uses TLS from now on, as the server of the handshake.
    #[must_use]
    pub fn with_tls(mut self, config: &TlsConfig) -> Transport {
        self.tls = Some(Box::new(Tls::new(config)));
        self
    }

    /// Uses TLS from now on, as the client. The handshake begins with the first [`Transport::send`], which accepts no bytes before its end.
    #[must_use]
    pub fn with_client_tls(mut self, config: &TlsClientConfig) -> Transport {
        self.tls = Some(Box::new(Tls::client(config)));
        self
    }

    /// Whether it uses TLS.
    #[inline]
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether its TLS handshake is not complete. It goes on with each [`Transport::receive`].
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether the whole ClientHello of its TLS handshake has arrived.
    pub fn has_client_hello(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.with(|session| session.has_client_hello()))
    }

    /// Whether the peer sends text where TLS was expected. Bytes pass unchanged in both directions then.
    pub fn lacks_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_plain())
    }

    /// Takes over a connected socket that may be blocking.
    ///
    /// # Errors
    /// If it cannot be made non-blocking.
    pub fn from_blocking(socket: OwnedFd) -> io::Result<Transport> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Transport::new(socket))
    }

    /// Reads available bytes, up to `buffer`'s length.
    ///
    /// Cost: one system call: recv, whose path to the socket is shorter than that of read.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Received {
        if let Some(tls) = &self.tls {
            return self.receive_records(tls, buffer);
        }
        received(retry_on_intr(|| {
            let received = recv(&self.socket, &mut *buffer, RecvFlags::empty());
            received.map(|(_, count)| count)
        }))
    }

    /// As [`Transport::receive`], into uninitialized memory: the reported number of bytes, from its start.
    ///
    /// Cost: one system call.
    pub fn receive_into(&self, room: &mut [MaybeUninit<u8>]) -> Received {
        if let Some(tls) = &self.tls {
            return self.receive_records(tls, room);
        }
        received(retry_on_intr(|| {
            let received = recv(&self.socket, &mut *room, RecvFlags::empty());
            received.map(|(_, count)| count)
        }))
    }

    /// Reads what has arrived on the socket without taking it from there, before TLS.
    ///
    /// Cost: one system call.
    pub fn peek(&self, buffer: &mut [u8]) -> Received {
        received(retry_on_intr(|| {
            let received = recv(&self.socket, &mut *buffer, RecvFlags::PEEK);
            received.map(|(_, count)| count)
        }))
    }

    /// Takes bytes that [`Transport::peek`] has returned from the socket, as many as the buffer has.
    ///
    /// Cost: one system call.
    pub fn take_peeked(&self, mut buffer: &mut [u8]) {
        while !buffer.is_empty() {
            let taken = retry_on_intr(|| recv(&self.socket, &mut *buffer, RecvFlags::empty()));
            match taken {
                Ok((_, count @ 1..)) => {
                    let taken = std::mem::take(&mut buffer);
                    buffer = taken.get_mut(count..).unwrap_or_default();
                }
                // The connection is broken, which the next read reports.
                _ => return,
            }
        }
    }

    #[inline(never)]
    fn receive_records<R: Room + ?Sized>(&self, tls: &Tls, room: &mut R) -> Received {
        tls.with(|session| session.receive(self.socket.as_fd(), room))
    }

    /// Writes as much of `bytes` as the socket accepts.
    ///
    /// Cost: one system call.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Sent {
        self.send_with(bytes, SendFlags::NOSIGNAL)
    }

    /// As [`Transport::send`], for bytes that are followed at once by others, so that both share a packet: more bytes, part of a file, or
    /// the end of the connection or of its sending side.
    ///
    /// Cost: one system call.
    #[inline]
    pub fn send_more(&self, bytes: &[u8]) -> Sent {
        self.send_with(bytes, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    #[inline]
    fn send_with(&self, bytes: &[u8], flags: SendFlags) -> Sent {
        if let Some(tls) = &self.tls {
            return self.send_records(tls, bytes, flags);
        }
        match retry_on_intr(|| send(&self.socket, bytes, flags)) {
            Ok(count) => Sent::Bytes(count),
            Err(Errno::AGAIN) => Sent::Bytes(0),
            Err(error) => Sent::Broken(error.into()),
        }
    }

    #[inline(never)]
    fn send_records(&self, tls: &Tls, bytes: &[u8], flags: SendFlags) -> Sent {
        tls.with(|session| session.send(self.socket.as_fd(), &[bytes], flags))
    }

    /// As [`Transport::send`], for parts that follow each other. With TLS each is encrypted from where it is; without, the first that is not
    /// empty is sent.
    ///
    /// Cost: one system call.
    pub fn send_parts(&self, parts: &[&[u8]]) -> Sent {
        match &self.tls {
            Some(tls) => {
                tls.with(|session| session.send(self.socket.as_fd(), parts, SendFlags::NOSIGNAL))
            }
            None => self.send(first_of(parts)),
        }
    }

    /// Sends up to `length` bytes, which is not 0, of `file` from `offset` on, without reading them into memory if possible. It waits for
    /// what is not in the page cache.
    ///
    /// On a broken connection, sendfile raises SIGPIPE, and has no flag against it. CPython and Rust programs ignore the signal; if an
    /// application has changed that, the file is read and sent.
    ///
    /// Cost: two system calls, one of them to check the signal.
    pub fn send_file(&self, file: &File, offset: u64, length: u64) -> FileSent {
        if self.tls.is_some() || !signals::is_sigpipe_ignored() {
            return self.send_file_by_reading(file, offset, length);
        }
        let count = usize::try_from(length).unwrap_or(usize::MAX);
        let sent = retry_on_intr(|| {
            let mut at = offset;
            sendfile(&self.socket, file, Some(&mut at), count)
        });
        match sent {
            Ok(0) => FileSent::Unreadable,
            Ok(count) => FileSent::Bytes(count as u64),
            Err(Errno::AGAIN) => FileSent::Blocked,
            // The error does not show which of the two failed, or whether they only do not work together.
            Err(_) => self.send_file_by_reading(file, offset, length),
        }
    }

    /// As [`Transport::send_file`], for files that the kernel cannot send from, and for bytes that have to be transformed.
    #[cold]
    fn send_file_by_reading(&self, file: &File, offset: u64, length: u64) -> FileSent {
        if !self.flush() {
            return FileSent::Broken(io::ErrorKind::BrokenPipe.into());
        }
        if self.owes() {
            return FileSent::Blocked;
        }
        FILE_CONTENT.with_borrow_mut(|content| {
            content.resize(FILE_READ_BYTES, 0);
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            let room = content
                .get_mut(..wanted.min(FILE_READ_BYTES))
                .unwrap_or_default();
            let Ok(count @ 1..) = retry_on_interruption(|| file.read_at(room, offset)) else {
                return FileSent::Unreadable;
            };
            match self.send(room.get(..count).unwrap_or_default()) {
                Sent::Bytes(0) => FileSent::Blocked,
                Sent::Bytes(count) => FileSent::Bytes(count as u64),
                Sent::Broken(error) => FileSent::Broken(error),
            }
        })
    }

    /// Whether [`Transport::receive`] has something to return that was read from the socket before, so that no event reports it. A plain
    /// socket has nothing.
    #[inline]
    pub fn has_buffered(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_buffered())
    }

    /// Whether the socket may have input that was reported already, after a read of `count` bytes into `room_bytes` of memory.
    #[inline]
    pub fn may_be_unread(&self, count: usize, room_bytes: usize) -> bool {
        match &self.tls {
            Some(tls) => tls.is_unread(),
            None => count == room_bytes,
        }
    }

    /// Whether bytes that [`Transport::send`] accepted still wait for the socket. A plain socket has none.
    #[inline]
    pub fn owes(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.owes())
    }

    /// Sends bytes that wait for the socket. Returns false if the connection is broken.
    ///
    /// Cost: one system call, if there are any.
    #[inline]
    pub fn flush(&self) -> bool {
        match &self.tls {
            Some(tls) if tls.owes() => self.flush_records(tls),
            _ => true,
        }
    }

    fn flush_records(&self, tls: &Tls) -> bool {
        let (flushed, is_shutdown_due) = tls.with(|session| {
            let flushed = session.flush(self.socket.as_fd());
            (flushed.is_ok(), session.is_shutdown_due())
        });
        if is_shutdown_due {
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
        flushed
    }

    /// Bytes that the transport holds in memory.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
    }

    /// What applications may know of the TLS session; None on a plain connection, and before the handshake is complete.
    pub fn tls_details(&self) -> Option<TlsDetails> {
        self.tls.as_ref()?.with(|session| session.details())
    }

    /// What both sides have agreed on in the TLS handshake, when that is complete.
    pub fn agreement(&self) -> Option<Agreement> {
        self.tls.as_ref()?.with(|session| session.agreement())
    }

    /// The protocol that both sides agreed on in the TLS handshake (RFC 7301).
    pub fn protocol(&self) -> Option<Vec<u8>> {
        let tls = self.tls.as_ref()?;
        tls.with(|session| session.protocol().map(<[u8]>::to_vec))
    }

    /// Bytes that arrived and were not received.
    ///
    /// Cost: one system call.
    pub fn unread_bytes(&self) -> u64 {
        let buffered = match &self.tls {
            Some(tls) => tls.with(|session| session.content_bytes() as u64),
            None => 0,
        };
        buffered + rustix::io::ioctl_fionread(&self.socket).unwrap_or(0)
    }

    /// Bytes that were sent and that the peer's kernel has not acknowledged. On a UNIX socket: that its program has not read, with the
    /// kernel's overhead.
    ///
    /// Cost: one system call.
    pub fn unacknowledged_bytes(&self) -> u64 {
        let owed = match &self.tls {
            Some(tls) if tls.owes() => tls.with(|session| session.owed_bytes() as u64),
            _ => 0,
        };
        owed + sys::unacknowledged_bytes(&self.socket)
    }

    /// Announces that nothing more is sent, with TLS; the end of the connection, or of its sending side, follows at once and shares the
    /// packet. Returns true unless the announcement waits for the socket.
    ///
    /// Cost: one system call with TLS, the first time.
    pub fn announce_end(&self) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        let announced = |tls: &Tls| tls.with(|session| session.close(self.socket.as_fd(), flags));
        self.tls.as_deref().is_none_or(announced)
    }

    /// Closing, first step: shuts down the sending side; the peer reads everything that was sent and then the end. The second step is to
    /// drop the transport. If bytes wait for the socket, [`Transport::flush`] completes the first step.
    pub fn shutdown_send(&self) {
        if !self.announce_end()
            && let Some(tls) = &self.tls
        {
            return tls.with(|session| session.shut_down_later());
        }
        // A failure means that the connection is gone, which the next read reports.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends both sides at once, even if another process (a forked child) holds the descriptor: the peer sees an ordinary end.
    pub fn shutdown_both(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether the kernel resets the connection when it is closed, also by the end of the process, so that the end is not mistaken for the
    /// end of a response.
    pub fn set_reset_on_close(&self, is_on: bool) {
        // If this fails, the connection ends in the ordinary way.
        let linger = is_on.then_some(Duration::ZERO);
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, linger);
    }

    /// Resets the connection, even if another process holds the descriptor. The peer cannot mistake its end for the end of a response, and
    /// unsent bytes are dropped. A UNIX socket ends in the ordinary way.
    pub fn reset(&self) {
        if rustix::net::connect_unspec(&self.socket).is_err() {
            self.shutdown_both();
        }
    }

    /// The peer's address, according to the kernel.
    pub fn peer(&self) -> Peer {
        Peer::from(getpeername(&self.socket).ok().flatten())
    }

    /// The local address, according to the kernel.
    pub fn local(&self) -> Peer {
        Peer::from(getsockname(&self.socket).ok())
    }

    /// Sends what the kernel delays because more was announced, which does not follow. Setting TCP_NODELAY again does that, see tcp(7).
    pub fn push(&self) {
        self.set_no_delay();
    }

    /// Sends small writes at once instead of waiting for more (TCP_NODELAY). No effect on a UNIX socket.
    pub fn set_no_delay(&self) {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&self.socket, true);
    }
}

/// The first of these parts that is not empty.
pub(crate) fn first_of<'a>(parts: &[&'a [u8]]) -> &'a [u8] {
    let first = parts.iter().find(|part| !part.is_empty());
    first.copied().unwrap_or_default()
}

fn retry_on_interruption<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn received(read: rustix::io::Result<usize>) -> Received {
    match read {
        Ok(0) => Received::End,
        Ok(count) => Received::Bytes(count),
        Err(Errno::AGAIN) => Received::Blocked,
        Err(error) => Received::Broken(error.into()),
    }
}

impl From<Option<SocketAddrAny>> for Peer {
    fn from(address: Option<SocketAddrAny>) -> Peer {
        let internet = address.and_then(|address| SocketAddr::try_from(address).ok());
        internet.map_or(Peer::Local, Peer::Internet)
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
