//! The state that one thread of the pool and the reactor share about the current request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use net::memory::append;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use server::{Command, ExchangeId, OwnedHead, Response, SlowRequests};

use super::call::over;
use super::outbox::Outbox;
use super::pool::Job;
use super::reports::Reports;
use super::spool::{Spool, Spooling, Writer};
use crate::run::exchanges::{AHEAD_BYTES, Exchanges};

/// One thread's connection to the reactor. The thread waits in it, detached from the interpreter; the reactor only ever changes its state.
///
/// Threads that the application has started may write and read too, and may still do so when the request has ended: code that was detached
/// checks whether the state is still that of its request.
pub(super) struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    outbox: Arc<Outbox>,
    exchanges: Arc<Exchanges>,
    spooling: Arc<Spooling>,
    reports: Arc<Reports>,
    /// How long the current request has waited, if that is to be logged.
    waited_ms: AtomicU32,
}

#[derive(Default)]
struct State {
    /// The current request.
    id: Option<ExchangeId>,
    /// Its head, for the log.
    head: Option<OwnedHead>,
    /// Its client has disconnected, or got a response from the server.
    is_gone: bool,
    /// Its response has no content.
    is_discarding: bool,
    /// The client has ended its sending side.
    has_peer_ended: bool,
    /// Number of bytes written since the client last had everything.
    ahead_bytes: usize,
    /// Content that has arrived and was not taken.
    content: Vec<u8>,
    has_content_ended: bool,
    /// The thread waits until the client has read.
    waits_for_client: bool,
    /// Another request needs the thread: what the client does not read is spooled.
    is_urged: bool,
    /// Holds all that the client has not read after what was posted before it.
    spool: Option<Spool>,
    /// Nothing more can be spooled: the thread has to wait for the client.
    is_spool_full: bool,
    /// Number of threads that wait, whatever their requests.
    waiting: usize,
}

/// Where a part of the response goes.
enum Way {
    /// The client has disconnected, or the request is over.
    Nowhere,
    /// To the reactor.
    Direct,
    /// To the spool file, after what it contains.
    Spooled(Writer),
}

impl State {
    /// Whether what is written is dropped. A client that ended its sending side may still wait for a response, but not for content that is
    /// discarded.
    fn is_over(&self) -> bool {
        self.is_gone || (self.is_discarding && self.has_peer_ended)
    }

    fn way_of(&self, id: ExchangeId) -> Way {
        match &self.spool {
            _ if self.is_over() || self.id != Some(id) => Way::Nowhere,
            Some(spool) => Way::Spooled(spool.writer()),
            None => Way::Direct,
        }
    }
}

impl Lane {
    pub(super) fn new(
        outbox: Arc<Outbox>,
        exchanges: Arc<Exchanges>,
        spooling: Arc<Spooling>,
        reports: Arc<Reports>,
    ) -> Lane {
        Lane {
            spooling,
            reports,
            state: Mutex::default(),
            changed: Condvar::new(),
            outbox,
            exchanges,
            waited_ms: AtomicU32::new(0),
        }
    }

    /// Where slow requests are watched, if they are.
    pub(super) fn slow(&self) -> Option<Arc<SlowRequests>> {
        self.exchanges.slow.clone()
    }

    /// The thread takes a request.
    pub(super) fn takes(&self, job: &Job) {
        if self.exchanges.notes_waits() {
            let waited_ms = u32::try_from(job.waited().as_millis()).unwrap_or(u32::MAX);
            self.waited_ms.store(waited_ms, Ordering::Relaxed);
        }
    }

    /// A request starts.
    pub(super) fn begin(&self, id: ExchangeId, head: &OwnedHead, has_peer_ended: bool) {
        let mut state = self.state();
        *state = State {
            id: Some(id),
            head: Some(head.clone()),
            has_peer_ended,
            waiting: state.waiting,
            ..State::default()
        };
    }

    /// The thread has finished the request: others that write or read for it stop.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.id = None;
        state.spool = None;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its client has disconnected.
    pub(super) fn is_gone(&self) -> bool {
        self.state().is_over()
    }

    pub(super) fn post(&self, id: ExchangeId, mut command: Command) {
        if self.exchanges.notes_waits()
            && let Command::Respond(response)
            | Command::Begin(response)
            | Command::BeginOpen(response) = &mut command
        {
            response.waited_ms = self.waited_ms.load(Ordering::Relaxed);
        }
        self.outbox.post(id, command);
    }

    /// Makes sure that what was posted is sent now.
    pub(super) fn notify(&self) {
        self.outbox.notify();
    }

    /// Sends the head of a response whose content, if it has any, follows.
    pub(super) fn begin_response(&self, id: ExchangeId, response: Response, has_content: bool) {
        self.state().is_discarding = !has_content;
        self.post(id, Command::BeginOpen(response));
    }

    /// Sends a part of the response. Waits while the client is too far behind, unless another request needs this thread.
    ///
    /// # Errors
    /// The disconnection, when the client has disconnected; `RuntimeError` when the request has ended.
    pub(super) fn write(&self, py: Python<'_>, id: ExchangeId, part: Vec<u8>) -> PyResult<()> {
        let way = self.state().way_of(id);
        let is_open = match way {
            Way::Nowhere => false,
            Way::Direct => match self.post_part(id, part) {
                Some(true) => py.detach(|| self.wait_for_client(id)),
                posted => posted.is_some(),
            },
            Way::Spooled(writer) => py.detach(|| self.spool(id, &writer, part)),
        };
        match is_open {
            true => Ok(()),
            false if self.is_current(id) => Err(self.exchanges.disconnection(py)),
            false => Err(over()),
        }
    }

    /// Whether its thread has a request.
    pub(super) fn is_busy(&self) -> bool {
        self.state().id.is_some()
    }

    /// Whether it has one that nobody waits for.
    pub(super) fn is_abandoned(&self) -> bool {
        let state = self.state();
        state.id.is_some() && state.is_over()
    }

    /// Whether it represents this request.
    pub(super) fn is_current(&self, id: ExchangeId) -> bool {
        self.state().id == Some(id)
    }

    /// Posts a part. Returns whether the client is too far behind now, or `None` if the request has ended.
    fn post_part(&self, id: ExchangeId, part: Vec<u8>) -> Option<bool> {
        let is_far_ahead = {
            let mut state = self.state();
            if state.id != Some(id) {
                return None;
            }
            state.ahead_bytes += part.len();
            state.ahead_bytes >= AHEAD_BYTES
        };
        if !part.is_empty() {
            self.post(id, Command::Write(part));
        }
        self.outbox.notify();
        Some(is_far_ahead)
    }

    /// Waits until the client has read everything or, if another request needs this thread, opens a spool file. Returns false if the client
    /// has disconnected, or the request has ended.
    fn wait_for_client(&self, id: ExchangeId) -> bool {
        loop {
            let mut state = self.wait_while(id, |state| {
                state.waits_for_client = true;
                let is_spooled = state.is_urged && !state.is_spool_full;
                !state.is_gone && state.ahead_bytes >= AHEAD_BYTES && !is_spooled
            });
            if state.id != Some(id) {
                return false;
            }
            state.waits_for_client = false;
            if state.is_gone || state.ahead_bytes < AHEAD_BYTES {
                return !state.is_gone;
            }
            drop(state);
            let spool = self.spooling.begin(&self.reports);
            let mut state = self.state();
            if state.id == Some(id) && state.ahead_bytes >= AHEAD_BYTES {
                state.is_spool_full = spool.is_none();
                state.spool = spool;
                if state.spool.is_some() {
                    return true;
                }
            }
        }
    }

    /// Writes a part to the spool file. Waits until the client has read everything if the file is full. Returns false if the client has
    /// disconnected, or the request has ended.
    fn spool(&self, id: ExchangeId, writer: &Writer, part: Vec<u8>) -> bool {
        let is_written = self.spooling.write(writer, &part, &self.reports);
        let mut state = self.state();
        if state.id != Some(id) {
            return false;
        }
        if let (true, Some(spool)) = (is_written, &mut state.spool) {
            // As long as there is a spool file, the client has not read everything, and `writable` posts this part.
            spool.wrote(part.len());
            return !state.is_over();
        }
        state.is_spool_full = !is_written;
        drop(state);
        let is_gone = self
            .wait_while(id, |state| !state.is_gone && state.spool.is_some())
            .is_gone;
        if is_gone {
            return false;
        }
        match self.post_part(id, part) {
            Some(true) => self.wait_for_client(id),
            posted => posted.is_some(),
        }
    }

    /// Posts what is in the spool file and was not posted. The caller holds the lock, so the parts stay in order.
    fn post_spooled(&self, state: &mut State, id: ExchangeId) {
        if let Some(part) = state.spool.as_mut().and_then(Spool::take_unposted) {
            state.ahead_bytes = usize::try_from(part.length).unwrap_or(usize::MAX);
            self.outbox.post(id, Command::WriteFile(part));
        }
    }

    /// Posts the rest of the spool file, because something else follows.
    pub(super) fn end_spool(&self, id: ExchangeId) {
        let mut state = self.state();
        self.post_spooled(&mut state, id);
        state.spool = None;
    }

    /// Notifies a thread that only waits for its client that another request needs it, so that it spools. Returns false if it does not wait,
    /// or was notified before.
    pub(super) fn urge(&self) -> bool {
        let mut state = self.state();
        let may_spool = state.id.is_some() && state.waits_for_client && !state.is_spool_full;
        if !may_spool || state.is_urged {
            return false;
        }
        state.is_urged = true;
        self.changed.notify_all();
        true
    }

    /// Waits for a part of the content; `None` at the end.
    ///
    /// # Errors
    /// The disconnection, when the rest will not arrive; `RuntimeError` when the request has ended.
    pub(super) fn read(&self, py: Python<'_>, id: ExchangeId) -> PyResult<Option<Vec<u8>>> {
        {
            let state = self.state();
            if state.id != Some(id) {
                return Err(read_over());
            }
            if state.has_content_ended {
                return Ok(None);
            }
        }
        self.post(id, Command::Read);
        self.outbox.notify();
        let part = py.detach(|| {
            let waits = |state: &mut State| {
                !state.is_gone && !state.has_content_ended && state.content.is_empty()
            };
            let mut state = self.wait_while(id, waits);
            if state.id != Some(id) {
                return None;
            }
            let part = std::mem::take(&mut state.content);
            match (part.is_empty(), state.has_content_ended) {
                (false, _) => Some(Some(part)),
                (true, true) => Some(None),
                (true, false) => None,
            }
        });
        part.ok_or_else(|| match self.is_current(id) {
            true => self.exchanges.disconnection(py),
            false => read_over(),
        })
    }

    /// Waits as long as `waits` returns true and the request has not ended. Afterwards the state may be that of another request.
    fn wait_while(
        &self,
        id: ExchangeId,
        mut waits: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.waiting += 1;
        let waits = |state: &mut State| state.id == Some(id) && waits(state);
        let waited = self.changed.wait_while(state, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Changes the state of a request, if it is the current one.
    fn change(&self, id: ExchangeId, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let is_it = state.id == Some(id);
        if is_it {
            change(&mut state);
            self.changed.notify_all();
        }
        is_it
    }

    /// A part of the content has arrived. Returns `Some(false)` if there is no memory for it, and `None` if the request is not the current
    /// one.
    pub(super) fn take_content(&self, id: ExchangeId, part: &[u8], is_last: bool) -> Option<bool> {
        let mut is_taken = None;
        self.change(id, |state| {
            let is_kept = append(&mut state.content, part).is_ok();
            state.has_content_ended |= is_last && is_kept;
            is_taken = Some(is_kept);
        });
        is_taken
    }

    /// The client has everything.
    pub(super) fn writable(&self, id: ExchangeId) -> bool {
        self.change(id, |state| {
            state.ahead_bytes = 0;
            self.post_spooled(state, id);
            if state.ahead_bytes == 0 {
                // The whole file was sent.
                state.spool = None;
                state.is_spool_full = false;
                state.is_urged = false;
            }
        })
    }

    /// The client has ended its sending side.
    pub(super) fn peer_ended(&self, id: ExchangeId) -> bool {
        self.change(id, |state| state.has_peer_ended = true)
    }

    /// The head of a request, if it is the current one.
    pub(super) fn head_of(&self, id: ExchangeId) -> Option<OwnedHead> {
        let state = self.state();
        state.head.clone().filter(|_| state.id == Some(id))
    }

    /// The client has disconnected, or got a response from the server.
    pub(super) fn abort(&self, id: ExchangeId) -> bool {
        self.change(id, |state| state.is_gone = true)
    }
}

fn read_over() -> PyErr {
    PyRuntimeError::new_err("this request is over: its content cannot be read any more")
}
