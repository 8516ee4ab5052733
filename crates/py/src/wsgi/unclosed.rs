//! An answer that is complete with its first block, before the application has said so.
//!
//! Most frameworks return an iterator around one block whose length they have announced. PEP 3333 wants the block sent before the next is
//! asked for, and `close` called when all is done: so the answer is sent at once, and the rest of the call follows.

use wire::RequestHead;

use super::blocks::{Blocks, KeptBlocks};
use super::log;
use crate::driver::ends_task;
use crate::ffi;
use crate::runner::Runner;

/// The iterable of the answer that is being sent.
#[derive(Default)]
pub(super) struct Unclosed {
    blocks: Option<KeptBlocks>,
    /// Method and path as they were received, for the log.
    title: Vec<u8>,
}

impl Unclosed {
    pub(super) fn keep(&mut self, head: &RequestHead<'_>, blocks: Blocks<'_>) {
        self.title.clear();
        for part in [head.method_name, b" ", head.path] {
            self.title.extend_from_slice(part);
        }
        self.blocks = Some(blocks.keep());
    }

    /// Whether a call has not ended.
    pub(super) fn is_kept(&self) -> bool {
        self.blocks.is_some()
    }

    /// Ends the call, which is still in its context.
    pub(super) fn end(&mut self, runner: &mut Runner) {
        let Some(kept) = self.blocks.take() else {
            return;
        };
        let py = ffi::attached();
        let mut blocks = Blocks::bind(py, &kept);
        // Of a file, what lies behind the announced length is not asked for.
        let rest = if kept.is_file {
            Ok(None)
        } else {
            blocks.next()
        };
        match rest {
            Ok(None) => {}
            Ok(Some(_)) => log::wrong_length(py, &self.title(), false),
            Err(error) if ends_task(py, &error) => runner.keep_fatal(py, error),
            Err(error) => log::raised(py, &self.title(), &error),
        }
        blocks.close();
        runner.call_ends(py);
    }

    fn title(&self) -> String {
        self.title.escape_ascii().to_string()
    }
}
