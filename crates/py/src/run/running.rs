//! The tasks of handlers that have not ended. A response may be complete long before its handler: a server that stops waits for the rest
//! too.

use std::collections::TryReserveError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::memory::may_be_refused;
use pyo3::prelude::*;

use super::coroutine::RequestCoroutine;
use super::exchanges::Exchanges;
use super::memory;
use super::websocket::Arrival;

/// The tasks of suspended handlers, by their places.
#[derive(Default)]
pub(crate) struct RunningTasks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    /// The first free place.
    free: Option<u32>,
    count: usize,
    /// Those among them that are no WebSockets.
    requests: usize,
    /// The last serial number, which is even.
    serial: u32,
}

enum Place {
    Free {
        next: Option<u32>,
    },
    Taken {
        /// Distinguishes the handlers that have the place one after the other. Odd for a request, even for a WebSocket.
        serial: u32,
        task: Option<Py<PyAny>>,
    },
}

/// The place of a handler.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    index: u32,
    serial: u32,
}

impl State {
    /// Takes a place.
    fn take(&mut self, is_of_request: bool) -> Number {
        self.count += 1;
        self.requests += usize::from(is_of_request);
        self.serial = self.serial.wrapping_add(2);
        let serial = self.serial + u32::from(is_of_request);
        let taken = Place::Taken { serial, task: None };
        let first = self.free;
        let place = first.and_then(|index| self.places.get_mut(index as usize));
        let index = match (first, place) {
            (Some(index), Some(place)) => {
                if let Place::Free { next } = place {
                    self.free = *next;
                }
                *place = taken;
                index
            }
            _ => {
                self.places.push(taken);
                self.places.len() as u32 - 1
            }
        };
        Number { index, serial }
    }

    /// The task of a handler, unless it has ended.
    fn task(&mut self, number: Number) -> Option<&mut Option<Py<PyAny>>> {
        match self.places.get_mut(number.index as usize)? {
            Place::Taken { serial, task } if *serial == number.serial => Some(task),
            _ => None,
        }
    }

    /// Leaves a place. Returns its task.
    fn leave(&mut self, number: Number) -> Option<Py<PyAny>> {
        let task = self.task(number)?.take();
        let next = self.free.replace(number.index);
        if let Some(place) = self.places.get_mut(number.index as usize) {
            *place = Place::Free { next };
        }
        self.count -= 1;
        self.requests -= (number.serial % 2) as usize;
        task
    }
}

impl RunningTasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves places for `count` more.
    pub(super) fn reserve(&self, count: usize) -> Result<(), TryReserveError> {
        self.state().places.try_reserve(count)
    }

    /// Whether all have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().count == 0
    }

    /// How many of them are for requests, and not for WebSockets.
    pub(crate) fn requests(&self) -> usize {
        self.state().requests
    }

    /// Those that have not ended.
    pub(crate) fn all(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let state = self.state();
        let tasks = state.places.iter().filter_map(|place| match place {
            Place::Taken { task, .. } => task.as_ref(),
            Place::Free { .. } => None,
        });
        tasks.map(|task| task.clone_ref(py)).collect()
    }

    /// Takes the tasks of those that have not ended, which keep their places.
    fn take_all(&self) -> Vec<Py<PyAny>> {
        let mut state = self.state();
        let tasks = state.places.iter_mut().filter_map(|place| match place {
            Place::Taken { task, .. } => task.take(),
            Place::Free { .. } => None,
        });
        tasks.collect()
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
        let taken = self.running.take_all();
        drop(open);
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
    number: Number,
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
        let number = exchanges.running.state().take(is_of_request);
        Ok(Running {
            number,
            exchanges: Arc::clone(exchanges),
        })
    }

    /// The name by which [`Running::has_task`] finds it.
    pub(crate) fn number(&self) -> Number {
        self.number
    }

    /// Records the task in which handler `number` runs, unless it has ended.
    pub(crate) fn has_task(exchanges: &Exchanges, number: Number, task: Py<PyAny>) {
        if let Some(place) = exchanges.running.state().task(number) {
            *place = Some(task);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (task, was_last) = {
            let mut state = self.exchanges.running.state();
            (state.leave(self.number), state.count == 0)
        };
        // Dropped only now, since that may run Python.
        drop(task);
        if was_last {
            self.exchanges.last_has_ended();
        }
    }
}
