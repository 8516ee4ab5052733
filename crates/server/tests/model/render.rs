//! Bytes: what a client sends for a schedule, and contents, all cut from two patterns.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::schedule::{Content, Conversation, Fault, Method, Persistence, Request};

/// A request that no client sends. Contents consist of it, so that content mistaken for a request gets served.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
pub(crate) const PATTERN_BYTES: usize = 1 << 20;
/// More than the limit of a header section.
const LONG_FIELD_BYTES: usize = 33_000;

/// The position of one request in its client's stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) start: usize,
    pub(crate) head_end: usize,
    pub(crate) end: usize,
}

/// All that one client has to send.
pub(crate) struct Stream {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
}

/// What a conversation's client sends.
pub(crate) fn stream(index: usize, conversation: &Conversation) -> Stream {
    let mut bytes = Vec::new();
    let mut marks = Vec::new();
    for (number, request) in conversation.requests.iter().enumerate() {
        let start = bytes.len();
        push_head(&mut bytes, index, number, request);
        let head_end = bytes.len();
        push_content(&mut bytes, index, number, request);
        let end = bytes.len();
        marks.push(Mark {
            start,
            head_end,
            end,
        });
    }
    Stream { bytes, marks }
}

fn push_head(bytes: &mut Vec<u8>, index: usize, number: usize, request: &Request) {
    let method = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
    };
    let version = match (request.fault, request.persistence.is_old()) {
        (Fault::Version, _) => "2.0",
        (_, true) => "1.0",
        (_, false) => "1.1",
    };
    let mut head = format!("{method} /{index}/{number} HTTP/{version}\r\n");
    head.push_str("Host: test\r\n");
    if request.fault == Fault::TwoHosts {
        head.push_str("Host: test\r\n");
    }
    if request.fault == Fault::FieldName {
        head.push_str("Not a name: a\r\n");
    }
    if request.fault == Fault::LongSection {
        let _ = write!(head, "A: {}\r\n", "a".repeat(LONG_FIELD_BYTES));
    }
    head.push_str(match request.persistence {
        Persistence::Kept | Persistence::OldClosed => "",
        Persistence::Closed => "Connection: close\r\n",
        Persistence::OldKept => "Connection: keep-alive\r\n",
    });
    if request.expects {
        head.push_str("Expect: 100-continue\r\n");
    }
    let _ = match request.content {
        Content::None => Ok(()),
        Content::Length(length) => write!(head, "Content-Length: {length}\r\n"),
        Content::Chunks { .. } => write!(head, "Transfer-Encoding: chunked\r\n"),
    };
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

fn push_content(bytes: &mut Vec<u8>, index: usize, number: usize, request: &Request) {
    let content = request_content(index, number, request.content);
    let Content::Chunks { bytes: most, .. } = request.content else {
        return bytes.extend_from_slice(content);
    };
    for chunk in content.chunks(most.max(1)) {
        bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        if request.fault == Fault::ChunkSize {
            bytes.extend_from_slice(b"zz\r\n");
        }
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
}

/// The content of a request.
pub(crate) fn request_content(index: usize, number: usize, content: Content) -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    let pattern = PATTERN.get_or_init(|| SMUGGLED.bytes().cycle().take(PATTERN_BYTES).collect());
    part(pattern, index, number, content.bytes())
}

fn letters() -> impl Iterator<Item = u8> {
    (0..PATTERN_BYTES).map(|at| b'a' + ((at * at + at / 26) % 26) as u8)
}

/// A file whose parts are the contents of responses.
pub(crate) fn response_file() -> File {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let fd = memfd_create("responses", MemfdFlags::CLOEXEC).expect("a file in memory");
        let mut file = File::from(fd);
        let letters: Vec<u8> = letters().collect();
        file.write_all(&letters).expect("memory");
        file
    });
    file.try_clone().expect("a descriptor")
}

/// Where a response's content starts in that file.
pub(crate) fn response_offset(index: usize, number: usize) -> usize {
    (index * 5 + number) * 7 * SMUGGLED.len()
}

/// The first bytes of a response's content.
pub(crate) fn response_content(index: usize, number: usize, bytes: usize) -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    part(
        PATTERN.get_or_init(|| letters().collect()),
        index,
        number,
        bytes,
    )
}

/// A part with a different start for each request.
fn part(pattern: &'static [u8], index: usize, number: usize, bytes: usize) -> &'static [u8] {
    let start = response_offset(index, number);
    &pattern[start..start + bytes]
}
