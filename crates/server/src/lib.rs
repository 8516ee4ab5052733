//! The HTTP server without an application: joins [`wire`] (bytes and events) and [`net`] (sockets and time).
//!
//! A [`Worker`] is the server of one thread. It owns a poller, its listeners and its connections, and calls an [`App`] for each request.
//! Nothing here depends on Python, and only `h1` and the modules it encodes with know HTTP/1. Read `reactor.rs` for one pass, then
//! `connection.rs` for the life of a connection, then `h1.rs`.
//!
//! Dependencies point one way: `reactor` -> `connection` -> `h1` -> `exchange`, `link` -> `context`, `app`; everything else is below.

mod access_log;
mod app;
mod connection;
mod context;
mod exchange;
mod h1;
mod h2;
mod id;
mod limits;
mod link;
mod mailbox;
mod pace;
mod reactor;
mod responder;
mod response;
mod router;
mod setting;
mod timeouts;
mod websocket;

pub use access_log::{AccessLog, FormatError, LogFormat, Selection};
pub use app::bounds::Overrides;
pub use app::circumstances::Circumstances;
pub use app::forwarded::Forwarded;
pub use app::head::{FieldSection, Head, HeadMemo, LazyHead, OwnedHead, ReadHead, Span};
pub use app::shortage::Shortage;
pub use app::websocket::{Appetite, Closed, Offer, Opening};
pub use app::{Abort, App, Content, Outcome, Pulled, Request};
pub use context::admission::AdmissionConfig;
pub use context::bounds::PathRules;
pub use context::metrics;
pub use context::proxies::{Network, Proxies, Untrusted};
pub use context::request_ids::RequestIdConfig;
pub use context::share::TURN_MS;
pub use context::slow::{SlowNews, SlowRequest, SlowRequests};
pub use context::websockets::{Compression, Origins, WebSocketConfig};
pub use exchange::Unfinished;
pub use id::ExchangeId;
pub use limits::{Limits, OptionalLimits};
pub use mailbox::{Command, Mailbox};
pub use reactor::{Config, Worker};
pub use responder::{Fields, Replaced, Responder};
pub use response::{FilePart, HeldPart, Response};
pub use router::{
    Match, ParameterKind, Parameters, PatternError, Router, pattern_parameters, percent_decode,
};
pub use setting::Setting;
pub use timeouts::Timeouts;
pub use wire::websocket::{Close, CloseCode, Content as MessageContent, Kind as MessageKind};
