//! Messages of a handshake in many records, and how long they may be.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use net::{Pair, Received, TlsConfig, Transport};

/// What a server reports of a ClientHello of so many bytes without content, which arrives in records of `record_bytes`.
fn failure(length: usize, record_bytes: usize) -> io::Error {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("works");
    let (certificates, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Pair {
        certificates: certificates.as_bytes(),
        key: key.as_bytes(),
    };
    let config = TlsConfig::new(pair, &[]).expect("works");
    let (mut socket, theirs) = UnixStream::pair().expect("works");
    let server = Transport::from_blocking(theirs.into())
        .expect("works")
        .with_tls(&config);
    let mut message = vec![0; 4 + length];
    message[..4].copy_from_slice(&(1 << 24 | length as u32).to_be_bytes());
    for fragment in message.chunks(record_bytes) {
        let bytes = (fragment.len() as u16).to_be_bytes();
        let record = [&[22, 3, 1], &bytes[..], fragment].concat();
        socket.write_all(&record).expect("works");
        match server.receive(&mut [0; 100]) {
            Received::Blocked => {}
            Received::Broken(error) => return error,
            other => panic!("{other:?}"),
        }
    }
    panic!("no failure");
}

#[test]
fn a_message_that_is_too_long_is_named_so() {
    let text = "a message of the client's handshake is too long";
    // rustls bounds a message, and the session what records add to it.
    for (length, record_bytes) in [(65_536, 1000), (65_000, 10)] {
        let error = failure(length, record_bytes);
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_longest_message_arrives_in_ordinary_records() {
    for record_bytes in [200, 16_384] {
        let text = failure(65_535, record_bytes).to_string();
        assert!(
            text.starts_with("the client sent a malformed message"),
            "{text}"
        );
    }
}
