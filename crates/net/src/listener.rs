//! Listening sockets: accepting, and when that pauses.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, acceptfrom_with, getsockname};

use crate::tls::TlsConfig;
use crate::{Peer, Transport};

/// A listening socket, TCP or UNIX, in non-blocking mode.
pub struct Listener {
    socket: OwnedFd,
    /// What its connections use for TLS, if they do.
    tls: Option<Arc<TlsConfig>>,
}

/// The result of one attempt to accept.
pub enum Accepted {
    /// A connection, in non-blocking mode.
    Connection(Transport, Peer),
    /// None is waiting.
    None,
    /// This one failed before it was accepted; others may be waiting.
    Lost,
    /// The process or the system lacks something for one: try again later, not at once.
    Exhausted(Lack),
}

/// What there is none of for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// The process, or the system, has as many descriptors as it may have. The kernel looks for one before it looks for a connection.
    Descriptors,
    /// The kernel has no memory for one.
    Memory,
}

impl Listener {
    /// Takes over a socket that is listening. Its connections send small writes at once (TCP_NODELAY is inherited).
    ///
    /// # Errors
    /// If it cannot be made non-blocking.
    pub fn new(socket: OwnedFd) -> io::Result<Listener> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Fails on a UNIX socket, which has no such option.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        Ok(Listener { socket, tls: None })
    }

    /// Has its connections use TLS from their first byte on.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<TlsConfig>) -> Listener {
        self.tls = Some(config);
        self
    }

    /// Whether its connections use TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Has its next connections use another configuration, if they use TLS.
    pub fn renew_tls(&mut self, config: &Arc<TlsConfig>) {
        if let Some(tls) = &mut self.tls {
            *tls = Arc::clone(config);
        }
    }

    /// Accepts one connection, with its peer's address.
    ///
    /// Cost: one system call.
    pub fn accept(&self) -> Accepted {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match acceptfrom_with(&self.socket, flags) {
            Ok((socket, address)) => {
                let transport = Transport::new(socket);
                let transport = match &self.tls {
                    None => transport,
                    Some(config) => transport.with_tls(config),
                };
                Accepted::Connection(transport, Peer::from(address))
            }
            Err(error) => refused(error),
        }
    }

    /// Whether a connection waits.
    ///
    /// Cost: one system call.
    pub fn has_waiting(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // If that is not known, one may wait.
        !matches!(poll(&mut polled, Some(&at_once)), Ok(0))
    }

    /// The local address.
    pub fn local(&self) -> Peer {
        let address = getsockname(&self.socket).ok();
        let unix = address.clone().map(SocketAddrUnix::try_from);
        match unix {
            Some(Ok(unix)) => unix.path().map_or(Peer::Local, |path| {
                Peer::Unix(kept(&path.to_string_lossy()))
            }),
            _ => Peer::from(address),
        }
    }
}

fn refused(error: Errno) -> Accepted {
    match error {
        Errno::AGAIN => Accepted::None,
        Errno::MFILE | Errno::NFILE => Accepted::Exhausted(Lack::Descriptors),
        Errno::NOBUFS | Errno::NOMEM => Accepted::Exhausted(Lack::Memory),
        _ => Accepted::Lost,
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Keeps a path for the life of the process: addresses are copied with each connection, and listeners are few.
fn kept(path: &str) -> &'static str {
    static PATHS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    match paths.iter().find(|known| **known == path) {
        Some(known) => known,
        None => {
            let new: &'static str = Box::leak(path.into());
            paths.push(new);
            new
        }
    }
}
