//! Generates HTTP/1, HTTP/2 or WebSocket load, with or without TLS, according to a [`Plan`], and checks every response.
//!
//! In a closed loop each connection sends a batch of requests (one, or the pipeline depth) in one send, waits for all responses, and sends
//! the next: latencies are service times under saturation. In an open loop requests are sent according to a schedule, however fast the
//! server responds, and latencies count from the scheduled time: this is how long users of an open system wait. Failures are counted by
//! class, and never as throughput.
//!
//! Start reading at [`Run`], then `load_thread` (one thread: sockets and time), `checker` (bytes to verdicts, without I/O), `session`
//! (HTTP/2: frames to verdicts), `channel`
//! (WebSocket: the same), `schedule` (load over time, without a clock), `tally` and `series` (the counts).

mod batch;
mod board;
mod channel;
mod checker;
mod connection;
mod dial;
mod dialogue;
mod error;
mod load_thread;
mod mix;
mod pipeline;
mod plan;
mod record;
mod report;
mod run;
mod schedule;
mod series;
mod session;
mod tally;
mod tls;

pub use channel::WebSocketReport;
pub use dialogue::Dialogue;
pub use error::{ErrorClass, Errors};
pub use plan::{
    Address, Expectation, Limit, Part, Pattern, Plan, Protocol, Request, Shape, Stage, WebSocket,
};
pub use record::{Record, Snapshot};
pub use report::{Lag, Latency, Progress, Report, Second, Served};
pub use run::{Run, run};
pub use tls::{Tls, TlsReport};
