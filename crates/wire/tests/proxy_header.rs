//! Runs the headers of the PROXY protocol in `vectors/`: whole, at each shorter length, and with other bytes after them.

mod files;

use std::collections::HashSet;

use serde::Deserialize;
use wire::{PROXY_HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, parse_proxy_header};

#[derive(Deserialize)]
struct File {
    header: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    sent: Sent,
    client: Option<String>,
    server: Option<String>,
    #[serde(default)]
    own: bool,
    #[serde(default)]
    unknown: bool,
    #[serde(default)]
    unix: bool,
    refused: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sent {
    Text(String),
    Pieces(Vec<Piece>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    hex: String,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

impl Case {
    fn octets(&self) -> Vec<u8> {
        let of_hex = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            let octet = |pair| {
                u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16)
                    .expect("an octet")
            };
            digits.map(octet).collect()
        };
        match &self.sent {
            Sent::Text(text) => text.clone().into_bytes(),
            Sent::Pieces(pieces) => pieces
                .iter()
                .flat_map(|piece| of_hex(&piece.hex).repeat(piece.times))
                .collect(),
        }
    }

    fn expected(&self) -> Result<ProxyHeader, &str> {
        match (&self.refused, &self.client, &self.server) {
            (Some(reason), None, None) => Err(reason),
            (None, Some(client), Some(server)) => Ok(ProxyHeader::Of(
                client.parse().expect("an address"),
                server.parse().expect("an address"),
            )),
            (None, None, None) if self.own => Ok(ProxyHeader::Own),
            (None, None, None) if self.unknown => Ok(ProxyHeader::Unknown),
            (None, None, None) if self.unix => Ok(ProxyHeader::OfUnix),
            _ => panic!("{}", self.id),
        }
    }
}

fn cases() -> Vec<Case> {
    let files: Vec<File> = files::read(&["proxy-protocol"]);
    files.into_iter().flat_map(|file| file.header).collect()
}

#[test]
fn every_case() {
    let mut ids = HashSet::new();
    for case in cases() {
        assert!(!case.clause.is_empty() && !case.why.is_empty());
        let (octets, expected) = (case.octets(), case.expected());
        let parsed = parse_proxy_header(&octets).map_err(ProxyHeaderError::reason);
        match expected {
            Ok(header) => assert_eq!(parsed, Ok(Some((header, octets.len()))), "{}", case.id),
            Err(reason) => assert_eq!(parsed, Err(reason), "{}", case.id),
        }
        for end in 0..octets.len() {
            // What is refused may be refused before its end, for the same reason. Nothing is accepted before.
            match parse_proxy_header(&octets[..end]) {
                Ok(None) => {}
                Ok(Some(_)) => panic!("{} at {end}", case.id),
                Err(error) => assert_eq!(Err(error.reason()), expected, "{} at {end}", case.id),
            }
        }
        if let Ok(header) = expected {
            let more = [octets.as_slice(), b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse_proxy_header(&more), Ok(Some((header, octets.len()))));
        }
        assert!(ids.insert(case.id));
    }
    assert!(ids.len() > 40, "{}", ids.len());
}

#[test]
fn an_incomplete_header_is_not_longer_than_the_limit() {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x0f\xf0".to_vec();
    header.resize(PROXY_HEADER_BYTES_MAX - 1, 0);
    assert_eq!(parse_proxy_header(&header), Ok(None));
    header.push(0);
    assert!(!matches!(parse_proxy_header(&header), Ok(None)));
    let line = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 92]].concat();
    assert_eq!(parse_proxy_header(&line), Ok(None));
    let line = [line.as_slice(), b"x"].concat();
    assert_eq!(parse_proxy_header(&line), Err(ProxyHeaderError::Malformed));
}
