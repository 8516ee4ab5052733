//! The access log: lines are formatted on the reactor's thread and written by a separate one.
//!
//! A log that cannot be written (a full pipe, a slow disk) never blocks the reactor. Its queue is bounded, lines that do not fit are
//! dropped and counted, and the count is logged when there is room again. Lines that cannot be written (a full disk) are counted too.

mod format;
mod line;
mod loss;
mod record;
mod selection;
mod start;
mod writer;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use net::{Peer, Poller, TlsDetails};

use self::line::Now;
use self::loss::{Loss, Losses};
use self::selection::Draws;
use self::writer::{Work, write_blocks};
use crate::app::head::Head;

pub use self::format::{FormatError, LogFormat};
pub(crate) use self::record::{Began, LogRecord};
pub use self::selection::Selection;

/// The status of a request whose client disconnected before the response. It is not an HTTP status; nginx uses it.
pub(crate) const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Bytes of lines that are collected while the writer has no room for them, but for the last line.
const BLOCK_BYTES: usize = 65_536;

/// In which file the log continues.
enum Next {
    Same,
    /// In this one, after `block`.
    AfterBlock(File),
    /// In this one: everything before it is queued.
    Other(File),
}

/// The reactor's side of the log.
pub struct AccessLog {
    format: LogFormat,
    draws: Draws,
    /// The process that writes these lines.
    worker: u32,
    block: Vec<u8>,
    dropped: u64,
    /// All that were dropped, whether this has been reported or not.
    dropped_total: u64,
    /// What the writing thread could not write.
    losses: Arc<Losses>,
    next: Next,
    queue: Option<Sender<Work<File>>>,
    finished: Receiver<()>,
}

impl AccessLog {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// When the thread cannot be started, or there is no descriptor left.
    pub fn new(file: File, format: LogFormat, selection: Selection) -> io::Result<AccessLog> {
        let (queue, blocks) = channel::<Work<File>>();
        let (done, finished) = channel();
        let losses = Arc::new(Losses::new()?);
        let (form, written) = (format.form.clone(), Arc::clone(&losses));
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || {
                write_blocks(file, &blocks, &form, &*written);
                // There is no receiver if the log was dropped without waiting.
                let _ = done.send(());
            })?;
        Ok(AccessLog {
            format,
            draws: Draws::new(selection, net::precise_ns() ^ u64::from(std::process::id())),
            worker: std::process::id(),
            block: Vec::new(),
            dropped: 0,
            dropped_total: 0,
            losses,
            next: Next::Same,
            queue: Some(queue),
            finished,
        })
    }

    /// Lets reports end the waits of `poller`.
    ///
    /// # Errors
    /// If the system's limit of watches is reached.
    pub(crate) fn watch(&self, poller: &Poller) -> io::Result<()> {
        self.losses.watch(poller)
    }

    /// How many lines are missing: the log is slower than the requests, or could not be written.
    pub(crate) fn missing_lines(&self) -> u64 {
        self.dropped_total + self.losses.lines()
    }

    /// Lines for the server's log about what could not be written.
    pub(crate) fn take_reports(&self) -> Vec<String> {
        self.losses.take_reports()
    }

    /// Whether requests are timed with a precise clock.
    pub(crate) fn is_precise(&self) -> bool {
        self.format.is_precise
    }

    /// Whether lines have the time that requests have waited.
    pub fn has_waits(&self) -> bool {
        self.format.has_waits
    }

    /// Whether lines have fields of responses, so that these are to be kept.
    pub(crate) fn has_response_fields(&self) -> bool {
        !self.format.wanted.names.is_empty()
    }

    /// What a line reports about a request; `None` if it is not in the share that has lines. `tls` is asked only if the format needs it.
    pub(crate) fn record<'a>(
        &self,
        (client, tls): (Peer, impl FnOnce() -> Option<&'a Arc<TlsDetails>>),
        head: Option<Head<'_>>,
        began: Began,
    ) -> Option<LogRecord> {
        if !self.draws.is_drawn() {
            return None;
        }
        let mut record = LogRecord::new(&self.format, client, head, began);
        if self.format.has_tls {
            record.tls = tls().cloned();
        }
        Some(record)
    }

    /// Adds the line of a complete exchange, if it is selected. `precise_ns` reads a precise clock, if the format needs it.
    pub(crate) fn add(
        &mut self,
        record: &LogRecord,
        (unix_s, now_ms): (u64, u64),
        precise_ns: impl FnOnce() -> u64,
    ) {
        let took_ms = now_ms.saturating_sub(record.began.ms);
        if !self.draws.selects(record.status, took_ms) {
            return;
        }
        if self.block.len() >= BLOCK_BYTES {
            self.flush();
        }
        if self.block.len() >= BLOCK_BYTES {
            self.dropped += 1;
            self.dropped_total += 1;
            return;
        }
        let ns = if self.format.is_precise {
            precise_ns()
        } else {
            0
        };
        let now = Now {
            unix_s,
            ms: now_ms,
            ns,
        };
        line::push(&mut self.block, &self.format, record, (now, self.worker));
    }

    /// Continues in another file, after the lines that were added before. No line is lost or split. While the queue is so full that an
    /// earlier change still waits, that one is left out: its lines go to the file before it.
    pub(crate) fn reopen(&mut self, file: File) {
        self.next = Next::AfterBlock(file);
        self.flush();
    }

    /// Passes the buffered lines to the writing thread, if it has room.
    pub(crate) fn flush(&mut self) {
        self.flush_next();
        // Lines do not overtake the change of files that precedes them, however full the queue is.
        let is_ahead = !matches!(self.next, Next::Other(_));
        let is_queued = is_ahead && (self.block.is_empty() || self.flush_block());
        if is_queued && let Next::AfterBlock(file) = std::mem::replace(&mut self.next, Next::Same) {
            self.next = Next::Other(file);
            self.flush_next();
        }
    }

    fn flush_next(&mut self) {
        self.next = match std::mem::replace(&mut self.next, Next::Same) {
            Next::Other(file) => match self.send(Work::Reopen(file)) {
                Some(Work::Reopen(file)) => Next::Other(file),
                _ => Next::Same,
            },
            next => next,
        };
    }

    /// Queues work; returns it if there is no room.
    fn send(&self, work: Work<File>) -> Option<Work<File>> {
        let Some(queue) = &self.queue else {
            return Some(work);
        };
        if !self.losses.wait_for(work.lines(), work.bytes()) {
            return Some(work);
        }
        // The writer ends after the queue.
        let _ = queue.send(work);
        None
    }

    /// Queues the lines of `block`; returns false if there is no room.
    fn flush_block(&mut self) -> bool {
        let mut block = std::mem::take(&mut self.block);
        if self.losses.waiting_bytes() > 0 {
            block.shrink_to_fit();
        }
        if let Some(Work::Lines(block)) = self.send(Work::Lines(block)) {
            self.block = block;
            return false;
        }
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            let notice = self.format.form.notice(dropped, Loss::Dropped);
            self.block.extend_from_slice(notice.as_bytes());
        }
        true
    }

    /// Gives the writer one second for the queued lines: a stalled log must not keep a worker from exiting. Returns as
    /// [`AccessLog::take_reports`].
    pub(crate) fn finish(&mut self) -> Vec<String> {
        if self.queue.is_none() {
            return self.take_reports();
        }
        let end = Instant::now() + Duration::from_secs(1);
        while !self.block.is_empty() && Instant::now() < end {
            self.flush();
            if !self.block.is_empty()
                && self.finished.recv_timeout(Duration::from_millis(5)).is_ok()
            {
                break;
            }
        }
        self.queue = None;
        // Either way: the writer ended, or it stalls and is abandoned.
        let _ = self
            .finished
            .recv_timeout(end.saturating_duration_since(Instant::now()));
        let mut reports = self.take_reports();
        let left = std::mem::take(&mut self.block);
        // Lines that the abandoned thread has not finished: it may still write some of them.
        self.dropped_total += lines_of(&left) + self.losses.waiting_lines();
        if self.dropped_total > 0 {
            let lines = self.dropped_total;
            reports.push(format!(
                "{lines} lines of the access log were dropped: it is slower than the requests"
            ));
        }
        reports
    }
}

/// How many lines end in `bytes`.
fn lines_of(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        for report in self.finish() {
            net::report(&report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut AccessLog) {
        let record = record::tests::record(b"/", &[]);
        log.add(&record, (784_111_777, 1000), || 0);
    }

    #[test]
    fn lines_of_before_are_in_the_old_file_and_later_ones_in_the_new_one() {
        let pipes = [(); 2].map(|()| std::io::pipe().unwrap());
        let [(first, old), (second, new)] =
            pipes.map(|(reader, writer)| (reader, File::from(std::os::fd::OwnedFd::from(writer))));
        let mut log = AccessLog::new(old, LogFormat::combined(), Selection::default()).unwrap();
        add(&mut log);
        log.reopen(new);
        assert_eq!(std::io::read_to_string(first).unwrap().lines().count(), 1);
        for _ in 0..2 {
            add(&mut log);
        }
        drop(log);
        assert_eq!(std::io::read_to_string(second).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_log_that_is_slower_than_the_requests_changes_its_file() {
        let pipes = [(); 2].map(|()| std::io::pipe().unwrap());
        let [(first, old), (mut second, new)] =
            pipes.map(|(reader, writer)| (reader, File::from(std::os::fd::OwnedFd::from(writer))));
        let mut log = AccessLog::new(old, LogFormat::combined(), Selection::default()).unwrap();
        while log.dropped == 0 {
            add(&mut log);
        }
        log.reopen(new);
        // The queue is full again whenever a block of it is written.
        let reading = std::thread::spawn(move || std::io::read_to_string(first));
        let is_in_other = (0..50_000_000).any(|_| {
            add(&mut log);
            reading.is_finished()
        });
        assert!(is_in_other);
        // All lines may be in the old file.
        add(&mut log);
        log.flush();
        let mut line = [0; 8];
        std::io::Read::read_exact(&mut second, &mut line).unwrap();
        // The first line may be the number of those that were dropped.
        assert!([b"192.0.2.", b"bolide: "].contains(&&line), "{line:?}");
        drop(second);
    }

    #[test]
    fn what_a_stalled_log_has_not_written_at_its_end_is_counted() {
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut log = AccessLog::new(file, LogFormat::combined(), Selection::default()).unwrap();
        for _ in 0..20_000 {
            add(&mut log);
        }
        let reports = log.finish();
        let [report] = &reports[..] else {
            panic!("{reports:?}")
        };
        let counted: usize = report.split(' ').next().unwrap().parse().unwrap();
        // The pipe holds 64 KiB, and a block that was partly written is counted as a whole.
        assert!((19_000..=20_000).contains(&counted), "{counted}");
        drop(reader);
    }

    #[test]
    fn lines_that_are_queued_one_by_one_have_as_much_room() {
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut log = AccessLog::new(file, LogFormat::combined(), Selection::default()).unwrap();
        let mut lines = 0;
        while log.dropped == 0 {
            add(&mut log);
            log.flush();
            lines += 1;
        }
        // A line has some 80 bytes: 2 MiB are queued, 64 KiB collected, and as many are in the pipe.
        assert!(lines > 20_000, "{lines}");
        assert!(log.losses.waiting_bytes() <= 2 << 20);
        drop(reader);
    }

    #[test]
    fn a_pipe_that_does_not_block_loses_nothing() {
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut log = AccessLog::new(file, LogFormat::combined(), Selection::default()).unwrap();
        for _ in 0..10_000 {
            add(&mut log);
        }
        let reading = std::thread::spawn(move || std::io::read_to_string(reader));
        assert_eq!(log.finish(), Vec::<String>::new());
        drop(log);
        assert_eq!(reading.join().unwrap().unwrap().lines().count(), 10_000);
    }

    #[test]
    fn a_stalled_log_drops_lines_and_reports_their_number() {
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut log = AccessLog::new(file, LogFormat::combined(), Selection::default()).unwrap();
        // Far more than the pipe and the queue hold, without a reader.
        for _ in 0..60_000 {
            add(&mut log);
        }
        assert!(log.dropped > 0);
        let reading = std::thread::spawn(move || std::io::read_to_string(reader));
        while log.dropped > 0 {
            log.flush();
            std::thread::yield_now();
        }
        drop(log);
        let text = reading.join().unwrap().unwrap();
        let (lines, notes): (Vec<_>, Vec<_>) = text
            .lines()
            .partition(|line| line.starts_with("192.0.2.1 "));
        let dropped: usize = notes
            .iter()
            .filter_map(|note| note.split(' ').nth(1)?.parse::<usize>().ok())
            .sum();
        assert_eq!(lines.len() + dropped, 60_000);
    }
}
