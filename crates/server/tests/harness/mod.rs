//! A server without sockets and threads of its own: tests decide what arrives, and run each pass.

#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses a part of this"
)]

mod app;
pub(crate) mod carrier;
pub(crate) mod causes;
mod client;
pub(crate) mod connected;
pub(crate) mod h2;
pub(crate) mod tls;
pub(crate) mod websocket;

pub(crate) use app::TestApp;
pub(crate) use client::{Client, ClientResponse};

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use server::{Abort, AccessLog, Command, Config, ExchangeId, Mailbox, Response, Worker};

/// The longest wait of a test; only failures take that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) worker: Worker<TestApp>,
    mailbox: Arc<Mailbox>,
}

impl Server {
    /// A server with all defaults and without an access log.
    pub(crate) fn new() -> Server {
        Server::with(|_| ())
    }

    pub(crate) fn with(set: impl FnOnce(&mut Config)) -> Server {
        Server::logging(set, None)
    }

    pub(crate) fn logging(set: impl FnOnce(&mut Config), log: Option<AccessLog>) -> Server {
        let mut config = Config::default();
        set(&mut config);
        let mailbox = Arc::new(Mailbox::default());
        let app = TestApp::new(Arc::clone(&mailbox));
        let worker = Worker::new(app, config, log, Arc::clone(&mailbox)).expect("an epoll set");
        Server { worker, mailbox }
    }

    /// A server whose time is what the returned number says, in milliseconds.
    pub(crate) fn with_manual_clock(set: impl FnOnce(&mut Config)) -> (Server, Arc<AtomicU64>) {
        let mut config = Config::default();
        set(&mut config);
        let now_ms = Arc::new(AtomicU64::new(1_000_000));
        let mailbox = Arc::new(Mailbox::default());
        let app = TestApp::new(Arc::clone(&mailbox));
        let clock = net::Clock::manual(Arc::clone(&now_ms));
        let worker = Worker::with_clock(app, config, None, Arc::clone(&mailbox), clock);
        let worker = worker.expect("an epoll set");
        (Server { worker, mailbox }, now_ms)
    }

    /// A connection that the server has adopted.
    pub(crate) fn connect(&mut self) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        self.worker.adopt(theirs.into()).expect("a usable socket");
        Client::new(ours.into())
    }

    /// A connection over TLS that the server has adopted.
    pub(crate) fn connect_with_tls(&mut self, tls: &net::TlsConfig) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let adopted = self.worker.adopt_with_tls(theirs.into(), tls);
        adopted.expect("a usable socket");
        Client::new(ours.into())
    }

    /// A connection whose client side the application can read.
    pub(crate) fn connect_with_witness(&mut self) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        self.worker.adopt(theirs.into()).expect("a usable socket");
        let witness = ours.try_clone().expect("a descriptor");
        witness.set_nonblocking(true).expect("a socket");
        self.worker.app.witness = Some(witness);
        Client::new(ours.into())
    }

    /// A connection on which each send of the server arrives as a separate packet.
    pub(crate) fn connect_by_packets(&mut self) -> Client {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) =
            socketpair(family, kind, SocketFlags::CLOEXEC, None).expect("a pair of sockets");
        self.worker.adopt(theirs).expect("a usable socket");
        Client::new(ours)
    }

    /// A connection over TCP.
    pub(crate) fn connect_by_tcp(&mut self) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let ours = TcpStream::connect(address).expect("a listening socket");
        let (theirs, _) = listener.accept().expect("a connection that waits");
        self.adopt(theirs.into());
        Client::new(ours.into())
    }

    /// Adopts a connection whose client may have sent something already.
    pub(crate) fn adopt(&mut self, socket: OwnedFd) {
        self.worker.adopt(socket).expect("a usable socket");
    }

    /// One pass of the reactor that does not wait.
    pub(crate) fn pass(&mut self) {
        self.pass_within(0);
    }

    /// One pass that waits until something is ready, at most `most_ms`.
    pub(crate) fn pass_within(&mut self, most_ms: u64) {
        let wait_ms = self
            .worker
            .before_wait()
            .map_or(most_ms, |ms| ms.min(most_ms));
        self.worker
            .wait(Some(wait_ms))
            .expect("the epoll set works");
        assert!(!self.worker.dispatch(), "nothing foreign is watched");
    }

    /// Passes until nothing more happens by itself.
    pub(crate) fn settle(&mut self) {
        for _ in 0..8 {
            self.pass();
        }
    }

    /// Passes until `is_done`, waiting for deadlines too.
    pub(crate) fn pass_until(&mut self, mut is_done: impl FnMut(&mut Server) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_done(self) {
            assert!(Instant::now() < end, "it did not happen in time");
            self.pass_within(20);
        }
    }

    /// Serves what `client` has sent and reads a response to a GET.
    pub(crate) fn response(&mut self, client: &mut Client) -> ClientResponse {
        self.response_to(client, "GET")
    }

    pub(crate) fn response_to(&mut self, client: &mut Client, method: &str) -> ClientResponse {
        let mut response = None;
        self.pass_until(|_| {
            response = client.take_response(method);
            response.is_some()
        });
        response.expect("pass_until has waited for it")
    }

    /// Sends and reads the response.
    pub(crate) fn ask(&mut self, client: &mut Client, request: &str) -> ClientResponse {
        client.send(request);
        self.response(client)
    }

    /// Waits for the server's end of the connection, which must arrive without a reset and without more bytes.
    pub(crate) fn expect_end(&mut self, client: &mut Client) {
        self.pass_until(|_| client.is_ended());
        assert_eq!(client.rest(), "");
        assert!(!client.was_reset, "the connection was reset");
    }

    /// Posts a handler's command.
    pub(crate) fn post(&self, id: ExchangeId, command: Command) {
        self.mailbox.post(id, command);
    }

    /// Publishes a text.
    pub(crate) fn publish(&self, topic: &str, text: &str) {
        let (topic, text) = (topic.as_bytes(), text.as_bytes());
        let published = self.mailbox.publish(topic, server::MessageKind::Text, text);
        published.expect("memory");
    }

    /// How the WebSocket with that target ended, which must have happened at most once.
    pub(crate) fn closed(&self, target: &str) -> Option<(u16, String)> {
        let id = self.exchange(target);
        let closed = &self.worker.app.closed;
        let mut of_it = closed.iter().filter(|(closed, _)| *closed == id);
        let how = of_it
            .next()
            .map(|(_, how)| (how.code.0, how.reason.clone()));
        assert!(of_it.next().is_none(), "{target} was closed twice");
        how
    }

    /// Posts a whole response with that content.
    pub(crate) fn respond(&self, id: ExchangeId, content: &str) {
        self.post(id, Command::Respond(response(200, content)));
    }

    /// The exchange of the request with that target.
    pub(crate) fn exchange(&self, target: &str) -> ExchangeId {
        let called = &self.worker.app.called;
        called
            .iter()
            .rfind(|each| each.target == target)
            .expect("it was called")
            .id
    }

    /// The targets of the calls, in order.
    pub(crate) fn targets(&self) -> Vec<&str> {
        self.worker
            .app
            .called
            .iter()
            .map(|each| each.target.as_str())
            .collect()
    }

    /// Why `target`'s exchange was aborted, which must have happened at most once.
    pub(crate) fn abort_of(&self, target: &str) -> Option<Abort> {
        let id = self.exchange(target);
        let mut reasons = self
            .worker
            .app
            .aborted
            .iter()
            .filter(|(aborted, _)| *aborted == id);
        let reason = reasons.next().map(|(_, why)| *why);
        assert!(reasons.next().is_none(), "{target} was aborted twice");
        reason
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.worker.is_empty()
    }
}

pub(crate) fn response(status: u16, content: &str) -> Response {
    Response {
        status,
        content: content.into(),
        ..Response::default()
    }
}

/// A GET request that keeps the connection open.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// A POST request whose content has a known length.
pub(crate) fn post(target: &str, content: &str) -> String {
    let length = content.len();
    format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{content}")
}

/// The head of a POST request with chunked content.
pub(crate) fn post_chunked(target: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
}
