//! State shared by the application, its requests and its tasks: the mailbox, the loop, and the exchanges whose responses are pending.

mod open;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use net::memory::NoMemory;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use server::{Command, Config, ExchangeId, Mailbox, Responder, SlowRequests};

pub(crate) use self::open::OpenExchange;
use super::awaitable::Ready;
use super::left_out::LeftOut;
use super::log::log_warning;
use super::running::RunningTasks;
use super::watch::{Moment, Watch};
use super::websocket::{DepartedBytes, Sockets, TopicRules, Turns};
use crate::ffi::{self, LentResponder};

/// Logged once.
const REENTERED: &str = "a handler runs the event loop, and no connection is served until it has ended; \
    import nest_asyncio before the server starts, or use --eager-tasks off";
/// Number of bytes by which a WebSocket, or a response that a thread writes, may be ahead of its peer.
pub(crate) const AHEAD_BYTES: usize = 65_536;
/// The same for a streamed response of a coroutine: two parts of 64 KiB, the most common length, so that it suspends less often (bench:
/// tls-http2, stream). asyncio's own TLS holds up to 512 KiB of a stream.
pub(crate) const STREAM_AHEAD_BYTES: usize = 131_072;
/// For so many exchanges and handlers there is room before memory is needed: some are opened before their handlers suspend.
const ROOM: usize = 64;

/// One per server.
pub(crate) struct Exchanges {
    pub(super) mailbox: Arc<Mailbox>,
    /// The exception that informs a handler that its peer has disconnected.
    pub(super) disconnected: Py<PyAny>,
    exchanges: Mutex<HashMap<ExchangeId, OpenExchange>>,
    pub(crate) event_loop: PyOnceLock<Py<PyAny>>,
    /// The thread of that loop.
    pub(crate) thread: OnceLock<ThreadId>,
    /// Wakes a reactor that does not own the loop; `None` if every iteration of the loop passes through the reactor anyway.
    wake: Mutex<Option<Py<PyAny>>>,
    /// The loop has been asked to call it, and has not.
    wake_is_due: AtomicBool,
    /// Fields that were left out of responses.
    pub(crate) left_out: LeftOut,
    /// The application has run the loop inside a handler.
    is_reentered: AtomicBool,
    /// How often the application has changed how its loop creates tasks.
    tasks_asked: AtomicU32,
    done: PyOnceLock<Py<PyAny>>,
    /// Of every request's URI (RFC 9110 4.2).
    pub(crate) scheme: &'static str,
    /// The responder of the call that is under way.
    pub(crate) responder: LentResponder,
    pub(crate) watch: Watch,
    pub(crate) running: RunningTasks,
    /// The requests whose applications have not started to respond, if they are watched.
    pub(crate) slow: Option<Arc<SlowRequests>>,
    /// The log has the time for which requests wait.
    pub(crate) logs_waits: bool,
    /// Requests have ids.
    pub(crate) has_request_ids: bool,
    /// The server waits for the last handlers to end.
    is_draining: AtomicBool,
    pub(crate) sockets: Sockets,
    pub(crate) turns: Turns,
    /// Messages of WebSockets whose clients have left.
    pub(crate) departed: DepartedBytes,
    pub(crate) topics: TopicRules,
    /// Tasks that wait for messages are resumed in the pass that brings them.
    pub(super) wakes_directly: AtomicBool,
}

impl Exchanges {
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        disconnected: Py<PyAny>,
        config: &Config,
        scheme: &'static str,
    ) -> Exchanges {
        Exchanges {
            mailbox,
            disconnected,
            exchanges: Mutex::default(),
            event_loop: PyOnceLock::new(),
            thread: OnceLock::new(),
            wake: Mutex::default(),
            wake_is_due: AtomicBool::new(false),
            left_out: LeftOut::new(),
            is_reentered: AtomicBool::new(false),
            tasks_asked: AtomicU32::new(0),
            done: PyOnceLock::new(),
            scheme,
            responder: LentResponder::default(),
            watch: Watch::default(),
            running: RunningTasks::default(),
            slow: config.slow.clone(),
            logs_waits: config.logs_waits,
            has_request_ids: config.request_ids.is_some(),
            is_draining: AtomicBool::new(false),
            sockets: Sockets::default(),
            turns: Turns::default(),
            departed: DepartedBytes::default(),
            topics: TopicRules::new(config.limits.websocket_topics_max),
            wakes_directly: AtomicBool::new(false),
        }
    }

    /// Lends the responder of a call to what the application calls meanwhile.
    #[inline]
    pub(crate) fn lend<R>(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        responder: &mut Responder,
        run: impl FnOnce() -> R,
    ) -> R {
        self.watch.call_begins();
        self.watch.has_written_nothing();
        self.responder.lend(py, id, responder, run)
    }

    /// Lends the responder of a call that does not write to it itself, so that what waits for its end can be sent.
    #[inline(always)]
    pub(crate) fn lend_unnamed<R>(
        &self,
        py: Python<'_>,
        responder: &mut Responder,
        run: impl FnOnce() -> R,
    ) -> R {
        self.watch.call_begins();
        self.responder.lend_unnamed(py, responder, run)
    }

    /// Writes to the responder of the current call, if it is that of `id`. `write` must not run Python.
    #[inline]
    pub(crate) fn write_in_call<R>(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        write: impl FnOnce(&mut Responder) -> R,
    ) -> Option<R> {
        self.watch.has_written();
        self.responder.with(py, Some(id), write)
    }

    /// The current call has used up its connection's turn, if it is that of `id`.
    pub(crate) fn end_turn(&self, py: Python<'_>, id: ExchangeId) {
        self.responder.with(py, Some(id), Responder::end_turn);
    }

    /// Whether it matters how long requests wait for a thread.
    pub(crate) fn notes_waits(&self) -> bool {
        self.logs_waits || self.watch.is_measured()
    }

    /// The progress of calls and passes.
    pub(crate) fn moment(&self) -> Moment {
        self.watch.moment(self.is_in_call())
    }

    /// Whether the reactor is calling the application. Output that is posted during a call is sent when the call has ended, so a coroutine
    /// that posts some suspends for one iteration of the loop ([`LoopTurn`]).
    #[inline]
    pub(crate) fn is_in_call(&self) -> bool {
        self.responder.is_lent()
    }

    /// Whether something may have to be sent that no pass has taken or sent.
    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.may_have_output()
    }

    /// Posts a command, and makes sure that the reactor checks its mailbox.
    pub(crate) fn post(&self, py: Python<'_>, id: ExchangeId, command: Command) {
        self.mailbox.post(id, command);
        self.watch.has_posted();
        self.wake_reactor(py);
    }

    /// Whether output was posted that no pass has taken.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        self.mailbox.has_output()
    }

    /// From now on the end of the last running handler wakes the reactor.
    pub(crate) fn drains(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// No handler is running any more.
    pub(super) fn last_has_ended(&self) {
        if self.is_draining.load(Ordering::Relaxed) {
            Python::try_attach(|py| self.wake_reactor(py));
        }
    }

    /// Makes sure that the reactor runs a pass soon.
    pub(super) fn wake_reactor(&self, py: Python<'_>) {
        if self.is_on_other_thread() {
            return self.wake_loop(py);
        }
        if self.wake_is_due.load(Ordering::Relaxed) {
            return;
        }
        let wake = self.wake().as_ref().map(|wake| wake.clone_ref(py));
        let Some((wake, event_loop)) = wake.zip(self.event_loop.get(py)) else {
            return;
        };
        // A closed loop sends nothing any more.
        let is_due = event_loop.call_method1(py, "call_soon", (wake,)).is_ok();
        self.wake_is_due.store(is_due, Ordering::Relaxed);
    }

    /// Whether the caller runs on another thread than the loop.
    pub(super) fn is_on_other_thread(&self) -> bool {
        let current = std::thread::current().id();
        self.thread.get().is_some_and(|own| *own != current)
    }

    /// Wakes the loop from another thread.
    #[cold]
    fn wake_loop(&self, py: Python<'_>) {
        let Some(event_loop) = self.event_loop.get(py) else {
            return;
        };
        let wake = self.wake().as_ref().map(|wake| wake.clone_ref(py));
        if wake.is_some() && self.wake_is_due.swap(true, Ordering::AcqRel) {
            return;
        }
        // Each iteration of the reactor's own loop is a pass, so there any callback will do.
        let callback = wake.unwrap_or_else(|| py.get_type::<PyAny>().into_any().unbind());
        // A closed loop sends nothing any more.
        let is_due = event_loop.call_method1(py, "call_soon_threadsafe", (callback,));
        if is_due.is_err() {
            self.wake_is_due.store(false, Ordering::Release);
        }
    }

    /// The mailbox, for threads that post without the interpreter.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    fn wake(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the loop is not the reactor's own.
    pub(crate) fn has_foreign_loop(&self) -> bool {
        self.wake().is_some()
    }

    /// Sets the function that wakes the reactor, and returns the previous one.
    pub(crate) fn set_wake(&self, wake: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        std::mem::replace(&mut self.wake(), wake)
    }

    /// Called at the start of a pass.
    pub(crate) fn pass_begins(&self) {
        self.watch.pass_begins();
    }

    /// The loop has called the function that wakes the reactor: the next post needs another call. Passes for other reasons do not count:
    /// each of them may post, and calls would be queued faster than the loop runs them.
    pub(crate) fn wakes(&self) {
        // What was posted before is taken by the pass that follows.
        self.wake_is_due.swap(false, Ordering::AcqRel);
    }

    /// The application is likely to run the loop inside a handler: from now on each request has a task of its own, in which the nested loop
    /// serves too.
    pub(crate) fn expect_reentry(&self) {
        self.is_reentered.store(true, Ordering::Relaxed);
    }

    /// The loop runs inside a handler, which was not expected the first time.
    #[cold]
    pub(crate) fn reenter(&self, py: Python<'_>) {
        if !self.is_reentered.swap(true, Ordering::Relaxed) {
            log_warning(py, REENTERED);
        }
    }

    /// The application has set a factory of tasks, or asyncio's debug mode.
    pub(crate) fn tasks_changed(&self) {
        self.tasks_asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes when [`Exchanges::tasks_changed`] is called.
    #[inline]
    pub(crate) fn tasks_asked(&self) -> u32 {
        self.tasks_asked.load(Ordering::Relaxed)
    }

    pub(crate) fn is_reentered(&self) -> bool {
        self.is_reentered.load(Ordering::Relaxed)
    }

    /// The open exchanges. Never held over a call into Python.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<ExchangeId, OpenExchange>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an exchange that outlives its handler's first step. `change` returns what it removes: dropping a Python object may run Python,
    /// which must not happen while the exchanges are locked.
    pub(crate) fn open<T>(&self, id: ExchangeId, change: impl FnOnce(&mut OpenExchange) -> T) -> T {
        let mut exchanges = self.lock();
        change(exchanges.entry(id).or_default())
    }

    /// Makes room in the tables of exchanges and handlers, which cannot be refused memory when they grow. A request is started only while
    /// enough is left, but the interpreter takes a megabyte of that at once for its next small objects.
    ///
    /// # Errors
    /// If there is no memory for it.
    #[cold]
    pub(super) fn make_room(&self) -> Result<(), NoMemory> {
        let lack = |_| NoMemory(ROOM * size_of::<(ExchangeId, OpenExchange)>());
        self.lock().try_reserve(ROOM).map_err(lack)?;
        self.running.reserve(ROOM).map_err(lack)
    }

    /// Like [`Exchanges::open`], for an exchange that is open already.
    pub(crate) fn change<T>(
        &self,
        id: ExchangeId,
        change: impl FnOnce(&mut OpenExchange) -> T,
    ) -> Option<T> {
        let mut exchanges = self.lock();
        exchanges.get_mut(&id).map(change)
    }

    /// Whether the handler of an exchange has not ended.
    pub(crate) fn is_open(&self, id: ExchangeId) -> bool {
        let is_among = self.lock().contains_key(&id);
        is_among || ffi::attached(|py| self.sockets.is_served(py, id))
    }

    /// Whether the client of an exchange is there, as far as is known; None if the exchange is not open.
    pub(crate) fn has_client(&self, py: Python<'_>, id: ExchangeId) -> Option<bool> {
        let has_left = self.lock().get(&id).map(OpenExchange::has_left);
        match has_left {
            Some(has_left) => Some(!has_left),
            None => self.sockets.is_served(py, id).then_some(true),
        }
    }

    /// Removes an exchange of which nothing but its task is known. Returns its state, for the caller to drop.
    pub(crate) fn close_bare(&self, id: ExchangeId) -> Option<OpenExchange> {
        let mut exchanges = self.lock();
        match exchanges.get(&id)?.known_rare() {
            None => exchanges.remove(&id),
            Some(_) => None,
        }
    }

    /// Removes an exchange and returns its state, for the caller to drop.
    pub(crate) fn close(&self, id: ExchangeId) -> Option<OpenExchange> {
        let mut exchanges = self.lock();
        if exchanges.is_empty() {
            return None;
        }
        exchanges.remove(&id)
    }

    /// Removes an exchange and wakes the tasks that still wait for it. If the response is complete, everything has been or will be sent.
    /// Returns the rest of its state.
    pub(crate) fn end(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        is_complete: bool,
    ) -> Option<OpenExchange> {
        let mut ended = self.close(id)?;
        wake_all(py, Some(ended.take_readers()));
        wake_all(py, Some(ended.take_watchers()));
        for writer in ended.take_writers() {
            if is_complete {
                wake(py, &writer);
            } else {
                let _ = self.refuse(py, &writer);
            }
        }
        Some(ended)
    }

    /// The exception that informs a handler of a disconnection.
    pub(crate) fn disconnection(&self, py: Python<'_>) -> PyErr {
        match self.disconnected.bind(py).call0() {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }

    /// An awaitable that returns None at once.
    pub(crate) fn done<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let done = self
            .done
            .get_or_try_init(py, || Ready::with(py, None).map(Bound::unbind))?;
        Ok(done.bind(py).clone())
    }

    /// Creates a future of the loop.
    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(event_loop) = self.event_loop.get(py) else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "the server has no event loop yet",
            ));
        };
        event_loop.bind(py).call_method0("create_future")
    }

    /// A future for an awaitable to yield, done when there may be something to read.
    pub(crate) fn wait_to_read<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.wait_among(py, id, |exchange| &mut exchange.rare().readers)
    }

    /// A future for an awaitable to yield, done when the peer has disconnected or the exchange is over.
    pub(crate) fn wait_to_leave<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.wait_among(py, id, |exchange| &mut exchange.rare().watchers)
    }

    /// A future for an awaitable to yield, added to those that wait for the same event.
    fn wait_among<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
        waiting: fn(&mut OpenExchange) -> &mut Vec<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future(py)?;
        future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
        // Futures of cancelled tasks would accumulate, one for each time that an application checks whether its client is still connected.
        let mut others = self.open(id, |exchange| std::mem::take(waiting(exchange)));
        others.retain(|other| waits(py, other).unwrap_or(false));
        others.push(future.clone().unbind());
        // Checking them may have run Python, which may have added some.
        self.open(id, |exchange| waiting(exchange).append(&mut others));
        Ok(future)
    }

    /// Passes a part of the content to the handler that waits for it, or keeps it until one does. Returns false if there is no memory for
    /// it.
    pub(crate) fn take_content(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        content: &[u8],
        is_last: bool,
    ) -> bool {
        let part = (!content.is_empty()).then(|| ffi::bytes(py, content).map(Bound::unbind));
        let Ok(part) = part.transpose() else {
            return false;
        };
        self.take_part(py, id, part, is_last);
        true
    }

    /// Like [`Exchanges::take_content`], for bytes that belong to Python already.
    pub(crate) fn take_part(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        part: Option<Py<PyBytes>>,
        is_last: bool,
    ) {
        let readers = self.change(id, |exchange| {
            if let Some(part) = part {
                exchange.rare().content.push_back(part);
            }
            exchange.content_ended |= is_last;
            exchange.take_readers()
        });
        // The part stays here until a task takes it: one that waits may be cancelled before it resumes.
        wake_all(py, readers);
    }

    /// Whether the application has started a response of which nothing was posted.
    pub(crate) fn has_begun(&self, id: ExchangeId) -> bool {
        self.change(id, |exchange| exchange.has_begun) == Some(true)
    }

    /// Whether the task of an exchange whose client has left has not started a response.
    pub(crate) fn owes_response(&self, id: ExchangeId) -> bool {
        let owes = |open: &mut OpenExchange| {
            open.is_disconnected && open.task.is_some() && !open.has_begun && !open.is_streamed
        };
        self.change(id, owes) == Some(true)
    }

    /// The peer has ended its sending side: wakes the tasks that wait for its messages, to check again.
    pub(crate) fn peer_ended(&self, py: Python<'_>, id: ExchangeId) {
        let readers = self.change(id, |exchange| {
            exchange.peer_ended = true;
            exchange.take_readers()
        });
        wake_all(py, readers);
        self.notify_departure(py, id);
    }

    /// If the peer has disconnected, wakes tasks that wait for that, and cancels a task that only sends a streamed response: its iterator
    /// may wait forever for something of its own.
    pub(crate) fn notify_departure(&self, py: Python<'_>, id: ExchangeId) {
        let notified = self.change(id, |exchange| {
            if !exchange.has_left() {
                return None;
            }
            let task = exchange.take_stream(py);
            Some((exchange.take_watchers(), task))
        });
        let Some((watchers, task)) = notified.flatten() else {
            return;
        };
        wake_all(py, Some(watchers));
        if let Some(task) = task
            && let Err(error) = task.call_method0(py, "cancel")
        {
            error.write_unraisable(py, Some(task.bind(py)));
        }
    }

    /// Wakes the tasks that wait for messages, to check again.
    pub(crate) fn wake_readers(&self, py: Python<'_>, id: ExchangeId) {
        let readers = self.change(id, OpenExchange::take_readers);
        wake_all(py, readers);
    }

    /// Raises the disconnection in a task that waits to send. Returns false if it no longer waits.
    pub(super) fn refuse(&self, py: Python<'_>, writer: &Py<PyAny>) -> PyResult<bool> {
        fail(py, writer, || self.disconnection(py))
    }
}

/// Raises an exception in a task that waits for a future. Returns false if it no longer waits.
pub(super) fn fail(
    py: Python<'_>,
    future: &Py<PyAny>,
    exception: impl FnOnce() -> PyErr,
) -> PyResult<bool> {
    let waits = waits(py, future)?;
    if waits {
        future.call_method1(py, "set_exception", (exception(),))?;
    }
    Ok(waits)
}

fn waits(py: Python<'_>, future: &Py<PyAny>) -> PyResult<bool> {
    Ok(!future.call_method0(py, "done")?.is_truthy(py)?)
}

pub(super) fn wake_all(py: Python<'_>, futures: Option<Vec<Py<PyAny>>>) {
    for future in futures.into_iter().flatten() {
        wake(py, &future);
    }
}

/// Completes a future. Returns false if no task waits for it any more.
pub(super) fn wake(py: Python<'_>, future: &Py<PyAny>) -> bool {
    let wake = || -> PyResult<bool> {
        let waits = waits(py, future)?;
        if waits {
            future.call_method1(py, "set_result", (py.None(),))?;
        }
        Ok(waits)
    };
    wake().unwrap_or(false)
}
