//! The other end of a connection: sends raw bytes, parses responses strictly.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

pub(crate) struct Client {
    socket: OwnedFd,
    received: Vec<u8>,
    has_ended: bool,
    pub(crate) was_reset: bool,
    /// The number of reads that returned something. A read of a packet socket is one send of the server.
    pub(crate) reads: usize,
}

/// A final response, and the statuses of those before it.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: String,
    pub(crate) interim: Vec<u16>,
}

impl ClientResponse {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(each, _)| each == name)?;
        Some(&field.1)
    }

    /// Whether the server announces that it closes after it.
    pub(crate) fn is_last(&self) -> bool {
        let options = self.get("connection").unwrap_or_default();
        options.split(", ").any(|option| option == "close")
    }
}

impl Client {
    pub(crate) fn new(socket: OwnedFd) -> Client {
        rustix::io::ioctl_fionbio(&socket, true).expect("a socket");
        Client {
            socket,
            received: Vec::new(),
            has_ended: false,
            was_reset: false,
            reads: 0,
        }
    }

    /// Sends all of it, which must fit.
    pub(crate) fn send(&self, data: &str) {
        let sent = send(&self.socket, data.as_bytes(), SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(data.len()), "the socket is full");
    }

    /// Sends as much as the socket accepts. What the server does not read any more is lost.
    pub(crate) fn send_some(&self, data: &[u8]) -> usize {
        match send(&self.socket, data, SendFlags::NOSIGNAL) {
            Ok(count) => count,
            Err(Errno::AGAIN) => 0,
            Err(Errno::PIPE | Errno::CONNRESET) => data.len(),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Closes so that the server sees a reset.
    pub(crate) fn reset(self) {
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.socket, linger).expect("an open socket");
    }

    /// Ends the sending side.
    pub(crate) fn end(&self) {
        shutdown(&self.socket, Shutdown::Write).expect("an open socket");
    }

    /// Reads available bytes.
    pub(crate) fn receive(&mut self) {
        let mut buffer = [0; 65_536];
        while !self.has_ended {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    self.reads += 1;
                    self.received
                        .extend_from_slice(buffer.get(..count).unwrap_or_default());
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::CONNRESET) => {
                    self.has_ended = true;
                    self.was_reset = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads and takes at most so many bytes.
    pub(crate) fn take_some(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes_max];
        let count = rustix::io::read(&self.socket, &mut buffer).unwrap_or(0);
        buffer.truncate(count);
        buffer
    }

    /// Whether the server has ended the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.receive();
        self.has_ended
    }

    /// Bytes received and not taken.
    pub(crate) fn rest(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Number of bytes received and not taken.
    pub(crate) fn rest_bytes(&self) -> u64 {
        self.received.len() as u64
    }

    /// Takes what was received.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        self.receive();
        std::mem::take(&mut self.received)
    }

    /// Drops what was received.
    pub(crate) fn forget(&mut self) {
        self.received.clear();
    }

    /// Whether nothing has arrived.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.receive();
        self.received.is_empty() && !self.has_ended
    }

    /// Takes the next final response, once it is complete.
    pub(crate) fn take_response(&mut self, method: &str) -> Option<ClientResponse> {
        self.receive();
        let mut interim = Vec::new();
        let mut at = 0;
        loop {
            let rest = self.received.get(at..)?;
            let head_bytes = find(rest, b"\r\n\r\n")? + 4;
            let mut response = head(rest.get(..head_bytes)?);
            at += head_bytes;
            if response.status < 200 {
                interim.push(response.status);
                continue;
            }
            let (content, used) =
                content(&response, method, self.received.get(at..)?, self.has_ended)?;
            response.content = String::from_utf8_lossy(&content).into_owned();
            response.interim = interim;
            self.received.drain(..at + used);
            return Some(response);
        }
    }
}

fn head(bytes: &[u8]) -> ClientResponse {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or("");
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .expect("a status line");
    let status = status
        .get(..3)
        .and_then(|digits| digits.parse().ok())
        .expect("a status");
    let fields = lines.filter_map(|line| line.split_once(": "));
    let fields = fields
        .map(|(name, value)| (name.to_lowercase(), value.to_string()))
        .collect();
    ClientResponse {
        status,
        fields,
        content: String::new(),
        interim: Vec::new(),
    }
}

/// The content, and its encoded length; `None` while it is not complete.
fn content(
    response: &ClientResponse,
    method: &str,
    rest: &[u8],
    has_ended: bool,
) -> Option<(Vec<u8>, usize)> {
    if method == "HEAD" || matches!(response.status, 204 | 304) {
        return Some((Vec::new(), 0));
    }
    if response.get("transfer-encoding") == Some("chunked") {
        assert_eq!(response.get("content-length"), None);
        return chunks(rest);
    }
    if let Some(length) = response.get("content-length") {
        let length: usize = length.parse().expect("a length");
        return Some((rest.get(..length)?.to_vec(), length));
    }
    assert!(
        response.is_last(),
        "no length on a connection that stays open"
    );
    has_ended.then(|| (rest.to_vec(), rest.len()))
}

fn chunks(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line_bytes = find(rest.get(at..)?, b"\r\n")?;
        let line = String::from_utf8_lossy(rest.get(at..at + line_bytes)?);
        let size = usize::from_str_radix(&line, 16).expect("a chunk size");
        at += line_bytes + 2;
        content.extend_from_slice(rest.get(at..at + size)?);
        assert_eq!(rest.get(at + size..at + size + 2)?, b"\r\n");
        at += size + 2;
        if size == 0 {
            return Some((content, at));
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
