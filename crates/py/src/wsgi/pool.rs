//! A worker's threads, and the queue between them and the reactor.
//!
//! The reactor never needs the interpreter: it copies a request into a [`Job`], and takes answers from its mailbox. So a view that
//! computes, or waits, stops neither accepting nor queueing nor refusing.
//!
//! Threads share one interpreter, so more of them at work than one are of use only while others wait for something. Therefore one thread
//! is called for what a pass of the reactor brings, and takes job after job without giving the interpreter up; when jobs are queued and
//! none was taken for a moment, the threads at work must be waiting, or computing for long, and as many are called as there are jobs.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::Peer;
use server::{Command, Config, ExchangeId, Response};

use super::lane::Lane;
use super::outbox::Outbox;
use super::reports::Reports;
use crate::shared::Shared;

/// Jobs that wait while none is taken for so long are a reason to call more threads.
const STALL: Duration = Duration::from_micros(500);
/// How long the reactor waits for its threads before it looks whether they take jobs, or have answered without waking it.
const LOOK_MS: u64 = 1;
/// How late a queued request may be refused.
const LATE_MS: u64 = 100;
/// Answers that a thread gives before it wakes a reactor that waits.
const ANSWERS_PER_WAKE: usize = 16;

/// A request in owned bytes.
pub(super) struct Job {
    pub(super) id: ExchangeId,
    /// The head as it was received, which the server has found good.
    pub(super) head: Box<[u8]>,
    /// The content; `None` when it has to be read part by part.
    pub(super) content: Option<Vec<u8>>,
    pub(super) client: Peer,
    pub(super) server: Peer,
    has_peer_ended: bool,
    queued: Instant,
}

/// What the reactor and the threads share.
pub(super) struct Pool {
    queue: Mutex<Queue>,
    arrived: Condvar,
    lanes: Vec<Arc<Lane>>,
    /// Lanes that have a thread.
    taken_lanes: AtomicUsize,
    pub(super) outbox: Arc<Outbox>,
    pub(super) reports: Reports,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    /// Those of them that were called and have not taken one yet.
    called: usize,
    /// When a job was taken last, or a thread called.
    progress: Instant,
    is_closed: bool,
}

impl Pool {
    /// A pool that waits for its threads.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(super) fn new(threads: usize, shared: &Arc<Shared>) -> io::Result<Pool> {
        let outbox = Arc::new(Outbox::new(shared.mailbox(), net::Waker::new()?));
        let lane = || Arc::new(Lane::new(Arc::clone(&outbox), Arc::clone(shared)));
        Ok(Pool {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                idle: 0,
                called: 0,
                progress: Instant::now(),
                is_closed: false,
            }),
            arrived: Condvar::new(),
            lanes: (0..threads).map(|_| lane()).collect(),
            taken_lanes: AtomicUsize::new(0),
            outbox,
            reports: Reports::default(),
        })
    }

    pub(super) fn threads(&self) -> usize {
        self.lanes.len()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more thread, as long as there is one.
    pub(super) fn lane(&self) -> Option<Arc<Lane>> {
        let index = self.taken_lanes.fetch_add(1, Ordering::Relaxed);
        self.lanes.get(index).cloned()
    }

    /// The next job, if there is one. From then on the lane stands for it.
    pub(super) fn take(&self, lane: &Lane) -> Option<Job> {
        self.queue().take(lane)
    }

    /// Waits for a job; `None` when the pool is closed. Not to be called with the interpreter held.
    pub(super) fn wait(&self, lane: &Lane) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = queue.take(lane) {
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

    /// A thread has answered `answers` times since it was last called. Sees to it that they leave: at once when it goes on to wait
    /// (`is_last`), or when they are many.
    pub(super) fn answered(&self, answers: &mut usize, is_last: bool) {
        if *answers > 0 && (is_last || *answers >= ANSWERS_PER_WAKE) {
            *answers = 0;
            self.outbox.notify();
        } else if *answers > 0 {
            self.outbox.notify_soon();
        }
    }

    /// Ends the threads, each with its job.
    pub(super) fn close(&self) {
        self.queue().is_closed = true;
        self.arrived.notify_all();
        self.reports.close();
    }
}

/// What of the queue the reactor decides by.
#[derive(Clone, Copy, Default)]
struct Standing {
    jobs: usize,
    idle: usize,
    /// Idle threads that were not called.
    available: usize,
}

impl Queue {
    fn standing(&self) -> Standing {
        Standing {
            jobs: self.jobs.len(),
            idle: self.idle,
            available: self.idle.saturating_sub(self.called),
        }
    }

    fn take(&mut self, lane: &Lane) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        // Under the queue's lock, so that a job is always found: here or in its lane.
        lane.begin(job.id, job.has_peer_ended);
        self.progress = Instant::now();
        Some(job)
    }

    /// How many threads it is of use to call now.
    fn wanted_threads(&self, threads: usize, now: Instant) -> usize {
        let available = self.standing().available;
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

/// The reactor's end of the queue.
pub(super) struct Intake {
    pub(super) pool: Arc<Pool>,
    /// Jobs of the pass that is under way.
    arriving: Vec<Job>,
    /// How the queue was when it was last looked at.
    standing: Standing,
    has_handed_over: bool,
    queued_requests_max: usize,
    queue_timeout_ms: u64,
}

impl Intake {
    pub(super) fn new(pool: Arc<Pool>, config: &Config) -> Intake {
        let queued_requests_max = config.limits.queued_requests_max;
        Intake {
            pool,
            arriving: Vec::new(),
            standing: Standing::default(),
            has_handed_over: false,
            queued_requests_max: usize::try_from(queued_requests_max).unwrap_or(usize::MAX),
            queue_timeout_ms: config.timeouts.queue_timeout_ms,
        }
    }

    /// Takes a request in. False when there are as many as there may be.
    pub(super) fn push(&mut self, request: &server::Request<'_>, content: Option<&[u8]>) -> bool {
        if !self.has_room() {
            // Threads may have taken some since it was looked at.
            let standing = self.pool.queue().standing();
            self.standing = standing;
            if !self.has_room() {
                self.pool.reports.add(|counts| counts.full += 1);
                return false;
            }
        }
        self.arriving.push(Job {
            id: request.id,
            head: request.head.bytes.into(),
            content: content.map(<[u8]>::to_vec),
            client: *request.client,
            server: *request.server,
            has_peer_ended: false,
            queued: Instant::now(),
        });
        true
    }

    fn has_room(&self) -> bool {
        let waiting = self.standing.jobs + self.arriving.len();
        waiting < self.queued_requests_max + self.standing.idle
    }

    /// The request is over before its answer was complete.
    pub(super) fn abort(&mut self, id: ExchangeId) {
        self.arriving.retain(|job| job.id != id);
        let mut queue = self.pool.queue();
        queue.jobs.retain(|job| job.id != id);
        drop(queue);
        self.find(|lane| lane.abort(id));
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

    /// Tells the lane that stands for a request.
    pub(super) fn find(&self, tell: impl FnMut(&Arc<Lane>) -> bool) {
        let _ = self.pool.lanes.iter().any(tell);
    }

    /// Hands the jobs of a pass over, calls threads, and refuses what has waited too long.
    fn hand_over(&mut self) {
        if self.arriving.is_empty() && self.standing.jobs == 0 {
            return;
        }
        let now = Instant::now();
        let mut queue = self.pool.queue();
        self.has_handed_over = !self.arriving.is_empty();
        queue.jobs.extend(self.arriving.drain(..));
        while self.queue_timeout_ms > 0
            && let Some(oldest) = queue.jobs.front()
            && now.saturating_duration_since(oldest.queued).as_millis()
                >= u128::from(self.queue_timeout_ms)
            && let Some(late) = queue.jobs.pop_front()
        {
            self.pool.reports.add(|counts| counts.late += 1);
            let answer = Command::Respond(unavailable());
            self.pool.outbox.post(late.id, answer);
        }
        let wanted = queue.wanted_threads(self.pool.threads(), now);
        if wanted > 0 {
            queue.called += wanted;
            queue.progress = now;
        }
        self.standing = queue.standing();
        drop(queue);
        for _ in 0..wanted {
            self.pool.arrived.notify_one();
        }
    }

    /// The reactor is about to wait for `wait_ms` at most. Gives how long it may.
    pub(super) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        self.hand_over();
        let has_jobs = self.standing.jobs > 0;
        let looks_soon =
            std::mem::take(&mut self.has_handed_over) || (has_jobs && self.standing.available > 0);
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

/// The answer of a request that no thread takes.
pub(super) fn unavailable() -> Response {
    Response {
        status: 503,
        fields: UNAVAILABLE_FIELDS.to_vec(),
        content: UNAVAILABLE.to_vec(),
        length: None,
    }
}

pub(super) const UNAVAILABLE_FIELDS: &[u8] =
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n";
pub(super) const UNAVAILABLE: &[u8] = b"The server is busy; try again shortly.\n";
