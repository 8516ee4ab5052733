//! What a worker counts for the metrics of the server: in numbers that its supervisor reads, also while the worker is occupied.
//!
//! Without metrics nothing is counted. With them, a request costs two additions, and a turn of a connection two readings of the clock.
//! [`FAMILIES`] describes every number; `python/bolide/server/management` writes them as text.

mod families;

use net::{Clock, Numbers, precise_ns};
use wire::Method;

pub(crate) use self::families::CLIENT_RATE;
use self::families::{
    ACCEPTED, CONNECTIONS, DURATION, DURATIONS, HANDSHAKES, HELD, HELD_MAX, LOG_DROPPED, MESSAGES,
    PAUSE, PAUSES, REAPED, RECEIVED, REFUSED, RELIEVED, REQUESTS, SENT, SLOW_ENDED, STATUS_OTHER,
    STATUSES, STREAMS, WEBSOCKETS, WEBSOCKETS_OPENED,
};
pub use self::families::{
    BUSY_SINCE_MS, FAMILIES, Family, Kind, Label, QUEUE_FULL, QUEUE_TIMEOUT, WAITING_REQUESTS,
};

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
    Client,
}

/// What was done because of the budget of memory.
#[derive(Clone, Copy)]
pub(crate) enum Relieved {
    Refused,
    Ended,
}

/// What there was none of for a new connection, so that an idle one was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scarce {
    Places,
    Descriptors,
}

/// Which connections are closed for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Victims {
    /// Those that wait for a request.
    Idle,
    /// Those whose request arrives slowly.
    Slow,
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

    /// Shows how much may be held.
    pub(crate) fn set_held_max(&self, bytes: u64) {
        if let Some(numbers) = self.numbers {
            numbers.set(HELD_MAX, bytes);
        }
    }

    /// Counts what was done because of the budget of memory.
    #[cold]
    pub(crate) fn relieved(&self, how: Relieved) {
        if let Some(numbers) = self.numbers {
            numbers.add(RELIEVED + how as usize, 1);
        }
    }

    /// Counts connections that were closed for others.
    #[cold]
    pub(crate) fn reaped(&self, victims: Victims, scarce: Scarce, count: usize) {
        let first = match victims {
            Victims::Idle => REAPED,
            Victims::Slow => SLOW_ENDED,
        };
        if let Some(numbers) = self.numbers {
            numbers.add(first + scarce as usize, count as u64);
        }
    }

    /// Counts a request that is refused, or shows a number, by its index.
    #[cold]
    pub(crate) fn count_refused(&self, cause: usize) {
        if let Some(numbers) = self.numbers {
            numbers.add(cause, 1);
        }
    }

    /// One more or fewer request waits for the application.
    #[cold]
    pub(crate) fn waiting_changed(&self, by: i64) {
        if let Some(numbers) = self.numbers {
            numbers.add_from_any(WAITING_REQUESTS, by as u64);
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

    /// Shows how many lines of the access log are missing.
    pub(crate) fn set_log_missing(&self, lines: u64) {
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
        assert_eq!(next, families::USED);
        let names: std::collections::HashSet<&str> = FAMILIES.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        assert_eq!(families::METHODS.1.len(), Method::Other as usize + 1);
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
