//! Runs the values of the field `priority` in `vectors/`: as a value, as that of a frame is, and as lines of a field section.

mod files;

use std::collections::HashSet;

use serde::Deserialize;
use wire::h2::{Frame, Parsed, Priority, Scope, frame, parse};

#[derive(Deserialize)]
struct File {
    priority: Vec<Case>,
}

/// One case; `vectors/README.md` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: String,
    why: String,
    lines: Vec<String>,
    said: Option<Said>,
    #[serde(default)]
    frame_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    urgency: u8,
    incremental: bool,
}

#[test]
fn every_case() {
    let files: Vec<File> = files::read(&["rfc9218"]);
    let mut ids = HashSet::new();
    for case in files.iter().flat_map(|file| &file.priority) {
        let Case {
            id, clause, why, ..
        } = case;
        assert!(ids.insert(id), "{id} is there twice");
        assert!(clause.starts_with("RFC ") && why.ends_with('.'), "{id}");
        let expected = case.said.as_ref().map(|said| Priority {
            urgency: said.urgency,
            is_incremental: said.incremental,
        });
        let value = case.lines.join(", ");
        assert_eq!(Priority::parse(value.as_bytes()), expected, "{id}");
        if case.frame_only {
            continue;
        }
        let mut section = "x-priority: u=0\r\n".to_owned();
        for line in &case.lines {
            section += &format!("priority: {line}\r\na: priority\r\n");
        }
        assert_eq!(Priority::of(section.as_bytes()), expected, "{id}");
    }
}

#[test]
fn a_section_without_the_field_says_nothing() {
    for section in ["", "a: b\r\n", "a: priority\r\n", "priority-hint: u=1\r\n"] {
        assert_eq!(Priority::of(section.as_bytes()), None, "{section}");
    }
}

/// A PRIORITY_UPDATE frame on a stream, with this payload.
fn update(on: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0, 0, payload.len() as u8, 0x10, 0xff];
    octets.extend(on.to_be_bytes());
    octets.extend(payload);
    octets
}

#[test]
fn a_frame_has_a_stream_and_a_value() {
    // The reserved bit and the flags have no meaning.
    for payload in [b"\x00\x00\x00\x05u=1, i", b"\x80\x00\x00\x05u=1, i"] {
        let octets = update(0, payload);
        let value = b"u=1, i";
        let frame = Frame::PriorityUpdate { stream: 5, value };
        assert_eq!(parse(&octets, 100), Ok(Parsed::Frame(frame, octets.len())));
    }
    let mut written = Vec::new();
    frame::push_priority_update(&mut written, 5, b"u=1, i");
    let mut octets = update(0, b"\x00\x00\x00\x05u=1, i");
    octets[4] = 0;
    assert_eq!(written, octets);
    let empty = update(0, b"\x00\x00\x00\x05");
    let frame = Frame::PriorityUpdate {
        stream: 5,
        value: b"",
    };
    assert_eq!(parse(&empty, 100), Ok(Parsed::Frame(frame, empty.len())));
}

#[test]
fn a_frame_for_no_stream_on_a_stream_or_too_short_ends_the_connection() {
    let cases: [(u32, &[u8], u32); 4] = [
        (0, b"\x00\x00\x00\x00u=1", 1),
        (0, b"\x80\x00\x00\x00u=1", 1),
        (1, b"\x00\x00\x00\x01u=1", 1),
        (0, b"\x00\x00\x01", 6),
    ];
    for (on, payload, code) in cases {
        let violation = parse(&update(on, payload), 100).expect_err("a violation");
        assert_eq!(
            (violation.scope, violation.code.0),
            (Scope::Connection, code)
        );
    }
}
