//! What a server knows of a TLS connection belongs to that connection, however its handshake runs.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use net::{Offer, Pair, Received, ServerPair, TlsConfig, TlsDetails, Transport};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error, NamedGroup, RootCertStore};

const NAMES: [&str; 3] = ["a.example", "b.example", "c.example"];

/// A server with a certificate for each of [`NAMES`], and clients that trust them.
struct Server {
    config: TlsConfig,
    roots: RootCertStore,
    certificates: Vec<Vec<u8>>,
}

impl Server {
    fn new() -> Server {
        let (mut pairs, mut roots) = (Vec::new(), RootCertStore::empty());
        let mut certificates = Vec::new();
        for name in NAMES {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("works");
            roots.add(made.cert.der().clone()).expect("works");
            certificates.push(made.cert.der().to_vec());
            let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            let pair = Pair {
                certificates: chain.as_bytes(),
                key: key.as_bytes(),
            };
            pairs.push(ServerPair::read(pair, None).expect("works"));
        }
        let config = TlsConfig::offer(Offer {
            pairs,
            ..Offer::default()
        });
        Server {
            config: config.expect("works"),
            roots,
            certificates,
        }
    }

    /// A connection whose client asks for a name, and makes the server send a HelloRetryRequest if it `is_retried`.
    fn connect(&self, name: &str, is_retried: bool) -> Connection {
        let mut provider = aws_lc_rs::default_provider();
        if is_retried {
            provider.kx_groups.insert(0, &UnknownGroup);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("works")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("works");
        let (socket, theirs) = UnixStream::pair().expect("works");
        socket.set_nonblocking(true).expect("works");
        Connection {
            client: ClientConnection::new(Arc::new(config), name).expect("works"),
            socket,
            server: Transport::from_blocking(theirs.into())
                .expect("works")
                .with_tls(&self.config),
        }
    }

    /// Asserts that a connection has a name and its certificate.
    fn assert_is_of(&self, connection: &Connection, index: usize) {
        let details = connection.details();
        assert_eq!(details.server_name.as_deref(), Some(NAMES[index]));
        assert_eq!(
            details.server_certificate.as_ref(),
            Some(&self.certificates[index])
        );
    }
}

struct Connection {
    client: ClientConnection,
    socket: UnixStream,
    server: Transport,
}

impl Connection {
    fn details(&self) -> TlsDetails {
        self.server
            .tls_details()
            .expect("the handshake is complete")
    }

    fn serve(&mut self) {
        let received = self.server.receive(&mut [0; 100]);
        assert!(matches!(received, Received::Blocked), "{received:?}");
    }

    /// Sends the client's first message, but for what follows `count` bytes, which is returned.
    fn begin(&mut self, count: usize) -> Vec<u8> {
        let mut hello = Vec::new();
        self.client.write_tls(&mut hello).expect("works");
        let rest = hello.split_off(count);
        self.socket.write_all(&hello).expect("works");
        self.serve();
        rest
    }

    fn complete(&mut self, rest: &[u8]) {
        self.socket.write_all(rest).expect("works");
        self.serve();
        while self.client.is_handshaking() || self.client.wants_write() {
            match self.client.read_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                moved => assert_ne!(moved.expect("works"), 0),
            }
            self.client.process_new_packets().expect("works");
            while self.client.wants_write() {
                self.client.write_tls(&mut self.socket).expect("works");
            }
            self.serve();
        }
    }
}

/// A group that no server knows, so that it asks for another one.
#[derive(Debug)]
struct UnknownGroup;

impl SupportedKxGroup for UnknownGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(UnknownGroup))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

impl ActiveKeyExchange for UnknownGroup {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, Error> {
        Err(Error::General("the server knows it".to_owned()))
    }

    fn pub_key(&self) -> &[u8] {
        &[4; 133]
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[test]
fn a_client_that_is_asked_to_retry_leaves_nothing_to_the_next_ones() {
    let server = Server::new();
    let mut first = server.connect(NAMES[0], true);
    first.complete(&[]);
    let kind = first.client.handshake_kind();
    assert_eq!(kind, Some(rustls::HandshakeKind::FullWithHelloRetryRequest));
    server.assert_is_of(&first, 0);
    for index in [1, 2] {
        let mut next = server.connect(NAMES[index], false);
        let rest = next.begin(5);
        next.complete(&rest);
        server.assert_is_of(&next, index);
    }
}

#[test]
fn handshakes_that_take_turns_keep_their_names() {
    let server = Server::new();
    let mut connections = [0, 1, 2].map(|index| server.connect(NAMES[index], index == 1));
    let rests = connections
        .each_mut()
        .map(|connection| connection.begin(60));
    for (connection, rest) in connections.iter_mut().zip(rests) {
        connection.complete(&rest);
    }
    for (index, connection) in connections.iter().enumerate() {
        server.assert_is_of(connection, index);
    }
}
