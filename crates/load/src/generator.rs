//! The generator: drives HTTP/1 load as a [`Plan`] says, and checks every answer.
//!
//! In a closed loop each connection sends a batch of requests (one, or as many as the pipeline is deep) in one send, waits until all
//! of the batch is answered, and sends the next: its latencies are service times under saturation. In an open loop requests leave when
//! a schedule says, answered or not, and latencies count from then: they are what users of an open system wait. What failed is counted
//! by class and never as throughput.
//!
//! Start reading at [`Run`], then `driver` (one thread: sockets and time), `checker` (bytes to verdicts, without I/O), `schedule`
//! (load over time, without a clock), `tally` and `series` (what is counted).

mod board;
mod checker;
mod connection;
mod dial;
mod driver;
mod error;
mod mix;
mod plan;
mod report;
mod run;
mod schedule;
mod series;
mod tally;

pub use error::{ErrorClass, Errors};
pub use plan::{Address, Expectation, Limit, Plan, Request, Shape, Stage};
pub use report::{Lag, Latency, Progress, Report, Second};
pub use run::{Run, run};
