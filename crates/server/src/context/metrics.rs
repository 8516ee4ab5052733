//! What a worker counts for the metrics of the server: in numbers that its supervisor reads, also while the worker is occupied.
//!
//! Without metrics nothing is counted. With them, a request costs two additions, and a turn of a connection two readings of the clock.
//! [`FAMILIES`] describes every number; `python/bolide/server/management` writes them as text.

use net::{Clock, Numbers, precise_ns};
use wire::Method;

/// What a family of numbers is, in the terms of OpenMetrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Only grows, and stays when its worker has ended.
    Counter,
    /// The state of a worker, which ends with it.
    Gauge,
    /// Counts of values up to each bound, those beyond the last, and the sum of all values in nanoseconds.
    Histogram(&'static [f64]),
}

/// A name and its values.
pub type Label = (&'static str, &'static [&'static str]);

/// Numbers with one name.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Without the prefix of the server, and the suffix that its kind requires.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit, with which the name ends; "" for a count.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// There is a number for each combination of their values, the last label's next to each other.
    pub labels: &'static [Label],
    /// The index of the first number.
    pub first: usize,
}

impl Family {
    /// How many numbers it has.
    pub fn count(&self) -> usize {
        let series: usize = self.labels.iter().map(|(_, values)| values.len()).product();
        match self.kind {
            Kind::Histogram(bounds) => series * (bounds.len() + 2),
            Kind::Counter | Kind::Gauge => series,
        }
    }
}

/// In the order of [`Method`].
const METHODS: Label = (
    "method",
    &[
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "other",
    ],
);
const STATUSES: Label = (
    "status",
    &["none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"],
);
const STATUS_OTHER: usize = 6;

/// Seconds. Below a millisecond too: most calls take less.
const DURATIONS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];
/// Seconds. Not below the resolution of the coarse clock.
const PAUSES: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

const REQUESTS: usize = 0;
const DURATION: usize = REQUESTS + METHODS.1.len() * STATUSES.1.len();
const PAUSE: usize = DURATION + DURATIONS.len() + 2;
const CONNECTIONS: usize = PAUSE + PAUSES.len() + 2;
const ACCEPTED: usize = CONNECTIONS + 1;
const REFUSED: usize = ACCEPTED + 1;
const RECEIVED: usize = REFUSED + 2;
const SENT: usize = RECEIVED + 1;
const HELD: usize = SENT + 1;
const QUEUED: usize = HELD + 1;
const HANDSHAKES: usize = QUEUED + 1;
const STREAMS: usize = HANDSHAKES + 2;
const WEBSOCKETS: usize = STREAMS + 1;
const WEBSOCKETS_OPENED: usize = WEBSOCKETS + 1;
const MESSAGES: usize = WEBSOCKETS_OPENED + 1;
const LOG_DROPPED: usize = MESSAGES + 2;
const USED: usize = LOG_DROPPED + 1;

/// Requests that wait for a thread of a WSGI application. The pools of threads change it.
pub const WAITING_REQUESTS: usize = QUEUED;

/// Since when the worker has not looked for events, in milliseconds of the monotonic clock; 0 while it waits for them. Not a family: the
/// supervisor computes what it means at the time of asking.
pub const BUSY_SINCE_MS: usize = Numbers::COUNT - 1;

/// Every number of a worker.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "http_requests",
        kind: Kind::Counter,
        unit: "",
        help: "Requests whose responses are complete, refused ones included, by method and class of status; \
               none: the client left before its response.",
        labels: &[METHODS, STATUSES],
        first: REQUESTS,
    },
    Family {
        name: "http_request_duration_seconds",
        kind: Kind::Histogram(DURATIONS),
        unit: "seconds",
        help: "Time from when a request's head was read until the whole response was passed on to the socket.",
        labels: &[],
        first: DURATION,
    },
    Family {
        name: "event_loop_pause_seconds",
        kind: Kind::Histogram(PAUSES),
        unit: "seconds",
        help: "Time between two looks for events, during which a worker serves, computes or blocks: how long an \
               event may have waited.",
        labels: &[],
        first: PAUSE,
    },
    Family {
        name: "connections",
        kind: Kind::Gauge,
        unit: "",
        help: "Open connections of clients.",
        labels: &[],
        first: CONNECTIONS,
    },
    Family {
        name: "connections_accepted",
        kind: Kind::Counter,
        unit: "",
        help: "Connections that were accepted, those refused included.",
        labels: &[],
        first: ACCEPTED,
    },
    Family {
        name: "connections_refused",
        kind: Kind::Counter,
        unit: "",
        help: "Connections that were refused: limit, there were connections_max; memory, too little was left.",
        labels: &[("cause", &["limit", "memory"])],
        first: REFUSED,
    },
    Family {
        name: "received_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        help: "Bytes received from clients, after TLS.",
        labels: &[],
        first: RECEIVED,
    },
    Family {
        name: "sent_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        help: "Bytes passed on to the sockets of clients, before TLS.",
        labels: &[],
        first: SENT,
    },
    Family {
        name: "held_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Memory that clients make the server hold: input that cannot be used yet, content, and responses \
               that wait.",
        labels: &[],
        first: HELD,
    },
    Family {
        name: "wsgi_requests_waiting",
        kind: Kind::Gauge,
        unit: "",
        help: "Requests that wait for a thread of a WSGI application.",
        labels: &[],
        first: QUEUED,
    },
    Family {
        name: "tls_handshakes",
        kind: Kind::Counter,
        unit: "",
        help: "TLS handshakes that have ended, by result. One is failed too if its client has left.",
        labels: &[("result", &["completed", "failed"])],
        first: HANDSHAKES,
    },
    Family {
        name: "http2_streams",
        kind: Kind::Counter,
        unit: "",
        help: "Streams that clients have opened on HTTP/2 connections, except those refused because there were too many.",
        labels: &[],
        first: STREAMS,
    },
    Family {
        name: "websockets",
        kind: Kind::Gauge,
        unit: "",
        help: "Open WebSockets, over HTTP/1.1 and HTTP/2.",
        labels: &[],
        first: WEBSOCKETS,
    },
    Family {
        name: "websockets_opened",
        kind: Kind::Counter,
        unit: "",
        help: "WebSockets that the application has accepted.",
        labels: &[],
        first: WEBSOCKETS_OPENED,
    },
    Family {
        name: "websocket_messages",
        kind: Kind::Counter,
        unit: "",
        help: "Messages of WebSockets, by direction; a published one counts for each receiver.",
        labels: &[("direction", &["received", "sent"])],
        first: MESSAGES,
    },
    Family {
        name: "access_log_lines_dropped",
        kind: Kind::Counter,
        unit: "",
        help: "Lines of the access log that were dropped, because it was slower than the requests.",
        labels: &[],
        first: LOG_DROPPED,
    },
];

const _: () = assert!(USED < BUSY_SINCE_MS, "a page has room for them");

/// What of a request is counted when its response is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    method: Method,
    /// 0 if there is none: the client has left.
    pub(crate) status: u16,
    began_ns: u64,
}

/// Why a connection was refused.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    Limit,
    Memory,
}

/// How a TLS handshake ended.
#[derive(Clone, Copy)]
pub(crate) enum HandshakeEnd {
    Completed,
    Failed,
}

/// Counts an open WebSocket until it is dropped.
pub(crate) struct OpenWebSocket(Option<Numbers>);

impl Drop for OpenWebSocket {
    fn drop(&mut self) {
        if let Some(numbers) = self.0 {
            numbers.subtract(WEBSOCKETS, 1);
        }
    }
}

/// Counts, if there is something to count in.
#[derive(Default)]
pub(crate) struct Metrics {
    numbers: Option<Numbers>,
    /// Whether turns are timed: for these numbers, or for the access log.
    is_timing: bool,
    /// When the current turn of a connection began; 0 unless they are timed.
    turn_began_ns: u64,
    /// Responses that it has completed.
    in_turn: u64,
    /// When the last wait ended.
    woke_ms: u64,
}

impl Metrics {
    pub(crate) fn new(numbers: Numbers) -> Metrics {
        Metrics {
            numbers: Some(numbers),
            is_timing: true,
            woke_ms: Clock::tick_ms(),
            ..Metrics::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.numbers.is_some()
    }

    /// Nothing to count in; turns may be timed.
    pub(crate) fn timing(is_timing: bool) -> Metrics {
        Metrics {
            is_timing,
            ..Metrics::default()
        }
    }

    /// Times turns, even if nothing is counted.
    pub(crate) fn time_turns(&mut self, is_timing: bool) {
        self.is_timing = is_timing || self.is_on();
    }

    /// When the current turn began, in nanoseconds of [`precise_ns`].
    pub(crate) fn turn_began_ns(&self) -> u64 {
        self.turn_began_ns
    }

    /// The turn of a connection begins.
    #[inline]
    pub(crate) fn turn_begins(&mut self) {
        if self.is_timing {
            self.turn_began_ns = precise_ns();
        }
    }

    /// Counts a response that was complete when the call returned.
    #[inline]
    pub(crate) fn responded(&mut self, method: Method, status: u16) {
        if let Some(numbers) = self.numbers {
            numbers.add(request_index(method, status), 1);
            self.in_turn += 1;
        }
    }

    /// The turn ends. What has been sent in it is counted, and the time of its responses, which are sent together.
    #[inline]
    pub(crate) fn turn_ends(&mut self, sent_bytes: usize) {
        if let Some(numbers) = self.numbers {
            if self.in_turn > 0 {
                let took_ns = precise_ns().saturating_sub(self.turn_began_ns);
                let count = std::mem::take(&mut self.in_turn);
                observe(numbers, DURATION, DURATIONS, took_ns, count);
            }
            numbers.add(SENT, sent_bytes as u64);
        }
    }

    /// What is to be counted of a request that was read in this turn, when its response is complete.
    pub(crate) fn tally(&self, method: Method, status: u16) -> Option<Tally> {
        self.numbers.map(|_| Tally {
            method,
            status,
            began_ns: self.turn_began_ns,
        })
    }

    /// Counts a response that is complete now.
    pub(crate) fn completed(&mut self, tally: Tally) {
        if let Some(numbers) = self.numbers {
            numbers.add(request_index(tally.method, tally.status), 1);
            if tally.status != 0 {
                let took_ns = precise_ns().saturating_sub(tally.began_ns);
                observe(numbers, DURATION, DURATIONS, took_ns, 1);
            }
        }
    }

    /// Counts bytes of input.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        if let Some(numbers) = self.numbers {
            numbers.add(RECEIVED, bytes as u64);
        }
    }

    /// Counts a connection.
    pub(crate) fn accepted(&self) {
        if let Some(numbers) = self.numbers {
            numbers.add(ACCEPTED, 1);
        }
    }

    /// Shows how many connections are open.
    pub(crate) fn set_open(&self, connections: usize) {
        if let Some(numbers) = self.numbers {
            numbers.set(CONNECTIONS, connections as u64);
        }
    }

    /// Counts a connection that is not served.
    pub(crate) fn refused(&self, why: Refusal) {
        if let Some(numbers) = self.numbers {
            numbers.add(REFUSED + why as usize, 1);
        }
    }

    /// Counts a TLS handshake that has ended.
    pub(crate) fn handshake_ended(&self, how: HandshakeEnd) {
        if let Some(numbers) = self.numbers {
            numbers.add(HANDSHAKES + how as usize, 1);
        }
    }

    /// Counts a stream of HTTP/2.
    #[inline]
    pub(crate) fn stream_opened(&self) {
        if let Some(numbers) = self.numbers {
            numbers.add(STREAMS, 1);
        }
    }

    /// Counts a WebSocket, which is open as long as the result exists.
    pub(crate) fn websocket_opened(&self) -> OpenWebSocket {
        if let Some(numbers) = self.numbers {
            numbers.add(WEBSOCKETS, 1);
            numbers.add(WEBSOCKETS_OPENED, 1);
        }
        OpenWebSocket(self.numbers)
    }

    /// Counts a message that the application receives.
    #[inline]
    pub(crate) fn message_received(&self) {
        if let Some(numbers) = self.numbers {
            numbers.add(MESSAGES, 1);
        }
    }

    /// Counts messages that were written.
    #[inline]
    pub(crate) fn messages_sent(&self, count: u64) {
        if let Some(numbers) = self.numbers {
            numbers.add(MESSAGES + 1, count);
        }
    }

    /// Shows how many lines of the access log were dropped.
    pub(crate) fn set_log_dropped(&self, lines: u64) {
        if let Some(numbers) = self.numbers {
            numbers.set(LOG_DROPPED, lines);
        }
    }

    /// The worker looks for events, and waits if there are none.
    #[inline]
    pub(crate) fn wait_begins(&self, held_bytes: u64) {
        if let Some(numbers) = self.numbers {
            numbers.set(HELD, held_bytes);
            let took_ms = Clock::tick_ms().saturating_sub(self.woke_ms);
            observe(numbers, PAUSE, PAUSES, took_ms * 1_000_000, 1);
            numbers.set(BUSY_SINCE_MS, 0);
        }
    }

    /// The worker has events to serve, or others to do.
    #[inline]
    pub(crate) fn wait_ends(&mut self) {
        if let Some(numbers) = self.numbers {
            self.woke_ms = Clock::tick_ms();
            numbers.set(BUSY_SINCE_MS, self.woke_ms);
        }
    }
}

#[inline]
fn request_index(method: Method, status: u16) -> usize {
    let class = usize::from(status / 100).min(STATUS_OTHER);
    REQUESTS + method as usize * STATUSES.1.len() + class
}

/// Counts `count` equal values in a histogram.
fn observe(numbers: Numbers, first: usize, bounds: &[f64], took_ns: u64, count: u64) {
    let seconds = took_ns as f64 / 1e9;
    let bucket = bounds.iter().take_while(|bound| **bound < seconds).count();
    numbers.add(first + bucket, count);
    numbers.add(first + bounds.len() + 1, took_ns.saturating_mul(count));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> (Metrics, Numbers) {
        let numbers = Numbers::new().unwrap();
        (Metrics::new(numbers), numbers)
    }

    #[test]
    fn families_share_no_number() {
        let mut next = 0;
        for family in FAMILIES {
            assert_eq!(family.first, next, "{}", family.name);
            next += family.count();
        }
        assert_eq!(next, USED);
        let names: std::collections::HashSet<&str> = FAMILIES.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        assert_eq!(METHODS.1.len(), Method::Other as usize + 1);
    }

    #[test]
    fn responses_are_counted_by_method_and_class_of_status() {
        let (mut metrics, numbers) = metrics();
        metrics.turn_begins();
        metrics.responded(Method::Get, 200);
        metrics.responded(Method::Get, 204);
        metrics.responded(Method::Other, 599);
        metrics.responded(Method::Post, 999);
        metrics.turn_ends(70);
        let tally = metrics.tally(Method::Head, 0).unwrap();
        metrics.completed(tally);
        let read = numbers.read();
        let count = |method: Method, class: usize| read[method as usize * STATUSES.1.len() + class];
        assert_eq!(count(Method::Get, 2), 2);
        assert_eq!(count(Method::Other, 5), 1);
        assert_eq!(count(Method::Post, STATUS_OTHER), 1);
        assert_eq!(count(Method::Head, 0), 1);
        assert_eq!(read[..DURATION].iter().sum::<u64>(), 5);
        // A request without a response took no time that means anything.
        assert_eq!(
            read[DURATION..DURATION + DURATIONS.len() + 1]
                .iter()
                .sum::<u64>(),
            4
        );
        assert_eq!(read[SENT], 70);
    }

    #[test]
    fn values_are_in_the_first_bucket_whose_bound_is_not_less() {
        let (_, numbers) = metrics();
        for took_ms in [0, 10, 11, 60_000, 60_001] {
            observe(numbers, PAUSE, PAUSES, took_ms * 1_000_000, 1);
        }
        let read = numbers.read();
        let buckets = &read[PAUSE..=PAUSE + PAUSES.len()];
        assert_eq!(buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(read[PAUSE + PAUSES.len() + 1], 120_022_000_000);
    }

    #[test]
    fn nothing_is_counted_without_numbers() {
        let mut metrics = Metrics::default();
        metrics.turn_begins();
        metrics.responded(Method::Get, 200);
        metrics.turn_ends(1);
        assert_eq!((metrics.in_turn, metrics.turn_began_ns), (0, 0));
        assert!(metrics.tally(Method::Get, 200).is_none() && !metrics.is_on());
    }
}
