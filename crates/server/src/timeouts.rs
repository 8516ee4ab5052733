//! Every time a peer or a handler is given: default, unit, reason.

use crate::pace::Rule;
use crate::setting::{Setting, settings};

settings! {
    /// How long one worker waits. All are on by default; 0 switches one off.
    Timeouts, "timeout", {
        header_timeout_ms: 15000, "milliseconds",
            "From a request's first byte (or the connection's start) to the end of its header section; then 408. Absolute: a byte now and then does not extend it.";
        body_grace_ms: 5000, "milliseconds",
            "Time a content may take before its minimum rate counts; 0 switches both the rate and the bound of pauses off.";
        body_rate_bytes_per_s_min: 240, "bytes per second",
            "Slowest content after the grace, measured only while the server is willing to read; below it the response is 408.";
        body_pause_ms_max: 30000, "milliseconds",
            "Longest pause of a content that was faster before, so that speed at its start buys no hours at its end; then 408. Not less than body_grace_ms, which is the bound while the server drains.";
        keep_alive_timeout_ms: 75000, "milliseconds",
            "A connection without a request, from the moment its client has the last response; then it is closed. Longer than the 60 s that load balancers keep their side open.";
        write_timeout_ms: 30000, "milliseconds",
            "Longest pause of a client that takes a response, by what its kernel acknowledges; then the connection is reset.";
        response_rate_bytes_per_s_min: 240, "bytes per second",
            "Slowest client that takes a response: one that is slower for long is reset, after write_timeout_ms at the earliest; 0 counts pauses only.";
        handler_timeout_ms: 60000, "milliseconds",
            "A handler that has not begun to respond, asynchronous or in a thread; then the response is 503 and it is cancelled (a thread cannot be: its view runs on).";
        queue_timeout_ms: 30000, "milliseconds",
            "A request that waits for a thread to call a WSGI application; then 503. Longer than a short overload, shorter than clients wait.";
        linger_timeout_ms: 2000, "milliseconds",
            "Reading on after the last response has arrived, so that the client sees it instead of a reset (RFC 9112 section 9.6); 0 closes at once.";
    }
}

impl Timeouts {
    /// When a wait of `length_ms` that began at `since_ms` ends; never, when it is switched off.
    pub(crate) fn end_ms(since_ms: u64, length_ms: u64) -> u64 {
        if length_ms == 0 {
            u64::MAX
        } else {
            since_ms.saturating_add(length_ms)
        }
    }

    /// How fast content has to come; nothing, when it may take its time.
    pub(crate) fn content_rule(&self) -> Option<Rule> {
        let is_on = self.body_rate_bytes_per_s_min > 0 && self.body_grace_ms > 0;
        is_on.then(|| Rule {
            bytes_per_s_min: self.body_rate_bytes_per_s_min,
            pause_ms_max: self.body_pause_ms_max.max(self.body_grace_ms),
        })
    }

    /// How fast a response has to be taken; nothing, when that may take its time.
    pub(crate) fn response_rule(&self) -> Option<Rule> {
        (self.write_timeout_ms > 0).then_some(Rule {
            bytes_per_s_min: self.response_rate_bytes_per_s_min,
            pause_ms_max: self.write_timeout_ms,
        })
    }
}
