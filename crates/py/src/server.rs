//! A worker's server as Python sees it.

mod access_log;
mod admission;
mod counts;
mod flusher;
mod lifeline;
mod memory;
mod proxies;
mod siblings;
mod slow;
mod tls;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use net::Poller;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::{AccessLog, Compression, Config, Limits, OptionalLimits, Origins, Timeouts, Worker};

use self::flusher::Flusher;
pub(crate) use self::lifeline::{follow, widen_signal_stack};
pub(crate) use self::memory::Memory;
use crate::ffi::{self, forked};
use crate::interface::Interface;
use crate::run::exchanges::Exchanges;
use crate::wsgi::Placement;

pub(crate) use access_log::check_access_log_format;
pub(crate) use admission::share_client_rates;
pub(crate) use counts::{Counts, metrics};
pub(crate) use siblings::Siblings;
pub(crate) use tls::{
    CertificateFacts, RevocationFacts, TicketSecret, TlsConfig, memory_file, opened_key,
    self_signed,
};

/// One worker's reactor with HTTP on it.
#[pyclass(module = "bolide._core", frozen, weakref)]
pub(crate) struct Server {
    worker: Arc<Mutex<Worker<Interface>>>,
    flusher: Flusher,
    /// Only locked while the worker is locked too, so this never blocks.
    memory: Mutex<Memory>,
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) poller: Arc<Poller>,
    open: Arc<AtomicUsize>,
    /// What its listeners offer, if they use TLS.
    tls: Mutex<Option<Arc<net::TlsConfig>>>,
    limits: Limits,
    compression: Compression,
    accepts_prior_knowledge: bool,
    /// Whether requests share a task in their first step.
    eager_tasks: bool,
    drain_asked: AtomicBool,
    on_drained: Mutex<Option<Py<PyAny>>>,
    /// After how many requests `on_requests` is called; as many as there can be if it is not.
    requests_max: AtomicU64,
    on_requests: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl Server {
    #[new]
    fn new(app: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<Server> {
        let memory = Mutex::new(Memory::new());
        let mut config = config_of(options)?;
        let log = access_log::of_options(options)?;
        config.logs_waits = log.as_ref().is_some_and(AccessLog::has_waits);
        let disconnected = Interface::disconnected(app)?;
        // The mailbox belongs to the worker, and the application needs it before the worker is created.
        let mailbox = Arc::default();
        let tls = tls_of(options)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let exchanges = Exchanges::new(Arc::clone(&mailbox), disconnected, &config, scheme);
        let placement = placement_of(options, scheme)?;
        if placement.is_multiprocess {
            exchanges.topics.expect_notice();
        }
        let exchanges = Arc::new(exchanges);
        let interface = Interface::of(app, Arc::clone(&exchanges), placement, &config)?;
        forked::has_own_server();
        let accepts_prior_knowledge = config.accepts_prior_knowledge;
        let compression = config.websocket.compression;
        let mut limits = config.limits;
        let longest = config.admission.rules.body_bytes_max().unwrap_or_default();
        limits.body_bytes_max = limits.body_bytes_max.max(longest);
        let mut worker = Worker::new(interface, config, log, mailbox)?;
        if let Some(idle_ms) = options.get_item("draining_idle_ms")? {
            worker.set_draining_idle(idle_ms.extract()?);
        }
        worker.app.watch(&worker.poller())?;
        Ok(Server {
            poller: worker.poller(),
            open: worker.open_connections(),
            worker: Arc::new(Mutex::new(worker)),
            flusher: Flusher::default(),
            memory,
            exchanges,
            tls: Mutex::new(tls),
            limits,
            compression,
            accepts_prior_knowledge,
            eager_tasks: match options.get_item("eager_tasks")? {
                Some(value) => value.is_truthy()?,
                None => true,
            },
            drain_asked: AtomicBool::new(false),
            on_drained: Mutex::new(None),
            requests_max: AtomicU64::new(u64::MAX),
            on_requests: Mutex::new(None),
        })
    }

    /// Shares the connections of its listeners with other processes, as the `index`-th of them.
    fn join(&self, siblings: &Siblings, index: usize) -> PyResult<()> {
        Ok(self.worker()?.join(siblings.seat(index)?)?)
    }

    /// Counts from now on, in numbers that no other server uses.
    fn measure(&self, counts: &Counts) -> PyResult<()> {
        let mut worker = self.worker()?;
        worker.measure(counts.numbers, counts.ranking);
        worker.app.measure(counts.numbers);
        self.exchanges.watch.measure(counts.numbers);
        Ok(())
    }

    /// Serves a listening socket with this `backlog`; the descriptor is duplicated.
    fn add_listener(&self, fd: i32, backlog: usize) -> PyResult<()> {
        let tls = self.tls().clone();
        if tls.is_some() {
            net::collect_entropy();
        }
        Ok(self.worker()?.add_listener(duplicate(fd)?, backlog, tls)?)
    }

    /// Uses other certificates, keys and rules for new connections, if it uses TLS.
    fn renew_tls(&self, tls: &TlsConfig) -> PyResult<()> {
        self.worker()?.renew_tls(&tls.config);
        *self.tls() = Some(Arc::clone(&tls.config));
        Ok(())
    }

    /// Continues the access log, if there is one, in another file; the descriptor is duplicated.
    fn reopen_access_log(&self, fd: i32) -> PyResult<()> {
        self.worker()?.reopen_access_log(duplicate(fd)?.into());
        Ok(())
    }

    /// Serves a connection that has been accepted already, as those of a listener: with TLS if the server uses it. The descriptor is
    /// duplicated.
    fn adopt(&self, py: Python<'_>, fd: i32) -> PyResult<()> {
        let mut worker = self.worker()?;
        let hidden = worker.app.hide_loop(py)?;
        match self.tls().clone() {
            Some(tls) => worker.adopt_with_tls(duplicate(fd)?, &tls)?,
            None => worker.adopt(duplicate(fd)?)?,
        }
        drop(hidden);
        self.after_pass(py, worker)
    }

    /// Binds the server to the loop that runs its coroutines.
    #[pyo3(signature = (event_loop, *, own_selector))]
    fn attach(
        slf: &Bound<'_, Self>,
        event_loop: &Bound<'_, PyAny>,
        own_selector: bool,
    ) -> PyResult<()> {
        let (py, server) = (slf.py(), slf.get());
        forked::watch(py)?;
        let mut worker = server.worker()?;
        for runner in worker.app.runners() {
            runner
                .tasks
                .attach(event_loop, own_selector, server.eager_tasks)?;
            runner.contexts.start_here(py)?;
        }
        if !worker.app.is_pooled() {
            server.flusher.start(&server.worker, &server.exchanges)?;
        }
        drop(worker);
        server.exchanges.set_wakes_directly(server.eager_tasks);
        let _ = server
            .exchanges
            .event_loop
            .set(py, event_loop.clone().unbind());
        let _ = server.exchanges.thread.set(std::thread::current().id());
        let modules = py.import("sys")?.getattr("modules")?;
        if modules.contains("nest_asyncio")? || modules.contains("nest_asyncio2")? {
            server.exchanges.expect_reentry();
        }
        if !own_selector {
            let poll = slf.getattr("poll")?;
            event_loop.call_method1("add_reader", (server.fileno(), poll))?;
            let wake = slf.getattr("poll_posted")?;
            drop(server.exchanges.set_wake(Some(wake.unbind())));
        }
        Ok(())
    }

    /// The epoll descriptor, which is readable when a pass is due.
    fn fileno(&self) -> i32 {
        self.poller.as_raw_fd()
    }

    /// Runs one pass without waiting.
    fn poll(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut worker) = self.free_worker() else {
            // A handler runs the loop: the pass that called it handles everything when it returns.
            self.exchanges.reenter(py);
            return Ok(());
        };
        let is_resting = self.memory().wait_ends();
        if is_resting {
            py.detach(|| self.memory().give_back());
        }
        let hidden = worker.app.hide_loop(py)?;
        let passing: &mut Worker<Interface> = &mut worker;
        let served = match passing.app.is_pooled() {
            true => py.detach(|| self.pass(passing)),
            false => self.pass(passing),
        };
        drop(hidden);
        self.after_pass(py, worker)?;
        served
    }

    /// Runs the pass for which a post has woken the loop.
    fn poll_posted(&self, py: Python<'_>) -> PyResult<()> {
        self.exchanges.wakes();
        self.poll(py)
    }

    /// The application has set a task factory, or asyncio's debug mode: the next request uses it.
    fn tasks_changed(&self) {
        self.exchanges.tasks_changed();
    }

    /// Stops accepting, closes idle connections, and closes every other one after its next response.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.drain_asked.store(true, Ordering::Relaxed);
        self.exchanges.drains();
        if let Ok(mut worker) = self.worker.try_lock() {
            let hidden = worker.app.hide_loop(py)?;
            // The next pass may now be due sooner, so a foreign loop has to be notified.
            let drained = match self.exchanges.has_foreign_loop() {
                true => self.pass(&mut worker),
                false => {
                    self.before_pass(&mut worker);
                    Ok(())
                }
            };
            drop(hidden);
            self.after_pass(py, worker)?;
            drained?;
        }
        Ok(())
    }

    /// What is new about slow requests; None if there is nothing. Any thread may ask, also during a call.
    fn slow_requests(&self, py: Python<'_>, count_max: usize) -> PyResult<Option<slow::News>> {
        slow::news(py, &self.exchanges, count_max)
    }

    /// The tasks of handlers that have not ended.
    fn running_tasks(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.exchanges.running.all(py)
    }

    /// Sets a function to call once, when a drain was requested, no connection is left, and all handlers have ended.
    fn on_drained(&self, callback: Py<PyAny>) {
        drop(locked(&self.on_drained).replace(callback));
    }

    /// Sets a function to call once, when there have been `count` requests.
    fn on_requests(&self, count: u64, callback: Py<PyAny>) {
        drop(locked(&self.on_requests).replace(callback));
        self.requests_max.store(count, Ordering::Relaxed);
    }

    /// Closes everything immediately. Returns how many requests without a response got 503, and how many responses were truncated.
    fn stop(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.flusher.stop(py);
        let mut worker = self.worker()?;
        let hidden = worker.app.hide_loop(py)?;
        let unfinished = worker.stop();
        drop(hidden);
        worker.finish_access_log();
        worker.app.runners().for_each(|runner| runner.stop(py));
        drop(worker);
        // The wake function is a method of this object; keeping it would keep the object alive.
        let had_foreign_loop = self.exchanges.set_wake(None).is_some();
        if let (Some(event_loop), true) = (self.exchanges.event_loop.get(py), had_foreign_loop)
            && !event_loop.call_method0(py, "is_closed")?.is_truthy(py)?
        {
            event_loop.call_method1(py, "remove_reader", (self.fileno(),))?;
        }
        Ok((unfinished.refused, unfinished.cut))
    }

    #[getter]
    fn connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Maximum bytes that one connection can make the server hold.
    #[getter]
    fn connection_bytes_max(&self) -> u64 {
        let has_tls = self.tls().is_some();
        let tls_bytes = if has_tls { net::SESSION_BYTES_MAX } else { 0 };
        let has_http2 = has_tls || self.accepts_prior_knowledge;
        let bytes = match has_http2 {
            true => self
                .limits
                .http2_connection_bytes_max(self.compression.bytes_max()),
            false => self
                .limits
                .connection_bytes_max(self.compression.bytes_max()),
        };
        bytes + tls_bytes
    }
}

impl Server {
    fn tls(&self) -> MutexGuard<'_, Option<Arc<net::TlsConfig>>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, worker: &mut Worker<Interface>) -> PyResult<()> {
        self.before_pass(worker);
        worker.before_wait();
        worker.wait(Some(0))?;
        self.calls_follow(worker);
        worker.dispatch();
        let wait_ms = worker.before_wait();
        let wait_ms = worker.app.wait_begins(wait_ms);
        let wait_ms = self.memory().wait_begins(wait_ms);
        Ok(self.poller.set_alarm(wait_ms)?)
    }

    /// The worker; an error while a pass is under way.
    pub(crate) fn worker(&self) -> PyResult<MutexGuard<'_, Worker<Interface>>> {
        self.free_worker().ok_or_else(|| {
            PyRuntimeError::new_err(
                "the server is busy: this cannot be called from inside a handler",
            )
        })
    }

    /// The worker; None while a pass is under way.
    pub(crate) fn free_worker(&self) -> Option<MutexGuard<'_, Worker<Interface>>> {
        match self.worker.try_lock() {
            Ok(worker) => Some(worker),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What is known of the memory, for the holder of the worker.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a drain is complete and has not been reported.
    pub(crate) fn is_drained(&self, worker: &Worker<Interface>) -> bool {
        let is_over = worker.is_draining() && worker.is_empty();
        is_over && self.exchanges.running.is_empty() && locked(&self.on_drained).is_some()
    }

    /// Whether there is something to call back for after the pass.
    #[inline]
    pub(crate) fn has_news(&self, worker: &Worker<Interface>) -> bool {
        self.has_served_enough(worker) || self.is_drained(worker)
    }

    #[inline]
    fn has_served_enough(&self, worker: &Worker<Interface>) -> bool {
        worker.requests() >= self.requests_max.load(Ordering::Relaxed)
    }

    pub(crate) fn before_pass(&self, worker: &mut Worker<Interface>) {
        forked::leave_between_calls();
        worker.app.wait_ends();
        self.exchanges.pass_begins();
        if worker.app.pass_begins() {
            worker.routes_changed();
        }
        if self.drain_asked.swap(false, Ordering::Relaxed) {
            worker.drain();
        }
    }

    /// The wait is over: its events may be requests. If it was ended for the loop only, such as by the heartbeat, nothing has to be watched:
    /// what its tasks post wakes the thread that watches.
    pub(crate) fn calls_follow(&self, worker: &Worker<Interface>) {
        if worker.has_calls() {
            self.exchanges.watch.calls_follow();
        }
    }

    /// Leaves the current task, reports a completed drain or number of requests, and raises an exception that ends the process.
    pub(crate) fn after_pass(
        &self,
        py: Python<'_>,
        mut worker: MutexGuard<'_, Worker<Interface>>,
    ) -> PyResult<()> {
        let mut fatal = None;
        for runner in worker.app.runners() {
            runner.pass_ends(py);
            fatal = fatal.or(runner.fatal.take());
        }
        let is_drained = self.is_drained(&worker);
        let has_served_enough = self.has_served_enough(&worker);
        drop(worker);
        self.exchanges.turns.pass_ends();
        if has_served_enough {
            self.requests_max.store(u64::MAX, Ordering::Relaxed);
            call_once(py, &self.on_requests)?;
        }
        if is_drained {
            call_once(py, &self.on_drained)?;
        }
        fatal.map_or(Ok(()), Err)
    }
}

fn locked(callback: &Mutex<Option<Py<PyAny>>>) -> MutexGuard<'_, Option<Py<PyAny>>> {
    callback.lock().unwrap_or_else(PoisonError::into_inner)
}

fn call_once(py: Python<'_>, callback: &Mutex<Option<Py<PyAny>>>) -> PyResult<()> {
    // Not locked during the call.
    let callback = locked(callback).take();
    callback.map_or(Ok(()), |callback| callback.call0(py).map(drop))
}

fn config_of(options: &Bound<'_, PyDict>) -> PyResult<Config> {
    let mut config = Config::default();
    for (key, value) in options {
        let name: String = key.extract()?;
        if name == "server_header" {
            config.omits_server_field = !value.is_truthy()?;
        } else if name == "h2c" {
            config.accepts_prior_knowledge = value.is_truthy()?;
        } else if name == "websocket_compression" {
            config.websocket.compression = compression_of(options, value.extract()?)?;
        } else if name == "websocket_origins" {
            config.websocket.origins = origins_of(value.extract()?);
        } else if admission::set(&mut config.admission, &name, &value)? {
            // One of several options about limits.
        } else if proxies::set(&mut config, &name, &value)? {
            // One of several options about proxies and ids.
        } else if name == "slow_request_ms" {
            config.slow = slow::watched(value.extract()?);
        } else if name == "memory_bytes_max" {
            config.memory_bytes_max = value.extract()?;
        } else if name == "debug_log" {
            config.reports_handshakes = value.is_truthy()?;
        } else if name == "redirects_to_https" {
            config.redirects_to_https = value.is_truthy()?;
        } else if let Some(number) = config
            .limits
            .get_mut(&name)
            .or_else(|| config.timeouts.get_mut(&name))
        {
            *number = value.extract()?;
        } else if !matches!(
            name.as_str(),
            "access_log"
                | "access_log_format"
                | "access_log_only"
                | "access_log_sample"
                | "access_log_slow_ms"
                | "draining_idle_ms"
                | "eager_tasks"
                | "spool_directory"
                | "tls"
                | "threads"
                | "websocket_compression_level"
                | "workers"
        ) {
            return Err(PyValueError::new_err(format!(
                "the server has no option {name}"
            )));
        }
    }
    Ok(config)
}

fn compression_of(options: &Bound<'_, PyDict>, word: &str) -> PyResult<Compression> {
    let level = match options.get_item("websocket_compression_level")? {
        Some(level) => level.extract()?,
        None => Compression::default().level(),
    };
    match word {
        "off" => Ok(Compression::Off),
        "on" => Ok(Compression::Messages { level }),
        "context" => Ok(Compression::Context { level }),
        _ => Err(PyValueError::new_err(
            "websocket_compression is on, context or off",
        )),
    }
}

/// `*` is any origin, `same` the request's own.
fn origins_of(mut origins: Vec<String>) -> Origins {
    if origins.iter().any(|origin| origin == "*") {
        return Origins::Any;
    }
    let own = origins.iter().any(|origin| origin == "same");
    origins.retain(|origin| origin != "same");
    Origins::Listed {
        own,
        others: origins,
    }
}

/// Where a WSGI application runs. Does not apply to other interfaces.
fn placement_of(options: &Bound<'_, PyDict>, scheme: &'static str) -> PyResult<Placement> {
    let number = |name: &str| match options.get_item(name)? {
        Some(value) => value.extract(),
        None => Ok(1),
    };
    let workers: usize = number("workers")?;
    let spool_directory = match options.get_item("spool_directory")? {
        Some(path) => path.extract::<Option<PathBuf>>()?.map(Arc::from),
        None => None,
    };
    Ok(Placement {
        scheme,
        spool_directory,
        threads: number("threads")?,
        is_multiprocess: workers > 1,
    })
}

/// What its listeners offer, if they use TLS.
fn tls_of(options: &Bound<'_, PyDict>) -> PyResult<Option<Arc<net::TlsConfig>>> {
    let given = options.get_item("tls")?.filter(|tls| !tls.is_none());
    given
        .map(|tls| {
            let tls = tls.cast::<TlsConfig>()?.get();
            Ok(Arc::clone(&tls.config))
        })
        .transpose()
}

/// A duplicate of a descriptor that Python keeps.
fn duplicate(fd: i32) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(PyValueError::new_err("a descriptor cannot be negative"));
    }
    Ok(ffi::borrow_fd(fd).try_clone_to_owned()?)
}

/// Every limit and timeout: name, kind, default, unit, help.
#[pyfunction]
pub(crate) fn settings() -> Vec<(&'static str, &'static str, u64, &'static str, &'static str)> {
    let limits = Limits::SETTINGS.iter().chain(OptionalLimits::SETTINGS);
    let all = limits.chain(Timeouts::SETTINGS);
    all.map(|setting| {
        (
            setting.name,
            setting.kind,
            setting.default,
            setting.unit,
            setting.help,
        )
    })
    .collect()
}
