//! What the application, its requests and its tasks share: the mailbox, the loop, and the exchanges that are not answered yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use server::{Command, ExchangeId, Mailbox};

use crate::calls::parts::AnswerParts;
use crate::request::Request;
use crate::stream::{Ready, Writing};

/// Bytes that a streamed answer may be ahead of its peer.
pub(crate) const STREAM_AHEAD_BYTES: usize = 65_536;
/// How many exceptions back the reason of one is looked for.
const EXCEPTION_CHAIN_MAX: usize = 16;

/// An exchange whose handler has not ended.
#[derive(Default)]
pub(crate) struct OpenExchange {
    /// The task that runs the handler.
    pub(crate) task: Option<Py<PyAny>>,
    /// What the server pulls the answer from.
    pub(crate) parts: Option<AnswerParts>,
    /// The request, to tell of in a log.
    pub(crate) request: Option<Py<Request>>,
    /// Content that arrived and was not fetched.
    pub(crate) content: VecDeque<Py<PyBytes>>,
    pub(crate) content_ended: bool,
    /// The futures of those who wait for content, or for the end.
    pub(crate) readers: Vec<Py<PyAny>>,
    /// The futures of those who wait until the answer has left.
    pub(crate) writers: Vec<Py<PyAny>>,
    /// The task sends a streamed answer, and has nothing else to do.
    pub(crate) is_streamed: bool,
    /// Bytes written since the peer had everything.
    pub(crate) ahead_bytes: usize,
    /// The peer is gone.
    pub(crate) is_disconnected: bool,
    /// The peer sends no more.
    pub(crate) peer_ended: bool,
    /// The answer has no content: what the application still sends goes nowhere.
    pub(crate) is_discarding: bool,
}

/// One per server.
pub(crate) struct Shared {
    mailbox: Arc<Mailbox>,
    /// The exception that tells a handler that its peer is gone.
    disconnected: Py<PyAny>,
    exchanges: Mutex<HashMap<ExchangeId, OpenExchange>>,
    pub(crate) event_loop: PyOnceLock<Py<PyAny>>,
    /// Wakes a reactor that does not own the loop; `None` where every turn of the loop passes through the reactor anyway.
    wake: Mutex<Option<Py<PyAny>>>,
    wake_is_due: AtomicBool,
    done: PyOnceLock<Py<PyAny>>,
}

impl Shared {
    pub(crate) fn new(mailbox: Arc<Mailbox>, disconnected: Py<PyAny>) -> Shared {
        Shared {
            mailbox,
            disconnected,
            exchanges: Mutex::default(),
            event_loop: PyOnceLock::new(),
            wake: Mutex::default(),
            wake_is_due: AtomicBool::new(false),
            done: PyOnceLock::new(),
        }
    }

    /// Posts a command, and sees to it that the reactor looks into its mailbox.
    pub(crate) fn post(&self, py: Python<'_>, id: ExchangeId, command: Command) {
        self.mailbox.post(id, command);
        if self.wake_is_due.load(Ordering::Relaxed) {
            return;
        }
        let wake = self.wake().as_ref().map(|wake| wake.clone_ref(py));
        let Some((wake, event_loop)) = wake.zip(self.event_loop.get(py)) else {
            return;
        };
        // A loop that is closed will send nothing any more.
        let is_due = event_loop.call_method1(py, "call_soon", (wake,)).is_ok();
        self.wake_is_due.store(is_due, Ordering::Relaxed);
    }

    /// The mailbox, for threads that need no interpreter to post.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    fn wake(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the loop is not the reactor's own.
    pub(crate) fn is_guest(&self) -> bool {
        self.wake().is_some()
    }

    /// Sets what wakes the reactor, and gives what did before.
    pub(crate) fn set_wake(&self, wake: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        std::mem::replace(&mut self.wake(), wake)
    }

    /// A pass begins: the next post needs a wake of its own.
    pub(crate) fn pass_begins(&self) {
        self.wake_is_due.store(false, Ordering::Relaxed);
    }

    /// The open exchanges. Never held over a call into Python.
    pub(crate) fn exchanges(&self) -> MutexGuard<'_, HashMap<ExchangeId, OpenExchange>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// An exchange that stays open beyond its handler's first step. `change` gives back what it took out: dropping a Python object
    /// may run Python, which must not happen while the exchanges are held.
    pub(crate) fn open<T>(&self, id: ExchangeId, change: impl FnOnce(&mut OpenExchange) -> T) -> T {
        let mut exchanges = self.exchanges();
        change(exchanges.entry(id).or_default())
    }

    /// As [`Shared::open`], for one that is open already.
    pub(crate) fn change<T>(
        &self,
        id: ExchangeId,
        change: impl FnOnce(&mut OpenExchange) -> T,
    ) -> Option<T> {
        let mut exchanges = self.exchanges();
        exchanges.get_mut(&id).map(change)
    }

    /// Forgets an exchange and gives what was known of it, to be dropped by the caller.
    pub(crate) fn close(&self, id: ExchangeId) -> Option<OpenExchange> {
        let mut exchanges = self.exchanges();
        if exchanges.is_empty() {
            return None;
        }
        exchanges.remove(&id)
    }

    /// Forgets an exchange, and lets those go on who still wait for it. What was to be sent has left or will, if the answer is complete.
    pub(crate) fn end(&self, py: Python<'_>, id: ExchangeId, is_complete: bool) {
        let Some(mut ended) = self.close(id) else {
            return;
        };
        wake_all(py, Some(std::mem::take(&mut ended.readers)));
        for writer in std::mem::take(&mut ended.writers) {
            if is_complete {
                wake(py, &writer);
            } else {
                let _ = self.refuse(py, &writer);
            }
        }
    }

    /// Whether an exception is the one that tells a handler of its peer's end.
    pub(crate) fn is_disconnection(&self, py: Python<'_>, error: &PyErr) -> bool {
        error.matches(py, &self.disconnected).unwrap_or(false)
    }

    /// Whether an exception is that one, or stands for it: one that a framework raises in its place, or a group of such.
    pub(crate) fn stems_from_disconnection(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.stems(py, error, EXCEPTION_CHAIN_MAX).unwrap_or(false)
    }

    fn stems(&self, py: Python<'_>, error: &PyErr, depth_left: usize) -> PyResult<bool> {
        if self.is_disconnection(py, error) {
            return Ok(true);
        }
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Ok(false);
        };
        let value = error.value(py);
        if let Ok(members) = value.getattr("exceptions").and_then(|all| all.try_iter()) {
            let mut count = 0;
            for member in members.take(EXCEPTION_CHAIN_MAX) {
                count += 1;
                if !self.stems(py, &PyErr::from_value(member?), depth_left)? {
                    return Ok(false);
                }
            }
            return Ok(count > 0);
        }
        if let Some(cause) = error.cause(py) {
            return self.stems(py, &cause, depth_left);
        }
        // Raised while that one was handled: the framework's word for it if its name says so, a failure of its own otherwise.
        let context = value.getattr("__context__")?;
        let is_word_for_it = value
            .get_type()
            .name()?
            .to_string_lossy()
            .contains("Disconnect");
        if context.is_none() || !is_word_for_it {
            return Ok(false);
        }
        self.stems(py, &PyErr::from_value(context), depth_left)
    }

    /// The exception that tells a handler of its peer's end.
    pub(crate) fn disconnection(&self, py: Python<'_>) -> PyErr {
        match self.disconnected.bind(py).call0() {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }

    /// An awaitable that gives None at once.
    pub(crate) fn done<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let done = self
            .done
            .get_or_try_init(py, || Ready::with(py, None).map(Bound::unbind))?;
        Ok(done.bind(py).clone())
    }

    /// A future of the loop.
    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(event_loop) = self.event_loop.get(py) else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "the server has no event loop yet",
            ));
        };
        event_loop.bind(py).call_method0("create_future")
    }

    /// A future for an awaitable to give out, done when there may be something to read.
    pub(crate) fn wait_to_read<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future(py)?;
        future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
        let reader = future.clone().unbind();
        self.open(id, |exchange| exchange.readers.push(reader));
        Ok(future)
    }

    /// A part of the content goes to the handler that waits for it, or is kept until one does.
    pub(crate) fn take_content(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        content: &[u8],
        is_last: bool,
    ) {
        let part = (!content.is_empty()).then(|| PyBytes::new(py, content).unbind());
        self.take_part(py, id, part, is_last);
    }

    /// As [`Shared::take_content`], of bytes that are Python's already.
    pub(crate) fn take_part(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        part: Option<Py<PyBytes>>,
        is_last: bool,
    ) {
        let readers = self.change(id, |exchange| {
            exchange.content.extend(part);
            exchange.content_ended |= is_last;
            std::mem::take(&mut exchange.readers)
        });
        // The part stays here until somebody takes it: who waits may be cancelled before it goes on.
        wake_all(py, readers);
    }

    /// The peer ended its sending side: whoever waits for its messages looks again.
    pub(crate) fn peer_ended(&self, py: Python<'_>, id: ExchangeId) {
        let readers = self.change(id, |exchange| {
            exchange.peer_ended = true;
            std::mem::take(&mut exchange.readers)
        });
        wake_all(py, readers);
    }

    /// Whoever waits for messages looks again.
    pub(crate) fn wake_readers(&self, py: Python<'_>, id: ExchangeId) {
        let readers = self.change(id, |exchange| std::mem::take(&mut exchange.readers));
        wake_all(py, readers);
    }

    /// Sends a part of a streamed answer; the awaitable is done when it is accepted into a bounded buffer.
    pub(crate) fn write<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
        part: Vec<u8>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ahead_bytes = self.change(id, |exchange| {
            exchange.ahead_bytes += part.len();
            (!exchange.is_disconnected).then_some(exchange.ahead_bytes)
        });
        let Some(ahead_bytes) = ahead_bytes.flatten() else {
            return Err(self.disconnection(py));
        };
        if !part.is_empty() {
            self.post(py, id, Command::Write(part));
        }
        if ahead_bytes <= STREAM_AHEAD_BYTES {
            return self.done(py);
        }
        self.wait_to_write(py, id)
    }

    /// An awaitable that is done when everything that was written has left.
    pub(crate) fn wait_to_write<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future(py)?;
        let writer = future.clone().unbind();
        self.change(id, |exchange| exchange.writers.push(writer));
        Writing::of(py, future)
    }

    /// The peer has everything: a handler that waits for that goes on.
    pub(crate) fn writable(&self, py: Python<'_>, id: ExchangeId) {
        let writers = self.change(id, |exchange| {
            exchange.ahead_bytes = 0;
            std::mem::take(&mut exchange.writers)
        });
        wake_all(py, writers);
    }

    /// Tells whoever waits to send that the peer is gone. False when nobody waits any more.
    fn refuse(&self, py: Python<'_>, writer: &Py<PyAny>) -> PyResult<bool> {
        let waits = waits(py, writer)?;
        if waits {
            let exception = self.disconnected.call0(py)?;
            writer.call_method1(py, "set_exception", (exception,))?;
        }
        Ok(waits)
    }

    /// The peer is gone: whoever waits for it is told.
    pub(crate) fn disconnect(&self, py: Python<'_>, id: ExchangeId) {
        let (readers, writers, parts, task) = {
            let mut exchanges = self.exchanges();
            let Some(exchange) = exchanges.get_mut(&id) else {
                return;
            };
            exchange.is_disconnected = true;
            let task = exchange.task.as_ref().filter(|_| exchange.is_streamed);
            let task = task.map(|task| task.clone_ref(py));
            (
                std::mem::take(&mut exchange.readers),
                std::mem::take(&mut exchange.writers),
                exchange.parts.take(),
                task,
            )
        };
        let mut is_told = false;
        for reader in readers {
            // It looks again, and finds that the peer is gone.
            is_told |= wake(py, &reader);
        }
        for writer in writers {
            is_told |= self.refuse(py, &writer).unwrap_or(false);
        }
        if let Some(parts) = parts {
            self.close(id);
            parts.close(py);
        }
        // An asynchronous iterator that waits for something of its own may wait for ever.
        if let (Some(task), false) = (task, is_told)
            && let Err(error) = task.call_method0(py, "cancel")
        {
            error.write_unraisable(py, Some(task.bind(py)));
        }
    }
}

fn waits(py: Python<'_>, future: &Py<PyAny>) -> PyResult<bool> {
    Ok(!future.call_method0(py, "done")?.is_truthy(py)?)
}

fn wake_all(py: Python<'_>, futures: Option<Vec<Py<PyAny>>>) {
    for future in futures.into_iter().flatten() {
        wake(py, &future);
    }
}

/// Lets whoever waits for a future go on. False when nobody waits any more.
fn wake(py: Python<'_>, future: &Py<PyAny>) -> bool {
    let wake = || -> PyResult<bool> {
        let waits = waits(py, future)?;
        if waits {
            future.call_method1(py, "set_result", (py.None(),))?;
        }
        Ok(waits)
    };
    wake().unwrap_or(false)
}
