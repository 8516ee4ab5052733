//! A response, or a part of one, in owned memory.

use std::fmt::Debug;
use std::fs::File;
use std::sync::Arc;

/// The content of a 503 for a request or response that there is no memory for.
pub(crate) const NO_MEMORY: &str = "The server has no memory for this now; try again shortly.";

/// The content of a 503 for a request that a server which stops does not serve.
pub(crate) const STOPPING: &str = "The server is stopping; try again.";

/// The content of a 503 for a connection or WebSocket of a client that has too many.
pub(crate) const CLIENT_IS_FULL: &str = "This client has too many connections; close some.";

/// The content of a 503 for a request that arrives slowly, when others need its connection's place.
pub(crate) const SLOW: &str = "This server has reached its maximum number of connections, and the request arrived slowly; try again shortly.";

/// The content of a 413.
pub(crate) const CONTENT_TOO_LONG: &str = "The content is longer than this server accepts.";

/// A whole response, in owned bytes.
#[derive(Debug, Default)]
pub struct Response {
    /// The status code, 200-999.
    pub status: u16,
    /// The reason phrase, as in [`crate::Fields::reason`].
    pub reason: Vec<u8>,
    /// Encoded field lines, each with its CRLF, without Content-Length and Connection.
    pub fields: Vec<u8>,
    /// The content.
    pub content: Vec<u8>,
    /// The length of a streamed content, if the application knows it. It is sent as Content-Length. Parts beyond it are dropped, and a
    /// shorter content truncates the connection.
    pub length: Option<u64>,
    /// How long its request has waited for a thread, if that is to be logged.
    pub waited_ms: u32,
}

impl Response {
    /// The response to a request whose application failed.
    pub(crate) fn failure() -> Response {
        Response::error(500, "500 Internal Server Error")
    }

    /// A short response in plain text.
    pub(crate) fn error(status: u16, reason: &str) -> Response {
        let mut fields = b"Content-Type: text/plain; charset=utf-8\r\n".to_vec();
        if status == 503 {
            fields.extend_from_slice(b"Retry-After: 1\r\n");
        }
        Response {
            status,
            reason: Vec::new(),
            fields,
            content: [reason.as_bytes(), b"\n"].concat(),
            length: None,
            waited_ms: 0,
        }
    }

    /// Makes it empty, and keeps its capacity.
    pub fn clear(&mut self) {
        self.status = 0;
        self.reason.clear();
        self.fields.clear();
        self.content.clear();
        self.length = None;
    }
}

/// A part of a content in memory of the application, which stays as it is until this is dropped.
pub trait HeldPart: Debug + Send {
    /// The part.
    fn bytes(&self) -> &[u8];
}

impl HeldPart for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Part of a file that is part of a response. It is sent without being read into memory.
#[derive(Debug)]
pub struct FilePart {
    /// The file, open for reading. It is closed when the part has been sent or dropped.
    pub file: Arc<File>,
    /// Start of the part in the file.
    pub offset: u64,
    /// Length of the part in bytes. If the file has fewer, the connection is truncated.
    pub length: u64,
}
