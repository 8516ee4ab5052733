//! Standard error for threads that have no interpreter to log with, and for panics.

use std::backtrace::Backtrace;
use std::fmt::{self, Write as _};
use std::io::{self, Stderr};
use std::panic::PanicHookInfo;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::memory;

/// Maximum length of the line that reports a panic.
const LINE_BYTES_MAX: usize = 1024;
/// A pipe that is ready accepts this many bytes at once (PIPE_BUF).
const WRITE_BYTES_MAX: usize = 4096;
/// With less memory than this, no backtrace is written: it reads the compiler's records of the whole program.
const BACKTRACE_BYTES: usize = 128 << 20;

/// Writes a line if that is possible without waiting.
pub fn report(line: &str) {
    write(format!("bolide: {line}\n").as_bytes());
}

/// Makes panics be reported in one line, without allocating, locking or waiting: a panic may occur while memory is short, and in a thread
/// that holds any lock. With `RUST_BACKTRACE` a backtrace follows if there is memory for it. The variable is read here, because reading it
/// takes a lock.
pub fn report_panics() {
    let wants_backtrace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    std::panic::set_hook(Box::new(move |info| panicked(info, wants_backtrace)));
}

fn panicked(info: &PanicHookInfo<'_>, wants_backtrace: bool) {
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let mut line = Line::default();
    // A line that is too long is truncated.
    let _ = write!(line, "bolide: panicked");
    if let Some(place) = info.location() {
        let _ = write!(line, " at {place}");
    }
    let _ = write!(line, ": {}", text.unwrap_or("(no text)"));
    write(line.ended());
    if wants_backtrace && memory::is_there(BACKTRACE_BYTES) {
        let backtrace = Backtrace::force_capture().to_string();
        for part in backtrace.as_bytes().chunks(WRITE_BYTES_MAX) {
            write(part);
        }
    }
}

/// Writes at most as many bytes as a pipe accepts at once, if that is possible without waiting.
fn write(bytes: &[u8]) {
    let error: Stderr = io::stderr();
    let mut watched = [PollFd::new(&error, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0) {
        // A failure cannot be reported anywhere else.
        let _ = rustix::io::write(&error, bytes);
    }
}

/// A line on the stack.
struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    length: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            bytes: [0; LINE_BYTES_MAX],
            length: 0,
        }
    }
}

impl Line {
    /// The line with its line end, for which there is always room.
    fn ended(&mut self) -> &[u8] {
        if let Some(end) = self.bytes.get_mut(self.length) {
            *end = b'\n';
            self.length += 1;
        }
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES_MAX - 1 - self.length;
        let taken = text.len().min(room);
        let end = self.length + taken;
        if let (Some(place), Some(part)) = (
            self.bytes.get_mut(self.length..end),
            text.as_bytes().get(..taken),
        ) {
            place.copy_from_slice(part);
            self.length = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_off_where_it_is_full() {
        let mut line = Line::default();
        for _ in 0..LINE_BYTES_MAX {
            write!(line, "ab").unwrap();
        }
        let ended = line.ended();
        assert_eq!(ended.len(), LINE_BYTES_MAX);
        assert!(ended.starts_with(b"abab") && ended.ends_with(b"\n"));
        let mut short = Line::default();
        write!(short, "x").unwrap();
        assert_eq!(short.ended(), b"x\n");
    }
}
