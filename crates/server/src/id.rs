//! Names of connections and exchanges, which are never used again for another.

/// Names one connection: its place among the open ones, and which of the connections that have had the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ConnectionId {
    pub(crate) key: u32,
    pub(crate) generation: u32,
}

/// Names one request on one connection for as long as it is open; never used again for another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExchangeId {
    pub(crate) connection: u32,
    pub(crate) sequence: u64,
}

impl ExchangeId {
    /// The place of its connection among the open ones: small, and used again for another when this one has ended.
    pub fn connection(self) -> u32 {
        self.connection
    }
}
