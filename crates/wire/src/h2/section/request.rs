//! The head of a request, written as HTTP/1 has it (RFC 9113 8.3.1).
//!
//! The pseudo-header fields come first, in any order. Their lines are kept at the start of the text until all are known; then the request
//! line and Host replace them. An extended CONNECT for WebSocket (RFC 8441) becomes a GET with Upgrade, so that handshakes look alike.

use super::{FieldAt, Part, Role, malformed};
use crate::field::field_lines;
use crate::h2::block::{BlockError, BlockLimits};
use crate::h2::kind::Kind;

/// What is known of the request.
#[derive(Default)]
pub(in crate::h2) struct Request {
    method: Option<Part>,
    scheme: Option<Part>,
    authority: Option<Part>,
    path: Option<Part>,
    is_asterisk: bool,
    protocol: Option<Protocol>,
    is_https: bool,
    has_host: bool,
    has_content_length: bool,
    /// Where the last line of cookies ends; 0 if there is none.
    cookies_end: usize,
    /// There is another line of cookies before that one.
    cookies_are_scattered: bool,
}

/// What an extended CONNECT is for (RFC 8441 4).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    WebSocket,
    Other,
}

/// The start of the line of cookies, as the decoder writes it.
const COOKIE: &[u8] = b"cookie: ";

fn slice(text: &[u8], part: Part) -> &[u8] {
    text.get(part.0..part.1).unwrap_or_default()
}

impl Role for Request {
    fn pseudo(
        &mut self,
        kind: Kind,
        part: Part,
        _: &[u8],
        limits: &BlockLimits,
    ) -> Result<(), BlockError> {
        let known = match kind {
            Kind::Method => &mut self.method,
            Kind::Scheme => {
                // The value is http or https.
                self.is_https = part.1 - part.0 == "https".len();
                &mut self.scheme
            }
            Kind::Authority => &mut self.authority,
            Kind::Path | Kind::Asterisk => {
                if part.1 - part.0 > limits.target_bytes_max {
                    return Err(BlockError::TargetTooLong);
                }
                self.is_asterisk = kind == Kind::Asterisk;
                &mut self.path
            }
            Kind::WebSocket | Kind::OtherProtocol if self.protocol.is_some() => {
                return Err(malformed("A pseudo-header field is given more than once."));
            }
            Kind::WebSocket => {
                self.protocol = Some(Protocol::WebSocket);
                return Ok(());
            }
            Kind::OtherProtocol => {
                self.protocol = Some(Protocol::Other);
                return Ok(());
            }
            _ => {
                return Err(malformed(
                    "A request has a pseudo-header field of a response.",
                ));
            }
        };
        if known.replace(part).is_some() {
            return Err(malformed("A pseudo-header field is given more than once."));
        }
        Ok(())
    }

    fn begin(&mut self, text: &mut Vec<u8>) -> Result<(), BlockError> {
        let method = self
            .method
            .ok_or_else(|| malformed("The method is missing."))?;
        let target = self.target(slice(text, method))?;
        let is_websocket = match self.protocol {
            Some(Protocol::Other) => return Err(BlockError::UnknownProtocol),
            protocol => protocol.is_some(),
        };
        let head = text.len();
        match is_websocket {
            true => text.extend_from_slice(b"GET"),
            false => text.extend_from_within(method.0..method.1),
        }
        text.push(b' ');
        text.extend_from_within(target.0..target.1);
        text.extend_from_slice(b" HTTP/2.0\r\n");
        if let Some(authority) = &mut self.authority {
            text.extend_from_slice(b"Host: ");
            let at = text.len();
            text.extend_from_within(authority.0..authority.1);
            *authority = (at - head, text.len() - head);
            text.extend_from_slice(b"\r\n");
        }
        if is_websocket {
            text.extend_from_slice(UPGRADE);
        }
        text.copy_within(head.., 0);
        text.truncate(text.len() - head);
        Ok(())
    }

    fn method(&self, text: &[u8], has_begun: bool) -> Part {
        match has_begun {
            true => (0, memchr::memchr(b' ', text).unwrap_or(0)),
            false => self.method.unwrap_or_default(),
        }
    }

    #[inline]
    fn field(&mut self, kind: Kind, line: FieldAt, text: &mut Vec<u8>) -> Result<(), BlockError> {
        match kind {
            Kind::Cookie => self.cookie(line, text),
            Kind::Host => return self.host(line, text),
            Kind::ContentLength if self.has_content_length => {
                return Err(malformed("Content-Length is given more than once."));
            }
            Kind::ContentLength => self.has_content_length = true,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, text: &mut Vec<u8>) -> Result<(), BlockError> {
        if self.authority.is_none() && !self.has_host {
            return Err(malformed("Neither an authority nor Host is given."));
        }
        if self.cookies_are_scattered {
            join_cookies(text);
        }
        text.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// How the head says that it is the handshake of a WebSocket, as one of HTTP/1.1 does. No client of HTTP/2 can send this line.
const UPGRADE: &[u8] = b"Upgrade: websocket\r\n";

const BEFORE_AUTHORITY: &[u8] = b" HTTP/2.0\r\nHost: ";

impl Request {
    /// Writes what follows the target, for a request whose pseudo-header fields are all known and valid.
    #[inline]
    pub(in crate::h2) fn written(is_https: bool, authority: &[u8], text: &mut Vec<u8>) -> Request {
        text.extend_from_slice(BEFORE_AUTHORITY);
        let from = text.len();
        text.extend_from_slice(authority);
        let to = text.len();
        text.extend_from_slice(b"\r\n");
        Request {
            authority: Some((from, to)),
            is_https,
            ..Request::default()
        }
    }

    /// The request target (RFC 9113 8.3.1, 8.5).
    fn target(&self, method: &[u8]) -> Result<Part, BlockError> {
        if self.protocol.is_some() && method != b"CONNECT" {
            return Err(malformed("Only CONNECT has a protocol."));
        }
        if method == b"CONNECT" && self.protocol.is_none() {
            if self.scheme.is_some() || self.path.is_some() {
                return Err(malformed("CONNECT has a scheme or a path."));
            }
            let authority = self.authority;
            return authority.ok_or_else(|| malformed("CONNECT has no authority."));
        }
        if self.scheme.is_none() {
            return Err(malformed("The scheme is missing."));
        }
        if self.is_asterisk && method != b"OPTIONS" {
            return Err(malformed("Only OPTIONS has an asterisk for a path."));
        }
        self.path.ok_or_else(|| malformed("The path is missing."))
    }

    /// A Host that repeats the authority is dropped; that of a request without one remains.
    fn host(&mut self, line: FieldAt, text: &mut Vec<u8>) -> Result<(), BlockError> {
        if self.has_host {
            return Err(malformed("Host is given more than once."));
        }
        self.has_host = true;
        let Some(authority) = self.authority else {
            return Ok(());
        };
        let (host, authority) = (slice(text, line.value(text)), slice(text, authority));
        let is_same = self
            .without_default_port(host)
            .eq_ignore_ascii_case(self.without_default_port(authority));
        if !is_same {
            return Err(malformed("Host and the authority differ."));
        }
        text.truncate(line.start);
        Ok(())
    }

    /// RFC 9113 8.3.1 allows any normalization before the comparison.
    fn without_default_port<'a>(&self, host: &'a [u8]) -> &'a [u8] {
        let port: &[u8] = if self.is_https { b":443" } else { b":80" };
        let stripped = host.strip_suffix(port).or_else(|| host.strip_suffix(b":"));
        stripped.unwrap_or(host)
    }

    /// Joins a crumb with the one in the line before (RFC 9113 8.2.3).
    fn cookie(&mut self, line: FieldAt, text: &mut Vec<u8>) {
        let value = line.start + COOKIE.len();
        if self.cookies_end == 0 || self.cookies_end != line.start {
            self.cookies_are_scattered |= self.cookies_end != 0;
        } else if let Some(end) = text.get_mut(line.start - 2..line.start) {
            end.copy_from_slice(b"; ");
            text.copy_within(value.., line.start);
            text.truncate(text.len() - COOKIE.len());
        }
        self.cookies_end = text.len();
    }
}

/// Moves all cookies into the first line of them, which RFC 9113 8.2.3 demands wherever the crumbs were.
#[cold]
fn join_cookies(text: &mut Vec<u8>) {
    let start = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    let mut lines = field_lines(text.get(start..).unwrap_or_default());
    let (mut before, mut cookies, mut after) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(line) = lines.next_line() {
        if line.name != b"cookie" {
            let part = if cookies.is_empty() {
                &mut before
            } else {
                &mut after
            };
            part.extend_from_slice(line.bytes);
            continue;
        }
        cookies.extend_from_slice(if cookies.is_empty() { COOKIE } else { b"; " });
        cookies.extend_from_slice(line.value);
    }
    text.truncate(start);
    for part in [&before[..], &cookies, b"\r\n", &after] {
        text.extend_from_slice(part);
    }
}
