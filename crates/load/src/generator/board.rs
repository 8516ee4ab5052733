//! State shared by the threads of a run and its observer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use net::precise_ns;

use super::error::Errors;
use super::series::Table;
use super::tls::Trust;
use crate::Histogram;

/// How long before the start threads are notified of it, if there are several.
const NOTICE_NS: u64 = 20_000_000;

/// One for each run.
pub(super) struct Board {
    /// The load waits for `start`, however many connections are open.
    is_gated: bool,
    /// Threads that are still opening connections.
    opening: AtomicUsize,
    /// When the warm-up starts; 0: connections are still being opened.
    origin_ns: AtomicU64,
    is_stopped: AtomicBool,
    held: AtomicU64,
    held_max: AtomicU64,
    live: Mutex<Live>,
    seconds: Mutex<Table>,
    pub(super) trust: Trust,
}

/// What has been counted so far, with a slight delay.
#[derive(Default)]
pub(super) struct Live {
    /// Correct responses and failed requests of each thread.
    counts: Vec<(u64, Errors)>,
    /// Latencies since the last query.
    pub(super) interval_ns: Histogram,
    /// When that was.
    pub(super) queried_ns: u64,
}

impl Board {
    pub(super) fn new(threads: usize, is_gated: bool) -> Board {
        Board {
            is_gated,
            opening: AtomicUsize::new(threads),
            origin_ns: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            held: AtomicU64::new(0),
            held_max: AtomicU64::new(0),
            live: Mutex::new(Live {
                counts: vec![Default::default(); threads],
                ..Live::default()
            }),
            // The seconds of a gated run are combined with those of others.
            seconds: Mutex::new(Table::new(threads, is_gated)),
            trust: Trust::default(),
        }
    }

    /// Starts the load at this time, however many connections are open.
    pub(super) fn start(&self, at_ns: u64) {
        self.origin_ns.store(at_ns, Ordering::Relaxed);
    }

    /// A thread has opened its connections; after the last one the load starts, unless it waits for `start`.
    pub(super) fn has_opened(&self, threads: usize) {
        let is_last = self.opening.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.origin_ns().is_none() && !self.is_gated {
            let notice_ns = if threads > 1 { NOTICE_NS } else { 0 };
            self.start(precise_ns() + notice_ns);
        }
    }

    /// Whether all threads have opened their connections.
    pub(super) fn is_opened(&self) -> bool {
        self.opening.load(Ordering::Acquire) == 0
    }

    /// When the load starts or started, if that is known.
    pub(super) fn origin_ns(&self) -> Option<u64> {
        match self.origin_ns.load(Ordering::Relaxed) {
            0 => None,
            at_ns => Some(at_ns),
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn connection_opened(&self) {
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        if held > self.held_max.load(Ordering::Relaxed) {
            self.held_max.fetch_max(held, Ordering::Relaxed);
        }
    }

    pub(super) fn connection_closed(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of established connections, and its maximum so far.
    pub(super) fn held(&self) -> (u64, u64) {
        let held = self.held.load(Ordering::Relaxed);
        (held, self.held_max.load(Ordering::Relaxed))
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seconds(&self) -> MutexGuard<'_, Table> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Takes the counts of thread `index`.
    pub(super) fn take(&mut self, index: usize, ok: u64, errors: Errors, recent_ns: &Histogram) {
        if let Some(counts) = self.counts.get_mut(index) {
            *counts = (ok, errors);
        }
        self.interval_ns.merge(recent_ns);
    }

    /// Correct responses and failed requests of all threads.
    pub(super) fn sum(&self) -> (u64, Errors) {
        let mut sum = (0, Errors::default());
        for (ok, errors) in &self.counts {
            sum.0 += ok;
            sum.1.merge(errors);
        }
        sum
    }
}
