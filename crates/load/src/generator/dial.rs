//! Opening connections without waiting.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use net::Transport;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};

use super::Address;

/// An address in the form that `connect` takes.
pub(super) enum Destination {
    Internet(SocketAddr),
    Local(SocketAddrUnix),
}

impl Destination {
    /// # Errors
    /// If a UNIX socket's path is too long.
    pub(super) fn new(address: &Address) -> io::Result<Destination> {
        Ok(match address {
            Address::Internet(address) => Destination::Internet(*address),
            Address::Local(path) => Destination::Local(SocketAddrUnix::new(path)?),
        })
    }

    /// Starts to connect; the socket becomes writable when that is done.
    pub(super) fn connect(&self, source: Option<IpAddr>) -> Result<Transport, Errno> {
        let socket = match self {
            Destination::Internet(SocketAddr::V4(_)) => stream(AddressFamily::INET)?,
            Destination::Internet(SocketAddr::V6(_)) => stream(AddressFamily::INET6)?,
            Destination::Local(_) => stream(AddressFamily::UNIX)?,
        };
        let result = match self {
            Destination::Internet(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                if let Some(source) = source {
                    bind(&socket, &SocketAddr::new(source, 0))?;
                }
                connect(&socket, address)
            }
            Destination::Local(address) => connect(&socket, address),
        };
        match result {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Transport::new(socket)),
            Err(error) => Err(error),
        }
    }
}

fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, None)
}
