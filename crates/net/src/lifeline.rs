//! Ends this process after its parent process has ended, if it does not end by itself.
//!
//! The parent holds the other end of a pipe. Otherwise a process that hangs, in a handler or waiting for the interpreter's lock, would stay
//! and accept connections for ever.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, getpid, kill_process};

use crate::last_resort::report;

/// Watches the reading end of a pipe that is never written to, in a thread. `grace` after its end the process is killed.
///
/// # Errors
/// If the thread cannot be started.
pub fn follow(pipe: OwnedFd, grace: Duration) -> io::Result<()> {
    let watch = move || {
        if wait_for_end(&pipe).is_ok() {
            thread::sleep(grace);
            report("the supervisor has ended, and this worker has not: ending it");
            // Nothing in the process is relied on: it may hang with any lock held.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    };
    let builder = thread::Builder::new().name("bolide-lifeline".into());
    builder.spawn(watch).map(drop)
}

fn wait_for_end(pipe: &OwnedFd) -> io::Result<()> {
    loop {
        let mut watched = [PollFd::new(pipe, PollFlags::empty())];
        retry_on_intr(|| poll(&mut watched, None))?;
        let [found] = &watched;
        if found.revents().intersects(PollFlags::HUP) {
            return Ok(());
        }
    }
}
