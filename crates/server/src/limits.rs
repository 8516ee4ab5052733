//! Every limit on what a peer can make the server hold or do: default, unit, reason.

use crate::setting::{Setting, settings};

settings! {
    /// How much one worker takes from its peers. All are on by default; 0 is refused by the option table where it makes no sense.
    Limits, "limit", {
        request_line_bytes_max: 8192, "bytes",
            "Longest request line; beyond it the response is 414. RFC 9112 section 3 asks for at least 8000.";
        header_section_bytes_max: 32768, "bytes",
            "Longest header section; beyond it the response is 431. Browsers with many cookies stay below 16 KiB.";
        field_lines_max: 100, "count",
            "Most field lines in a header section; beyond it the response is 431. Bounds the work per request, not only its bytes.";
        body_bytes_max: 16777216, "bytes",
            "Longest content of a request; beyond it the response is 413, at once where Content-Length announces it.";
        content_buffer_bytes_max: 65536, "bytes",
            "Content that is held for a handler which reads it piece by piece; beyond it the peer is made to wait.";
        send_buffer_bytes_max: 262144, "bytes",
            "Responses that wait for a peer to read them, or for their turn; beyond it no further request of that connection is begun.";
        pipelined_exchanges_max: 16, "count",
            "Pipelined requests of one connection in work at the same time; beyond it reading pauses.";
        queued_requests_max: 1024, "count",
            "Requests that wait for a thread to call a WSGI application; for one more the response is 503. Counts requests, not connections: idle ones take no place.";
        whole_content_bytes_max: 1048576, "bytes",
            "Content of known length that is read before a thread calls a WSGI application with it, so that a slow upload holds no thread; a longer one is read by the application as it arrives. Chunked content is always read before.";
        connections_max: 16384, "count",
            "Open connections of one worker. One more waits for another worker that has room; if all are full, the response is 503, and it is closed.";
    }
}

/// Bytes that one read may bring: the worker's shared receive buffer.
pub(crate) const RECEIVE_BYTES: usize = 65_536;

impl Limits {
    /// The most bytes that one connection can make the server hold besides its responses' own size and what its handlers keep: an
    /// incomplete head and those of the requests in work, content, the send buffer, and what the kernel gave in one read.
    pub fn connection_bytes_max(&self) -> u64 {
        let head = self
            .request_line_bytes_max
            .saturating_add(self.header_section_bytes_max);
        let heads = head.saturating_mul(self.pipelined_exchanges_max.saturating_add(1));
        let received = 2 * RECEIVE_BYTES as u64;
        [self.body_bytes_max, self.send_buffer_bytes_max, received]
            .into_iter()
            .fold(heads, u64::saturating_add)
    }

    pub(crate) fn head(&self) -> wire::HeadLimits {
        wire::HeadLimits {
            request_line_bytes_max: self.request_line_bytes_max as usize,
            header_section_bytes_max: self.header_section_bytes_max as usize,
            field_lines_max: self.field_lines_max as usize,
        }
    }
}
