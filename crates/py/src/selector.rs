//! The reactor as a selector: asyncio's loop waits in it, and HTTP is served inside the wait.
//!
//! `select` returns to the loop only for one of asyncio's own descriptors, a due timer, a signal, or because a handler has left work for
//! the loop.

mod descriptors;
mod wakeup;

use std::io;
use std::time::{Duration, Instant};

use net::{Events, Interest, Poller, Token};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use server::Worker;

pub(crate) use self::descriptors::DescriptorMap;
use self::descriptors::{Descriptors, descriptor};
use self::wakeup::Wakeup;
use crate::ffi::{self, borrow_fd};
use crate::interface::Interface;
use crate::server::{Memory, Server};

const EVENT_READ: u8 = 1;
const EVENT_WRITE: u8 = 2;

/// A `selectors.BaseSelector` over the reactor's epoll set.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Selector {
    server: Py<Server>,
    /// asyncio's own descriptors, in a set inside the reactor's.
    own: Poller,
    descriptors: Descriptors,
    wakeup: Wakeup,
}

/// The attributes of the loop that show whether it has work.
struct LoopWatch<'py> {
    attributes: Bound<'py, PyDict>,
    ready: Bound<'py, PyAny>,
    scheduled: Bound<'py, PyAny>,
    timers: usize,
    task_factory: Option<Bound<'py, PyAny>>,
}

impl<'py> LoopWatch<'py> {
    fn new(event_loop: Bound<'py, PyAny>) -> PyResult<LoopWatch<'py>> {
        let py = event_loop.py();
        let ready = event_loop.getattr(pyo3::intern!(py, "_ready"))?;
        let scheduled = event_loop.getattr(pyo3::intern!(py, "_scheduled"))?;
        let timers = ffi::length(&scheduled);
        let attributes = event_loop
            .getattr(pyo3::intern!(py, "__dict__"))?
            .cast_into::<PyDict>()?;
        let task_factory = attributes.get_item(pyo3::intern!(py, "_task_factory"))?;
        Ok(LoopWatch {
            attributes,
            ready,
            scheduled,
            timers,
            task_factory,
        })
    }

    /// Whether the loop has to run before the next wait.
    #[inline]
    fn has_work(&self) -> PyResult<bool> {
        if ffi::length(&self.ready) > 0 || ffi::length(&self.scheduled) != self.timers {
            return Ok(true);
        }
        let py = self.attributes.py();
        let stopping = self.attributes.get_item(pyo3::intern!(py, "_stopping"))?;
        let factory = self
            .attributes
            .get_item(pyo3::intern!(py, "_task_factory"))?;
        // The next requests get their tasks from another factory.
        let is_same_factory = match (&factory, &self.task_factory) {
            (Some(now), Some(before)) => now.is(before),
            (now, before) => now.is_none() == before.is_none(),
        };
        Ok(!is_same_factory || stopping.map_or(Ok(false), |stopping| stopping.is_truthy())?)
    }
}

/// The reactor of `server` as a selector for `asyncio.SelectorEventLoop`.
#[pyfunction]
pub(crate) fn selector(py: Python<'_>, server: Py<Server>) -> PyResult<Selector> {
    Selector::new(py, server)
}

impl Selector {
    fn new(py: Python<'_>, server: Py<Server>) -> PyResult<Selector> {
        let own = Poller::new()?;
        let worker = server.get().worker()?;
        worker.watch_foreign(&own)?;
        let wakeup = Wakeup::new(&worker.poller())?;
        drop(worker);
        Ok(Selector {
            server,
            own,
            descriptors: Descriptors::new(py),
            wakeup,
        })
    }

    /// Serves until the loop is needed. Returns true if one of the loop's descriptors may be ready.
    fn serve(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let server = self.server.get();
        let Some(mut worker) = server.free_worker() else {
            server.exchanges.reenter(py);
            return self.wait_inside(py, timeout);
        };
        let hidden = worker.app.hide_loop(py)?;
        let served = self.passes(py, &mut worker, timeout);
        drop(hidden);
        server.after_pass(py, worker)?;
        served
    }

    /// Waits for the loop's own descriptors only: a handler runs the loop, and the pass that called it continues when it returns.
    #[cold]
    fn wait_inside(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let wait_ms = match self.wakeup.waits_inside(&self.own)? {
            true => end_of(timeout).map(milliseconds_until),
            false => Some(0),
        };
        let mut events = Events::default();
        py.detach(|| self.own.wait(&mut events, wait_ms))?;
        Ok(events.get(0).is_some())
    }

    fn passes(
        &self,
        py: Python<'_>,
        worker: &mut Worker<Interface>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let server = self.server.get();
        let watch = server
            .exchanges
            .event_loop
            .get(py)
            .map(|event_loop| LoopWatch::new(event_loop.bind(py).clone()))
            .transpose()?;
        let end = end_of(timeout);
        let was_reentered = server.exchanges.is_reentered();
        let mut memory = server.memory();
        let memory: &mut Memory = &mut memory;
        if worker.app.is_pooled() {
            let has_work = self.check_loop(watch.as_ref())?;
            return py.detach(|| self.detached_passes(worker, memory, end, has_work));
        }
        loop {
            server.before_pass(worker);
            let own_ms = worker.before_wait();
            if server.has_news(worker) {
                return Ok(false);
            }
            let has_work = self.check_loop(watch.as_ref())?;
            let loop_ms = if has_work {
                Some(0)
            } else {
                end.map(milliseconds_until)
            };
            let wait_ms = own_ms.into_iter().chain(loop_ms).min();
            let wait_ms = worker.app.wait_begins(wait_ms);
            let interrupted = self.wait(py, worker, memory, wait_ms)?;
            worker.app.wait_ends();
            server.calls_follow(worker);
            let is_own_ready = worker.dispatch();
            let has_work = match &watch {
                Some(watch) => watch.has_work()?,
                None => self.wakeup.is_woken(),
            };
            let is_due = end.is_some_and(|end| loop_ms == Some(0) || Instant::now() >= end);
            let is_reentered = server.exchanges.is_reentered() != was_reentered;
            let is_over = has_work || is_due || interrupted || is_own_ready || is_reentered;
            if is_over || worker.app.is_fatal() || server.has_news(worker) {
                return Ok(is_own_ready);
            }
        }
    }

    /// Serves until the loop is needed, without the interpreter. No Python runs on this thread meanwhile, so the loop gets work only from
    /// its own descriptors, another thread, a signal, or time. Returns true if one of the loop's descriptors may be ready.
    fn detached_passes(
        &self,
        worker: &mut Worker<Interface>,
        memory: &mut Memory,
        end: Option<Instant>,
        has_work: bool,
    ) -> PyResult<bool> {
        let server = self.server.get();
        loop {
            server.before_pass(worker);
            let own_ms = worker.before_wait();
            if server.has_news(worker) {
                return Ok(false);
            }
            let loop_ms = match has_work || self.wakeup.is_woken() {
                true => Some(0),
                false => end.map(milliseconds_until),
            };
            let wait_ms = own_ms.into_iter().chain(loop_ms).min();
            let wait_ms = worker.app.wait_begins(wait_ms);
            let interrupted = wait_detached(worker, memory, wait_ms)?;
            worker.app.wait_ends();
            let is_own_ready = worker.dispatch();
            let is_due = loop_ms == Some(0) || end.is_some_and(|end| Instant::now() >= end);
            let is_over = is_due || interrupted || is_own_ready || self.wakeup.is_woken();
            if is_over || server.has_news(worker) {
                return Ok(is_own_ready);
            }
        }
    }

    /// Checks whether the loop has to run before the next wait; from now on other threads that give it work wake it. If its queue is not
    /// exposed, it has to run if it may have been given work since the last wait.
    fn check_loop(&self, watch: Option<&LoopWatch<'_>>) -> PyResult<bool> {
        let may_have_work = self.wakeup.wait_begins();
        watch.map_or(Ok(may_have_work), LoopWatch::has_work)
    }

    /// Waits, and lets other threads run meanwhile.
    fn wait(
        &self,
        py: Python<'_>,
        worker: &mut Worker<Interface>,
        memory: &mut Memory,
        wait_ms: Option<u64>,
    ) -> PyResult<bool> {
        let mut wait = || {
            let waited = wait_detached(worker, memory, wait_ms);
            // Before waiting for the interpreter, which a thread that gives the loop work now may hold for long.
            self.wakeup.wait_ends();
            waited
        };
        Ok(match wait_ms {
            Some(0) => wait(),
            _ => py.detach(wait),
        }?)
    }

    fn key<'py>(
        file: &Bound<'py, PyAny>,
        fd: i32,
        events: u8,
        data: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if events == 0 || events & !(EVENT_READ | EVENT_WRITE) != 0 {
            return Err(PyValueError::new_err(format!("invalid events: {events}")));
        }
        file.py()
            .import("selectors")?
            .getattr("SelectorKey")?
            .call1((file, fd, events, data))
    }
}

#[pymethods]
impl Selector {
    #[pyo3(signature = (fileobj, events, data=None))]
    fn register<'py>(
        &self,
        fileobj: &Bound<'py, PyAny>,
        events: u8,
        data: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = fileobj.py();
        let fd = descriptor(fileobj)?;
        let map = self.descriptors.keys(py);
        if map.contains(fd)? {
            return Err(PyKeyError::new_err(format!(
                "descriptor {fd} is registered already"
            )));
        }
        let key = Selector::key(fileobj, fd, events, data)?;
        self.own.add(borrow_fd(fd), fd as Token, interest(events))?;
        map.set_item(fd, &key)?;
        Ok(key)
    }

    fn unregister<'py>(&self, fileobj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (fd, key) = self.descriptors.registered(fileobj)?;
        self.descriptors.keys(fileobj.py()).del_item(fd)?;
        // Fails for a descriptor that was closed before it was unregistered: the kernel has already removed it.
        let _ = self.own.remove(borrow_fd(fd));
        Ok(key)
    }

    #[pyo3(signature = (fileobj, events, data=None))]
    fn modify<'py>(
        &self,
        fileobj: &Bound<'py, PyAny>,
        events: u8,
        data: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = fileobj.py();
        let (fd, _) = self.descriptors.registered(fileobj)?;
        let key = Selector::key(fileobj, fd, events, data)?;
        let map = self.descriptors.keys(py);
        if let Err(error) = self
            .own
            .modify(borrow_fd(fd), fd as Token, interest(events))
        {
            // It was closed, and the number is another descriptor's, which can be registered then.
            map.del_item(fd)?;
            return Err(error.into());
        }
        map.set_item(fd, &key)?;
        Ok(key)
    }

    #[pyo3(signature = (timeout=None))]
    fn select<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyList>> {
        let ready = PyList::empty(py);
        if !self.serve(py, timeout)? {
            return Ok(ready);
        }
        let mut events = Events::default();
        self.own.wait(&mut events, Some(0))?;
        for readiness in events.iter() {
            if let Some(key) = self.descriptors.keys(py).get_item(readiness.token)? {
                let registered: u8 = key.getattr("events")?.extract()?;
                let read = if readiness.is_readable() || readiness.is_hung_up() {
                    EVENT_READ
                } else {
                    0
                };
                let write = if readiness.is_writable() || readiness.is_hung_up() {
                    EVENT_WRITE
                } else {
                    0
                };
                ready.append((key, (read | write) & registered))?;
            }
        }
        Ok(ready)
    }

    fn get_key<'py>(&self, fileobj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.descriptors.registered(fileobj)?.1)
    }

    fn get_map(&self, py: Python<'_>) -> DescriptorMap {
        DescriptorMap {
            descriptors: self.descriptors.clone_ref(py),
        }
    }

    /// Ends the wait, or the next one. For any thread.
    fn wake(&self) {
        self.wakeup.wake();
    }

    fn close(&self, py: Python<'_>) {
        self.descriptors.keys(py).clear();
        self.server.get().exchanges.release_tasks(py);
    }
}

/// Waits, without the interpreter or for no time. Returns true if a signal interrupted it.
fn wait_detached(
    worker: &mut Worker<Interface>,
    memory: &mut Memory,
    wait_ms: Option<u64>,
) -> io::Result<bool> {
    let interrupted = worker.wait(memory.limit(wait_ms))?.0;
    memory.waited(wait_ms, !interrupted && !worker.has_events());
    Ok(interrupted)
}

fn end_of(timeout: Option<f64>) -> Option<Instant> {
    let timeout = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    // A number of seconds that is too large means no limit.
    Instant::now().checked_add(timeout?.ok()?)
}

fn milliseconds_until(end: Instant) -> u64 {
    let left = end.saturating_duration_since(Instant::now());
    // Rounded up: a timer may fire a little late, while waking early would waste an iteration of the loop.
    u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

fn interest(events: u8) -> Interest {
    Interest {
        read: events & EVENT_READ != 0,
        write: events & EVENT_WRITE != 0,
        ..Interest::NONE
    }
}
