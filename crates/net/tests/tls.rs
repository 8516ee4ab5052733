//! TLS over a pair of sockets: a client of rustls, and the server's transport.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use net::{Received, Sent, TlsConfig, Transport};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Both ends of a connection, whose sockets do not block.
struct Pair {
    client: ClientConnection,
    socket: UnixStream,
    server: Transport,
}

impl Pair {
    fn new(protocols: &[&[u8]]) -> Pair {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("works");
        let certificate: CertificateDer<'static> = made.cert.der().clone();
        let (certificates, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = net::Pair {
            certificates: certificates.as_bytes(),
            key: key.as_bytes(),
        };
        let config = TlsConfig::new(pair, &[b"h2", b"http/1.1"]).expect("works");
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("works");
        let mut client_config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client_config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("works");
        let (socket, theirs) = UnixStream::pair().expect("works");
        socket.set_nonblocking(true).expect("works");
        Pair {
            client: ClientConnection::new(Arc::new(client_config), name).expect("works"),
            socket,
            server: Transport::from_blocking(theirs.into())
                .expect("works")
                .with_tls(&config)
                .expect("works"),
        }
    }

    /// Moves what the client has to send, and what has arrived for it.
    fn turn_client(&mut self) -> io::Result<()> {
        while self.client.wants_write() {
            match self.client.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                moved => moved.map(drop)?,
            }
        }
        match self.client.read_tls(&mut self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            moved => moved.map(drop)?,
        }
        let processed = self.client.process_new_packets();
        processed.map(drop).map_err(io::Error::other)
    }

    /// Runs both sides until the handshake is complete.
    fn shake_hands(mut self) -> Pair {
        let mut buffer = [0; 100];
        while self.client.is_handshaking() {
            self.turn_client().expect("works");
            let received = self.server.receive(&mut buffer);
            assert!(matches!(received, Received::Blocked), "{received:?}");
        }
        self.turn_client().expect("works");
        let received = self.server.receive(&mut buffer);
        assert!(matches!(received, Received::Blocked), "{received:?}");
        self
    }

    /// Receives `length` bytes of content with a buffer of `buffer_bytes`.
    fn receive(&mut self, length: usize, buffer_bytes: usize) -> Vec<u8> {
        let mut received = Vec::new();
        let mut buffer = vec![0; buffer_bytes];
        while received.len() < length {
            match self.server.receive(&mut buffer) {
                Received::Bytes(count) => received.extend_from_slice(&buffer[..count]),
                Received::Blocked => self.turn_client().expect("works"),
                other => panic!("{other:?}"),
            }
        }
        received
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn the_server_prefers_its_first_protocol() {
    for (offered, chosen) in [
        (&[&b"http/1.1"[..]][..], Some(&b"http/1.1"[..])),
        (&[b"http/1.1", b"h2"], Some(b"h2")),
        (&[], None),
    ] {
        let pair = Pair::new(offered).shake_hands();
        assert_eq!(pair.server.protocol().as_deref(), chosen);
    }
}

#[test]
fn content_arrives_with_buffers_of_any_size() {
    for buffer_bytes in [1, 7, 1000, 16_384, 65_536] {
        let mut pair = Pair::new(&[]).shake_hands();
        let sent = content(3000);
        pair.client.writer().write_all(&sent).unwrap();
        assert_eq!(pair.receive(sent.len(), buffer_bytes), sent);
        assert!(!pair.server.has_buffered());
        assert_eq!(pair.server.held_bytes(), 0);
    }
}

#[test]
fn content_that_the_reader_has_no_room_for_is_kept_and_counted() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.writer().write_all(b"first second").unwrap();
    pair.turn_client().unwrap();
    let mut buffer = [0; 6];
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Bytes(6)
    ));
    assert!(pair.server.has_buffered() && pair.server.unread_bytes() == 6);
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Bytes(6)
    ));
    assert!(&buffer == b"second" && !pair.server.has_buffered());
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Blocked
    ));
}

#[test]
fn what_the_socket_does_not_accept_is_owed() {
    let mut pair = Pair::new(&[]).shake_hands();
    let sent = content(4_000_000);
    let mut accepted = 0;
    let mut received = Vec::new();
    let mut has_owed = false;
    while received.len() < sent.len() {
        match pair.server.send(&sent[accepted..]) {
            Sent::Bytes(count) => accepted += count,
            Sent::Broken(error) => panic!("{error}"),
        }
        has_owed |= pair.server.owes();
        assert!(pair.server.flush());
        pair.turn_client().unwrap();
        let mut buffer = vec![0; 65_536];
        if let Ok(count) = pair.client.reader().read(&mut buffer) {
            received.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(has_owed && received == sent && accepted == sent.len());
    assert!(pair.server.flush() && !pair.server.owes());
    assert_eq!(pair.server.held_bytes(), 0);
}

#[test]
fn single_bytes_of_records_make_a_handshake_and_content() {
    let mut pair = Pair::new(&[]);
    pair.client.writer().write_all(b"hello").unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 100];
    while received.len() < 5 {
        let mut records = Vec::new();
        while pair.client.wants_write() {
            pair.client.write_tls(&mut records).unwrap();
        }
        for byte in records {
            pair.socket.write_all(&[byte]).unwrap();
            if let Received::Bytes(count) = pair.server.receive(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
        pair.turn_client().unwrap();
    }
    assert_eq!(received, b"hello");
}

#[test]
fn a_plain_request_is_no_handshake() {
    let mut pair = Pair::new(&[]);
    pair.socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let received = pair.server.receive(&mut [0; 100]);
    assert!(
        matches!(received, Received::Broken(error) if error.kind() == io::ErrorKind::InvalidData)
    );
    let received = pair.server.receive(&mut [0; 100]);
    assert!(matches!(received, Received::Broken(_)));
}

#[test]
fn a_record_that_was_changed_fails_with_an_alert() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.writer().write_all(b"hello").unwrap();
    let mut record = Vec::new();
    pair.client.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    pair.socket.write_all(&record).unwrap();
    let received = pair.server.receive(&mut [0; 100]);
    assert!(matches!(received, Received::Broken(_)), "{received:?}");
    assert!(matches!(pair.server.send(b"more"), Sent::Broken(_)));
    let alert = pair.turn_client().unwrap_err().to_string();
    assert!(alert.contains("BadRecordMac"), "{alert}");
}

#[test]
fn both_sides_end_by_a_close_notify() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.send_close_notify();
    pair.turn_client().unwrap();
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    assert!(matches!(pair.server.send(b"last"), Sent::Bytes(4)));
    pair.server.shutdown_send();
    pair.turn_client().unwrap();
    let mut received = Vec::new();
    pair.client.reader().read_to_end(&mut received).unwrap();
    assert_eq!(received, b"last");
}

#[test]
fn a_connection_that_ends_without_a_close_notify_has_ended() {
    let pair = Pair::new(&[]).shake_hands();
    pair.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    let pair = Pair::new(&[]);
    pair.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(
        pair.server.receive(&mut [0; 100]),
        Received::Broken(_)
    ));
}
