//! A worker's threads, and the queue between them and the reactor.
//!
//! The reactor never needs the interpreter: it copies a request into a [`Job`], and takes responses from its mailbox. So a view that
//! computes or waits does not keep the reactor from accepting, queueing and refusing.
//!
//! Threads share one interpreter, so running more than one helps only while others wait. Therefore one thread is woken for the requests of
//! a pass, and takes job after job without releasing the interpreter. If jobs are queued and none was taken for a moment, the running
//! threads must be waiting or computing for long. Then as many are woken as there are jobs.
//!
//! Connections take turns ([`Rounds`]): a client with a hundred streams does not keep others waiting for all of them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::Numbers;
use net::memory::{NoMemory, copy};
use server::metrics::{QUEUE_FULL, QUEUE_TIMEOUT, WAITING_REQUESTS};
use server::{Circumstances, Command, Config, ExchangeId, OwnedHead, Response};

use super::fairness::Rounds;
use super::lane::Lane;
use super::outbox::Outbox;
use super::reports::{LateView, Reports};
use super::spool::Spooling;
use crate::run::exchanges::Exchanges;

/// If no job is taken for this long while some are queued, more threads are woken.
const STALL: Duration = Duration::from_micros(500);
/// How long the reactor waits for its threads before it checks whether they take jobs, or have posted responses without waking it.
const LOOK_MS: u64 = 1;
/// If all threads are busy and none has taken a job for this long, other workers are to accept. Most views take less.
const OCCUPIED_AFTER: Duration = Duration::from_millis(100);
/// How late a queued request may be refused.
const LATE_MS: u64 = 20;
/// If no thread has taken a job for this long, or spooled because of one, threads that only wait for their clients spool.
const SPOOL_AFTER: Duration = Duration::from_millis(5);
/// Responses that a thread posts before it wakes a waiting reactor.
const RESPONSES_PER_WAKE: usize = 16;

/// A request in owned bytes.
pub(super) struct Job {
    pub(super) id: ExchangeId,
    pub(super) head: OwnedHead,
    /// The content; `None` when it has to be read part by part.
    pub(super) content: Option<Vec<u8>>,
    pub(super) circumstances: Circumstances,
    has_peer_ended: bool,
    queued: Instant,
    /// See [`Rounds`].
    round: u64,
}

impl Job {
    /// For how long it has waited for a thread.
    pub(super) fn waited(&self) -> Duration {
        self.queued.elapsed()
    }
}

/// What the reactor and the threads share.
pub(super) struct Pool {
    queue: Mutex<Queue>,
    arrived: Condvar,
    lanes: Vec<Arc<Lane>>,
    /// Number of lanes that have a thread.
    taken_lanes: AtomicUsize,
    pub(super) outbox: Arc<Outbox>,
    pub(super) reports: Arc<Reports>,
    spooling: Arc<Spooling>,
}

struct Queue {
    /// In the order in which they are taken, which is that of their rounds.
    jobs: VecDeque<Job>,
    rounds: Rounds,
    /// When it was last checked whether jobs have waited too long.
    late_check: Instant,
    /// Threads that wait for a job.
    idle: usize,
    /// How many of them were woken and have not taken one yet.
    called: usize,
    /// When a job was last taken, a thread woken, or a thread that waited for its client notified that it is to spool.
    progress: Instant,
    is_closed: bool,
    /// Where the number of jobs of all pools is shown, if it is.
    numbers: Option<Numbers>,
    /// How many of them are shown.
    shown: u64,
    /// How long a job may wait, if that is limited.
    timeout: Option<Duration>,
}

impl Pool {
    /// Creates a pool, which threads join later.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub(super) fn new(
        threads: usize,
        exchanges: &Arc<Exchanges>,
        spooling: Spooling,
    ) -> io::Result<Pool> {
        let (spooling, reports) = (Arc::new(spooling), Arc::<Reports>::default());
        let outbox = Arc::new(Outbox::new(exchanges.mailbox(), net::Waker::new()?));
        let lane = || {
            Arc::new(Lane::new(
                Arc::clone(&outbox),
                Arc::clone(exchanges),
                Arc::clone(&spooling),
                Arc::clone(&reports),
            ))
        };
        Ok(Pool {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                rounds: Rounds::default(),
                late_check: Instant::now(),
                idle: 0,
                called: 0,
                progress: Instant::now(),
                is_closed: false,
                numbers: None,
                shown: 0,
                timeout: None,
            }),
            arrived: Condvar::new(),
            lanes: (0..threads).map(|_| lane()).collect(),
            taken_lanes: AtomicUsize::new(0),
            outbox,
            reports,
            spooling,
        })
    }

    pub(super) fn threads(&self) -> usize {
        self.lanes.len()
    }

    /// How many of them have a request.
    pub(super) fn busy(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_busy()).count()
    }

    /// How many of these have one that nobody waits for.
    pub(super) fn abandoned(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_abandoned()).count()
    }

    /// Whether every thread has had the same request for a while.
    pub(super) fn is_occupied(&self) -> bool {
        let queue = self.queue();
        queue.idle == 0 && queue.progress.elapsed() >= OCCUPIED_AFTER
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane for one more thread, if one is free.
    pub(super) fn lane(&self) -> Option<Arc<Lane>> {
        let index = self.taken_lanes.fetch_add(1, Ordering::Relaxed);
        self.lanes.get(index).cloned()
    }

    /// The next job, if there is one, which the lane then represents.
    pub(super) fn take(&self, lane: &Lane) -> Option<Job> {
        self.take_from(&mut self.queue(), lane)
    }

    /// The next job that has not waited too long. One that has is refused here, and never begun.
    fn take_from(&self, queue: &mut Queue, lane: &Lane) -> Option<Job> {
        loop {
            match queue.take(lane, Instant::now())? {
                Ok(job) => return Some(job),
                Err(Late(id)) => self.refuse_late(queue, id),
            }
        }
    }

    fn refuse_late(&self, queue: &Queue, id: ExchangeId) {
        queue.count(QUEUE_TIMEOUT);
        self.reports.add(|counts| counts.late += 1);
        self.outbox.post(id, Command::Respond(unavailable()));
    }

    /// Waits for a job; `None` when the pool is closed. Must not be called with the interpreter attached.
    pub(super) fn wait(&self, lane: &Lane) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = self.take_from(&mut queue, lane) {
                return Some(job);
            }
            queue.idle += 1;
            queue = self
                .arrived
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
            queue.called = queue.called.saturating_sub(1);
        }
    }

    /// Makes sure that the `responses` a thread has posted since the last wake-up are sent: at once when the thread is about to wait
    /// (`is_last`) or they are many, otherwise soon.
    pub(super) fn responded(&self, responses: &mut usize, is_last: bool) {
        if *responses > 0 && (is_last || *responses >= RESPONSES_PER_WAKE) {
            *responses = 0;
            self.outbox.notify();
        } else if *responses > 0 {
            self.outbox.notify_soon();
        }
    }

    /// Ends the threads, each after its current job.
    pub(super) fn close(&self) {
        self.queue().is_closed = true;
        self.arrived.notify_all();
        self.reports.close();
    }
}

/// The state of the queue on which the reactor bases its decisions.
#[derive(Clone, Copy, Default)]
struct QueueState {
    jobs: usize,
    idle: usize,
    /// Idle threads that were not woken.
    available: usize,
}

impl Queue {
    fn state(&self) -> QueueState {
        QueueState {
            jobs: self.jobs.len(),
            idle: self.idle,
            available: self.idle.saturating_sub(self.called),
        }
    }

    /// Shows the number of jobs, for the metrics.
    fn show(&mut self) {
        if let Some(numbers) = self.numbers {
            let jobs = self.jobs.len() as u64;
            numbers.add_from_any(WAITING_REQUESTS, jobs.wrapping_sub(self.shown));
            self.shown = jobs;
        }
    }

    /// Counts a request that is refused.
    fn count(&self, cause: usize) {
        if let Some(numbers) = self.numbers {
            numbers.add_from_any(cause, 1);
        }
    }

    fn take(&mut self, lane: &Lane, now: Instant) -> Option<Result<Job, Late>> {
        let job = self.jobs.pop_front()?;
        self.show();
        if self.is_late(&job, now) {
            self.rounds.leave(job.id.connection(), None);
            return Some(Err(Late(job.id)));
        }
        self.rounds.leave(job.id.connection(), Some(job.round));
        // Under the queue's lock, so that a job is always found, here or in its lane.
        lane.begin(job.id, &job.head, job.has_peer_ended);
        self.progress = now;
        Some(Ok(job))
    }

    fn is_late(&self, job: &Job, now: Instant) -> bool {
        self.timeout
            .is_some_and(|timeout| now.saturating_duration_since(job.queued) >= timeout)
    }

    /// Adds a job after those of its round.
    fn add(&mut self, mut job: Job) {
        job.round = self.rounds.join(job.id.connection());
        let place = self.jobs.partition_point(|it| it.round <= job.round);
        self.jobs.insert(place, job);
        self.show();
    }

    /// Removes the jobs for which `is_removed` returns true.
    fn remove(&mut self, mut is_removed: impl FnMut(&Job) -> bool) {
        let Queue { jobs, rounds, .. } = self;
        jobs.retain(|job| {
            let is_kept = !is_removed(job);
            if !is_kept {
                rounds.leave(job.id.connection(), None);
            }
            is_kept
        });
        self.show();
    }

    /// How many threads should be woken now.
    fn wanted_threads(&self, threads: usize, now: Instant) -> usize {
        let available = self.state().available;
        if self.jobs.is_empty() || available == 0 {
            return 0;
        }
        if available == threads {
            return 1;
        }
        if now.saturating_duration_since(self.progress) < STALL {
            return 0;
        }
        self.jobs.len().min(available)
    }
}

/// A request that has waited too long.
struct Late(ExchangeId);

/// The result of queueing a request.
pub(super) enum Taken {
    Yes,
    /// The queue is full.
    Full,
    /// There is no memory for this much content.
    NoMemory(usize),
}

/// The reactor's end of the queue.
pub(super) struct Intake {
    pub(super) pool: Arc<Pool>,
    /// Jobs of the current pass.
    arriving: Vec<Job>,
    /// The state of the queue when it was last checked.
    state: QueueState,
    has_handed_over: bool,
    queue_max: usize,
}

impl Intake {
    pub(super) fn new(pool: Arc<Pool>, config: &Config) -> Intake {
        let queue_max = config.limits.queue_max;
        let timeout_ms = config.timeouts.queue_timeout_ms;
        pool.queue().timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        Intake {
            pool,
            arriving: Vec::new(),
            state: QueueState::default(),
            has_handed_over: false,
            queue_max: usize::try_from(queue_max).unwrap_or(usize::MAX),
        }
    }

    /// Shows from now on how many requests wait.
    pub(super) fn measure(&self, numbers: Numbers) {
        self.pool.queue().numbers = Some(numbers);
    }

    /// Takes a request.
    pub(super) fn push(&mut self, request: &server::Request<'_>, content: Option<&[u8]>) -> Taken {
        if !self.has_room() {
            // Threads may have taken some since the last check.
            let state = self.pool.queue().state();
            self.state = state;
            if !self.has_room() {
                self.pool.queue().count(QUEUE_FULL);
                self.pool.reports.add(|counts| counts.full += 1);
                return Taken::Full;
            }
        }
        let content = match content.map(copy).transpose() {
            Ok(content) => content,
            Err(NoMemory(bytes)) => return Taken::NoMemory(bytes),
        };
        self.arriving.push(Job {
            id: request.id,
            head: OwnedHead::of(request.head),
            content,
            circumstances: request.circumstances.clone(),
            has_peer_ended: false,
            queued: Instant::now(),
            round: 0,
        });
        Taken::Yes
    }

    /// A part of a request's content has arrived. Returns false if there is no memory for it.
    pub(super) fn take_content(&self, id: ExchangeId, part: &[u8], is_last: bool) -> bool {
        let mut lanes = self.pool.lanes.iter();
        lanes
            .find_map(|lane| lane.take_content(id, part, is_last))
            .unwrap_or(true)
    }

    fn has_room(&self) -> bool {
        let waiting = self.state.jobs + self.arriving.len();
        waiting < self.queue_max + self.state.idle
    }

    /// The request ended before its response was complete.
    pub(super) fn abort(&mut self, id: ExchangeId) {
        self.arriving.retain(|job| job.id != id);
        let mut queue = self.pool.queue();
        queue.remove(|job| job.id == id);
        drop(queue);
        self.find(|lane| lane.abort(id));
    }

    /// Whether a thread is occupied with a request.
    pub(super) fn is_running(&self, id: ExchangeId) -> bool {
        self.pool.lanes.iter().any(|lane| lane.is_current(id))
    }

    /// No thread has responded within `handler_timeout_ms`, so that the server has responded.
    pub(super) fn was_late(&mut self, id: ExchangeId, after_ms: u64) {
        let waited = {
            let queue = self.pool.queue();
            let queued = self.arriving.iter().chain(&queue.jobs);
            let mut heads = queued.filter(|job| job.id == id);
            heads.next().map(|job| job.head.clone())
        };
        let has_begun = waited.is_none();
        let in_lane = || self.pool.lanes.iter().find_map(|lane| lane.head_of(id));
        if let Some(head) = waited.or_else(in_lane) {
            let view = LateView {
                head,
                after_ms,
                has_begun,
            };
            self.pool.reports.add_late_view(view);
        }
    }

    /// The client sends nothing more.
    pub(super) fn peer_ended(&mut self, id: ExchangeId) {
        let mut queue = self.pool.queue();
        let queued = self.arriving.iter_mut().chain(&mut queue.jobs);
        queued
            .filter(|job| job.id == id)
            .for_each(|job| job.has_peer_ended = true);
        drop(queue);
        self.find(|lane| lane.peer_ended(id));
    }

    /// Notifies the lane that represents a request.
    pub(super) fn find(&self, notify: impl FnMut(&Arc<Lane>) -> bool) {
        let _ = self.pool.lanes.iter().any(notify);
    }

    /// Hands over the jobs of a pass, wakes threads, and refuses requests that have waited too long.
    fn hand_over(&mut self) {
        if self.arriving.is_empty() && self.state.jobs == 0 {
            return;
        }
        let now = Instant::now();
        let mut queue = self.pool.queue();
        self.has_handed_over = !self.arriving.is_empty();
        for job in self.arriving.drain(..) {
            queue.add(job);
        }
        self.refuse_late(&mut queue, now);
        let wanted = queue.wanted_threads(self.pool.threads(), now);
        if wanted > 0 {
            queue.called += wanted;
            queue.progress = now;
        }
        self.state = queue.state();
        let is_stalled = now.saturating_duration_since(queue.progress) >= SPOOL_AFTER;
        drop(queue);
        if self.state.jobs > 0 && self.state.available == 0 && is_stalled {
            self.urge(now);
        }
        for _ in 0..wanted {
            self.pool.arrived.notify_one();
        }
    }

    /// Refuses requests that have waited too long. The oldest is not always the next one.
    fn refuse_late(&self, queue: &mut Queue, now: Instant) {
        let since_check = now.saturating_duration_since(queue.late_check);
        if queue.timeout.is_none() || since_check.as_millis() < u128::from(LATE_MS) {
            return;
        }
        queue.late_check = now;
        let late = queue.jobs.iter().filter(|job| queue.is_late(job, now));
        let late: Vec<ExchangeId> = late.map(|job| job.id).collect();
        if !late.is_empty() {
            queue.remove(|job| late.contains(&job.id));
            late.iter().for_each(|id| self.pool.refuse_late(queue, *id));
        }
    }

    /// Every thread is busy: of those that only wait for their clients, as many as there are requests are to spool.
    #[cold]
    fn urge(&self, now: Instant) {
        if !self.pool.spooling.is_on() {
            return;
        }
        let spooling = self.pool.lanes.iter().filter(|lane| lane.urge());
        if spooling.take(self.state.jobs).count() > 0 {
            // If these are not free soon, because their views work on, others are to spool too.
            self.pool.queue().progress = now;
        }
    }

    /// The reactor is about to wait for at most `wait_ms`. Returns how long it may wait.
    pub(super) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        self.hand_over();
        let has_jobs = self.state.jobs > 0;
        let looks_soon =
            std::mem::take(&mut self.has_handed_over) || (has_jobs && self.state.available > 0);
        let own_ms = match (looks_soon, has_jobs) {
            (true, _) => Some(LOOK_MS),
            (false, true) => Some(LATE_MS),
            (false, false) => None,
        };
        if self.pool.outbox.wait_begins(looks_soon) {
            wait_ms.into_iter().chain(own_ms).min()
        } else {
            Some(0)
        }
    }
}

/// The response to a request that no thread takes.
pub(super) fn unavailable() -> Response {
    Response {
        status: 503,
        fields: UNAVAILABLE_FIELDS.to_vec(),
        content: UNAVAILABLE.to_vec(),
        ..Response::default()
    }
}

pub(super) const UNAVAILABLE_FIELDS: &[u8] =
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n";
pub(super) const UNAVAILABLE: &[u8] = b"The server is busy; try again shortly.\n";
