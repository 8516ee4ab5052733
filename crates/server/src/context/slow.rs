//! Requests whose application takes long to start its response, for a thread that reports them while they run.
//!
//! A request is entered before its application is called, because the call may block, and leaves when its response starts. The reactor's
//! thread only writes; another one reads, which needs neither the reactor nor the event loop. Nothing here exists unless it is asked for.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::app::head::Head;
use crate::id::ExchangeId;

/// As much is kept of a method and a path.
const TITLE_BYTES_MAX: usize = 256;
/// Requests that have ended and were not yet fetched; more are only counted.
const ENDED_MAX: usize = 256;

/// Whether a running request was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// It runs for less than the limit, or has not been looked at since.
    No,
    Shown,
    /// There were too many.
    Counted,
}

/// A request that runs.
#[derive(Debug)]
struct Entry {
    /// None: the place is free.
    id: Option<ExchangeId>,
    began: Instant,
    title: Vec<u8>,
    /// The reactor is calling the application for it.
    is_in_call: bool,
    /// The thread of a pool that runs it, by Python's number.
    thread: Option<u64>,
    seen: Seen,
}

/// A slow request that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowRequest {
    /// By which its task is found.
    pub id: ExchangeId,
    /// Method and path as received, and the request's id in brackets if it has one.
    pub title: Vec<u8>,
    /// For how long it has been running.
    pub age: Duration,
    /// The reactor is calling the application for it: what its thread does is what the request does.
    pub is_in_call: bool,
    /// The thread of a pool that runs it, by Python's number.
    pub thread: Option<u64>,
}

/// What is new about slow requests.
#[derive(Default, Debug)]
pub struct SlowNews {
    /// Those that are slow now, the oldest first.
    pub running: Vec<SlowRequest>,
    /// Those that have started their responses, or were given up: method and path, and the time they took.
    pub ended: Vec<(Vec<u8>, Duration)>,
    /// Those for which there was no room.
    pub suppressed: u64,
}

/// The requests of one worker.
#[derive(Debug)]
pub struct SlowRequests {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    entries: Vec<Entry>,
    free: Vec<usize>,
    ended: Vec<(Vec<u8>, Duration)>,
    suppressed: u64,
}

impl SlowRequests {
    /// Of requests that run for at least `limit`.
    pub fn new(limit: Duration) -> SlowRequests {
        SlowRequests {
            limit,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of a pool runs a request from now on.
    pub fn runs_in(&self, id: ExchangeId, thread: u64) {
        let mut state = self.state();
        let mut entries = state.entries.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.id == Some(id)) {
            entry.thread = Some(thread);
        }
    }

    /// Whether [`SlowRequests::news`] has any at this time.
    pub fn has_news(&self, now: Instant) -> bool {
        let state = self.state();
        let is_new = |entry: &Entry| entry.is_slow(now, self.limit) && entry.seen == Seen::No;
        !state.ended.is_empty() || state.suppressed > 0 || state.entries.iter().any(is_new)
    }

    /// Takes what is new, at most `count_max` requests; the others are only counted.
    pub fn news(&self, now: Instant, count_max: usize) -> SlowNews {
        let mut state = self.state();
        let mut ended = std::mem::take(&mut state.ended);
        let mut suppressed = std::mem::take(&mut state.suppressed);
        let is_new = |entry: &Entry| entry.is_slow(now, self.limit) && entry.seen == Seen::No;
        let new = state.entries.iter_mut().filter(|entry| is_new(entry));
        let mut new: Vec<&mut Entry> = new.collect();
        new.sort_by_key(|entry| entry.began);
        let mut running = Vec::new();
        for entry in new {
            let Some(id) = entry.id.filter(|_| running.len() < count_max) else {
                entry.seen = Seen::Counted;
                suppressed += 1;
                continue;
            };
            entry.seen = Seen::Shown;
            running.push(SlowRequest {
                id,
                title: entry.title.clone(),
                age: now.saturating_duration_since(entry.began),
                is_in_call: entry.is_in_call,
                thread: entry.thread,
            });
        }
        let room = count_max - running.len();
        suppressed += ended.len().saturating_sub(room) as u64;
        ended.truncate(room);
        SlowNews {
            running,
            ended,
            suppressed,
        }
    }

    fn enter(&self, id: ExchangeId, title: [&[u8]; 3]) -> usize {
        let mut state = self.state();
        let place = match state.free.pop() {
            Some(place) => place,
            None => {
                state.entries.push(Entry::free());
                state.entries.len() - 1
            }
        };
        if let Some(entry) = state.entries.get_mut(place) {
            entry.begin(id, title);
        }
        place
    }

    /// The call has ended, and the request goes on.
    fn goes_on(&self, place: usize) {
        if let Some(entry) = self.state().entries.get_mut(place) {
            entry.is_in_call = false;
        }
    }

    fn leave(&self, place: usize) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(entry) = state.entries.get_mut(place) else {
            return;
        };
        let took = entry.began.elapsed();
        entry.id = None;
        state.free.push(place);
        if took < self.limit || entry.seen == Seen::Counted {
            return;
        }
        match state.ended.len() < ENDED_MAX {
            true => state.ended.push((entry.title.clone(), took)),
            false => state.suppressed += 1,
        }
    }
}

impl Entry {
    fn free() -> Entry {
        Entry {
            id: None,
            began: Instant::now(),
            title: Vec::new(),
            is_in_call: false,
            thread: None,
            seen: Seen::No,
        }
    }

    /// The memory of the title is used again.
    fn begin(&mut self, id: ExchangeId, [method, path, request_id]: [&[u8]; 3]) {
        self.title.clear();
        for part in [method, b" ", path] {
            let room = TITLE_BYTES_MAX - self.title.len();
            self.title
                .extend_from_slice(part.get(..room).unwrap_or(part));
        }
        if !request_id.is_empty() {
            let parts = [&b" ["[..], request_id, b"]"];
            parts
                .iter()
                .for_each(|part| self.title.extend_from_slice(part));
        }
        self.id = Some(id);
        self.began = Instant::now();
        self.is_in_call = true;
        self.thread = None;
        self.seen = Seen::No;
    }

    fn is_slow(&self, now: Instant, limit: Duration) -> bool {
        self.id.is_some() && now.saturating_duration_since(self.began) >= limit
    }
}

/// A request that runs until this is dropped.
pub(crate) struct Ticket {
    place: usize,
    requests: Arc<SlowRequests>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.requests.leave(self.place);
    }
}

/// The reactor's side.
pub(crate) struct Slow {
    requests: Arc<SlowRequests>,
    /// The request of the call that is under way.
    current: Cell<Option<Ticket>>,
}

impl Slow {
    pub(crate) fn new(requests: Arc<SlowRequests>) -> Slow {
        Slow {
            requests,
            current: Cell::new(None),
        }
    }

    /// The application is called next.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_begins(&self, id: ExchangeId, head: Head<'_>) {
        let request_id = head.request_id().unwrap_or_default().as_bytes();
        let title = [head.method_name(), head.path(), request_id];
        let place = self.requests.enter(id, title);
        let requests = Arc::clone(&self.requests);
        self.current.set(Some(Ticket { place, requests }));
    }

    /// The call has ended. The ticket, if the response has not started; `status` is 0 then.
    pub(crate) fn call_ended(&self, status: u16) -> Option<Ticket> {
        let ticket = self.current.take().filter(|_| status == 0)?;
        self.requests.goes_on(ticket.place);
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1000);
    const AFTER: Duration = Duration::from_secs(1001);

    fn id(sequence: u64) -> ExchangeId {
        ExchangeId {
            connection: 0,
            sequence,
        }
    }

    fn requests(limit: Duration, count: u64) -> (Arc<SlowRequests>, Vec<Ticket>) {
        let requests = Arc::new(SlowRequests::new(limit));
        let enter = |sequence| Ticket {
            place: requests.enter(
                id(sequence),
                [b"GET", format!("/{sequence}").as_bytes(), b""],
            ),
            requests: Arc::clone(&requests),
        };
        let tickets = (0..count).map(enter).collect();
        (requests, tickets)
    }

    fn titles(news: &SlowNews) -> Vec<String> {
        let running = news.running.iter().map(|request| &request.title);
        let titles = running.chain(news.ended.iter().map(|(title, _)| title));
        titles
            .map(|title| String::from_utf8_lossy(title).into())
            .collect()
    }

    #[test]
    fn a_slow_request_is_news_once_while_it_runs_and_once_when_it_has_ended() {
        let (requests, tickets) = requests(Duration::ZERO, 1);
        let now = Instant::now();
        assert!(requests.has_news(now));
        let news = requests.news(now, 9);
        assert_eq!(titles(&news), ["GET /0"]);
        assert!(news.running[0].is_in_call && news.ended.is_empty());
        assert!(!requests.has_news(now) && requests.news(now, 9).running.is_empty());
        drop(tickets);
        assert!(requests.has_news(now));
        let news = requests.news(now, 9);
        assert!(news.running.is_empty() && news.suppressed == 0);
        assert_eq!(titles(&news), ["GET /0"]);
        assert!(!requests.has_news(now));
    }

    #[test]
    fn a_request_that_ends_before_the_limit_is_no_news() {
        let (requests, tickets) = requests(LIMIT, 3);
        assert!(!requests.has_news(Instant::now()));
        drop(tickets);
        assert!(!requests.has_news(Instant::now() + AFTER));
        assert_eq!(requests.state().free.len(), 3);
    }

    #[test]
    fn those_without_room_are_counted_and_their_ends_are_not_shown() {
        let (requests, tickets) = requests(Duration::ZERO, 5);
        let news = requests.news(Instant::now(), 2);
        assert_eq!(
            (titles(&news), news.suppressed),
            (vec!["GET /0".into(), "GET /1".into()], 3)
        );
        drop(tickets);
        let news = requests.news(Instant::now(), 9);
        assert_eq!((news.ended.len(), news.suppressed), (2, 0));
    }

    #[test]
    fn what_nobody_fetches_is_bounded_and_counted() {
        let (requests, tickets) = requests(Duration::ZERO, ENDED_MAX as u64 + 4);
        drop(tickets);
        let news = requests.news(Instant::now(), 10);
        assert_eq!(
            (news.ended.len(), news.suppressed),
            (10, ENDED_MAX as u64 - 6)
        );
    }

    #[test]
    fn a_place_is_used_again_and_knows_nothing_of_the_one_before() {
        let (requests, tickets) = requests(LIMIT, 2);
        requests.runs_in(id(1), 77);
        drop(tickets);
        assert_eq!(requests.enter(id(9), [b"PUT", b"/nine", b""]), 1);
        let news = requests.news(Instant::now() + AFTER, 9);
        assert_eq!(
            (titles(&news), news.running[0].thread),
            (vec!["PUT /nine".into()], None)
        );
        requests.runs_in(id(9), 78);
        requests.runs_in(id(1), 79);
        assert_eq!(requests.state().entries[1].thread, Some(78));
    }

    #[test]
    fn a_long_path_is_cut() {
        let requests = SlowRequests::new(LIMIT);
        requests.enter(id(0), [b"GET", &[b'a'; 9999], b"i"]);
        requests.enter(id(1), [&[b'A'; 9999], b"/", b""]);
        let state = requests.state();
        let lengths = state.entries.iter().map(|entry| entry.title.len());
        let expected = [TITLE_BYTES_MAX + " [i]".len(), TITLE_BYTES_MAX];
        assert_eq!(lengths.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_response_ends_the_call_or_its_start_is_waited_for() {
        let (requests, _) = requests(LIMIT, 0);
        let slow = Slow::new(Arc::clone(&requests));
        let enter = |sequence| {
            let place = requests.enter(id(sequence), [b"GET", b"/", b""]);
            let requests = Arc::clone(&requests);
            slow.current.set(Some(Ticket { place, requests }));
        };
        enter(0);
        assert!(slow.call_ended(200).is_none());
        assert_eq!(requests.state().free.len(), 1);
        enter(1);
        let ticket = slow.call_ended(0);
        assert!(ticket.is_some() && !requests.state().entries[0].is_in_call);
        drop(ticket);
        assert_eq!(requests.state().free.len(), 1);
    }
}
