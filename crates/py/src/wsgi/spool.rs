//! Temporary files for responses that their clients do not read.
//!
//! A thread of the pool waits if its client does not read. If another request needs a thread meanwhile, the waiting thread spools: it writes
//! the rest of its response to a file without a name, from which the reactor sends it, and is free as soon as the application has returned.
//! Nothing is spooled while a thread is free.
//!
//! No region of a file is written twice, because the kernel may still be sending from it. A file that has been sent entirely is closed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use server::{FilePart, Limits};

use super::reports::Reports;

/// At most one of so many descriptors of the process is a spool file.
const DESCRIPTORS_PER_FILE: u64 = 8;

/// The spool files of a worker.
pub(super) struct Spooling {
    /// `None` if nothing is spooled.
    directory: Option<Arc<Path>>,
    bytes_max: u64,
    total_bytes_max: u64,
    /// Open files and the bytes in each, including those of requests that their threads have finished.
    files: Mutex<Vec<(Weak<File>, Arc<AtomicU64>)>>,
    has_failed: AtomicBool,
}

/// The spool file of one response.
pub(super) struct Spool {
    file: Arc<File>,
    bytes: Arc<AtomicU64>,
    written: u64,
    posted: u64,
}

/// What a thread needs to write to its spool file without holding the lock of its lane.
pub(super) struct Writer {
    file: Arc<File>,
    bytes: Arc<AtomicU64>,
    offset: u64,
}

impl Spooling {
    pub(super) fn new(directory: Option<Arc<Path>>, limits: &Limits) -> Spooling {
        Spooling {
            directory,
            bytes_max: limits.spool_bytes_max,
            total_bytes_max: limits.spool_total_bytes_max,
            files: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.directory.is_some()
    }

    fn files(&self) -> MutexGuard<'_, Vec<(Weak<File>, Arc<AtomicU64>)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file. Returns `None` if too many are open, or if it fails, which is reported.
    pub(super) fn begin(&self, reports: &Reports) -> Option<Spool> {
        let directory = self.directory.as_ref()?;
        let mut files = self.files();
        files.retain(|(file, _)| file.strong_count() > 0);
        if files.len() as u64 >= net::descriptors_max() / DESCRIPTORS_PER_FILE {
            return None;
        }
        let opened = net::temporary_file(directory);
        let file = opened.map_err(|error| self.failed(&error, reports)).ok()?;
        let (file, bytes) = (Arc::new(file), Arc::new(AtomicU64::new(0)));
        files.push((Arc::downgrade(&file), Arc::clone(&bytes)));
        Some(Spool {
            file,
            bytes,
            written: 0,
            posted: 0,
        })
    }

    /// Writes a part to the end of a file. Returns false if that would exceed a limit, or if it fails, which is reported.
    pub(super) fn write(&self, writer: &Writer, part: &[u8], reports: &Reports) -> bool {
        let length = part.len() as u64;
        let is_within = writer.offset.saturating_add(length) <= self.bytes_max;
        if !is_within || !self.reserve(writer, length) {
            return false;
        }
        let written = writer.file.write_all_at(part, writer.offset);
        written
            .map_err(|error| self.failed(&error, reports))
            .is_ok()
    }

    /// Counts bytes that are to be written, if they are within the limit of all files.
    fn reserve(&self, writer: &Writer, more: u64) -> bool {
        let files = self.files();
        let open = files.iter().filter(|(file, _)| file.strong_count() > 0);
        let total: u64 = open.map(|(_, bytes)| bytes.load(Ordering::Relaxed)).sum();
        let is_within = total.saturating_add(more) <= self.total_bytes_max;
        if is_within {
            writer.bytes.fetch_add(more, Ordering::Relaxed);
        }
        is_within
    }

    fn failed(&self, error: &io::Error, reports: &Reports) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            let directory = self.directory.as_deref().unwrap_or(Path::new(""));
            let text = format!(
                "cannot write responses to temporary files in {} ({error}): threads wait for clients that do not read (spool_directory; reported once)",
                directory.to_string_lossy().escape_debug(),
            );
            reports.add(|counts| counts.spool_failure = Some(text));
        }
    }
}

impl Spool {
    pub(super) fn writer(&self) -> Writer {
        Writer {
            file: Arc::clone(&self.file),
            bytes: Arc::clone(&self.bytes),
            offset: self.written,
        }
    }

    /// Records that so many bytes were written to the end of the file.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Takes the part that was written and not posted; `None` if everything was posted.
    pub(super) fn take_unposted(&mut self) -> Option<FilePart> {
        let length = self.written - self.posted;
        let part = FilePart {
            file: Arc::clone(&self.file),
            offset: self.posted,
            length,
        };
        self.posted = self.written;
        (length > 0).then_some(part)
    }
}
