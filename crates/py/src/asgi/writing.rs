//! How the first step writes a response at once.

use pyo3::prelude::*;
use server::Responder;

use super::call::{State, Written};
use super::message::Head;

/// A field section that grew beyond this is not kept for the next request.
const KEPT_BYTES: usize = 4096;

impl State {
    /// Whether the content that was sent has the announced length, if one was announced. If no content may be sent, that length may be that
    /// of another response (RFC 9110 section 8.6).
    pub(super) fn has_its_length(&self) -> bool {
        let is_as_announced = |length| length == self.parts_bytes as u64;
        self.head.response.length.is_none_or(is_as_announced)
            || (self.parts.is_empty() && self.has_no_content())
    }

    /// Writes a part of the content to the responder of the first step, with the head if it is the first. Returns false if the part has to
    /// be kept: something has to be sent before this response, or its framing is unknown until it is complete.
    pub(super) fn write_now(&mut self, responder: &mut Responder, part: &[u8], more: bool) -> bool {
        if self.written == Written::Nothing {
            if !responder.can_send_now() || !self.parts.is_empty() {
                return false;
            }
            let response = &self.head.response;
            if !more && !self.is_streamed {
                let is_as_announced = |length| length == part.len() as u64;
                let is_whole = response.length.is_none_or(is_as_announced);
                if !(is_whole || part.is_empty() && self.has_no_content()) {
                    return false;
                }
                self.write_whole(responder, part);
                self.written = Written::Whole;
                self.parts_bytes += part.len();
                return true;
            }
            if !responder.sends_content(response.status) {
                return false;
            }
            responder.begin(response.status, self.head.fields(), response.length);
            self.written = Written::Begun;
        }
        responder.push_part(part);
        self.parts_bytes += part.len();
        if !more && responder.finish() {
            self.written = Written::Whole;
        }
        true
    }

    /// Writes a response that was sent in one part.
    pub(super) fn write_whole(&mut self, responder: &mut Responder, content: &[u8]) {
        let (response, fields) = (&self.head.response, self.head.fields());
        if self.has_no_content() {
            // Content that was sent nevertheless has the length that the content would have.
            let sent = (!content.is_empty()).then_some(content.len() as u64);
            responder.begin(response.status, fields, response.length.or(sent));
        } else {
            responder.respond(response.status, fields, content);
        }
        self.limit_kept();
    }

    /// Writes a complete response.
    pub(super) fn write(&mut self, py: Python<'_>, responder: &mut Responder) {
        let (response, fields) = (&self.head.response, self.head.fields());
        if self.is_streamed {
            if responder.begin(response.status, fields, response.length) {
                for part in &self.parts {
                    responder.push_part(part.as_bytes(py));
                }
                responder.finish();
            }
        } else if self.has_no_content() {
            // Content that was sent nevertheless has the length that the content would have.
            let sent = (!self.parts.is_empty()).then_some(self.parts_bytes as u64);
            responder.begin(response.status, fields, response.length.or(sent));
        } else {
            let content = self.parts.first().map(|part| part.as_bytes(py));
            responder.respond(response.status, fields, content.unwrap_or_default());
        }
        self.parts.clear();
        self.limit_kept();
    }

    /// Keeps no long field section for the next request.
    #[inline]
    pub(super) fn limit_kept(&mut self) {
        if self.head.response.fields.capacity() > KEPT_BYTES {
            self.head = Head::default();
            self.known.forget();
        }
    }
}
