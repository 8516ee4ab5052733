//! The reactor's parts: readiness, time, deadlines, listeners and transports.
//!
//! This crate deals with descriptors and bytes, and knows neither HTTP nor Python. Every system call goes through `rustix`; `unsafe` is
//! needed only in `sys.rs`, `signals.rs`, `fork.rs`, and in `shared.rs` for memory that processes share. Read [`poller`] first: a backend
//! for another kernel is one more file with the same six functions.

mod clock;
mod files;
mod fork;
mod last_resort;
mod lifeline;
mod listener;
pub mod memory;
mod poller;
mod rest;
mod shared;
mod signals;
mod sys;
mod timer;
mod tls;
mod transport;
mod waker;

pub use clock::{Clock, precise_ns};
pub use files::{descriptors_max, memory_file, temporary_file, wait_until_writable};
pub use fork::{has_forked, watch_forks};
pub use last_resort::{report, report_panics};
pub use lifeline::follow;
pub use listener::{Accepted, Lack, Listener};
pub use poller::{Events, Interest, Interrupted, Poller, Readiness, Token};
pub use rest::Rest;
pub use shared::numbers::Numbers;
pub use shared::ranking::{Ranked, Ranking};
pub use shared::rates::{Rates, Refill};
pub use shared::siblings::{LATE_AFTER_MS, Seat, Siblings, Turn};
pub use signals::widen_signal_stack;
pub use sys::random_octets;
pub use timer::{TICK_MS, TimerWheel};
pub use tls::{
    Agreement, Certificate, Clients, Expected, Offer, Pair, RevocationList, SESSION_BYTES_MAX,
    ServerPair, TicketSecret, TlsClientConfig, TlsClientError, TlsConfig, TlsDetails, TlsError,
    TlsFailure, collect_entropy, opened_key, self_signed,
};
pub use transport::{FileSent, Peer, Received, Sent, Transport};
pub use waker::Waker;
