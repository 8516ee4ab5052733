//! The WebSockets that events can reach.

use std::sync::Arc;

use pyo3::prelude::*;
use server::ExchangeId;

use super::queue::Queue;
use super::socket::Socket;
use crate::ffi::GilCell;

/// By the slot of their connection, which is a small number; a connection may have several.
#[derive(Default)]
pub(crate) struct Sockets {
    by_connection: GilCell<Vec<Queue<Arc<Socket>>>>,
}

impl Sockets {
    /// Adds one.
    pub(super) fn add(&self, py: Python<'_>, socket: &Arc<Socket>) -> PyResult<()> {
        let slot = socket.id.connection() as usize;
        self.by_connection.reach(py, |all| {
            if all.len() <= slot {
                all.resize_with(slot + 1, Queue::default);
            }
            if let Some(own) = all.get_mut(slot) {
                own.push(Arc::clone(socket));
            }
        })
    }

    /// The WebSocket of an exchange.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, id: ExchangeId) -> Option<Arc<Socket>> {
        let find = |all: &mut Vec<Queue<Arc<Socket>>>| {
            let own = all.get(id.connection() as usize)?;
            own.iter().find(|socket| socket.id == id).cloned()
        };
        self.by_connection.with(py, find).flatten()
    }

    /// Removes the WebSocket of an exchange.
    pub(crate) fn remove(&self, py: Python<'_>, id: ExchangeId) -> Option<Arc<Socket>> {
        let remove = |all: &mut Vec<Queue<Arc<Socket>>>| {
            let own = all.get_mut(id.connection() as usize)?;
            let place = own.iter().position(|socket| socket.id == id)?;
            let removed = own.remove(place);
            own.shrink();
            removed
        };
        self.by_connection.with(py, remove).flatten()
    }
}
