//! The load generator and the ceiling: what `bolide load`, `bolide ceiling` and the benches measure with.
//!
//! [`ceiling`] answers without parsing, so it shows the limit of this machine for a workload; [`generator`] drives a closed loop and
//! checks every answer. Both are one thread with one epoll set, made of `net` and of `wire` in the client role.
//! What neither does: choose workloads, start servers, compare figures. That is the part of who uses them (`benches/`).

pub mod ceiling;
pub mod generator;
mod histogram;
mod limit;

pub use histogram::Histogram;
pub use limit::raise_descriptor_limit;
