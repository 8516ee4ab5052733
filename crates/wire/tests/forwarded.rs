//! Runs the cases of Forwarded and X-Forwarded-* in `vectors/`.

mod files;

use std::collections::HashSet;
use std::net::IpAddr;

use serde::Deserialize;
use wire::{Claims, ForwardingField, ForwardingFields, HeadLimits, Node, Progress, parse_request};

#[derive(Deserialize)]
struct File {
    forwarded: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    lines: Vec<Line>,
    read: Option<Vec<String>>,
    #[serde(default)]
    said: Said,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Repeated {
        text: String,
        times: usize,
        end: String,
    },
}

#[derive(Deserialize, Default, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Said {
    client: Option<String>,
    client_port: Option<u16>,
    scheme: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    prefix: Option<String>,
}

impl Case {
    fn head(&self) -> String {
        let mut head = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        for line in &self.lines {
            match line {
                Line::Text(text) => head += text,
                Line::Repeated { text, times, end } => {
                    head += "X-Forwarded-For: ";
                    head += &text.repeat(*times);
                    head += end;
                }
            }
            head += "\r\n";
        }
        head + "\r\n"
    }

    fn read(&self) -> ForwardingFields {
        let all = ["for", "proto", "host", "port", "prefix"];
        let words = match &self.read {
            Some(words) => words.iter().map(String::as_str).collect(),
            None => all.to_vec(),
        };
        let field = |word| match word {
            "for" => ForwardingField::For,
            "proto" => ForwardingField::Proto,
            "host" => ForwardingField::Host,
            "port" => ForwardingField::Port,
            "prefix" => ForwardingField::Prefix,
            "forwarded" => ForwardingField::Forwarded,
            other => panic!("{other}"),
        };
        let fields = ForwardingFields::default();
        words
            .into_iter()
            .fold(fields, |fields, word| fields.with(field(word)))
    }
}

/// The networks that `vectors/rfc7239` trusts.
fn trusts(node: &Node) -> bool {
    match node {
        Node::Address(IpAddr::V4(address), _) => address.octets().starts_with(&[192, 0, 2]),
        Node::Address(IpAddr::V6(address), _) => {
            address.segments().starts_with(&[0x2001, 0xdb8, 1])
        }
        Node::Unix => true,
        Node::Hidden => false,
    }
}

fn said(claims: Claims<'_>) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let (client, client_port) = match claims.client {
        None => (None, None),
        Some(Node::Address(address, port)) => (Some(address.to_string()), port),
        Some(Node::Hidden) => (Some("hidden".to_owned()), None),
        Some(Node::Unix) => (Some("unix".to_owned()), None),
    };
    Said {
        client,
        client_port,
        scheme: claims.scheme.map(|scheme| scheme.name().to_owned()),
        host: claims.host.as_deref().map(text),
        port: claims.port,
        prefix: claims.prefix.map(text),
    }
}

#[test]
fn every_case() {
    let limits = HeadLimits {
        header_section_bytes_max: 1 << 20,
        ..HeadLimits::default()
    };
    let mut ids = HashSet::new();
    let files: Vec<File> = files::read(&["rfc7239"]);
    for file in files {
        for case in file.forwarded {
            assert!(!case.clause.is_empty() && !case.why.is_empty());
            let head = case.head();
            let parsed = parse_request(head.as_bytes(), &limits);
            let Ok(Progress::Complete(head)) = parsed else {
                panic!("{}: {parsed:?}", case.id);
            };
            assert!(head.notes.is_forwarded(), "{}", case.id);
            let lines = wire::field_lines(head.field_section);
            let claims = wire::forwarded::claims(lines, case.read(), trusts);
            assert_eq!(said(claims), case.said, "{}: {}", case.id, case.why);
            assert!(ids.insert(case.id));
        }
    }
    assert!(ids.len() > 80, "{}", ids.len());
}

#[test]
fn names_are_found_in_both_spellings_only() {
    let found = |name: &str| ForwardingField::of(name.as_bytes()).is_some();
    for name in [
        "Forwarded",
        "x-FORWARDED-for",
        "X_Forwarded-For",
        "x_forwarded_prefix",
    ] {
        assert!(found(name), "{name}");
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: b\r\n\r\n");
        let parsed = parse_request(head.as_bytes(), &HeadLimits::default());
        assert!(matches!(parsed, Ok(Progress::Complete(head)) if head.notes.is_forwarded()));
    }
    for name in [
        "X-Forwarded",
        "X-Forwarded-By",
        "Forwarde_",
        "Transfer-Encoding",
        "Accept-Encoding",
    ] {
        assert!(!found(name), "{name}");
    }
}
