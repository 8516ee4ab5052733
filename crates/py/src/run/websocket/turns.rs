//! How long tasks that receive messages keep the thread before others have their turn.
//!
//! `receive()` returns without a suspension while messages wait, so a task that handles them would leave neither the pass nor the loop's
//! iteration before the last one. Therefore tasks share a *stretch*: one connection's part of a pass, or one iteration of the loop. Once it
//! is used up, a task that asks for another message waits here, and is resumed in a later iteration of the loop, in the order of asking. A
//! task that was resumed from here gets one message in any case, so each has progress whatever the others do. So does one that the pass resumes
//! with the message that has arrived; ordinary tasks (`--eager-tasks off`), of which the loop resumes many in one iteration, wait here too.
//!
//! The first message of a stretch costs nothing; each further one costs a reading of the coarse clock (a few nanoseconds), because messages
//! of a hostile client may become slow at any time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use net::Clock;
use pyo3::prelude::*;
use server::TURN_MS;

use super::arrival::Arrival;
use crate::ffi::GilCell;
use crate::run::exchanges::Exchanges;

/// The end of a stretch that starts with its first message.
const UNKNOWN: u64 = 0;

/// The turns of a worker's tasks. Everything happens with the interpreter attached.
#[derive(Default)]
pub(crate) struct Turns {
    /// When the stretch ends.
    ends_ms: AtomicU64,
    /// A message was taken in this stretch.
    has_taken: AtomicBool,
    /// Tasks that wait for another stretch, in the order of asking.
    waiting: GilCell<VecDeque<Py<Arrival>>>,
    /// The loop will call [`NextTurn`].
    is_scheduled: AtomicBool,
}

impl Turns {
    /// A stretch starts that ends at a time of the worker's clock.
    #[inline]
    pub(crate) fn begin(&self, ends_ms: u64) {
        self.ends_ms.store(ends_ms, Ordering::Relaxed);
        self.has_taken.store(false, Ordering::Relaxed);
    }

    /// What runs next is an iteration of the loop.
    #[inline]
    pub(crate) fn pass_ends(&self) {
        self.begin(UNKNOWN);
    }

    /// A message is about to be taken. Returns whether the stretch is used up.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        let ends_ms = self.ends_ms.load(Ordering::Relaxed);
        if ends_ms == UNKNOWN {
            self.begin(Clock::tick_ms() + TURN_MS);
        }
        let has_taken = self.has_taken.load(Ordering::Relaxed);
        self.has_taken.store(true, Ordering::Relaxed);
        has_taken && Clock::tick_ms() >= ends_ms
    }

    /// What a task awaits until its next turn.
    ///
    /// # Errors
    /// If there is no loop, or no memory.
    #[cold]
    pub(super) fn wait<'py>(
        &self,
        py: Python<'py>,
        exchanges: &Arc<Exchanges>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrival = Arrival::new(py, exchanges)?;
        let waiting = arrival.clone_ref(py);
        self.waiting.reach(py, |all| all.push_back(waiting))?;
        self.schedule(py, exchanges)?;
        Ok(arrival.into_bound(py).into_any())
    }

    fn schedule(&self, py: Python<'_>, exchanges: &Arc<Exchanges>) -> PyResult<()> {
        if !self.is_scheduled.load(Ordering::Relaxed)
            && let Some(event_loop) = exchanges.event_loop.get(py)
        {
            let exchanges = Arc::clone(exchanges);
            let next = Py::new(py, NextTurn { exchanges })?;
            event_loop.call_method1(py, pyo3::intern!(py, "call_soon"), (next,))?;
            self.is_scheduled.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Resumes tasks that wait, for one stretch.
    fn serve(&self, py: Python<'_>, exchanges: &Arc<Exchanges>) -> PyResult<()> {
        // A loop that was made to run in itself may call this while a task runs, which no other may interrupt.
        let is_direct = has_no_current(py, exchanges).unwrap_or(false);
        let ends_ms = Clock::tick_ms() + TURN_MS;
        self.begin(ends_ms);
        while let Some(arrival) = self.waiting.reach(py, VecDeque::pop_front)? {
            Arrival::fire(arrival.bind(py), is_direct)?;
            if !is_direct || Clock::tick_ms() >= ends_ms {
                break;
            }
        }
        Ok(())
    }
}

fn has_no_current(py: Python<'_>, exchanges: &Exchanges) -> PyResult<bool> {
    let event_loop = exchanges.event_loop.get(py);
    let tasks = py.import(pyo3::intern!(py, "asyncio.tasks"))?;
    let current = tasks.call_method1(pyo3::intern!(py, "current_task"), (event_loop,))?;
    Ok(current.is_none())
}

/// What the loop calls once in each iteration while tasks wait.
#[pyclass(module = "bolide._core", frozen)]
struct NextTurn {
    exchanges: Arc<Exchanges>,
}

#[pymethods]
impl NextTurn {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let turns = &self.exchanges.turns;
        turns.is_scheduled.store(false, Ordering::Relaxed);
        let served = turns.serve(py, &self.exchanges);
        if turns.waiting.reach(py, |all| !all.is_empty())? {
            turns.schedule(py, &self.exchanges)?;
        }
        served
    }
}
