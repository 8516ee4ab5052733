//! The ceiling: a responder that does not parse, as a fixed-response baseline for this machine.
//!
//! One thread, one edge-triggered epoll set, one read per readiness into one buffer, one send per batch: like Bolide, but without HTTP. It
//! counts request ends and sends as many prepared responses. It needs two facts of HTTP, which it reads from a connection's first request
//! only: whether to close afterwards, and whether the client uses HTTP/1.0 (ApacheBench). A connection that starts with the preface of
//! HTTP/2 gets the same as frames (`frames.rs`), one that asks for WebSocket gets its messages back (`messages.rs`), with TLS or without.

mod connection;
mod counter;
mod frames;
mod messages;
mod response;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::{
    Accepted, Clock, Events, Interest, Interrupted, Listener, Offer, Pair, Poller, Readiness,
    ServerPair, TicketSecret, TlsConfig, precise_ns,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use connection::{Connection, Outcome};
use counter::Counter;
use response::Responses;

/// The number of pending connections that the kernel allows by default (net.core.somaxconn).
const BACKLOG: i32 = 4096;
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// Maximum length of a wait: the stop flag and the date are checked this often.
const WAIT_MS: u64 = 100;
const LISTENER: u64 = u64::MAX - 1;

/// Responds to requests on `address` until `seconds` have passed or a signal interrupts; returns the number of responses.
///
/// `size` is the content length of a response; `ready` is called with the bound address when connections are accepted.
///
/// # Errors
/// If the address cannot be bound, or the poller fails.
pub fn run(
    address: SocketAddr,
    size: usize,
    seconds: Option<f64>,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<u64> {
    let mut ceiling = Ceiling::bind(address, size)?;
    ready(ceiling.address());
    ceiling.run(seconds, &AtomicBool::new(false))
}

/// A bound ceiling.
pub struct Ceiling {
    address: SocketAddr,
    listener: Listener,
    poller: Poller,
    clock: Clock,
    responder: Responder,
    /// Indexed by descriptor.
    connections: Vec<Option<Connection>>,
}

/// Counts requests and supplies responses, for all connections.
struct Responder {
    buffer: Box<[u8]>,
    counter: Counter,
    responses: Responses,
    response_count: u64,
}

impl Ceiling {
    /// Listens on `address` (port 0: any free port).
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(address: SocketAddr, size: usize) -> io::Result<Ceiling> {
        crate::raise_descriptor_limit();
        let socket = listening_socket(address)?;
        let address = socket.local_addr()?;
        let clock = Clock::new();
        let responder = Responder {
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            counter: Counter::default(),
            responses: Responses::new(size, clock.unix_s()),
            response_count: 0,
        };
        let ceiling = Ceiling {
            address,
            listener: Listener::new(socket.into())?,
            poller: Poller::new()?,
            clock,
            responder,
            connections: Vec::new(),
        };
        ceiling
            .poller
            .add(&ceiling.listener, LISTENER, Interest::READ)?;
        Ok(ceiling)
    }

    /// Has its connections use TLS, with HTTP/2 or HTTP/1.1 as the client prefers.
    ///
    /// # Errors
    /// If the pair cannot be used; one line.
    pub fn with_tls(mut self, pair: Pair<'_>) -> Result<Ceiling, String> {
        let tickets = TicketSecret::new().map_err(|error| error.to_string())?;
        let pair = ServerPair::read(pair, None).map_err(|error| error.to_string())?;
        let config = TlsConfig::offer(Offer {
            pairs: vec![pair],
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            tickets: Some(Arc::new(tickets)),
            ..Offer::default()
        });
        let config = config.map_err(|error| error.to_string())?;
        self.listener = self.listener.with_tls(Arc::new(config));
        Ok(self)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Responds to requests until `seconds` have passed, `stop` is set or a signal interrupts; returns the number of responses.
    ///
    /// # Errors
    /// If the poller fails.
    pub fn run(&mut self, seconds: Option<f64>, stop: &AtomicBool) -> io::Result<u64> {
        let length = seconds.map(|seconds| Duration::from_secs_f64(seconds.max(0.0)).as_nanos());
        let started_ns = precise_ns();
        let mut events = Events::default();
        while !stop.load(Ordering::Relaxed) {
            let passed_ns = u128::from(precise_ns() - started_ns);
            if length.is_some_and(|length| passed_ns >= length) {
                break;
            }
            if self.poller.wait(&mut events, Some(WAIT_MS))? == Interrupted(true) {
                break;
            }
            if self.clock.refresh() {
                self.responder.responses.set_date(self.clock.unix_s());
            }
            for readiness in events.iter() {
                self.serve(*readiness);
            }
        }
        Ok(self.responder.response_count)
    }

    fn serve(&mut self, readiness: Readiness) {
        if readiness.token == LISTENER {
            return self.accept();
        }
        let Some(slot) = self.connections.get_mut(readiness.token as usize) else {
            return;
        };
        let Some(connection) = slot else { return };
        let before = connection.interest();
        if connection.serve(&mut self.responder) == Outcome::Close {
            *slot = None;
            return;
        }
        let after = connection.interest();
        // An edge-triggered set would not report these again.
        let may_have_more = readiness.has_ended() || connection.filled_buffer;
        if (after != before || may_have_more)
            && self
                .poller
                .modify_edge(connection.as_fd(), readiness.token, after)
                .is_err()
        {
            *slot = None;
        }
    }

    /// Accepts pending connections. A request that arrived with its connection gets its response before the connection is watched.
    fn accept(&mut self) {
        while let Accepted::Connection(transport, _) = self.listener.accept() {
            transport.set_no_delay();
            let mut connection = Connection::new(transport);
            if connection.serve(&mut self.responder) == Outcome::Close {
                continue;
            }
            let index = connection.as_fd().as_raw_fd() as usize;
            let interest = connection.interest();
            if self
                .poller
                .add_edge(connection.as_fd(), index as u64, interest)
                .is_err()
            {
                continue;
            }
            if self.connections.len() <= index {
                self.connections.resize_with(index + 1, || None);
            }
            if let Some(slot) = self.connections.get_mut(index) {
                *slot = Some(connection);
            }
        }
    }
}

fn listening_socket(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
