//! The tasks of handlers that have not ended. A response may be complete long before its handler: a server that stops waits for the rest
//! too.

use std::collections::{HashMap, TryReserveError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::memory::may_be_refused;
use pyo3::prelude::*;

use super::coroutine::RequestCoroutine;
use super::exchanges::Exchanges;
use super::memory;
use super::websocket::Arrival;

/// The tasks of suspended handlers, by a number each.
#[derive(Default)]
pub(crate) struct RunningTasks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Those among them that are no WebSockets.
    requests: usize,
    tasks: HashMap<u64, Option<Py<PyAny>>>,
}

impl RunningTasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves places for `count` more.
    pub(super) fn reserve(&self, count: usize) -> Result<(), TryReserveError> {
        self.state().tasks.try_reserve(count)
    }

    /// Whether all have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().tasks.is_empty()
    }

    /// How many of them are for requests, and not for WebSockets.
    pub(crate) fn requests(&self) -> usize {
        self.state().requests
    }

    /// Those that have not ended.
    pub(crate) fn all(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let state = self.state();
        let tasks = state.tasks.values().flatten();
        tasks.map(|task| task.clone_ref(py)).collect()
    }
}

impl Exchanges {
    /// The loop has been closed, and resumes no task. Each task holds what holds it: its places here, its coroutine, and what a WebSocket waits
    /// for, none of which the collector sees.
    pub(crate) fn release_tasks(&self, py: Python<'_>) {
        let mut exchanges = self.lock();
        let open = exchanges.values_mut().filter_map(|open| open.task.take());
        let open: Vec<Py<PyAny>> = open.collect();
        drop(exchanges);
        let mut running = self.running.state();
        let taken = running.tasks.values_mut().filter_map(Option::take);
        let taken: Vec<Py<PyAny>> = taken.collect();
        drop((running, open));
        for task in taken {
            let task = task.bind(py);
            if let Ok(awaited) = task.getattr("_fut_waiter")
                && let Ok(arrival) = awaited.cast::<Arrival>()
            {
                arrival.get().forget(py);
            }
            if let Ok(coroutine) = task.call_method0("get_coro")
                && let Ok(coroutine) = coroutine.cast::<RequestCoroutine>()
            {
                drop(coroutine.get().leave(py));
            }
        }
    }
}

/// A handler that is running in a task until this is dropped.
pub(crate) struct Running {
    /// Odd for a request, even for a WebSocket.
    number: u64,
    exchanges: Arc<Exchanges>,
}

impl Running {
    /// A handler that has suspended.
    ///
    /// # Errors
    /// If there is no memory for its place, or for that of its exchange.
    pub(crate) fn new(exchanges: &Arc<Exchanges>, is_of_request: bool) -> PyResult<Running> {
        if may_be_refused() {
            exchanges.make_room().map_err(memory::error)?;
        }
        let mut state = exchanges.running.state();
        state.last += 1;
        state.requests += usize::from(is_of_request);
        let number = 2 * state.last + u64::from(is_of_request);
        state.tasks.insert(number, None);
        Ok(Running {
            number,
            exchanges: Arc::clone(exchanges),
        })
    }

    /// The name by which [`Running::has_task`] finds it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Records the task in which handler `number` runs, unless it has ended.
    pub(crate) fn has_task(exchanges: &Exchanges, number: u64, task: Py<PyAny>) {
        if let Some(place) = exchanges.running.state().tasks.get_mut(&number) {
            *place = Some(task);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (task, was_last) = {
            let mut state = self.exchanges.running.state();
            state.requests -= (self.number % 2) as usize;
            (state.tasks.remove(&self.number), state.tasks.is_empty())
        };
        // Dropped only now, since that may run Python.
        drop(task);
        if was_last {
            self.exchanges.last_has_ended();
        }
    }
}
