//! Lines that the access log lacks: how many they are, what the log says in their place, and what the reactor reports.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use net::{Poller, Waker};

use super::format::Form;

/// Memory of the work that waits for the writing thread: it bounds that of a stalled log, and is a pause of a second at 10,000 requests per second.
const QUEUE_BYTES_MAX: usize = 2 << 20;

/// Why lines are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// There was no room for them.
    Dropped,
    /// The file could not be written.
    Unwritten,
}

impl Form {
    /// The line, with its end, that the log has in the place of `count` others.
    pub(super) fn notice(&self, count: u64, loss: Loss) -> String {
        let reason = match loss {
            Loss::Dropped => "dropped: the log is slower than the requests",
            Loss::Unwritten => "lost: they could not be written",
        };
        let text = format!("{count} access log lines were {reason}");
        match self {
            Form::Template(_) => format!("bolide: {text}\n"),
            Form::Json => {
                let unix_s = SystemTime::now().duration_since(UNIX_EPOCH);
                let unix_s = unix_s.unwrap_or_default().as_secs();
                format!("{{\"unix_s\":{unix_s},\"notice\":\"{text}\",\"missing_lines\":{count}}}\n")
            }
        }
    }
}

/// What the writing thread says about lines that it was to write.
pub(super) trait Lose {
    /// Work with so many lines and bytes is done: the lines were written, or counted as lost.
    fn done(&self, lines: u64, bytes: usize);
    /// Counts lines.
    fn add(&self, lines: u64);
    /// Reports something, at warning level.
    fn report(&self, line: String);
}

/// What the writing thread has said, for the reactor.
pub(super) struct Losses {
    lines: AtomicU64,
    /// Lines that were queued and are not done, and the memory of such work.
    waiting: AtomicU64,
    waiting_bytes: AtomicUsize,
    has_reports: AtomicBool,
    reports: Mutex<Vec<String>>,
    waker: Waker,
}

impl Losses {
    /// # Errors
    /// When the process or the system has no descriptor left.
    pub(super) fn new() -> io::Result<Losses> {
        Ok(Losses {
            lines: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            waiting_bytes: AtomicUsize::new(0),
            has_reports: AtomicBool::new(false),
            reports: Mutex::default(),
            waker: Waker::new()?,
        })
    }

    /// Lets reports end the waits of `poller`.
    ///
    /// # Errors
    /// If the system's limit of watches is reached.
    pub(super) fn watch(&self, poller: &Poller) -> io::Result<()> {
        self.waker.watch(poller)
    }

    /// How many lines could not be written.
    pub(super) fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Counts work that is to be queued; returns false if there is no room for it. There always is if nothing waits.
    pub(super) fn wait_for(&self, lines: u64, bytes: usize) -> bool {
        let waiting_bytes = self.waiting_bytes();
        if waiting_bytes > 0 && waiting_bytes + bytes > QUEUE_BYTES_MAX {
            return false;
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.waiting.fetch_add(lines, Ordering::Relaxed);
        true
    }

    /// The memory of the work that was queued and is not done.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// How many lines were queued and are not done.
    pub(super) fn waiting_lines(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes what was reported; each pass asks.
    #[inline]
    pub(super) fn take_reports(&self) -> Vec<String> {
        if !self.has_reports.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_reports.store(false, Ordering::Relaxed);
        std::mem::take(&mut reports)
    }
}

impl Lose for Losses {
    fn done(&self, lines: u64, bytes: usize) {
        self.waiting.fetch_sub(lines, Ordering::Relaxed);
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn add(&self, lines: u64) {
        if lines > 0 {
            self.lines.fetch_add(lines, Ordering::Relaxed);
            // The metric is current although no request follows.
            self.waker.wake();
        }
    }

    fn report(&self, line: String) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(line);
        self.has_reports.store(true, Ordering::Relaxed);
        drop(reports);
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use net::Events;

    use super::*;
    use crate::access_log::LogFormat;

    #[test]
    fn a_notice_is_a_line_of_its_format() {
        let text = LogFormat::combined().form.notice(2, Loss::Dropped);
        assert_eq!(
            text,
            "bolide: 2 access log lines were dropped: the log is slower than the requests\n"
        );
        let json = LogFormat::json().form.notice(3, Loss::Unwritten);
        let (before, after) = json.split_once(",").unwrap();
        assert!(before.starts_with("{\"unix_s\":1"), "{before}");
        assert_eq!(
            after,
            "\"notice\":\"3 access log lines were lost: they could not be written\",\"missing_lines\":3}\n"
        );
    }

    #[test]
    fn only_lost_lines_and_reports_end_a_wait() {
        let (poller, losses) = (Poller::new().unwrap(), Losses::new().unwrap());
        losses.watch(&poller).unwrap();
        let mut events = Events::default();
        let mut is_woken = || {
            poller.wait(&mut events, Some(0)).unwrap();
            events.get(0).is_some()
        };
        assert!(!is_woken());
        losses.add(0);
        assert!(!is_woken());
        losses.add(1);
        assert!(is_woken() && !is_woken());
        losses.report("one".into());
        assert!(is_woken() && !is_woken());
    }

    #[test]
    fn reports_are_taken_once_and_lines_are_counted_for_good() {
        let losses = Losses::new().unwrap();
        assert!(losses.take_reports().is_empty());
        losses.add(2);
        losses.report("one".into());
        losses.report("two".into());
        losses.add(1);
        assert_eq!(losses.take_reports(), ["one", "two"]);
        assert!(losses.take_reports().is_empty());
        assert_eq!(losses.lines(), 3);
    }
}
