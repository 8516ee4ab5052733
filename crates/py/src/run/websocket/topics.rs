//! A notice for applications that use topics in one of several workers: other workers' WebSockets are not reached.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::run::log::log_notice;

const NOTICE: &str = "topics belong to one worker: app.publish() reaches only the WebSockets that are connected to the same worker as its \
    caller, and there are several; docs/guide/websocket.md shows how to join them with Redis, and --workers 1 needs nothing";

/// Whether the notice is due. Logged once for each worker.
#[derive(Default)]
pub(crate) struct TopicsNotice {
    is_due: AtomicBool,
}

impl TopicsNotice {
    /// The worker is one of several.
    pub(crate) fn expect(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// The application publishes or subscribes.
    #[inline]
    pub(crate) fn note(&self, py: Python<'_>) {
        if self.is_due.load(Ordering::Relaxed) {
            self.log(py);
        }
    }

    #[cold]
    fn log(&self, py: Python<'_>) {
        if self.is_due.swap(false, Ordering::Relaxed) {
            log_notice(py, NOTICE);
        }
    }
}
