//! Every number of a worker: its name, kind, unit and meaning, and its place among the others.

use net::Numbers;

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
pub(super) const METHODS: Label = (
    "method",
    &[
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "other",
    ],
);
pub(super) const STATUSES: Label = (
    "status",
    &["none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"],
);
pub(super) const STATUS_OTHER: usize = 6;

/// Seconds. Below a millisecond too: most calls take less.
pub(super) const DURATIONS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];
/// Seconds. Not below the resolution of the coarse clock.
pub(super) const PAUSES: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

pub(super) const REQUESTS: usize = 0;
pub(super) const DURATION: usize = REQUESTS + METHODS.1.len() * STATUSES.1.len();
pub(super) const PAUSE: usize = DURATION + DURATIONS.len() + 2;
pub(super) const CONNECTIONS: usize = PAUSE + PAUSES.len() + 2;
pub(super) const ACCEPTED: usize = CONNECTIONS + 1;
pub(super) const REFUSED: usize = ACCEPTED + 1;
pub(super) const RECEIVED: usize = REFUSED + 3;
pub(super) const SENT: usize = RECEIVED + 1;
pub(super) const HELD: usize = SENT + 1;
pub(super) const HELD_MAX: usize = HELD + 1;
pub(super) const RELIEVED: usize = HELD_MAX + 1;
pub(super) const REAPED: usize = RELIEVED + 2;
pub(super) const SLOW_ENDED: usize = REAPED + 3;
const QUEUED: usize = SLOW_ENDED + 3;
pub(super) const HANDSHAKES: usize = QUEUED + 1;
pub(super) const STREAMS: usize = HANDSHAKES + 2;
pub(super) const WEBSOCKETS: usize = STREAMS + 1;
pub(super) const WEBSOCKETS_OPENED: usize = WEBSOCKETS + 1;
pub(super) const MESSAGES: usize = WEBSOCKETS_OPENED + 1;
pub(super) const LOG_DROPPED: usize = MESSAGES + 2;
pub(super) const REFUSED_REQUESTS: usize = LOG_DROPPED + 1;
pub(super) const USED: usize = REFUSED_REQUESTS + 3;

/// Requests that wait for the application. The pools of threads change it too.
pub const WAITING_REQUESTS: usize = QUEUED;
/// Requests that were refused because too many waited.
pub const QUEUE_FULL: usize = REFUSED_REQUESTS;
/// Requests that were refused because they had waited too long.
pub const QUEUE_TIMEOUT: usize = REFUSED_REQUESTS + 1;
/// Requests that were refused because their client sends too many.
pub(crate) const CLIENT_RATE: usize = REFUSED_REQUESTS + 2;

/// Since when the worker has not looked for events, in milliseconds of the monotonic clock; 0 while it waits for them. Not a family: the
/// supervisor computes what it means at the time of asking.
pub const BUSY_SINCE_MS: usize = Numbers::COUNT - 1;

/// Not 0 if the application's call is long, as a thread has seen that looks from time to time: when it began at the earliest, in nanoseconds of
/// the monotonic clock. The worker replaces it by 0. If the call ends while the thread looks, the next one of the turn seems to be as long. Not a
/// family.
pub const LONG_CALL_NS: usize = Numbers::COUNT - 2;

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
        help: "Connections that were refused: limit, there were connections_max; memory, too little was left; \
               client, its client had client_connections_max.",
        labels: &[("cause", &["limit", "memory", "client"])],
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
        help: "Memory that clients make the server hold: input that cannot be used yet, requests, and responses \
               that wait.",
        labels: &[],
        first: HELD,
    },
    Family {
        name: "held_max_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The most that clients may make the server hold (memory_max of each worker); 0 for any amount.",
        labels: &[],
        first: HELD_MAX,
    },
    Family {
        name: "memory_reliefs",
        kind: Kind::Counter,
        unit: "",
        help: "What was done because clients made a worker hold nearly memory_max. refused: a request that is not short, \
               or for a WebSocket, got 503; ended: a connection lost what it made the server hold.",
        labels: &[("action", &["refused", "ended"])],
        first: RELIEVED,
    },
    Family {
        name: "idle_connections_closed",
        kind: Kind::Counter,
        unit: "",
        help: "Idle connections that were closed for new ones. limit: there were connections_max; descriptors: none \
               was left; memory: the system had none for another.",
        labels: &[("cause", &["limit", "descriptors", "memory"])],
        first: REAPED,
    },
    Family {
        name: "slow_requests_ended",
        kind: Kind::Counter,
        unit: "",
        help: "Requests that arrived slowly and were ended with 503, because new connections needed the places of theirs \
               and none was idle. The causes are those of idle_connections_closed.",
        labels: &[("cause", &["limit", "descriptors", "memory"])],
        first: SLOW_ENDED,
    },
    Family {
        name: "requests_waiting",
        kind: Kind::Gauge,
        unit: "",
        help: "Requests that wait for the application: for a thread (WSGI), or until fewer than concurrency_max run.",
        labels: &[],
        first: QUEUED,
    },
    Family {
        name: "tls_handshakes",
        kind: Kind::Counter,
        unit: "",
        help: "TLS handshakes that have ended, by result. One is failed too if its client has left or sends plain HTTP.",
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
        help: "Lines of the access log that are missing, because it was slower than the requests or could not be written.",
        labels: &[],
        first: LOG_DROPPED,
    },
    Family {
        name: "requests_refused",
        kind: Kind::Counter,
        unit: "",
        help: "Requests that were refused because of a limit. queue_full: queue_max waited (503); queue_timeout: it had \
               waited for queue_timeout_ms (503); client_rate: its client sends more than \
               client_requests_per_s_max (429).",
        labels: &[("cause", &["queue_full", "queue_timeout", "client_rate"])],
        first: REFUSED_REQUESTS,
    },
];

const _: () = assert!(USED < LONG_CALL_NS, "a page has room for them");
