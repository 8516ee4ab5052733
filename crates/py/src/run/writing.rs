//! How a streamed response waits for its peer.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyBytes};
use server::{Command, ExchangeId, HeldPart, Responder};

use super::awaitable::{LoopTurn, Writing};
use super::exchanges::{Exchanges, STREAM_AHEAD_BYTES, wake_all};
use super::memory::copy;

/// A part of at least this length is posted as it is, and copied once, to where it is sent from; or not at all, if TLS can encrypt it from
/// where it is (bench: tls-http2, stream).
const HELD_BYTES_MIN: usize = 16 * 1024;

/// A part in Python's memory.
#[derive(Debug)]
struct HeldBytes(Py<PyBytes>);

impl HeldPart for HeldBytes {
    fn bytes(&self) -> &[u8] {
        // The reactor's thread has the interpreter when it executes what tasks have posted.
        Python::attach(|py| self.0.as_bytes(py))
    }
}

/// The command to send a part.
///
/// # Errors
/// `MemoryError`.
pub(crate) fn part_command(part: &Bound<'_, PyBytes>) -> PyResult<Command> {
    let content = part.as_bytes();
    Ok(match content.len() >= HELD_BYTES_MIN {
        true => Command::WriteHeld(Box::new(HeldBytes(part.clone().unbind()))),
        false => Command::Write(copy(content)?),
    })
}

impl Exchanges {
    /// Sends a part of a streamed response; the awaitable is done when a bounded buffer has accepted it.
    pub(crate) fn write<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
        part: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let content = part.as_bytes();
        let ahead_bytes = self.change(id, |exchange| {
            exchange.ahead_bytes += content.len();
            (!exchange.is_disconnected).then_some(exchange.ahead_bytes)
        });
        let Some(ahead_bytes) = ahead_bytes.flatten() else {
            return Err(self.disconnection(py));
        };
        let write =
            |responder: &mut Responder| responder.is_open().then(|| responder.push_part(content));
        let is_written = self.write_in_call(py, id, write).flatten().is_some();
        if !is_written && !content.is_empty() {
            self.post(py, id, part_command(part)?);
        }
        if ahead_bytes > STREAM_AHEAD_BYTES {
            return self.wait_to_write(py, id);
        }
        match self.is_in_call() && !is_written {
            true => LoopTurn::awaitable(py),
            false => self.done(py),
        }
    }

    /// An awaitable that is done when everything that was written has been sent.
    pub(crate) fn wait_to_write<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_on_other_thread() {
            return self.wait_on_other_thread(py, id);
        }
        let future = self.create_future(py)?;
        let writer = future.clone().unbind();
        self.change(id, |exchange| exchange.rare().writers.push(writer));
        Writing::of(py, future)
    }

    /// The same for a coroutine in another thread's loop. This loop's thread cannot complete a future of that one, so it completes a
    /// `concurrent.futures.Future`, for which the coroutine waits.
    #[cold]
    fn wait_on_other_thread<'py>(
        &self,
        py: Python<'py>,
        id: ExchangeId,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asyncio = py.import("asyncio")?;
        let event_loop = asyncio.call_method0("get_running_loop")?;
        let future = py.import("concurrent.futures")?.call_method0("Future")?;
        let options = [("loop", event_loop)].into_py_dict(py)?;
        let awaited = asyncio.call_method("wrap_future", (&future,), Some(&options))?;
        let writer = future.clone().unbind();
        // The loop's thread may have sent everything since the part was posted, or have noticed that the peer is gone.
        let waits = self.change(id, |exchange| {
            let waits = exchange.ahead_bytes > 0 && !exchange.is_disconnected;
            if waits {
                exchange.rare().writers.push(writer);
            }
            (waits, exchange.is_disconnected)
        });
        match waits {
            Some((true, _)) => Writing::of(py, awaited),
            Some((false, false)) => self.done(py),
            Some((false, true)) | None => Err(self.disconnection(py)),
        }
    }

    /// The peer has everything: wakes a handler that waits for that.
    pub(crate) fn writable(&self, py: Python<'_>, id: ExchangeId) {
        let writers = self.change(id, |exchange| {
            exchange.ahead_bytes = 0;
            exchange.take_writers()
        });
        wake_all(py, writers);
    }
}
