//! Writes one response after another.

pub(crate) mod batch;
mod delimiter;
mod fields;
mod frames;
mod framing;
pub(crate) mod messages;
mod stamp;

use net::Sent;
use net::memory::reserve;
use wire::Version;

use crate::id::ConnectionId;
use crate::response::{NO_MEMORY, Response};

use self::batch::Batch;
pub(crate) use self::delimiter::Delimiter;
pub use self::fields::{Fields, Replaced};
pub(crate) use self::frames::FrameWriter;
pub(crate) use self::framing::Framing;
pub(crate) use self::messages::{Coding, MessageWriter, new_deflater, push_plain};
pub(crate) use self::stamp::Stamp;

/// For content of at least this length, there may not be enough memory left.
const LONG_BYTES: usize = 16 * 1024;
/// Maximum bytes written around a content; longer field sections are rare.
const FRAMING_BYTES: usize = 4096;

/// Writes the response to one request: a whole one, or the head of a streamed one.
///
/// A worker has one responder, at a fixed address for as long as it serves. So another thread can send written responses during a call
/// ([`Responder::send_all_now`]), if the caller lends the responder.
pub struct Responder {
    /// Responses of the connection being served; empty between connections.
    pub(crate) out: Vec<u8>,
    /// Responses of other connections that wait to be sent together.
    pub(crate) batch: Batch,
    pub(crate) stamp: Stamp,
    /// For a request in HTTP/2.
    pub(crate) frames: FrameWriter,
    pub(crate) messages: MessageWriter,
    pub(crate) framing: Framing,
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
    /// A whole response of the usual kind was written (see [`Responder::respond`]), and none of it has been sent.
    pub(crate) is_usual: bool,
    /// How a streamed content ends.
    pub(crate) delimiter: Delimiter,
    /// A content was started and not ended.
    pub(crate) is_open: bool,
    /// Nothing has to be sent before `out`, and the socket accepts bytes.
    can_send_now: bool,
    /// The connection being served.
    pub(crate) connection: ConnectionId,
    /// Bytes that were sent during the call, from the start of `out`.
    pub(crate) sent_bytes: usize,
    /// The connection is reset when it is closed.
    is_guarded: bool,
    is_broken: bool,
    /// Whether the application's field lines are kept for the log.
    pub(crate) keeps_lines: bool,
    kept_lines: Vec<u8>,
    /// They are those of the current response, which does not start like the last one then.
    has_kept: bool,
    /// Bytes of the response's content that were not written because there is no memory for them.
    lacked_bytes: usize,
}

impl Responder {
    pub(crate) fn new(stamp: Stamp) -> Responder {
        Responder {
            out: Vec::new(),
            batch: Batch::default(),
            stamp,
            frames: FrameWriter::default(),
            messages: MessageWriter::default(),
            framing: Framing {
                is_head: false,
                version: Version::Http11,
                persistent: false,
            },
            status: 0,
            content_bytes: 0,
            is_usual: false,
            delimiter: Delimiter::End,
            is_open: false,
            can_send_now: false,
            connection: ConnectionId::default(),
            sent_bytes: 0,
            is_guarded: false,
            is_broken: false,
            keeps_lines: false,
            kept_lines: Vec::new(),
            has_kept: false,
            lacked_bytes: 0,
        }
    }

    /// Another second has begun.
    #[cold]
    pub(crate) fn refresh(&mut self, unix_s: u64) {
        self.stamp.refresh(unix_s);
        self.frames.forget_last();
    }

    /// Prepares for a call of the application.
    #[inline]
    pub(crate) fn call_begins(&mut self, framing: Framing, can_send_now: bool) {
        self.framing = framing;
        self.status = 0;
        self.content_bytes = 0;
        self.is_usual = false;
        self.delimiter = Delimiter::End;
        self.is_open = false;
        self.has_kept = false;
        self.can_send_now = can_send_now;
    }

    /// Resets what was recorded about sending during the call. Returns true if closing the connection resets it.
    #[cold]
    pub(crate) fn forget_sent(&mut self) -> bool {
        self.sent_bytes = 0;
        self.is_broken = false;
        std::mem::take(&mut self.is_guarded)
    }

    /// The call has panicked.
    #[cold]
    pub(crate) fn give_up(&mut self) {
        self.out.clear();
        self.frames = FrameWriter::default();
        self.lacked_bytes = 0;
        self.forget_sent();
    }

    /// Bytes of memory that [`Responder::respond`] demands for a content of that length; 0 if it demands none.
    pub(crate) fn demanded_bytes(content_bytes: usize) -> usize {
        match content_bytes >= LONG_BYTES {
            true => content_bytes + FRAMING_BYTES,
            false => 0,
        }
    }

    /// Writes to another buffer, between two calls. It has room for a long content ([`Responder::demanded_bytes`]).
    pub(crate) fn write_to<R>(
        &mut self,
        out: &mut Vec<u8>,
        framing: Framing,
        write: impl FnOnce(&mut Responder) -> R,
    ) -> R {
        self.call_begins(framing, false);
        std::mem::swap(&mut self.out, out);
        let written = write(self);
        std::mem::swap(&mut self.out, out);
        // No later call may find it.
        let lacked_bytes = self.take_lacked_bytes();
        debug_assert_eq!(lacked_bytes, 0, "its memory was reserved before");
        written
    }

    /// Whether nothing has to be sent before this response, and the socket accepts bytes.
    pub fn can_send_now(&self) -> bool {
        self.can_send_now
    }

    /// Sends what has been written, as far as the socket accepts it, while the call continues. Only if [`Responder::can_send_now`]; the
    /// rest is sent when the call ends.
    ///
    /// Cost: one system call, two for a content that ends with the connection.
    #[cold]
    pub fn send_now(&mut self) {
        if !self.can_send_now || self.out.is_empty() {
            return;
        }
        let Some(transport) = self.batch.exits.transport(self.connection) else {
            return;
        };
        let is_first = self.is_open && self.delimiter == Delimiter::End && !self.is_guarded;
        if is_first {
            transport.set_reset_on_close(true);
        }
        let sent = match transport.send(&self.out) {
            Sent::Bytes(count) => count,
            // The peer is gone. The event that reports it ends the connection.
            Sent::Broken(_) => {
                self.is_broken = true;
                self.out.len()
            }
        };
        if is_first && sent == 0 {
            // The socket is as full as before, and its connection's state matches that.
            transport.set_reset_on_close(false);
        }
        self.is_guarded |= is_first && sent > 0;
        self.is_usual = false;
        self.sent_bytes += sent;
        self.out.drain(..sent);
    }

    /// As [`Responder::send_now`], and also sends the responses of other connections that wait for the end of the call. Returns false if
    /// sockets did not accept everything.
    #[cold]
    pub fn send_all_now(&mut self) -> bool {
        let has_left = self.batch.send_now();
        self.send_now();
        has_left && (self.out.is_empty() || !self.can_send_now)
    }

    /// Whether [`Responder::send_now`] detected that the client is gone.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Unsent bytes of this call and earlier ones.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() + self.frames.content.len()
    }

    /// Whether a final response, or the head of one, has been written.
    pub fn has_responded(&self) -> bool {
        self.status != 0
    }

    /// As [`Responder::respond`] with 200 and a constant, and a part of its caller if the response starts like the last one: without a
    /// call and without `Fields` in memory, this takes a third fewer instructions (bench: calls).
    #[inline(always)]
    pub fn respond_constant(&mut self, lines: &'static [u8], content: &[u8]) {
        let is_usual = self.framing.is_usual() && content.len() < LONG_BYTES;
        match is_usual && self.stamp.is_constant_as_before(lines, content.len()) {
            true => self.push_as_before(content),
            false => self.respond(200, Fields::constant(lines), content),
        }
    }

    /// Writes a whole response. To HEAD, and with 204 and 304, the content is omitted (RFC 9110 sections 9.3.2 and 6.4.1).
    ///
    /// If there is no memory for the content, the response is a 503, the last one of its connection.
    ///
    /// Cost: copies.
    pub fn respond(&mut self, status: u16, fields: Fields<'_>, content: &[u8]) {
        if content.len() >= LONG_BYTES && !self.has_room(content.len()) {
            return self.respond_without_memory();
        }
        let is_plain = status == 200 && !fields.replaces_ours();
        if !is_plain || !self.framing.is_usual() {
            return self.respond_otherwise(status, fields, content);
        }
        if !self.stamp.is_as_before(fields, content.len()) {
            self.stamp.remember(fields, content.len());
        }
        self.push_as_before(content);
    }

    /// Writes the remembered head and a content of the remembered length.
    #[inline]
    fn push_as_before(&mut self, content: &[u8]) {
        (self.status, self.is_usual) = (200, self.sent_bytes == 0);
        self.content_bytes = content.len() as u64;
        self.out.extend_from_slice(&self.stamp.last);
        self.out.extend_from_slice(content);
    }

    /// Whether there is memory for `content_bytes` and the bytes around them. If not, that is recorded.
    #[cold]
    fn has_room(&mut self, content_bytes: usize) -> bool {
        let out = match self.framing.version {
            Version::Http2 => &mut self.frames.content,
            Version::Http10 | Version::Http11 => &mut self.out,
        };
        let is_there = reserve(out, Responder::demanded_bytes(content_bytes)).is_ok();
        if !is_there {
            self.lacked_bytes = content_bytes;
        }
        is_there
    }

    /// Refuses the request, for which `bytes` of memory are missing, with a 503 that is the last response of its connection. Only before
    /// anything of another response is written.
    #[cold]
    pub fn refuse_for_memory(&mut self, bytes: usize) {
        self.lacked_bytes = bytes.max(1);
        self.respond_without_memory();
    }

    #[cold]
    fn respond_without_memory(&mut self) {
        self.framing.persistent = false;
        let response = Response::error(503, NO_MEMORY);
        let fields = Fields::of_application(&response.fields);
        self.respond_otherwise(503, fields, &response.content);
    }

    /// Returns and resets the number of content bytes that were not written for lack of memory. It is not 0 after a 503 in place of the
    /// response, or if the content of a started response is incomplete.
    pub(crate) fn take_lacked_bytes(&mut self) -> usize {
        std::mem::take(&mut self.lacked_bytes)
    }

    fn respond_otherwise(&mut self, status: u16, fields: Fields<'_>, content: &[u8]) {
        if self.framing.version == Version::Http2 {
            return self.respond_in_frames(status, fields, content);
        }
        // Nothing follows it.
        self.delimiter = Delimiter::Length(0);
        self.push_head(status, fields);
        let may_have = wire::may_generate_content(status);
        if wire::has_content(status) {
            let length = if may_have { content.len() } else { 0 };
            self.push_content_length(length as u64);
        }
        self.out.extend_from_slice(b"\r\n");
        if may_have && !self.framing.is_head {
            self.out.extend_from_slice(content);
            self.content_bytes = content.len() as u64;
        }
    }

    /// Writes the head of a streamed response. Without a `length` it is chunked, or to HTTP/1.0 delimited by the end of the connection.
    ///
    /// Returns false if no content may follow (HEAD, 204, 205, 304): the response is complete then. To HEAD and with 304, `length` is that
    /// of the content of a response to GET (RFC 9110 section 8.6).
    pub fn begin(&mut self, status: u16, fields: Fields<'_>, length: Option<u64>) -> bool {
        let has_content = wire::may_generate_content(status);
        if !has_content && (status != 304 || length.is_none()) {
            self.respond_otherwise(status, fields, b"");
            return false;
        }
        self.delimiter = match (length, self.framing.version) {
            (Some(length), _) => Delimiter::Length(length),
            (None, Version::Http10) => Delimiter::End,
            (None, Version::Http11) => Delimiter::Chunks,
            (None, Version::Http2) => Delimiter::Frames,
        };
        if self.framing.version == Version::Http2 {
            return self.begin_in_frames(status, fields, length);
        }
        self.framing.persistent &= self.delimiter != Delimiter::End;
        self.push_head(status, fields);
        match self.delimiter {
            Delimiter::Chunks => self
                .out
                .extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Delimiter::Length(length) => self.push_content_length(length),
            Delimiter::End | Delimiter::Frames => {}
        }
        self.out.extend_from_slice(b"\r\n");
        self.is_open = has_content && !self.framing.is_head;
        self.is_open
    }

    /// Whether content of a response with this status is sent.
    pub fn sends_content(&self, status: u16) -> bool {
        wire::may_generate_content(status) && !self.framing.is_head
    }

    /// Whether a content was started and not ended.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Writes a part of the content, after [`Responder::begin`]. If there is no memory for it, nothing more is written, and the response is
    /// truncated.
    pub fn push_part(&mut self, part: &[u8]) {
        if self.lacked_bytes > 0 || (part.len() >= LONG_BYTES && !self.has_room(part.len())) {
            return;
        }
        self.content_bytes += part.len() as u64;
        let out = match self.framing.version {
            Version::Http2 => &mut self.frames.content,
            Version::Http10 | Version::Http11 => &mut self.out,
        };
        self.delimiter.push_part(out, part);
    }

    /// Ends a content that was written in parts. Returns false if it is shorter than announced; it stays open then.
    pub fn finish(&mut self) -> bool {
        if self.lacked_bytes > 0 {
            return false;
        }
        match self.delimiter {
            Delimiter::Chunks => wire::push_last_chunk(&mut self.out, b""),
            Delimiter::Length(1..) => return false,
            Delimiter::Length(0) | Delimiter::End | Delimiter::Frames => {}
        }
        self.is_open = false;
        true
    }

    fn push_content_length(&mut self, length: u64) {
        self.out.extend_from_slice(b"Content-Length: ");
        wire::push_decimal(&mut self.out, length);
        self.out.extend_from_slice(b"\r\n");
    }

    fn push_head(&mut self, status: u16, fields: Fields<'_>) {
        self.status = status;
        self.keep_lines(fields);
        if status == 200 && !fields.replaces_ours() {
            self.out.extend_from_slice(&self.stamp.ok);
        } else {
            wire::push_status_line(&mut self.out, status, fields.reason);
            if !fields.replaced.server {
                self.out.extend_from_slice(self.stamp.server);
            }
            if !fields.replaced.date {
                self.out.extend_from_slice(&self.stamp.date);
            }
        }
        let id_line = self.stamp.id_line_beside(fields.lines);
        self.out.extend_from_slice(id_line);
        self.out.extend_from_slice(fields.lines);
        let connection = self.framing.connection_line(status, fields.lines);
        self.out.extend_from_slice(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Server: bolide\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    fn response(framing: Framing, status: u16, content: &[u8]) -> String {
        let mut responder = responder(true, framing);
        responder.respond(status, Fields::constant(b"A: b\r\n"), content);
        written(&responder)
    }

    fn responder(has_server_field: bool, framing: Framing) -> Responder {
        let mut responder = Responder::new(Stamp::new(has_server_field, 784_111_777));
        responder.call_begins(framing, false);
        responder
    }

    fn written(responder: &Responder) -> String {
        String::from_utf8(responder.out.clone()).unwrap()
    }

    fn framing() -> Framing {
        Framing {
            is_head: false,
            version: Version::Http11,
            persistent: true,
        }
    }

    /// Both ends of a connection with a full socket, and the transport of one.
    fn full_connection() -> (std::os::unix::net::UnixStream, std::sync::Arc<batch::Exit>) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let transport = net::Transport::from_blocking(theirs.into()).unwrap();
        while matches!(transport.send(&[b'.'; 65536]), Sent::Bytes(65536)) {}
        while matches!(transport.send(b"."), Sent::Bytes(1)) {}
        let exit = batch::Exit::new(transport, ConnectionId::default(), false);
        (ours, std::sync::Arc::new(exit))
    }

    #[test]
    fn a_full_socket_takes_no_guard_from_a_call() {
        let (_client, transport) = full_connection();
        let until_close = Framing {
            version: Version::Http10,
            ..framing()
        };
        let mut responder = responder(true, until_close);
        let id = ConnectionId::default();
        let exits = &mut responder.batch.exits;
        exits.open(id, std::sync::Arc::clone(&transport));
        responder.connection = id;
        responder.call_begins(until_close, true);
        assert!(responder.begin(200, Fields::constant(b""), None));
        responder.send_now();
        assert_eq!((responder.sent_bytes, responder.is_guarded), (0, false));
        let linger = rustix::net::sockopt::socket_linger(&**transport).unwrap();
        assert_eq!(linger, None);
    }

    #[test]
    fn whole_responses_are_framed_as_the_request_allows() {
        let ok = format!("HTTP/1.1 200 OK\r\n{DATE}A: b\r\n");
        assert_eq!(
            response(framing(), 200, b"hi"),
            format!("{ok}Content-Length: 2\r\n\r\nhi")
        );
        let head = Framing {
            is_head: true,
            ..framing()
        };
        assert_eq!(
            response(head, 200, b"hi"),
            format!("{ok}Content-Length: 2\r\n\r\n")
        );
        let old = Framing {
            version: Version::Http10,
            ..framing()
        };
        let kept = format!("{ok}Connection: keep-alive\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(response(old, 200, b"hi"), kept);
        let last = Framing {
            persistent: false,
            ..framing()
        };
        let closed = format!("{ok}Connection: close\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(response(last, 200, b"hi"), closed);
        let none = format!("HTTP/1.1 204 No Content\r\n{DATE}A: b\r\n\r\n");
        assert_eq!(response(framing(), 204, b"hi"), none);
    }

    #[test]
    fn streamed_responses_are_chunked_or_end_with_the_connection() {
        let mut responder = responder(false, framing());
        assert!(responder.begin(200, Fields::constant(b""), None));
        assert_eq!(responder.delimiter, Delimiter::Chunks);
        assert!(responder.framing.persistent);
        let old = Framing {
            version: Version::Http10,
            ..framing()
        };
        responder.call_begins(old, false);
        assert!(responder.begin(200, Fields::constant(b""), None));
        assert_eq!(responder.delimiter, Delimiter::End);
        assert!(!responder.framing.persistent);
        let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let chunked = format!("HTTP/1.1 200 OK\r\n{date}Transfer-Encoding: chunked\r\n\r\n");
        let until_close = format!("HTTP/1.1 200 OK\r\n{date}Connection: close\r\n\r\n");
        assert_eq!(written(&responder), chunked + &until_close);
    }

    #[test]
    fn a_length_that_is_known_is_sent() {
        let head = |framing: Framing, status: u16| {
            let mut responder = responder(true, framing);
            let has_parts = responder.begin(status, Fields::constant(b""), Some(7));
            let persistent = responder.framing.persistent;
            (has_parts, persistent, written(&responder))
        };
        let old = Framing {
            version: Version::Http10,
            ..framing()
        };
        let is_head = Framing {
            is_head: true,
            ..framing()
        };
        let length = "Content-Length: 7\r\n\r\n";
        let ok = format!("HTTP/1.1 200 OK\r\n{DATE}");
        assert_eq!(head(framing(), 200), (true, true, format!("{ok}{length}")));
        let kept = format!("{ok}Connection: keep-alive\r\n{length}");
        assert_eq!(head(old, 200), (true, true, kept));
        assert_eq!(head(is_head, 200), (false, true, format!("{ok}{length}")));
        let unchanged = format!("HTTP/1.1 304 Not Modified\r\n{DATE}{length}");
        assert_eq!(head(framing(), 304), (false, true, unchanged));
    }

    #[test]
    fn an_applications_own_date_or_server_replaces_that_one_only() {
        let head = |lines: &'static [u8]| {
            let mut responder = responder(true, framing());
            responder.respond(200, Fields::of_application(lines), b"");
            written(&responder)
        };
        let (server, date) = DATE.split_at("Server: bolide\r\n".len());
        let rest = "Content-Length: 0\r\n\r\n";
        let ok = "HTTP/1.1 200 OK\r\n";
        assert_eq!(
            head(b"DATE: now\r\n"),
            format!("{ok}{server}DATE: now\r\n{rest}")
        );
        assert_eq!(
            head(b"server: me\r\n"),
            format!("{ok}{date}server: me\r\n{rest}")
        );
        let both = format!("{ok}Server: me\r\nDate: now\r\n{rest}");
        assert_eq!(head(b"Server: me\r\nDate: now\r\n"), both);
        assert_eq!(
            head(b"Dates: now\r\n"),
            format!("{ok}{DATE}Dates: now\r\n{rest}")
        );
    }

    #[test]
    fn a_205_has_no_content_and_a_length_of_zero() {
        let expected =
            format!("HTTP/1.1 205 Reset Content\r\n{DATE}A: b\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(response(framing(), 205, b"hi"), expected);
        let mut responder = responder(true, framing());
        assert!(!responder.begin(205, Fields::constant(b"A: b\r\n"), None));
        assert_eq!(written(&responder), expected);
    }

    #[test]
    fn another_thread_may_use_it() {
        fn assert_is_send(_: impl Send) {}
        assert_is_send(responder(true, framing()));
    }
}
