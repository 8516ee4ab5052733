//! The HTTP server without an application: joins [`wire`] (bytes and events) and [`net`] (sockets and time).
//!
//! One [`Worker`] is one thread's server: it owns a poller, its listeners and its connections, and calls an [`App`] for each request.
//! Nothing here knows Python. Read `worker.rs` for one pass of the reactor, then `connection.rs` for one connection's life.

mod access_log;
mod app;
mod connection;
mod exchange;
mod group;
mod limits;
mod literal;
mod mailbox;
mod output;
mod responder;
mod router;
mod setting;
mod timeouts;
mod worker;

pub use access_log::{AccessLog, LogFormat};
pub use app::{Abort, App, Content, ExchangeId, Outcome, Pulled, Request};
pub use limits::Limits;
pub use mailbox::{Command, Mailbox, Response};
pub use output::FilePart;
pub use responder::{Fields, Responder};
pub use router::{
    Match, ParameterKind, Parameters, PatternError, Router, pattern_parameters, percent_decode,
};
pub use setting::Setting;
pub use timeouts::Timeouts;
pub use worker::{Config, Worker};
