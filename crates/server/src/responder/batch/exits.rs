//! The transports of all open connections, for sending while one connection is borrowed and the others cannot be reached.

use std::sync::Arc;

use net::Transport;

use crate::id::ConnectionId;

/// Transports by connection key, each with the connection's generation.
#[derive(Default)]
pub(crate) struct Exits(Vec<Option<(u32, Arc<Transport>)>>);

impl Exits {
    /// Adds a connection.
    pub(crate) fn open(&mut self, id: ConnectionId, transport: Arc<Transport>) {
        let key = id.key as usize;
        if self.0.len() <= key {
            self.0.resize_with(key + 1, || None);
        }
        if let Some(place) = self.0.get_mut(key) {
            *place = Some((id.generation, transport));
        }
    }

    /// Removes a connection.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if self.transport(id).is_some()
            && let Some(place) = self.0.get_mut(id.key as usize)
        {
            *place = None;
        }
    }

    /// The transport of a connection, if it is open.
    pub(crate) fn transport(&self, id: ConnectionId) -> Option<&Transport> {
        match self.0.get(id.key as usize)? {
            Some((generation, transport)) if *generation == id.generation => Some(transport),
            _ => None,
        }
    }
}
