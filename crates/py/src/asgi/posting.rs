//! Responses that go through the mailbox: those that take longer than the first step, and those that use extensions.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::{Command, Response};

use super::call::{AsgiCall, Progress, Written};
use crate::run::awaitable::LoopTurn;
use crate::run::memory::copy;
use crate::run::writing::part_command;

impl AsgiCall {
    /// Ends direct writing: posts what was kept; everything else is posted too from now on.
    pub(super) fn leave_first_step(&self, py: Python<'_>) -> PyResult<()> {
        let kept = self.with(py, |state| {
            if !std::mem::replace(&mut state.is_direct, false) {
                return None;
            }
            let has_begun = !matches!(state.progress, Progress::Nothing | Progress::Started)
                && state.written == Written::Nothing;
            let response = has_begun.then(|| state.take_response());
            let parts = std::mem::take(&mut state.parts);
            Some((
                response,
                parts,
                state.parts_bytes,
                state.progress,
                state.written,
            ))
        })?;
        let Some((response, parts, ahead_bytes, progress, written)) = kept else {
            return Ok(());
        };
        self.open(py, |open| open.ahead_bytes = ahead_bytes)?;
        match (response, written) {
            (Some(response), _) => self.begin(py, response)?,
            (None, Written::Begun) => {}
            (None, _) => return Ok(()),
        }
        for part in parts {
            // If it is lost, the rest must not be sent as if nothing were missing.
            let command = part_command(part.bind(py)).inspect_err(|_| self.fail(py))?;
            self.post(py, command)?;
        }
        match progress {
            Progress::Complete => self.post(py, Command::Finish),
            _ => Ok(()),
        }
    }

    /// Returns the acceptance of a posted message. Output that is posted during a call is sent when the call has ended, so then the call
    /// ends here: the awaitable suspends for one iteration of the loop.
    pub(super) fn posted<'py>(
        &self,
        py: Python<'py>,
        acceptance: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match acceptance {
            None if self.exchanges().is_in_call() => LoopTurn::awaitable(py).map(Some),
            acceptance => Ok(acceptance),
        }
    }

    pub(super) fn post(&self, py: Python<'_>, command: Command) -> PyResult<()> {
        self.exchanges().post(py, self.id(py)?, command);
        Ok(())
    }

    fn begin(&self, py: Python<'_>, response: Response) -> PyResult<()> {
        // What the application still sends for a response without content is discarded.
        let is_head = self.with(py, |state| state.is_head)?;
        if is_head || !wire::may_generate_content(response.status) {
            self.open(py, |open| open.is_discarding = true)?;
        }
        self.post(py, Command::Begin(response))
    }

    /// Sends a part of the content.
    pub(super) fn post_body<'py>(
        &self,
        py: Python<'py>,
        part: &Bound<'py, PyBytes>,
        is_first: bool,
        more: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if is_first && self.post_whole(py, part.as_bytes())? {
            return Ok(None);
        }
        let id = self.id(py)?;
        let is_discarded = self.exchanges().change(id, |open| open.is_discarding) == Some(true);
        if more && is_discarded {
            // Nothing else would make an application wait that sends without end.
            return LoopTurn::awaitable(py).map(Some);
        }
        if more {
            return self.exchanges().write(py, id, part).map(Some);
        }
        if !part.as_bytes().is_empty() && !is_discarded {
            self.post(py, part_command(part)?)?;
        }
        self.content_ends(py)?;
        Ok(None)
    }

    /// Sends the head, together with the content if that is complete. Returns false if more has to be posted.
    fn post_whole(&self, py: Python<'_>, part: &[u8]) -> PyResult<bool> {
        let (response, is_whole) = self.with(py, |state| {
            let mut response = state.take_response();
            let length = part.len() as u64;
            let is_last = state.progress == Progress::Complete;
            let is_headed = state.is_head || !wire::may_generate_content(response.status);
            if is_headed && is_last && length > 0 {
                // The content that was sent has the length that the content would have.
                response.length = response.length.or(Some(length));
            }
            let is_whole = is_last
                && !is_headed
                && response.length.is_none_or(|announced| announced == length);
            (response, is_whole)
        })?;
        if !is_whole {
            self.begin(py, response)?;
            return Ok(false);
        }
        let content = copy(part)?;
        let whole = Response {
            content,
            ..response
        };
        self.post(py, Command::Respond(whole))?;
        self.wake_readers(py)?;
        Ok(true)
    }

    /// A part of the content, or all of it, comes from elsewhere. Returns false if none may be sent.
    pub(super) fn content_comes(&self, py: Python<'_>, more: bool, bytes: u64) -> PyResult<bool> {
        let length = (!more).then_some(bytes);
        if self.with(py, |state| state.advance(more, bytes))?? == Progress::Started {
            let response = self.with(py, |state| {
                let mut response = state.take_response();
                if !state.head.has_trailers {
                    response.length = response.length.or(length);
                }
                response
            })?;
            self.begin(py, response)?;
        }
        let id = self.id(py)?;
        Ok(self.exchanges().change(id, |open| open.is_discarding) != Some(true))
    }

    /// If the last of the content was sent, the response is complete, unless a trailer section follows.
    pub(super) fn content_ends(&self, py: Python<'_>) -> PyResult<()> {
        if self.progress(py)? == Progress::Complete {
            self.post(py, Command::Finish)?;
            self.wake_readers(py)?;
        }
        Ok(())
    }

    /// Adds to the trailer section, which is sent only to a client that accepts it (RFC 9110 section 6.5.1).
    pub(super) fn push_trailers(
        &self,
        py: Python<'_>,
        lines: &[u8],
        is_last: bool,
    ) -> PyResult<()> {
        let trailers = self.with(py, |state| {
            if state.accepts_trailers {
                state.trailers.extend_from_slice(lines);
            }
            if is_last {
                state.progress = Progress::Complete;
            }
            is_last.then(|| std::mem::take(&mut state.trailers))
        })?;
        if let Some(trailers) = trailers {
            self.post(py, Command::FinishWith(trailers))?;
            self.wake_readers(py)?;
        }
        Ok(())
    }
}
