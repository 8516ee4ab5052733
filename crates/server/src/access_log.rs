//! The access log: lines are formatted on the reactor's thread and written by a separate one.
//!
//! A log that cannot be written (a full pipe, a slow disk) never blocks the reactor. Its queue is bounded, lines that do not fit are
//! dropped and counted, and the count is logged when there is room again.

mod format;
mod line;
mod record;
mod selection;
mod start;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use net::{Peer, TlsDetails};

use self::line::Now;
use self::selection::Draws;
use crate::app::head::Head;

pub use self::format::{FormatError, LogFormat};
pub(crate) use self::record::{Began, LogRecord};
pub use self::selection::Selection;

/// The status of a request whose client disconnected before the response. It is not an HTTP status; nginx uses it.
pub(crate) const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Bytes per block passed to the writer, and how many blocks may wait. Their product bounds the memory of a stalled log.
const BLOCK_BYTES: usize = 65_536;
const BLOCKS_MAX: usize = 32;

/// What the writing thread does next.
enum Work<F> {
    /// Writes whole lines.
    Lines(Vec<u8>),
    /// Continues in another file.
    Reopen(F),
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
    /// The file in which the log continues after `block`.
    next: Option<File>,
    queue: Option<SyncSender<Work<File>>>,
    finished: Receiver<()>,
}

impl AccessLog {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(file: File, format: LogFormat, selection: Selection) -> std::io::Result<AccessLog> {
        let (queue, blocks) = sync_channel::<Work<File>>(BLOCKS_MAX);
        let (done, finished) = channel();
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || {
                write_blocks(file, &blocks, net::report);
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
            next: None,
            queue: Some(queue),
            finished,
        })
    }

    /// How many lines were dropped, because the log is slower than the requests.
    pub(crate) fn dropped_lines(&self) -> u64 {
        self.dropped_total
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

    /// Continues in another file, after the lines that were added before. No line is lost or split.
    pub(crate) fn reopen(&mut self, file: File) {
        self.next = Some(file);
        self.flush();
    }

    /// Passes the buffered lines to the writing thread, if it has room.
    pub(crate) fn flush(&mut self) {
        if !self.block.is_empty() {
            self.flush_block();
        }
        if self.next.is_some() && self.block.is_empty() {
            self.flush_next();
        }
    }

    #[cold]
    fn flush_next(&mut self) {
        if let (Some(queue), Some(file)) = (&self.queue, self.next.take())
            && let Err(TrySendError::Full(Work::Reopen(file))) = queue.try_send(Work::Reopen(file))
        {
            self.next = Some(file);
        }
    }

    fn flush_block(&mut self) {
        let Some(queue) = &self.queue else { return };
        let block = std::mem::take(&mut self.block);
        if let Err(TrySendError::Full(Work::Lines(block))) = queue.try_send(Work::Lines(block)) {
            self.block = block;
        } else if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            let _ = writeln!(
                self.block,
                "bolide: {dropped} access log lines were dropped: the log is slower than the requests"
            );
        }
    }
}

impl Drop for AccessLog {
    /// Gives the writer one second for the queued lines: a stalled log must not keep a worker from exiting.
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(1);
        while !self.block.is_empty() && Instant::now() < end {
            self.flush();
            if !self.block.is_empty()
                && self.finished.recv_timeout(Duration::from_millis(5)).is_ok()
            {
                return;
            }
        }
        self.queue = None;
        // Either way: the writer ended, or it stalls and is abandoned.
        let _ = self
            .finished
            .recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Writes blocks as they arrive. While the log cannot be written (closed pipe, full disk), its lines are counted and lost. The loss is
/// reported once; serving goes on.
fn write_blocks<F: Write>(mut file: F, works: &Receiver<Work<F>>, report: impl Fn(&str)) {
    let (mut lost, mut is_torn) = (0, false);
    for work in works {
        let block = match work {
            Work::Lines(block) => block,
            Work::Reopen(next) => {
                file = next;
                is_torn = false;
                continue;
            }
        };
        if lost > 0 {
            let notice = lost_lines(lost, is_torn).into_bytes();
            let (rest, _) = write_most(&mut file, &notice);
            is_torn = is_torn_after(&notice, rest, is_torn);
            if rest > 0 {
                lost += lines_of(&block);
                continue;
            }
            report(&format!(
                "the access log is written again; {lost} of its lines were lost"
            ));
            lost = 0;
        }
        let (rest, error) = write_most(&mut file, &block);
        if let Some(error) = error
            && lost == 0
        {
            report(&format!(
                "the access log cannot be written: {error}; its lines are lost until it can be"
            ));
        }
        lost += lines_of(&block[block.len() - rest..]);
        is_torn = is_torn_after(&block, rest, is_torn);
    }
    if lost > 0 {
        report(&format!("{lost} lines of the access log were lost"));
    }
}

/// Writes as much as possible; returns how many bytes are left, and why.
fn write_most(file: &mut impl Write, bytes: &[u8]) -> (usize, Option<std::io::Error>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(written @ 1..) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) => return (rest.len(), Some(ErrorKind::WriteZero.into())),
            Err(error) => return (rest.len(), Some(error)),
        }
    }
    (0, None)
}

fn lines_of(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Whether the log ends within a line, once all of `bytes` but the last `rest` were written.
fn is_torn_after(bytes: &[u8], rest: usize, was_torn: bool) -> bool {
    match bytes.get(..bytes.len() - rest).unwrap_or_default() {
        [] => was_torn,
        written => !written.ends_with(b"\n"),
    }
}

/// The line in the log that reports lost lines.
fn lost_lines(count: usize, is_torn: bool) -> String {
    let end = if is_torn { "\n" } else { "" };
    format!("{end}bolide: {count} access log lines were lost: they could not be written\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn add(log: &mut AccessLog) {
        let record = record::tests::record(b"/", &[]);
        log.add(&record, (784_111_777, 1000), || 0);
    }

    /// A disk with room for a number of bytes, and the bytes written to it.
    struct Disk<'a>(&'a Mutex<(usize, Vec<u8>)>);

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (room, written) = &mut *self.0.lock().unwrap();
            let count = bytes.len().min(*room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            *room -= count;
            written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_a_full_disk_loses_are_counted_and_reported_once() {
        let disk = Mutex::new((7, Vec::new()));
        let reports = std::cell::RefCell::new(Vec::new());
        let (queue, blocks) = channel();
        for block in ["one\ntwo\nthree\n", "four\n", "five\n"] {
            queue.send(Work::Lines(block.into())).unwrap();
        }
        drop(queue);
        let report = |line: &str| {
            let mut reports = reports.borrow_mut();
            reports.push(line.to_owned());
        };
        write_blocks(Disk(&disk), &blocks, report);
        assert_eq!(disk.lock().unwrap().1, b"one\ntwo");
        let lost = "the access log cannot be written: no storage space; its lines are lost until it can be";
        assert_eq!(
            *reports.borrow(),
            [lost, "4 lines of the access log were lost"]
        );
    }

    #[test]
    fn a_disk_that_has_room_again_gets_the_count() {
        let disk = Mutex::new((7, Vec::new()));
        let (queue, blocks) = std::sync::mpsc::sync_channel(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for block in ["one\ntwo\n", "three\n", "four\n"] {
                    queue.send(Work::Lines(block.into())).unwrap();
                }
            });
            // The disk has room again once the loss is reported.
            write_blocks(Disk(&disk), &blocks, |_| disk.lock().unwrap().0 = 1000);
        });
        assert_eq!(
            disk.lock().unwrap().1,
            b"one\ntwo\nbolide: 1 access log lines were lost: they could not be written\nthree\nfour\n"
        );
    }

    #[test]
    fn a_count_that_does_not_fit_is_written_again_as_a_line_of_its_own() {
        let disk = Mutex::new((7, Vec::new()));
        let (queue, blocks) = std::sync::mpsc::sync_channel(0);
        let reports = std::cell::Cell::new(0);
        std::thread::scope(|scope| {
            let disk = &disk;
            scope.spawn(move || {
                queue.send(Work::Lines(b"one\ntwo\n".to_vec())).unwrap();
                // The writer is at the next block only when the one before is done.
                queue.send(Work::Lines(Vec::new())).unwrap();
                disk.lock().unwrap().0 = 9;
                queue.send(Work::Lines(b"three\n".to_vec())).unwrap();
                queue.send(Work::Lines(Vec::new())).unwrap();
                disk.lock().unwrap().0 = 1000;
                queue.send(Work::Lines(b"four\n".to_vec())).unwrap();
            });
            write_blocks(Disk(disk), &blocks, |_| reports.set(reports.get() + 1));
        });
        let written = String::from_utf8(disk.lock().unwrap().1.clone()).unwrap();
        assert_eq!(
            written,
            "one\ntwo\nbolide: \nbolide: 2 access log lines were lost: they could not be written\nfour\n"
        );
        assert_eq!(reports.get(), 2);
    }

    #[test]
    fn a_log_that_is_opened_again_continues_with_a_whole_line() {
        let disks = [(10, Vec::new()), (1000, Vec::new())].map(Mutex::new);
        let (queue, works) = channel();
        for work in [
            Work::Lines(b"one\ntwo\n".to_vec()),
            Work::Lines(b"three\n".to_vec()),
            Work::Reopen(Disk(&disks[1])),
            Work::Lines(b"four\n".to_vec()),
        ] {
            queue.send(work).unwrap();
        }
        drop(queue);
        write_blocks(Disk(&disks[0]), &works, |_| ());
        assert_eq!(disks[0].lock().unwrap().1, b"one\ntwo\nth");
        assert_eq!(
            disks[1].lock().unwrap().1,
            b"bolide: 1 access log lines were lost: they could not be written\nfour\n"
        );
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
