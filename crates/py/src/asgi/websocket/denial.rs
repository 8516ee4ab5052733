//! A response to the handshake that is not the handshake's own.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use server::{Command, Response};

use super::super::message::{Head, Start, bytes_of};
use super::call::SocketCall;
use super::message::given;
use crate::run::memory::copy;
use crate::run::websocket::Phase;

/// What has been sent of it.
#[derive(Default)]
pub(super) enum Denial {
    #[default]
    Nothing,
    /// The start.
    Started(Box<Response>),
    /// A part of the content, and more follows.
    Streaming,
    Complete,
}

impl SocketCall {
    pub(super) fn is_denial_complete(&self, py: Python<'_>) -> bool {
        let check = |denial: &mut Denial| matches!(denial, Denial::Complete);
        self.denial.with(py, check).unwrap_or(true)
    }

    /// Responds to the handshake with a status and no content, or truncates the response that the application has not completed.
    pub(super) fn complete_handshake(&self, py: Python<'_>, status: u16) {
        let exchanges = &self.socket.exchanges;
        let before = self.denial.with(py, std::mem::take).unwrap_or_default();
        let is_streaming = matches!(before, Denial::Streaming);
        let _ = self.denial.with(py, |denial| *denial = Denial::Complete);
        if is_streaming {
            return exchanges.post(py, self.socket.id, Command::Fail);
        }
        if self.socket.phase(py) == Phase::Offered
            && let Err(error) = self.socket.refuse(py)
        {
            error.write_unraisable(py, None);
        }
        let refusal = Response {
            status,
            ..Response::default()
        };
        exchanges.post(py, self.socket.id, Command::Respond(refusal));
    }

    /// Takes `websocket.http.response.start`.
    pub(super) fn start_denial(&self, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = message.py();
        let start = Start {
            status: given(message, "status")?,
            headers: given(message, "headers")?,
            trailers: None,
        };
        let mut head = Head::default();
        start.read(&mut head)?;
        self.socket.exchanges.left_out.note(py, head.ours);
        self.socket.refuse(py)?;
        self.denial.reach(py, |denial| {
            *denial = Denial::Started(Box::new(head.response))
        })
    }

    /// Takes `websocket.http.response.body`.
    pub(super) fn denial_body<'py>(
        &self,
        message: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = message.py();
        let body = given(message, "body")?.map(bytes_of).transpose()?;
        let part = body.unwrap_or_else(|| PyBytes::new(py, b""));
        let more = match given(message, "more_body")? {
            Some(more) => more.is_truthy()?,
            None => false,
        };
        let next = match more {
            true => Denial::Streaming,
            false => Denial::Complete,
        };
        // If there is no memory for it, nothing has changed.
        let last = match more {
            true => Vec::new(),
            false => copy(part.as_bytes())?,
        };
        let before = self
            .denial
            .reach(py, |denial| std::mem::replace(denial, next))?;
        let (exchanges, id) = (&self.socket.exchanges, self.socket.id);
        match before {
            Denial::Started(response) if !more => {
                let whole = Response {
                    content: last,
                    ..*response
                };
                exchanges.post(py, id, Command::Respond(whole));
                return Ok(None);
            }
            Denial::Started(response) => {
                exchanges.post(py, id, Command::Begin(*response));
            }
            Denial::Streaming => {}
            before @ (Denial::Nothing | Denial::Complete) => {
                self.denial.reach(py, |denial| *denial = before)?;
                return Err(PyRuntimeError::new_err(
                    "send(): websocket.http.response.body follows websocket.http.response.start, until more_body is false",
                ));
            }
        }
        if more {
            return exchanges.write(py, id, &part).map(Some);
        }
        if !last.is_empty() {
            exchanges.post(py, id, Command::Write(last));
        }
        exchanges.post(py, id, Command::Finish);
        Ok(None)
    }
}
