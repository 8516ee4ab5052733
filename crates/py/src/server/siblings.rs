//! What the workers of one supervisor share, as Python holds it.

use net::{Seat, Siblings as Exchanges};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

/// The workers that accept from the same listening sockets: created before they are forked.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Siblings {
    exchanges: Exchanges,
}

#[pymethods]
impl Siblings {
    #[new]
    fn new(count: usize) -> PyResult<Siblings> {
        Ok(Siblings {
            exchanges: Exchanges::new(count)?,
        })
    }

    /// Marks one as ended.
    fn clear(&self, index: usize) {
        self.exchanges.clear(index);
    }
}

impl Siblings {
    pub(crate) fn seat(&self, index: usize) -> PyResult<Seat> {
        let seat = self.exchanges.seat(index);
        seat.ok_or_else(|| PyIndexError::new_err("there are fewer siblings"))
    }
}
