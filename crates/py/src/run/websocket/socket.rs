//! One WebSocket: its phase, the messages that wait for the application, and the tasks that wait for messages.
//!
//! ```text
//!          | accept | refuse  | send    | close   | message | the server says that it is over
//! ---------+--------+---------+---------+---------+---------+---------------------------------
//! Offered  | Open   | Refused | error   | error   | -       | Ended
//! Refused  | error  | error   | error   | error   | -       | Ended
//! Open     | error  | error   | sent    | Closing | kept    | Ended
//! Closing  | error  | error   | error   | error   | dropped | Ended
//! Ended    | gone   | nothing | gone    | nothing | -       | Ended
//! ```
//!
//! `error` is the application's mistake, `gone` the exception that reports that the peer has left.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use server::{Appetite, Close, CloseCode, Command, ExchangeId, MessageKind, Opening, Responder};

use super::arrival::Arrival;
use super::departed::Departed;
use super::end::End;
use super::queue::Queue;
use super::rare::Rare;
use super::topics::{Subscribed, check_topic};
use crate::ffi::reuse::OurReferences;
use crate::ffi::{self, GilCell};
use crate::run::asyncio::Lending;
use crate::run::exchanges::{AHEAD_BYTES, Exchanges, OpenExchange, fail, wake};
use crate::run::memory;

/// Messages that wait for the application before the peer has to wait. Those of one read are passed on before the application runs, so
/// this has to be more than arrive in one read from a client that sends small messages together.
const WAITING_MESSAGES_MAX: usize = 1024;
/// The same for their bytes: some reads.
const WAITING_BYTES_MAX: usize = 65_536;

/// What may happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The application has not responded to the handshake.
    Offered,
    /// It has responded with something else.
    Refused,
    Open,
    /// The application has closed it, or has ended.
    Closing,
    /// The peer has left before the application responded to the handshake. The server waits for the handler to end, as long as it may take
    /// to respond.
    Withdrawn,
    Ended,
}

/// What [`Socket::take`] found.
pub(super) enum Taken {
    Message(Py<PyAny>),
    Ended(End),
    /// The offer of a handshake, for an interface that reports it.
    Offer,
    /// Nothing yet.
    Nothing,
    /// A message, or the end once more, but others have their turn first.
    Later,
}

/// A task in `receive()`: an [`Arrival`], or a future of the loop.
struct Waiter(Py<PyAny>);

/// A number of bytes, as far as it matters here: more than that is as much.
#[inline]
fn counted(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// One WebSocket.
pub(crate) struct Socket {
    pub(crate) id: ExchangeId,
    pub(crate) exchanges: Arc<Exchanges>,
    state: GilCell<State, Marks>,
}

#[derive(Clone, Copy)]
struct Marks {
    phase: Phase,
    /// The interface reports the offer as the first thing that arrives.
    reports_offer: bool,
    /// What waits to be sent fails with the end, and not as for every other client that has left.
    raises_end: bool,
    /// The end was reported to the application.
    is_end_reported: bool,
    /// The server waits until the queue is empty.
    is_paused: bool,
    /// Its handler has not ended.
    is_served: bool,
}

#[derive(Default)]
struct State {
    arrived: Queue<Py<PyAny>>,
    /// Bytes that have arrived since the queue was last empty.
    arrived_bytes: u32,
    /// Bytes sent since the peer last had everything.
    ahead_bytes: u32,
    waiters: Queue<Waiter>,
    /// An arrival that may be waited for next: one that no task has, or the one of the task that is being resumed.
    spare: Option<Py<Arrival>>,
    rare: Option<Box<Rare>>,
}

/// The references to an arrival that no task holds: the spare one, and that of the caller.
const OF_LAST_ARRIVAL: OurReferences = OurReferences::of(2);

impl Socket {
    /// One whose handshake the application has not responded to. An interface of events `reports_offer`; another one raises exceptions with
    /// code and reason.
    pub(crate) fn new(
        py: Python<'_>,
        exchanges: &Arc<Exchanges>,
        id: ExchangeId,
        reports_offer: bool,
    ) -> PyResult<Arc<Socket>> {
        let marks = Marks {
            phase: Phase::Offered,
            reports_offer,
            raises_end: !reports_offer,
            is_end_reported: false,
            is_paused: false,
            is_served: true,
        };
        let socket = Arc::new(Socket {
            id,
            exchanges: Arc::clone(exchanges),
            state: GilCell::beside(marks, State::default()),
        });
        exchanges.sockets.add(py, &socket)?;
        Ok(socket)
    }

    fn with<R>(&self, py: Python<'_>, reach: impl FnOnce(&mut State) -> R) -> PyResult<R> {
        self.state.reach(py, reach)
    }

    #[inline]
    fn mark(&self, py: Python<'_>, change: impl FnOnce(&mut Marks)) {
        let mut marks = self.state.small(py);
        change(&mut marks);
        self.state.set_small(py, marks);
    }

    #[inline]
    pub(crate) fn phase(&self, py: Python<'_>) -> Phase {
        self.state.small(py).phase
    }

    /// Whether its handler has not ended.
    pub(super) fn is_served(&self, py: Python<'_>) -> bool {
        self.state.small(py).is_served
    }

    /// How it ended; None if it has not.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<Option<End>> {
        self.with(py, |state| state.end().cloned())
    }

    /// What the application has closed it with; None if it has not.
    pub(crate) fn closing(&self, py: Python<'_>) -> PyResult<Option<End>> {
        self.with(py, |state| state.rare.as_ref()?.closing.clone())
    }

    /// Accepts the handshake.
    ///
    /// # Errors
    /// If the application has responded before, or the peer has left.
    pub(crate) fn accept(&self, py: Python<'_>, opening: Opening) -> PyResult<()> {
        self.leave_offer(py, Phase::Open)?;
        self.exchanges.post(py, self.id, Command::Open(opening));
        // While it is open, it is among these sockets, and nothing else has to be known of it.
        drop(self.exchanges.close_bare(self.id));
        Ok(())
    }

    /// The application responds to the handshake in another way.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub(crate) fn refuse(&self, py: Python<'_>) -> PyResult<()> {
        self.leave_offer(py, Phase::Refused)?;
        drop(self.exchanges.sockets.remove(py, self.id));
        self.with(py, |state| {
            state.rare().end.get_or_insert_with(End::abnormal);
        })?;
        self.wake(py, None)
    }

    fn leave_offer(&self, py: Python<'_>, next: Phase) -> PyResult<()> {
        match self.phase(py) {
            Phase::Offered => {
                self.mark(py, |marks| marks.phase = next);
                Ok(())
            }
            Phase::Withdrawn | Phase::Ended => Err(self.exchanges.disconnection(py)),
            _ => Err(PyRuntimeError::new_err(
                "the handshake of this WebSocket has its response already",
            )),
        }
    }

    /// Sends a message. Returns an awaitable of its acceptance, unless it is accepted at once.
    ///
    /// # Errors
    /// If it is not open, or there is no memory.
    #[inline]
    pub(crate) fn send<'py>(
        &self,
        py: Python<'py>,
        kind: MessageKind,
        content: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let phase = self.phase(py);
        if phase != Phase::Open {
            return Err(self.not_open(py, phase));
        }
        let bytes = counted(content.len());
        let ahead_bytes = self.with(py, |state| {
            state.ahead_bytes = state.ahead_bytes.saturating_add(bytes);
            state.ahead_bytes as usize
        })?;
        let waits = ahead_bytes > AHEAD_BYTES;
        if waits {
            self.set_ahead(ahead_bytes);
        }
        let send = |responder: &mut Responder| responder.send_message(kind, content);
        let written = match self.exchanges.has_output() {
            false => self.exchanges.write_in_call(py, self.id, send),
            true => None,
        };
        let sent = match written {
            Some(written) => written.map_err(memory::error),
            None => self.exchanges.post_message(py, self.id, kind, content),
        };
        if let Err(error) = sent {
            let left = self.with(py, |state| {
                state.ahead_bytes = state.ahead_bytes.saturating_sub(bytes);
                state.ahead_bytes as usize
            })?;
            if waits {
                self.set_ahead(left);
            }
            return Err(error);
        }
        match waits {
            true => self.exchanges.wait_to_write(py, self.id).map(Some),
            false => Ok(None),
        }
    }

    /// Notes that a task will wait until so many bytes have left. Before they are posted: another thread may have sent them as soon as they
    /// are.
    #[cold]
    fn set_ahead(&self, ahead_bytes: usize) {
        self.exchanges
            .open(self.id, |open| open.ahead_bytes = ahead_bytes);
    }

    /// Everything that was sent has left.
    #[inline]
    pub(crate) fn writable(&self, py: Python<'_>) {
        let waited = self.with(py, |state| {
            std::mem::take(&mut state.ahead_bytes) as usize > AHEAD_BYTES
        });
        if waited.unwrap_or(true) {
            self.exchanges.writable(py, self.id);
        }
    }

    /// Closes it. Does nothing if the peer has left.
    ///
    /// # Errors
    /// If it is not open.
    pub(crate) fn close(&self, py: Python<'_>, code: u16, reason: &str) -> PyResult<()> {
        match self.phase(py) {
            Phase::Open => {
                self.mark(py, |marks| marks.phase = Phase::Closing);
                self.with(py, |state| {
                    state.arrived = Queue::default();
                    state.rare = Some(Rare::closed_with(code, reason));
                })?;
                let close = Command::Close(Close::new(CloseCode(code), reason));
                self.exchanges.post(py, self.id, close);
                self.resume(py)
            }
            Phase::Withdrawn | Phase::Ended => Ok(()),
            phase => Err(self.not_open(py, phase)),
        }
    }

    /// It receives what is published to a topic from now on.
    ///
    /// # Errors
    /// If it is not open, the name is too long, there is one topic too many, or no memory.
    pub(crate) fn subscribe(&self, py: Python<'_>, topic: &[u8]) -> PyResult<()> {
        check_topic(topic)?;
        let name = memory::copy(topic)?;
        let is_new = self.with(py, |state| {
            let subscribed = &mut state.rare().subscribed;
            subscribed.add(topic, &self.exchanges.topics)
        })??;
        if is_new {
            let command = Command::Subscribe(name);
            self.exchanges.post(py, self.id, command);
        }
        self.exchanges.topics.note(py);
        Ok(())
    }

    /// It receives nothing more of a topic.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn unsubscribe(&self, py: Python<'_>, topic: &[u8]) -> PyResult<()> {
        let name = memory::copy(topic)?;
        let remove = |state: &mut State| {
            let rare = state.rare.as_mut();
            rare.is_some_and(|rare| rare.subscribed.remove(topic))
        };
        if self.with(py, remove)? {
            let command = Command::Unsubscribe(name);
            self.exchanges.post(py, self.id, command);
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn not_open(&self, py: Python<'_>, phase: Phase) -> PyErr {
        match phase {
            Phase::Offered => PyRuntimeError::new_err("this WebSocket is not accepted yet"),
            Phase::Refused => PyRuntimeError::new_err("this WebSocket was refused"),
            Phase::Closing => PyRuntimeError::new_err("this WebSocket is closed"),
            Phase::Open | Phase::Withdrawn | Phase::Ended => self.exchanges.disconnection(py),
        }
    }

    /// A message has arrived: keeps it until [`Socket::wake`].
    pub(crate) fn arrives(
        &self,
        py: Python<'_>,
        kind: MessageKind,
        content: &[u8],
    ) -> PyResult<Appetite> {
        let message = match kind {
            MessageKind::Text => ffi::text(py, content)?.into_any().unbind(),
            MessageKind::Binary => ffi::bytes(py, content)?.into_any().unbind(),
        };
        if self.phase(py) != Phase::Open {
            return Ok(Appetite::More);
        }
        let is_full = self.with(py, |state| {
            state.arrived.push(message);
            state.arrived_bytes = state.arrived_bytes.saturating_add(counted(content.len()));
            state.arrived.len() >= WAITING_MESSAGES_MAX
                || state.arrived_bytes as usize >= WAITING_BYTES_MAX
        })?;
        if is_full {
            self.mark(py, |marks| marks.is_paused = true);
        }
        Ok(match self.state.small(py).is_paused {
            true => Appetite::Enough,
            false => Appetite::More,
        })
    }

    /// Takes what arrived first. A task that has waited gets it although others wait for their turn.
    #[inline]
    pub(super) fn take(&self, py: Python<'_>, has_waited: bool) -> PyResult<Taken> {
        let marks = self.state.small(py);
        if marks.reports_offer {
            self.mark(py, |marks| marks.reports_offer = false);
            return Ok(Taken::Offer);
        }
        let is_late = || self.exchanges.turns.is_used() && !has_waited;
        // An application that goes on asking would never leave the pass.
        let is_over = marks.is_end_reported && !has_waited;
        let (taken, resumes) = self.with(py, |state| state.take(is_over, is_late))?;
        if resumes {
            self.resume(py)?;
        }
        if matches!(taken, Taken::Ended(_)) {
            self.mark(py, |marks| marks.is_end_reported = true);
        }
        Ok(taken)
    }

    /// The queue is empty: lets the server read on, if it was stopped.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.arrived_bytes = 0;
            state.arrived.shrink();
            if let Some(rare) = &mut state.rare {
                rare.departed = None;
            }
        })?;
        if self.state.small(py).is_paused {
            self.mark(py, |marks| marks.is_paused = false);
            self.exchanges.post(py, self.id, Command::Read);
        }
        Ok(())
    }

    /// What an awaitable yields until something arrives.
    pub(super) fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.forget_cancelled(py)?;
        if !self.exchanges.wakes_directly() {
            let future = self.exchanges.create_future(py)?;
            future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
            let waiter = Waiter(future.clone().unbind());
            self.with(py, |state| state.waiters.push(waiter))?;
            return Ok(future);
        }
        let arrival = match self.with(py, |state| state.spare.take())? {
            Some(spare) => {
                spare.get().expect_again(py);
                spare
            }
            None => Arrival::new(py, &self.exchanges)?,
        };
        let yielded = arrival.clone_ref(py).into_bound(py).into_any();
        self.with(py, |state| state.waiters.push(Waiter(arrival.into_any())))?;
        Ok(yielded)
    }

    /// What an awaitable yields until others have had their turn.
    #[cold]
    pub(super) fn wait_for_turn<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.exchanges.end_turn(py, self.id);
        self.exchanges.turns.wait(py, &self.exchanges)
    }

    /// Waits of tasks that were cancelled would accumulate.
    fn forget_cancelled(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.with(py, |state| std::mem::take(&mut state.waiters))?;
        if waiters.is_empty() {
            return Ok(());
        }
        let waiters = waiters.filtered(|waiter| waiter.waits(py));
        // Checking them may have run Python, which may have added some.
        self.with(py, |state| state.waiters.prepend(waiters))
    }

    /// Resumes the tasks that wait, as long as there is something for them: at once with `lending`, otherwise in the loop's next iteration.
    ///
    /// # Errors
    /// What ends the process.
    pub(crate) fn wake(&self, py: Python<'_>, lending: Option<&Lending>) -> PyResult<()> {
        while let Some(Waiter(waiter)) = self.with(py, State::next_waiter)? {
            let Ok(arrival) = waiter.bind(py).cast::<Arrival>() else {
                wake(py, &waiter);
                continue;
            };
            // The task may wait for the same one again.
            let again = arrival.clone().unbind();
            let before = self.with(py, |state| state.spare.replace(again))?;
            drop(before);
            Arrival::arrive(arrival, lending)?;
            self.forget_spare(py, arrival.as_unbound())?;
        }
        Ok(())
    }

    /// Keeps the spare arrival only if no task has it, and nobody has cancelled it: that would cancel the task that waits for it next.
    fn forget_spare(&self, py: Python<'_>, last: &Py<Arrival>) -> PyResult<()> {
        let is_cancelled = last.get().cancelled(py);
        let forgotten = self.with(py, |state| {
            let is_last = state.spare.as_ref().is_some_and(|spare| spare.is(last));
            match is_last && (is_cancelled || !OF_LAST_ARRIVAL.are_all(py, last)) {
                true => state.spare.take(),
                false => None,
            }
        })?;
        drop(forgotten);
        Ok(())
    }

    /// The server says that it is over.
    ///
    /// # Errors
    /// What ends the process.
    pub(crate) fn ends(&self, py: Python<'_>, end: End, lending: Option<&Lending>) -> PyResult<()> {
        drop(self.exchanges.sockets.remove(py, self.id));
        self.mark(py, |marks| {
            marks.phase = match marks.phase {
                Phase::Offered => Phase::Withdrawn,
                _ => Phase::Ended,
            };
        });
        let end = self.with(py, |state| {
            let departed = match state.arrived.is_empty() {
                true => None,
                false => Some(Departed::new(&self.exchanges, state.arrived_bytes.into())),
            };
            let rare = state.rare();
            rare.subscribed = Subscribed::default();
            rare.departed = departed;
            rare.end.get_or_insert(end).clone()
        })?;
        let marks = self.state.small(py);
        if marks.is_served {
            // Until its handler ends, it is still one that runs.
            self.exchanges.open(self.id, |_| {});
        }
        match marks.raises_end {
            true => self.fail_writers(py, &end),
            false => self.exchanges.disconnect(py, self.id),
        }
        self.wake(py, lending)
    }

    /// Raises the end in the tasks that wait to send.
    fn fail_writers(&self, py: Python<'_>, end: &End) {
        let writers = self.exchanges.change(self.id, OpenExchange::take_writers);
        self.exchanges.disconnect(py, self.id);
        for writer in writers.into_iter().flatten() {
            if let Err(error) = fail(py, &writer, || end.exception(py)) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// The application has ended: closes what it left open.
    pub(crate) fn handler_ends(&self, py: Python<'_>, code: CloseCode) {
        let closed = match self.phase(py) {
            Phase::Open => self.close(py, code.0, ""),
            // Nothing happens if the connection has ended too.
            Phase::Withdrawn => {
                self.exchanges.post(py, self.id, Command::Fail);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = closed {
            error.write_unraisable(py, None);
        }
        self.mark(py, |marks| marks.is_served = false);
        self.exchanges.end(py, self.id, true);
    }
}

impl State {
    #[inline]
    fn take(&mut self, is_over: bool, is_late: impl FnOnce() -> bool) -> (Taken, bool) {
        if !self.arrived.is_empty() && is_late() {
            return (Taken::Later, false);
        }
        match (self.arrived.pop(), self.end()) {
            (Some(message), _) => (Taken::Message(message), self.arrived.is_empty()),
            (None, Some(_)) if is_over => (Taken::Later, false),
            (None, Some(end)) => (Taken::Ended(end.clone()), false),
            (None, None) => (Taken::Nothing, false),
        }
    }

    #[inline]
    fn end(&self) -> Option<&End> {
        self.rare.as_ref()?.end.as_ref()
    }

    /// What an idle WebSocket does not have, created if necessary.
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn next_waiter(&mut self) -> Option<Waiter> {
        let has_news = !self.arrived.is_empty() || self.end().is_some();
        match has_news {
            true => self.waiters.pop(),
            false => None,
        }
    }
}

impl Waiter {
    fn waits(&self, py: Python<'_>) -> bool {
        if let Ok(arrival) = self.0.bind(py).cast::<Arrival>() {
            return arrival.get().is_pending(py);
        }
        let is_done = self.0.call_method0(py, pyo3::intern!(py, "done"));
        is_done
            .and_then(|is_done| is_done.is_truthy(py))
            .is_ok_and(|is_done| !is_done)
    }
}
