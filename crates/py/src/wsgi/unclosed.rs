//! A response that is complete with its first block, before the application has finished.
//!
//! Most frameworks return an iterator over one block whose length they have announced. PEP 3333 requires that the block is sent before the
//! next one is requested, or meanwhile by another thread, and that `close` is called at the end. So the response is sent at once, and the
//! rest of the call follows. While other requests of the same pass wait, the response is sent with theirs, which costs less. If the rest
//! of the call takes long, the flusher sends it, as soon as the interpreter lets it run, and the next ones do not wait.

use std::sync::Arc;

use pyo3::prelude::*;
use server::{Head, Responder};

use super::blocks::{Blocks, KeptBlocks};
use super::inline::ends_process;
use super::log;
use crate::ffi;
use crate::run::log::push_title;
use crate::run::runner::Runner;

/// The iterable of the response that is being sent.
pub(super) struct Unclosed {
    blocks: Option<KeptBlocks>,
    /// Method and path as received, for the log.
    title: Vec<u8>,
    errors: Arc<log::ErrorLines>,
}

impl Unclosed {
    pub(super) fn new(errors: Arc<log::ErrorLines>) -> Unclosed {
        Unclosed {
            blocks: None,
            title: Vec::new(),
            errors,
        }
    }

    pub(super) fn keep(&mut self, head: Head<'_>, blocks: Blocks<'_>) {
        self.title.clear();
        push_title(&mut self.title, head);
        self.blocks = Some(blocks.keep());
    }

    /// Whether a call has not ended yet.
    pub(super) fn is_kept(&self) -> bool {
        self.blocks.is_some()
    }

    /// Ends the call, which is still in its context.
    pub(super) fn end(&mut self, runner: &mut Runner, responder: &mut Responder) {
        let Some(kept) = self.blocks.take() else {
            return;
        };
        ffi::attached(|py| {
            let exchanges = Arc::clone(&runner.exchanges);
            exchanges.lend_unnamed(py, responder, || self.end_now(py, &kept, runner));
        });
    }

    fn end_now(&self, py: Python<'_>, kept: &KeptBlocks, runner: &mut Runner) {
        let blocks = Blocks::bind(py, kept);
        match blocks.rest() {
            Ok(None) => {}
            Ok(Some(_)) => log::wrong_length(py, &self.title(), false),
            Err(error) if ends_process(py, &error) => runner.keep_fatal(py, error),
            Err(error) => log::raised(py, &self.title(), &error),
        }
        blocks.close(|| self.title());
        runner.call_ends(py);
        self.errors.call_ended(py);
    }

    fn title(&self) -> String {
        self.title.escape_ascii().to_string()
    }
}
