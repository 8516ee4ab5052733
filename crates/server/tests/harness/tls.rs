//! A client's side of TLS, over any socket.

#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses a part of this"
)]

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use net::{Pair, TlsConfig};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// How the server's side has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a close_notify.
    Announced,
    /// Without one.
    Silent,
    /// With a reset.
    Reset,
    /// With an alert, or by what the client refused.
    Failed(String),
}

/// The client's side of one connection.
pub(crate) struct TlsClient {
    connection: ClientConnection,
    pub(crate) received: Vec<u8>,
    pub(crate) end: Option<End>,
}

/// Both sides' configurations, with one certificate.
pub(crate) fn configs() -> &'static (Arc<TlsConfig>, Arc<ClientConfig>) {
    static CONFIGS: OnceLock<(Arc<TlsConfig>, Arc<ClientConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| make_configs(&[b"http/1.1"], &[]))
}

/// The same for HTTP/2, which both sides agree upon.
pub(crate) fn h2_configs() -> &'static (Arc<TlsConfig>, Arc<ClientConfig>) {
    static CONFIGS: OnceLock<(Arc<TlsConfig>, Arc<ClientConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| make_configs(&[b"h2", b"http/1.1"], &[b"h2"]))
}

fn make_configs(served: &[&[u8]], asked: &[&[u8]]) -> (Arc<TlsConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let (certificates, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Pair {
        certificates: certificates.as_bytes(),
        key: key.as_bytes(),
    };
    let server = TlsConfig::new(pair, served).expect("a pair that is usable");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let mut client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = asked.iter().map(|it| it.to_vec()).collect();
    (Arc::new(server), Arc::new(client))
}

/// A socket that does not block, and never raises a signal.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = recv(self.0.as_fd(), buffer, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0.as_fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsClient {
    pub(crate) fn new() -> TlsClient {
        TlsClient::with(&configs().1)
    }

    pub(crate) fn with(config: &Arc<ClientConfig>) -> TlsClient {
        let name = ServerName::try_from("localhost").expect("a name");
        let config = Arc::clone(config);
        let mut connection = ClientConnection::new(config, name).expect("a configuration");
        connection.set_buffer_limit(None);
        TlsClient {
            connection,
            received: Vec::new(),
            end: None,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Has `content` sent after the handshake.
    pub(crate) fn offer(&mut self, content: &[u8]) {
        let offered = self.connection.writer().write_all(content);
        offered.expect("there is no limit");
    }

    /// Has the end of the sending side announced.
    pub(crate) fn offer_end(&mut self) {
        self.connection.send_close_notify();
    }

    pub(crate) fn update_keys(&mut self) {
        let updated = self.connection.refresh_traffic_keys();
        updated.expect("the handshake is complete");
    }

    /// Records that are to be sent.
    pub(crate) fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            let written = self.connection.write_tls(&mut records);
            written.expect("memory accepts everything");
        }
        records
    }

    /// Sends records as far as the socket accepts them. Returns whether it accepted any.
    pub(crate) fn push(&mut self, socket: &OwnedFd) -> bool {
        let mut is_any = false;
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(_) => is_any = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The server has gone, which is read.
                Err(_) => return is_any,
            }
        }
        is_any
    }

    /// Receives what is available, and sends what that asks for. Returns whether there was anything.
    pub(crate) fn pull(&mut self, socket: &OwnedFd) -> bool {
        self.pull_some(socket, usize::MAX) | self.push(socket)
    }

    /// Receives up to `most` bytes. Returns whether there was anything.
    pub(crate) fn pull_some(&mut self, socket: &OwnedFd, most: usize) -> bool {
        let mut left = most;
        while self.end.is_none() && left > 0 {
            let mut source = Socket(socket).take(left as u64);
            match self.connection.read_tls(&mut source) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.end = Some(End::Reset),
                Ok(count) => {
                    left = left.saturating_sub(count.max(1));
                    self.take_in();
                }
            }
        }
        left < most || self.end == Some(End::Reset)
    }

    fn take_in(&mut self) {
        let processed = self.connection.process_new_packets();
        let mut reader = self.connection.reader();
        let read = reader.read_to_end(&mut self.received);
        self.end = match (processed, read) {
            (Err(error), _) => Some(End::Failed(error.to_string())),
            (Ok(_), Ok(_)) => Some(End::Announced),
            (Ok(_), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => None,
            (Ok(_), Err(_)) => Some(End::Silent),
        };
    }
}
