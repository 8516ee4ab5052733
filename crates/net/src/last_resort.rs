//! Standard error for threads that have no interpreter to log with.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Writes a line if that is possible without waiting.
pub fn report(line: &str) {
    let error = io::stderr();
    let mut watched = [PollFd::new(&error, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0) {
        // A failure cannot be reported anywhere else.
        let _ = rustix::io::write(&error, format!("bolide: {line}\n").as_bytes());
    }
}
