//! The reactor's parts: readiness, time, deadlines, listeners and transports.
//!
//! This crate deals with descriptors and bytes, and knows neither HTTP nor Python. Every system call goes through `rustix`, so there is
//! no `unsafe` here. Read [`poller`] first: a backend for another kernel is one more file with the same six functions.

mod clock;
mod listener;
mod poller;
mod sys;
mod timer;
mod transport;
mod waker;

pub use clock::{Clock, precise_ns};
pub use listener::{Accepted, Listener};
pub use poller::{Events, Interest, Interrupted, Poller, Readiness, Token};
pub use timer::{TICK_MS, TimerWheel};
pub use transport::{FileSent, Peer, Received, Sent, Transport};
pub use waker::Waker;
