//! The load generator and the ceiling, with which `bolide load`, `bolide ceiling` and `bolide race` measure.
//!
//! [`ceiling`] responds without parsing, so it is a fixed-response baseline of this machine for a workload. [`generator`] generates load in
//! closed and open loops and checks every response. A thread of either has one epoll set. Both are built on `net`, the generator also on
//! `wire` in the client role. Neither chooses workloads, starts servers or compares figures: that is up to their users (`python/bolide/lab`).

pub mod ceiling;
pub mod generator;
mod histogram;
mod limit;

pub use histogram::Histogram;
pub use limit::raise_descriptor_limit;
