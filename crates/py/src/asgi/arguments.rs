//! The objects that an application is called with, besides the scope.

use std::sync::Arc;

use pyo3::prelude::*;

use super::call::AsgiCall;
use super::extensions::Offered;
use super::sending::Sending;
use crate::ffi;
use crate::ffi::reuse::OurReferences;
use crate::run::exchanges::Exchanges;

/// Maximum number kept for reuse.
const SPARE_MAX: usize = 64;

/// The references to a method: ours.
const OF_METHOD: OurReferences = OurReferences::of(1);
/// The references to a call: ours, and those of its methods.
const OF_CALL: OurReferences = OurReferences::of(3);

/// A call, and its two methods as objects of their own.
pub(crate) struct Arguments {
    pub(crate) call: Py<AsgiCall>,
    pub(crate) receive: Py<PyAny>,
    pub(crate) send: Py<PyAny>,
}

impl Arguments {
    fn new(py: Python<'_>, exchanges: &Arc<Exchanges>, offered: Offered) -> PyResult<Arguments> {
        let call = Bound::new(py, AsgiCall::new(exchanges, offered))?;
        Ok(Arguments {
            receive: call.getattr("receive")?.unbind(),
            send: ffi::method::<Sending>(&call)?.unbind(),
            call: call.unbind(),
        })
    }

    /// Whether nothing else references any of it.
    #[inline]
    fn is_ours(&self, py: Python<'_>) -> bool {
        OF_METHOD.are_all(py, &self.receive)
            && OF_METHOD.are_all(py, &self.send)
            && OF_CALL.are_all(py, &self.call)
    }
}

/// Kept for reuse: making the three objects takes a tenth of a request's time.
pub(crate) struct SpareArguments {
    spare: Vec<Arguments>,
    offered: Offered,
}

impl SpareArguments {
    /// For an application that is offered the extensions in `offered`.
    pub(crate) fn new(offered: Offered) -> SpareArguments {
        let spare = Vec::new();
        SpareArguments { spare, offered }
    }

    /// Arguments for `request`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        py: Python<'_>,
        exchanges: &Arc<Exchanges>,
        request: &server::Request<'_>,
    ) -> PyResult<Arguments> {
        let arguments = match self.spare.pop() {
            Some(arguments) => arguments,
            None => Arguments::new(py, exchanges, self.offered)?,
        };
        arguments.call.get().fill(py, request)?;
        Ok(arguments)
    }

    /// Keeps arguments whose response is complete, if nothing else references it.
    #[inline]
    pub(crate) fn give_back(&mut self, py: Python<'_>, arguments: Arguments) {
        if self.spare.len() < SPARE_MAX && arguments.is_ours(py) {
            self.spare.push(arguments);
        }
    }
}
