//! Every limit on what a peer can make the server hold or do: default, unit, reason.

use crate::setting::{Setting, settings};

settings! {
    /// Resources that peers can use in one worker. All are on by default; the option table refuses 0 where it makes no sense.
    Limits, "limit", {
        request_line_bytes_max: 8192, "bytes",
            "Maximum length of the request line; longer ones get 414. RFC 9112 section 3 recommends at least 8000.";
        header_section_bytes_max: 32768, "bytes",
            "Maximum length of the header section; longer ones get 431. Browsers with many cookies stay below 16 KiB.";
        field_lines_max: 100, "count",
            "Maximum number of field lines in a header section; more get 431. Limits the work per request, not only its length.";
        body_bytes_max: 16777216, "bytes",
            "Maximum length of a request's content; longer ones get 413, at once if Content-Length announces it.";
        content_buffer_bytes_max: 65536, "bytes",
            "Maximum content held for a handler that reads it in parts; beyond it the server stops reading from the peer.";
        send_buffer_bytes_max: 262144, "bytes",
            "Maximum unsent response bytes of a connection; beyond it none of its further requests is started. Over HTTP/2 only if as many complete responses wait as pipelined_exchanges_max says, so that a client may read one slowly.";
        pipelined_exchanges_max: 16, "count",
            "Maximum pipelined requests of one connection that run concurrently; beyond it reading pauses. Over HTTP/2, see send_buffer_bytes_max.";
        queue_max: 1024, "count",
            "Maximum requests of one worker that wait for the application: for a thread (WSGI), or because concurrency_max run. One more gets 503. Idle connections do not count.";
        whole_content_bytes_max: 1048576, "bytes",
            "Maximum length of content that is read completely before a thread calls a WSGI application, so that a slow upload occupies no thread. The application reads longer content as it arrives. Chunked content is always read first.";
        spool_bytes_max: 67108864, "bytes",
            "The part of one WSGI response that is written to a temporary file if its client does not read it and another request needs its thread; beyond it the thread waits for the client. 64 MiB holds most downloads.";
        spool_total_bytes_max: 1073741824, "bytes",
            "All such files of one worker together; beyond it threads wait for their clients. Sixteen of the largest.";
        h2_streams_max: 100, "count",
            "Maximum concurrent streams of an HTTP/2 connection; one more is refused with REFUSED_STREAM. RFC 9113 section 6.5.2 recommends at least 100.";
        h2_table_bytes_max: 4096, "bytes",
            "Maximum size of the table for the compression of an HTTP/2 connection's requests (RFC 7541 section 4.2). The default of the protocol holds the fields of a browser.";
        h2_idle_frames_max: 10000, "count",
            "Maximum HTTP/2 frames of a connection that are not progress (PING, SETTINGS, PRIORITY, empty DATA and the like) in 10 s; more end it with ENHANCE_YOUR_CALM. Each request and each part of content pays for four.";
        h2_resets_max: 200, "count",
            "Maximum HTTP/2 streams of a connection that are reset in 10 s, by the client or because of its errors; more end it with ENHANCE_YOUR_CALM if they are more than half of its requests. A page that is left resets some tens.";
        websocket_message_bytes_max: 16777216, "bytes",
            "Maximum length of a WebSocket message, decompressed and with all its fragments; a longer one closes the WebSocket with 1009, at once if its frame announces it.";
        websocket_fragments_max: 131072, "count",
            "Maximum frames of one WebSocket message; more close the WebSocket with 1009. Fragments of 64 bytes still make a message of 8 MiB.";
        websocket_queued_bytes_max: 1048576, "bytes",
            "Maximum memory of what waits for a WebSocket that receives published messages; one more message closes it with 1013. Each takes its length and about 80 bytes. A client that has missed this much will hardly catch up. The WebSockets of one HTTP/2 connection have four times that together, as much as a browser with a few pages needs; beyond it, the one for which most waits is closed.";
        websocket_topics_max: 256, "count",
            "Maximum topics that one WebSocket of a native application subscribes to; subscribe() to one more raises RuntimeError. Clients often choose their topics. A topic takes about 1 KiB at most: its name has at most 256 bytes, and a longer one is a ValueError.";
        connections_max: 16384, "count",
            "Maximum open connections of one worker. One more waits for a worker that has room; if all are full, it gets 503 and is closed.";
        tls_handshakes_max: 1024, "count",
            "Maximum TLS handshakes of one worker that are under way. A client has a place from its whole ClientHello on. Further clients wait for one, within tls_handshake_timeout_ms; while they do, a client loses its place after 2 s, or sooner if more wait than there are places (500 ms at least). Each takes about 20 KiB, with long certificates of its client up to 424 KiB, and less than a millisecond of processor time, or several with an RSA key of more than 3072 bits or a revocation list of more than 1 MiB; with 1024 places a round trip of 300 ms still allows 3,000 per second.";
    }
}

settings! {
    /// Limits that are off by default, because what is right depends on the application and its clients.
    OptionalLimits, "optional limit", {
        concurrency_max: 0, "count",
            "Maximum requests of one worker that run at once, in coroutines; further ones wait (queue_max, queue_timeout_ms). A request runs until its handler has ended. WebSockets and handlers that are no coroutines do not count. WSGI applications have threads instead. 0 = no limit.";
        client_connections_max: 0, "count",
            "Maximum connections that one client may have open to one worker; one more gets 503 and is closed, with TLS or proxy_protocol it is closed. Trusted proxies are not limited. With proxy_protocol, the client that they name is; otherwise its WebSockets are, which get 503. 0 = no limit.";
        client_requests_per_s_max: 0, "requests per second",
            "Maximum rate of one client's requests, of all workers together; more get 429 with Retry-After. A stream of HTTP/2 and the handshake of a WebSocket are requests. The client is that which trusted proxies name; they themselves are not limited. 0 = no limit.";
        client_burst_max: 0, "count",
            "Maximum requests of one client that may come at once, before client_requests_per_s_max applies. 0 = as many as in one second.";
    }
}

/// Maximum bytes of one read: the size of the worker's shared receive buffer.
pub(crate) const RECEIVE_BYTES: usize = 65_536;

/// Content of several HTTP/2 streams that may be held for their calls at the same time, besides one of the greatest length and what windows allow.
pub(crate) const CALLS_BYTES_MAX: usize = 1 << 20;
/// Content that the client of one stream of an HTTP/2 connection may send ahead of its handler, so that an upload takes fewer round trips. The same for
/// one stream that carries a WebSocket.
pub(crate) const AHEAD_BYTES: u32 = 1 << 20;
/// What an HTTP/2 connection records of one stream, besides its head, content and response (checked in `h2.rs`).
pub(crate) const H2_STREAM_BYTES: u64 = 2048;
/// Parts of WebSockets' messages up to this length are not limited together on a connection: as much as the windows of its streams allow anyway.
pub(crate) const SHORT_MESSAGE_BYTES: usize = 64 * 1024;
/// What it records besides its streams: those that were reset, and frames that wait (checked in `h2.rs`).
pub(crate) const H2_RECORDS_BYTES: u64 = 64 * 1024;
/// Memory for the frames of one read: the replies to the shortest ones are twice as long.
const H2_SPARE_BYTES: u64 = 512 * 1024;
/// The largest window of flow control (RFC 9113 section 6.9.1).
const MAX_WINDOW_BYTES: u64 = 0x7fff_ffff;
/// The WebSockets of one connection may queue as much as so many of them.
const QUEUES_PER_CONNECTION: u64 = 4;

impl Limits {
    /// Maximum bytes that one connection can make the server hold, apart from the length of its responses and what its handlers keep: an
    /// incomplete head and those of the running requests, content, the send buffer, and the result of one read. `compressor_bytes` is what a
    /// WebSocket holds to compress and decompress.
    pub fn connection_bytes_max(&self, compressor_bytes: u64) -> u64 {
        let head = self
            .request_line_bytes_max
            .saturating_add(self.header_section_bytes_max);
        let heads = head.saturating_mul(self.pipelined_exchanges_max.saturating_add(1));
        let received = 2 * RECEIVE_BYTES as u64;
        let http = [self.body_bytes_max, self.send_buffer_bytes_max, received]
            .into_iter()
            .fold(heads, u64::saturating_add);
        http.max(self.websocket_bytes_max(compressor_bytes))
    }

    /// The same for a WebSocket: a message of the greatest length and what decompresses it, what waits to be sent, and the result of one read.
    fn websocket_bytes_max(&self, compressor_bytes: u64) -> u64 {
        let received = 2 * RECEIVE_BYTES as u64;
        [
            self.websocket_message_bytes_max,
            self.websocket_queued_bytes_max,
            compressor_bytes,
        ]
        .into_iter()
        .fold(received, u64::saturating_add)
    }

    /// The same for a connection that uses HTTP/2: the heads of its requests, or the short messages and the compressors of its WebSockets, one
    /// content of the greatest length, what the windows allow for the others, what waits for WebSockets, the send buffer, the tables of both
    /// sides, and what is recorded of streams.
    pub fn http2_connection_bytes_max(&self, compressor_bytes: u64) -> u64 {
        let head = self
            .request_line_bytes_max
            .saturating_add(self.header_section_bytes_max);
        let websocket = SHORT_MESSAGE_BYTES as u64 + compressor_bytes;
        let stream = head
            .max(websocket)
            .saturating_add(u64::from(self.h2_window_bytes()))
            .saturating_add(H2_STREAM_BYTES);
        let streams = stream.saturating_mul(self.h2_streams_max);
        // One upload, and one WebSocket.
        let ahead = CALLS_BYTES_MAX as u64 + 2 * u64::from(AHEAD_BYTES);
        let content = self.body_bytes_max.max(self.websocket_message_bytes_max);
        let content = content.saturating_add(ahead);
        let queued = self.websockets_queued_bytes_max();
        let tables = self.h2_table_bytes_max.saturating_mul(2);
        let received = 2 * RECEIVE_BYTES as u64 + self.header_section_bytes_max;
        [
            content,
            queued,
            tables,
            self.send_buffer_bytes_max,
            received,
            H2_RECORDS_BYTES,
        ]
        .into_iter()
        .fold(streams, u64::saturating_add)
    }

    /// What may wait for all WebSockets of a connection that receive published messages.
    pub(crate) fn websockets_queued_bytes_max(&self) -> u64 {
        self.websocket_queued_bytes_max
            .saturating_mul(QUEUES_PER_CONNECTION)
    }

    /// The window of an HTTP/2 stream: as much content is held for a handler that has not asked for it.
    pub(crate) fn h2_window_bytes(&self) -> u32 {
        self.content_buffer_bytes_max.clamp(1, MAX_WINDOW_BYTES) as u32
    }

    /// Without this much memory left, no frame of HTTP/2 is served: what one read can contain, and one header block. Less than a request
    /// needs to be started, with the default limits, so that a request is refused before its connection.
    pub(crate) fn h2_spare_bytes(&self) -> usize {
        let head = self
            .header_section_bytes_max
            .saturating_add(self.request_line_bytes_max);
        // A block is decoded in memory that grows by doubling; a table moves its lines when it grows, with a record for each.
        let decoded = head.saturating_mul(3);
        let table = self.h2_table_bytes_max.saturating_mul(4);
        let bytes = H2_SPARE_BYTES.saturating_add(decoded).saturating_add(table);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    pub(crate) fn head(&self) -> wire::HeadLimits {
        wire::HeadLimits {
            request_line_bytes_max: self.request_line_bytes_max as usize,
            header_section_bytes_max: self.header_section_bytes_max as usize,
            field_lines_max: self.field_lines_max as usize,
        }
    }
}
