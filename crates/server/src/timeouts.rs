//! Every timeout of peers and handlers: default, unit, reason.

use crate::pace::Rule;
use crate::setting::{Setting, settings};

settings! {
    /// Timeouts of one worker. All are on by default; 0 switches one off.
    Timeouts, "timeout", {
        tls_handshake_timeout_ms: 10000, "milliseconds",
            "Maximum time from a connection's start to the end of its TLS handshake, including the wait for a place (tls_handshakes_max); later ones are closed. Four round trips and a retransmission on a very slow network.";
        header_timeout_ms: 15000, "milliseconds",
            "Maximum time from a request's first byte (or the connection's start) to the end of its header section; later ones get 408. Single bytes do not extend it.";
        body_grace_ms: 5000, "milliseconds",
            "Time before the minimum rate of content applies; 0 switches off both the rate and the limit of pauses.";
        body_rate_bytes_per_s_min: 240, "bytes per second",
            "Minimum rate of content after the grace period, measured only while the server reads; slower ones get 408.";
        body_pause_ms_max: 30000, "milliseconds",
            "Maximum pause in content, however fast it was before; longer ones get 408. Not less than body_grace_ms, which is the limit while the server drains.";
        keep_alive_timeout_ms: 75000, "milliseconds",
            "Time an idle connection stays open after its client has received the last response. Longer than the 60 s for which load balancers keep their side open.";
        write_timeout_ms: 30000, "milliseconds",
            "Maximum pause of a client that receives a response, measured by its kernel's acknowledgements; then the connection is reset.";
        response_rate_bytes_per_s_min: 240, "bytes per second",
            "Minimum rate at which a client receives a response; a slower one is reset, after write_timeout_ms at the earliest. 0 limits pauses only.";
        handler_timeout_ms: 60000, "milliseconds",
            "Maximum time until a handler starts to respond, asynchronous or in a thread. Then the client gets 503 and the handler is cancelled, except in a thread, where the view keeps running.";
        queue_timeout_ms: 30000, "milliseconds",
            "Maximum time a request waits for the application (queue_max); then it gets 503, and is never begun. Longer than a short overload, shorter than clients wait.";
        websocket_ping_interval_ms: 20000, "milliseconds",
            "Time without input from a WebSocket's client after which it gets a ping, up to an eighth earlier, so that not all are pinged at once. Shorter than the 60 s after which proxies close idle connections. 0 sends none.";
        websocket_ping_timeout_ms: 20000, "milliseconds",
            "Maximum time for a response to a ping, or other input; then the WebSocket is closed with 1011.";
        websocket_close_timeout_ms: 10000, "milliseconds",
            "Maximum time from the server's close frame of a WebSocket to the client's; then the connection is closed. Several round trips on a slow network; 0 closes at once. A server that stops waits for 2 seconds at most.";
        linger_timeout_ms: 2000, "milliseconds",
            "Time for which input is discarded after the last response has arrived, so that the client sees it instead of a reset (RFC 9112 section 9.6), from a client that keeps sending for 15 times as long; 0 closes at once.";
    }
}

/// How long a draining server waits for a request on an idle connection, since its client may be sending one. Longer than the pause between
/// a busy client's requests, and too short to delay a shutdown noticeably. A server for development waits for less.
pub(crate) const DRAINING_IDLE_MS: u64 = 500;

/// How long a draining server waits for the close frame of a WebSocket's client, at most: a round trip on a bad mobile link. The
/// application was notified when the close began; a single silent client must not delay a shutdown for longer.
pub(crate) const DRAINING_CLOSE_MS: u64 = 2000;

/// Multiple of `linger_timeout_ms` during which input is discarded from a peer that keeps sending. It covers most uploads: many clients read
/// the response only after the upload, and with TLS lose it if that is cut off. There is no limit of bytes: a peer that wants to occupy a
/// connection and its bandwidth can do so for longer with requests that are served.
const LINGERS_MAX: u64 = 15;

impl Timeouts {
    /// The end of a wait of `length_ms` that started at `since_ms`; never, if it is switched off.
    pub(crate) fn end_ms(since_ms: u64, length_ms: u64) -> u64 {
        if length_ms == 0 {
            u64::MAX
        } else {
            since_ms.saturating_add(length_ms)
        }
    }

    /// How long so much content takes at the minimum rate; for ever, if there is none.
    pub(crate) fn content_ms_max(&self, bytes: u32) -> u64 {
        let ms = u64::from(bytes) * 1000;
        ms.checked_div(self.body_rate_bytes_per_s_min)
            .unwrap_or(u64::MAX)
    }

    /// For how long input is discarded from a peer that keeps sending after its response.
    pub(crate) fn lingering_ms_max(&self) -> u64 {
        LINGERS_MAX.saturating_mul(self.linger_timeout_ms)
    }

    /// The minimum rate of incoming content; None if it is not limited.
    pub(crate) fn content_rule(&self) -> Option<Rule> {
        let is_on = self.body_rate_bytes_per_s_min > 0 && self.body_grace_ms > 0;
        is_on.then(|| Rule {
            bytes_per_s_min: self.body_rate_bytes_per_s_min,
            pause_ms_max: self.body_pause_ms_max.max(self.body_grace_ms),
        })
    }

    /// The minimum rate of responses; None if it is not limited.
    pub(crate) fn response_rule(&self) -> Option<Rule> {
        (self.write_timeout_ms > 0).then_some(Rule {
            bytes_per_s_min: self.response_rate_bytes_per_s_min,
            pause_ms_max: self.write_timeout_ms,
        })
    }
}
