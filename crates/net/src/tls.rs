//! TLS (RFC 8446, RFC 5246) by rustls: what a server offers, and the session of one connection.

mod config;
mod session;

pub use self::config::{Pair, TlsConfig, TlsError};
pub(crate) use self::session::Session;
