//! The load generator and the ceiling: what `bolide load`, `bolide ceiling` and the benches measure with.
//!
//! [`ceiling`] answers without parsing, so it shows the limit of this machine for a workload; [`generator`] drives closed and open loops
//! and checks every answer. A thread of either has one epoll set; both are made of `net`, the generator also of `wire` in the client role.
//! What neither does: choose workloads, start servers, compare figures. That is the part of who uses them (`benches/`).

pub mod ceiling;
pub mod generator;
mod histogram;
mod limit;

pub use histogram::Histogram;
pub use limit::raise_descriptor_limit;
