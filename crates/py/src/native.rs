//! Native applications (`bolide.App`): routes, request and response objects, and the calls of handlers.

pub(crate) mod app;
pub(crate) mod calls;
mod log;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;
mod suspended;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod websocket;
