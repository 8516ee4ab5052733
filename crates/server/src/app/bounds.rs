//! Bounds of a route that differ from those of the server.

/// What bounds a request, as far as it is not what the server's settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// Instead of `body_bytes_max`.
    pub body_bytes_max: Option<u64>,
    /// Instead of `handler_timeout_ms`; 0 = no limit.
    pub handler_timeout_ms: Option<u64>,
}
