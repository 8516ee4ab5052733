//! The response for an application that failed before it started one.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use server::{Content, Fields, Outcome, Request, Responder};

/// The media type of text.
pub(crate) const TEXT: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";

/// Refuses a request for which there was no memory before the application was called. Returns false for any other error.
#[cold]
pub(crate) fn refuse_for_memory(
    py: Python<'_>,
    error: &PyErr,
    request: &Request<'_>,
    responder: &mut Responder,
) -> bool {
    let lacks_memory = error.is_instance_of::<PyMemoryError>(py) && !responder.has_responded();
    if lacks_memory {
        responder.refuse_for_memory(match request.content {
            Content::Whole(content) => content.len(),
            Content::Later => 0,
        });
    }
    lacks_memory
}

/// Responds with 500, unless the application has responded already.
#[cold]
pub(crate) fn fail(responder: &mut Responder) -> Outcome {
    if !responder.has_responded() {
        let fields = Fields::constant(TEXT);
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Responded
}
