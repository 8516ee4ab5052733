//! A connected socket, with the functions that TLS will have too: receive, send, what it holds back, and a close in two steps.

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

use crate::{sigpipe, sys};

/// A connected stream socket in non-blocking mode. Dropping it closes it.
pub struct Transport {
    socket: OwnedFd,
}

/// The address of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Peer {
    /// An Internet address and port.
    Internet(SocketAddr),
    /// The path of a listening UNIX socket.
    Unix(&'static str),
    /// A client on a UNIX socket, or a connection that is gone: no address worth the name.
    #[default]
    Local,
}

/// What one attempt to read brought.
#[derive(Debug)]
pub enum Received {
    /// That many bytes (never 0).
    Bytes(usize),
    /// Nothing is there now.
    Blocked,
    /// The peer ended its sending side.
    End,
    /// The connection is broken.
    Broken(io::Error),
}

/// What one attempt to write did.
#[derive(Debug)]
pub enum Sent {
    /// That many bytes were taken; less than given means that the socket is full.
    Bytes(usize),
    /// The connection is broken.
    Broken(io::Error),
}

/// What one attempt to send a part of a file did.
#[derive(Debug)]
pub enum FileSent {
    /// That many bytes were taken (never 0). Only [`FileSent::Blocked`] means that the socket is full.
    Bytes(u64),
    /// The socket is full.
    Blocked,
    /// The file ends before that part, or cannot be read.
    Unreadable,
    /// The connection is broken.
    Broken(io::Error),
}

/// Bytes of a file that are read at once, where the kernel cannot send from the file itself.
const FILE_READ_BYTES: u64 = 65_536;

impl Transport {
    /// Takes over a connected socket that is non-blocking already.
    pub fn new(socket: OwnedFd) -> Transport {
        Transport { socket }
    }

    /// Takes over a connected socket of which it is not known.
    ///
    /// # Errors
    /// When it cannot be made non-blocking.
    pub fn from_blocking(socket: OwnedFd) -> io::Result<Transport> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Transport { socket })
    }

    /// Reads what is there, up to `buffer`'s length.
    ///
    /// Cost: one system call: recv, which takes a shorter way to the socket than read does.
    pub fn receive(&self, buffer: &mut [u8]) -> Received {
        received(retry_on_intr(|| {
            let received = recv(&self.socket, &mut *buffer, RecvFlags::empty());
            received.map(|(_, count)| count)
        }))
    }

    /// As [`Transport::receive`], into memory of which nothing has been written: from its start, as many bytes as are told.
    ///
    /// Cost: one system call.
    pub fn receive_into(&self, room: &mut [MaybeUninit<u8>]) -> Received {
        received(retry_on_intr(|| {
            let received = recv(&self.socket, &mut *room, RecvFlags::empty());
            received.map(|(_, count)| count)
        }))
    }

    /// Writes as much of `bytes` as the socket takes.
    ///
    /// Cost: one system call.
    pub fn send(&self, bytes: &[u8]) -> Sent {
        self.send_with(bytes, SendFlags::NOSIGNAL)
    }

    /// As [`Transport::send`], of bytes that something follows at once, so that both leave in one packet: more bytes, part of a file, or
    /// the end of the connection or of its sending side.
    ///
    /// Cost: one system call.
    pub fn send_more(&self, bytes: &[u8]) -> Sent {
        self.send_with(bytes, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    fn send_with(&self, bytes: &[u8], flags: SendFlags) -> Sent {
        match retry_on_intr(|| send(&self.socket, bytes, flags)) {
            Ok(count) => Sent::Bytes(count),
            Err(Errno::AGAIN) => Sent::Bytes(0),
            Err(error) => Sent::Broken(error.into()),
        }
    }

    /// Sends up to `length` bytes, which is not 0, of `file` from `offset` on, without reading them into memory if that can be done.
    /// What is not in the page cache is waited for.
    ///
    /// On a broken connection, sendfile raises SIGPIPE and cannot be asked not to. CPython and Rust's programs ignore it; where an
    /// application has changed that, the file is read and sent.
    ///
    /// Cost: two system calls, of which one asks for that.
    pub fn send_file(&self, file: &File, offset: u64, length: u64) -> FileSent {
        if !sigpipe::is_ignored() {
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
            // It does not tell which of the two failed, or whether only both together do not work.
            Err(_) => self.send_file_by_reading(file, offset, length),
        }
    }

    /// As [`Transport::send_file`], for files that the kernel cannot send from, and for what has to be changed on its way.
    #[cold]
    fn send_file_by_reading(&self, file: &File, offset: u64, length: u64) -> FileSent {
        let mut content = vec![0; length.min(FILE_READ_BYTES) as usize];
        let Ok(count @ 1..) = retry_on_interruption(|| file.read_at(&mut content, offset)) else {
            return FileSent::Unreadable;
        };
        match self.send(content.get(..count).unwrap_or_default()) {
            Sent::Bytes(0) => FileSent::Blocked,
            Sent::Bytes(count) => FileSent::Bytes(count as u64),
            Sent::Broken(error) => FileSent::Broken(error),
        }
    }

    /// Bytes that were read from the socket and not yet given by [`Transport::receive`]: an event for them never comes. A plain socket
    /// has none.
    #[inline]
    pub fn has_buffered(&self) -> bool {
        false
    }

    /// Whether bytes that were accepted by [`Transport::send`] still wait for the socket to take them. A plain socket accepts only what
    /// it takes.
    #[inline]
    pub fn owes(&self) -> bool {
        false
    }

    /// Bytes that arrived and were not received.
    ///
    /// Cost: one system call.
    pub fn unread_bytes(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.socket).unwrap_or(0)
    }

    /// Bytes that were sent and that the peer's kernel has not acknowledged. On a UNIX socket: that its program has not read, with the
    /// kernel's overhead.
    ///
    /// Cost: one system call.
    pub fn unacknowledged_bytes(&self) -> u64 {
        sys::unacknowledged_bytes(&self.socket)
    }

    /// Closing, first step: ends our sending side; the peer reads all that was sent and then the end. The second step is to drop the
    /// transport.
    pub fn shutdown_send(&self) {
        // A failure means that the connection is gone, which the next read reports.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends both sides at once, whoever else holds the descriptor (a child that was forked): the peer sees an ordinary end.
    pub fn shutdown_both(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether the kernel resets the connection when it is closed, also by the end of the process: so that nobody takes that end for the end
    /// of a response.
    pub fn set_reset_on_close(&self, is_on: bool) {
        // A failure leaves an ordinary end.
        let linger = is_on.then_some(Duration::ZERO);
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, linger);
    }

    /// Resets the connection, whoever else holds the descriptor: the peer cannot take its end for the end of a response, and what was not
    /// sent is dropped. A UNIX socket ends in the ordinary way.
    pub fn reset(&self) {
        if rustix::net::connect_unspec(&self.socket).is_err() {
            self.shutdown_both();
        }
    }

    /// The peer's address, asked from the kernel.
    pub fn peer(&self) -> Peer {
        Peer::from(getpeername(&self.socket).ok().flatten())
    }

    /// Our own address, asked from the kernel.
    pub fn local(&self) -> Peer {
        Peer::from(getsockname(&self.socket).ok())
    }

    /// Sends what the kernel keeps because more was said to follow: nothing does. Setting TCP_NODELAY anew does that, see tcp(7).
    pub fn push(&self) {
        self.set_no_delay();
    }

    /// Sends small writes at once instead of waiting for more (TCP_NODELAY). Nothing happens on a UNIX socket.
    pub fn set_no_delay(&self) {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&self.socket, true);
    }
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
