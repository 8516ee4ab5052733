//! The transports of all open connections, for sending while one connection is borrowed and the others cannot be reached.

use std::ops::Deref;
use std::sync::Arc;

use net::Transport;

use crate::id::ConnectionId;

/// The transport of a connection, which the connection shares with [`Exits`].
pub(crate) struct Exit {
    transport: Transport,
    /// That of the connection, whose key another one may have later.
    generation: u32,
    /// Over TCP. On a UNIX socket the peer sees the reset of an unfinished response as an ordinary end, and any other one as a reset.
    pub(crate) is_tcp: bool,
}

impl Exit {
    pub(crate) fn new(transport: Transport, id: ConnectionId, is_tcp: bool) -> Exit {
        let generation = id.generation;
        Exit {
            transport,
            generation,
            is_tcp,
        }
    }
}

impl Deref for Exit {
    type Target = Transport;

    #[inline]
    fn deref(&self) -> &Transport {
        &self.transport
    }
}

/// Transports by connection key.
#[derive(Default)]
pub(crate) struct Exits(Vec<Option<Arc<Exit>>>);

impl Exits {
    /// Adds a connection.
    pub(crate) fn open(&mut self, id: ConnectionId, exit: Arc<Exit>) {
        let key = id.key as usize;
        if self.0.len() <= key {
            self.0.resize_with(key + 1, || None);
        }
        if let Some(place) = self.0.get_mut(key) {
            *place = Some(exit);
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
        let exit = self.0.get(id.key as usize)?.as_ref();
        let exit = exit.filter(|exit| exit.generation == id.generation);
        exit.map(|exit| &exit.transport)
    }
}
