//! Running an application's coroutines, whatever its interface: a task and a context that are lent, the exchanges whose responses are
//! pending, and what handlers await.
//!
//! | file | contents |
//! | --- | --- |
//! | `runner` | one application's: lends a task and a context to each call, and passes events to the exchanges |
//! | `coroutine`, `yielded` | the coroutine of the task that a suspended handler runs in, and what it waits for |
//! | `task`, `context` | what is lent |
//! | `asyncio` | the event loop and its tasks |
//! | `exchanges` | the open exchanges, the mailbox and the loop |
//! | `interrupt` | whether a KeyboardInterrupt comes from a signal |
//! | `writing` | how a streamed response waits for its peer |
//! | `leaving` | what happens to an exchange when its peer disconnects |
//! | `running` | the tasks of handlers that have not ended |
//! | `awaitable`, `parts` | what handlers await, and what streamed responses are pulled from |
//! | `memory` | copies of what peers and applications made large |
//! | `log`, `failure` | what is logged about applications, and the response for one that failed |
//! | `left_out` | fields that are the server's to set, and that applications set |
//! | `target` | the decoded target of a request |
//! | `watch` | whether an application computes while something that it has written waits |
//! | `websocket` | WebSockets |

pub(crate) mod asyncio;
pub(crate) mod awaitable;
pub(crate) mod context;
pub(crate) mod coroutine;
pub(crate) mod exchanges;
pub(crate) mod failure;
mod interrupt;
mod leaving;
pub(crate) mod left_out;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod parts;
pub(crate) mod runner;
pub(crate) mod running;
pub(crate) mod target;
pub(crate) mod task;
pub(crate) mod watch;
pub(crate) mod websocket;
pub(crate) mod writing;
mod yielded;
