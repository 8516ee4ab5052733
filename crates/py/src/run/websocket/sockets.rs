//! The WebSockets that events can reach.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use server::ExchangeId;

use super::socket::Socket;
use crate::ffi::GilCell;

/// By the slot of their connection, which is a small number.
#[derive(Default)]
pub(crate) struct Sockets {
    all: GilCell<All>,
}

#[derive(Default)]
struct All {
    /// One of each connection: most have no other.
    first: Vec<Option<Arc<Socket>>>,
    /// The others of connections of HTTP/2 that have several.
    others: HashMap<u32, Vec<Arc<Socket>>>,
}

impl Sockets {
    /// Adds one.
    pub(super) fn add(&self, py: Python<'_>, socket: &Arc<Socket>) -> PyResult<()> {
        self.all.reach(py, |all| all.add(socket))
    }

    /// The WebSocket of an exchange.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, id: ExchangeId) -> Option<Arc<Socket>> {
        self.all.with(py, |all| all.get(id).cloned()).flatten()
    }

    /// Whether there is one, whose handler has not ended.
    pub(crate) fn is_served(&self, py: Python<'_>, id: ExchangeId) -> bool {
        self.get(py, id).is_some_and(|socket| socket.is_served(py))
    }

    /// Removes the WebSocket of an exchange.
    pub(crate) fn remove(&self, py: Python<'_>, id: ExchangeId) -> Option<Arc<Socket>> {
        self.all.with(py, |all| all.remove(id)).flatten()
    }
}

impl All {
    fn add(&mut self, socket: &Arc<Socket>) {
        let slot = socket.id.connection();
        if self.first.len() <= slot as usize {
            self.first.resize_with(slot as usize + 1, || None);
        }
        match self.first.get_mut(slot as usize) {
            Some(place @ None) => *place = Some(Arc::clone(socket)),
            _ => self
                .others
                .entry(slot)
                .or_default()
                .push(Arc::clone(socket)),
        }
    }

    #[inline]
    fn get(&self, id: ExchangeId) -> Option<&Arc<Socket>> {
        let first = self.first.get(id.connection() as usize)?.as_ref();
        match first.filter(|socket| socket.id == id) {
            None if !self.others.is_empty() => self.other(id),
            found => found,
        }
    }

    fn other(&self, id: ExchangeId) -> Option<&Arc<Socket>> {
        let mut others = self.others.get(&id.connection())?.iter();
        others.find(|socket| socket.id == id)
    }

    fn remove(&mut self, id: ExchangeId) -> Option<Arc<Socket>> {
        let slot = id.connection();
        let first = self.first.get_mut(slot as usize)?;
        if first.as_ref().is_some_and(|socket| socket.id == id) {
            return first.take();
        }
        let others = self.others.get_mut(&slot)?;
        let place = others.iter().position(|socket| socket.id == id)?;
        let removed = others.swap_remove(place);
        if others.is_empty() {
            self.others.remove(&slot);
        }
        Some(removed)
    }
}
