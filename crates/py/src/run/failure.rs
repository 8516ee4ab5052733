//! The response for an application that failed before it started one.

use server::{Fields, Outcome, Responder};

/// The media type of text.
pub(crate) const TEXT: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";

/// Responds with 500, unless the application has responded already.
#[cold]
pub(crate) fn fail(responder: &mut Responder) -> Outcome {
    if !responder.has_responded() {
        let fields = Fields::constant(TEXT);
        responder.respond(500, fields, b"500 Internal Server Error\n");
    }
    Outcome::Responded
}
