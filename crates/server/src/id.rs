//! Identifiers of connections and exchanges. They are never reused.

/// Identifies a connection: its slot among the open ones, and the generation of that slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ConnectionId {
    pub(crate) key: u32,
    pub(crate) generation: u32,
}

/// Identifies a request on a connection while it is open. Never reused. The default is that of no request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ExchangeId {
    pub(crate) connection: u32,
    pub(crate) sequence: u64,
}

impl ExchangeId {
    /// The slot of its connection: a small number, reused after the connection has ended.
    pub fn connection(self) -> u32 {
        self.connection
    }
}
