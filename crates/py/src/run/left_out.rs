//! Fields that applications set although only the server may ([`wire::connection_field`]).
//!
//! The rule is the same for every interface. Such a field is left out of the response, the rest is sent as the application set it, and the
//! log reports it once for each application and field. Many applications set `Connection: keep-alive`, which other servers drop too. An ASGI
//! application's subprotocol that its client does not offer is left out in the same way.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use pyo3::prelude::*;
use wire::CONNECTION_FIELDS;

use crate::run::log::{log_left_out, log_left_out_subprotocol};

/// The fields that one application has set and that have been logged.
#[derive(Default)]
pub(crate) struct LeftOut {
    fields: AtomicU8,
    has_subprotocol: AtomicBool,
}

/// Fields of one response, by index.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ours(u8);

const _: () = assert!(CONNECTION_FIELDS.len() <= u8::BITS as usize);

impl Ours {
    /// Whether only the server may set a field; if so, it is recorded.
    #[inline]
    pub(crate) fn takes(&mut self, field_name: &[u8]) -> bool {
        let place = wire::connection_field(field_name);
        if let Some(place) = place {
            self.0 |= 1 << place;
        }
        place.is_some()
    }
}

impl LeftOut {
    pub(crate) const fn new() -> LeftOut {
        LeftOut {
            fields: AtomicU8::new(0),
            has_subprotocol: AtomicBool::new(false),
        }
    }

    /// Fields have been left out of a response: warns of new ones. Runs Python if there are any.
    #[inline]
    pub(crate) fn note(&self, py: Python<'_>, fields: Ours) {
        if fields.0 != 0 {
            self.note_now(py, fields);
        }
    }

    /// A subprotocol has been left out of the acceptance of a WebSocket: warns of the first one. Runs Python then.
    #[cold]
    pub(crate) fn note_subprotocol(&self, py: Python<'_>, name: &str) {
        if !self.has_subprotocol.swap(true, Ordering::Relaxed) {
            log_left_out_subprotocol(py, name);
        }
    }

    #[cold]
    fn note_now(&self, py: Python<'_>, fields: Ours) {
        let known = self.fields.fetch_or(fields.0, Ordering::Relaxed);
        for (place, name) in CONNECTION_FIELDS.iter().enumerate() {
            if fields.0 & !known & (1 << place) != 0 {
                log_left_out(py, name);
            }
        }
    }
}
