//! TLS over a pair of sockets: a client of rustls, and the server's transport.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use net::{Received, Sent, TlsConfig, Transport};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// More than a connection holds that is idle.
const IDLE_BYTES: usize = 8192;

/// Both ends of a connection, whose sockets do not block.
struct Pair {
    client: ClientConnection,
    socket: UnixStream,
    server: Transport,
}

impl Pair {
    fn new(protocols: &[&[u8]]) -> Pair {
        Pair::with_versions(protocols, rustls::DEFAULT_VERSIONS)
    }

    /// As [`Pair::new`], for the protocol versions that the client speaks.
    fn with_versions(
        protocols: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Pair {
        Pair::with_provider(protocols, versions, aws_lc_rs::default_provider())
    }

    fn with_provider(
        protocols: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
        provider: CryptoProvider,
    ) -> Pair {
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
        let mut client_config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("works")
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
                .with_tls(&config),
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
        pair.client.writer().write_all(&sent).expect("works");
        assert_eq!(pair.receive(sent.len(), buffer_bytes), sent);
        assert!(!pair.server.has_buffered());
        assert!(pair.server.held_bytes() < IDLE_BYTES);
    }
}

#[test]
fn content_that_the_reader_has_no_room_for_is_kept_and_counted() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client
        .writer()
        .write_all(b"first second")
        .expect("works");
    pair.turn_client().expect("works");
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
        let rest = &sent[accepted..];
        let (first, second) = rest.split_at(rest.len().min(150_000));
        match pair.server.send_parts(&[first, second]) {
            Sent::Bytes(count) => accepted += count,
            Sent::Broken(error) => panic!("{error}"),
        }
        has_owed |= pair.server.owes();
        assert!(pair.server.flush());
        pair.turn_client().expect("works");
        let mut buffer = vec![0; 65_536];
        if let Ok(count) = pair.client.reader().read(&mut buffer) {
            received.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(has_owed && received == sent && accepted == sent.len());
    assert!(pair.server.flush() && !pair.server.owes());
    assert!(pair.server.held_bytes() < IDLE_BYTES);
}

#[test]
fn single_bytes_of_records_make_a_handshake_and_content() {
    let mut pair = Pair::new(&[]);
    pair.client.writer().write_all(b"hello").expect("works");
    let mut received = Vec::new();
    let mut buffer = [0; 100];
    while received.len() < 5 {
        let mut records = Vec::new();
        while pair.client.wants_write() {
            pair.client.write_tls(&mut records).expect("works");
        }
        for byte in records {
            pair.socket.write_all(&[byte]).expect("works");
            if let Received::Bytes(count) = pair.server.receive(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
        pair.turn_client().expect("works");
    }
    assert_eq!(received, b"hello");
}

#[test]
fn what_a_handshake_holds_is_counted() {
    let mut pair = Pair::new(&[]);
    let idle_bytes = pair.server.held_bytes();
    let mut hello = Vec::new();
    pair.client.write_tls(&mut hello).expect("works");
    let mut held = Vec::new();
    for part in [&hello[..100], &hello[100..]] {
        pair.socket.write_all(part).expect("works");
        let received = pair.server.receive(&mut [0; 100]);
        assert!(matches!(received, Received::Blocked), "{received:?}");
        held.push(pair.server.held_bytes() - idle_bytes);
    }
    // rustls has a connection, and 100 bytes wait; then it has the message, and its copy for the transcript.
    assert_eq!(held[1] - held[0], 2 * hello.len() - 100);
    assert!(held[0] > 4096 && held[1] > 4096 + 2 * hello.len());
    let pair = pair.shake_hands();
    assert!(pair.server.held_bytes() < IDLE_BYTES);
}

#[test]
fn a_plain_request_passes_unchanged_so_that_it_can_be_refused() {
    let mut pair = Pair::new(&[]);
    pair.socket
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("works");
    assert!(pair.server.is_handshaking() && !pair.server.lacks_tls());
    let mut buffer = [0; 100];
    let received = pair.server.receive(&mut buffer);
    assert!(matches!(received, Received::Bytes(18)), "{received:?}");
    assert_eq!(&buffer[..18], b"GET / HTTP/1.1\r\n\r\n");
    assert!(pair.server.lacks_tls() && !pair.server.is_handshaking());
    assert!(matches!(pair.server.send(b"refused"), Sent::Bytes(7)));
    pair.server.shutdown_send();
    let mut text = Vec::new();
    pair.socket.read_to_end(&mut text).expect("works");
    assert_eq!(text, b"refused");
    pair.socket.write_all(b"more").expect("works");
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Bytes(4)
    ));
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Blocked
    ));
    drop(pair.socket);
    assert!(matches!(pair.server.receive(&mut buffer), Received::End));
    assert!(pair.server.lacks_tls() && pair.server.tls_details().is_none());
}

#[test]
fn bytes_that_are_neither_tls_nor_text_get_an_alert() {
    for sent in [
        &b"\x16\x03\x01\x00\x02\x01\x00\x00\x00"[..],
        b"\x80\x2e\x01\x03\x01\x00",
        b"\0\0\0\0\0",
    ] {
        let mut pair = Pair::new(&[]);
        pair.socket.write_all(sent).expect("works");
        let received = pair.server.receive(&mut [0; 100]);
        assert!(matches!(received, Received::Broken(_)), "{received:?}");
        // What follows is discarded, so that closing does not reset the connection before the alert is read.
        pair.socket.write_all(b"more").expect("works");
        assert!(matches!(
            pair.server.receive(&mut [0; 100]),
            Received::Bytes(4)
        ));
        assert!(matches!(
            pair.server.receive(&mut [0; 100]),
            Received::Blocked
        ));
        let mut alert = [0; 7];
        pair.socket.read_exact(&mut alert).expect("works");
        assert_eq!((alert[0], alert[5]), (21, 2), "a fatal alert");
    }
}

#[test]
fn a_record_that_was_changed_fails_with_an_alert() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.writer().write_all(b"hello").expect("works");
    let mut record = Vec::new();
    pair.client.write_tls(&mut record).expect("works");
    *record.last_mut().expect("works") ^= 1;
    pair.socket.write_all(&record).expect("works");
    let received = pair.server.receive(&mut [0; 100]);
    assert!(matches!(received, Received::Broken(_)), "{received:?}");
    assert!(matches!(pair.server.send(b"more"), Sent::Broken(_)));
    let alert = pair.turn_client().expect_err("fails").to_string();
    assert!(alert.contains("BadRecordMac"), "{alert}");
}

#[test]
fn both_sides_end_by_a_close_notify() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.send_close_notify();
    pair.turn_client().expect("works");
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    assert!(matches!(pair.server.send(b"last"), Sent::Bytes(4)));
    pair.server.shutdown_send();
    pair.turn_client().expect("works");
    let mut received = Vec::new();
    pair.client
        .reader()
        .read_to_end(&mut received)
        .expect("works");
    assert_eq!(received, b"last");
}

#[test]
fn content_that_is_followed_by_the_end_comes_first() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.writer().write_all(b"last").expect("works");
    pair.client.send_close_notify();
    pair.turn_client().expect("works");
    let mut buffer = [0; 100];
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Bytes(4)
    ));
    // No event announces the end: it was read with the content.
    assert!(pair.server.has_buffered() && pair.server.unread_bytes() == 0);
    assert!(matches!(pair.server.receive(&mut buffer), Received::End));
    assert!(!pair.server.has_buffered());
}

#[test]
fn content_that_is_followed_by_a_broken_record_comes_first() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client.writer().write_all(b"last").expect("works");
    let mut records = Vec::new();
    pair.client.write_tls(&mut records).expect("works");
    records.extend_from_slice(b"\x17\x03\x03\x00\x20nothing that was encrypted so..........");
    pair.socket.write_all(&records).expect("works");
    let mut buffer = [0; 100];
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Bytes(4)
    ));
    assert!(pair.server.has_buffered());
    assert!(matches!(
        pair.server.receive(&mut buffer),
        Received::Broken(_)
    ));
    let alert = pair.turn_client().expect_err("fails").to_string();
    assert!(alert.contains("BadRecordMac"), "{alert}");
}

#[test]
fn an_input_that_was_reported_while_content_was_kept_is_not_forgotten() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.client
        .writer()
        .write_all(b"first second")
        .expect("works");
    pair.turn_client().expect("works");
    assert!(matches!(
        pair.server.receive(&mut [0; 6]),
        Received::Bytes(6)
    ));
    pair.client.writer().write_all(b"third").expect("works");
    pair.turn_client().expect("works");
    assert!(matches!(
        pair.server.receive(&mut [0; 100]),
        Received::Bytes(6)
    ));
    assert!(pair.server.may_be_unread(6, 100));
}

#[test]
fn keys_are_updated_in_both_directions() {
    let mut pair = Pair::new(&[]).shake_hands();
    for _ in 0..3 {
        pair.client.refresh_traffic_keys().expect("works");
        pair.client.writer().write_all(b"request").expect("works");
        assert_eq!(pair.receive(7, 100), b"request");
        assert!(matches!(pair.server.send(b"response"), Sent::Bytes(8)));
        pair.turn_client().expect("works");
        let mut response = [0; 8];
        pair.client
            .reader()
            .read_exact(&mut response)
            .expect("works");
        assert_eq!(&response, b"response");
    }
}

#[test]
fn a_peer_that_only_updates_keys_is_refused() {
    let mut pair = Pair::new(&[]).shake_hands();
    let mut updates = 0;
    let failure = loop {
        pair.client.refresh_traffic_keys().expect("works");
        let _ = pair.turn_client();
        updates += 1;
        match pair.server.receive(&mut [0; 100]) {
            Received::Blocked if updates < 100 => {}
            other => break other,
        }
    };
    assert!(matches!(failure, Received::Broken(_)), "{failure:?}");
    assert!((32..=34).contains(&updates), "{updates}");
}

#[test]
fn the_end_waits_until_the_socket_has_accepted_what_precedes_it() {
    let mut pair = Pair::new(&[]).shake_hands();
    let sent = content(1_000_000);
    let mut accepted = 0;
    while let Sent::Bytes(count @ 1..) = pair.server.send(&sent[accepted..]) {
        accepted += count;
    }
    assert!(pair.server.owes() && pair.server.unacknowledged_bytes() > 0);
    pair.server.shutdown_send();
    let mut received = Vec::new();
    let mut has_ended = false;
    while !has_ended {
        assert!(pair.server.flush());
        pair.turn_client().expect("works");
        let mut buffer = vec![0; 65_536];
        loop {
            match pair.client.reader().read(&mut buffer) {
                Ok(0) => {
                    has_ended = true;
                    break;
                }
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(received == sent[..accepted] && !pair.server.owes());
    let mut rest = [0; 1];
    assert_eq!(
        pair.socket.read(&mut rest).expect("works"),
        0,
        "the socket has ended too"
    );
}

#[test]
fn records_of_one_byte_and_of_the_maximum_length_arrive() {
    for (content_bytes, count) in [(1, 3000), (16_384, 20)] {
        let mut pair = Pair::new(&[]).shake_hands();
        let sent = content(content_bytes);
        let mut received = Vec::new();
        let mut buffer = vec![0; 20_000];
        for _ in 0..count {
            pair.client.writer().write_all(&sent).expect("works");
            pair.turn_client().expect("works");
            while let Received::Bytes(count) = pair.server.receive(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
        assert!(received == sent.repeat(count), "{content_bytes}");
    }
}

#[test]
fn content_of_any_length_arrives_with_every_suite() {
    let suites = aws_lc_rs::ALL_CIPHER_SUITES.iter();
    // The certificate's key is for ECDSA.
    let suites = suites.filter(|suite| !format!("{suite:?}").contains("_RSA_"));
    let suites: Vec<_> = suites.collect();
    assert_eq!(suites.len(), 6, "{suites:?}");
    for suite in suites {
        let provider = CryptoProvider {
            cipher_suites: vec![*suite],
            ..aws_lc_rs::default_provider()
        };
        let mut pair = Pair::with_provider(&[], rustls::ALL_VERSIONS, provider).shake_hands();
        for length in [1, 16_384, 16_385, 65_544, 147_456, 147_457, 400_000] {
            let (sent, mut accepted, mut arrived) = (content(length), 0, Vec::new());
            while arrived.len() < length {
                match pair.server.send(&sent[accepted..]) {
                    Sent::Bytes(count) => accepted += count,
                    other => panic!("{other:?}"),
                }
                pair.turn_client().expect("works");
                let mut buffer = [0; 65_536];
                while let Ok(count @ 1..) = pair.client.reader().read(&mut buffer) {
                    arrived.extend_from_slice(&buffer[..count]);
                }
            }
            assert!(arrived == sent, "{suite:?}, {length} bytes");
        }
    }
}

#[test]
fn a_client_of_tls_1_2_is_served() {
    let versions = [&rustls::version::TLS12];
    let mut pair = Pair::with_versions(&[b"http/1.1"], &versions).shake_hands();
    pair.client.writer().write_all(b"request").expect("works");
    assert_eq!(pair.receive(7, 100), b"request");
    assert!(matches!(
        pair.server.send(&content(100_000)),
        Sent::Bytes(1..)
    ));
    assert_eq!(pair.server.protocol().as_deref(), Some(&b"http/1.1"[..]));
}

/// Lengths of the records in `bytes`, with their headers.
fn record_lengths(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, ..] = bytes {
        let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
        lengths.push(length);
        bytes = &bytes[length..];
    }
    lengths
}

#[test]
fn short_content_is_one_record_and_long_content_starts_with_short_ones() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.turn_client().expect("works");
    let mut sent = |length: usize| {
        assert!(
            matches!(pair.server.send(&content(length)), Sent::Bytes(count) if count == length)
        );
        let mut records = vec![0; 300_000];
        let count = pair.socket.read(&mut records).expect("works");
        record_lengths(&records[..count])
    };
    let overhead = 5 + 1 + 16;
    assert_eq!(sent(200), [200 + overhead]);
    assert_eq!(sent(16_384), [16_384 + overhead]);
    let first = sent(65_536);
    assert!(first.len() == 47 && first.iter().all(|length| *length <= 1400 + overhead));
    assert_eq!(sent(65_536), [16_384 + overhead; 4]);
}

#[test]
fn parts_are_encrypted_from_where_they_are_and_sent_together() {
    let mut pair = Pair::new(&[]).shake_hands();
    pair.turn_client().expect("works");
    let part = content(65_536);
    let parts = [b"10000\r\n", &part[..], b"", b"\r\n"];
    let overhead = 5 + 1 + 16;
    for records in [1 + 47 + 1, 1 + 4 + 1] {
        assert!(matches!(
            pair.server.send_parts(&parts),
            Sent::Bytes(65_545)
        ));
        let mut sent = vec![0; 300_000];
        let count = pair.socket.read(&mut sent).expect("works");
        let lengths = record_lengths(&sent[..count]);
        assert_eq!(lengths.len(), records);
        assert_eq!(
            (lengths[0], lengths[records - 1]),
            (7 + overhead, 2 + overhead)
        );
    }
}

#[test]
fn a_connection_that_ends_without_a_close_notify_has_ended() {
    let pair = Pair::new(&[]).shake_hands();
    pair.socket
        .shutdown(std::net::Shutdown::Write)
        .expect("works");
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    let pair = Pair::new(&[]);
    pair.socket
        .shutdown(std::net::Shutdown::Write)
        .expect("works");
    assert!(matches!(pair.server.receive(&mut [0; 100]), Received::End));
    let mut pair = Pair::new(&[]);
    pair.socket.write_all(&[22, 3]).expect("works");
    assert!(matches!(
        pair.server.receive(&mut [0; 100]),
        Received::Blocked
    ));
    pair.socket
        .shutdown(std::net::Shutdown::Write)
        .expect("works");
    let received = pair.server.receive(&mut [0; 100]);
    assert!(matches!(received, Received::Broken(_)), "{received:?}");
}
