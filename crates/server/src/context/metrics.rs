//! What a worker counts for the metrics of the server: in numbers that its supervisor reads, also while the worker is occupied.
//!
//! Without metrics nothing is counted. With them, a request costs two additions, and a turn of a connection two readings of the clock.
//! [`FAMILIES`] describes every number; `python/bolide/server/management` writes them as text.

mod families;

use std::cell::Cell;

use net::{Clock, Numbers, precise_ns};
use wire::Method;

use super::slow_routes::{RequestName, SLOW_NS};

pub(crate) use self::families::CLIENT_RATE;
use self::families::{
    ACCEPTED, CONNECTIONS, DURATION, DURATIONS, HANDSHAKES, HELD, HELD_MAX, LOG_DROPPED, MESSAGES,
    PAUSE, PAUSES, REAPED, RECEIVED, REFUSED, RELIEVED, REQUESTS, SENT, SLOW_ENDED, STATUS_OTHER,
    STATUSES, STREAMS, WEBSOCKETS, WEBSOCKETS_OPENED,
};
pub use self::families::{
    BUSY_SINCE_MS, FAMILIES, Family, Kind, LONG_CALL_NS, Label, QUEUE_FULL, QUEUE_TIMEOUT,
    WAITING_REQUESTS,
};

/// What of a request is counted when its response is complete.
#[derive(Debug)]
pub(crate) struct Tally {
    method: Method,
    /// 0 if there is none: the client has left.
    pub(crate) status: u16,
    began_ns: u64,
    /// None: the application was not called for it, or it was not slow.
    pub(crate) called: Option<Called>,
}

/// What is kept of a request that may turn out to be slow.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) name: RequestName,
    /// Its call, or when a thread was there for it.
    pub(crate) began_ns: u64,
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
    /// The kernel's memory.
    Memory,
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
    /// When the turn began, or a later call ended whose end was timed: the current call began then, or some short ones later.
    called_ns: Cell<u64>,
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
            self.called_ns.set(self.turn_began_ns);
            if let Some(numbers) = self.numbers {
                numbers.set(LONG_CALL_NS, 0);
            }
        }
    }

    /// A call has ended. Returns how long it took, in nanoseconds, if it was slow. The clock is read only for one that [`LONG_CALL_NS`] marks.
    #[inline]
    pub(crate) fn call_ended(&self) -> Option<u64> {
        let numbers = self.numbers?;
        match numbers.get(LONG_CALL_NS) {
            0 => None,
            after_ns => self.time_call(after_ns),
        }
    }

    /// A call has ended that began after `after_ns`, or another one whose end is timed.
    #[cold]
    fn time_call(&self, after_ns: u64) -> Option<u64> {
        let took_ns = precise_ns().saturating_sub(self.called_after(after_ns));
        (took_ns >= SLOW_NS).then_some(took_ns)
    }

    /// Returns when the call that has ended began, and starts the time of the next one.
    fn called_after(&self, after_ns: u64) -> u64 {
        if let Some(numbers) = self.numbers {
            numbers.set(LONG_CALL_NS, 0);
        }
        self.called_ns.replace(precise_ns()).max(after_ns)
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
            called: None,
        })
    }

    /// What names a request whose call has ended, and when that began, if there is something to count in. `name` is not called for a request
    /// that `is_complete` and was not slow.
    pub(crate) fn called(
        &self,
        is_complete: bool,
        name: impl FnOnce() -> RequestName,
    ) -> Option<Called> {
        let numbers = self.numbers?;
        let after_ns = numbers.get(LONG_CALL_NS);
        if is_complete && after_ns == 0 {
            return None;
        }
        let began_ns = self.called_after(after_ns);
        let name = name();
        Some(Called { name, began_ns })
    }

    /// Counts a response that is complete now. Returns how long its request took from its call, in nanoseconds, if it was slow.
    pub(crate) fn completed(&mut self, tally: &Tally) -> Option<u64> {
        let numbers = self.numbers?;
        numbers.add(request_index(tally.method, tally.status), 1);
        let now_ns = precise_ns();
        if tally.status != 0 {
            let took_ns = now_ns.saturating_sub(tally.began_ns);
            observe(numbers, DURATION, DURATIONS, took_ns, 1);
        }
        let began_ns = tally.called.as_ref()?.began_ns;
        let took_ns = now_ns.saturating_sub(began_ns);
        (took_ns >= SLOW_NS).then_some(took_ns)
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
            // Threads of a WSGI application refuse what has waited too long.
            numbers.add_from_any(cause, 1);
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
        metrics.completed(&tally);
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

    fn name() -> RequestName {
        (*b"GET /").into()
    }

    #[test]
    fn a_long_call_is_timed_and_does_not_count_for_the_next() {
        let (mut metrics, numbers) = metrics();
        metrics.turn_begins();
        let began_ns = metrics.turn_began_ns();
        assert!(metrics.call_ended().is_none() && metrics.called(true, name).is_none());
        // It is marked, and was not slow.
        numbers.set(LONG_CALL_NS, 1);
        assert_eq!(metrics.call_ended(), None);
        // The turn began long before it.
        metrics.called_ns.set(began_ns - 9 * SLOW_NS);
        numbers.set(LONG_CALL_NS, began_ns - 3 * SLOW_NS);
        let took_ns = metrics.call_ended().unwrap();
        assert!((3 * SLOW_NS..=3 * SLOW_NS + (precise_ns() - began_ns)).contains(&took_ns));
        assert!(metrics.call_ended().is_none() && numbers.get(LONG_CALL_NS) == 0);
    }

    #[test]
    fn a_request_that_goes_on_takes_time_from_its_own_call() {
        let (mut metrics, numbers) = metrics();
        metrics.turn_begins();
        let began_ns = metrics.turn_began_ns();
        metrics.called_ns.set(began_ns - 3 * SLOW_NS);
        let mut tallies = [0, 0].map(|status| metrics.tally(Method::Get, status).unwrap());
        for tally in &mut tallies {
            tally.called = metrics.called(false, name);
        }
        let [first, second] = tallies;
        assert!(metrics.completed(&first).unwrap() >= 3 * SLOW_NS);
        assert_eq!(metrics.completed(&second), None);
        // One that was complete at once, and is recorded because of its status.
        numbers.set(LONG_CALL_NS, 1);
        metrics.called_ns.set(began_ns - 2 * SLOW_NS);
        let mut third = metrics.tally(Method::Get, 404).unwrap();
        third.called = metrics.called(true, name);
        assert!(metrics.completed(&third).unwrap() >= 2 * SLOW_NS);
        // One for which the application was not called.
        let fourth = metrics.tally(Method::Get, 503).unwrap();
        assert_eq!(metrics.completed(&fourth), None);
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
