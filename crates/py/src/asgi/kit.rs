//! The objects that an application is called with, besides the scope.

use std::sync::Arc;

use pyo3::prelude::*;

use super::exchange::Exchange;
use crate::ffi;
use crate::shared::Shared;

/// Number of kits kept for reuse.
const SPARE_KITS: usize = 64;

/// An exchange, and its two methods as objects of their own.
pub(crate) struct Kit {
    pub(crate) exchange: Py<Exchange>,
    pub(crate) receive: Py<PyAny>,
    pub(crate) send: Py<PyAny>,
}

impl Kit {
    fn new(py: Python<'_>, shared: &Arc<Shared>) -> PyResult<Kit> {
        let exchange = Bound::new(py, Exchange::new(shared))?;
        Ok(Kit {
            receive: exchange.getattr("receive")?.unbind(),
            send: ffi::method(&exchange)?.unbind(),
            exchange: exchange.unbind(),
        })
    }

    /// Whether nothing else references any of it, so that reuse cannot be observed: we hold one reference to each object, and the methods
    /// hold two to the exchange.
    #[inline]
    fn is_ours(&self, py: Python<'_>) -> bool {
        let is_method_ours = |method: &Py<PyAny>| {
            ffi::references(method) == 1 && ffi::first_weak_reference(method.bind(py)) == 0
        };
        is_method_ours(&self.receive)
            && is_method_ours(&self.send)
            && ffi::references(&self.exchange) == 3
    }
}

/// Kits for reuse: making the three objects takes a tenth of a request's time.
#[derive(Default)]
pub(crate) struct Kits {
    spare: Vec<Kit>,
}

impl Kits {
    /// A kit for `request`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        py: Python<'_>,
        shared: &Arc<Shared>,
        request: &server::Request<'_>,
    ) -> PyResult<Kit> {
        let kit = match self.spare.pop() {
            Some(kit) => kit,
            None => Kit::new(py, shared)?,
        };
        kit.exchange.get().fill(py, request)?;
        Ok(kit)
    }

    /// Keeps a kit whose response is complete, if nothing else references it.
    #[inline]
    pub(crate) fn give_back(&mut self, py: Python<'_>, kit: Kit) {
        if self.spare.len() < SPARE_KITS && kit.is_ours(py) {
            self.spare.push(kit);
        }
    }
}
