//! What applications may do with topics, and a notice for those that use them in one of several workers: other workers' WebSockets are not
//! reached.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use net::memory::NoMemory;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::run::log::log_warning;
use crate::run::memory;

/// The longest name of a topic.
const NAME_BYTES_MAX: usize = 256;

const NOTICE: &str = "topics belong to one worker: app.publish() reaches only the WebSockets that are connected to the same worker as its \
    caller, and there are several; docs/guide/websocket.md shows how to join them with Redis, and --workers 1 needs nothing";

/// The rules of topics in this worker.
pub(crate) struct TopicRules {
    /// So many may one WebSocket subscribe to.
    count_max: u64,
    /// The notice is due. Logged once for each worker.
    is_due: AtomicBool,
}

impl TopicRules {
    pub(crate) fn new(count_max: u64) -> TopicRules {
        TopicRules {
            count_max,
            is_due: AtomicBool::new(false),
        }
    }

    /// The worker is one of several.
    pub(crate) fn expect_notice(&self) {
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
            log_warning(py, NOTICE);
        }
    }
}

/// Checks the name of a topic.
///
/// # Errors
/// `ValueError` if it is too long.
pub(crate) fn check_topic(name: &[u8]) -> PyResult<()> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(PyValueError::new_err(format!(
            "the name of a topic has at most {NAME_BYTES_MAX} bytes of UTF-8, not {bytes}"
        ))),
    }
}

/// The topics that one WebSocket subscribes to. Without any it holds no memory.
#[derive(Default)]
pub(super) struct Subscribed {
    #[allow(
        clippy::box_collection,
        reason = "most WebSockets have none, and hold 8 bytes instead of 48"
    )]
    names: Option<Box<HashSet<Vec<u8>>>>,
}

impl Subscribed {
    /// Adds a topic. Returns whether it is new.
    ///
    /// # Errors
    /// If it is one too many, or there is no memory for it.
    pub(super) fn add(&mut self, name: &[u8], rules: &TopicRules) -> PyResult<bool> {
        let names = self.names.get_or_insert_default();
        if names.contains(name) {
            return Ok(false);
        }
        let count_max = rules.count_max;
        if names.len() as u64 >= count_max {
            return Err(PyRuntimeError::new_err(format!(
                "this WebSocket subscribes to {count_max} topics, and websocket_topics_max allows no more"
            )));
        }
        let copy = memory::copy(name)?;
        let bytes = size_of::<Vec<u8>>();
        let reserved = names.try_reserve(1).map_err(|_| NoMemory(bytes));
        reserved.map_err(memory::error)?;
        Ok(names.insert(copy))
    }

    /// Removes a topic. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        self.names.as_mut().is_some_and(|names| names.remove(name))
    }
}
